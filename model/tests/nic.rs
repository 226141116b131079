//! The NIC alone: no kernel, no memory of this process. Rings lie in pages of an address space of
//! their own, as they do in a guest's memory.

use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::doorbell::{
    ArmDoorbell, ArmSequence, ArmWord, CompletionQueueWord, CounterWord,
};
use doorbell::mlx5::abi::wqe::{
    CompletionMode, ControlFlags, ControlSegment, DataSegment, FenceMode, Opcode,
    RemoteAddressSegment,
};
use doorbell_model::connectx::{
    Capabilities, CompletionQueueContext, Death, Event, EventSink, Network, NicId, Path,
    QueuePairAttributes, QueuePairContext, Refused, Ring, Service, State, Store, Transition,
};
use doorbell_model::fabric::Address;
use doorbell_model::memory::{Access, AddressSpace, Pages, Registration, TestMemory};
use doorbell_model::rc::Mtu;
use std::sync::{Arc, Mutex};
use zerocopy::IntoBytes;

/// Pages of 4 KiB, which lie backwards in the address space: page `n` of a ring is not where a
/// ring in one piece would have it.
const PAGE: u64 = 4096;
const PAGES: u64 = 16;
const BASE: u64 = 0x1_0000_0000;

fn page(number: u64) -> u64 {
    BASE + (PAGES - 1 - number) * 2 * PAGE
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl EventSink for Recorder {
    fn completion(&self, queue: u32) {
        self.0.lock().unwrap().push(format!("completion of {queue:#x}"));
    }

    fn asynchronous(&self, event: Event) {
        self.0.lock().unwrap().push(event.to_string());
    }
}

struct Machine {
    network: Network,
    nic: NicId,
    memory: Arc<TestMemory>,
    events: Recorder,
    uar: u32,
    domain: u32,
    queue: u32,
    pair: u32,
    key: u32,
}

/// Where things lie: in which page, and how far into it.
const COMPLETIONS: (u64, u64) = (0, 0);
const RINGS: (u64, u64) = (2, 4096 - 128);
const RECORDS: u64 = 6;
const DATA: u64 = 8;
const DATA_START: u64 = 0x7000_0000_0000;

fn list(first: u64, count: u64) -> Pages {
    Pages::List { log_size: 12, addresses: (first..first + count).map(page).collect() }
}

impl Machine {
    fn new(network: &Network, gid: [u8; 16]) -> Self {
        let mut memory = TestMemory::new();
        for number in 0..PAGES {
            memory.add(page(number), PAGE as usize);
        }
        let memory = Arc::new(memory);
        let events = Recorder::default();
        let space: Arc<dyn AddressSpace> = memory.clone();
        let nic = network.add_nic(Capabilities::default(), space, Box::new(events.clone()));
        let (uar, domain, queue, pair, key) = network
            .with_nic(nic, |nic, fabric, _| {
                nic.bind(Address::Gid(gid), fabric);
                let uar = nic.allocate_uar()?;
                let domain = nic.create_domain()?;
                let queue = nic.create_completion_queue(CompletionQueueContext {
                    // Two pages of 64-byte completions.
                    ring: Ring::paged(list(COMPLETIONS.0, 2), COMPLETIONS.1, 8192),
                    log_size: 7,
                    entry_bytes: 64,
                    record: page(RECORDS),
                    uar,
                    ignore_overrun: false,
                })?;
                // 8 receives of 16 bytes, then 4 send slots, over the end of a page.
                let rings = Ring::paged(list(RINGS.0, 2), RINGS.1, 128 + 256);
                let pair = nic.create_queue_pair(QueuePairContext {
                    service: Service::ReliableConnected,
                    shared_receives: None,
                    protection_domain: domain,
                    send_queue: queue,
                    receive_queue: queue,
                    send_ring: Some(rings.part(128, 256)),
                    receive_ring: Some(rings.part(0, 128)),
                    log_send_slots: 2,
                    log_receive_entries: 3,
                    log_receive_stride: 4,
                    record: page(RECORDS) + 64,
                    uar,
                    user_index: 0xffffff,
                })?;
                let key = nic.create_key(
                    Registration {
                        protection_domain: domain,
                        access: Access::ALL,
                        start: DATA_START + 100,
                        length: 4 * PAGE - 100,
                        pages: list(DATA, 4),
                        relaxed: false,
                        remote_invalidate: false,
                    },
                    Some(0x5a),
                )?;
                Ok::<_, Refused>((uar, domain, queue, pair, key))
            })
            .unwrap()
            .unwrap();
        Machine { network: network.clone(), nic, memory, events, uar, domain, queue, pair, key }
    }

    fn space(&self) -> &dyn AddressSpace {
        &*self.memory
    }

    fn modify(
        &self,
        transition: Transition,
        attributes: &QueuePairAttributes,
    ) -> Result<(), Refused> {
        self.network
            .with_nic(self.nic, |nic, fabric, now| {
                nic.modify_queue_pair(self.pair, transition, attributes, now, fabric)
            })
            .unwrap()
    }

    fn connect(&self, peer: &Machine, path: Path) {
        let attributes = QueuePairAttributes {
            access: Some(Access::ALL),
            path: Some(path),
            mtu: Some(Mtu::B1024),
            peer: Some(peer.pair),
            queue_key: None,
            expected_psn: Some(7),
            responder_resources: Some(4),
            rnr_timer: Some(12),
            first_psn: Some(7),
            max_outstanding_reads: Some(4),
            timeout: Some(14),
            retry_count: Some(7),
            rnr_retry: Some(7),
            counter_set: None,
        };
        self.modify(Transition::ResetToInit, &attributes).unwrap();
        self.modify(Transition::InitToReadyToReceive, &attributes).unwrap();
        self.modify(Transition::ReadyToReceiveToReadyToSend, &attributes).unwrap();
    }

    /// Writes a one-slot entry into send slot `index`, and announces it.
    fn post(&self, index: u16, entry: &[u8]) {
        let at = RINGS.1 + 128 + u64::from(index % 4) * 64;
        let address = page(RINGS.0 + at / PAGE) + at % PAGE;
        self.space().write(address, entry).unwrap();
        let counter = CounterWord::new().with_counter(index + 1);
        self.space().write(page(RECORDS) + 68, counter.as_bytes()).unwrap();
        let value = u64::from_ne_bytes(entry[..8].try_into().unwrap());
        self.network.store(self.nic, Store::Word { page: self.uar, offset: 0x800, value });
    }

    fn completion(&self, index: u64) -> [u8; 64] {
        let mut bytes = [0; 64];
        self.space().read(page(index * 64 / PAGE) + index * 64 % PAGE, &mut bytes).unwrap();
        bytes
    }
}

fn pair() -> (Network, Machine, Machine) {
    let network = Network::stepped(9);
    let gids = [[1; 16], [2; 16]];
    let machines = gids.map(|gid| Machine::new(&network, gid));
    let [a, b] = machines;
    let way = |from: [u8; 16], to: [u8; 16]| Path {
        source: Address::Gid(from),
        destination: Address::Gid(to),
    };
    a.connect(&b, way(gids[0], gids[1]));
    b.connect(&a, way(gids[1], gids[0]));
    (network, a, b)
}

fn write_entry(from: &Machine, to: &Machine, index: u16, length: u32) -> Vec<u8> {
    let flags = ControlFlags::of(CompletionMode::Always, false, FenceMode::None);
    let number = U24::truncate(from.pair);
    let control = ControlSegment::new(Opcode::Write, index, number, 3, flags, 0);
    let mut entry = control.as_bytes().to_vec();
    let target = RemoteAddressSegment::new(DATA_START + 4000, to.key);
    entry.extend_from_slice(target.as_bytes());
    let source = DataSegment::new(DATA_START + 4090, from.key, length);
    entry.extend_from_slice(source.as_bytes());
    entry
}

#[test]
fn paged_rings_and_paged_regions_work_across_page_ends() {
    let (network, a, b) = pair();
    assert_eq!(a.key & 0xff, 0x5a, "the key's low byte is the driver's");
    // 5000 bytes from 6 bytes before the end of a page, to 96 bytes before the end of another.
    let data: Vec<u8> = (0..5000).map(|at| (at * 11) as u8).collect();
    a.space().write(page(DATA) + 4090, &data[..6]).unwrap();
    a.space().write(page(DATA + 1), &data[6..4102]).unwrap();
    a.space().write(page(DATA + 2), &data[4102..]).unwrap();
    for index in 0..200 {
        a.post(index, &write_entry(&a, &b, index, 5000));
        assert!(network.run_until_idle(100_000));
        let completion = a.completion(u64::from(index % 128));
        assert_eq!(completion[60..62], index.to_be_bytes(), "entry {index}");
        assert_eq!(completion[63], u8::from(index >= 128), "the pass of entry {index}");
        // Consumed.
        let consumer = (u32::from(index) + 1).to_be_bytes();
        a.space().write(page(RECORDS), &consumer).unwrap();
    }
    let mut landed = vec![0; 5000];
    let (first, rest) = landed.split_at_mut(96);
    b.space().read(page(DATA) + 4000, first).unwrap();
    let (second, third) = rest.split_at_mut(4096);
    b.space().read(page(DATA + 1), second).unwrap();
    b.space().read(page(DATA + 2), third).unwrap();
    assert_eq!(landed, data);
}

#[test]
fn arming_through_the_bus_raises_a_completion_event() {
    let (network, a, b) = pair();
    let arm = ArmWord::new().with_sequence(ArmSequence::of(0));
    let cqn = CompletionQueueWord::new().with_number(U24::truncate(a.queue));
    let value = ArmDoorbell { arm, cqn }.to_memory();
    network.store(a.nic, Store::Word { page: a.uar, offset: 0x20, value });
    a.post(0, &write_entry(&a, &b, 0, 8));
    assert!(network.run_until_idle(100_000));
    assert_eq!(*a.events.0.lock().unwrap(), [format!("completion of {:#x}", a.queue)]);
}

#[test]
fn registers_that_are_memory_lose_no_arm_not_even_a_first_one_of_zero() {
    let (network, a, b) = pair();
    let other = network.with_nic(a.nic, |nic, _, _| {
        nic.watch_uar(a.uar)?;
        nic.create_completion_queue(CompletionQueueContext {
            ring: Ring::paged(list(DATA + 4, 1), 0, 64),
            log_size: 0,
            entry_bytes: 64,
            record: page(RECORDS) + 128,
            uar: a.uar,
            ignore_overrun: false,
        })
    });
    other.unwrap().unwrap();
    let arm = ArmWord::new().with_sequence(ArmSequence::of(0));
    assert_eq!(arm.to_memory(), 0);
    // Both at once, as two stores to one register would hide each other.
    for record in [page(RECORDS), page(RECORDS) + 128] {
        a.space().write(record + 4, arm.as_bytes()).unwrap();
    }
    a.post(0, &write_entry(&a, &b, 0, 8));
    assert!(network.run_until_idle(100_000));
    assert_eq!(*a.events.0.lock().unwrap(), [format!("completion of {:#x}", a.queue)]);
    let arms = || network.with_nic(a.nic, |nic, _, _| nic.counters().arm_doorbells).unwrap();
    assert_eq!(arms(), 2);
    // The same arm again, whose value is the same.
    a.space().write(page(RECORDS) + 4, arm.as_bytes()).unwrap();
    assert!(network.run_until_idle(100_000));
    assert_eq!(arms(), 3);
    assert!(network.run_until_idle(100_000));
    assert_eq!(arms(), 3);
}

#[test]
fn what_was_executed_is_acknowledged_although_its_owner_leaves_at_once() {
    let (network, a, b) = pair();
    a.space().write(page(DATA) + 4090, &[0xaa; 6]).unwrap();
    a.post(0, &write_entry(&a, &b, 0, 6));
    let landed = || {
        let mut byte = [0];
        b.space().read(page(DATA) + 4000, &mut byte).unwrap();
        byte == [0xaa]
    };
    assert!(network.run_until(1000, landed));
    network
        .with_nic(b.nic, |nic, fabric, now| nic.destroy_queue_pair(b.pair, now, fabric))
        .unwrap()
        .unwrap();
    assert!(network.run_until_idle(100_000));
    // A success: the opcode of requests, not that of errors.
    assert_eq!(a.completion(0)[63] >> 4, 0);
}

#[test]
fn objects_that_others_stand_on_are_busy_and_numbers_that_are_not_there_unknown() {
    let (network, a, _b) = pair();
    let refused =
        |with: &dyn Fn(&mut doorbell_model::connectx::Connectx) -> Result<(), Refused>| {
            network.with_nic(a.nic, |nic, _, _| with(nic)).unwrap().unwrap_err()
        };
    let busy = refused(&|nic| nic.destroy_domain(a.domain));
    assert_eq!(busy, Refused::Busy { what: "protection domain", number: a.domain });
    let busy = refused(&|nic| nic.destroy_completion_queue(a.queue));
    assert_eq!(busy, Refused::Busy { what: "completion queue", number: a.queue });
    let unknown = refused(&|nic| nic.destroy_completion_queue(1));
    assert_eq!(unknown.to_string(), "there is no completion queue 0x1");
    let wrong = a.modify(Transition::InitToReadyToReceive, &QueuePairAttributes::default());
    assert!(matches!(wrong, Err(Refused::State { state: State::ReadyToSend, .. })));
    let gone = network.with_nic(a.nic, |nic, fabric, now| {
        nic.destroy_key(a.key, fabric)?;
        nic.destroy_queue_pair(a.pair, now, fabric)?;
        nic.destroy_completion_queue(a.queue)?;
        nic.destroy_domain(a.domain)?;
        nic.free_uar(a.uar)?;
        Ok::<_, Refused>(nic.objects())
    });
    assert_eq!(gone, Some(Ok([0; 5])));
}

#[test]
fn a_change_without_what_it_needs_leaves_the_queue_pair_as_it_was() {
    let network = Network::stepped(1);
    let machine = Machine::new(&network, [1; 16]);
    let nothing = QueuePairAttributes::default();
    machine.modify(Transition::ResetToInit, &nothing).unwrap();
    let missing = machine.modify(Transition::InitToReadyToReceive, &nothing);
    assert!(matches!(missing, Err(Refused::Missing { what: "path", .. })));
    let state = network.with_nic(machine.nic, |nic, _, _| nic.queue_pair_state(machine.pair));
    assert_eq!(state, Some(Some(State::Init)));
}

#[test]
fn a_ring_whose_memory_is_gone_fails_its_queue_pair_and_nothing_else() {
    let network = Network::stepped(2);
    let machine = Machine::new(&network, [1; 16]);
    let made = network.with_nic(machine.nic, |nic, _, _| {
        nic.create_queue_pair(QueuePairContext {
            service: Service::ReliableConnected,
            shared_receives: None,
            protection_domain: machine.domain,
            send_queue: machine.queue,
            receive_queue: machine.queue,
            send_ring: Some(Ring::flat(0xdead_0000, 256)),
            receive_ring: None,
            log_send_slots: 2,
            log_receive_entries: 0,
            log_receive_stride: 0,
            record: page(RECORDS) + 128,
            uar: machine.uar,
            user_index: 5,
        })
    });
    let machine = Machine { pair: made.unwrap().unwrap(), ..machine };
    let own = Address::Gid([1; 16]);
    machine.connect(&machine, Path { source: own, destination: own });
    machine.space().write(page(RECORDS) + 132, &[0, 0, 0, 1]).unwrap();
    let control =
        ControlSegment::new(Opcode::Nop, 0, U24::truncate(machine.pair), 1, ControlFlags::new(), 0);
    let store = Store::Word { page: machine.uar, offset: 0xa00, value: control.doorbell() };
    network.store(machine.nic, store);
    assert!(network.run_until_idle(1000));
    let state = network.with_nic(machine.nic, |nic, _, _| nic.queue_pair_state(machine.pair));
    assert_eq!(state, Some(Some(State::Error)));
    let completion = machine.completion(0);
    assert_eq!((completion[63] >> 4, completion[55]), (13, 2), "a local operation error");
}

#[test]
fn a_dead_nic_answers_nothing_but_destroys() {
    let (network, a, _b) = pair();
    network.with_nic(a.nic, |nic, fabric, now| nic.die(Death::Silent, now, fabric));
    let dead = network.with_nic(a.nic, |nic, _, _| nic.create_domain()).unwrap();
    assert_eq!(dead, Err(Refused::Dead));
    assert_eq!(*a.events.0.lock().unwrap(), ["the device failed"]);
    let gone =
        network.with_nic(a.nic, |nic, fabric, now| nic.destroy_queue_pair(a.pair, now, fabric));
    assert_eq!(gone, Some(Ok(())));
}

//! Two virtual NICs with one queue pair each, connected, in memory that is audited.
//!
//! Everything has the same address, key and number on both sides and in every run, so that a fuzzer
//! can learn them.

use crate::audit::Audited;
use crate::input::Input;
use doorbell::mlx5::abi::doorbell::{CounterWord, SendDoorbell};
use doorbell::mlx5::abi::uar::SEND_OFFSET;
use doorbell::mlx5::abi::wqe::{EntrySize, OpcodeWord};
use doorbell_model::connectx::{
    Capabilities, CompletionQueueContext, Connectx, Event, EventSink, Network, NicId, Path,
    QueuePairAttributes, QueuePairContext, Refused, Ring, Service, State, Store, Transition,
};
use doorbell_model::fabric::{Address, Arrival, Fabric, Loopback, Message, MessageArrival, Port};
use doorbell_model::memory::{Access, Pages, Registration, TestMemory};
use doorbell_model::rc::{Mtu, Packet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::IntoBytes;

/// Where rings and records are, as device addresses, and how large.
pub(crate) const SENDS: Range<u64> = 0x1_0000..0x1_1000;
pub(crate) const RECEIVES: Range<u64> = 0x1_2000..0x1_2400;
const COMPLETIONS: Range<u64> = 0x1_4000..0x1_5000;
const RECORD: Range<u64> = 0x1_6000..0x1_6008;
const COMPLETION_RECORD: Range<u64> = 0x1_6040..0x1_6048;
const RINGS: Range<u64> = 0x1_0000..0x1_7000;
/// Slots of the send ring, and entries of the receive ring, each of 64 bytes.
pub(crate) const SLOTS: u16 = 64;
pub(crate) const ENTRIES: u16 = 16;

/// Where regions are: each of [`REGION`] bytes, and as many after it that are nobody's.
const REGIONS: u64 = 0x10_0000;
pub(crate) const REGION: u64 = 0x800;

/// What a region is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Its own side only.
    Local,
    /// Its own side may read it.
    Constant,
    RemoteWrite,
    RemoteRead,
    /// Numbered from 0 on.
    RemoteReadWrite,
    RemoteAtomic,
    /// Every right, in pages of 256 bytes that are out of order.
    Paged,
    /// Every right, in another protection domain.
    Foreign,
}

/// Every region, in the order of their places.
pub(crate) const KINDS: [Kind; 8] = [
    Kind::Local,
    Kind::Constant,
    Kind::RemoteWrite,
    Kind::RemoteRead,
    Kind::RemoteReadWrite,
    Kind::RemoteAtomic,
    Kind::Paged,
    Kind::Foreign,
];

impl Kind {
    fn access(self) -> Access {
        let local = Access { local_write: true, ..Access::default() };
        match self {
            Kind::Local => local,
            Kind::Constant => Access::default(),
            Kind::RemoteWrite => Access { remote_write: true, ..local },
            Kind::RemoteRead => Access { remote_read: true, ..local },
            Kind::RemoteReadWrite => Access { remote_write: true, remote_read: true, ..local },
            Kind::RemoteAtomic => Access { remote_atomic: true, ..local },
            Kind::Paged | Kind::Foreign => Access::ALL,
        }
    }

    /// Where its bytes are.
    pub(crate) fn bytes(self) -> Range<u64> {
        let start = REGIONS + self as u64 * 2 * REGION;
        start..start + REGION
    }

    /// The address by which requests name its first byte.
    pub(crate) fn address(self) -> u64 {
        match self {
            Kind::RemoteReadWrite => 0,
            Kind::Paged => 0x7fff_0040,
            _ => self.bytes().start,
        }
    }

    fn pages(self) -> Pages {
        let start = self.bytes().start;
        match self {
            // The first byte is 0x40 into the first page, and the last page is not used up.
            Kind::Paged => Pages::List {
                log_size: 8,
                addresses: [7, 0, 2, 1, 5, 3, 6].map(|page| start + page * 256).into(),
            },
            _ => Pages::Flat { device_start: start },
        }
    }

    fn length(self) -> u64 {
        if self == Kind::Paged { 6 * 256 } else { REGION }
    }
}

/// The two sides, each with everything.
pub(crate) struct Bench {
    pub(crate) network: Network,
    pub(crate) sides: [Side; 2],
    deaf: Arc<AtomicU32>,
    mtu: Mtu,
    /// What each side lets its peer do.
    rights: Access,
    #[cfg(test)]
    heard: Heard,
}

/// A NIC with a queue pair.
pub(crate) struct Side {
    pub(crate) nic: NicId,
    pub(crate) space: Arc<Audited>,
    address: Address,
    domains: [u32; 2],
    pub(crate) page: u32,
    queue: u32,
    pub(crate) pair: u32,
    /// The keys of the regions, `None` once they were taken away.
    keys: [Option<u32>; KINDS.len()],
    /// Send slots and receives that were posted as they should be.
    pub(crate) sent: u16,
    pub(crate) received: u16,
    consumed: u32,
}

/// Events of no interest.
struct Unheard;

impl EventSink for Unheard {
    fn completion(&self, _: u32) {}

    fn asynchronous(&self, _: Event) {}
}

/// The loopback, whose ports can be muted.
struct Muted {
    inner: Loopback,
    /// A bit for each port whose packets are lost.
    deaf: Arc<AtomicU32>,
    /// Packets that were sent, by the port that sent them, for who writes them down.
    #[cfg(test)]
    heard: Heard,
}

#[cfg(test)]
type Heard = Arc<std::sync::Mutex<Vec<(usize, Vec<u8>)>>>;

impl Fabric for Muted {
    fn attach(&mut self) -> Port {
        self.inner.attach()
    }

    fn detach(&mut self, port: Port) {
        self.inner.detach(port);
    }

    fn bind(&mut self, port: Port, address: Address) {
        self.inner.bind(port, address);
    }

    fn unbind(&mut self, port: Port, address: Address) {
        self.inner.unbind(port, address);
    }

    fn send(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        packet: Packet,
    ) {
        #[cfg(test)]
        {
            let mut bytes = Vec::new();
            packet.encode(&mut bytes).expect("its memory is there");
            self.heard.lock().expect("not poisoned").push((1 - port.0 as usize, bytes));
        }
        if self.deaf.load(Ordering::Relaxed) & 1 << port.0 == 0 {
            self.inner.send(now, port, source, destination, packet);
        }
    }

    fn send_message(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        message: Message,
    ) {
        self.inner.send_message(now, port, source, destination, message);
    }

    fn receive_message(&mut self, now: u64, port: Port) -> Option<MessageArrival> {
        self.inner.receive_message(now, port)
    }

    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        self.inner.receive(now, port)
    }

    fn next_arrival(&self) -> Option<u64> {
        self.inner.next_arrival()
    }

    fn settle(&mut self, port: Port) {
        self.inner.settle(port);
    }
}

/// The first packet sequence number, both ways.
pub(crate) const FIRST_PSN: u32 = 0xff_fffe;

impl Bench {
    /// Two connected sides. The input says how, and in which order things happen.
    pub(crate) fn new(input: &Input) -> Self {
        let (seed, how) = (input.byte(), input.byte());
        let deaf = Arc::new(AtomicU32::new(0));
        #[cfg(test)]
        let heard = Heard::default();
        let fabric = Muted {
            inner: Loopback::new(),
            deaf: deaf.clone(),
            #[cfg(test)]
            heard: heard.clone(),
        };
        let network = Network::builder().stepped(seed.into()).fabric(fabric).build();
        let sides = [1, 2].map(|lid| Side::new(&network, Address::Lid(lid)));
        let mtu = if how & 1 == 0 { Mtu::B256 } else { Mtu::B1024 };
        let rights = Access {
            local_write: false,
            remote_write: how & 2 == 0,
            remote_read: how & 4 == 0,
            remote_atomic: how & 8 == 0,
        };
        let mut bench = Bench {
            network,
            sides,
            deaf,
            mtu,
            rights,
            #[cfg(test)]
            heard,
        };
        bench.connect();
        bench
    }

    /// Lets side `side` do to its own regions what their access allows: what entries of its own
    /// ring, whatever they are, can ask for.
    pub(crate) fn grant_own(&self, side: usize) {
        for kind in KINDS.into_iter().filter(|&kind| kind != Kind::Foreign) {
            self.sides[side].space.grant(kind.bytes(), true, kind.access().local_write);
        }
    }

    /// Lets the peer of side `side` do to its regions what their access and the queue pair allow.
    pub(crate) fn grant_peer(&self, side: usize) {
        for kind in KINDS.into_iter().filter(|&kind| kind != Kind::Foreign) {
            let (access, rights) = (kind.access(), self.rights);
            let atomic = access.remote_atomic && rights.remote_atomic;
            let reads = atomic || access.remote_read && rights.remote_read;
            let writes = atomic || access.remote_write && rights.remote_write;
            self.sides[side].space.grant(kind.bytes(), reads, writes);
        }
    }

    /// Calls `with` with a side's NIC.
    pub(crate) fn nic<R>(
        &self,
        side: usize,
        with: impl FnOnce(&mut Connectx, &mut dyn Fabric, u64) -> R,
    ) -> R {
        self.network.with_nic(self.sides[side].nic, with).expect("the NIC is there")
    }

    /// Resets both queue pairs, and connects them to each other.
    pub(crate) fn connect(&mut self) {
        for side in [0, 1] {
            let (Side { address, pair, .. }, peer) = (&self.sides[side], &self.sides[1 - side]);
            let attributes = QueuePairAttributes {
                queue_key: None,
                access: Some(self.rights),
                path: Some(Path { source: *address, destination: peer.address }),
                mtu: Some(self.mtu),
                peer: Some(peer.pair),
                expected_psn: Some(FIRST_PSN),
                responder_resources: Some(2),
                rnr_timer: Some(1),
                first_psn: Some(FIRST_PSN),
                max_outstanding_reads: Some(2),
                timeout: Some(1),
                retry_count: Some(2),
                rnr_retry: Some(2),
                counter_set: None,
            };
            for transition in [
                Transition::ToReset,
                Transition::ResetToInit,
                Transition::InitToReadyToReceive,
                Transition::ReadyToReceiveToReadyToSend,
            ] {
                self.modify(side, *pair, transition, &attributes).expect("the NIC takes it");
            }
            self.sides[side].restart();
        }
    }

    fn modify(
        &self,
        side: usize,
        pair: u32,
        transition: Transition,
        attributes: &QueuePairAttributes,
    ) -> Result<(), Refused> {
        self.nic(side, |nic, fabric, now| {
            nic.modify_queue_pair(pair, transition, attributes, now, fabric)
        })
    }

    /// Takes a side's queue pair down.
    pub(crate) fn fail(&self, side: usize) {
        let attributes = QueuePairAttributes::default();
        let failed = self.modify(side, self.sides[side].pair, Transition::ToError, &attributes);
        failed.expect("every queue pair can fail");
        let state = self.nic(side, |nic, _, _| nic.queue_pair_state(self.sides[side].pair));
        assert_eq!(state, Some(State::Error));
    }

    /// Packets from the ports with a bit in `deaf` are lost from now on.
    pub(crate) fn mute(&self, deaf: u8) {
        self.deaf.store(deaf.into(), Ordering::Relaxed);
    }

    /// Sends `packet` to side `to` as if its peer had, or as if somebody else had.
    pub(crate) fn inject(&self, to: usize, packet: Packet, from_peer: bool) {
        let (target, peer) = (&self.sides[to], &self.sides[1 - to]);
        let source = if from_peer { peer.address } else { Address::Lid(3) };
        let deaf = self.deaf.swap(0, Ordering::Relaxed);
        self.nic(1 - to, |nic, fabric, now| {
            fabric.send(now, nic.port(), source, target.address, packet);
        });
        self.deaf.store(deaf, Ordering::Relaxed);
    }

    /// The same with a message that nobody acknowledges.
    pub(crate) fn inject_message(&self, to: usize, message: Message, from_peer: bool) {
        let (target, peer) = (&self.sides[to], &self.sides[1 - to]);
        let source = if from_peer { peer.address } else { Address::Lid(3) };
        self.nic(1 - to, |nic, fabric, now| {
            fabric.send_message(now, nic.port(), source, target.address, message);
        });
    }

    /// Takes a region's key away. Its bytes are nobody's when this returns.
    pub(crate) fn take_key(&mut self, side: usize, kind: Kind) {
        if let Some(key) = self.sides[side].keys[kind as usize].take() {
            self.nic(side, |nic, fabric, _| nic.destroy_key(key, fabric)).expect("it is there");
            self.sides[side].space.revoke(kind.bytes());
        }
    }

    /// Stores to a register of a side's NIC.
    pub(crate) fn store(&self, side: usize, store: Store) {
        self.network.store(self.sides[side].nic, store);
    }

    /// Posts a send entry as a driver does: ring, record, register.
    pub(crate) fn post(&mut self, side: usize, opcode: u8, flags: u8, rest: &[u8]) {
        let this = &mut self.sides[side];
        let segments = 1 + rest.len().div_ceil(16) as u8;
        let mut entry = control(this.pair, this.sent, opcode, segments);
        entry.extend_from_slice(&[0, 0, 0, flags, 0x11, 0x22, 0x33, 0x44]);
        entry.extend_from_slice(rest);
        let doorbell = u64::from_ne_bytes(entry[..8].try_into().expect("8 bytes"));
        for piece in entry.chunks(64) {
            let at = SENDS.start + u64::from(this.sent % SLOTS) * 64;
            this.write(at, piece);
            this.sent = this.sent.wrapping_add(1);
        }
        this.announce_sends(this.sent);
        let store = Store::Word { page: this.page, offset: SEND_OFFSET as u32, value: doorbell };
        self.store(side, store);
    }

    /// Posts a receive of up to four pieces.
    pub(crate) fn receive(&mut self, side: usize, pieces: &[u8]) {
        let this = &mut self.sides[side];
        let mut entry = [0; 64];
        // A key that ends the list.
        entry[4..8].copy_from_slice(&0x100u32.to_be_bytes());
        entry[..pieces.len()].copy_from_slice(pieces);
        if pieces.len() < 64 {
            entry[pieces.len() + 4..pieces.len() + 8].copy_from_slice(&0x100u32.to_be_bytes());
        }
        this.write(RECEIVES.start + u64::from(this.received % ENTRIES) * 64, &entry);
        this.received = this.received.wrapping_add(1);
        this.announce_receives(this.received);
    }

    /// The packets that were sent so far, each with the side that it was sent to.
    #[cfg(test)]
    pub(crate) fn heard(&self) -> Vec<(usize, Vec<u8>)> {
        self.heard.lock().expect("not poisoned").clone()
    }

    /// Steps until nothing is left to do, which must not take more than `most` steps.
    pub(crate) fn rest(&self, most: u64) {
        assert!(self.network.run_until_idle(most), "the NICs do not come to rest");
    }

    /// Destroys everything: nothing may be left.
    pub(crate) fn end(mut self) {
        for side in [0, 1] {
            KINDS.into_iter().for_each(|kind| self.take_key(side, kind));
            let Side { pair, queue, page, domains, .. } = self.sides[side];
            let left = self.nic(side, |nic, fabric, now| {
                nic.destroy_queue_pair(pair, now, fabric)?;
                nic.destroy_completion_queue(queue)?;
                nic.free_uar(page)?;
                domains.into_iter().try_for_each(|domain| nic.destroy_domain(domain))?;
                Ok::<_, Refused>(nic.objects())
            });
            assert_eq!(left, Ok([0; 5]));
            self.sides[side].space.revoke(0..u64::MAX);
        }
        self.rest(10_000);
    }
}

/// The first 8 bytes of a send entry, which also ring its doorbell.
pub(crate) fn control(pair: u32, index: u16, opcode: u8, segments: u8) -> Vec<u8> {
    let doorbell = SendDoorbell {
        opmod_idx_opcode: OpcodeWord::new().with_opcode(opcode).with_index(index),
        qpn_ds: EntrySize::of(doorbell::mlx5::abi::U24::truncate(pair), segments),
    };
    doorbell.as_bytes().to_vec()
}

/// A data segment.
pub(crate) fn piece(kind: Kind, key: u32, at: u64, length: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&length.to_be_bytes());
    bytes[4..8].copy_from_slice(&key.to_be_bytes());
    bytes[8..].copy_from_slice(&(kind.address() + at).to_be_bytes());
    bytes
}

/// A remote address segment.
pub(crate) fn remote(kind: Kind, key: u32, at: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&(kind.address() + at).to_be_bytes());
    bytes[8..12].copy_from_slice(&key.to_be_bytes());
    bytes
}

impl Side {
    fn new(network: &Network, address: Address) -> Self {
        let mut memory = TestMemory::new();
        memory.add(RINGS.start, (RINGS.end - RINGS.start) as usize);
        memory.add(REGIONS - REGION, ((2 * KINDS.len() as u64 + 1) * REGION) as usize);
        let space = Arc::new(Audited::new(memory));
        space.grant(SENDS, true, false);
        space.grant(RECEIVES, true, false);
        space.grant(COMPLETIONS, false, true);
        space.grant(RECORD, true, false);
        space.grant(COMPLETION_RECORD, true, false);
        let nic = network.add_nic(Capabilities::default(), space.clone(), Box::new(Unheard));
        let made = network.with_nic(nic, |nic, fabric, _| {
            nic.bind(address, fabric);
            let domains = [nic.create_domain()?, nic.create_domain()?];
            let page = nic.allocate_uar()?;
            let queue = nic.create_completion_queue(CompletionQueueContext {
                ring: ring(COMPLETIONS),
                log_size: 6,
                entry_bytes: 64,
                record: COMPLETION_RECORD.start,
                uar: page,
                ignore_overrun: false,
            })?;
            let pair = nic.create_queue_pair(QueuePairContext {
                service: Service::ReliableConnected,
                shared_receives: None,
                protection_domain: domains[0],
                send_queue: queue,
                receive_queue: queue,
                send_ring: Some(ring(SENDS)),
                receive_ring: Some(ring(RECEIVES)),
                log_send_slots: SLOTS.ilog2() as u8,
                log_receive_entries: ENTRIES.ilog2() as u8,
                log_receive_stride: 6,
                record: RECORD.start,
                uar: page,
                user_index: 5,
            })?;
            let mut keys = [None; KINDS.len()];
            for kind in KINDS {
                let registration = Registration {
                    protection_domain: domains[usize::from(kind == Kind::Foreign)],
                    access: kind.access(),
                    start: kind.address(),
                    length: kind.length(),
                    pages: kind.pages(),
                    relaxed: false,
                    remote_invalidate: kind == Kind::RemoteWrite,
                };
                keys[kind as usize] = Some(nic.create_key(registration, None)?);
            }
            Ok::<_, Refused>((domains, page, queue, pair, keys))
        });
        let (domains, page, queue, pair, keys) =
            made.expect("the NIC is there").expect("and makes everything");
        let side = Side {
            nic,
            space,
            address,
            domains,
            page,
            queue,
            pair,
            keys,
            sent: 0,
            received: 0,
            consumed: 0,
        };
        for at in COMPLETIONS.step_by(64) {
            side.write(at + 63, &[0xf1]);
        }
        side
    }

    /// The key of a region, or a stale one.
    pub(crate) fn key(&self, kind: Kind) -> u32 {
        self.keys[kind as usize].unwrap_or(0)
    }

    /// Writes into this side's memory as its owner.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.space.owner().write(at, bytes).expect("the side has that memory");
    }

    /// Reads this side's memory as its owner.
    pub(crate) fn read<const N: usize>(&self, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.space.owner().read(at, &mut bytes).expect("the side has that memory");
        bytes
    }

    /// Says in the record that send slots up to `counter` are posted.
    pub(crate) fn announce_sends(&self, counter: u16) {
        self.write(RECORD.start + 4, &CounterWord::of(counter).to_memory().to_ne_bytes());
    }

    /// Says in the record that receives up to `counter` are posted.
    pub(crate) fn announce_receives(&self, counter: u16) {
        self.write(RECORD.start, &CounterWord::of(counter).to_memory().to_ne_bytes());
    }

    /// Says in the record that completions up to `counter` were consumed.
    pub(crate) fn consume(&self, counter: u32) {
        self.write(COMPLETION_RECORD.start, &counter.to_be_bytes());
    }

    /// The completions that are there, whoever's slots they are in.
    #[cfg(test)]
    pub(crate) fn completions(&self) -> Vec<[u8; 64]> {
        let slots = COMPLETIONS.step_by(64).map(|at| self.read::<64>(at));
        slots.filter(|slot| slot[63] >> 4 != 15).collect()
    }

    /// Takes the completions that are there, each of which must be one of this side's queue pair.
    pub(crate) fn poll(&mut self) {
        let entries = (COMPLETIONS.end - COMPLETIONS.start) / 64;
        for _ in 0..entries {
            let at = COMPLETIONS.start + u64::from(self.consumed) % entries * 64;
            let bytes = self.read::<64>(at);
            let pass = (u64::from(self.consumed) / entries % 2) as u8;
            if bytes[63] & 1 != pass || bytes[63] >> 4 == 15 {
                break;
            }
            assert!(matches!(bytes[63] >> 4, 0..=4 | 13 | 14), "no completion: {bytes:?}");
            assert_eq!(bytes[33..36], [0, 0, 5], "another's user index: {bytes:?}");
            assert_eq!(bytes[57..60], self.pair.to_be_bytes()[1..], "another's: {bytes:?}");
            self.consumed += 1;
        }
        self.consume(self.consumed);
    }

    /// The queue pair was reset.
    fn restart(&mut self) {
        (self.sent, self.received) = (0, 0);
        self.write(RECORD.start, &[0; 8]);
    }
}

fn ring(bytes: Range<u64>) -> Ring {
    Ring::flat(bytes.start, bytes.end - bytes.start)
}

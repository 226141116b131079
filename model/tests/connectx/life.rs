//! Ports that go down, NICs that die, seeds that reproduce, and NICs that run by themselves.

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::cqe::Syndrome;
use doorbell::mlx5::abi::event::{AsyncEvent, AsyncEventType};
use doorbell::mlx5::abi::verbs::method;
use doorbell::mlx5::abi::wqe::Opcode;
use doorbell_hal::Errno;
use doorbell_hal::uverbs::{EventFiles, Uverbs};
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::{Death, Network, Step};
use doorbell_model::fabric::{FaultCounts, Faults};
use doorbell_model::kernel::LinkLayer;
use std::time::Duration;
use zerocopy::IntoBytes;

fn events(files: &impl EventFiles) -> Vec<(u64, AsyncEventType)> {
    let mut events = Vec::new();
    let mut room = [0; 16];
    while files.read_asynchronous(&mut room) == Ok(16) {
        let event: AsyncEvent = record(&room);
        events.push((event.element, event.kind()));
    }
    events
}

#[test]
fn a_port_that_goes_down_and_up_says_so_and_traffic_goes_on() {
    let (network, mut a, b) = connected(1);
    let files = a.client.take_event_files(a.client.event_files());
    a.client.control.set_port(false);
    a.client.control.set_port(false);
    assert_eq!(events(&files), [(1, AsyncEventType::PortError)]);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    for _ in 0..10 {
        network.step();
    }
    assert!(a.queue.poll().is_none());
    a.client.control.set_port(true);
    assert_eq!(events(&files), [(1, AsyncEventType::PortActive)]);
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, 0)], "sent again when the link was back");
}

#[test]
fn a_nic_that_fails_says_so_and_refuses_what_makes_objects() {
    for (how, completions) in [(Death::Flushed, 2), (Death::Silent, 0)] {
        let (network, mut a, b) = connected(2);
        let files = a.client.take_event_files(a.client.event_files());
        for _ in 0..2 {
            let entry = a.pair.send_entry(a.piece(0, 8));
            a.pair.post(&entry);
        }
        for _ in 0..40 {
            network.step();
        }
        a.client.control.fail(how);
        a.client.control.fail(how);
        assert_eq!(events(&files), [(0, AsyncEventType::DeviceFatal)]);
        let flush = Syndrome::Flushed.code();
        let expected: Vec<_> = (0..completions).map(|index| (flush, index)).collect();
        assert_eq!(a.queue.drain(), expected, "{how:?}");
        let entry = a.pair.send_entry(a.piece(0, 8));
        a.pair.post(&entry);
        settle(&network);
        assert!(a.queue.poll().is_none());
        assert_eq!(a.client.try_domain(), Err(Errno::EIO));
        assert_eq!(a.client.try_uar(1), Err(Errno::EIO));
        a.client.destroy_pair(a.pair.handle).unwrap();
        a.client.destroy_queue(a.queue.handle).unwrap();
        assert!(!b.client.control.log().to_string().contains("the device failed"));
    }
}

#[test]
fn a_nic_that_is_pulled_out_breaks_its_channels_and_can_still_be_closed() {
    // `ib_uverbs_remove_one`, `uverbs_disassociate_api`.
    let (network, a, _b) = connected(3);
    let files = a.client.take_event_files(a.client.event_files());
    a.client.control.unplug();
    assert_eq!(events(&files), [(0, AsyncEventType::DeviceFatal)]);
    files.wait(Duration::from_secs(60)).unwrap();
    assert_eq!(files.read_completion(&mut [0; 8]), Err(Errno::EIO));
    a.pair.ring(0);
    settle(&network);
    let mut room = [0; 48];
    let port = doorbell::mlx5::abi::verbs::ioctl::Attribute::input_u64(0, 1);
    let mut query = command(method::device::QUERY_PORT, &[port, output(1, &mut room)]);
    assert_eq!(a.client.call(&mut query), Err(Errno::EIO));
    assert_eq!(a.client.file.map(0x90_0000, 4096).err(), Some(Errno::EIO));
    a.client.destroy_pair(a.pair.handle).unwrap();
    let control = a.client.control.clone();
    drop(a);
    drop(files);
    assert_eq!(control.objects().total(), 0);
}

#[test]
fn a_process_that_says_goodbye_has_answered_for_what_its_nic_executed() {
    for goodbye in [true, false] {
        let (network, mut a, b) = connected(4);
        let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
        a.pair.post(&entry);
        let executed = Step::Packet(b.client.control.nic());
        assert!((0..100).any(|_| network.step() == executed));
        if goodbye {
            assert!(network.say_goodbye(Duration::from_secs(60)));
        }
        // The process ended: its NIC does nothing more.
        assert!(network.isolate(b.client.control.nic(), true));
        settle(&network);
        let status = if goodbye { 0 } else { Syndrome::TransportRetryExceeded.code() };
        assert_eq!(a.queue.drain(), [(status, 0)]);
    }
}

#[test]
fn identifiers_that_change_move_the_nics_address() {
    let (network, mut a, b) = connected(4);
    let files = b.client.take_event_files(b.client.event_files());
    let mut gids = b.client.control.gids();
    gids.truncate(2);
    b.client.control.set_gids(gids);
    assert_eq!(events(&files), [(1, AsyncEventType::GidChange)]);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain(), [(Syndrome::TransportRetryExceeded.code(), 0)]);
}

#[test]
fn an_infiniband_port_is_reached_by_its_local_identifier() {
    let network = Network::stepped(5);
    let make = |lid| {
        let builder = VirtualConnectx::builder().network(&network);
        let file = builder.link_layer(LinkLayer::InfiniBand).lid(lid).open();
        let client = Client::of(file);
        client.get_context(&dynamic_context()).unwrap();
        Side::of(client, &QueueOptions::default(), &PairOptions::default())
    };
    let (mut a, b) = (make(11), make(12));
    for (this, peer, lid) in [(&a, &b, 12), (&b, &a, 11)] {
        this.client.to_init(this.pair.handle, peer_rights()).unwrap();
        let mut request = rtr(this.pair.handle, peer.pair.number, [0; 16]);
        (request.dest.is_global, request.dest.sgid_index, request.dest.dlid) = (0, 0, lid);
        this.client.modify(&request).unwrap();
        this.client.to_rts(this.pair.handle).unwrap();
    }
    store(&a.memory, 0, &[9; 8]);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    settle(&network);
    assert_eq!((a.queue.drain(), load(&b.memory, 0, 8)), (vec![(0, 0)], vec![9; 8]));
    let mut room = [0; 48];
    let port = doorbell::mlx5::abi::verbs::ioctl::Attribute::input_u64(0, 1);
    a.client.call(&mut command(method::device::QUERY_PORT, &[port, output(1, &mut room)])).unwrap();
    let answer: doorbell::mlx5::abi::verbs::port::QueryPortRespEx = record(&room);
    assert_eq!((answer.legacy_resp.link_layer, answer.legacy_resp.lid), (1, 11));
}

/// Runs traffic on a network where everything goes wrong; answers with all steps and how often
/// what went wrong.
fn run(seed: u64) -> (Vec<Step>, FaultCounts) {
    let faults = Faults {
        loss: 100,
        duplication: 100,
        reordering: 100,
        delay: 50,
        corruption: 50,
        longest: 2_000_000,
    };
    let network = Network::builder().stepped(seed).faults(seed, faults).build();
    let [mut a, mut b] =
        [(); 2].map(|()| Side::new(&network, &QueueOptions::default(), &PairOptions::default()));
    connect(&a, &b);
    let data: Vec<u8> = (0..20_000).map(|at| (at as u64 * (seed + 3)) as u8).collect();
    store(&a.memory, 0, &data);
    for at in 0..4 {
        b.pair.receive(&[b.piece(40_000 + at * 1000, 1000)]);
        let entry = a.pair.write_entry(a.piece(0, 20_000), b.address(0), b.key);
        a.pair.post(&entry);
        let entry = a.pair.send_entry(a.piece(at * 100, 1000));
        a.pair.post(&entry);
    }
    let mut steps = Vec::new();
    loop {
        steps.push(network.step());
        if steps.last() == Some(&Step::Idle) {
            break;
        }
        assert!(steps.len() < 1_000_000, "seed {seed} does not end");
    }
    let trace = network.trace();
    assert_eq!(a.queue.drain().len(), 8, "seed {seed}\n{trace}");
    assert_eq!(b.queue.drain(), [(0, 0), (0, 1), (0, 2), (0, 3)], "seed {seed}\n{trace}");
    assert_eq!(load(&b.memory, 0, 20_000), data, "seed {seed}\n{trace}");
    for at in 0..4 {
        let piece = &data[at * 100..at * 100 + 1000];
        assert_eq!(load(&b.memory, 40_000 + at * 1000, 1000), piece, "seed {seed}\n{trace}");
    }
    (steps, network.fault_counts().unwrap())
}

#[test]
fn every_message_arrives_whatever_goes_wrong_on_the_way() {
    for seed in 0..25 {
        run(seed);
    }
}

#[test]
fn a_seed_reproduces_everything() {
    let (steps, counts) = run(77);
    assert!(steps.len() > 100 && counts.lost > 0 && counts.duplicated > 0);
    assert!(run(77) == (steps.clone(), counts), "another run of the same seed");
    assert!(run(78).0 != steps, "the seed changes nothing");
}

#[test]
fn nothing_happens_on_a_stepped_network_until_it_is_stepped() {
    let (network, mut a, b) = connected(6);
    settle(&network);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.post(&entry);
    std::thread::yield_now();
    assert_eq!(a.client.control.counters().register_stores, 0);
    assert_eq!(network.step(), Step::Register(a.client.control.nic()));
    assert_eq!(network.step(), Step::Send(a.client.control.nic()));
    assert_eq!(network.step(), Step::Packet(b.client.control.nic()));
}

/// Waits for a completion of a NIC that runs by itself.
fn wait(queue: &mut Queue) -> (u8, u16) {
    loop {
        if let [completion] = queue.drain()[..] {
            return completion;
        }
        std::thread::yield_now();
    }
}

#[test]
fn free_nics_run_by_themselves_and_wake_from_sleep() {
    let network = Network::free();
    let [mut a, b] =
        [(); 2].map(|()| Side::new(&network, &QueueOptions::default(), &PairOptions::default()));
    connect(&a, &b);
    for round in 0..2000 {
        if round % 100 == 0 {
            // Long enough for the NICs' thread to go to sleep.
            std::thread::sleep(Duration::from_millis(2));
        }
        let entry = a.pair.write_entry(a.piece(0, 64), b.address(0), b.key);
        let index = a.pair.post(&entry);
        assert_eq!(wait(&mut a.queue), (0, index));
    }
}

#[test]
fn free_nics_flush_receives_that_nobody_announces() {
    let network = Network::free();
    let mut side = Side::new(&network, &QueueOptions::default(), &PairOptions::default());
    side.client.to_init(side.pair.handle, peer_rights()).unwrap();
    side.client.to_state(side.pair.handle, doorbell::mlx5::abi::verbs::qp::QpState::Error).unwrap();
    side.pair.receive(&[side.piece(0, 8)]);
    assert_eq!(wait(&mut side.queue), (Syndrome::Flushed.code(), 0));
}

#[test]
fn sides_on_threads_of_their_own_exchange_messages_while_others_make_objects() {
    let network = Network::free();
    let [mut a, mut b] =
        [(); 2].map(|()| Side::new(&network, &QueueOptions::default(), &PairOptions::default()));
    connect(&a, &b);
    const ROUNDS: u16 = 3000;
    // Each side answers what it gets: the data is the round.
    let play = |side: &mut Side, first: bool| {
        for round in 0..ROUNDS {
            side.pair.receive(&[side.piece(0, 8)]);
            if first {
                send(side, round);
            }
            let mut received = false;
            while !received {
                while let Some(completion) = side.queue.poll() {
                    received |= completion.op_own.opcode() == 2;
                    assert!(completion.op_own.opcode() != 13 && completion.op_own.opcode() != 14);
                }
                std::thread::yield_now();
            }
            assert_eq!(load(&side.memory, 0, 2), round.to_ne_bytes());
            if !first {
                send(side, round);
            }
        }
    };
    fn send(side: &mut Side, round: u16) {
        store(&side.memory, 64 + usize::from(round % 8) * 8, &round.to_ne_bytes());
        let piece = side.piece(64 + usize::from(round % 8) * 8, 8);
        let mut entry = side.pair.control(Opcode::Send, 2).as_bytes().to_vec();
        entry.extend_from_slice(piece.as_bytes());
        side.pair.post(&entry);
    }
    // The first side needs its peer's receive before it sends: receiver-not-ready takes care.
    std::thread::scope(|scope| {
        scope.spawn(|| play(&mut b, false));
        scope.spawn(|| play(&mut a, true));
        scope.spawn(|| {
            let client = Client::new(&network);
            for _ in 0..300 {
                let domain = client.domain();
                client.destroy(method::pd::DESTROY, 0, domain, &mut []).unwrap();
            }
        });
    });
}

#[test]
fn dropping_a_side_in_the_middle_of_traffic_leaves_nothing_running() {
    for round in 0..20 {
        let network = if round % 2 == 0 { Network::free() } else { Network::stepped(round) };
        let [mut a, b] = [(); 2]
            .map(|()| Side::new(&network, &QueueOptions::default(), &PairOptions::default()));
        connect(&a, &b);
        for _ in 0..10 {
            let entry = a.pair.write_entry(a.piece(0, 60_000), b.address(0), b.key);
            a.pair.post(&entry);
        }
        for _ in 0..round {
            network.step();
        }
        let Side { client, memory, pair, queue, rings, .. } = b;
        let control = client.control.clone();
        // As a driver does it: the file and its mappings close, then the memory goes.
        drop(client);
        drop((pair, queue));
        drop((memory, rings));
        assert_eq!(control.objects().total(), 0);
        drop(a);
    }
}

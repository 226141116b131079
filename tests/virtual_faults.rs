//! What can happen to a NIC and on the way to another: ports, packets, completion queues and whole
//! NICs that fail, and the registers' own log. On virtual NICs, to which it can be done.

mod device;

use device::{
    Device, End, Options, drain, failed, next, next_or_step, pair_of, patience, sent, until,
};
use doorbell::completion::{Arrival, Completion, Queue, Status};
use doorbell::error::Error;
use doorbell::mlx5::access::{Local, RemoteRead};
use doorbell::mlx5::{
    CompletionQueue, Connection, Event, EventChannel, Notified, Order, PeerRights, PortEvent,
    QueuePair, QueuePairEvent, Region,
};
use doorbell::state::Rts;
use doorbell::timer::AckTimeout;
use doorbell::wr::{self, Inline, Nothing};
use doorbell_hal::Errno;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::{Death, Network};
use doorbell_model::fabric::Faults;
use std::time::Duration;

type V = VirtualConnectx;

/// Two connected ends on a network that is stepped by `seed`, so that a failure can be repeated.
fn stepped(seed: u64) -> (Network, [End<V>; 2]) {
    let network = Network::stepped(seed);
    let ends = pair_of(&Device::on(network.clone()), &Options::default());
    (network, ends)
}

/// An end that hears events.
struct Heard {
    qp: QueuePair<Rts, V>,
    cq: CompletionQueue<V, Notified>,
    channel: EventChannel<V>,
    end: End<V>,
}

/// A stepped network whose first end hears events, of a queue pair that is its own peer.
fn heard(network: &Network, entries: u32) -> Heard {
    let device = Device::on(network.clone());
    let [end, _] = pair_of(&device, &Options::default());
    let channel = end.nic.event_channel().unwrap();
    let cq = end.nic.completion_queue_with_events(entries, &channel).unwrap();
    let qp = end.nic.queue_pair(&cq).sends(64).receives(4).overcommit().create().unwrap();
    let (peer, options) = (qp.endpoint(), Options::default());
    let qp = qp.connect(options.rights, &peer, &options.connection).unwrap();
    Heard { qp, cq, channel, end }
}

fn events(channel: &mut EventChannel<V>) -> Vec<Event> {
    channel.wait(Duration::ZERO).unwrap().to_vec()
}

#[test]
fn a_port_that_goes_down_and_up_says_so_and_traffic_goes_on() {
    let network = Network::free();
    let Heard { mut qp, mut cq, mut channel, end } = heard(&network, 64);
    let control = end.nic.verbs().control();
    control.set_port(false);
    assert_eq!(channel.wait(patience()).unwrap()[..], [Event::Port(PortEvent::Down)]);
    let request = wr::write(Inline([1; 8]), end.remote(0..8)).unwrap();
    qp.sends().post(request.id(5).signaled()).unwrap();
    qp.sends().ring();
    control.set_port(true);
    assert_eq!(channel.wait(patience()).unwrap()[..], [Event::Port(PortEvent::Active)]);
    assert_eq!(sent(&mut cq), 5);
    let mut gids = control.gids();
    gids.push(None);
    control.set_gids(gids);
    assert_eq!(channel.wait(patience()).unwrap()[..], [Event::Port(PortEvent::GidChanged)]);
}

#[test]
fn a_nic_that_fails_says_so_and_its_objects_can_be_given_up() {
    for how in [Death::Flushed, Death::Silent] {
        let network = Network::stepped(3);
        let Heard { mut qp, mut cq, mut channel, end } = heard(&network, 64);
        let control = end.nic.verbs().control();
        for id in 0..3 {
            // Nobody receives these.
            qp.sends().post(wr::send(Nothing).id(id)).unwrap();
        }
        qp.sends().ring();
        for _ in 0..50 {
            network.step();
        }
        control.fail(how);
        assert_eq!(events(&mut channel), [Event::DeviceFailed], "{how:?}");
        let flushed: Vec<_> = std::iter::from_fn(|| cq.poll()).collect();
        assert_eq!(flushed.len(), if how == Death::Flushed { 3 } else { 0 });
        // What makes objects is refused, with the reason; what gives them back is not.
        let refused = end.nic.completion_queue(8).err().unwrap();
        assert!(matches!(refused, Error::Refused { reason: Errno::EIO, .. }), "{refused}");
        assert!(end.nic.region::<Local>(64, Order::InOrder).is_err());
        let qp = qp.fail().expect_err("the NIC changes no state any more").object;
        qp.destroy().unwrap();
        cq.destroy().unwrap();
        drop(channel);
        let End { qp, cq, memory, nic } = end;
        drop((qp, cq));
        memory.deregister().unwrap();
        nic.close().unwrap();
        assert_eq!(control.objects().total(), 0);
    }
}

#[test]
fn a_nic_that_is_pulled_out_is_an_error_to_a_waiter_and_no_crash_to_anybody() {
    let network = Network::stepped(4);
    let Heard { mut qp, mut cq, mut channel, end } = heard(&network, 64);
    let control = end.nic.verbs().control();
    control.unplug();
    // The failure is said first; then the channel is broken for good.
    let mut broken = None;
    for _ in 0..3 {
        match channel.wait(Duration::ZERO) {
            Ok(events) => assert!(events.iter().all(|event| *event == Event::DeviceFailed)),
            Err(error) => broken = Some(error),
        }
    }
    let broken = broken.expect("a waiter would wait for ever");
    assert!(broken.to_string().contains("reading an event"), "{broken}");
    // The rings and registers are still mapped: a poster notices nothing.
    for id in 0..64 {
        qp.sends().post(wr::send(Nothing).id(id).signaled()).unwrap();
        qp.sends().ring();
    }
    cq.arm();
    network.run_until_idle(1000);
    assert_eq!(cq.poll(), None);
    drop((qp, cq, channel, end));
    assert_eq!(control.objects().total(), 0);
}

#[test]
fn an_overrun_completion_queue_fails_in_an_event_and_so_does_its_queue_pair() {
    let network = Network::stepped(5);
    let Heard { mut qp, mut cq, mut channel, end } = heard(&network, 3);
    for id in 0..8 {
        let request = wr::write(Inline([1; 8]), end.remote(0..8)).unwrap();
        qp.sends().post(request.id(id).signaled()).unwrap();
    }
    qp.sends().ring();
    network.run_until_idle(10_000);
    let happened = events(&mut channel);
    assert_eq!(happened[0], Event::CompletionQueueFailed(cq.id()));
    let event = QueuePairEvent::Failed;
    assert_eq!(happened[1], Event::QueuePair { queue_pair: qp.index(), event });
    // What fitted is there, and nothing past it is made up.
    let there: Vec<_> = std::iter::from_fn(|| cq.poll()).collect();
    assert!(there.len() >= 3 && there.len() <= 4, "{there:?}");
    for (id, completion) in there.iter().enumerate() {
        assert!(matches!(completion, Completion::Sent(sent) if sent.id == id as u64));
    }
    // Completions are lost, so the queue pair is never drained, but it is destroyed.
    let mut errored = qp.fail().unwrap();
    network.run_until_idle(10_000);
    assert!(!errored.is_drained());
    errored.reset().err().unwrap().object.destroy().unwrap();
    cq.destroy().unwrap();
}

#[test]
fn a_queue_pair_within_its_completion_queues_room_never_overruns_it() {
    // The least room that is not refused: everything completes, nothing is polled meanwhile.
    let (network, [a, b]) = stepped(6);
    let mut cq = a.nic.completion_queue(15).unwrap();
    let make = || a.nic.queue_pair(&cq).sends(8).receives(4).create();
    let qp = make().unwrap();
    assert!(matches!(make().err().unwrap(), Error::Overcommitted { needed: 24, holds: 15 }));
    let options = Options::default();
    let peer = qp.endpoint();
    let mut qp = qp.connect(options.rights, &peer, &options.connection).unwrap();
    for id in 0..4 {
        qp.receives().post(wr::receive(Nothing).id(id)).unwrap();
        qp.sends().post(wr::send(Nothing).id(id).signaled()).unwrap();
    }
    qp.receives().ring();
    for id in 4..8 {
        qp.sends().post(wr::write(Nothing, b.remote(0..0)).unwrap().id(id).signaled()).unwrap();
    }
    qp.sends().ring();
    network.run_until_idle(10_000);
    let control = a.nic.verbs().control();
    assert_eq!(control.counters().overruns, 0);
    assert_eq!(drain(&mut cq, 12).len(), 12);
}

#[test]
fn a_peer_that_may_not_is_told_so_in_an_event_on_the_side_that_refuses() {
    let network = Network::stepped(7);
    let Heard { mut qp, mut cq, mut channel, end } = heard(&network, 64);
    let closed: Region<RemoteRead, V> = end.nic.region(64, Order::InOrder).unwrap();
    qp.receives().post(wr::receive(Nothing).id(9)).unwrap();
    qp.receives().ring();
    let request = wr::write_immediate(Inline([1; 8]), closed.remote(), 7).unwrap();
    qp.sends().post(request.id(8)).unwrap();
    qp.sends().ring();
    network.run_until_idle(10_000);
    // Both sides are this queue pair: the requester's status, and the responder's.
    let mut statuses: Vec<_> = std::iter::from_fn(|| cq.poll())
        .map(|completion| match completion {
            Completion::Failed(failed) => (failed.queue == Queue::Send, failed.id, failed.status),
            other => panic!("{other:?}"),
        })
        .collect();
    statuses.sort_by_key(|status| status.0);
    assert_eq!(statuses.len(), 2);
    assert_eq!(statuses[0].1, 9);
    assert!([Status::LocalAccess, Status::WorkRequestFlushed].contains(&statuses[0].2));
    let (queue_pair, event) = (qp.index(), QueuePairEvent::AccessError);
    assert_eq!(events(&mut channel), [Event::QueuePair { queue_pair, event }]);
}

#[test]
fn a_send_that_invalidates_what_it_may_not_fails_on_both_sides() {
    // mlx5_ib lets peers invalidate memory windows only, and a region is none.
    let (network, [mut a, mut b]) = stepped(8);
    b.receive(0..64, 1);
    a.post(wr::send_invalidate(Inline([1; 8]), b.remote(0..8).rkey()).id(2));
    network.run_until_idle(10_000);
    assert_eq!(failed(&mut a.cq).status, Status::RemoteAccess);
    let there = failed(&mut b.cq);
    assert_eq!((there.id, there.status), (1, Status::MemoryWindowBind));
}

#[test]
fn a_connection_through_a_network_that_loses_everything_ends_and_is_made_again() {
    let network = Network::stepped(9);
    let ack_timeout = AckTimeout::at_least(Duration::from_millis(1));
    let connection = Connection { retries: 3, ack_timeout, ..Connection::default() };
    let options = Options { connection, ..Options::default() };
    let device = Device::on(network.clone());
    let [mut a, b] = pair_of::<V, Uncached>(&device, &options);
    let cut_off = b.nic.verbs().control().nic();
    assert!(network.isolate(cut_off, true));
    let before = network.now();
    a.post(wr::write(a.piece(0..8), b.remote(0..8)).unwrap().id(1));
    assert_eq!(next_status(&network, &mut a.cq), (1, Status::TransportRetryExceeded));
    // The first time and three more, a millisecond or more each.
    let waited = network.now() - before;
    assert!(waited >= 4_000_000, "{waited} ns");
    network.isolate(cut_off, false);
    let ends = [a, b].map(|End { qp, mut cq, memory, nic }| {
        let mut qp = qp.fail().unwrap();
        while !qp.is_drained() {
            network.run_until_idle(1000);
            cq.poll();
        }
        device::Unconnected { qp: qp.reset().unwrap(), cq, memory, nic }
    });
    let [mut a, b] = device::connect(ends, &options);
    let bytes = a.fill(0, 8, 1);
    a.post(wr::write(a.piece(0..8), b.remote(0..8)).unwrap().id(2).signaled());
    network.run_until_idle(10_000);
    assert_eq!(sent(&mut a.cq), 2);
    assert_eq!(b.bytes(0..8), bytes);
}

/// The id and status of the next completion, which is a failure, of a stepped network.
fn next_status(network: &Network, cq: &mut CompletionQueue<V>) -> (u64, Status) {
    match next_or_step(cq, || {
        network.run_until_idle(1000);
    }) {
        Completion::Failed(failed) => (failed.id, failed.status),
        other => panic!("{other:?}"),
    }
}

#[test]
fn everything_arrives_once_and_in_order_whatever_goes_wrong_on_the_way() {
    let faults = Faults {
        loss: 50,
        duplication: 50,
        reordering: 50,
        delay: 50,
        corruption: 20,
        longest: 2_000_000,
    };
    for seed in 0..15 {
        let network = Network::builder().stepped(seed).faults(seed, faults).build();
        let ack_timeout = AckTimeout::at_least(Duration::from_millis(4));
        let connection = Connection { ack_timeout, ..Connection::default() };
        let options = Options { connection, ..Options::default() };
        let [mut a, mut b] = pair_of::<V, WriteCombining>(&Device::on(network.clone()), &options);
        let bytes = a.fill(0, 20_000, seed);
        for id in 0..20 {
            b.receive(32768..40960, id);
        }
        for id in 0..20u64 {
            let at = id * 100;
            a.post(wr::write(a.piece(0..5000), b.remote(at..at + 5000)).unwrap());
            a.post(wr::fetch_add(a.piece(60_000..60_008), b.remote(65_000..65_008), 1).unwrap());
            let size = id as usize * 300;
            a.post(wr::send_immediate(a.piece(0..size), id as u32).id(id).signaled());
        }
        for id in 0..20 {
            let step = || {
                network.run_until_idle(100);
            };
            match next_or_step(&mut a.cq, step) {
                Completion::Sent(sent) => assert_eq!(sent.id, id, "seed {seed}"),
                other => panic!("seed {seed}: {other:?}\n{}", network.trace()),
            }
            match next(&mut b.cq) {
                Completion::Received(received) => {
                    assert_eq!((received.id, received.len), (id, id as u32 * 300), "seed {seed}");
                    assert_eq!(received.by, Arrival::SendImmediate(id as u32));
                }
                other => panic!("seed {seed}: {other:?}\n{}", network.trace()),
            }
        }
        assert_eq!(b.bytes(1900..6900), bytes[..5000], "seed {seed}");
        assert_eq!(b.bytes(65_000..65_008), 20u64.to_ne_bytes(), "seed {seed}");
        let counts = network.fault_counts().unwrap();
        assert!(counts.lost > 0 && counts.duplicated > 0, "{counts:?}");
    }
}

#[test]
fn a_batch_has_one_doorbell_and_the_record_is_always_written_before_it() {
    let device = device::free();
    let [mut a, b] = pair_of::<V, Uncached>(&device, &Options::default());
    let control = a.nic.verbs().control();
    let before = control.counters();
    for batch in 1..=20u64 {
        for id in 0..batch {
            let request = wr::write(Inline([1; 8]), b.remote(0..8)).unwrap();
            a.qp.sends().post(request.id(id).signaled()).unwrap();
        }
        a.qp.sends().ring();
        drain(&mut a.cq, batch as usize);
    }
    // Ringing for nothing stores nothing, and receives have no register at all.
    a.qp.sends().ring();
    a.receive(0..8, 1);
    let after = control.counters();
    assert_eq!(after.send_doorbells - before.send_doorbells, 20);
    assert_eq!(after.register_stores - before.register_stores, 20);
    assert_eq!(after.send_entries - before.send_entries, 210);
    assert_eq!(after.blue_flame_entries, 0);
    let wrong = [after.stray_doorbells, after.record_behind_register, after.malformed_entries];
    assert_eq!(wrong, [0; 3]);
    assert!(control.log().is_empty(), "{}", control.log());
}

#[test]
fn a_single_entry_of_up_to_four_slots_travels_in_its_doorbell() {
    let device = device::free();
    let [mut a, b] = pair_of::<V, WriteCombining>(&device, &Options::default());
    let control = a.nic.verbs().control();
    let mut expected = 0;
    for len in [0, 28, 29, 92, 93, 156, 157, 220, 221, 500] {
        let bytes = vec![len as u8; len];
        a.post(wr::write(Inline(&bytes[..]), b.remote(0..512)).unwrap().signaled());
        sent(&mut a.cq);
        // Control, address, header and bytes: four slots hold 220.
        expected += u64::from(len <= 220);
        assert_eq!(control.counters().blue_flame_entries, expected, "{len} bytes");
        assert_eq!(b.bytes(0..len), bytes);
    }
    // Two entries at once travel through the ring.
    a.qp.sends().post(wr::write(Inline([1; 8]), b.remote(0..8)).unwrap()).unwrap();
    a.post(wr::write(Inline([1; 8]), b.remote(0..8)).unwrap().signaled());
    sent(&mut a.cq);
    let after = control.counters();
    assert_eq!(after.blue_flame_entries, expected);
    let wrong = [after.stray_doorbells, after.record_behind_register, after.malformed_entries];
    assert_eq!(wrong, [0; 3]);
    assert!(control.log().is_empty(), "{}", control.log());
}

#[test]
fn a_life_within_the_rules_leaves_the_nics_log_empty() {
    // A life with everything in it that is allowed: no store or call of it is out of place.
    let device = device::free();
    let options = Options { pieces: 3, rights: PeerRights::WRITE, ..Options::default() };
    let [mut a, mut b] = pair_of::<V, Uncached>(&device, &options);
    let controls = [a.nic.verbs().control(), b.nic.verbs().control()];
    for id in 0..100 {
        b.receive(0..4096, id);
        a.post(wr::send([a.piece(0..1000), a.piece(2000..2100)]).id(id).signaled());
        assert_eq!(sent(&mut a.cq), id);
        until(|| matches!(b.cq.poll(), Some(Completion::Received(_))));
    }
    a.qp.destroy().unwrap();
    b.qp.destroy().unwrap();
    for control in controls {
        assert!(control.log().is_empty(), "{}", control.log());
        assert_eq!(control.counters().packets_dropped, 0);
    }
}

//! Threads: posters, pollers and waiters at work at the same time.

use crate::device::{
    Device, Options, Verbs, next, on_any_device, pair_of, patience, pattern, until,
};
use doorbell::completion::{Arrival, Completion};
use doorbell::mlx5::access::{Local, RemoteWrite};
use doorbell::mlx5::{
    CompletionQueue, EventChannel, Nic, Notified, Order, QueuePair, ReceiveQueue, Region, SendQueue,
};
use doorbell::state::Rts;
use doorbell::wr::{self, Inline, Nothing};
use doorbell_hal::linux::VerbsFile;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

// A queue goes from thread to thread, and is never at two of them. A NIC and a region are.
static_assertions::assert_impl_all!(SendQueue<VerbsFile>: Send);
static_assertions::assert_not_impl_any!(SendQueue<VerbsFile>: Sync, Clone);
static_assertions::assert_impl_all!(SendQueue<VerbsFile, WriteCombining>: Send);
static_assertions::assert_not_impl_any!(SendQueue<VerbsFile, WriteCombining>: Sync, Clone);
static_assertions::assert_impl_all!(ReceiveQueue<VerbsFile>: Send);
static_assertions::assert_not_impl_any!(ReceiveQueue<VerbsFile>: Sync, Clone);
static_assertions::assert_impl_all!(QueuePair<Rts, VerbsFile>: Send);
static_assertions::assert_not_impl_any!(QueuePair<Rts, VerbsFile>: Sync, Clone);
static_assertions::assert_impl_all!(CompletionQueue<VerbsFile, Notified>: Send);
static_assertions::assert_not_impl_any!(CompletionQueue<VerbsFile, Notified>: Sync, Clone);
static_assertions::assert_impl_all!(EventChannel<VerbsFile>: Send);
static_assertions::assert_not_impl_any!(EventChannel<VerbsFile>: Clone);
static_assertions::assert_impl_all!(Nic<VerbsFile>: Send, Sync, Clone);
static_assertions::assert_impl_all!(Region<Local, VerbsFile>: Send, Sync);

/// Messages of one load.
const MESSAGES: u64 = 5000;

/// Keeps a poster from turning for ever where the poller has died.
#[track_caller]
fn retry(what: &str, mut attempt: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + patience();
    while !attempt() {
        assert!(std::time::Instant::now() < end, "{what}: nothing frees room");
        std::thread::yield_now();
    }
}

/// Sends `MESSAGES` messages, each of which says which it is, over a small ring: requests are posted,
/// receives are posted and completions are polled on four threads.
fn load<V: Verbs>(device: &Device<V>, signal_each: u64) {
    let options = Options { sends: 16, receives: 16, entries: 64, ..Options::default() };
    let [a, b] = pair_of::<V, Uncached>(device, &options);
    let (mut sends, _a_receives) = a.qp.split();
    let (_b_sends, mut receives) = b.qp.split();
    let (mut cq_a, mut cq_b) = (a.cq, b.cq);
    let (from, into): (Region<Local, V>, Region<Local, V>) = (
        a.nic.region(1 << 16, Order::InOrder).unwrap(),
        b.nic.region(1 << 16, Order::InOrder).unwrap(),
    );
    let (from, into) = (&from, &into);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for id in 0..MESSAGES {
                let at = (id as usize % 32) * 64;
                let piece = into.slice(at..at + 64).unwrap();
                retry("receives", || receives.post(wr::receive(piece).id(id)).is_ok());
                receives.ring();
            }
        });
        scope.spawn(move || {
            for id in 0..MESSAGES {
                // The bytes of a request stay until it is done: at most 16 are under way.
                let at = (id as usize % 32) * 64;
                let piece = from.slice(at..at + 64).unwrap();
                retry("requests", || sends.room() > 0);
                from.write_at(at, &pattern(64, id)).unwrap();
                let request = wr::send_immediate(piece, id as u32).id(id);
                if (id + 1).is_multiple_of(signal_each) || id + 1 == MESSAGES {
                    sends.post(request.signaled()).unwrap();
                } else {
                    sends.post(request).unwrap();
                }
                if id % 3 == 0 || sends.room() == 0 || id + 1 == MESSAGES {
                    sends.ring();
                }
            }
            sends
        });
        scope.spawn(move || {
            let signaled = (0..MESSAGES)
                .filter(|id| (id + 1).is_multiple_of(signal_each) || id + 1 == MESSAGES);
            for id in signaled {
                match next(&mut cq_a) {
                    Completion::Sent(sent) => assert_eq!(sent.id, id),
                    other => panic!("{other:?}"),
                }
            }
        });
        for id in 0..MESSAGES {
            match next(&mut cq_b) {
                Completion::Received(received) => {
                    assert_eq!((received.id, received.len), (id, 64));
                    assert_eq!(received.by, Arrival::SendImmediate(id as u32));
                    // 16 receives are posted at most, so this place is not yet filled again.
                    let mut bytes = [0; 64];
                    into.read_at((id as usize % 32) * 64, &mut bytes).unwrap();
                    assert_eq!(bytes[..], pattern(64, id), "message {id}");
                }
                other => panic!("{other:?}"),
            }
        }
    });
}

/// Polls, arms, polls again, and only then sleeps, until a receive is filled.
fn sleep_until_received<V: Verbs>(
    cq: &mut CompletionQueue<V, Notified>,
    channel: &mut EventChannel<V>,
) -> Arrival {
    loop {
        for armed in [false, true] {
            while let Some(completion) = cq.poll() {
                match completion {
                    Completion::Received(received) => return received.by,
                    Completion::Sent(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            if !armed {
                cq.arm();
            }
        }
        let events = channel.wait(patience()).unwrap();
        assert!(!events.is_empty(), "a completion was slept through");
    }
}

on_any_device! {
    fn posters_and_pollers_on_threads_of_their_own_move_every_message<V>(device) {
        load(device, 1);
    }

    fn posters_that_signal_some_requests_move_every_message<V>(device) {
        load(device, 5);
    }

    fn many_queue_pairs_of_many_posters_complete_into_one_queue<V>(device) {
        const PAIRS: usize = 24;
        const EACH: u64 = 200;
        let options = Options::default();
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(PAIRS as u32 * 16).unwrap();
        let target: Region<RemoteWrite, V> =
            nic.region(PAIRS * 64, Order::InOrder).unwrap();
        let mut pairs: Vec<_> = (0..PAIRS)
            .map(|_| {
                let qp = nic.queue_pair(&cq).sends(16).create().unwrap();
                let peer = qp.endpoint();
                qp.connect(options.rights, &peer, &options.connection).unwrap()
            })
            .collect();
        let indexes: Vec<_> = pairs.iter().map(|qp| qp.index()).collect();
        std::thread::scope(|scope| {
            for (thread, pairs) in pairs.chunks_mut(PAIRS / 3).enumerate() {
                let target = &target;
                scope.spawn(move || {
                    for id in 0..EACH {
                        for (k, qp) in pairs.iter_mut().enumerate() {
                            let place = (thread * (PAIRS / 3) + k) as u64 * 64;
                            let to = target.remote().slice(place..place + 8).unwrap();
                            let request = wr::write(Inline(id.to_ne_bytes()), to).unwrap();
                            let request = request.id((id << 8) | (place / 64)).signaled();
                            retry("requests", || qp.sends().post(request).is_ok());
                            qp.sends().ring();
                        }
                    }
                });
            }
            let mut expected = [0; PAIRS];
            for _ in 0..PAIRS as u64 * EACH {
                match next(&mut cq) {
                    Completion::Sent(sent) => {
                        let place = (sent.id & 0xff) as usize;
                        assert_eq!(sent.queue_pair, indexes[place]);
                        assert_eq!(sent.id >> 8, expected[place], "of queue pair {place}");
                        expected[place] += 1;
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(expected, [EACH; PAIRS]);
        });
        assert_eq!(cq.poll(), None);
    }

    fn queue_pairs_come_and_go_while_another_thread_polls<V>(device) {
        let options = Options::default();
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(1024).unwrap();
        let target: Region<RemoteWrite, V> = nic.region(64, Order::InOrder).unwrap();
        // The poller has the queue for itself, so the builders are made before.
        let builders: Vec<_> =
            (0..300).map(|_| nic.queue_pair(&cq).sends(8).overcommit()).collect();
        let stop = AtomicBool::new(false);
        let seen = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let (stop, seen, target) = (&stop, &seen, &target);
            scope.spawn(move || {
                for (round, builder) in builders.into_iter().enumerate() {
                    let qp = builder.create().unwrap();
                    let peer = qp.endpoint();
                    let mut qp =
                        qp.connect(options.rights, &peer, &options.connection).unwrap();
                    let before = seen.load(Ordering::Acquire);
                    for id in 0..4 {
                        let request = wr::write(Inline([1; 8]), target.remote()).unwrap();
                        qp.sends().post(request.id(id).signaled()).unwrap();
                    }
                    qp.sends().ring();
                    match round % 3 {
                        // Its completions are on their way, or in the ring, or half polled.
                        0 => drop(qp),
                        1 => drop(qp.fail().unwrap()),
                        _ => {
                            until(|| seen.load(Ordering::Acquire) > before);
                            qp.destroy().unwrap();
                        }
                    }
                }
                stop.store(true, Ordering::Release);
            });
            scope.spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    match cq.poll() {
                        Some(Completion::Sent(_)) => {
                            seen.fetch_add(1, Ordering::AcqRel);
                        }
                        Some(Completion::Failed(_)) => {}
                        Some(other) => panic!("{other:?}"),
                        None => std::thread::yield_now(),
                    }
                }
            });
        });
        assert!(seen.load(Ordering::Acquire) >= 100);
    }

    fn two_threads_that_wait_for_each_others_messages_sleep_through_none<V>(device) {
        const ROUNDS: u32 = 1000;
        let options = Options::default();
        let ends = [0, 1].map(|place| {
            let nic = device.nic(place);
            let channel = nic.event_channel().unwrap();
            let cq = nic.completion_queue_with_events(64, &channel).unwrap();
            let qp = nic.queue_pair(&cq).sends(16).receives(16).create().unwrap();
            (channel, cq, qp)
        });
        let mut peers = [ends[1].2.endpoint(), ends[0].2.endpoint()].into_iter();
        let mut ends = ends.map(|(channel, cq, qp)| {
            let peer = peers.next().unwrap();
            (channel, cq, qp.connect(options.rights, &peer, &options.connection).unwrap())
        });
        std::thread::scope(|scope| {
            // Borrowed: an end that is done first must be there until the other is, too.
            for (side, (channel, cq, qp)) in ends.iter_mut().enumerate() {
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        qp.receives().post(wr::receive(Nothing).id(round.into())).unwrap();
                        qp.receives().ring();
                        // The first side asks, the second one answers.
                        for turn in [0, 1] {
                            if turn == side {
                                let message = wr::send_immediate(Nothing, round);
                                qp.sends().post(message.signaled()).unwrap();
                                qp.sends().ring();
                            } else {
                                let by = sleep_until_received(cq, channel);
                                assert_eq!(by, Arrival::SendImmediate(round));
                            }
                        }
                    }
                });
            }
        });
    }

    fn objects_are_made_by_several_threads_at_once<V>(device) {
        let nic = device.nic(0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let nic = nic.clone();
                scope.spawn(move || {
                    for round in 0..25 {
                        let region: Region<RemoteWrite, V> =
                            nic.region(4096 * (thread + 1), Order::InOrder).unwrap();
                        let cq = nic.completion_queue(16).unwrap();
                        let qp = nic.queue_pair(&cq).sends(4).receives(4).create().unwrap();
                        if round % 2 == 0 {
                            qp.destroy().unwrap();
                            cq.destroy().unwrap();
                            region.deregister().unwrap();
                        }
                    }
                });
            }
        });
        nic.close().unwrap();
    }
}

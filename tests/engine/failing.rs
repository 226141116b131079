//! Requests and receives that fail: with which status, in which order, and what becomes of the rest.

use crate::device::{
    End, Options, Verbs, drain, failed, next, on_any_device, pair, pair_of, received, sent, until,
};
use doorbell::completion::{Completion, Failed, Queue, Status};
use doorbell::mlx5::access::{Local, RemoteRead, RemoteWrite};
use doorbell::mlx5::{Connection, Order, PeerRights, Region};
use doorbell::timer::{AckTimeout, RnrTimer};
use doorbell::wr::{self, Inline, Nothing, RemoteSlice};
use doorbell_hal::mmio::Uncached;
use std::time::Duration;

/// What `count` completions say, all of which are failures of `queue`: id and status.
#[track_caller]
fn failures<V: Verbs>(end: &mut End<V>, count: usize, queue: Queue) -> Vec<(u64, Status)> {
    let index = end.qp.index();
    drain(&mut end.cq, count)
        .into_iter()
        .map(|completion| match completion {
            Completion::Failed(failed) => {
                assert_eq!((failed.queue, failed.queue_pair), (queue, index));
                (failed.id, failed.status)
            }
            other => panic!("nothing failed, but {other:?}"),
        })
        .collect()
}

/// `first`, then flushes of what was posted after it.
fn then_flushed(first: Status, ids: std::ops::Range<u64>) -> Vec<(u64, Status)> {
    ids.enumerate()
        .map(|(at, id)| (id, if at == 0 { first } else { Status::WorkRequestFlushed }))
        .collect()
}

/// A request that fails at the peer, between three that are well and four that are flushed: exactly
/// five failures, of which the first says why.
fn fails_in_the_middle<V: Verbs, O: doorbell::mlx5::ring::entry::Operation>(
    a: &mut End<V>,
    b: &End<V>,
    bad: wr::WorkRequest<O>,
    status: Status,
) {
    let good = |id| wr::write(Inline([id as u8; 8]), b.remote(0..8)).unwrap().id(id);
    for id in 0..3 {
        a.qp.sends().post(good(id)).unwrap();
    }
    a.qp.sends().post(bad.id(3)).unwrap();
    for id in 4..8 {
        // Whether they are signaled or not: a failure completes.
        if id % 2 == 0 {
            a.qp.sends().post(good(id)).unwrap();
        } else {
            a.qp.sends().post(good(id).signaled()).unwrap();
        }
    }
    a.qp.sends().ring();
    assert_eq!(failures(a, 5, Queue::Send), then_flushed(status, 3..8));
    assert_eq!(a.cq.poll(), None);
    assert_eq!(b.bytes(0..8), [2; 8], "what came before arrived, and nothing after it");
}

on_any_device! {
    fn what_the_peers_region_refuses_is_a_remote_access_error<V>(device) {
        let wrong: [fn(&End<V>) -> RemoteSlice; 4] = [
            // No such key.
            |b| RemoteSlice::new(b.remote(0..8).address(), 8, !b.remote(0..8).rkey()),
            // Past the region, and across its end.
            |b| RemoteSlice::new(b.remote(0..8).address() + (1 << 16), 8, b.remote(0..8).rkey()),
            |b| RemoteSlice::new(b.remote(0..8).address() + (1 << 16) - 7, 8, b.remote(0..8).rkey()),
            // Before it.
            |b| RemoteSlice::new(b.remote(0..8).address() - 1, 8, b.remote(0..8).rkey()),
        ];
        for wrong in wrong {
            let [mut a, b] = pair(device);
            let request = wr::write(a.piece(0..8), wrong(&b)).unwrap();
            fails_in_the_middle(&mut a, &b, request, Status::RemoteAccess);
            let [mut a, b] = pair(device);
            let request = wr::read(a.piece(0..8), wrong(&b)).unwrap();
            fails_in_the_middle(&mut a, &b, request, Status::RemoteAccess);
        }
        // No right.
        let [mut a, b] = pair(device);
        let region: Region<RemoteRead, V> = b.nic.region(64, Order::InOrder).unwrap();
        let request = wr::write(a.piece(0..8), region.remote()).unwrap();
        fails_in_the_middle(&mut a, &b, request, Status::RemoteAccess);
        let [mut a, b] = pair(device);
        let region: Region<RemoteWrite, V> = b.nic.region(8, Order::InOrder).unwrap();
        let request = wr::fetch_add(a.piece(0..8), region.remote(), 1).unwrap();
        fails_in_the_middle(&mut a, &b, request, Status::RemoteAccess);
    }

    fn what_this_sides_region_refuses_is_a_local_protection_error<V>(device) {
        let [mut a, b] = pair(device);
        // SAFETY: M2: no key reaches the bytes.
        let unknown = unsafe { wr::LocalSlice::from_parts(0x1000, 8, !a.piece(0..8).lkey()) };
        let request = wr::write(unknown, b.remote(0..8)).unwrap();
        fails_in_the_middle(&mut a, &b, request, Status::LocalProtection);

        let [mut a, b] = pair(device);
        let piece = a.piece(0..8);
        let (end, lkey) = (piece.address() + (1 << 16), piece.lkey());
        // SAFETY: M2: the NIC refuses bytes past the region.
        let past = unsafe { wr::LocalSlice::from_parts(end - 4, 8, lkey) };
        let request = wr::send(past);
        fails_in_the_middle(&mut a, &b, request, Status::LocalProtection);

        // A read finds out when its answer comes; what follows it may have reached the peer by then.
        let [mut a, b] = pair(device);
        let gone: Region<Local, V> = a.nic.region(64, Order::InOrder).unwrap();
        let piece = gone.slice(0..8).unwrap();
        gone.deregister().unwrap();
        a.qp.sends().post(wr::read(piece, b.remote(0..8)).unwrap().id(3)).unwrap();
        for id in 4..8 {
            let request = wr::write(Inline([id as u8; 8]), b.remote(0..8)).unwrap();
            a.qp.sends().post(request.id(id).signaled()).unwrap();
        }
        a.qp.sends().ring();
        let expected = then_flushed(Status::LocalProtection, 3..8);
        assert_eq!(failures(&mut a, 5, Queue::Send), expected);
    }

    fn a_receive_that_is_too_short_fails_on_both_sides<V>(device) {
        let [mut a, mut b] = pair(device);
        for id in 0..4 {
            b.receive(id as usize * 64..id as usize * 64 + 16, id);
        }
        a.post(wr::send(a.piece(0..16)).id(10).signaled());
        a.post(wr::send(a.piece(0..17)).id(11).signaled());
        a.post(wr::send(a.piece(0..16)).id(12).signaled());
        assert_eq!(sent(&mut a.cq), 10);
        assert_eq!(received(&mut b.cq).id, 0);
        assert_eq!(failures(&mut a, 2, Queue::Send), then_flushed(Status::RemoteInvalidRequest, 11..13));
        let flushed = failures(&mut b, 3, Queue::Receive);
        assert_eq!(flushed, then_flushed(Status::LocalLength, 1..4));
    }

    fn a_receive_into_memory_that_is_gone_fails_on_both_sides<V>(device) {
        let [mut a, mut b] = pair(device);
        let gone: Region<Local, V> = b.nic.region(64, Order::InOrder).unwrap();
        let piece = gone.slice(0..64).unwrap();
        gone.deregister().unwrap();
        b.qp.receives().post(wr::receive(piece).id(5)).unwrap();
        b.qp.receives().ring();
        a.post(wr::send(a.piece(0..16)).id(6));
        assert_eq!(failures(&mut a, 1, Queue::Send), [(6, Status::RemoteOperation)]);
        assert_eq!(failures(&mut b, 1, Queue::Receive), [(5, Status::LocalProtection)]);
    }

    fn a_peer_without_a_receive_is_asked_as_often_as_said_and_no_more<V>(device) {
        for rnr_retries in [0, 3] {
            let rnr_timer = RnrTimer::US_10;
            let connection = Connection { rnr_retries, rnr_timer, ..Connection::default() };
            let options = Options { connection, ..Options::default() };
            let [mut a, b] = pair_of::<V, Uncached>(device, &options);
            let request = wr::send(a.piece(0..8));
            fails_in_the_middle(&mut a, &b, request, Status::ReceiverNotReadyRetryExceeded);
        }
    }

    fn a_peer_without_a_receive_is_asked_until_it_has_one<V>(device) {
        let connection = Connection { rnr_timer: RnrTimer::US_10, ..Connection::default() };
        let options = Options { connection, ..Options::default() };
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
        for round in 0..5 {
            a.post(wr::send(Inline([round; 8])).id(round.into()).signaled());
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(a.cq.poll(), None);
            b.receive(0..8, u64::from(round));
            assert_eq!(received(&mut b.cq).id, u64::from(round));
            assert_eq!(sent(&mut a.cq), u64::from(round));
            assert_eq!(b.bytes(0..8), [round; 8]);
        }
    }

    fn a_peer_that_is_gone_is_asked_as_often_as_said_and_no_more<V>(device) {
        let ack_timeout = AckTimeout::at_least(Duration::from_micros(500));
        let connection = Connection { retries: 2, ack_timeout, ..Connection::default() };
        let options = Options { connection, ..Options::default() };
        let [mut a, b] = pair_of::<V, Uncached>(device, &options);
        let to = b.remote(0..8);
        b.qp.destroy().unwrap();
        for id in 0..3 {
            a.qp.sends().post(wr::write(a.memory.slice(0..8).unwrap(), to).unwrap().id(id))
                .unwrap();
        }
        a.qp.sends().ring();
        let expected = then_flushed(Status::TransportRetryExceeded, 0..3);
        assert_eq!(failures(&mut a, 3, Queue::Send), expected);
    }

    fn a_request_that_the_peer_is_not_allowed_fails_and_so_does_its_connection<V>(device) {
        let options = Options { rights: PeerRights::READ, ..Options::default() };
        let [mut a, b] = pair_of::<V, Uncached>(device, &options);
        a.post(wr::write(a.piece(0..8), b.remote(0..8)).unwrap().id(1));
        let first = failed(&mut a.cq);
        let refused = [Status::RemoteAccess, Status::RemoteInvalidRequest];
        assert!(refused.contains(&first.status), "{first}");
        // What is posted after a failure is flushed, too.
        a.post(wr::read(a.piece(0..8), b.remote(0..8)).unwrap().id(2).signaled());
        assert_eq!(failures(&mut a, 1, Queue::Send), [(2, Status::WorkRequestFlushed)]);
    }

    fn taking_a_queue_pair_down_flushes_all_that_is_outstanding_exactly_once<V>(device) {
        let connection = Connection { rnr_timer: RnrTimer::MS_10, ..Connection::default() };
        let options = Options { connection, ..Options::default() };
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
        for id in 0..10 {
            a.receive(0..64, 100 + id);
        }
        // Nothing of this can be done: the peer has no receive. Some is not even rung.
        for id in 0..20 {
            a.qp.sends().post(wr::send(Nothing).id(id)).unwrap();
            if id == 12 {
                a.qp.sends().ring();
            }
        }
        a.qp.receives().post(wr::receive(Nothing).id(110)).unwrap();
        let mut errored = a.qp.fail().unwrap();
        assert!(!errored.is_drained());
        let mut counts = [0; 2];
        for _ in 0..31 {
            let Completion::Failed(Failed { id, status, queue, .. }) = next(&mut a.cq) else {
                panic!("something was done")
            };
            assert_eq!(status, Status::WorkRequestFlushed);
            let (first, count) = match queue {
                Queue::Send => (0, &mut counts[0]),
                Queue::Receive => (100, &mut counts[1]),
            };
            assert_eq!(id, first + *count, "{queue:?}");
            *count += 1;
        }
        assert_eq!(counts, [20, 11]);
        until(|| {
            assert_eq!((a.cq.poll(), b.cq.poll()), (None, None));
            errored.is_drained()
        });
    }

    fn a_failure_describes_itself<V>(device) {
        let [mut a, b] = pair(device);
        let nowhere = RemoteSlice::new(0, 8, !b.remote(0..8).rkey());
        a.post(wr::write(a.piece(0..8), nowhere).unwrap().id(77));
        let failed = failed(&mut a.cq);
        let text = failed.to_string();
        assert!(text.starts_with("request 77 of queue pair 0 failed: remote access error"), "{text}");
        let _: &dyn std::error::Error = &failed;
    }
}

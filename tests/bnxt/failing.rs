//! Requests and receives that fail.

use crate::device::{End, Options, PATIENCE, pair, pair_on};
use doorbell::bnxt::{Connection, PeerRights};
use doorbell::completion::{Completion, Queue, Status};
use doorbell::error::Error;
use doorbell::timer::{AckTimeout, RnrTimer};
use doorbell::wr::{self, RemoteSlice};
use doorbell_model::connectx::Network;
use std::time::Duration;

#[test]
fn what_failed_says_why_and_what_came_before_it_is_done() {
    let [mut a, b] = pair();
    // Two that are done, one of them unsignaled; one that fails; two that are flushed.
    let good = b.remote(0..8);
    let bad = RemoteSlice::new(good.address(), 8, good.rkey() ^ 0x100);
    for (id, to) in [(0, good), (1, good), (2, bad), (3, good), (4, good)] {
        let request = wr::write(a.piece(0..8), to).unwrap().id(id);
        match id {
            1 | 4 => a.qp.sends().post(request).unwrap(),
            _ => a.qp.sends().post(request.signaled()).unwrap(),
        }
    }
    a.qp.sends().ring();
    assert_eq!(a.sent().id, 0);
    let failed = a.failed();
    assert_eq!((failed.id, failed.status, failed.queue), (2, Status::RemoteAccess, Queue::Send));
    assert_eq!(failed.queue_pair, a.qp.index());
    for id in [3, 4] {
        let failed = a.failed();
        assert_eq!((failed.id, failed.status), (id, Status::WorkRequestFlushed));
    }
    // Whatever is posted from here on fails, too.
    let request = wr::write(a.piece(0..8), good).unwrap().id(5);
    a.qp.sends().post(request).unwrap();
    a.qp.sends().ring();
    a.qp.receives().post(wr::receive(a.memory.slice(0..8).unwrap()).id(6)).unwrap();
    a.qp.receives().ring();
    for (id, queue) in [(5, Queue::Send), (6, Queue::Receive)] {
        let failed = a.failed();
        assert_eq!((failed.id, failed.queue), (id, queue));
        assert_eq!(failed.status, Status::WorkRequestFlushed);
    }
    assert_eq!(a.cq.poll(), None);
}

#[test]
fn a_receive_that_is_too_short_fails_on_both_sides() {
    let [mut a, mut b] = pair();
    b.qp.receives().post(wr::receive(b.memory.slice(0..7).unwrap()).id(1)).unwrap();
    b.qp.receives().post(wr::receive(b.memory.slice(0..7).unwrap()).id(2)).unwrap();
    b.qp.receives().ring();
    a.qp.sends().post(wr::send(a.memory.slice(0..8).unwrap()).id(3).signaled()).unwrap();
    a.qp.sends().ring();
    let failed = b.failed();
    assert_eq!((failed.id, failed.status, failed.queue), (1, Status::LocalLength, Queue::Receive));
    let failed = b.failed();
    assert_eq!((failed.id, failed.status), (2, Status::WorkRequestFlushed));
    let failed = a.failed();
    assert_eq!((failed.id, failed.status), (3, Status::RemoteInvalidRequest));
}

#[test]
fn a_peer_without_a_receive_is_asked_as_often_as_the_connection_says() {
    let connection =
        Connection { rnr_timer: RnrTimer::US_10, rnr_retries: 2, ..Connection::default() };
    let [mut a, _b] = pair_on(&Network::free(), &Options { connection, ..Options::default() });
    a.qp.sends().post(wr::send(a.memory.slice(0..8).unwrap()).id(3).signaled()).unwrap();
    a.qp.sends().ring();
    let failed = a.failed();
    assert_eq!((failed.id, failed.status), (3, Status::ReceiverNotReadyRetryExceeded));
}

#[test]
fn a_peer_that_is_gone_does_not_answer() {
    let ack_timeout = AckTimeout::at_least(Duration::from_micros(8));
    let connection = Connection { ack_timeout, retries: 1, ..Connection::default() };
    let [mut a, b] = pair_on(&Network::free(), &Options { connection, ..Options::default() });
    drop(b);
    a.qp.sends().post(wr::send(a.memory.slice(0..8).unwrap()).id(3).signaled()).unwrap();
    a.qp.sends().ring();
    let failed = a.failed();
    assert_eq!((failed.id, failed.status), (3, Status::TransportRetryExceeded));
}

#[test]
fn a_peer_may_do_through_a_queue_pair_what_it_was_given_at_connect() {
    for (rights, expected) in [
        (PeerRights::NONE, [false, false, false]),
        (PeerRights::WRITE, [true, false, false]),
        (PeerRights::READ, [false, true, false]),
        (PeerRights::ATOMIC, [false, false, true]),
    ] {
        let allowed = [0, 1, 2].map(|what| {
            let [mut a, b] = pair_on(&Network::free(), &Options { rights, ..Options::default() });
            let (piece, remote) = (a.piece(0..8), b.remote(0..8));
            let sends = a.qp.sends();
            match what {
                0 => sends.post(wr::write(piece, remote).unwrap().signaled()),
                1 => sends.post(wr::read(piece, remote).unwrap().signaled()),
                _ => sends.post(wr::fetch_add(piece, remote, 1).unwrap().signaled()),
            }
            .unwrap();
            sends.ring();
            match a.next() {
                Completion::Sent(_) => true,
                Completion::Failed(_) => false,
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(allowed, expected, "{rights:?}");
    }
}

#[test]
fn taking_a_queue_pair_down_flushes_all_that_is_outstanding_exactly_once() {
    let [mut a, _b] = pair();
    for id in 0..10 {
        a.qp.receives().post(wr::receive(a.memory.slice(0..8).unwrap()).id(id)).unwrap();
    }
    // Not rung: they are flushed like the others.
    let End { mut cq, qp, .. } = a;
    let mut errored = qp.fail().unwrap();
    for id in 0..10 {
        match cq.wait(PATIENCE) {
            Some(Completion::Failed(failed)) => {
                assert_eq!((failed.id, failed.status), (id, Status::WorkRequestFlushed));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cq.poll(), None);
    assert!(errored.is_drained());
    drop(errored);
    assert_eq!(cq.poll(), None);
}

#[test]
fn a_failure_flushes_a_receive_queue_that_completes_elsewhere() {
    let (nic, _control) = crate::device::open(&Network::free());
    let memory = nic.region::<doorbell::access::Local>(4096).unwrap();
    let (mut sends, mut receives) =
        (nic.completion_queue(16).unwrap(), nic.completion_queue(16).unwrap());
    let builder = nic.queue_pair(&sends).receive_completions(&receives);
    let qp = builder.sends(4).receives(4).create().unwrap();
    let peer = qp.endpoint();
    let mut qp = qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap();
    qp.receives().post(wr::receive(memory.slice(0..8).unwrap()).id(1)).unwrap();
    qp.receives().ring();
    // It is its own peer, which has no such key.
    let nowhere = RemoteSlice::new(0, 8, 0x7777_7700);
    qp.sends().post(wr::write(memory.slice(0..8).unwrap(), nowhere).unwrap().id(2)).unwrap();
    qp.sends().ring();
    assert!(matches!(sends.wait(PATIENCE), Some(Completion::Failed(failed)) if failed.id == 2));
    match receives.wait(PATIENCE) {
        Some(Completion::Failed(failed)) => assert_eq!(failed.id, 1),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_cannot_be_reached_is_refused_and_the_queue_pair_given_back() {
    let (nic, _control) = crate::device::open(&Network::free());
    let cq = nic.completion_queue(16).unwrap();
    let mut qp = nic.queue_pair(&cq).sends(4).create().unwrap();
    let good = qp.endpoint().to_bytes();
    type Change = fn(&mut [u8; 32]);
    let changes: [(&str, Change); 3] = [
        ("InfiniBand", |bytes| bytes[1] = 1),
        ("IPv4", |bytes| bytes[26] ^= 0xff),
        ("Ethernet address", |bytes| bytes[4..10].fill(0)),
    ];
    for (why, change) in changes {
        let mut bytes = good;
        change(&mut bytes);
        let peer = doorbell::endpoint::Endpoint::from_bytes(&bytes).unwrap();
        let refused = qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap_err();
        assert!(matches!(refused.error, Error::Unreachable { .. }));
        assert!(refused.error.to_string().contains(why), "{}", refused.error);
        qp = refused.object;
    }
    let peer = qp.endpoint();
    qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap();
}

#[test]
fn what_a_queue_pair_leaves_when_it_fails_is_nothing_of_its_next_connection() {
    let [mut a, mut b] = pair_on(&Network::stepped(0), &Options::default());
    let memory = b.remote(0..8);
    let peers = [b.qp.endpoint(), a.qp.endpoint()];
    // The peer refuses the key, and fails: it says so in its completion ring.
    let nowhere = RemoteSlice::new(memory.address(), 8, memory.rkey() ^ 0x100);
    let request = wr::write(a.piece(0..8), nowhere).unwrap().id(1);
    a.qp.sends().post(request).unwrap();
    a.qp.sends().ring();
    assert_eq!(a.failed().id, 1);
    let connection = Connection::default();
    let mut failed = b.qp.fail().unwrap();
    assert!(!failed.is_drained(), "nobody has polled");
    failed = failed.reset().unwrap_err().object;
    assert_eq!(b.cq.poll(), None);
    assert!(failed.is_drained());
    let b_again = failed.reset().unwrap();
    let a_failed = a.qp.fail().unwrap();
    assert_eq!(a.cq.poll(), None);
    let a_again = a_failed.reset().unwrap();
    // The numbers are the same, the first packets are others.
    let ends = [b_again.endpoint(), a_again.endpoint()];
    assert_ne!(ends, peers);
    let mut b_qp = b_again.connect(PeerRights::WRITE, &ends[1], &connection).unwrap();
    let _a_qp = a_again.connect(PeerRights::WRITE, &ends[0], &connection).unwrap();
    let request = wr::write(b.memory.slice(0..8).unwrap(), a.memory.remote().slice(0..8).unwrap());
    b_qp.sends().post(request.unwrap().id(2).signaled()).unwrap();
    b_qp.sends().ring();
    assert!(matches!(b.cq.wait(PATIENCE), Some(Completion::Sent(sent)) if sent.id == 2));
}

//! The rings: how much they hold, and what happens at their ends.

use crate::device::{Options, PATIENCE, pair_on};
use doorbell::completion::Completion;
use doorbell::wr::{self, PostError};
use doorbell_model::connectx::Network;

fn full_rings() -> Options {
    Options {
        completions: 8192,
        build: |builder| builder.sends(4095).receives(4095),
        ..Options::default()
    }
}

#[test]
fn each_ring_holds_4095_entries_and_room_says_how_many_more() {
    let [mut a, mut b] = pair_on(&Network::free(), &full_rings());
    assert_eq!((a.qp.sends().room(), b.qp.receives().room()), (4095, 4095));
    for id in 0..4095 {
        b.qp.receives().post(wr::receive(b.memory.slice(0..8).unwrap()).id(id)).unwrap();
        a.qp.sends().post(wr::send(a.memory.slice(0..8).unwrap()).id(id).signaled()).unwrap();
        let left = 4094 - id as u32;
        assert_eq!((a.qp.sends().room(), b.qp.receives().room()), (left, left));
    }
    let receive = wr::receive(b.memory.slice(0..8).unwrap());
    assert_eq!(b.qp.receives().post(receive), Err(PostError::Full));
    let send = wr::send(a.memory.slice(0..8).unwrap());
    assert_eq!(a.qp.sends().post(send), Err(PostError::Full));
    b.qp.receives().ring();
    a.qp.sends().ring();
    for id in 0..4095 {
        // An entry's slot is free once its completion was taken, and no sooner.
        assert_eq!((a.qp.sends().room(), b.qp.receives().room()), (id as u32, id as u32));
        assert_eq!(a.sent().id, id);
        assert_eq!(b.received().id, id);
    }
    assert_eq!((a.qp.sends().room(), b.qp.receives().room()), (4095, 4095));
}

#[test]
fn completions_come_in_the_order_of_the_entries_lap_after_lap() {
    const BATCH: u64 = 1000;
    let [mut a, mut b] = pair_on(&Network::free(), &full_rings());
    for lap in 0..20 {
        for id in lap * BATCH..(lap + 1) * BATCH {
            b.qp.receives().post(wr::receive(b.memory.slice(0..64).unwrap()).id(id)).unwrap();
        }
        b.qp.receives().ring();
        for id in lap * BATCH..(lap + 1) * BATCH {
            // Entries of two, three and five slots, so that they cross the ring's end anywhere.
            let piece = a.memory.slice(0..8).unwrap();
            let posted = match id % 3 {
                0 => a.qp.sends().post(wr::send(wr::Nothing).id(id).signaled()),
                1 => a.qp.sends().post(wr::send(piece).id(id).signaled()),
                _ => a.qp.sends().post(wr::send([piece; 3]).id(id).signaled()),
            };
            posted.unwrap();
        }
        a.qp.sends().ring();
        for id in lap * BATCH..(lap + 1) * BATCH {
            assert_eq!(a.sent().id, id);
            let received = b.received();
            assert_eq!((received.id, received.len), (id, [0, 8, 24][id as usize % 3]));
        }
    }
}

#[test]
fn the_smallest_rings_work_lap_after_lap() {
    for (sends, receives, completions) in [(1, 1, 2), (2, 1, 3), (1, 3, 4), (3, 2, 8)] {
        let mut options = Options { completions, ..Options::default() };
        options.build = match (sends, receives) {
            (1, 1) => |builder| builder.sends(1).receives(1),
            (2, 1) => |builder| builder.sends(2).receives(1),
            (1, 3) => |builder| builder.sends(1).receives(3),
            _ => |builder| builder.sends(3).receives(2),
        };
        let [mut a, mut b] = pair_on(&Network::free(), &options);
        for id in 0..600 {
            b.qp.receives().post(wr::receive(b.memory.slice(0..8).unwrap()).id(id)).unwrap();
            b.qp.receives().ring();
            a.qp.sends().post(wr::send(a.memory.slice(0..8).unwrap()).id(id).signaled()).unwrap();
            a.qp.sends().ring();
            assert_eq!((a.sent().id, b.received().id), (id, id));
        }
    }
}

#[test]
fn unsignaled_requests_free_their_slots_with_the_next_signaled_one() {
    let options = Options { build: |builder| builder.sends(100), ..Options::default() };
    let [mut a, b] = pair_on(&Network::free(), &options);
    for lap in 0..50 {
        for _ in 0..99 {
            let write = wr::write(a.piece(0..8), b.remote(0..8)).unwrap();
            a.qp.sends().post(write.id(1)).unwrap();
        }
        let write = wr::write(a.piece(0..8), b.remote(0..8)).unwrap();
        a.qp.sends().post(write.id(lap).signaled()).unwrap();
        assert_eq!(a.qp.sends().room(), 0);
        a.qp.sends().ring();
        assert_eq!(a.sent().id, lap);
        assert_eq!(a.qp.sends().room(), 100);
        assert_eq!(a.cq.poll(), None);
    }
}

#[test]
fn a_queue_pair_without_sends_or_without_receives_can_be_made() {
    let options = Options { build: |builder| builder.sends(0).receives(0), ..Options::default() };
    let [mut a, _b] = pair_on(&Network::free(), &options);
    assert_eq!((a.qp.sends().room(), a.qp.receives().room()), (0, 0));
    assert_eq!(a.qp.sends().post(wr::send(wr::Nothing)), Err(PostError::Full));
    assert_eq!(a.qp.receives().post(wr::receive(wr::Nothing)), Err(PostError::Full));
    a.qp.sends().ring();
    a.qp.receives().ring();
}

#[test]
fn a_completion_queue_shared_by_many_queue_pairs_reports_each_by_its_index() {
    let (nic, _control) = crate::device::open(&Network::free());
    let memory = nic.region::<doorbell::access::RemoteAtomic>(4096).unwrap();
    let mut cq = nic.completion_queue(1024).unwrap();
    let made: Vec<_> = (0..32).map(|_| nic.queue_pair(&cq).sends(4).create().unwrap()).collect();
    let endpoints: Vec<_> = made.iter().map(|qp| qp.endpoint()).collect();
    let rights = doorbell::bnxt::PeerRights::WRITE;
    let connection = Default::default();
    let mut pairs: Vec<_> = made
        .into_iter()
        .enumerate()
        .map(|(k, qp)| qp.connect(rights, &endpoints[k ^ 1], &connection).unwrap())
        .collect();
    for (k, qp) in pairs.iter_mut().enumerate() {
        assert_eq!(qp.index().get() as usize, k);
        let to = memory.remote().slice(0..8).unwrap();
        let write = wr::write(memory.slice(8..16).unwrap(), to).unwrap();
        qp.sends().post(write.id(k as u64).signaled()).unwrap();
        qp.sends().ring();
    }
    let mut seen = [false; 32];
    for _ in 0..32 {
        match cq.wait(PATIENCE) {
            Some(Completion::Sent(sent)) => {
                assert_eq!(u64::from(sent.queue_pair.get()), sent.id);
                seen[sent.id as usize] = true;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(seen.iter().all(|seen| *seen));
}

//! Doorbells that come faster than the NIC takes them.

use crate::device::PATIENCE;
use doorbell::access::RemoteAtomic;
use doorbell::bnxt::{Connection, Nic, PeerRights};
use doorbell::completion::Completion;
use doorbell::wr;
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use doorbell_model::netxtreme::{Bounds, Counters};

/// Rings 60 doorbells at once on a NIC with room for 16, and then waits for what was posted.
fn burst(paced: bool) -> Counters {
    let bounds = Bounds { paced, doorbells: 16, ..Bounds::default() };
    let network = Network::stepped(0);
    let function = VirtualNetxtreme::builder().network(&network).bounds(bounds).open();
    let control = function.watch();
    let nic = Nic::open(function).unwrap();
    let memory = nic.region::<RemoteAtomic>(4096).unwrap();
    let mut cq = nic.completion_queue(256).unwrap();
    let [a, b] = [0, 1].map(|_| nic.queue_pair(&cq).sends(64).receives(64).create().unwrap());
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let mut a = a.connect(PeerRights::NONE, &to_b, &Connection::default()).unwrap();
    let _b = b.connect(PeerRights::WRITE, &to_a, &Connection::default()).unwrap();
    let post = |a: &mut doorbell::bnxt::QueuePair<_, _>, id: u64| {
        let piece = memory.slice(0..8).unwrap();
        let request = wr::write(piece, memory.remote().slice(64..128).unwrap()).unwrap();
        a.sends().post(request.id(id).signaled()).unwrap();
        a.sends().ring();
    };
    for id in 0..60 {
        post(&mut a, id);
    }
    let counters = control.counters();
    // The last doorbell says it all, even if others were lost.
    network.run_until_idle(100_000);
    post(&mut a, 60);
    for expected in 0..=60 {
        match cq.wait(PATIENCE) {
            Some(Completion::Sent(sent)) => assert_eq!(sent.id, expected),
            other => panic!("{other:?}"),
        }
    }
    counters
}

#[test]
fn a_nic_that_asks_to_be_spared_loses_no_doorbell() {
    assert_eq!(burst(true).lost_doorbells, 0);
}

#[test]
fn lost_doorbells_are_made_up_for_by_the_next_one() {
    assert!(burst(false).lost_doorbells > 0);
}

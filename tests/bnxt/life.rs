//! A NIC's life: open, close, and what lives on it.

use crate::device::{End, Options, PATIENCE, open, pair, pair_on};
use doorbell::access::Local;
use doorbell::bnxt::{Nic, PeerRights};
use doorbell::completion::{Completion, Status};
use doorbell::endpoint::{LinkLayer, Mtu};
use doorbell::error::Error;
use doorbell::wr;
use doorbell_hal::pci::{self, PciFunction};
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use std::time::Duration;

#[test]
fn a_nic_is_known_by_its_ethernet_address_and_the_address_made_from_it() {
    let function = VirtualNetxtreme::builder().number(0x1234).open();
    let nic = Nic::open(function).unwrap();
    let [.., x, y, z] = nic.mac();
    assert_eq!(nic.gid(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, x, y, z]);
    assert_eq!((y, z), (0x12, 0x34));
    assert_eq!((nic.link(), nic.mtu()), (LinkLayer::Ethernet, Mtu::B4096));
    assert_eq!(nic.max_message(), 1 << 31);
    assert_eq!((nic.max_sends(), nic.max_receives()), (4095, 4095));
}

#[test]
fn an_open_nic_writes_in_order_and_a_closed_one_as_before_and_nothing_at_all() {
    for was_on in [true, false] {
        let function = VirtualNetxtreme::builder().open();
        pci::set_relaxed_ordering(&function, was_on).unwrap();
        let control = function.watch();
        assert_eq!((control.is_relaxed(), control.is_bus_master()), (was_on, false));
        let nic = Nic::open(function).unwrap();
        assert!(!control.is_relaxed() && control.is_bus_master());
        assert!(control.lent() > 0);
        nic.close().unwrap();
        assert_eq!((control.is_relaxed(), control.is_bus_master()), (was_on, false));
        assert_eq!(control.lent(), 0);
    }
}

#[test]
fn a_nic_is_opened_again_whatever_ran_on_it_before() {
    let function = VirtualNetxtreme::builder().open();
    let control = function.watch();
    let nic = Nic::open(function).unwrap();
    let cq = nic.completion_queue(16).unwrap();
    let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
    let asked = control.with(|nic| nic.take_given());
    assert!(asked.iter().any(|(name, _)| *name == "FUNC_RESET"), "{asked:?}");
    // Before anything is asked of it, the function is reset: what it was made to know is gone.
    assert_eq!(control.with(|nic| nic.objects())[1..3], [1, 1]);
    nic.function().reset().unwrap();
    assert_eq!(control.with(|nic| nic.objects())[1..3], [0, 0]);
    drop((qp, cq));
}

#[test]
fn objects_are_made_by_several_threads_at_once_on_a_bcm57608() {
    let (nic, control) = open(&Network::free());
    let before = control.lent();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let region = nic.region::<Local>(10_000).unwrap();
                    let cq = nic.completion_queue(16).unwrap();
                    let qp = nic.queue_pair(&cq).sends(4).receives(4).create().unwrap();
                    let peer = qp.endpoint();
                    let qp = qp.connect(PeerRights::NONE, &peer, &Default::default()).unwrap();
                    qp.destroy().unwrap();
                    drop((cq, region));
                }
            });
        }
    });
    assert_eq!(control.lent(), before);
}

#[test]
fn a_nic_is_closed_only_without_objects_and_given_back_otherwise() {
    let (nic, control) = open(&Network::free());
    let region = nic.region::<Local>(1).unwrap();
    let refused = nic.close().unwrap_err();
    assert!(matches!(refused.error, Error::InUse { objects: 1 }), "{}", refused.error);
    drop(region);
    refused.object.close().unwrap();
    assert_eq!(control.lent(), 0);
}

#[test]
fn objects_keep_their_nic_open_and_the_last_closes_it() {
    let [a, b] = pair();
    let End { nic, control, memory, cq, qp } = a;
    drop((nic, memory, cq));
    assert!(control.is_bus_master());
    drop(qp);
    assert!(!control.is_bus_master());
    assert_eq!(control.lent(), 0);
    drop(b);
}

#[test]
fn objects_can_be_dropped_in_any_order_with_work_under_way() {
    for order in 0..6 {
        let [a, mut b] = pair();
        let End { nic, control, memory, cq, mut qp } = a;
        for id in 0..8 {
            let request = wr::write(memory.slice(0..4096).unwrap(), b.remote(0..4096)).unwrap();
            qp.sends().post(request.id(id).signaled()).unwrap();
        }
        qp.sends().ring();
        match order {
            0 => drop((qp, cq, memory)),
            1 => drop((qp, memory, cq)),
            2 => drop((cq, qp, memory)),
            3 => drop((cq, memory, qp)),
            4 => drop((memory, qp, cq)),
            _ => drop((memory, cq, qp)),
        }
        nic.close().unwrap();
        assert_eq!(control.lent(), 0, "order {order}");
        // The other side is as good as before.
        assert_eq!(b.cq.poll(), None);
        assert!(b.memory.slice(0..1).is_ok());
    }
}

#[test]
fn a_broken_connection_is_made_again_on_the_same_queue_pairs() {
    let [mut a, b] = pair();
    // The first write fails, and takes the rest with it.
    let nowhere = wr::RemoteSlice::new(0, 64, 0x1234_5600);
    for id in 0..4 {
        let request = wr::write(a.piece(0..64), nowhere).unwrap().id(id);
        a.qp.sends().post(request.signaled()).unwrap();
    }
    a.qp.sends().ring();
    assert_eq!(a.failed().status, Status::RemoteAccess);
    for id in 1..4 {
        let failed = a.failed();
        assert_eq!((failed.id, failed.status), (id, Status::WorkRequestFlushed));
    }
    let End { nic: nic_a, memory: memory_a, cq: mut cq_a, qp: qp_a, .. } = a;
    let End { nic: nic_b, memory: memory_b, cq: mut cq_b, qp: qp_b, .. } = b;
    let (mut qp_a, mut qp_b) = (qp_a.fail().unwrap(), qp_b.fail().unwrap());
    // What the failures left in the rings is not to be taken for what comes next.
    assert_eq!((cq_a.poll(), cq_b.poll()), (None, None));
    assert!(qp_a.is_drained() && qp_b.is_drained());
    let before = (qp_a.endpoint(), qp_b.endpoint());
    let (qp_a, qp_b) = (qp_a.reset().unwrap(), qp_b.reset().unwrap());
    let (to_a, to_b) = (qp_a.endpoint(), qp_b.endpoint());
    assert_eq!(
        (to_a.queue_pair(), to_b.queue_pair()),
        (before.0.queue_pair(), before.1.queue_pair())
    );
    let connection = Default::default();
    let mut qp_a = qp_a.connect(PeerRights::NONE, &to_b, &connection).unwrap();
    let _qp_b = qp_b.connect(PeerRights::WRITE, &to_a, &connection).unwrap();
    memory_a.write_at(0, b"again").unwrap();
    let request = wr::write(memory_a.slice(0..5).unwrap(), memory_b.remote()).unwrap();
    qp_a.sends().post(request.id(9).signaled()).unwrap();
    qp_a.sends().ring();
    assert!(matches!(cq_a.wait(PATIENCE), Some(Completion::Sent(sent)) if sent.id == 9));
    let mut bytes = [0; 5];
    memory_b.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"again");
    drop((nic_a, nic_b, cq_b));
}

#[test]
fn a_queue_pair_that_is_not_drained_is_not_reset() {
    let [mut a, _b] = pair();
    a.qp.receives().post(wr::receive(a.memory.slice(0..8).unwrap()).id(3)).unwrap();
    a.qp.receives().ring();
    let errored = a.qp.fail().unwrap();
    let refused = errored.reset().unwrap_err();
    assert!(matches!(refused.error, Error::NotDrained { sends: 0, receives: 1 }));
    let mut errored = refused.object;
    match a.cq.wait(PATIENCE) {
        Some(Completion::Failed(failed)) => {
            assert_eq!((failed.id, failed.status), (3, Status::WorkRequestFlushed));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(a.cq.poll(), None);
    assert!(errored.is_drained());
    errored.reset().unwrap();
}

#[test]
fn completions_of_a_queue_pair_that_is_gone_are_passed_over() {
    let [mut a, b] = pair();
    for id in 0..8 {
        let request = wr::write(a.piece(0..8), b.remote(0..8)).unwrap().id(id);
        a.qp.sends().post(request.signaled()).unwrap();
    }
    a.qp.sends().ring();
    // One has come, so that others may be in the ring.
    assert_eq!(a.sent().id, 0);
    let End { nic, mut cq, qp, .. } = a;
    qp.destroy().unwrap();
    assert_eq!(cq.wait(Duration::from_millis(20)), None);
    // The next queue pair has the same index, and its completions are its own.
    let qp = nic.queue_pair(&cq).sends(1).create().unwrap();
    assert_eq!(qp.index().get(), 0);
}

#[test]
fn waiting_ends_when_its_time_is_over() {
    let options = Options::default();
    let [mut a, _b] = pair_on(&Network::stepped(1), &options);
    assert_eq!(a.cq.wait(Duration::ZERO), None);
    assert_eq!(a.cq.wait(Duration::from_millis(10)), None);
}

#[test]
fn both_queues_are_used_by_threads_of_their_own_while_a_third_polls() {
    const MESSAGES: u64 = 2000;
    let [a, b] = pair();
    let (mut sends, _keep_a) = a.qp.split();
    let (_keep_b, mut receives) = b.qp.split();
    let (mut cq_a, mut cq_b) = (a.cq, b.cq);
    let (from, into) = (a.memory.slice(0..8).unwrap(), b.memory.slice(0..8).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for id in 0..MESSAGES {
                while receives.post(wr::receive(into).id(id)).is_err() {
                    std::thread::yield_now();
                }
                receives.ring();
            }
        });
        scope.spawn(|| {
            for id in 0..MESSAGES {
                while sends.post(wr::send(from).id(id).signaled()).is_err() {
                    std::thread::yield_now();
                }
                sends.ring();
            }
        });
        scope.spawn(|| {
            for id in 0..MESSAGES {
                let sent = cq_a.wait(PATIENCE);
                assert!(matches!(sent, Some(Completion::Sent(sent)) if sent.id == id), "{sent:?}");
            }
        });
        for id in 0..MESSAGES {
            let received = cq_b.wait(PATIENCE);
            let is_next = matches!(received, Some(Completion::Received(it)) if it.id == id);
            assert!(is_next, "{received:?}");
        }
    });
}

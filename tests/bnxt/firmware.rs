//! Firmware that refuses, or does not answer.

use crate::device::{Options, open, pair_on};
use doorbell::access::Local;
use doorbell::bnxt::{Connection, Nic, PeerRights};
use doorbell::error::Error;
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use std::collections::BTreeMap;

/// What an open asks the firmware for, by name, and how often.
fn asked_by_open() -> BTreeMap<&'static str, u64> {
    let function = VirtualNetxtreme::builder().network(&Network::stepped(0)).open();
    let control = function.watch();
    let nic = Nic::open(function).unwrap();
    let asked = control.with(|nic| nic.take_given());
    drop(nic);
    asked.into_iter().collect()
}

#[test]
fn each_request_of_an_open_refused_in_turn_is_an_error_that_names_it_and_leaves_nothing_behind() {
    let asked = asked_by_open();
    assert!(asked.len() > 15, "{asked:?}");
    let mut refused = 0;
    for (name, times) in asked {
        for skip in 0..times {
            let function = VirtualNetxtreme::builder().network(&Network::stepped(0)).open();
            let control = function.watch();
            assert!(control.with(|nic| nic.plan_refusal(name, skip)));
            let error = match Nic::open(function) {
                Err(error) => error,
                Ok(_) => panic!("{name} was refused, and nobody cared"),
            };
            assert!(matches!(error, Error::Firmware { .. }), "{name} {skip}: {error}");
            assert!(error.to_string().contains(name), "{name} {skip}: {error}");
            // The function is not there any more, and everything it had is free.
            assert!(!control.is_bus_master(), "{name} {skip}");
            assert_eq!(control.lent(), 0, "{name} {skip}");
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn each_call_refused_gives_back_what_it_took_and_works_when_it_is_made_again() {
    let (nic, control) = open(&Network::stepped(0));
    let refuse = |name: &str| assert!(control.with(|nic| nic.plan_refusal(name, 0)));
    let before = control.lent();

    refuse("REGISTER_MR");
    let error = nic.region::<Local>(5000).unwrap_err();
    assert!(error.to_string().contains("REGISTER_MR"), "{error}");
    assert_eq!(control.lent(), before);
    let region = nic.region::<Local>(5000).unwrap();
    refuse("DEALLOCATE_KEY");
    let refused = region.deregister().unwrap_err();
    assert!(refused.error.to_string().contains("DEALLOCATE_KEY"));
    refused.object.deregister().unwrap();
    assert_eq!(control.lent(), before);

    refuse("CREATE_CQ");
    nic.completion_queue(100).unwrap_err();
    assert_eq!(control.lent(), before);
    let cq = nic.completion_queue(100).unwrap();
    let with_cq = control.lent();
    refuse("CREATE_QP");
    nic.queue_pair(&cq).sends(60).create().unwrap_err();
    assert_eq!(control.lent(), with_cq);
    // What was set aside for the refused one is free again.
    let mut qp = nic.queue_pair(&cq).sends(100).create().unwrap();
    let peer = qp.endpoint();
    for skip in 0..3 {
        assert!(control.with(|nic| nic.plan_refusal("MODIFY_QP", skip)));
        let refused = qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap_err();
        assert!(refused.error.to_string().contains("MODIFY_QP"), "{}", refused.error);
        qp = refused.object;
    }
    let rts = qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap();
    refuse("MODIFY_QP");
    let rts = rts.fail().unwrap_err().object;
    refuse("DESTROY_QP");
    let rts = rts.destroy().unwrap_err().object;
    rts.destroy().unwrap();
    refuse("DESTROY_CQ");
    let cq = cq.destroy().unwrap_err().object;
    cq.destroy().unwrap();
    assert_eq!(control.lent(), before);
    nic.close().unwrap();
    assert_eq!(control.lent(), 0);
}

#[test]
fn what_the_firmware_keeps_when_it_is_dropped_stays_until_close() {
    let (nic, control) = open(&Network::stepped(0));
    let before = control.lent();
    let region = nic.region::<Local>(5000).unwrap();
    control.with(|nic| nic.plan_refusal("DEALLOCATE_KEY", 0));
    drop(region);
    assert!(control.lent() > before);
    nic.close().unwrap();
    assert_eq!(control.lent(), 0);
}

#[test]
fn firmware_that_does_not_answer_is_asked_for_nothing_else_and_keeps_its_memory_until_close() {
    let [a, b] = pair_on(&Network::stepped(0), &Options::default());
    let spare = a.nic.region::<Local>(1 << 20).unwrap();
    a.control.with(|nic| nic.die());
    let given = a.control.lent();
    let error = a.nic.region::<Local>(4096).unwrap_err();
    let Error::NoAnswer { call, .. } = error else { panic!("{error}") };
    assert_eq!(call, "REGISTER_MR");
    // What the request named is kept: the firmware may still act on it.
    assert!(a.control.lent() > given);
    let given = a.control.lent();
    let poisoned = |error: Error| {
        assert!(matches!(error, Error::Poisoned { unanswered: "REGISTER_MR", .. }), "{error}");
    };
    poisoned(a.nic.region::<Local>(4096).unwrap_err());
    poisoned(a.nic.completion_queue(16).unwrap_err());
    poisoned(a.nic.queue_pair(&a.cq).sends(1).create().unwrap_err());
    assert_eq!(a.control.lent(), given);
    let refused = spare.deregister().unwrap_err();
    poisoned(refused.error);
    drop(refused.object);
    poisoned(a.qp.fail().unwrap_err().error);
    assert_eq!(a.control.lent(), given);
    drop((a.cq, a.memory));
    a.nic.close().unwrap();
    assert_eq!(a.control.lent(), 0);
    assert!(!a.control.is_bus_master());
    drop(b);
}

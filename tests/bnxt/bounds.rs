//! What a NIC holds at once.

use crate::device::open;
use doorbell::access::Local;
use doorbell::bnxt::Nic;
use doorbell::error::Error;
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use doorbell_model::netxtreme::Bounds;

fn nic(bounds: Bounds) -> Nic<VirtualNetxtreme> {
    Nic::open(VirtualNetxtreme::builder().bounds(bounds).open()).unwrap()
}

#[test]
fn queue_pairs_past_those_that_the_nic_holds_are_an_error_of_the_call() {
    let bounds = Bounds { queue_pairs: 5, fast_queue_pairs: 0, ..Bounds::default() };
    let nic = nic(bounds);
    let mut cq = nic.completion_queue(1024).unwrap();
    let mut made = Vec::new();
    let error = loop {
        match nic.queue_pair(&cq).sends(4).create() {
            Ok(qp) => made.push(qp),
            Err(error) => break error,
        }
        assert!(made.len() < 100);
    };
    assert!(matches!(error, Error::OutOfRange { .. } | Error::Firmware { .. }), "{error}");
    assert!(made.len() as u32 >= nic.max_queue_pairs().min(4), "{}", made.len());
    // One that goes makes room for another, once its completions were looked for.
    made.pop().unwrap().destroy().unwrap();
    assert_eq!(cq.poll(), None);
    nic.queue_pair(&cq).sends(4).create().unwrap();
}

#[test]
fn regions_past_those_that_the_nic_holds_are_an_error_of_the_call() {
    let bounds = Bounds { keys: 8, address_vectors: 4, ..Bounds::default() };
    let nic = nic(bounds);
    let mut made = Vec::new();
    let error = loop {
        match nic.region::<Local>(1) {
            Ok(region) => made.push(region),
            Err(error) => break error,
        }
        assert!(made.len() < 100);
    };
    assert!(matches!(error, Error::OutOfRange { .. } | Error::Firmware { .. }), "{error}");
    assert!(made.len() >= 4, "{}", made.len());
    made.pop().unwrap().deregister().unwrap();
    nic.region::<Local>(1).unwrap();
}

#[test]
fn a_completion_queue_holds_from_1_to_the_nics_bound() {
    let (nic, _control) = open(&Network::free());
    for entries in [0, nic.max_completions() + 1] {
        let error = nic.completion_queue(entries).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { least: 1, .. }), "{error}");
    }
    for entries in [1, 2, 3, 100, nic.max_completions()] {
        assert!(nic.completion_queue(entries).unwrap().entries() >= entries);
    }
}

#[test]
fn a_queue_pair_holds_from_0_to_the_nics_bounds() {
    let (nic, _control) = open(&Network::free());
    let cq = nic.completion_queue(nic.max_completions()).unwrap();
    let refused = [
        nic.queue_pair(&cq).sends(4096).create().unwrap_err(),
        nic.queue_pair(&cq).receives(4096).create().unwrap_err(),
        nic.queue_pair(&cq).receive_pieces(0).create().unwrap_err(),
        nic.queue_pair(&cq).receive_pieces(14).create().unwrap_err(),
        nic.queue_pair(&cq).read_depth(255).create().unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, Error::OutOfRange { .. }), "{error}");
    }
    nic.queue_pair(&cq).sends(4095).receives(4095).receive_pieces(13).create().unwrap();
}

#[test]
fn more_than_a_completion_queue_holds_is_refused_unless_it_is_meant() {
    let (nic, _control) = open(&Network::free());
    let cq = nic.completion_queue(16).unwrap();
    let error = nic.queue_pair(&cq).sends(10).receives(7).create().unwrap_err();
    assert!(matches!(error, Error::Overcommitted { needed: 17, holds: 16 }), "{error}");
    let first = nic.queue_pair(&cq).sends(10).receives(6).create().unwrap();
    nic.queue_pair(&cq).sends(1).create().unwrap_err();
    nic.queue_pair(&cq).sends(1).overcommit().create().unwrap();
    drop(first);
}

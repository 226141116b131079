//! The poster against the NIC: the entry and its message, then the register.

use super::memory::{QueuePair, request};
use super::nic::Sender;
use crate::bus::Store;
use crate::check::{Failure, catches, holds};
use doorbell::bnxt::abi::doorbell::DoorbellFields;
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;

/// Two requests, each with its doorbell.
fn one_by_one() {
    let queue_pair = QueuePair::new(2, 0);
    let mut nic = Sender::new(&queue_pair);
    let mut ring = queue_pair.send_ring();
    let poster = thread::spawn(move || {
        for number in 0..2 {
            ring.post(request(number).signaled()).unwrap();
            ring.ring();
        }
    });
    nic.look();
    nic.look();
    poster.join().unwrap();
    nic.look();
    assert_eq!((nic.fetched, queue_pair.bus.arrived(0).len()), (2, 2));
}

/// Three requests with one doorbell, and a doorbell for nothing.
fn batch() {
    let queue_pair = QueuePair::new(3, 0);
    let mut nic = Sender::new(&queue_pair);
    let mut ring = queue_pair.send_ring();
    let poster = thread::spawn(move || {
        for number in 0..3 {
            ring.post(request(number)).unwrap();
        }
        ring.ring();
        ring.ring();
    });
    let fetched = nic.look();
    assert!(fetched == 0 || fetched == 3);
    nic.look();
    poster.join().unwrap();
    nic.look();
    let stores = queue_pair.bus.arrived(0);
    let [Store::Word(0, word)] = stores[..] else { panic!("{stores:?}") };
    assert_eq!(DoorbellFields::from_bits(u64::from_le(word)).index(), 9);
    assert_eq!(nic.fetched, 3);
}

/// A request that wraps around the ring's end, and the epoch that changes with it.
fn around_the_end() {
    // 4 slots: the second request is in the last and the first two.
    let queue_pair = QueuePair::new(1, 0);
    let mut nic = Sender::new(&queue_pair);
    let mut ring = queue_pair.send_ring();
    ring.post(request(0)).unwrap();
    ring.ring();
    assert_eq!(nic.look(), 1);
    // The poller of this model is this thread.
    queue_pair.in_flight.send.complete(1);
    let poster = thread::spawn(move || {
        ring.post(request(1)).unwrap();
        ring.ring();
    });
    nic.look();
    nic.look();
    poster.join().unwrap();
    nic.look();
    let stores = queue_pair.bus.arrived(1);
    let [Store::Word(0, word)] = stores[..] else { panic!("{stores:?}") };
    let doorbell = DoorbellFields::from_bits(u64::from_le(word));
    assert_eq!((nic.fetched, doorbell.index(), doorbell.epoch()), (2, 2, true));
}

const MODELS: [fn(); 3] = [one_by_one, batch, around_the_end];

#[test]
fn the_nic_reads_what_was_written_before_the_register() {
    MODELS.into_iter().for_each(holds);
}

#[test]
fn a_register_that_is_stored_to_before_the_entry_is_caught() {
    for model in MODELS {
        catches(Mutant::NoFenceBeforeRegister, Failure::Race, model);
    }
}

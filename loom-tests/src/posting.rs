//! One poster against the NIC: bytes, then the record, then the register.

use crate::bus::Store;
use crate::check::{Failure, catches, holds};
use crate::memory::QueuePair;
use crate::nic::{Fetched, Sender};
use crate::request;
use doorbell::mlx5::abi::doorbell::SendDoorbell;
use doorbell::mlx5::abi::uar::SEND_HALF_BYTES;
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;

fn starts(fetched: &[Fetched]) -> Vec<u16> {
    fetched.iter().map(|entry| entry.start).collect()
}

/// Two requests, each with its doorbell.
fn one_by_one<C: Caching>() {
    let queue_pair = QueuePair::new(2, 0);
    let mut nic = Sender::new(&queue_pair);
    let mut ring = queue_pair.send_ring::<C>();
    let poster = thread::spawn(move || {
        for start in 0..2 {
            ring.post(request::short(start)).unwrap();
            ring.ring();
        }
    });
    let mut fetched = nic.look();
    fetched.extend(nic.look());
    poster.join().unwrap();
    fetched.extend(nic.look());
    assert_eq!(starts(&fetched), [0, 1]);
    let stores = queue_pair.bus.arrived(0);
    match stores[..] {
        [Store::Word(0, _), Store::Word(0, _)] => assert!(!C::WRITE_COMBINING),
        [Store::Slot(0, _), Store::Slot(SEND_HALF_BYTES, _)] => assert!(C::WRITE_COMBINING),
        _ => panic!("{stores:?}"),
    }
}

/// Three requests with one doorbell, and a doorbell for nothing.
fn batch<C: Caching>() {
    let queue_pair = QueuePair::new(4, 0);
    let mut nic = Sender::new(&queue_pair);
    let mut ring = queue_pair.send_ring::<C>();
    let poster = thread::spawn(move || {
        for start in 0..3 {
            ring.post(request::short(start)).unwrap();
        }
        ring.ring();
        ring.ring();
    });
    let mut fetched = nic.look();
    assert!(fetched.is_empty() || fetched.len() == 3);
    fetched.extend(nic.look());
    poster.join().unwrap();
    fetched.extend(nic.look());
    assert_eq!(starts(&fetched), [0, 1, 2]);
    let stores = queue_pair.bus.arrived(0);
    let [Store::Word(0, word)] = stores[..] else { panic!("{stores:?}") };
    assert_eq!(SendDoorbell::from_memory(word).opmod_idx_opcode.index(), 2);
}

/// A request of two slots, the last of the ring and the first, in the register.
fn around_the_end() {
    let queue_pair = QueuePair::new(2, 0);
    let mut nic = Sender::new(&queue_pair);
    let mut ring = queue_pair.send_ring::<WriteCombining>();
    ring.post(request::short(0)).unwrap();
    ring.ring();
    assert_eq!(starts(&nic.look()), [0]);
    // SAFETY: S1: the NIC has read the entry, and the poller of this model is this thread.
    assert_eq!(unsafe { queue_pair.in_flight.send.complete(0) }, 0);
    let poster = thread::spawn(move || {
        ring.post(request::long(1)).unwrap();
        ring.ring();
    });
    let mut fetched = nic.look();
    fetched.extend(nic.look());
    poster.join().unwrap();
    fetched.extend(nic.look());
    assert_eq!(starts(&fetched), [1]);
    let stores = queue_pair.bus.arrived(1);
    let [Store::Slot(first, _), Store::Slot(second, _)] = stores[..] else { panic!("{stores:?}") };
    assert_eq!((first, second), (SEND_HALF_BYTES, SEND_HALF_BYTES + 64));
}

const LESS: Failure = Failure::Assertion("the record covers");

#[test]
fn the_nic_reads_what_was_written_before_the_record_and_the_register() {
    holds(one_by_one::<Uncached>);
    holds(one_by_one::<WriteCombining>);
}

#[test]
fn a_record_that_is_published_before_the_bytes_is_caught() {
    catches(Mutant::NoFenceBeforePublish, Failure::Race, one_by_one::<Uncached>);
    catches(Mutant::NoFenceBeforePublish, Failure::Race, one_by_one::<WriteCombining>);
}

#[test]
fn a_register_that_is_stored_to_before_the_record_is_caught() {
    catches(Mutant::NoFenceBeforeRegister, LESS, one_by_one::<Uncached>);
    catches(Mutant::NoFenceBeforeRegister, LESS, one_by_one::<WriteCombining>);
}

#[test]
fn a_batch_is_announced_once_and_read_whole() {
    holds(batch::<Uncached>);
    holds(batch::<WriteCombining>);
}

#[test]
fn a_batch_out_of_order_is_caught() {
    catches(Mutant::NoFenceBeforePublish, Failure::Race, batch::<Uncached>);
    catches(Mutant::NoFenceBeforeRegister, LESS, batch::<Uncached>);
    catches(Mutant::NoFenceBeforePublish, Failure::Race, batch::<WriteCombining>);
    catches(Mutant::NoFenceBeforeRegister, LESS, batch::<WriteCombining>);
}

#[test]
fn the_register_gets_the_bytes_of_the_slots_around_the_end_of_the_ring() {
    holds(around_the_end);
}

#[test]
fn a_copy_to_the_register_before_the_record_is_caught() {
    catches(Mutant::NoFenceBeforeRegister, LESS, around_the_end);
    catches(Mutant::NoFenceBeforePublish, Failure::Race, around_the_end);
}

//! The poller against the NIC: the owner byte, then the rest, then the consumer record.

use crate::check::{Failure, Reached, catches, holds};
use crate::memory::{CompletionQueue, INDEX, QueuePair, write_id};
use crate::nic::{Report, Reporter};
use doorbell::completion::{Arrival, Completion, Received, Sent};
use doorbell::mlx5::abi::cqe::CompletionOpcode;
use doorbell::mlx5::ring::table::Table;
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;
use std::sync::Arc;

const COMPLETIONS: u32 = 3;

fn report(number: u32) -> Report {
    let kind = CompletionOpcode::ReceiveWriteImmediate;
    Report { kind, index: INDEX, counter: number as u16, bytes: 100 + number, solicited: false }
}

/// Three completions in a ring of `len` slots: more than one pass over it.
fn passes(len: usize, reused: Reached) -> impl Fn() {
    move || {
        let queue_pair = QueuePair::new(0, 4);
        for number in 0..COMPLETIONS {
            let id = u64::from(number) + 7;
            // SAFETY: S1: nobody else has the ids yet.
            unsafe { write_id(&queue_pair.in_flight.receive, number, id) };
        }
        let completions = CompletionQueue::of(len, &queue_pair);
        let mut nic = Reporter::new(&completions);
        let mut ring = completions.ring();
        let reused = reused.clone();
        let reporter = thread::spawn(move || {
            let mut number = 0;
            for _ in 0..COMPLETIONS {
                number += u32::from(nic.report(report(number)));
            }
            if number as usize > len {
                reused.note();
            }
            (nic, number)
        });
        let mut polled = Vec::new();
        for _ in 0..COMPLETIONS {
            polled.extend(ring.poll());
        }
        let (mut nic, mut number) = reporter.join().unwrap();
        while polled.len() < COMPLETIONS as usize {
            if number < COMPLETIONS {
                number += u32::from(nic.report(report(number)));
            }
            polled.push(ring.poll().expect("what was reported is polled"));
        }
        assert!(ring.poll().is_none());
        for (number, completion) in (0..).zip(polled) {
            let Completion::Received(Received { id, len, by, .. }) = completion else {
                panic!("{completion:?}")
            };
            assert_eq!((id, len), (u64::from(number) + 7, 100 + number));
            assert_eq!(by, Arrival::WriteImmediate(len));
        }
    }
}

/// A broken NIC that completes a request of a queue pair while it is made, and when nothing was
/// posted to it.
fn unexpected(found: Reached) -> impl Fn() {
    move || {
        let table = Arc::new(Table::new(1));
        let completions = CompletionQueue::new(4, &table);
        let mut ring = completions.ring();
        let maker = thread::spawn(move || {
            let queue_pair = QueuePair::new(1, 0);
            // SAFETY: S1: nobody else has the ids yet.
            unsafe { write_id(&queue_pair.in_flight.send, 0, 7) };
            table.set(INDEX, &queue_pair.in_flight);
            queue_pair
        });
        let found = found.clone();
        // A thread of its own, so that loom has it poll after the maker as well as before.
        let poller = thread::spawn(move || {
            assert!(Reporter::new(&completions).report(Report::sent(INDEX, 0)));
            match ring.poll() {
                None => {}
                Some(Completion::Sent(Sent { id: 7, .. })) => found.note(),
                Some(other) => panic!("{other:?}"),
            }
        });
        let _queue_pair = maker.join().unwrap();
        poller.join().unwrap();
    }
}

#[test]
fn a_completion_of_a_queue_pair_that_is_being_made_finds_it_whole_or_not_at_all() {
    let found = Reached::default();
    holds(unexpected(found.clone()));
    found.check();
}

#[test]
fn a_queue_pair_that_is_found_before_it_is_whole_is_caught() {
    catches(Mutant::NoAcquireOfQueuePair, Failure::Race, unexpected(Reached::default()));
}

#[test]
fn a_completion_is_read_after_its_owner_byte() {
    let reused = Reached::default();
    holds(passes(4, reused));
}

#[test]
fn a_completion_that_is_read_before_its_owner_byte_is_caught() {
    let reused = Reached::default();
    catches(Mutant::NoFenceAfterOwner, Failure::Race, passes(4, reused));
}

#[test]
fn a_slot_is_written_again_only_after_its_completion_was_read() {
    for len in [1, 2] {
        let reused = Reached::default();
        holds(passes(len, reused.clone()));
        reused.check();
    }
}

#[test]
fn a_completion_that_is_read_after_it_was_consumed_is_caught() {
    for len in [1, 2] {
        let reused = Reached::default();
        catches(Mutant::ConsumedBeforeRead, Failure::Race, passes(len, reused));
    }
}

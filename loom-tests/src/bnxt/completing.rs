//! The poller against the NIC: the toggle, then the rest, then the register.

use super::memory::{CompletionQueue, INDEX, QueuePair, post_id};
use super::nic::Reporter;
use crate::check::{Failure, Reached, catches, holds};
use doorbell::completion::{Arrival, Completion, Received, Sent};
use doorbell::ring::table::Table;
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;
use std::sync::Arc;

const COMPLETIONS: u32 = 3;

/// Three completions in a ring of `len` slots: more than one pass over it.
fn passes(len: usize, reused: Reached) -> impl Fn() {
    move || {
        let queue_pair = QueuePair::new(0, 3);
        for number in 0..COMPLETIONS {
            // SAFETY: S1: nobody else has the entries yet.
            unsafe { post_id(&queue_pair.in_flight.receive, number, u64::from(number) + 7) };
        }
        let completions = CompletionQueue::of(len, &queue_pair);
        let mut nic = Reporter::new(&completions);
        let mut ring = completions.ring();
        let reused = reused.clone();
        let reporter = thread::spawn(move || {
            let mut number = 0;
            for _ in 0..COMPLETIONS {
                number += u32::from(nic.filled(number, 100 + number));
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
                number += u32::from(nic.filled(number, 100 + number));
            }
            polled.push(ring.poll().expect("what was reported is polled"));
        }
        assert!(ring.poll().is_none());
        for (number, completion) in (0..).zip(polled) {
            let Completion::Received(Received { id, len, by: Arrival::Send, .. }) = completion
            else {
                panic!("{completion:?}")
            };
            assert_eq!((id, len), (u64::from(number) + 7, 100 + number));
        }
    }
}

/// A broken NIC that completes a request of a queue pair while it is made.
fn unexpected(found: Reached) -> impl Fn() {
    move || {
        let table = Arc::new(Table::new(1));
        let completions = CompletionQueue::new(4, &table);
        let mut ring = completions.ring();
        let maker = thread::spawn(move || {
            let queue_pair = QueuePair::new(1, 0);
            // SAFETY: S1: nobody else has the entry yet.
            unsafe { post_id(&queue_pair.in_flight.send, 0, 7) };
            table.set(INDEX, &queue_pair.in_flight);
            queue_pair
        });
        let found = found.clone();
        // A thread of its own, so that loom has it poll after the maker as well as before.
        let poller = thread::spawn(move || {
            assert!(Reporter::new(&completions).sent(1, 0));
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
fn a_completion_is_read_after_its_toggle() {
    holds(passes(4, Reached::default()));
}

#[test]
fn a_completion_that_is_read_before_its_toggle_is_caught() {
    catches(Mutant::NoFenceAfterOwner, Failure::Race, passes(4, Reached::default()));
}

#[test]
fn a_slot_is_written_again_only_after_its_completion_was_read() {
    let reused = Reached::default();
    holds(passes(2, reused.clone()));
    reused.check();
}

#[test]
fn a_register_that_is_stored_to_before_the_completion_was_read_is_caught() {
    let reused = Reached::default();
    catches(Mutant::NoFenceBeforeRegister, Failure::Race, passes(2, reused));
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

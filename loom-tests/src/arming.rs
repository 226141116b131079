//! Poll until there is nothing, arm, wait: against a NIC that raises events.

use crate::check::{Failure, catches, holds};
use crate::memory::{CompletionQueue, INDEX, PolledRing, QueuePair, write_id};
use crate::nic::{Report, Reporter};
use doorbell::completion::{Completion, Received};
use doorbell::mlx5::abi::cqe::CompletionOpcode;
use doorbell_hal::sync::mutant::Mutant;
use doorbell_hal::sync::{AtomicBool, AtomicU32, Ordering};
use loom::thread::{self, Thread};
use std::sync::Arc;

const COMPLETIONS: u32 = 2;

fn report(number: u32, solicited: bool) -> Report {
    let kind = CompletionOpcode::ReceiveSend;
    Report { kind, index: INDEX, counter: number as u16, bytes: number, solicited }
}

/// What a kernel does between an event and who waits for it.
struct EventFile {
    events: AtomicU32,
    reader: Thread,
}

impl EventFile {
    fn raise(&self) {
        self.events.fetch_add(1, Ordering::AcqRel);
        self.reader.unpark();
    }

    /// Sleeps until there is an event, and takes it.
    fn wait(&self) {
        loop {
            match self.events.swap(0, Ordering::AcqRel) {
                0 => thread::park(),
                // The next is raised only when the queue was armed again.
                events => return assert_eq!(events, 1),
            }
        }
    }
}

/// A queue pair with receives outstanding, and the completion queue of its receives.
fn completion_queue() -> (Arc<QueuePair>, Arc<CompletionQueue>) {
    let queue_pair = QueuePair::new(0, 4);
    for number in 0..COMPLETIONS {
        // SAFETY: S1: nobody else has the ids yet.
        unsafe { write_id(&queue_pair.in_flight.receive, number, number.into()) };
    }
    let completions = CompletionQueue::of(4, &queue_pair);
    (queue_pair, completions)
}

/// Polls until there is nothing: the ids must be from `polled` on.
fn drain(ring: &mut PolledRing, polled: &mut u64) {
    while let Some(completion) = ring.poll() {
        let Completion::Received(Received { id, .. }) = completion else {
            panic!("{completion:?}")
        };
        assert_eq!(id, *polled);
        *polled += 1;
    }
}

/// The NIC completes two receives, at any time; the engine sleeps when it finds nothing. With
/// `solicited_only`, it is to be woken by the second one only.
fn sleeping(solicited_only: bool) {
    let (_queue_pair, completions) = completion_queue();
    let file = Arc::new(EventFile { events: AtomicU32::new(0), reader: thread::current() });
    let done = Arc::new(AtomicBool::new(false));
    let mut nic = Reporter::new(&completions);
    let reporter = thread::spawn({
        let (file, done) = (file.clone(), done.clone());
        move || {
            for number in 0..COMPLETIONS {
                assert!(nic.report(report(number, number == COMPLETIONS - 1)));
                if nic.event() {
                    file.raise();
                }
            }
            // Arms still come.
            while !done.load(Ordering::Acquire) {
                if nic.event() {
                    file.raise();
                }
                thread::park();
            }
        }
    });
    completions.bus.wakes(reporter.thread());
    let mut ring = completions.ring();
    let mut polled = 0;
    loop {
        let before = polled;
        drain(&mut ring, &mut polled);
        if polled == COMPLETIONS.into() {
            break;
        }
        ring.arm(solicited_only);
        file.wait();
        completions.events.count();
        drain(&mut ring, &mut polled);
        assert!(polled > before, "an event says that there is a completion");
        if polled == COMPLETIONS.into() {
            break;
        }
        assert!(!solicited_only, "the first completion is not solicited");
    }
    done.store(true, Ordering::Release);
    reporter.thread().unpark();
    reporter.join().unwrap();
}

/// Arms, with the NIC looking on, which nobody wakes.
fn arms() {
    let (_queue_pair, completions) = completion_queue();
    let mut nic = Reporter::new(&completions);
    assert!(nic.report(report(0, false)));
    assert!(nic.report(report(1, false)));
    let mut ring = completions.ring();
    let armer = thread::spawn(move || {
        ring.arm(false);
        assert!(ring.poll().is_some());
        ring.arm(false);
    });
    let mut events = u32::from(nic.event()) + u32::from(nic.event());
    armer.join().unwrap();
    events += u32::from(nic.event());
    // The second arm repeats the number of the first, whose event was raised.
    assert_eq!(events, 1);
}

#[test]
fn no_completion_is_slept_through() {
    holds(|| sleeping(false));
    holds(|| sleeping(true));
}

#[test]
fn an_arm_that_claims_to_know_an_unpolled_completion_is_caught() {
    catches(Mutant::ArmedWithStaleIndex, Failure::Deadlock, || sleeping(false));
    catches(Mutant::ArmedWithStaleIndex, Failure::Deadlock, || sleeping(true));
}

#[test]
fn an_arm_with_the_number_of_an_event_that_was_read_is_caught() {
    catches(Mutant::EventNotCounted, Failure::Deadlock, || sleeping(false));
}

#[test]
fn the_arm_record_is_as_new_as_the_register() {
    holds(arms);
}

#[test]
fn an_arm_register_that_is_stored_to_before_the_record_is_caught() {
    let less = Failure::Assertion("the record says");
    catches(Mutant::NoFenceBeforeRegister, less, arms);
}

//! Poll until there is nothing, arm, wait: against a NIC that notifies.

use super::memory::{CompletionQueue, PolledRing, QueuePair, post_id};
use super::nic::Reporter;
use crate::check::{Failure, catches, holds};
use doorbell::bnxt::abi::doorbell::Toggle;
use doorbell::completion::{Completion, Received};
use doorbell_hal::sync::mutant::Mutant;
use doorbell_hal::sync::{AtomicBool, AtomicU8, Ordering};
use loom::thread::{self, Thread};
use std::sync::Arc;

const COMPLETIONS: u32 = 2;

/// The notification ring and its interrupt: the toggle of the last notification, with a bit that says that
/// it was not read.
struct Notifications {
    last: AtomicU8,
    reader: Thread,
}

const UNREAD: u8 = 4;

impl Notifications {
    fn raise(&self, toggle: u8) {
        // The next is raised only when the queue was armed again.
        assert_eq!(self.last.swap(toggle | UNREAD, Ordering::AcqRel), 0);
        self.reader.unpark();
    }

    /// Sleeps until there is a notification, and takes its toggle.
    fn wait(&self) -> Toggle {
        loop {
            let last = self.last.swap(0, Ordering::AcqRel);
            if last & UNREAD != 0 {
                return Toggle::new(last & 3);
            }
            thread::park();
        }
    }
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

/// The NIC completes two receives, at any time; the engine sleeps when it finds nothing.
fn sleeping() {
    let queue_pair = QueuePair::new(0, 3);
    for number in 0..COMPLETIONS {
        // SAFETY: S1: nobody else has the entries yet.
        unsafe { post_id(&queue_pair.in_flight.receive, number, number.into()) };
    }
    let completions = CompletionQueue::of(8, &queue_pair);
    let reader = thread::current();
    let notifications = Arc::new(Notifications { last: AtomicU8::new(0), reader });
    let done = Arc::new(AtomicBool::new(false));
    let mut nic = Reporter::new(&completions);
    let reporter = thread::spawn({
        let (notifications, done) = (notifications.clone(), done.clone());
        move || {
            for number in 0..COMPLETIONS {
                assert!(nic.filled(number, number));
                if let Some(toggle) = nic.notification() {
                    notifications.raise(toggle);
                }
            }
            // Arms still come.
            while !done.load(Ordering::Acquire) {
                if let Some(toggle) = nic.notification() {
                    notifications.raise(toggle);
                }
                thread::park();
            }
        }
    });
    completions.bus.wakes(reporter.thread());
    let mut ring = completions.ring();
    let mut polled = 0;
    loop {
        drain(&mut ring, &mut polled);
        if polled == COMPLETIONS.into() {
            break;
        }
        ring.arm(false);
        let before = polled;
        completions.toggle.note(notifications.wait());
        drain(&mut ring, &mut polled);
        assert!(polled > before, "a notification says that there is a completion");
        if polled == COMPLETIONS.into() {
            break;
        }
    }
    done.store(true, Ordering::Release);
    reporter.thread().unpark();
    reporter.join().unwrap();
}

#[test]
fn no_completion_is_slept_through() {
    holds(sleeping);
}

#[test]
fn an_arm_that_claims_to_know_an_unpolled_completion_is_caught() {
    catches(Mutant::ArmedWithStaleIndex, Failure::Deadlock, sleeping);
}

#[test]
fn an_arm_with_the_toggle_of_before_the_notification_is_caught() {
    catches(Mutant::EventNotCounted, Failure::Deadlock, sleeping);
}

//! A queue pair that has failed: the poller flushes what its poster goes on posting.

use super::memory::{CompletionQueue, INDEX, QueuePair, request};
use super::nic::Reporter;
use crate::check::{Failure, Reached, catches, holds};
use doorbell::completion::{Completion, Failed, Queue, Status};
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;

const REQUESTS: u32 = 3;

/// Two requests at once, in a queue pair whose failure the firmware has reported. Everything that was
/// posted is flushed, once and in order, whenever it was posted.
fn posted_meanwhile(met: Reached) -> impl Fn() {
    move || {
        let queue_pair = QueuePair::new(2, 0);
        let completions = CompletionQueue::of(2, &queue_pair);
        let mut ring = queue_pair.send_ring();
        let mut polled = completions.ring();
        let firmware = completions.clone();
        let poster = thread::spawn(move || {
            let mut posted = 0u64;
            for number in 0..REQUESTS {
                if ring.post(request(number).signaled()).is_err() {
                    break;
                }
                ring.ring();
                posted += 1;
            }
            (ring, posted)
        });
        firmware.failures.add(INDEX);
        let mut ids = Vec::new();
        let mut poll = |ids: &mut Vec<u64>| match polled.poll() {
            None => false,
            Some(Completion::Failed(Failed { id, queue: Queue::Send, status, .. })) => {
                assert_eq!(status, Status::WorkRequestFlushed);
                ids.push(id);
                true
            }
            Some(other) => panic!("{other:?}"),
        };
        poll(&mut ids);
        poll(&mut ids);
        if !ids.is_empty() {
            met.note();
        }
        let (mut ring, posted) = poster.join().unwrap();
        while poll(&mut ids) {}
        assert_eq!(ids, (0..posted).collect::<Vec<_>>());
        assert_eq!((ring.outstanding(), ring.room()), (0, 2));
    }
}

/// The NIC's last completion, and the report of the failure, which may be first: what completed is not
/// flushed.
fn completed_before() {
    let queue_pair = QueuePair::new(2, 0);
    let completions = CompletionQueue::of(2, &queue_pair);
    let mut ring = queue_pair.send_ring();
    for number in 0..2 {
        ring.post(request(number).signaled()).unwrap();
    }
    ring.ring();
    let mut polled = completions.ring();
    let mut nic = Reporter::new(&completions);
    let reporter = thread::spawn(move || {
        assert!(nic.sent(1, 0));
        completions.failures.add(INDEX);
    });
    let mut seen = Vec::new();
    let mut poll = || match polled.poll() {
        None => false,
        Some(Completion::Sent(sent)) => {
            seen.push((sent.id, true));
            true
        }
        Some(Completion::Failed(failed)) => {
            seen.push((failed.id, false));
            true
        }
        Some(other) => panic!("{other:?}"),
    };
    poll();
    poll();
    reporter.join().unwrap();
    while poll() {}
    assert_eq!(seen, [(0, true), (1, false)]);
}

#[test]
fn what_is_posted_to_a_failed_queue_pair_is_flushed_once_and_in_order() {
    let met = Reached::default();
    holds(posted_meanwhile(met.clone()));
    met.check();
}

#[test]
fn a_poller_that_does_not_acquire_what_was_posted_is_caught() {
    catches(Mutant::NoAcquireOfPosted, Failure::Race, posted_meanwhile(Reached::default()));
}

#[test]
fn what_completed_before_the_failure_was_known_is_not_flushed() {
    holds(completed_before);
}

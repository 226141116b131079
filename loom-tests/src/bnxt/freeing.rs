//! The poster against the poller: slots, messages and ids go round.

use super::memory::{CompletionQueue, PolledRing, QueuePair, request};
use super::nic::{Reporter, Sender};
use crate::check::{Failure, Reached, catches, holds};
use doorbell::completion::{Completion, Sent};
use doorbell::wr::PostError;
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;
use std::sync::Arc;

/// A NIC that carries out what it is given, and reports it: what it has found at once, in one completion.
struct Nic {
    sender: Sender,
    reporter: Reporter,
}

impl Nic {
    fn look(&mut self) {
        if self.sender.look() > 0 {
            assert!(self.reporter.sent(self.sender.fetched, 0));
        }
    }
}

/// The ids of what has completed.
fn poll(ring: &mut PolledRing, ids: &mut Vec<u64>) {
    match ring.poll() {
        None => {}
        Some(Completion::Sent(Sent { id, .. })) => ids.push(id),
        Some(other) => panic!("{other:?}"),
    }
}

/// A queue pair of `requests` requests at once, its completion ring, and its NIC.
fn queue_pair(requests: u32) -> (Arc<QueuePair>, PolledRing, Nic) {
    let queue_pair = QueuePair::new(requests, 0);
    let completions = CompletionQueue::of(4, &queue_pair);
    let (sender, reporter) = (Sender::new(&queue_pair), Reporter::new(&completions));
    (queue_pair, completions.ring(), Nic { sender, reporter })
}

const REQUESTS: u32 = 3;

/// Three requests through a ring of one.
fn one_at_a_time(reused: Reached) -> impl Fn() {
    move || {
        let (queue_pair, mut completions, mut nic) = queue_pair(1);
        let mut ring = queue_pair.send_ring();
        let reused = reused.clone();
        let poster = thread::spawn(move || {
            let mut posted = 0;
            for _ in 0..REQUESTS {
                if ring.post(request(posted).signaled()).is_ok() {
                    ring.ring();
                    posted += 1;
                }
            }
            if posted == REQUESTS {
                reused.note();
            }
            (ring, posted)
        });
        let carrier = thread::spawn(move || {
            nic.look();
            nic.look();
            nic
        });
        let mut ids = Vec::new();
        poll(&mut completions, &mut ids);
        poll(&mut completions, &mut ids);
        let ((mut ring, posted), mut nic) = (poster.join().unwrap(), carrier.join().unwrap());
        for next in posted..=REQUESTS {
            nic.look();
            poll(&mut completions, &mut ids);
            poll(&mut completions, &mut ids);
            if next < REQUESTS {
                ring.post(request(next).signaled()).unwrap();
                ring.ring();
            }
        }
        assert_eq!((ids, ring.room()), ((0..REQUESTS.into()).collect(), 1));
    }
}

/// An unsignaled request and a signaled one, reported together, through a ring of two; then two others.
fn unsignaled(reused: Reached) -> impl Fn() {
    move || {
        let (queue_pair, mut completions, mut nic) = queue_pair(2);
        let mut ring = queue_pair.send_ring();
        ring.post(request(0)).unwrap();
        ring.post(request(1).signaled()).unwrap();
        ring.ring();
        nic.look();
        let reused = reused.clone();
        let poster = thread::spawn(move || {
            if ring.post(request(2).signaled()).is_ok() {
                ring.post(request(3).signaled()).unwrap();
                ring.ring();
                reused.note();
            }
            ring
        });
        let mut ids = Vec::new();
        poll(&mut completions, &mut ids);
        assert_eq!(ids, [1]);
        let mut ring = poster.join().unwrap();
        if ring.room() == 2 {
            ring.post(request(2).signaled()).unwrap();
            ring.post(request(3).signaled()).unwrap();
            ring.ring();
        }
        assert_eq!(ring.post(request(4)), Err(PostError::Full));
        nic.look();
        poll(&mut completions, &mut ids);
        poll(&mut completions, &mut ids);
        assert_eq!((ids, ring.room()), (vec![1, 2, 3], 2));
    }
}

/// Each of the models, with the point that it has to get to.
fn each(check: impl Fn(Box<dyn Fn() + Send + Sync>, Reached)) {
    let reached = Reached::default();
    check(Box::new(one_at_a_time(reached.clone())), reached);
    let reached = Reached::default();
    check(Box::new(unsignaled(reached.clone())), reached);
}

#[test]
fn slots_and_ids_are_written_again_only_after_they_were_read() {
    each(|model, reached| {
        holds(model);
        reached.check();
    });
}

#[test]
fn slots_that_are_freed_before_they_were_read_are_caught() {
    each(|model, _| catches(Mutant::FreedBeforeRead, Failure::Race, model));
}

#[test]
fn a_poster_that_does_not_acquire_what_was_freed_is_caught() {
    each(|model, _| catches(Mutant::NoAcquireOfFreed, Failure::Race, model));
}

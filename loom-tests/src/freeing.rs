//! The poster against the poller: slots and ids go round.

use crate::bus::Doorbell;
use crate::check::{Failure, Reached, catches, holds};
use crate::memory::{CompletionQueue, INDEX, PolledRing, QueuePair};
use crate::nic::{Report, Reporter, Sender};
use crate::request;
use doorbell::completion::{Completion, Sent};
use doorbell::mlx5::ring::SendRing;
use doorbell::wr::{self, Inline, PostError};
use doorbell_hal::mmio::Uncached;
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;
use std::sync::Arc;

/// A NIC that carries out what it is given, and reports it.
struct Nic {
    sender: Sender,
    reporter: Reporter,
}

impl Nic {
    fn look(&mut self) {
        for entry in self.sender.look() {
            if entry.signaled {
                assert!(self.reporter.report(Report::sent(INDEX, entry.start)));
            }
        }
    }

    /// As [`look`](Self::look), for a queue pair in error.
    fn flush(&mut self) {
        for entry in self.sender.look() {
            assert!(self.reporter.report(Report::failed(INDEX, entry.start)));
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

/// A queue pair of `slots` slots, its completion ring, and its NIC.
fn queue_pair(slots: u32) -> (Arc<QueuePair>, PolledRing, Nic) {
    let queue_pair = QueuePair::new(slots, 0);
    let completions = CompletionQueue::of(4, &queue_pair);
    let (sender, reporter) = (Sender::new(&queue_pair), Reporter::new(&completions));
    (queue_pair, completions.ring(), Nic { sender, reporter })
}

const REQUESTS: u32 = 3;

/// Three requests through a ring of one slot.
fn one_slot(reused: Reached) -> impl Fn() {
    move || {
        let (queue_pair, mut completions, mut nic) = queue_pair(1);
        let mut ring = queue_pair.send_ring::<Uncached>();
        let reused = reused.clone();
        let poster = thread::spawn(move || {
            let mut posted = 0;
            for _ in 0..REQUESTS {
                if ring.post(request::short(posted)).is_ok() {
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
                ring.post(request::short(next)).unwrap();
                ring.ring();
            }
        }
        assert_eq!((ids, ring.room()), ((0..REQUESTS.into()).collect(), 1));
    }
}

/// An unsignaled request and a signaled one through a ring of two slots, then two others.
fn unsignaled(reused: Reached) -> impl Fn() {
    move || {
        let (queue_pair, mut completions, mut nic) = queue_pair(2);
        let mut ring = queue_pair.send_ring::<Uncached>();
        ring.post(wr::send(Inline(request::mark(0))).id(0)).unwrap();
        ring.post(request::short(1)).unwrap();
        ring.ring();
        nic.look();
        let reused = reused.clone();
        let poster = thread::spawn(move || {
            if ring.post(request::short(2)).is_ok() {
                ring.post(request::short(3)).unwrap();
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
            ring.post(request::short(2)).unwrap();
            ring.post(request::short(3)).unwrap();
            ring.ring();
        }
        assert_eq!(ring.post(request::short(4)), Err(PostError::Full));
        nic.look();
        poll(&mut completions, &mut ids);
        poll(&mut completions, &mut ids);
        assert_eq!((ids, ring.room()), (vec![1, 2, 3], 2));
    }
}

/// If all has completed, starts the ring over, and posts and carries out a request with another id.
fn restart(ring: &mut SendRing<Doorbell, Uncached>, nic: &mut Nic) -> bool {
    if ring.outstanding() != 0 {
        return false;
    }
    // SAFETY: S1: nothing is outstanding, and the NIC starts over, too.
    unsafe { ring.reset() };
    nic.sender.reset();
    assert_eq!(ring.room(), 2);
    ring.post(request::short(0).id(5)).unwrap();
    assert_eq!(ring.outstanding(), 1);
    ring.ring();
    nic.look();
    true
}

/// A ring that starts over when all has completed, while another thread polls.
fn reset(restarted: Reached) -> impl Fn() {
    move || {
        let (queue_pair, mut completions, mut nic) = queue_pair(2);
        let mut ring = queue_pair.send_ring::<Uncached>();
        ring.post(request::short(0)).unwrap();
        ring.ring();
        nic.look();
        let restarted = restarted.clone();
        let poster = thread::spawn(move || {
            let done = restart(&mut ring, &mut nic);
            if done {
                restarted.note();
            }
            (ring, nic, done)
        });
        let mut ids = Vec::new();
        poll(&mut completions, &mut ids);
        poll(&mut completions, &mut ids);
        let (mut ring, mut nic, done) = poster.join().unwrap();
        assert!(done || restart(&mut ring, &mut nic));
        poll(&mut completions, &mut ids);
        assert_eq!((ids, ring.outstanding()), (vec![0, 5], 0));
    }
}

/// A queue pair in error, whose last request was done and not signaled. An entry that marks the end
/// says so, which the poller keeps to itself, also when the ring starts over meanwhile.
fn marked_end(restarted: Reached) -> impl Fn() {
    move || {
        let (queue_pair, mut completions, mut nic) = queue_pair(2);
        let mut ring = queue_pair.send_ring::<Uncached>();
        ring.post(wr::send(Inline(request::mark(0)))).unwrap();
        ring.ring();
        nic.look();
        ring.mark_end();
        nic.flush();
        let restarted = restarted.clone();
        let poster = thread::spawn(move || {
            let done = restart(&mut ring, &mut nic);
            if done {
                restarted.note();
            }
            (ring, nic, done)
        });
        let mut ids = Vec::new();
        poll(&mut completions, &mut ids);
        let (mut ring, mut nic, done) = poster.join().unwrap();
        assert!(done || restart(&mut ring, &mut nic));
        poll(&mut completions, &mut ids);
        assert_eq!((ids, ring.outstanding()), (vec![5], 0));
    }
}

/// Each of the models, with the point that it has to get to.
fn each(check: impl Fn(Box<dyn Fn() + Send + Sync>, Reached)) {
    let reached = Reached::default();
    check(Box::new(one_slot(reached.clone())), reached);
    let reached = Reached::default();
    check(Box::new(unsignaled(reached.clone())), reached);
    let reached = Reached::default();
    check(Box::new(reset(reached.clone())), reached);
}

#[test]
fn the_end_of_a_queue_pair_in_error_is_nobodys_completion() {
    let restarted = Reached::default();
    holds(marked_end(restarted.clone()));
    restarted.check();
}

#[test]
fn an_end_that_is_looked_for_after_the_poster_may_start_over_is_caught() {
    let seen = Failure::Assertion("Failed(");
    catches(Mutant::EndSeenAfterFreed, seen, marked_end(Reached::default()));
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

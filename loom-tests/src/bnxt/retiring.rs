//! Queue pairs that go away while another thread polls, or flushes.

use super::memory::{CompletionQueue, INDEX, PolledRing, QueuePair, post_id};
use super::nic::Reporter;
use crate::check::{Failure, Reached, catches, holds};
use doorbell::bnxt::ring::InFlight;
use doorbell::completion::{Completion, Failed, Sent};
use doorbell::ring::committed::{Committed, retire};
use doorbell::ring::table::Table;
use doorbell_hal::sync::mutant::Mutant;
use doorbell_hal::sync::{AtomicBool, Ordering};
use loom::sync::Arc as Shared;
use loom::thread;
use std::sync::Arc;

/// The ids of the queue pair that goes, of the one that gets its index, and what is where ids were whose
/// resources are gone.
const OLD: u64 = 7;
const NEW: u64 = 8;
const GONE: u64 = 9;

type Queue = Committed<Shared<Resources>>;

/// A queue pair with two requests outstanding, both with `id`.
fn queue_pair(id: u64) -> Arc<QueuePair> {
    let queue_pair = QueuePair::new(2, 0);
    for number in 0..2 {
        // SAFETY: S1: nobody else has the entries yet.
        unsafe { post_id(&queue_pair.in_flight.send, number, id) };
    }
    queue_pair
}

/// What a queue pair leaves: its ids. The memory itself stays for as long as the model, so that a late
/// reader is a race and not the model's end.
struct Resources {
    queue_pair: Arc<QueuePair>,
    is_free: Arc<AtomicBool>,
}

impl Drop for Resources {
    fn drop(&mut self) {
        // As its memory would be by its next owner.
        for number in 0..2 {
            // SAFETY: S1: nobody else has the entries any more (and loom checks it).
            unsafe { post_id(&self.queue_pair.in_flight.send, number, GONE) };
        }
        self.is_free.store(true, Ordering::Release);
    }
}

/// A thread that polls, and the queue pair that it makes once the old one's index is free.
struct Poller {
    ring: PolledRing,
    queue: Arc<Queue>,
    is_free: Arc<AtomicBool>,
    table: Arc<Table<InFlight>>,
    new: Option<Arc<QueuePair>>,
    /// Whether the firmware has destroyed the old one.
    reuses: bool,
    polled: Reached,
}

impl Poller {
    fn poll(&mut self) {
        match self.queue.poll(&mut *self.ring) {
            None => {}
            Some(Completion::Sent(Sent { id, .. }) | Completion::Failed(Failed { id, .. })) => {
                // No new queue pair has a completion yet.
                assert_eq!(id, OLD, "completed, and not the old queue pair");
                self.polled.note();
            }
            Some(other) => panic!("{other:?}"),
        }
    }

    /// Makes a queue pair with the old one's index, if it is free and may be used again.
    fn reuse(&mut self) {
        if self.reuses && self.new.is_none() && self.is_free.load(Ordering::Acquire) {
            let new = queue_pair(NEW);
            self.table.set(INDEX, &new.in_flight);
            self.new = Some(new);
        }
    }
}

/// What happens while a queue pair goes away.
#[derive(Clone, Copy)]
enum Meanwhile {
    /// The firmware destroyed it, after one completion said that both of its requests are done.
    Completed,
    /// The firmware would not destroy it, and it goes on completing.
    Completes,
    /// It has failed, and is flushed.
    Fails,
}

/// A queue pair with two requests outstanding goes away.
fn gone(meanwhile: Meanwhile, polled: Reached) -> impl Fn() {
    move || {
        let old = queue_pair(OLD);
        let completions = CompletionQueue::of(2, &old);
        let queue = Arc::new(Queue::new(2));
        queue.commit(2, false).unwrap();
        let is_free = Arc::new(AtomicBool::new(false));
        let mut poller = Poller {
            ring: completions.ring(),
            queue: queue.clone(),
            is_free: is_free.clone(),
            table: completions.table.clone(),
            new: None,
            reuses: !matches!(meanwhile, Meanwhile::Completes),
            polled: polled.clone(),
        };
        let resources = Shared::new(Resources { queue_pair: old.clone(), is_free });
        let mut nic = Reporter::new(&completions);
        let reporter = match meanwhile {
            Meanwhile::Fails => {
                completions.failures.add(INDEX);
                None
            }
            _ => Some(thread::spawn(move || assert!(nic.sent(2, 0)))),
        };
        let poller = thread::spawn(move || {
            // What is flushed is found by one poll, and another would make many orders more.
            let polls = if matches!(meanwhile, Meanwhile::Fails) { 1 } else { 2 };
            for _ in 0..polls {
                poller.poll();
                poller.reuse();
            }
            poller
        });
        let mut reporter = reporter;
        if matches!(meanwhile, Meanwhile::Completed) {
            // Once the firmware has destroyed it, the NIC completes nothing of it.
            reporter.take().unwrap().join().unwrap();
        }
        // As `Pair::retire` does.
        completions.failures.remove(INDEX);
        retire(&completions.table, INDEX, [(&*queue, 1), (&*queue, 1)], &resources);
        drop(resources);
        if let Some(reporter) = reporter {
            reporter.join().unwrap();
        }
        let mut poller = poller.join().unwrap();
        for _ in 0..3 {
            poller.poll();
            poller.reuse();
        }
        assert!(poller.is_free.load(Ordering::Acquire), "the resources are freed");
        queue.commit(2, false).unwrap();
    }
}

#[test]
fn a_queue_pair_goes_away_while_it_completes_and_is_flushed() {
    for meanwhile in [Meanwhile::Completed, Meanwhile::Completes, Meanwhile::Fails] {
        let polled = Reached::default();
        holds(gone(meanwhile, polled.clone()));
        polled.check();
    }
}

#[test]
fn a_completion_queue_that_reclaims_without_looking_is_caught() {
    let another = Failure::Assertion("completed, and not");
    let model = gone(Meanwhile::Completed, Reached::default());
    catches(Mutant::ReclaimedWithoutLooking, another, model);
}

#[test]
fn a_queue_pair_that_is_retired_before_it_leaves_the_table_is_caught() {
    let model = gone(Meanwhile::Completes, Reached::default());
    catches(Mutant::ClearedAfterRetired, Failure::Race, model);
}

//! Queue pairs that go away while another thread polls.

use crate::check::{Failure, Reached, catches, holds};
use crate::memory::{CompletionQueue, INDEX, PolledRing, QueuePair, write_id};
use crate::nic::{Report, Reporter};
use doorbell::completion::{Completion, Sent};
use doorbell::mlx5::ring::Committed;
use doorbell::mlx5::ring::committed::retire;
use doorbell::mlx5::ring::table::Table;
use doorbell_hal::sync::mutant::Mutant;
use doorbell_hal::sync::{AtomicBool, Ordering};
use loom::sync::Arc as Shared;
use loom::thread;
use std::sync::Arc;

/// The ids of the queue pair that goes.
const OLD: u64 = 7;
/// The ids of the queue pair that gets its index.
const NEW: u64 = 8;
/// What is where the ids of a queue pair were whose resources are gone.
const GONE: u64 = 9;

/// A queue pair with one request and one receive outstanding, both with `id`.
fn queue_pair(id: u64) -> Arc<QueuePair> {
    let queue_pair = QueuePair::new(1, 1);
    write_ids(&queue_pair, id);
    queue_pair
}

fn write_ids(queue_pair: &QueuePair, id: u64) {
    // SAFETY: S1: nobody else has the ids yet, or any more (and loom checks it).
    unsafe {
        write_id(&queue_pair.in_flight.send, 0, id);
        write_id(&queue_pair.in_flight.receive, 0, id);
    }
}

/// What a queue pair leaves: its ids, and its index. The memory itself stays for as long as the
/// model, so that a late reader is a race and not the model's end.
struct Resources {
    queue_pair: Arc<QueuePair>,
    index_is_free: Arc<AtomicBool>,
}

impl Drop for Resources {
    fn drop(&mut self) {
        // As its memory would be by its next owner.
        write_ids(&self.queue_pair, GONE);
        self.index_is_free.store(true, Ordering::Release);
    }
}

type Queue = Committed<Shared<Resources>>;

fn sent() -> Report {
    Report::sent(INDEX, 0)
}

/// A thread that polls, and the queue pair that it makes once the old one's index is free.
struct Poller {
    ring: PolledRing,
    queue: Arc<Queue>,
    index_is_free: Arc<AtomicBool>,
    table: Arc<Table>,
    new: Option<Arc<QueuePair>>,
    ids: Vec<u64>,
}

impl Poller {
    fn new(
        completions: &Arc<CompletionQueue>,
        queue: &Arc<Queue>,
        index_is_free: &Arc<AtomicBool>,
    ) -> Self {
        Poller {
            ring: completions.ring(),
            queue: queue.clone(),
            index_is_free: index_is_free.clone(),
            table: completions.table.clone(),
            new: None,
            ids: Vec::new(),
        }
    }

    fn poll(&mut self) {
        match self.queue.poll(&mut *self.ring) {
            None => {}
            Some(Completion::Sent(Sent { id, .. })) => self.ids.push(id),
            Some(other) => panic!("{other:?}"),
        }
        // No new queue pair has a completion yet.
        let old = self.ids.iter().all(|id| *id == OLD);
        assert!(old, "{:?} completed, and not the old queue pair's {OLD}", self.ids);
    }

    /// Makes a queue pair with the old one's index, if it is free.
    fn reuse(&mut self) {
        if self.new.is_none() && self.index_is_free.load(Ordering::Acquire) {
            let new = queue_pair(NEW);
            self.table.set(INDEX, &new.in_flight);
            self.new = Some(new);
        }
    }
}

/// The kernel destroys a queue pair whose request has just completed; the poller makes another.
fn destroyed(reused: Reached) -> impl Fn() {
    move || {
        let old = queue_pair(OLD);
        let completions = CompletionQueue::of(2, &old);
        let queue = Arc::new(Queue::new(2));
        queue.commit(2, false).unwrap();
        let index_is_free = Arc::new(AtomicBool::new(false));
        let mut poller = Poller::new(&completions, &queue, &index_is_free);
        let resources = Shared::new(Resources { queue_pair: old.clone(), index_is_free });
        let mut nic = Reporter::new(&completions);
        let reporter = thread::spawn(move || {
            assert!(nic.report(sent()));
            nic
        });
        let reused = reused.clone();
        let poller = thread::spawn(move || {
            for _ in 0..2 {
                poller.poll();
                poller.reuse();
            }
            if poller.new.is_some() {
                reused.note();
            }
            poller
        });
        // Once the kernel has destroyed it, the NIC completes nothing of it.
        let mut nic = reporter.join().unwrap();
        retire(&completions.table, INDEX, [(&queue, 1), (&queue, 1)], &resources);
        drop(resources);
        let mut poller = poller.join().unwrap();
        for _ in 0..2 {
            poller.poll();
            poller.reuse();
        }
        // The new one has the old one's index and entries.
        assert!(poller.new.is_some(), "the index is free again");
        queue.commit(2, false).unwrap();
        assert!(nic.report(sent()));
        let Some(Completion::Sent(new)) = queue.poll(&mut *poller.ring) else {
            panic!("the new queue pair's request completes")
        };
        assert_eq!(new.id, NEW);
    }
}

/// The kernel destroys a queue pair whose requests and receives complete into two queues, each with
/// a poller of its own. Its request has just completed; its receive never does.
fn destroyed_with_two_queues(reused: Reached) -> impl Fn() {
    move || {
        let old = queue_pair(OLD);
        let sends = CompletionQueue::of(2, &old);
        let receives = CompletionQueue::new(2, &sends.table);
        let queues = [Arc::new(Queue::new(1)), Arc::new(Queue::new(1))];
        queues.iter().for_each(|queue| queue.commit(1, false).unwrap());
        let [send_queue, receive_queue] = &queues;
        let index_is_free = Arc::new(AtomicBool::new(false));
        let send_poller = Poller::new(&sends, send_queue, &index_is_free);
        let receive_poller = Poller::new(&receives, receive_queue, &index_is_free);
        let resources = Shared::new(Resources { queue_pair: old.clone(), index_is_free });
        // One of the pollers makes a new queue pair.
        let reused = reused.clone();
        let pollers = [
            thread::spawn(move || {
                let mut poller = send_poller;
                poller.poll();
                poller.poll();
                poller
            }),
            thread::spawn(move || {
                let mut poller = receive_poller;
                poller.poll();
                poller.reuse();
                if poller.new.is_some() {
                    reused.note();
                }
                poller
            }),
        ];
        assert!(Reporter::new(&sends).report(sent()));
        retire(&sends.table, INDEX, [(send_queue, 1), (receive_queue, 1)], &resources);
        drop(resources);
        let [mut send_poller, mut receive_poller] = pollers.map(|poller| poller.join().unwrap());
        for _ in 0..2 {
            send_poller.poll();
        }
        receive_poller.poll();
        receive_poller.reuse();
        assert!(receive_poller.new.is_some(), "the index is free again");
        queues.iter().for_each(|queue| queue.commit(1, false).unwrap());
    }
}

/// The kernel would not destroy a queue pair, whose request completes while it is taken away.
fn not_destroyed() {
    let old = queue_pair(OLD);
    let completions = CompletionQueue::of(2, &old);
    let queue = Arc::new(Queue::new(2));
    queue.commit(2, false).unwrap();
    let index_is_free = Arc::new(AtomicBool::new(false));
    let mut poller = Poller::new(&completions, &queue, &index_is_free);
    let resources = Shared::new(Resources { queue_pair: old.clone(), index_is_free });
    let mut nic = Reporter::new(&completions);
    let reporter = thread::spawn(move || assert!(nic.report(sent())));
    let poller = thread::spawn(move || {
        poller.poll();
        poller.poll();
        poller
    });
    retire(&completions.table, INDEX, [(&queue, 1), (&queue, 1)], &resources);
    drop(resources);
    reporter.join().unwrap();
    let mut poller = poller.join().unwrap();
    for _ in 0..2 {
        poller.poll();
    }
    assert!(poller.index_is_free.load(Ordering::Acquire), "the resources are freed");
}

#[test]
fn an_index_is_used_again_only_after_the_completions_of_its_queue_pair() {
    let reused = Reached::default();
    holds(destroyed(reused.clone()));
    reused.check();
}

#[test]
fn an_index_is_used_again_only_after_the_completions_in_both_completion_queues() {
    let reused = Reached::default();
    holds(destroyed_with_two_queues(reused.clone()));
    reused.check();
}

#[test]
fn a_completion_queue_that_reclaims_without_looking_is_caught() {
    let (another, reused) = (Failure::Assertion("completed, and not"), Reached::default());
    catches(Mutant::ReclaimedWithoutLooking, another, destroyed(reused.clone()));
    catches(Mutant::ReclaimedWithoutLooking, another, destroyed_with_two_queues(reused));
}

#[test]
fn ids_of_a_queue_pair_that_goes_on_completing_are_freed_once_nothing_finds_them() {
    holds(not_destroyed);
}

#[test]
fn a_queue_pair_that_is_retired_before_it_leaves_the_table_is_caught() {
    catches(Mutant::ClearedAfterRetired, Failure::Race, not_destroyed);
}

//! Which queue pairs of a NIC have something to do, and when.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The queue pairs of a NIC that wait for their turn, for a time, or for nothing any more.
#[derive(Default)]
pub(crate) struct Schedule {
    /// Queue pairs that may have something to do now.
    ready: VecDeque<u32>,
    is_ready: BTreeSet<u32>,
    /// When queue pairs have something to do by themselves.
    deadlines: BTreeSet<(u64, u32)>,
    deadline_of: BTreeMap<u32, u64>,
    /// Queue pairs in error, whose later entries are flushed.
    in_error: BTreeSet<u32>,
}

impl Schedule {
    /// A queue pair may have something to do.
    pub(crate) fn make_ready(&mut self, number: u32) {
        if self.is_ready.insert(number) {
            self.ready.push_back(number);
        }
    }

    /// How many may.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// The ready queue pair at `place`, whose turn it is.
    pub(crate) fn take(&mut self, place: usize) -> Option<u32> {
        let number = self.ready.remove(place)?;
        self.is_ready.remove(&number);
        Some(number)
    }

    /// Makes the queue pairs whose time has come ready.
    pub(crate) fn wake(&mut self, now: u64) {
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            self.deadline_of.remove(&number);
            self.make_ready(number);
        }
    }

    /// When the next queue pair has something to do by itself.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// When a queue pair has something to do by itself.
    pub(crate) fn set_deadline(&mut self, number: u32, deadline: Option<u64>) {
        let known = self.deadline_of.get(&number).copied();
        if deadline == known {
            return;
        }
        if let Some(known) = known {
            self.deadlines.remove(&(known, number));
            self.deadline_of.remove(&number);
        }
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline, number));
            self.deadline_of.insert(number, deadline);
        }
    }

    /// A queue pair is in error. Answers whether it was not before.
    pub(crate) fn failed(&mut self, number: u32) -> bool {
        self.in_error.insert(number)
    }

    /// The queue pairs in error.
    pub(crate) fn in_error(&self) -> Vec<u32> {
        self.in_error.iter().copied().collect()
    }

    /// Whether there are any.
    pub(crate) fn has_failed(&self) -> bool {
        !self.in_error.is_empty()
    }

    /// Nothing waits for a queue pair any more.
    pub(crate) fn forget(&mut self, number: u32) {
        if self.is_ready.remove(&number) {
            self.ready.retain(|&ready| ready != number);
        }
        self.in_error.remove(&number);
        self.set_deadline(number, None);
    }

    /// Nothing waits for anything any more.
    pub(crate) fn clear(&mut self) {
        *self = Schedule::default();
    }
}

//! What may complete into a completion queue, and what queue pairs that are gone leave there.
//!
//! A queue pair goes away on one thread while another polls. Its completions may still be in the
//! ring, and the poller may be looking at its ids at that moment. So the queue pair is first taken
//! out of the [`Table`], then its resources are *retired*: each of its completion queues keeps them
//! until the ring's own poller has found the ring empty. Only then can its index be used again,
//! and only then are its entries free for other queue pairs.

use super::Completions;
use super::table::Table;
use crate::completion::Completion;
use crate::error::Error;
use alloc::vec::Vec;
use core::ptr;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{AtomicBool, Mutex, Ordering};

/// What may complete into a completion queue. `T` is what a queue pair that is gone leaves.
pub struct Committed<T> {
    /// Entries that the ring holds.
    holds: u32,
    state: Mutex<State<T>>,
    /// Whether anything is retired: all that a poll looks at.
    any_retired: AtomicBool,
}

struct State<T> {
    /// Entries set aside for queue pairs.
    entries: u64,
    retired: Vec<Retired<T>>,
}

/// What a queue pair that is gone leaves with one completion queue.
struct Retired<T> {
    entries: u64,
    /// Freed with the last of the queue pair's completion queues.
    _resources: T,
}

impl<T> Committed<T> {
    /// For a ring that holds `holds` entries, with nothing set aside.
    pub fn new(holds: u32) -> Self {
        let state = State { entries: 0, retired: Vec::new() };
        Committed { holds, state: Mutex::new(state), any_retired: AtomicBool::new(false) }
    }

    /// Entries that the ring holds.
    pub fn holds(&self) -> u32 {
        self.holds
    }

    /// Sets `entries` entries aside for a queue pair; unless it may `overcommit`, only if they fit.
    pub fn commit(&self, entries: u64, overcommit: bool) -> Result<(), Error> {
        let mut state = self.state.lock();
        let (needed, holds) = (state.entries + entries, self.holds.into());
        if !overcommit && needed > holds {
            return Err(Error::Overcommitted { needed, holds });
        }
        state.entries = needed;
        Ok(())
    }

    /// Takes back what was set aside for a queue pair that was never made.
    pub fn uncommit(&self, entries: u64) {
        self.state.lock().entries -= entries;
    }

    /// Sets `sends` and `receives` entries aside in the two queues, which may be one, for the queue pair
    /// that `make` makes. If it makes none, they are taken back.
    pub fn commit_for<R>(
        (send, sends): (&Self, u64),
        (receive, receives): (&Self, u64),
        overcommit: bool,
        make: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, Error> {
        if core::ptr::eq(send, receive) {
            send.commit(sends + receives, overcommit)?;
        } else {
            send.commit(sends, overcommit)?;
            receive.commit(receives, overcommit).inspect_err(|_| send.uncommit(sends))?;
        }
        make().inspect_err(|_| {
            send.uncommit(sends);
            receive.uncommit(receives);
        })
    }

    /// Keeps what completions of a queue pair need that is gone, until none can be left.
    fn retire(&self, entries: u64, resources: T) {
        let mut state = self.state.lock();
        state.retired.push(Retired { entries, _resources: resources });
        // Relaxed, as the lock orders what a poller does about it.
        self.any_retired.store(true, Ordering::Relaxed);
    }

    /// The next completion of `ring`, if one has come. If none has, frees what was retired.
    ///
    /// `ring` is the ring that this was made for.
    #[inline(always)]
    pub fn poll<C: Completions>(&self, ring: &mut C) -> Option<Completion> {
        let completion = ring.poll();
        if completion.is_none() && self.any_retired.load(Ordering::Relaxed) {
            self.reclaim(ring);
        }
        completion
    }

    /// Frees what queue pairs that are gone left here, if none of their completions is left.
    #[cold]
    fn reclaim<C: Completions>(&self, ring: &C) {
        let mut state = self.state.lock();
        // What was retired before the lock was taken completes no more, so a ring that is empty now
        // holds nothing of it. That a poll found it empty before the lock was taken says nothing.
        let empty = ring.is_empty();
        #[cfg(loom)]
        let empty = empty || mutant::is(Mutant::ReclaimedWithoutLooking);
        if !empty {
            return;
        }
        let retired = core::mem::take(&mut state.retired);
        state.entries -= retired.iter().map(|retired| retired.entries).sum::<u64>();
        self.any_retired.store(false, Ordering::Relaxed);
        drop(state);
        drop(retired);
    }
}

/// Takes the queue pair with `index` away from pollers: it completes no more. `queues` are its
/// completion queues, with the entries set aside there; each keeps a clone of `resources` until its
/// poller is past the queue pair's completions.
pub fn retire<T: Clone, Q>(
    table: &Table<Q>,
    index: impl Into<u32> + Copy,
    queues: [(&Committed<T>, u64); 2],
    resources: &T,
) {
    let clear = || table.set(index, ptr::null());
    let retire =
        || queues.iter().for_each(|(queue, entries)| queue.retire(*entries, resources.clone()));
    #[cfg(loom)]
    if mutant::is(Mutant::ClearedAfterRetired) {
        retire();
        return clear();
    }
    // Cleared first: the index may have another queue pair as soon as the resources are gone.
    clear();
    retire();
}

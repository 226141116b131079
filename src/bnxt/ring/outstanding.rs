//! What the poster and the poller of a queue share: the posted entries' ids and ends, how many were
//! posted, and how many completed.
//!
//! This family's NIC completes entries by count: one completion says that all requests up to one are
//! done. And a queue pair that fails completes no more: what is outstanding is flushed by software. So
//! the poller needs to know what was posted.

use alloc::boxed::Box;
use core::ptr::NonNull;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{self, AtomicU32, DmaCell, Ordering};

/// A posted entry.
pub struct Entry {
    id: DmaCell<u64>,
    /// The slot after its last, modulo 2^31, doubled; and whether it is signaled.
    end: DmaCell<u32>,
}

/// What an entry is, beside its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End(u32);

impl End {
    /// An entry before slot `slot`, counted from the ring's making on.
    #[inline(always)]
    pub const fn new(slot: u32, signaled: bool) -> Self {
        End(slot << 1 | signaled as u32)
    }

    /// The slot after the entry's last, modulo 2^31.
    #[inline(always)]
    pub const fn slot(self) -> u32 {
        self.0 >> 1
    }

    /// Whether a completion was asked for.
    #[inline(always)]
    pub const fn signaled(self) -> bool {
        self.0 & 1 != 0
    }
}

/// One queue's posted entries.
pub struct Outstanding {
    entries: NonNull<Entry>,
    /// The number of entries, a power of two, less one.
    mask: u32,
    /// Entries that the NIC was told of, modulo 2^32. Stored by the poster, loaded by the poller.
    posted: AtomicU32,
    /// Entries that completed, modulo 2^32. Stored by the poller, loaded by the poster.
    completed: AtomicU32,
}

// SAFETY: Q2: the entries are this value's own, and are cells that two threads share as S1 says.
unsafe impl Send for Outstanding {}
// SAFETY: Q2: as for `Send`.
unsafe impl Sync for Outstanding {}

impl Outstanding {
    /// For a queue of up to `entries` entries. A queue of none has a place all the same, so that any
    /// count has one to look at.
    pub fn new(entries: u32) -> Self {
        let places = entries.max(1).next_power_of_two();
        let fresh = |_| Entry { id: DmaCell::new(0), end: DmaCell::new(0) };
        let entries: Box<[Entry]> = (0..places).map(fresh).collect();
        let (posted, completed) = (AtomicU32::new(0), AtomicU32::new(0));
        let entries = NonNull::from(Box::leak(entries)).cast();
        Outstanding { entries, mask: places - 1, posted, completed }
    }

    #[inline(always)]
    fn entry(&self, number: u32) -> &Entry {
        // SAFETY: Q2: there is a power of two of entries, so the masked number is below it.
        unsafe { self.entries.add((number & self.mask) as usize).as_ref() }
    }

    /// What of an entry's number a receive's completion carries.
    #[inline(always)]
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Notes entry `number`.
    ///
    /// # Safety
    ///
    /// The caller is the poster, and the entry is free (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn note(&self, number: u32, id: u64, end: End) {
        let entry = self.entry(number);
        // SAFETY: S1: passed on to our caller, for each cell.
        unsafe { entry.id.write(id) };
        // SAFETY: S1: as above.
        unsafe { entry.end.write(end.0) };
    }

    /// The end of entry `number`.
    ///
    /// # Safety
    ///
    /// The caller is the poster, or the entry is posted and the caller has seen that it is
    /// (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn end(&self, number: u32) -> End {
        // SAFETY: S1: passed on to our caller; only the poster writes it, and only while it is free.
        End(unsafe { self.entry(number).end.read() })
    }

    /// The id of entry `number`.
    ///
    /// # Safety
    ///
    /// As for [`end`](Self::end).
    #[inline(always)]
    pub unsafe fn id(&self, number: u32) -> u64 {
        // SAFETY: S1: passed on to our caller; only the poster writes it, and only while it is free.
        unsafe { self.entry(number).id.read() }
    }

    /// Says that the entries before `posted` are posted. For the poster.
    #[inline(always)]
    pub fn publish(&self, posted: u32) {
        // Pairs with the acquire in `posted`: what was noted of an entry was noted before.
        self.posted.store(posted, Ordering::Release);
    }

    /// How many entries were posted. What was noted of them was noted before.
    #[inline(always)]
    pub fn posted(&self) -> u32 {
        #[cfg(loom)]
        if mutant::is(Mutant::NoAcquireOfPosted) {
            return self.posted.load(Ordering::Relaxed);
        }
        // Pairs with the release in `publish`.
        self.posted.load(Ordering::Acquire)
    }

    /// The id of entry `number`, which has completed, and all before it: they are the poster's again.
    /// For the poller.
    ///
    /// # Safety
    ///
    /// The caller is the poller, and has seen that the entry is posted (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn take(&self, number: u32) -> u64 {
        let completed = number.wrapping_add(1);
        #[cfg(loom)]
        if mutant::is(Mutant::FreedBeforeRead) {
            self.complete(completed);
        }
        // SAFETY: S1: passed on to our caller.
        let id = unsafe { self.id(number) };
        self.complete(completed);
        id
    }

    /// Says that the entries before `completed` have completed. For the poller, once it has read what
    /// it needs of them.
    #[inline(always)]
    pub fn complete(&self, completed: u32) {
        // Pairs with the acquire in `completed`: the poster reuses the entries after they were read.
        self.completed.store(completed, Ordering::Release);
    }

    /// How many entries completed. What was read of them was read before.
    #[inline(always)]
    pub fn completed(&self) -> u32 {
        #[cfg(loom)]
        if mutant::is(Mutant::NoAcquireOfFreed) {
            return self.completed.load(Ordering::Relaxed);
        }
        // Pairs with the release in `complete`.
        self.completed.load(Ordering::Acquire)
    }

    /// How many entries completed, for the poller, who alone changes it.
    #[inline(always)]
    pub fn own_completed(&self) -> u32 {
        // SAFETY: S1: the poller alone stores it, but for a reset, which no poller meets.
        unsafe { sync::load_own(&self.completed) }
    }

    /// Starts over with a queue that nothing was posted to.
    ///
    /// # Safety
    ///
    /// Neither poster nor poller uses this meanwhile (SAFETY.md, S1).
    pub unsafe fn reset(&self) {
        self.posted.store(0, Ordering::Release);
        self.completed.store(0, Ordering::Release);
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        let entries = NonNull::slice_from_raw_parts(self.entries, self.mask as usize + 1);
        // SAFETY: Q2: `new` leaked a box of that many entries.
        drop(unsafe { Box::from_raw(entries.as_ptr()) });
    }
}

/// Both queues of a queue pair, as a completion finds them.
pub struct InFlight {
    /// Posted requests.
    pub send: Outstanding,
    /// Posted receives.
    pub receive: Outstanding,
    /// What of a request's number its completion carries: the send ring's slots, less one.
    pub send_mask: u32,
    /// The completion ring where requests complete, by number.
    pub send_ring: u32,
    /// The completion ring where receives complete, by number.
    pub receive_ring: u32,
}

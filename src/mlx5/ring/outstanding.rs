//! What the poster and the poller of a queue share: the ids of posted entries, and how many slots
//! are free again.

use alloc::boxed::Box;
use doorbell_hal::sync::{AtomicU32, DmaCell, Ordering};

/// One queue's posted entries, by the slot that they start at.
pub struct Outstanding {
    entries: Box<[Entry]>,
    /// Slots freed so far, modulo 2^32. Stored by the poller, loaded by the poster.
    freed: AtomicU32,
}

struct Entry {
    id: DmaCell<u64>,
    /// The slot after the entry's last, counted from the ring's making on, modulo 2^32.
    end: DmaCell<u32>,
}

impl Outstanding {
    /// For a ring of `slots` slots, a power of two up to 2^16. A ring of none has one all the same,
    /// so that any counter in a completion has a place to look at.
    pub fn new(slots: u32) -> Self {
        let slots = slots.next_power_of_two();
        let entry = |_| Entry { id: DmaCell::new(0), end: DmaCell::new(0) };
        Outstanding { entries: (0..slots).map(entry).collect(), freed: AtomicU32::new(0) }
    }

    #[inline(always)]
    fn entry(&self, slot: u32) -> &Entry {
        let index = slot as usize & (self.entries.len() - 1);
        // SAFETY: Q2: the number of entries is a power of two, so the masked index is below it.
        unsafe { self.entries.get_unchecked(index) }
    }

    /// Notes an entry from slot `start` up to slot `end`.
    ///
    /// # Safety
    ///
    /// The caller is the queue's poster, and the slots from `start` to `end` are free
    /// (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn post(&self, start: u32, end: u32, id: u64) {
        let entry = self.entry(start);
        // SAFETY: S1: a free slot's cells are the poster's, which our caller is.
        unsafe { entry.id.write(id) };
        // SAFETY: S1: as above.
        unsafe { entry.end.write(end) };
    }

    /// Frees the slots up to the end of the entry that started at slot `counter`, and answers the
    /// entry's id.
    ///
    /// # Safety
    ///
    /// The caller is the poller, and has seen the entry's completion (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn complete(&self, counter: u16) -> u64 {
        let entry = self.entry(counter.into());
        #[cfg(loom)]
        if mutant::is(Mutant::FreedBeforeRead) {
            // SAFETY: S1: as below.
            self.freed.store(unsafe { entry.end.read() }, Ordering::Release);
        }
        // SAFETY: S1: a completed entry's cells are the poller's, which our caller is.
        let (id, end) = unsafe { (entry.id.read(), entry.end.read()) };
        // Pairs with the acquire in `freed`: the poster reuses the entry after it was read here.
        self.freed.store(end, Ordering::Release);
        id
    }

    /// Slots freed so far, modulo 2^32. What was read of them was read before.
    #[inline(always)]
    pub fn freed(&self) -> u32 {
        #[cfg(loom)]
        if mutant::is(Mutant::NoAcquireOfFreed) {
            return self.freed.load(Ordering::Relaxed);
        }
        // Pairs with the release in `complete`.
        self.freed.load(Ordering::Acquire)
    }

    /// Starts over with a ring that nothing was posted to.
    ///
    /// # Safety
    ///
    /// No entry is outstanding, and neither poster nor poller uses this meanwhile (SAFETY.md, S1).
    pub unsafe fn reset(&self) {
        self.freed.store(0, Ordering::Release);
    }
}

#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};

/// Both queues of a queue pair, as a completion finds them.
pub struct InFlight {
    /// Posted requests.
    pub send: Outstanding,
    /// Posted receives.
    pub receive: Outstanding,
}

//! What the poster and the poller of a queue share: the ids of posted entries, and which entry
//! completed last.

use alloc::boxed::Box;
use core::ptr::NonNull;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{AtomicU16, AtomicU32, DmaCell, Ordering};

/// One queue's posted entries.
pub struct Outstanding {
    /// The id of each entry, at the place of the slot that it starts at.
    ids: NonNull<DmaCell<u64>>,
    /// The number of ids, a power of two, less one.
    mask: u32,
    /// The first slot of the entry that completed last, modulo 2^16. Stored by the poller, loaded by
    /// the poster.
    completed: AtomicU16,
    /// The first slot, modulo 2^16, of the entry that marks the end of those posted; or [`UNMARKED`].
    end: AtomicU32,
}

/// No entry marks the end: more than any slot's number modulo 2^16.
const UNMARKED: u32 = u32::MAX;

/// Before anything was posted: the slot before the first, which is not outstanding.
const NONE: u16 = u16::MAX;

// SAFETY: Q2: the ids are this value's own, and are cells that two threads share as S1 says.
unsafe impl Send for Outstanding {}
// SAFETY: Q2: as for `Send`.
unsafe impl Sync for Outstanding {}

impl Outstanding {
    /// For a ring of `slots` slots, a power of two up to 2^15. A ring of none has one id all the
    /// same, so that any counter in a completion has a place to look at.
    pub fn new(slots: u32) -> Self {
        let slots = slots.next_power_of_two();
        let ids: Box<[DmaCell<u64>]> = (0..slots).map(|_| DmaCell::new(0)).collect();
        let ids = NonNull::from(Box::leak(ids)).cast();
        Outstanding {
            ids,
            mask: slots - 1,
            completed: AtomicU16::new(NONE),
            end: AtomicU32::new(UNMARKED),
        }
    }

    /// Where the id of an entry is that starts at slot `slot`.
    #[inline(always)]
    pub fn id(&self, slot: u32) -> NonNull<DmaCell<u64>> {
        // SAFETY: Q2: there is a power of two of ids, so the masked number is below it.
        unsafe { self.ids.add((slot & self.mask) as usize) }
    }

    /// Notes that the entry that starts at slot `counter` completed, and with it those before it.
    /// Answers its id.
    ///
    /// # Safety
    ///
    /// The caller is the poller, and has seen the entry's completion (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn complete(&self, counter: u16) -> u64 {
        #[cfg(loom)]
        if mutant::is(Mutant::FreedBeforeRead) {
            self.completed.store(counter, Ordering::Release);
            // SAFETY: S1: broken, on purpose. Q2: as below.
            return unsafe { self.id(counter.into()).as_ref().read() };
        }
        // SAFETY: S1: a completed entry's id is the poller's, which our caller is. Q2: it is ours.
        let id = unsafe { self.id(counter.into()).as_ref().read() };
        // Pairs with the acquire in `completed`: the poster reuses the id after it was read here.
        self.completed.store(counter, Ordering::Release);
        id
    }

    /// The first slot of the entry that completed last, modulo 2^16. What was read of it was read
    /// before.
    #[inline(always)]
    pub fn completed(&self) -> u16 {
        #[cfg(loom)]
        if mutant::is(Mutant::NoAcquireOfFreed) {
            return self.completed.load(Ordering::Relaxed);
        }
        // Pairs with the release in `complete`.
        self.completed.load(Ordering::Acquire)
    }

    /// Notes that the entry that starts at slot `counter`, about to be posted, is not an engine's: it
    /// marks the end of those that are.
    pub fn mark_end(&self, counter: u16) {
        // The doorbell orders it before the entry's completion, as it does the ids.
        self.end.store(counter.into(), Ordering::Relaxed);
    }

    /// Whether an entry marks the end.
    pub fn has_end(&self) -> bool {
        self.end.load(Ordering::Relaxed) != UNMARKED
    }

    /// Whether the entry that starts at slot `counter`, whose completion was seen, marks the end.
    pub fn is_end(&self, counter: u16) -> bool {
        self.end.load(Ordering::Relaxed) == u32::from(counter)
    }

    /// Starts over with a ring that nothing was posted to.
    ///
    /// # Safety
    ///
    /// No entry is outstanding, and neither poster nor poller uses this meanwhile (SAFETY.md, S1).
    pub unsafe fn reset(&self) {
        self.completed.store(NONE, Ordering::Release);
        self.end.store(UNMARKED, Ordering::Relaxed);
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        let ids = NonNull::slice_from_raw_parts(self.ids, self.mask as usize + 1);
        // SAFETY: Q2: `new` leaked a box of that many ids.
        drop(unsafe { Box::from_raw(ids.as_ptr()) });
    }
}

/// Both queues of a queue pair, as a completion finds them.
pub struct InFlight {
    /// Posted requests.
    pub send: Outstanding,
    /// Posted receives.
    pub receive: Outstanding,
}

/// How far a poster may go before a slot that is still outstanding.
///
/// Slots are counted from the ring's making on, modulo 2^32.
#[derive(Debug)]
pub struct Room {
    /// The first slot that may be outstanding.
    freed: u32,
    /// The first slot that must not be posted to: `freed` and the ring's length.
    limit: u32,
}

impl Room {
    /// A ring of `len` slots that nothing was posted to.
    pub fn new(len: u32) -> Self {
        Room { freed: 0, limit: len }
    }

    /// Slots that are free, when last looked, if `posted` were posted.
    #[inline(always)]
    pub fn left(&self, posted: u32) -> u32 {
        self.limit.wrapping_sub(posted)
    }

    /// Slots that are outstanding, when last looked, if `posted` were posted.
    pub fn outstanding(&self, posted: u32) -> u32 {
        posted.wrapping_sub(self.freed)
    }

    /// Looks again: if an entry completed that is outstanding, frees the slots up to its end, which
    /// `end_of` answers for the entry's first slot.
    ///
    /// A NIC that names an entry that is not outstanding frees nothing, and one that names a slot
    /// inside of an entry nothing but what was posted.
    pub fn look(&mut self, posted: u32, outstanding: &Outstanding, end_of: impl Fn(u32) -> u32) {
        let completed = outstanding.completed();
        // The one slot after `freed` with that number modulo 2^16: rings are at most half as long.
        let ahead = u32::from(completed.wrapping_sub(self.freed as u16));
        if ahead < self.outstanding(posted) {
            let end = end_of(self.freed.wrapping_add(ahead));
            // A completion may name a slot inside of an entry, where the bytes say anything: what
            // was not posted is never freed.
            let done = end.wrapping_sub(self.freed).min(self.outstanding(posted));
            self.limit = self.limit.wrapping_add(done);
            self.freed = self.freed.wrapping_add(done);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every place that a completion can name, and every end that the bytes there can say.
    #[test]
    fn no_completion_gives_a_ring_more_room_than_slots() {
        const LEN: u32 = 8;
        for (freed, posted) in (0..=LEN).flat_map(|freed| (freed..=LEN).map(move |at| (freed, at)))
        {
            for completed in (0..2 * LEN as u16).chain([u16::MAX]) {
                for slots in (0..=16).chain([63, 64, 255]) {
                    let outstanding = Outstanding::new(LEN);
                    let mut room = Room { freed, limit: freed + LEN };
                    // SAFETY: S1: there is no other thread.
                    unsafe { outstanding.complete(completed) };
                    room.look(posted, &outstanding, |start| start + slots);
                    let (left, held) = (room.left(posted), room.outstanding(posted));
                    assert!(left <= LEN, "{freed} {posted} {completed} {slots}: room for {left}");
                    assert_eq!(left + held, LEN);
                    assert!(held <= posted - freed, "{held} outstanding of {}", posted - freed);
                }
            }
        }
    }
}

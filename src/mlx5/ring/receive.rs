//! Posting receives.

use super::entry::Pieces;
use super::outstanding::{Outstanding, Room};
use super::segment::Segment;
use crate::mlx5::abi::doorbell::CounterWord;
use crate::mlx5::abi::wqe::DataSegment;
use crate::wr::{PostError, Receive};
use core::ptr::NonNull;
use doorbell_hal::sync::{self, AtomicU32, DmaCell, Ordering};

/// Where a receive ring's parts are.
pub struct ReceiveParts {
    /// The entries' segments.
    pub segments: NonNull<Segment>,
    /// How many entries there are: 0, or a power of two up to 2^15.
    pub len: u32,
    /// The most pieces that an entry scatters to: a power of two of segments.
    pub pieces: u32,
    /// The most bytes that a message carries.
    pub max_message: u64,
    /// Ids and freed entries.
    pub outstanding: NonNull<Outstanding>,
    /// The receive word of the queue pair's doorbell record.
    pub record: NonNull<AtomicU32>,
}

/// A receive ring. One thread at a time posts to it.
pub struct ReceiveRing {
    parts: ReceiveParts,
    /// The ids, one a receive.
    ids: NonNull<DmaCell<u64>>,
    /// What of a receive's number is its place: the number of receives, less one.
    mask: u32,
    /// Bytes of an entry.
    entry_bytes: usize,
    /// Receives posted so far, modulo 2^32.
    posted: u32,
    room: Room,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl Send for ReceiveRing {}

impl ReceiveRing {
    /// A ring that nothing was posted to.
    ///
    /// # Safety
    ///
    /// All that `parts` points to is valid for as long as the ring lives, and in no other ring's
    /// parts (SAFETY.md, Q1).
    pub unsafe fn new(parts: ReceiveParts) -> Self {
        // SAFETY: Q1: it outlives the ring.
        let ids = unsafe { parts.outstanding.as_ref() }.id(0);
        ReceiveRing {
            room: Room::new(parts.len),
            mask: parts.len.wrapping_sub(1),
            entry_bytes: parts.pieces as usize * size_of::<Segment>(),
            parts,
            ids,
            posted: 0,
        }
    }

    /// How many receives can be posted before a completion has to be polled.
    #[inline]
    pub fn room(&mut self) -> u32 {
        // SAFETY: Q1: it outlives the ring.
        let outstanding = unsafe { self.parts.outstanding.as_ref() };
        self.room.look(self.posted, outstanding, |start| start.wrapping_add(1));
        self.room.left(self.posted)
    }

    /// How many receives were posted and not completed, as far as completions were polled.
    pub fn outstanding(&mut self) -> u32 {
        self.room();
        self.room.outstanding(self.posted)
    }

    /// Writes a receive into the ring. The NIC knows of it after [`ring`](Self::ring).
    #[inline(always)]
    pub fn post<P: Pieces>(&mut self, receive: Receive<P>) -> Result<(), PostError> {
        receive.into.check_pieces(self.parts.pieces, self.parts.max_message)?;
        if self.room.left(self.posted) == 0 && !self.has_room() {
            return Err(PostError::Full);
        }
        let index = (self.posted & self.mask) as usize;
        // SAFETY: Q1: the entry is in the ring.
        let entry = unsafe { self.parts.segments.byte_add(index * self.entry_bytes) };
        // SAFETY: S1, Q1: there is room, so the entry is ours; and the pieces were checked to fit it.
        let written = unsafe { receive.into.scatter(entry) };
        if written < self.parts.pieces as usize {
            // SAFETY: S1, Q1: as above, and one segment of the entry is left.
            unsafe { entry.add(written).as_ref().write(DataSegment::TERMINATOR.to_words()) };
        }
        // SAFETY: Q1: there are as many ids as receives. S1: we are the poster, and the entry is free.
        unsafe { self.ids.add(index).as_ref().write(receive.id) };
        self.posted = self.posted.wrapping_add(1);
        Ok(())
    }

    /// Looks for room; false if there is none.
    #[cold]
    #[inline(never)]
    fn has_room(&mut self) -> bool {
        self.room() != 0
    }

    /// Gives the NIC all receives posted so far.
    #[inline(always)]
    pub fn ring(&mut self) {
        // Pairs with the NIC reading the record before it fetches an entry.
        sync::fence_before_publish();
        let word = CounterWord::of(self.posted as u16);
        // SAFETY: Q1: the record outlives the ring.
        unsafe { self.parts.record.as_ref() }.store(word.to_memory(), Ordering::Relaxed);
    }

    /// Starts over, for a queue pair that was reset.
    ///
    /// # Safety
    ///
    /// The NIC does not use the ring, and no receive is outstanding (SAFETY.md, S1).
    pub unsafe fn reset(&mut self) {
        self.posted = 0;
        self.room = Room::new(self.parts.len);
        // SAFETY: Q1: both outlive the ring. S1: passed on to our caller.
        unsafe {
            self.parts.outstanding.as_ref().reset();
            self.parts.record.as_ref().store(0, Ordering::Relaxed);
        }
    }
}

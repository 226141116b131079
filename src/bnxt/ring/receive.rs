//! Posting receives.

use super::entry::Pieces;
use super::outstanding::{End, Outstanding};
use crate::bnxt::abi::doorbell::{Doorbell, Moves, Position, QueueNumber};
use crate::bnxt::abi::wqe::{self, HEADER_SLOTS, Piece};
use crate::ring::segment::Segment;
use crate::wr::{PostError, Receive};
use core::ptr::NonNull;
use doorbell_hal::mmio::{Caching, Register, Uncached};

/// Where a receive ring's parts are.
pub struct ReceiveParts<R> {
    /// The entries' slots.
    pub slots: NonNull<Segment>,
    /// How many entries there are: 0, or a power of two up to 2^16.
    pub len: u32,
    /// The most receives that are outstanding at once, below `len`.
    pub most: u32,
    /// The most pieces that an entry scatters to, at least 1.
    pub pieces: u32,
    /// The most bytes that a message carries.
    pub max_message: u64,
    /// The queue pair's number.
    pub queue_pair: QueueNumber,
    /// Ids and completed entries.
    pub outstanding: NonNull<Outstanding>,
    /// The register that takes doorbells, of 8 bytes.
    pub register: R,
}

/// A receive ring. One thread at a time posts to it.
pub struct ReceiveRing<R> {
    parts: ReceiveParts<R>,
    doorbell: Doorbell<Moves>,
    /// The number of entries, less one.
    mask: u32,
    /// Slots of an entry.
    stride: usize,
    /// Receives posted so far, modulo 2^32.
    posted: u32,
    /// Receives that the NIC was told of.
    rung: u32,
    /// The first receive that may be outstanding.
    freed: u32,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl<R: Send> Send for ReceiveRing<R> {}

impl<R: Register> ReceiveRing<R> {
    /// A ring that nothing was posted to.
    ///
    /// # Safety
    ///
    /// All that `parts` points to is valid for as long as the ring lives, and in no other ring's
    /// parts; the register is of 8 bytes (SAFETY.md, Q1, R1).
    pub unsafe fn new(parts: ReceiveParts<R>) -> Self {
        ReceiveRing {
            doorbell: Doorbell::receive(parts.queue_pair),
            mask: parts.len.wrapping_sub(1),
            stride: HEADER_SLOTS + parts.pieces as usize,
            parts,
            posted: 0,
            rung: 0,
            freed: 0,
        }
    }

    /// How many receives can be posted before a completion has to be polled.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.look();
        self.left()
    }

    /// How many receives were posted and not completed, as far as completions were polled.
    pub fn outstanding(&mut self) -> u32 {
        self.look();
        self.posted.wrapping_sub(self.freed)
    }

    #[inline(always)]
    fn left(&self) -> u32 {
        self.parts.most.wrapping_sub(self.posted.wrapping_sub(self.freed))
    }

    /// Frees what has completed.
    fn look(&mut self) {
        // SAFETY: Q1: it outlives the ring.
        let completed = unsafe { self.parts.outstanding.as_ref() }.completed();
        // The poller completes only what was posted: it knows how much that is.
        if completed.wrapping_sub(self.freed) <= self.posted.wrapping_sub(self.freed) {
            self.freed = completed;
        }
    }

    /// Writes a receive into the ring. The NIC knows of it after [`ring`](Self::ring).
    #[inline(always)]
    pub fn post<P: Pieces>(&mut self, receive: Receive<P>) -> Result<(), PostError> {
        receive.into.check_pieces(self.parts.pieces, self.parts.max_message)?;
        if self.left() == 0 && !self.has_room() {
            return Err(PostError::Full);
        }
        let number = self.posted;
        let index = number & self.mask;
        // SAFETY: Q1: the entry is in the ring.
        let entry = unsafe { self.parts.slots.add(index as usize * self.stride) };
        let pieces = receive.into.pieces();
        // There is always one, or the NIC takes the entry for none.
        let size = HEADER_SLOTS + pieces.max(1);
        // SAFETY: S1, Q1: there is room, so the entry is ours; and the pieces were checked to fit it.
        unsafe {
            entry.as_ref().write(wqe::receive_words(size as u8, index));
            entry.add(1).as_ref().write([0, 0]);
            if pieces == 0 {
                entry.add(HEADER_SLOTS).as_ref().write(Piece::to_words(0, 0, 0));
            }
            receive.into.scatter(entry.add(HEADER_SLOTS));
        }
        self.posted = number.wrapping_add(1);
        // SAFETY: Q1: it outlives the ring.
        let outstanding = unsafe { self.parts.outstanding.as_ref() };
        // SAFETY: S1: we are the poster, and the entry is free.
        unsafe { outstanding.note(number, receive.id, End::new(0, true)) };
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
        let (posted, mask) = (self.posted, self.mask);
        if posted == self.rung {
            return;
        }
        self.rung = posted;
        // SAFETY: Q1: it outlives the ring.
        unsafe { self.parts.outstanding.as_ref() }.publish(posted);
        let position = Position::new(posted & mask, posted & mask.wrapping_add(1) != 0);
        // Pairs with the NIC fetching entries after it saw the register.
        Uncached::before_store();
        // SAFETY: R1: the register was made with 8 bytes.
        unsafe { self.parts.register.store(0, self.doorbell.to_memory(position)) };
        Uncached::after_store();
    }

    /// Starts over, for a queue pair that was reset.
    ///
    /// # Safety
    ///
    /// The NIC does not use the ring, no receive is outstanding, and no poller looks at it
    /// (SAFETY.md, S1).
    pub unsafe fn reset(&mut self) {
        (self.posted, self.rung, self.freed) = (0, 0, 0);
        // SAFETY: Q1: it outlives the ring. S1: passed on to our caller.
        unsafe { self.parts.outstanding.as_ref().reset() };
    }
}

//! Posting requests.

use super::entry::{Cursor, Limits, Operation};
use super::outstanding::{End, Outstanding};
use crate::bnxt::abi::doorbell::{Doorbell, Moves, Position, QueueNumber};
use crate::bnxt::abi::wqe::{EntryFlags, MessageSearch};
use crate::ring::segment::Segment;
use crate::wr::{PostError, WorkRequest};
use core::ptr::NonNull;
use doorbell_hal::mmio::{Caching, Register, Uncached};
use doorbell_hal::sync::DmaCell;

/// Slots of a request of one piece.
pub const SLOTS_OF_ONE_PIECE: u32 = 3;

/// Where a send ring's parts are.
pub struct SendParts<R> {
    /// The slots.
    pub slots: NonNull<Segment>,
    /// How many slots there are: 0, or a power of two from 256 to 2^16.
    pub len: u32,
    /// The table of messages: half as many entries as slots.
    pub messages: NonNull<DmaCell<u64>>,
    /// The most requests that are outstanding at once.
    pub most: u32,
    /// What an entry may hold.
    pub limits: Limits,
    /// The queue pair's number.
    pub queue_pair: QueueNumber,
    /// Ids and completed entries.
    pub outstanding: NonNull<Outstanding>,
    /// The register that takes doorbells, of 8 bytes.
    pub register: R,
}

/// A send ring. One thread at a time posts to it.
pub struct SendRing<R> {
    parts: SendParts<R>,
    doorbell: Doorbell<Moves>,
    /// The number of slots, less one.
    mask: u32,
    /// Slots posted so far, modulo 2^32.
    posted_slots: u32,
    /// Requests posted so far, modulo 2^32.
    posted: u32,
    /// Requests that the NIC was told of.
    rung: u32,
    /// The first request that may be outstanding.
    freed: u32,
    /// The first slot that may be outstanding.
    freed_slots: u32,
    /// The packet sequence number of the next message's first packet: 24 bits count.
    packet_sequence: u32,
    /// The binary logarithm of the path's MTU.
    log2_mtu: u32,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl<R: Send> Send for SendRing<R> {}

impl<R: Register> SendRing<R> {
    /// A ring that nothing was posted to.
    ///
    /// # Safety
    ///
    /// All that `parts` points to is valid for as long as the ring lives, and in no other ring's
    /// parts; the register is of 8 bytes (SAFETY.md, Q1, R1).
    pub unsafe fn new(parts: SendParts<R>) -> Self {
        SendRing {
            doorbell: Doorbell::send(parts.queue_pair),
            mask: parts.len.wrapping_sub(1),
            parts,
            posted_slots: 0,
            posted: 0,
            rung: 0,
            freed: 0,
            freed_slots: 0,
            packet_sequence: 0,
            log2_mtu: 12,
        }
    }

    /// Says how messages become packets: the first packet sequence number, and the binary logarithm of
    /// the path's MTU, at most 31. Before anything is posted.
    pub fn connect(&mut self, packet_sequence: u32, log2_mtu: u32) {
        (self.packet_sequence, self.log2_mtu) = (packet_sequence, log2_mtu.min(31));
    }

    /// How many requests of one piece can be posted.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.look();
        self.requests_left().min(self.slots_left() / SLOTS_OF_ONE_PIECE)
    }

    /// How many requests were posted and not completed, as far as completions were polled.
    pub fn outstanding(&mut self) -> u32 {
        self.look();
        self.posted.wrapping_sub(self.freed)
    }

    #[inline(always)]
    fn requests_left(&self) -> u32 {
        self.parts.most.wrapping_sub(self.posted.wrapping_sub(self.freed))
    }

    /// Slots that are free but for one: a full ring is never as an empty one.
    #[inline(always)]
    fn slots_left(&self) -> u32 {
        self.mask.wrapping_sub(self.posted_slots.wrapping_sub(self.freed_slots))
    }

    /// Frees what has completed.
    fn look(&mut self) {
        // SAFETY: Q1: it outlives the ring.
        let outstanding = unsafe { self.parts.outstanding.as_ref() };
        let completed = outstanding.completed();
        let done = completed.wrapping_sub(self.freed);
        // The poller completes only what was posted: it knows how much that is.
        if done == 0 || done > self.posted.wrapping_sub(self.freed) {
            return;
        }
        // SAFETY: S1: we are the poster.
        let end = unsafe { outstanding.end(completed.wrapping_sub(1)) }.slot();
        // Ends are known modulo 2^31, and no ring is that long.
        let slots = end.wrapping_sub(self.freed_slots) & (u32::MAX >> 1);
        self.freed = completed;
        self.freed_slots = self.freed_slots.wrapping_add(slots);
    }

    /// Writes a request into the ring. The NIC knows of it after [`ring`](Self::ring).
    #[inline(always)]
    pub fn post<O: Operation, const SIGNALED: bool, const FENCED: bool, const SOLICITED: bool>(
        &mut self,
        request: WorkRequest<O, SIGNALED, FENCED, SOLICITED>,
    ) -> Result<(), PostError> {
        let flags = const { EntryFlags::of(SIGNALED, FENCED, SOLICITED) };
        let WorkRequest { operation, id } = request;
        operation.check(&self.parts.limits)?;
        let slots = operation.slots() as u32;
        if (self.slots_left() < slots || self.requests_left() == 0) && !self.has_room(slots) {
            return Err(PostError::Full);
        }
        let (start, number) = (self.posted_slots, self.posted);
        // SAFETY: Q1: the ring has that many slots, and outlives the cursor.
        let mut cursor = unsafe { Cursor::new(self.parts.slots, self.mask, start) };
        // SAFETY: S1: there is room for the entry's slots, so they are ours.
        unsafe { operation.write(flags, &mut cursor) };
        let bytes = operation.bytes();
        let mtu = self.log2_mtu;
        // A message of no bytes is a packet, too.
        let packets = (bytes.saturating_sub(1) >> mtu) + 1;
        let next = self.packet_sequence.wrapping_add(packets);
        let place = (start & self.mask) as u16;
        let message = MessageSearch::to_memory(place, self.packet_sequence, next);
        let messages = self.mask >> 1;
        // SAFETY: Q1: there are half as many entries as slots, and requests have two slots at least.
        let entry = unsafe { self.parts.messages.add((number & messages) as usize).as_ref() };
        // SAFETY: S1: the request is ours, and so is its entry.
        unsafe { entry.write(message) };
        self.packet_sequence = next;
        self.posted_slots = start.wrapping_add(slots);
        self.posted = number.wrapping_add(1);
        // SAFETY: Q1: it outlives the ring.
        let outstanding = unsafe { self.parts.outstanding.as_ref() };
        // SAFETY: S1: we are the poster, and the entry is free.
        unsafe { outstanding.note(number, id, End::new(self.posted_slots, SIGNALED)) };
        Ok(())
    }

    /// Looks for room; false if there is none for a request of `slots` slots.
    #[cold]
    #[inline(never)]
    fn has_room(&mut self, slots: u32) -> bool {
        self.look();
        self.slots_left() >= slots && self.requests_left() != 0
    }

    /// Gives the NIC all requests posted so far.
    #[inline(always)]
    pub fn ring(&mut self) {
        let (posted, slots, mask) = (self.posted, self.posted_slots, self.mask);
        if posted == self.rung {
            return;
        }
        self.rung = posted;
        // SAFETY: Q1: it outlives the ring.
        unsafe { self.parts.outstanding.as_ref() }.publish(posted);
        let position = Position::new(slots & mask, slots & mask.wrapping_add(1) != 0);
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
    /// The NIC does not use the ring, no request is outstanding, and no poller looks at it
    /// (SAFETY.md, S1).
    pub unsafe fn reset(&mut self) {
        (self.posted, self.posted_slots, self.rung) = (0, 0, 0);
        (self.freed, self.freed_slots) = (0, 0);
        // SAFETY: Q1: it outlives the ring. S1: passed on to our caller.
        unsafe { self.parts.outstanding.as_ref().reset() };
    }
}

//! Posting requests, and ringing the doorbell.

use super::outstanding::Outstanding;
use super::segment::Segment;
use crate::mlx5::abi::U24;
use crate::mlx5::abi::doorbell::CounterWord;
use crate::mlx5::abi::uar::SEND_HALF_BYTES;
use crate::mlx5::abi::wqe::{
    CompletionMode, ControlFlags, ControlSegment, FenceMode, SLOT_BYTES, SLOT_SEGMENTS,
};
use crate::mlx5::ring::entry::{Cursor, Limits, Operation};
use crate::wr::{PostError, WorkRequest};
use core::marker::PhantomData;
use core::ptr::NonNull;
use doorbell_hal::mmio::{Caching, Register};
use doorbell_hal::sync::{self, AtomicU32, Ordering};

/// Where a send ring's parts are.
pub struct SendParts<R> {
    /// The slots' segments, four a slot.
    pub segments: NonNull<Segment>,
    /// How many slots there are: 0, or a power of two up to 2^15.
    pub len: u32,
    /// What an entry may hold.
    pub limits: Limits,
    /// The queue pair's number.
    pub queue_pair: U24,
    /// Ids and freed slots.
    pub outstanding: NonNull<Outstanding>,
    /// The send word of the queue pair's doorbell record.
    pub record: NonNull<AtomicU32>,
    /// The queue pair's register: two halves of [`SEND_HALF_BYTES`].
    pub register: R,
}

/// A send ring. One thread at a time posts to it.
///
/// `C` is how the register's page is mapped. In a write-combining one, a doorbell for a single entry
/// of up to four slots carries the entry itself (BlueFlame), which spares the NIC the fetch.
pub struct SendRing<R, C> {
    parts: SendParts<R>,
    /// Slots posted so far, modulo 2^32.
    posted: u32,
    /// Slots freed, when last looked.
    freed: u32,
    /// Slots that the NIC was told of.
    rung: u32,
    /// The first slot of the last entry.
    last: u32,
    /// What rings the doorbell for the last entry.
    doorbell: u64,
    /// The offset of the register's half whose turn it is.
    half: usize,
    caching: PhantomData<C>,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl<R: Send, C> Send for SendRing<R, C> {}

impl<R: Register, C: Caching> SendRing<R, C> {
    /// A ring that nothing was posted to.
    ///
    /// # Safety
    ///
    /// All that `parts` points to is valid for as long as the ring lives, and in no other ring's
    /// parts; the register is of two halves of [`SEND_HALF_BYTES`] and its page is mapped as `C`
    /// says (SAFETY.md, Q1, R1).
    pub unsafe fn new(parts: SendParts<R>) -> Self {
        let caching = PhantomData;
        SendRing { parts, posted: 0, freed: 0, rung: 0, last: 0, doorbell: 0, half: 0, caching }
    }

    /// How many slots are free.
    #[inline]
    pub fn room(&mut self) -> u32 {
        // SAFETY: Q1: it outlives the ring.
        self.freed = unsafe { self.parts.outstanding.as_ref() }.freed();
        self.seen_room()
    }

    #[inline(always)]
    fn seen_room(&self) -> u32 {
        self.parts.len.saturating_sub(self.posted.wrapping_sub(self.freed))
    }

    /// How many slots were posted and not completed, as far as completions were polled.
    pub fn outstanding(&mut self) -> u32 {
        self.parts.len - self.room()
    }

    /// Writes a request into the ring. The NIC knows of it after [`ring`](Self::ring).
    #[inline(always)]
    pub fn post<O: Operation, const SIGNALED: bool, const FENCED: bool, const SOLICITED: bool>(
        &mut self,
        request: WorkRequest<O, SIGNALED, FENCED, SOLICITED>,
    ) -> Result<(), PostError> {
        let operation = request.operation;
        operation.check(&self.parts.limits)?;
        let segments = 1 + operation.segments();
        let slots = segments.div_ceil(SLOT_SEGMENTS) as u32;
        if self.seen_room() < slots && self.room() < slots {
            return Err(PostError::Full);
        }
        let start = self.posted;
        let control = ControlSegment::new(
            O::OPCODE,
            start as u16,
            self.parts.queue_pair,
            segments as u8,
            const {
                ControlFlags::new()
                    .with_completion(if SIGNALED {
                        CompletionMode::Always
                    } else {
                        CompletionMode::OnError
                    })
                    .with_fence(if FENCED { FenceMode::SmallAndFence } else { FenceMode::None })
                    .with_solicited(SOLICITED)
            },
            operation.immediate(),
        );
        // SAFETY: S1, Q1: there is room for the entry's slots, so they are ours.
        let mut cursor = unsafe { Cursor::new(self.parts.segments, self.parts.len, start) };
        // SAFETY: S1: the entry has as many segments as its operation said, which are ours.
        unsafe {
            cursor.write(control.to_words());
            operation.write(&mut cursor);
        }
        self.posted = start.wrapping_add(slots);
        // SAFETY: Q1: it outlives the ring. S1: we are the poster, and the slots are free.
        unsafe { self.parts.outstanding.as_ref().post(start, self.posted, request.id) };
        self.last = start;
        self.doorbell = control.doorbell();
        Ok(())
    }

    /// Gives the NIC all requests posted so far: the doorbell record, then the register.
    #[inline(always)]
    pub fn ring(&mut self) {
        if self.posted == self.rung {
            return;
        }
        // Pairs with the NIC reading the record before it fetches an entry.
        sync::fence_before_publish();
        let word = CounterWord::new().with_counter(self.posted as u16);
        // SAFETY: Q1: the record outlives the ring.
        unsafe { self.parts.record.as_ref() }.store(word.to_memory(), Ordering::Relaxed);
        // Pairs with the NIC reading the record after it saw the register.
        C::before_store();
        let slots = self.posted.wrapping_sub(self.last);
        let alone = self.last == self.rung;
        if C::WRITE_COMBINING && alone && slots as usize <= SEND_HALF_BYTES / SLOT_BYTES {
            self.copy_to_register(slots);
        } else {
            // SAFETY: R1: a half's start is inside the register.
            unsafe { self.parts.register.store(self.half, self.doorbell) };
        }
        C::after_store();
        if C::WRITE_COMBINING {
            // The other half's buffer is empty by now, so that two doorbells never merge.
            self.half ^= SEND_HALF_BYTES;
        }
        self.rung = self.posted;
    }

    /// Copies the last entry's `slots` slots, at most four, to the register.
    #[inline(always)]
    fn copy_to_register(&self, slots: u32) {
        for slot in 0..slots {
            let index = self.last.wrapping_add(slot) & (self.parts.len - 1);
            let first = index as usize * SLOT_SEGMENTS;
            let mut words = [0; SLOT_BYTES / size_of::<u64>()];
            for segment in 0..SLOT_SEGMENTS {
                // SAFETY: Q1: the slot is masked to below the number of slots. S1: only the poster,
                // which we are, writes slots.
                let pair = unsafe { self.parts.segments.add(first + segment).as_ref().read() };
                words[2 * segment..2 * segment + 2].copy_from_slice(&pair);
            }
            // SAFETY: R1: up to four slots are inside the half.
            unsafe { self.parts.register.copy(self.half + slot as usize * SLOT_BYTES, &words) };
        }
    }

    /// Starts over, for a queue pair that was reset.
    ///
    /// # Safety
    ///
    /// The NIC does not use the ring, and no request is outstanding (SAFETY.md, S1).
    pub unsafe fn reset(&mut self) {
        (self.posted, self.freed, self.rung, self.last) = (0, 0, 0, 0);
        // SAFETY: Q1: both outlive the ring. S1: passed on to our caller.
        unsafe {
            self.parts.outstanding.as_ref().reset();
            self.parts.record.as_ref().store(0, Ordering::Relaxed);
        }
    }
}

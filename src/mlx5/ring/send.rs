//! Posting requests, and ringing the doorbell.

use super::entry::{Cursor, Limits, Operation};
use super::outstanding::{Outstanding, Room};
use super::segment::Segment;
use crate::mlx5::abi::U24;
use crate::mlx5::abi::doorbell::{CounterWord, SendDoorbell};
use crate::mlx5::abi::uar::SEND_HALF_BYTES;
use crate::mlx5::abi::wqe::{
    CompletionMode, ControlFlags, ControlSegment, EntrySize, FenceMode, OpcodeWord, SLOT_BYTES,
    SLOT_SEGMENTS,
};
use crate::wr::{self, Nothing, PostError, WorkRequest};
use core::marker::PhantomData;
use core::ptr::NonNull;
use doorbell_hal::mmio::{Caching, Register};
use doorbell_hal::sync::{self, AtomicU32, DmaCell, Ordering};

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
    /// The ids, one a slot.
    ids: NonNull<DmaCell<u64>>,
    /// What rings the doorbell, but for an entry's opcode, index and size.
    queue_pair: u64,
    /// What of a slot's number is its place: the number of slots, less one.
    mask: u32,
    /// Slots posted so far, modulo 2^32.
    posted: u32,
    room: Room,
    /// Slots that the NIC was told of.
    rung: u32,
    /// The first slot of the last entry; kept where a doorbell may carry it.
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
        let queue_pair = SendDoorbell {
            opmod_idx_opcode: OpcodeWord::default(),
            qpn_ds: EntrySize::of(parts.queue_pair, 0),
        };
        // SAFETY: Q1: it outlives the ring.
        let ids = unsafe { parts.outstanding.as_ref() }.id(0);
        SendRing {
            room: Room::new(parts.len),
            mask: parts.len.wrapping_sub(1),
            parts,
            ids,
            queue_pair: queue_pair.to_memory(),
            posted: 0,
            rung: 0,
            last: 0,
            doorbell: 0,
            half: 0,
            caching: PhantomData,
        }
    }

    /// How many slots are free.
    #[inline]
    pub fn room(&mut self) -> u32 {
        let Self { parts, mask, posted, room, .. } = self;
        // SAFETY: Q1: it outlives the ring.
        let outstanding = unsafe { parts.outstanding.as_ref() };
        room.look(*posted, outstanding, |start| {
            let first = (start & *mask) as usize * SLOT_SEGMENTS;
            // SAFETY: Q1: the slot is masked to below the number of slots. S1: only the poster,
            // which we are, writes slots.
            let control = unsafe { parts.segments.add(first).as_ref().read() };
            let segments = ControlSegment::from_words(control).qpn_ds.segments();
            start.wrapping_add(u32::from(segments).div_ceil(SLOT_SEGMENTS as u32))
        });
        room.left(*posted)
    }

    /// How many slots were posted and not completed, as far as completions were polled.
    pub fn outstanding(&mut self) -> u32 {
        self.room();
        self.room.outstanding(self.posted)
    }

    /// Writes a request into the ring. The NIC knows of it after [`ring`](Self::ring).
    #[inline(always)]
    pub fn post<O: Operation, const SIGNALED: bool, const FENCED: bool, const SOLICITED: bool>(
        &mut self,
        request: WorkRequest<O, SIGNALED, FENCED, SOLICITED>,
    ) -> Result<(), PostError> {
        let flags = const {
            let completion =
                if SIGNALED { CompletionMode::Always } else { CompletionMode::OnError };
            let fence = if FENCED { FenceMode::SmallAndFence } else { FenceMode::None };
            ControlFlags::of(completion, SOLICITED, fence)
        };
        let WorkRequest { operation, id } = request;
        operation.check(&self.parts.limits)?;
        match operation.bare() {
            None => self.write(operation, flags, id),
            Some(bare) => self.write_bare(bare, flags, id),
        }
    }

    /// As [`write`](Self::write), for the rare operation that turns out to move nothing.
    #[cold]
    #[inline(never)]
    fn write_bare<O: Operation>(
        &mut self,
        operation: O,
        flags: ControlFlags,
        id: u64,
    ) -> Result<(), PostError> {
        self.write(operation, flags, id)
    }

    /// Looks for room; false if there are not `slots` slots of it.
    #[cold]
    #[inline(never)]
    fn has_room(&mut self, slots: u32) -> bool {
        self.room() >= slots
    }

    /// Writes the entry of an operation that fits one.
    #[inline(always)]
    fn write<O: Operation>(
        &mut self,
        operation: O,
        flags: ControlFlags,
        id: u64,
    ) -> Result<(), PostError> {
        let segments = 1 + operation.segments();
        let slots = segments.div_ceil(SLOT_SEGMENTS) as u32;
        if self.room.left(self.posted) < slots && !self.has_room(slots) {
            return Err(PostError::Full);
        }
        let start = self.posted;
        let immediate = operation.immediate();
        let none = U24::truncate(0);
        let control =
            ControlSegment::new(O::OPCODE, start as u16, none, segments as u8, flags, immediate);
        let [doorbell, tail] = control.to_words();
        let doorbell = doorbell | self.queue_pair;
        let slot = start & self.mask;
        // SAFETY: S1, Q1: there is room for the entry's slots, so they are ours.
        let mut cursor = unsafe { Cursor::new(self.parts.segments, self.mask, slot) };
        // SAFETY: S1: the entry has as many segments as its operation said, which are ours.
        unsafe {
            cursor.write([doorbell, tail]);
            operation.write(&mut cursor);
        }
        // SAFETY: Q1: there are as many ids as slots. S1: we are the poster, and the slot was free.
        unsafe { self.ids.add(slot as usize).as_ref().write(id) };
        self.posted = start.wrapping_add(slots);
        self.doorbell = doorbell;
        if C::WRITE_COMBINING {
            self.last = start;
        }
        Ok(())
    }

    /// Gives the NIC all requests posted so far: the doorbell record, then the register.
    #[inline(always)]
    pub fn ring(&mut self) {
        // Read before the fences, past which the compiler takes nothing for known.
        let (posted, rung, last, doorbell) = (self.posted, self.rung, self.last, self.doorbell);
        let (half, mask) = (if C::WRITE_COMBINING { self.half } else { 0 }, self.mask);
        if posted == rung {
            return;
        }
        // Pairs with the NIC reading the record before it fetches an entry.
        sync::fence_before_publish();
        let word = CounterWord::of(posted as u16);
        // SAFETY: Q1: the record outlives the ring.
        unsafe { self.parts.record.as_ref() }.store(word.to_memory(), Ordering::Relaxed);
        // Pairs with the NIC reading the record after it saw the register.
        C::before_store();
        let slots = posted.wrapping_sub(last);
        if C::WRITE_COMBINING && last == rung && slots as usize <= SEND_HALF_BYTES / SLOT_BYTES {
            self.copy_to_register(half, last & mask, slots);
        } else {
            // SAFETY: R1: a half's start is inside the register.
            unsafe { self.parts.register.store(half, doorbell) };
        }
        C::after_store();
        if C::WRITE_COMBINING {
            // The other half's buffer is empty by now, so that two doorbells never merge.
            self.half = half ^ SEND_HALF_BYTES;
        }
        self.rung = posted;
    }

    /// Copies the `slots` slots from place `first` on to a half of the register, which holds them.
    #[inline(always)]
    fn copy_to_register(&self, half: usize, first: u32, slots: u32) {
        if first + slots > self.parts.len {
            return self.copy_around_the_end(half, first, slots);
        }
        // SAFETY: Q1: the place is below the number of slots.
        let from = unsafe { self.parts.segments.add(first as usize * SLOT_SEGMENTS) };
        for slot in 0..slots as usize {
            // SAFETY: Q1: `slots` slots follow before the ring's end.
            self.copy_slot(half + slot * SLOT_BYTES, unsafe { from.add(slot * SLOT_SEGMENTS) });
        }
    }

    /// As [`copy_to_register`](Self::copy_to_register), for an entry that goes on at the ring's
    /// start.
    #[cold]
    #[inline(never)]
    fn copy_around_the_end(&self, half: usize, first: u32, slots: u32) {
        for slot in 0..slots {
            let place = ((first + slot) & self.mask) as usize;
            // SAFETY: Q1: the place is masked to below the number of slots.
            let from = unsafe { self.parts.segments.add(place * SLOT_SEGMENTS) };
            self.copy_slot(half + slot as usize * SLOT_BYTES, from);
        }
    }

    /// Copies the slot at `from`, one of the ring, to `to` in the register.
    #[inline(always)]
    fn copy_slot(&self, to: usize, from: NonNull<Segment>) {
        let mut words = [0; SLOT_BYTES / size_of::<u64>()];
        for (segment, words) in words.chunks_exact_mut(2).enumerate() {
            // SAFETY: Q1: the slot is in the ring. S1: only the poster, which we are, writes slots.
            words.copy_from_slice(&unsafe { from.add(segment).as_ref().read() });
        }
        // SAFETY: R1: up to four slots are inside a half.
        unsafe { self.parts.register.copy(to, &words) };
    }

    /// Gives the NIC an entry whose completion says that all before it are done, if anything is
    /// outstanding and there is room; once, until [`reset`](Self::reset). For a queue pair in error.
    ///
    /// What was done and not signaled before the queue pair failed never completes by itself: only
    /// what completes after it says so. Pollers pass over this entry's completion.
    pub fn mark_end(&mut self) {
        // SAFETY: Q1: it outlives the ring.
        let outstanding = unsafe { self.parts.outstanding.as_ref() };
        if outstanding.has_end() || self.outstanding() == 0 || self.room.left(self.posted) == 0 {
            return;
        }
        outstanding.mark_end(self.posted as u16);
        // There is room for it, and nothing else to refuse; and in error any entry is only flushed.
        let _posted = self.post(wr::send(Nothing).signaled());
        self.ring();
    }

    /// Starts over, for a queue pair that was reset.
    ///
    /// # Safety
    ///
    /// The NIC does not use the ring, and no request is outstanding (SAFETY.md, S1).
    pub unsafe fn reset(&mut self) {
        (self.posted, self.rung, self.last) = (0, 0, 0);
        self.room = Room::new(self.parts.len);
        // SAFETY: Q1: both outlive the ring. S1: passed on to our caller.
        unsafe {
            self.parts.outstanding.as_ref().reset();
            self.parts.record.as_ref().store(0, Ordering::Relaxed);
        }
    }
}

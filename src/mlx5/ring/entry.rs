//! How each operation becomes the segments of a work entry.

use super::segment::Segment;
use crate::mlx5::abi::wqe::{
    AtomicSegment, DataSegment, InlineHeader, MAX_SEGMENTS, Opcode, RemoteAddressSegment,
    SEGMENT_BYTES, SLOT_BYTES, SLOT_SEGMENTS,
};
use crate::wr::{
    CompareSwap, FetchAdd, Gather, Inline, LocalSlice, Nothing, PostError, Read, RemoteSlice,
    Scatter, Send, SendImmediate, SendInvalidate, Write, WriteImmediate,
};
use core::ptr::NonNull;

/// Slots that every ring has, if it has any, and that every NIC takes as one entry: whether less
/// than that fits is known without looking.
pub const LEAST_SLOTS: usize = 4;

/// What an entry may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most 16-byte segments in an entry, the control segment included: from those of
    /// [`LEAST_SLOTS`] to [`MAX_SEGMENTS`].
    pub segments: usize,
    /// The most bytes that a message carries.
    pub max_message: u64,
}

/// Writes an entry's segments, one after the other, around the end of the ring.
pub struct Cursor {
    segments: NonNull<Segment>,
    /// The number of slots in the ring, a power of two, less one.
    mask: u32,
    /// The place of the entry's first slot.
    first: u32,
    /// The next segment, counted from the entry's first.
    next: usize,
}

impl Cursor {
    /// A cursor at the slot at place `first` of a ring of `mask + 1` slots, a power of two.
    ///
    /// # Safety
    ///
    /// The ring has that many slots at `segments`, and outlives the cursor (SAFETY.md, Q1).
    #[inline(always)]
    pub unsafe fn new(segments: NonNull<Segment>, mask: u32, first: u32) -> Self {
        Cursor { segments, mask, first, next: 0 }
    }

    /// Stores the next segment.
    ///
    /// # Safety
    ///
    /// The entry's slots up to this segment's are the caller's (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn write(&mut self, words: [u64; 2]) {
        let (slot, segment) = (self.next / SLOT_SEGMENTS, self.next % SLOT_SEGMENTS);
        // SAFETY: Q1: the segment is in its slot. S1: passed on to our caller.
        unsafe { self.slot(slot).add(segment).as_ref().write(words) };
        self.next += 1;
    }

    /// Copies an inline header and `bytes` to the entry's end, from the next segment on, which is in
    /// the entry's first slot.
    ///
    /// Slot by slot, so that no store straddles cache lines, and the compiler, where it knows the length,
    /// has a few wide stores for each instead of a call.
    ///
    /// # Safety
    ///
    /// The entry's slots that they take are the caller's (SAFETY.md, S1).
    #[inline(always)]
    unsafe fn write_inline(&mut self, bytes: &[u8]) {
        // `check` has bounded the length far below 2^16.
        let header: [u8; HEADER] = zerocopy::transmute!(InlineHeader::of(bytes.len() as u16));
        let at = self.next * SEGMENT_BYTES;
        let (head, rest) = bytes.split_at(bytes.len().min(SLOT_BYTES - at - HEADER));
        let (whole, tail) = rest.as_chunks::<SLOT_BYTES>();
        // SAFETY: S1, Q1: passed on to our caller; each piece ends where its slot does, or before.
        unsafe {
            Segment::copy_to(self.slot(0), at, &header);
            Segment::copy_to(self.slot(0), at + HEADER, head);
            for (number, bytes) in whole.iter().enumerate() {
                Segment::copy_to(self.slot(1 + number), 0, bytes);
            }
            Segment::copy_to(self.slot(1 + whole.len()), 0, tail);
        }
        self.next += (HEADER + bytes.len()).div_ceil(SEGMENT_BYTES);
    }

    /// The first segment of the entry's slot `number`.
    #[inline(always)]
    fn slot(&self, number: usize) -> NonNull<Segment> {
        let place = match number {
            // An entry starts at a slot of the ring.
            0 => self.first,
            _ => (self.first + number as u32) & self.mask,
        };
        // SAFETY: Q1: the place is below the number of slots.
        unsafe { self.segments.add(place as usize * SLOT_SEGMENTS) }
    }
}

/// An operation of [`wr`](crate::wr) as this family's work entry.
pub trait Operation: Copy {
    /// What the entry asks for.
    const OPCODE: Opcode;

    /// Refuses what does not fit an entry.
    fn check(&self, limits: &Limits) -> Result<(), PostError>;

    /// The same operation without data, for one whose data may turn out to be none.
    type Bare: Operation;

    /// The operation without its data, if there is none: a data segment cannot say so.
    fn bare(self) -> Option<Self::Bare>;

    /// The entry's segments after the control segment.
    fn segments(&self) -> usize;

    /// The immediate, or the key to invalidate.
    fn immediate(&self) -> u32;

    /// Writes the segments after the control segment.
    ///
    /// # Safety
    ///
    /// The slots of that many segments are the caller's (SAFETY.md, S1).
    unsafe fn write(self, cursor: &mut Cursor);
}

/// The data of an entry.
pub trait Data: Gather {
    /// Refuses what does not fit an entry in which `before` segments come before the data.
    fn check(&self, before: usize, limits: &Limits) -> Result<(), PostError>;

    /// Whether this is a single piece of no bytes: nobody writes that.
    fn is_empty_piece(&self) -> bool {
        false
    }

    /// The number of segments.
    fn segments(&self) -> usize;

    /// Writes the segments.
    ///
    /// # Safety
    ///
    /// As for [`Operation::write`].
    unsafe fn write(self, cursor: &mut Cursor);
}

impl Data for LocalSlice {
    #[inline(always)]
    fn check(&self, _: usize, _: &Limits) -> Result<(), PostError> {
        // One piece fits the smallest entry, and its region has checked its length.
        Ok(())
    }

    #[inline(always)]
    fn is_empty_piece(&self) -> bool {
        // A byte count of 0 would say 2^31.
        self.len() == 0
    }

    #[inline(always)]
    fn segments(&self) -> usize {
        1
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        let segment = DataSegment::new(self.address(), self.lkey(), self.len());
        // SAFETY: S1: passed on to our caller.
        unsafe { cursor.write(segment.to_words()) };
    }
}

impl Data for Nothing {
    #[inline(always)]
    fn check(&self, _: usize, _: &Limits) -> Result<(), PostError> {
        Ok(())
    }

    #[inline(always)]
    fn segments(&self) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn write(self, _: &mut Cursor) {}
}

impl Data for &[LocalSlice] {
    #[inline(always)]
    fn check(&self, before: usize, limits: &Limits) -> Result<(), PostError> {
        let most = limits.segments - before;
        if self.len() > most {
            return Err(PostError::TooManyPieces { given: self.len() as u32, most: most as u32 });
        }
        if self.bytes() > limits.max_message {
            return Err(PostError::MessageTooLong { most: limits.max_message as u32 });
        }
        Ok(())
    }

    #[inline(always)]
    fn segments(&self) -> usize {
        self.iter().filter(|slice| !slice.is_empty_piece()).count()
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        for slice in self.iter().filter(|slice| !slice.is_empty_piece()) {
            // SAFETY: S1: passed on to our caller.
            unsafe { Data::write(*slice, cursor) };
        }
    }
}

impl<const N: usize> Data for [LocalSlice; N] {
    #[inline(always)]
    fn check(&self, before: usize, limits: &Limits) -> Result<(), PostError> {
        self.as_slice().check(before, limits)
    }

    #[inline(always)]
    fn segments(&self) -> usize {
        self.as_slice().segments()
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        // SAFETY: S1: passed on to our caller.
        unsafe { self.as_slice().write(cursor) };
    }
}

/// The pieces of a receive.
pub trait Pieces: Scatter {
    /// Refuses more than `most` pieces, or more than `max_message` bytes in several.
    fn check_pieces(&self, most: u32, max_message: u64) -> Result<(), PostError>;

    /// Writes a segment for each piece that has bytes, and answers how many there are.
    ///
    /// # Safety
    ///
    /// The entry is the caller's, and has as many segments as there are pieces (SAFETY.md, S1, Q1).
    unsafe fn scatter(self, entry: NonNull<Segment>) -> usize;
}

impl Pieces for LocalSlice {
    #[inline(always)]
    fn check_pieces(&self, _: u32, _: u64) -> Result<(), PostError> {
        // One piece fits every entry, and its region has checked its length.
        Ok(())
    }

    #[inline(always)]
    unsafe fn scatter(self, entry: NonNull<Segment>) -> usize {
        // A byte count of 0 would say 2^31.
        if self.is_empty_piece() {
            return 0;
        }
        let segment = DataSegment::new(self.address(), self.lkey(), self.len());
        // SAFETY: S1, Q1: passed on to our caller.
        unsafe { entry.as_ref().write(segment.to_words()) };
        1
    }
}

impl Pieces for &[LocalSlice] {
    #[inline]
    fn check_pieces(&self, most: u32, max_message: u64) -> Result<(), PostError> {
        let given = self.len() as u32;
        if given > most {
            return Err(PostError::TooManyPieces { given, most });
        }
        if self.bytes() > max_message {
            return Err(PostError::MessageTooLong { most: max_message as u32 });
        }
        Ok(())
    }

    #[inline]
    unsafe fn scatter(self, entry: NonNull<Segment>) -> usize {
        let mut written = 0;
        for piece in self {
            // SAFETY: S1, Q1: passed on to our caller.
            written += unsafe { piece.scatter(entry.add(written)) };
        }
        written
    }
}

impl<const N: usize> Pieces for [LocalSlice; N] {
    #[inline(always)]
    fn check_pieces(&self, most: u32, max_message: u64) -> Result<(), PostError> {
        self.as_slice().check_pieces(most, max_message)
    }

    #[inline(always)]
    unsafe fn scatter(self, entry: NonNull<Segment>) -> usize {
        // SAFETY: S1, Q1: passed on to our caller.
        unsafe { self.as_slice().scatter(entry) }
    }
}

impl Pieces for Nothing {
    #[inline(always)]
    fn check_pieces(&self, _: u32, _: u64) -> Result<(), PostError> {
        Ok(())
    }

    #[inline(always)]
    unsafe fn scatter(self, _: NonNull<Segment>) -> usize {
        0
    }
}

/// Bytes of an inline header.
const HEADER: usize = size_of::<InlineHeader>();

impl Data for Inline<&[u8]> {
    #[inline(always)]
    fn check(&self, before: usize, limits: &Limits) -> Result<(), PostError> {
        let segments = before + self.segments();
        if segments > LEAST_SLOTS * SLOT_SEGMENTS && segments > limits.segments {
            let most = (limits.segments - before) * SEGMENT_BYTES - HEADER;
            return Err(PostError::InlineTooLong { given: self.0.len() as u32, most: most as u32 });
        }
        Ok(())
    }

    #[inline(always)]
    fn segments(&self) -> usize {
        match self.0.len() {
            0 => 0,
            len => (HEADER + len).div_ceil(SEGMENT_BYTES),
        }
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        if !self.0.is_empty() {
            // SAFETY: S1: passed on to our caller.
            unsafe { cursor.write_inline(self.0) };
        }
    }
}

impl<const N: usize> Data for Inline<[u8; N]> {
    #[inline(always)]
    fn check(&self, before: usize, limits: &Limits) -> Result<(), PostError> {
        Inline(self.0.as_slice()).check(before, limits)
    }

    #[inline(always)]
    fn segments(&self) -> usize {
        Inline(self.0.as_slice()).segments()
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        // SAFETY: S1: passed on to our caller.
        unsafe { Inline(self.0.as_slice()).write(cursor) };
    }
}

#[inline(always)]
unsafe fn write_remote(remote: RemoteSlice, cursor: &mut Cursor) {
    let segment = RemoteAddressSegment::new(remote.address(), remote.rkey());
    // SAFETY: S1: passed on to our caller.
    unsafe { cursor.write(segment.to_words()) };
}

/// Operations that are a control segment, a remote address if `$remote` names one, and data.
macro_rules! data_operation {
    ($name:ident: $opcode:ident, data $data:ident: $bound:ident $(, remote $remote:ident)?
     $(, immediate $immediate:ident)?) => {
        impl<D: Data + $bound> Operation for $name<D> {
            const OPCODE: Opcode = Opcode::$opcode;
            type Bare = $name<Nothing>;

            #[inline(always)]
            fn bare(self) -> Option<$name<Nothing>> {
                let bare = $name {
                    $data: Nothing,
                    $($remote: self.$remote,)?
                    $($immediate: self.$immediate,)?
                };
                self.$data.is_empty_piece().then_some(bare)
            }

            #[inline(always)]
            fn check(&self, limits: &Limits) -> Result<(), PostError> {
                self.$data.check(1 $(+ data_operation!(@one $remote))?, limits)
            }

            #[inline(always)]
            fn segments(&self) -> usize {
                self.$data.segments() $(+ data_operation!(@one $remote))?
            }

            #[inline(always)]
            fn immediate(&self) -> u32 {
                let _none = 0;
                $(let _none = self.$immediate;)?
                _none
            }

            #[inline(always)]
            unsafe fn write(self, cursor: &mut Cursor) {
                // SAFETY: S1: passed on to our caller.
                $(unsafe { write_remote(self.$remote, cursor) };)?
                // SAFETY: S1: passed on to our caller.
                unsafe { self.$data.write(cursor) };
            }
        }
    };
    (@one $remote:ident) => { 1 };
}

data_operation!(Write: Write, data from: Gather, remote to);
data_operation!(WriteImmediate: WriteImmediate, data from: Gather, remote to, immediate immediate);
data_operation!(Read: Read, data into: Scatter, remote from);
data_operation!(Send: Send, data from: Gather);
data_operation!(SendImmediate: SendImmediate, data from: Gather, immediate immediate);
data_operation!(SendInvalidate: SendInvalidate, data from: Gather, immediate rkey);

/// Operations that are a control segment, a remote address, operands, and 8 bytes of data: one slot.
macro_rules! atomic_operation {
    ($name:ident: $opcode:ident, $this:ident => $operands:expr) => {
        impl Operation for $name {
            const OPCODE: Opcode = Opcode::$opcode;
            type Bare = Self;

            #[inline(always)]
            fn bare(self) -> Option<Self> {
                None
            }

            #[inline(always)]
            fn check(&self, _: &Limits) -> Result<(), PostError> {
                Ok(())
            }

            #[inline(always)]
            fn segments(&self) -> usize {
                3
            }

            #[inline(always)]
            fn immediate(&self) -> u32 {
                0
            }

            #[inline(always)]
            unsafe fn write(self, cursor: &mut Cursor) {
                let $this = self;
                // SAFETY: S1: passed on to our caller.
                unsafe {
                    write_remote($this.at, cursor);
                    cursor.write($operands.to_words());
                    Data::write($this.into, cursor);
                }
            }
        }
    };
}

atomic_operation!(FetchAdd: FetchAdd, this => AtomicSegment::fetch_add(this.add));
atomic_operation!(CompareSwap: CompareSwap, this => {
    AtomicSegment::compare_swap(this.compare, this.swap)
});

static_assertions::const_assert!(LEAST_SLOTS * SLOT_SEGMENTS <= MAX_SEGMENTS);

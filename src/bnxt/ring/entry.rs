//! How each operation becomes a work entry.

use crate::bnxt::abi::wqe::{self, EntryFlags, HEADER_SLOTS, Opcode, Piece, SLOT_BYTES};
use crate::ring::segment::Segment;
use crate::wr::{
    CompareSwap, FetchAdd, Gather, Inline, LocalSlice, Nothing, PostError, Read, RemoteSlice,
    Scatter, Send, SendImmediate, SendInvalidate, Write, WriteImmediate,
};
use core::ptr::NonNull;

/// What an entry may hold.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most pieces, at least 1.
    pub pieces: usize,
    /// The most inline bytes.
    pub inline: usize,
    /// The most bytes that a message carries.
    pub max_message: u64,
}

/// Writes an entry's slots, one after the other, around the end of the ring.
pub struct Cursor {
    slots: NonNull<Segment>,
    /// The number of slots in the ring, a power of two, less one.
    mask: u32,
    /// The next slot.
    next: u32,
}

impl Cursor {
    /// A cursor at slot `next` of a ring of `mask + 1` slots, a power of two.
    ///
    /// # Safety
    ///
    /// The ring has that many slots at `slots`, and outlives the cursor (SAFETY.md, Q1).
    #[inline(always)]
    pub unsafe fn new(slots: NonNull<Segment>, mask: u32, next: u32) -> Self {
        Cursor { slots, mask, next }
    }

    /// Stores the next slot.
    ///
    /// # Safety
    ///
    /// The slot is the caller's (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn write(&mut self, words: [u64; 2]) {
        let index = (self.next & self.mask) as usize;
        // SAFETY: Q1: the masked index is below the number of slots. S1: passed on to our caller.
        unsafe { self.slots.add(index).as_ref().write(words) };
        self.next = self.next.wrapping_add(1);
    }
}

/// An operation of [`wr`](crate::wr) as this family's work entry.
pub trait Operation: Copy {
    /// What the entry asks for.
    const OPCODE: Opcode;

    /// Refuses what does not fit an entry.
    fn check(&self, limits: &Limits) -> Result<(), PostError>;

    /// The entry's slots, with its header's.
    fn slots(&self) -> usize;

    /// The bytes that the message carries.
    fn bytes(&self) -> u32;

    /// Writes the entry.
    ///
    /// # Safety
    ///
    /// As many slots as [`slots`](Self::slots) says are the caller's (SAFETY.md, S1).
    unsafe fn write(self, flags: EntryFlags, cursor: &mut Cursor);
}

/// The data of an entry.
pub trait Data: Gather {
    /// Whether the bytes are in the entry.
    const INLINE: bool = false;

    /// Refuses what does not fit an entry.
    fn check(&self, limits: &Limits) -> Result<(), PostError>;

    /// The number of slots.
    fn slots(&self) -> usize;

    /// Writes the slots.
    ///
    /// # Safety
    ///
    /// As for [`Operation::write`].
    unsafe fn write(self, cursor: &mut Cursor);
}

impl Data for LocalSlice {
    #[inline(always)]
    fn check(&self, _: &Limits) -> Result<(), PostError> {
        // One piece fits every entry, and its region has checked its length.
        Ok(())
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        1
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        // SAFETY: S1: passed on to our caller.
        unsafe { cursor.write(Piece::to_words(self.address(), self.lkey(), self.len())) };
    }
}

impl Data for Nothing {
    #[inline(always)]
    fn check(&self, _: &Limits) -> Result<(), PostError> {
        Ok(())
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn write(self, _: &mut Cursor) {}
}

impl Data for &[LocalSlice] {
    #[inline(always)]
    fn check(&self, limits: &Limits) -> Result<(), PostError> {
        let most = limits.pieces;
        if self.len() > most {
            return Err(PostError::TooManyPieces { given: self.len() as u32, most: most as u32 });
        }
        if self.bytes() > limits.max_message {
            return Err(PostError::MessageTooLong { most: limits.max_message as u32 });
        }
        Ok(())
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        self.len()
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        for slice in self {
            // SAFETY: S1: passed on to our caller.
            unsafe { Data::write(*slice, cursor) };
        }
    }
}

impl<const N: usize> Data for [LocalSlice; N] {
    #[inline(always)]
    fn check(&self, limits: &Limits) -> Result<(), PostError> {
        self.as_slice().check(limits)
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        // SAFETY: S1: passed on to our caller.
        unsafe { self.as_slice().write(cursor) };
    }
}

impl Data for Inline<&[u8]> {
    const INLINE: bool = true;

    #[inline(always)]
    fn check(&self, limits: &Limits) -> Result<(), PostError> {
        if self.0.len() > limits.inline {
            let (given, most) = (self.0.len() as u32, limits.inline as u32);
            return Err(PostError::InlineTooLong { given, most });
        }
        Ok(())
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        self.0.len().div_ceil(SLOT_BYTES)
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        let (slots, rest) = self.0.as_chunks::<SLOT_BYTES>();
        for slot in slots {
            // SAFETY: S1: passed on to our caller.
            unsafe { cursor.write(zerocopy::transmute!(*slot)) };
        }
        if !rest.is_empty() {
            let mut slot = [0; SLOT_BYTES];
            slot[..rest.len()].copy_from_slice(rest);
            // SAFETY: S1: passed on to our caller.
            unsafe { cursor.write(zerocopy::transmute!(slot)) };
        }
    }
}

impl<const N: usize> Data for Inline<[u8; N]> {
    const INLINE: bool = true;

    #[inline(always)]
    fn check(&self, limits: &Limits) -> Result<(), PostError> {
        Inline(self.0.as_slice()).check(limits)
    }

    #[inline(always)]
    fn slots(&self) -> usize {
        N.div_ceil(SLOT_BYTES)
    }

    #[inline(always)]
    unsafe fn write(self, cursor: &mut Cursor) {
        // SAFETY: S1: passed on to our caller.
        unsafe { Inline(self.0.as_slice()).write(cursor) };
    }
}

/// The pieces of a receive.
pub trait Pieces: Scatter {
    /// Refuses more than `most` pieces, or more than `max_message` bytes in several.
    fn check_pieces(&self, most: u32, max_message: u64) -> Result<(), PostError>;

    /// The number of pieces.
    fn pieces(&self) -> usize;

    /// Writes a slot for each piece.
    ///
    /// # Safety
    ///
    /// The entry is the caller's, and has as many slots for pieces (SAFETY.md, S1, Q1).
    unsafe fn scatter(self, slots: NonNull<Segment>);
}

impl Pieces for LocalSlice {
    #[inline(always)]
    fn check_pieces(&self, _: u32, _: u64) -> Result<(), PostError> {
        // One piece fits every entry, and its region has checked its length.
        Ok(())
    }

    #[inline(always)]
    fn pieces(&self) -> usize {
        1
    }

    #[inline(always)]
    unsafe fn scatter(self, slots: NonNull<Segment>) {
        let words = Piece::to_words(self.address(), self.lkey(), self.len());
        // SAFETY: S1, Q1: passed on to our caller.
        unsafe { slots.as_ref().write(words) };
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

    #[inline(always)]
    fn pieces(&self) -> usize {
        self.len()
    }

    #[inline]
    unsafe fn scatter(self, slots: NonNull<Segment>) {
        for (at, piece) in self.iter().enumerate() {
            // SAFETY: S1, Q1: passed on to our caller.
            unsafe { piece.scatter(slots.add(at)) };
        }
    }
}

impl<const N: usize> Pieces for [LocalSlice; N] {
    #[inline(always)]
    fn check_pieces(&self, most: u32, max_message: u64) -> Result<(), PostError> {
        self.as_slice().check_pieces(most, max_message)
    }

    #[inline(always)]
    fn pieces(&self) -> usize {
        N
    }

    #[inline(always)]
    unsafe fn scatter(self, slots: NonNull<Segment>) {
        // SAFETY: S1, Q1: passed on to our caller.
        unsafe { self.as_slice().scatter(slots) };
    }
}

impl Pieces for Nothing {
    #[inline(always)]
    fn check_pieces(&self, _: u32, _: u64) -> Result<(), PostError> {
        Ok(())
    }

    #[inline(always)]
    fn pieces(&self) -> usize {
        0
    }

    #[inline(always)]
    unsafe fn scatter(self, _: NonNull<Segment>) {}
}

#[inline(always)]
fn flags_of<D: Data>(flags: EntryFlags) -> EntryFlags {
    if D::INLINE { flags.and_inline() } else { flags }
}

/// Operations whose header is a word, the message's length, a remote address if `$remote` names one,
/// and whose data follows.
macro_rules! data_operation {
    ($name:ident: $opcode:ident, data $data:ident: $bound:ident $(, remote $remote:ident)?
     $(, immediate $immediate:ident)?) => {
        impl<D: Data + $bound> Operation for $name<D> {
            const OPCODE: Opcode = Opcode::$opcode;

            #[inline(always)]
            fn check(&self, limits: &Limits) -> Result<(), PostError> {
                self.$data.check(limits)
            }

            #[inline(always)]
            fn slots(&self) -> usize {
                HEADER_SLOTS + self.$data.slots()
            }

            #[inline(always)]
            fn bytes(&self) -> u32 {
                // `check` has bounded it: at most 2^31.
                self.$data.bytes() as u32
            }

            #[inline(always)]
            unsafe fn write(self, flags: EntryFlags, cursor: &mut Cursor) {
                let (immediate, remote) = (0, RemoteSlice::new(0, 0, 0));
                $(let immediate = immediate | self.$immediate;)?
                $(let remote = { let _ = remote; self.$remote };)?
                let size = self.slots() as u8;
                let first = wqe::first_word(Self::OPCODE, flags_of::<D>(flags), size, immediate);
                // SAFETY: S1: passed on to our caller.
                unsafe {
                    cursor.write([first, u64::from(self.bytes()).to_le()]);
                    cursor.write([remote.address().to_le(), u64::from(remote.rkey()).to_le()]);
                    self.$data.write(cursor);
                }
            }
        }
    };
}

data_operation!(Write: Write, data from: Gather, remote to);
data_operation!(WriteImmediate: WriteImmediate, data from: Gather, remote to, immediate immediate);
data_operation!(Read: Read, data into: Scatter, remote from);
data_operation!(Send: Send, data from: Gather);
data_operation!(SendImmediate: SendImmediate, data from: Gather, immediate immediate);
data_operation!(SendInvalidate: SendInvalidate, data from: Gather, immediate rkey);

/// Operations that are two slots of operands and one piece of 8 bytes.
macro_rules! atomic_operation {
    ($name:ident: $opcode:ident, $this:ident => [$swap:expr, $compare:expr]) => {
        impl Operation for $name {
            const OPCODE: Opcode = Opcode::$opcode;

            #[inline(always)]
            fn check(&self, _: &Limits) -> Result<(), PostError> {
                Ok(())
            }

            #[inline(always)]
            fn slots(&self) -> usize {
                HEADER_SLOTS + 1
            }

            #[inline(always)]
            fn bytes(&self) -> u32 {
                8
            }

            #[inline(always)]
            unsafe fn write(self, flags: EntryFlags, cursor: &mut Cursor) {
                let $this = self;
                let first = wqe::first_word(Self::OPCODE, flags, 0, $this.at.rkey());
                // SAFETY: S1: passed on to our caller.
                unsafe {
                    cursor.write([first, $this.at.address().to_le()]);
                    cursor.write([($swap).to_le(), ($compare).to_le()]);
                    Data::write($this.into, cursor);
                }
            }
        }
    };
}

// What to add is in the swap field: in the compare field, a fetch-and-add adds nothing.
atomic_operation!(FetchAdd: FetchAdd, this => [this.add, 0u64]);
atomic_operation!(CompareSwap: CompareSwap, this => [this.swap, this.compare]);

//! Ring memory as cells: 16-byte segments of work entries, 64-byte completions.

use crate::mlx5::abi::cqe::{Completion, OpcodeOwner};
use doorbell_hal::sync::{AtomicU8, DmaCell, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// 16 bytes of a work entry.
#[repr(C, align(16))]
pub struct Segment([DmaCell<u64>; 2]);

#[cfg(not(loom))]
static_assertions::assert_eq_size!(Segment, [u8; 16]);

impl Default for Segment {
    /// A segment of zeroes.
    fn default() -> Self {
        Segment([DmaCell::new(0), DmaCell::new(0)])
    }
}

impl Segment {
    /// Stores the segment, in two whole words in rising order.
    ///
    /// # Safety
    ///
    /// The segment is the caller's (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn write(&self, words: [u64; 2]) {
        let [first, second] = words;
        // SAFETY: S1: passed on to our caller.
        unsafe { self.0[0].write(first) };
        // SAFETY: S1: passed on to our caller.
        unsafe { self.0[1].write(second) };
    }

    /// Loads the segment.
    ///
    /// # Safety
    ///
    /// Nothing writes the segment meanwhile (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn read(&self) -> [u64; 2] {
        // SAFETY: S1: passed on to our caller.
        unsafe { [self.0[0].read(), self.0[1].read()] }
    }
}

/// A completion in its ring: its owner byte is an ordering word, the rest are bytes.
#[repr(C, align(64))]
pub struct CompletionSlot {
    words: [DmaCell<u64>; 7],
    queue: DmaCell<u32>,
    counter: DmaCell<u16>,
    signature: DmaCell<u8>,
    owner: AtomicU8,
}

#[cfg(not(loom))]
static_assertions::assert_eq_size!(CompletionSlot, Completion);
#[cfg(not(loom))]
static_assertions::const_assert_eq!(
    core::mem::offset_of!(CompletionSlot, owner),
    core::mem::offset_of!(Completion, op_own)
);

/// A completion's bytes in the pieces that a [`CompletionSlot`] has.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Pieces {
    words: [u64; 7],
    queue: u32,
    counter: u16,
    signature: u8,
    owner: u8,
}

static_assertions::assert_eq_size!(Pieces, Completion);

impl Default for CompletionSlot {
    fn default() -> Self {
        Self::fresh()
    }
}

impl CompletionSlot {
    /// A slot that the NIC has never written.
    pub fn fresh() -> Self {
        CompletionSlot {
            words: [const { 0 }; 7].map(DmaCell::new),
            queue: DmaCell::new(0),
            counter: DmaCell::new(0),
            signature: DmaCell::new(0),
            owner: AtomicU8::new(OpcodeOwner::FRESH.into_bits()),
        }
    }

    /// Loads the owner byte. Nothing is ordered by it until
    /// [`fence_after_owner`](doorbell_hal::sync::fence_after_owner).
    #[inline(always)]
    pub fn owner(&self) -> OpcodeOwner {
        OpcodeOwner::from_bits(self.owner.load(Ordering::Relaxed))
    }

    /// Loads the completion, whose owner byte was `owner`.
    ///
    /// # Safety
    ///
    /// The slot is the caller's: `owner` said so, and a fence came after (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn read(&self, owner: OpcodeOwner) -> Completion {
        // SAFETY: S1: passed on to our caller, for each cell.
        let pieces = unsafe {
            Pieces {
                words: [
                    self.words[0].read(),
                    self.words[1].read(),
                    self.words[2].read(),
                    self.words[3].read(),
                    self.words[4].read(),
                    self.words[5].read(),
                    self.words[6].read(),
                ],
                queue: self.queue.read(),
                counter: self.counter.read(),
                signature: self.signature.read(),
                owner: owner.into_bits(),
            }
        };
        zerocopy::transmute!(pieces)
    }

    /// Stores a completion as a NIC does: its owner byte last. For NICs made of threads.
    ///
    /// # Safety
    ///
    /// The slot is the NIC's (SAFETY.md, S1).
    pub unsafe fn write(&self, completion: Completion) {
        let pieces: Pieces = zerocopy::transmute!(completion);
        // SAFETY: S1: passed on to our caller, for each cell.
        unsafe {
            for (cell, word) in self.words.iter().zip(pieces.words) {
                cell.write(word);
            }
            self.queue.write(pieces.queue);
            self.counter.write(pieces.counter);
            self.signature.write(pieces.signature);
        }
        self.owner.store(pieces.owner, Ordering::Release);
    }
}

//! Completion ring memory as cells.

use crate::bnxt::abi::cqe::{Completion, KindToggle};
use doorbell_hal::sync::{AtomicU8, DmaCell, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A completion in its ring: the byte with its toggle is an ordering word, the rest are bytes.
#[repr(C, align(32))]
pub struct CompletionSlot {
    first: DmaCell<u64>,
    second: DmaCell<u64>,
    third: DmaCell<u64>,
    kind: AtomicU8,
    status: DmaCell<u8>,
    flags: DmaCell<u16>,
    opaque: DmaCell<u32>,
}

/// A completion's bytes in the pieces that a [`CompletionSlot`] has.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Pieces {
    first: u64,
    second: u64,
    third: u64,
    kind: u8,
    status: u8,
    flags: u16,
    opaque: u32,
}

crate::ring::same_place!(
    Pieces, CompletionSlot, Completion:
    first = reserved64_1,
    second = reserved64_2,
    third = reserved64_3,
    kind = cqe_type_toggle,
    status = status,
    flags = reserved16,
    opaque = opaque
);

impl Default for CompletionSlot {
    /// A slot that the NIC has never written: zeroes.
    fn default() -> Self {
        CompletionSlot {
            first: DmaCell::new(0),
            second: DmaCell::new(0),
            third: DmaCell::new(0),
            kind: AtomicU8::new(0),
            status: DmaCell::new(0),
            flags: DmaCell::new(0),
            opaque: DmaCell::new(0),
        }
    }
}

impl CompletionSlot {
    /// Loads the byte with the toggle. Nothing is ordered by it until
    /// [`fence_after_owner`](doorbell_hal::sync::fence_after_owner).
    #[inline(always)]
    pub fn kind(&self) -> KindToggle {
        KindToggle::from_bits(self.kind.load(Ordering::Relaxed))
    }

    /// Loads the first word.
    ///
    /// # Safety
    ///
    /// The slot is the caller's: its toggle said so, and a fence came after (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn first(&self) -> u64 {
        // SAFETY: S1: passed on to our caller.
        u64::from_le(unsafe { self.first.read() })
    }

    /// Loads the second word.
    ///
    /// # Safety
    ///
    /// As for [`first`](Self::first).
    #[inline(always)]
    pub unsafe fn second(&self) -> u64 {
        // SAFETY: S1: passed on to our caller.
        u64::from_le(unsafe { self.second.read() })
    }

    /// Loads the status.
    ///
    /// # Safety
    ///
    /// As for [`first`](Self::first).
    #[inline(always)]
    pub unsafe fn status(&self) -> u8 {
        // SAFETY: S1: passed on to our caller.
        unsafe { self.status.read() }
    }

    /// Loads the flags.
    ///
    /// # Safety
    ///
    /// As for [`first`](Self::first).
    #[inline(always)]
    pub unsafe fn flags(&self) -> u16 {
        // SAFETY: S1: passed on to our caller.
        u16::from_le(unsafe { self.flags.read() })
    }

    /// Loads the last word.
    ///
    /// # Safety
    ///
    /// As for [`first`](Self::first).
    #[inline(always)]
    pub unsafe fn opaque(&self) -> u32 {
        // SAFETY: S1: passed on to our caller.
        u32::from_le(unsafe { self.opaque.read() })
    }

    /// Stores a completion as a NIC does: the byte with its toggle last. For NICs made of threads.
    ///
    /// # Safety
    ///
    /// The slot is the NIC's (SAFETY.md, S1).
    pub unsafe fn write(&self, completion: Completion) {
        let pieces: Pieces = zerocopy::transmute!(completion);
        // SAFETY: S1: passed on to our caller, for each cell.
        unsafe {
            self.first.write(pieces.first);
            self.second.write(pieces.second);
            self.third.write(pieces.third);
            self.status.write(pieces.status);
            self.flags.write(pieces.flags);
            self.opaque.write(pieces.opaque);
        }
        self.kind.store(pieces.kind, Ordering::Release);
    }
}

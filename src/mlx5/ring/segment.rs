//! Ring memory as cells: 64-byte completions, beside the segments of work entries.

use crate::mlx5::abi::cqe::{Completion, OpcodeOwner};
use doorbell_hal::sync::{AtomicU8, DmaCell, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use crate::ring::segment::Segment;

/// A completion in its ring: its owner byte is an ordering word, the rest are bytes.
#[repr(C, align(64))]
pub struct CompletionSlot {
    scattered: [DmaCell<u64>; 4],
    user_index: DmaCell<u32>,
    immediate: DmaCell<u32>,
    application: DmaCell<u32>,
    byte_count: DmaCell<u32>,
    timestamp: DmaCell<u64>,
    queue: DmaCell<u32>,
    counter: DmaCell<u16>,
    signature: DmaCell<u8>,
    owner: AtomicU8,
}

/// A completion's bytes in the pieces that a [`CompletionSlot`] has.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Pieces {
    scattered: [u64; 4],
    user_index: u32,
    immediate: u32,
    application: u32,
    byte_count: u32,
    timestamp: u64,
    queue: u32,
    counter: u16,
    signature: u8,
    owner: u8,
}

crate::ring::same_place!(
    Pieces, CompletionSlot, Completion:
    user_index = srqn_uidx,
    immediate = imm_inval_pkey,
    application = app,
    byte_count = byte_cnt,
    timestamp = timestamp,
    queue = sop_drop_qpn,
    counter = wqe_counter,
    signature = signature,
    owner = op_own
);

impl Default for CompletionSlot {
    fn default() -> Self {
        Self::fresh()
    }
}

impl CompletionSlot {
    /// A slot that the NIC has never written.
    pub fn fresh() -> Self {
        CompletionSlot {
            scattered: [0; 4].map(DmaCell::new),
            user_index: DmaCell::new(0),
            immediate: DmaCell::new(0),
            application: DmaCell::new(0),
            byte_count: DmaCell::new(0),
            timestamp: DmaCell::new(0),
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

    /// Loads the word whose low 24 bits are the user index that the completion carries.
    ///
    /// # Safety
    ///
    /// The slot is the caller's: the owner byte said so, and a fence came after (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn user_index(&self) -> u32 {
        // SAFETY: S1: passed on to our caller.
        u32::from_be(unsafe { self.user_index.read() })
    }

    /// Loads the entry's index.
    ///
    /// # Safety
    ///
    /// As for [`user_index`](Self::user_index).
    #[inline(always)]
    pub unsafe fn counter(&self) -> u16 {
        // SAFETY: S1: passed on to our caller.
        u16::from_be(unsafe { self.counter.read() })
    }

    /// Loads the immediate, or the invalidated key.
    ///
    /// # Safety
    ///
    /// As for [`user_index`](Self::user_index).
    #[inline(always)]
    pub unsafe fn immediate(&self) -> u32 {
        // SAFETY: S1: passed on to our caller.
        u32::from_be(unsafe { self.immediate.read() })
    }

    /// Loads the number of bytes.
    ///
    /// # Safety
    ///
    /// As for [`user_index`](Self::user_index).
    #[inline(always)]
    pub unsafe fn byte_count(&self) -> u32 {
        // SAFETY: S1: passed on to our caller.
        u32::from_be(unsafe { self.byte_count.read() })
    }

    /// Loads the whole completion, whose owner byte was `owner`.
    ///
    /// # Safety
    ///
    /// As for [`user_index`](Self::user_index).
    pub unsafe fn read(&self, owner: OpcodeOwner) -> Completion {
        // SAFETY: S1: passed on to our caller, for each cell.
        let pieces = unsafe {
            let [a, b, c, d] = &self.scattered;
            Pieces {
                scattered: [a.read(), b.read(), c.read(), d.read()],
                user_index: self.user_index.read(),
                immediate: self.immediate.read(),
                application: self.application.read(),
                byte_count: self.byte_count.read(),
                timestamp: self.timestamp.read(),
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
            for (cell, word) in self.scattered.iter().zip(pieces.scattered) {
                cell.write(word);
            }
            self.user_index.write(pieces.user_index);
            self.immediate.write(pieces.immediate);
            self.application.write(pieces.application);
            self.byte_count.write(pieces.byte_count);
            self.timestamp.write(pieces.timestamp);
            self.queue.write(pieces.queue);
            self.counter.write(pieces.counter);
            self.signature.write(pieces.signature);
        }
        self.owner.store(pieces.owner, Ordering::Release);
    }
}

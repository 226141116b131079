//! Doorbell records in memory, and the words that go to doorbell registers.
//!
//! A record is two words of host memory that software writes and the NIC reads. They are written
//! as atomics, so the types here make the words and their offsets: `to_memory` gives a word as it
//! is stored, in memory order.
//!
//! From rdma-core's `infiniband/mlx5dv.h` (`MLX5_RCV_DBR`, `MLX5_SND_DBR`, `MLX5_CQ_DB_*`) and
//! libmlx5's arming of a completion queue. All big-endian.

use super::U24;
use bitfield_struct::bitfield;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a doorbell record. A record starts at a multiple of this.
pub const RECORD_BYTES: usize = 8;

/// The doorbell record of a queue pair.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct QueuePairRecord {
    /// The number of receives posted, modulo 2^16 (word `MLX5_RCV_DBR`).
    pub receive: CounterWord,
    /// The number of send slots posted, modulo 2^16 (word `MLX5_SND_DBR`).
    pub send: CounterWord,
}

layout!(QueuePairRecord: size 8, align 1, { receive: 0, send: 4 });

/// A word of a queue pair's doorbell record.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct CounterWord {
    /// The counter.
    #[inline(always)]
    pub counter: u16,
    /// 0.
    pub reserved: u16,
}

impl CounterWord {
    /// The word with this counter.
    #[inline(always)]
    pub const fn of(counter: u16) -> Self {
        CounterWord(U32::new((counter as u32) << Self::COUNTER_OFFSET))
    }
}

/// The doorbell record of a completion queue.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct CompletionQueueRecord {
    /// The number of completions consumed, modulo 2^24 (word `MLX5_CQ_SET_CI`).
    pub consumer: ConsumerWord,
    /// What the queue was armed with last (word `MLX5_CQ_ARM_DB`).
    pub arm: ArmWord,
}

layout!(CompletionQueueRecord: size 8, align 1, { consumer: 0, arm: 4 });

/// The consumer word of a completion queue's doorbell record.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct ConsumerWord {
    /// The number of completions consumed, modulo 2^24.
    #[bits(24)]
    pub index: U24,
    /// 0.
    pub reserved: u8,
}

impl ConsumerWord {
    /// The word with this index.
    #[inline(always)]
    pub const fn of(index: U24) -> Self {
        ConsumerWord(U32::new(index.get() << Self::INDEX_OFFSET))
    }

    /// The word after `consumed` completions, whose upper 8 bits go to [`reserved`](Self::reserved).
    ///
    /// NICs look at the lower 24 only: DPDK's mlx5 driver stores the whole counter, too.
    #[inline(always)]
    pub const fn counting(consumed: u32) -> Self {
        ConsumerWord(U32::new(consumed))
    }
}

/// The word that arms a completion queue: in its record, and in the register's doorbell.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct ArmWord {
    /// The number of completions consumed, modulo 2^24.
    #[bits(24)]
    pub consumer: U24,
    /// Only a solicited completion, or a failure, raises the event (`MLX5_CQ_DB_REQ_NOT_SOL`).
    pub solicited_only: bool,
    #[bits(3)]
    __: u8,
    /// Counts the arms that raised an event, modulo 4: an arm repeats the number until its event
    /// was seen, so that the NIC can tell a repeated arm from a new one.
    #[bits(2)]
    pub sequence: ArmSequence,
    #[bits(2)]
    __: u8,
}

impl ArmWord {
    /// The word with these fields.
    #[inline(always)]
    pub const fn of(consumer: U24, solicited_only: bool, sequence: ArmSequence) -> Self {
        ArmWord(U32::new(
            consumer.get() << Self::CONSUMER_OFFSET
                | (solicited_only as u32) << Self::SOLICITED_ONLY_OFFSET
                | (sequence.get() as u32) << Self::SEQUENCE_OFFSET,
        ))
    }
}

/// A count of events modulo 4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ArmSequence(u8);

impl ArmSequence {
    /// `events` modulo 4.
    #[inline(always)]
    pub const fn of(events: u32) -> Self {
        ArmSequence((events % 4) as u8)
    }

    /// The number, from 0 to 3.
    #[inline(always)]
    pub const fn get(self) -> u8 {
        self.0 % 4
    }

    const fn from_bits(bits: u32) -> Self {
        ArmSequence::of(bits)
    }

    const fn into_bits(self) -> u32 {
        self.get() as u32
    }
}

/// What is stored to the register that arms a completion queue.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct ArmDoorbell {
    /// The same word as in the queue's record.
    pub arm: ArmWord,
    /// The completion queue's number.
    pub cqn: CompletionQueueWord,
}

layout!(ArmDoorbell: size 8, align 1, { arm: 0, cqn: 4 });

/// The word that names a completion queue.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct CompletionQueueWord {
    /// The completion queue's number.
    #[bits(24)]
    pub number: U24,
    /// 0.
    pub reserved: u8,
}

impl CompletionQueueWord {
    /// The word with this number.
    #[inline(always)]
    pub const fn of(number: U24) -> Self {
        CompletionQueueWord(U32::new(number.get() << Self::NUMBER_OFFSET))
    }
}

/// What is stored to a register to announce send entries: the first 8 bytes of the last posted
/// entry's control segment.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct SendDoorbell {
    /// What to do, and the entry's first slot.
    pub opmod_idx_opcode: super::wqe::OpcodeWord,
    /// The queue pair.
    pub qpn_ds: super::wqe::EntrySize,
}

layout!(SendDoorbell: size 8, align 1, { opmod_idx_opcode: 0, qpn_ds: 4 });

/// Between a word's type and the integer whose bytes it is.
macro_rules! memory_order {
    ($($word:ty = $integer:ty),*) => {
        $(
            impl $word {
                /// The bytes as an integer in memory order: what is stored.
                #[inline(always)]
                pub fn to_memory(self) -> $integer {
                    zerocopy::transmute!(self)
                }

                /// What was stored as an integer in memory order.
                #[inline(always)]
                pub fn from_memory(stored: $integer) -> Self {
                    zerocopy::transmute!(stored)
                }
            }
        )*
    };
}

memory_order!(
    CounterWord = u32,
    ConsumerWord = u32,
    ArmWord = u32,
    ArmDoorbell = u64,
    SendDoorbell = u64
);

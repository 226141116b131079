//! Work entries: what a poster writes into a ring for the NIC to do.
//!
//! A send ring is an array of 64-byte slots. An entry starts at a slot, with a
//! [`ControlSegment`], and goes on in 16-byte segments through as many slots as it needs. A receive
//! ring is an array of entries of one size, each a list of [`DataSegment`]s.
//!
//! | entry | segments |
//! |---|---|
//! | send (with immediate, with invalidate) | control, data... |
//! | write (with immediate), read | control, [`RemoteAddressSegment`], data... |
//! | fetch-and-add, compare-and-swap | control, remote address, [`AtomicSegment`], data |
//! | nothing ([`Opcode::Nop`]) | control |
//! | receive | data..., [`DataSegment::TERMINATOR`] if the entry has room for more |
//!
//! For data, an entry may carry the bytes themselves: an [`InlineHeader`] and the bytes, padded to
//! 16 together.
//!
//! From rdma-core's `infiniband/mlx5dv.h` and Linux's `linux/mlx5/qp.h`. All big-endian.

use super::U24;
use bitfield_struct::bitfield;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a send ring's slot (`MLX5_SEND_WQE_BB`).
pub const SLOT_BYTES: usize = 64;
/// Bytes of a segment, the unit of [`EntrySize::segments`] (`MLX5_WQE_DS_UNITS`).
pub const SEGMENT_BYTES: usize = 16;
/// Segments of a slot.
pub const SLOT_SEGMENTS: usize = SLOT_BYTES / SEGMENT_BYTES;
/// The most segments that one entry holds: what 6 bits can say (`MLX5_WQE_CTRL_DS_MASK`).
pub const MAX_SEGMENTS: usize = 63;
/// The most slots that one entry takes (`MLX5_SEND_WQE_MAX_WQEBBS`).
pub const MAX_SLOTS: usize = 16;

static_assertions::const_assert_eq!(MAX_SEGMENTS.div_ceil(SLOT_SEGMENTS), MAX_SLOTS);

codes! {
    /// What a work entry asks for (`MLX5_OPCODE_*`).
    pub enum Opcode: u8, "work entry opcode" {
        /// Nothing; completes in order like any other.
        Nop = 0x00, "MLX5_OPCODE_NOP";
        /// A send that invalidates a key of the peer.
        SendInvalidate = 0x01, "MLX5_OPCODE_SEND_INVAL";
        /// A write into the peer's memory.
        Write = 0x08, "MLX5_OPCODE_RDMA_WRITE";
        /// A write that takes one of the peer's receives and gives it 32 bits.
        WriteImmediate = 0x09, "MLX5_OPCODE_RDMA_WRITE_IMM";
        /// A send into the peer's next receive.
        Send = 0x0a, "MLX5_OPCODE_SEND";
        /// A send that gives 32 bits besides its data.
        SendImmediate = 0x0b, "MLX5_OPCODE_SEND_IMM";
        /// A read of the peer's memory.
        Read = 0x10, "MLX5_OPCODE_RDMA_READ";
        /// Compare-and-swap of 8 bytes of the peer's memory.
        CompareSwap = 0x11, "MLX5_OPCODE_ATOMIC_CS";
        /// Fetch-and-add of 8 bytes of the peer's memory.
        FetchAdd = 0x12, "MLX5_OPCODE_ATOMIC_FA";
    }
}

/// The first word of a control segment: what to do, and the entry's place in the ring.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct OpcodeWord {
    /// The number of an [`Opcode`].
    pub opcode: u8,
    /// The entry's first slot, counted from the ring's making on, modulo 2^16 whatever the ring's
    /// size. The completion gives it back.
    pub index: u16,
    /// The opcode's modifier; 0 for every [`Opcode`].
    pub modifier: u8,
}

impl OpcodeWord {
    /// The word of an entry that starts at slot `index`.
    #[inline(always)]
    pub const fn of(opcode: Opcode, index: u16) -> Self {
        OpcodeWord(U32::new(
            (opcode as u32) << Self::OPCODE_OFFSET | (index as u32) << Self::INDEX_OFFSET,
        ))
    }
}

/// The second word of a control segment: the entry's queue pair and size.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct EntrySize {
    /// The number of 16-byte segments in the entry, the control segment included; at most
    /// [`MAX_SEGMENTS`], so that the upper 2 bits are 0.
    pub segments: u8,
    /// The queue pair's number.
    #[bits(24)]
    pub queue_pair: U24,
}

impl EntrySize {
    /// The word of an entry with so many segments.
    #[inline(always)]
    pub const fn of(queue_pair: U24, segments: u8) -> Self {
        EntrySize(U32::new(
            (segments as u32) << Self::SEGMENTS_OFFSET
                | queue_pair.get() << Self::QUEUE_PAIR_OFFSET,
        ))
    }
}

/// The flags byte of a control segment (`fm_ce_se`): fence mode, completion mode, solicited event.
#[bitfield(u8)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct ControlFlags {
    #[bits(1)]
    __: u8,
    /// The peer's completion of this send counts as solicited (`MLX5_WQE_CTRL_SOLICITED`).
    pub solicited: bool,
    /// Whether the entry completes with a completion.
    #[bits(2)]
    pub completion: CompletionMode,
    #[bits(1)]
    __: u8,
    /// What the entry waits for.
    #[bits(3)]
    pub fence: FenceMode,
}

impl ControlFlags {
    /// The byte with these fields.
    #[inline(always)]
    pub const fn of(completion: CompletionMode, solicited: bool, fence: FenceMode) -> Self {
        ControlFlags(
            (solicited as u8) << Self::SOLICITED_OFFSET
                | (completion as u8) << Self::COMPLETION_OFFSET
                | (fence as u8) << Self::FENCE_OFFSET,
        )
    }
}

/// When an entry writes a completion. The numbers are those of the field's 2 bits; the C names
/// carry them in place, shifted left by 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionMode {
    /// Only if it fails.
    OnError = 0,
    /// Only if it is the first of its queue pair to fail.
    OnFirstError = 1,
    /// Always (`MLX5_WQE_CTRL_CQ_UPDATE`).
    Always = 2,
    /// Always, and raises an event armed or not (`MLX5_WQE_CTRL_CQ_UPDATE_AND_EQE`).
    AlwaysWithEvent = 3,
}

impl CompletionMode {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::OnError,
            1 => Self::OnFirstError,
            2 => Self::Always,
            _ => Self::AlwaysWithEvent,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// What an entry waits for before it starts. The numbers are those of the field's 3 bits; the C
/// names (`MLX5_FENCE_MODE_*`) carry them in place, shifted left by 5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FenceMode {
    /// Nothing.
    None = 0,
    /// Local work of earlier entries, such as invalidation (`MLX5_WQE_CTRL_INITIATOR_SMALL_FENCE`).
    InitiatorSmall = 1,
    /// Earlier reads and atomics.
    Fence = 2,
    /// Every earlier entry.
    StrongOrdering = 3,
    /// Both of the first two: the fence of the verbs (`MLX5_WQE_CTRL_FENCE`).
    SmallAndFence = 4,
    /// Not specified.
    Reserved5 = 5,
    /// Not specified.
    Reserved6 = 6,
    /// Not specified.
    Reserved7 = 7,
}

impl FenceMode {
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::None,
            1 => Self::InitiatorSmall,
            2 => Self::Fence,
            3 => Self::StrongOrdering,
            4 => Self::SmallAndFence,
            5 => Self::Reserved5,
            6 => Self::Reserved6,
            _ => Self::Reserved7,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// The segment that starts every entry of a send ring (`struct mlx5_wqe_ctrl_seg`).
///
/// Its first 8 bytes are also what rings the doorbell: [`ControlSegment::doorbell`].
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
pub struct ControlSegment {
    /// What to do.
    pub opmod_idx_opcode: OpcodeWord,
    /// For which queue pair, in how many segments.
    pub qpn_ds: EntrySize,
    /// A check byte over the entry, for queue pairs made with `MLX5_QP_FLAG_SIGNATURE`; else 0.
    pub signature: u8,
    /// The stream, for dynamically connected queue pairs; else 0.
    pub dci_stream_channel_id: U16,
    /// How to do it.
    pub fm_ce_se: ControlFlags,
    /// The immediate, in the order that it crosses the wire in; or the key to invalidate; else 0.
    pub imm: U32,
}

layout!(ControlSegment: size 16, align 1, {
    opmod_idx_opcode: 0, qpn_ds: 4, signature: 8, dci_stream_channel_id: 9, fm_ce_se: 11, imm: 12,
});

impl ControlSegment {
    /// The segment of an entry that starts at slot `index` and has `segments` segments, of which
    /// there are at most [`MAX_SEGMENTS`].
    #[inline(always)]
    pub const fn new(
        opcode: Opcode,
        index: u16,
        queue_pair: U24,
        segments: u8,
        flags: ControlFlags,
        immediate: u32,
    ) -> Self {
        ControlSegment {
            opmod_idx_opcode: OpcodeWord::of(opcode, index),
            qpn_ds: EntrySize::of(queue_pair, segments),
            signature: 0,
            dci_stream_channel_id: U16::new(0),
            fm_ce_se: flags,
            imm: U32::new(immediate),
        }
    }

    /// What the entry asks for.
    pub fn opcode(&self) -> Result<Opcode, super::Unknown> {
        self.opmod_idx_opcode.opcode().try_into()
    }

    /// The 8 bytes that ring the doorbell for the entry, in memory order: the value to store to a
    /// send register.
    #[inline(always)]
    pub fn doorbell(&self) -> u64 {
        let [doorbell, _] = self.to_words();
        doorbell
    }
}

/// The peer's memory of a write, a read or an atomic (`struct mlx5_wqe_raddr_seg`).
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
pub struct RemoteAddressSegment {
    /// The address, as the peer's region numbers its bytes.
    pub raddr: U64,
    /// The peer's key.
    pub rkey: U32,
    /// 0.
    pub reserved: U32,
}

layout!(RemoteAddressSegment: size 16, align 1, { raddr: 0, rkey: 8, reserved: 12 });

impl RemoteAddressSegment {
    /// The bytes from `address` on, through `rkey`.
    #[inline(always)]
    pub const fn new(address: u64, rkey: u32) -> Self {
        RemoteAddressSegment {
            raddr: U64::new(address),
            rkey: U32::new(rkey),
            reserved: U32::new(0),
        }
    }
}

/// The operands of an atomic (`struct mlx5_wqe_atomic_seg`).
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
pub struct AtomicSegment {
    /// What compare-and-swap stores, or what fetch-and-add adds.
    pub swap_add: U64,
    /// What compare-and-swap compares with; 0 for fetch-and-add.
    pub compare: U64,
}

layout!(AtomicSegment: size 16, align 1, { swap_add: 0, compare: 8 });

impl AtomicSegment {
    /// Stores `swap` where the peer's memory holds `compare`.
    #[inline(always)]
    pub const fn compare_swap(compare: u64, swap: u64) -> Self {
        AtomicSegment { swap_add: U64::new(swap), compare: U64::new(compare) }
    }

    /// Adds `add` to the peer's memory, modulo 2^64.
    #[inline(always)]
    pub const fn fetch_add(add: u64) -> Self {
        AtomicSegment { swap_add: U64::new(add), compare: U64::new(0) }
    }
}

/// Local memory to gather from or scatter to (`struct mlx5_wqe_data_seg`).
///
/// A byte count of 0 means 2^31 bytes, not none: an entry of no bytes has no data segment.
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
pub struct DataSegment {
    /// The number of bytes, modulo 2^31. The top bit is 0, or this is an [`InlineHeader`].
    pub byte_count: U32,
    /// The key of the memory.
    pub lkey: U32,
    /// The address of its first byte, as its region numbers them.
    pub addr: U64,
}

layout!(DataSegment: size 16, align 1, { byte_count: 0, lkey: 4, addr: 8 });

impl DataSegment {
    /// The most bytes that one segment names: 2^31.
    pub const MAX_BYTES: u32 = 1 << 31;

    /// The key that ends a receive's list before its entry does (`MLX5_INVALID_LKEY`).
    pub const INVALID_LKEY: u32 = 0x100;

    /// What ends a receive's list before its entry does.
    pub const TERMINATOR: DataSegment = DataSegment {
        byte_count: U32::new(0),
        lkey: U32::new(Self::INVALID_LKEY),
        addr: U64::new(0),
    };

    /// `length` bytes from `address` on, through `lkey`. `length` is from 1 to
    /// [`MAX_BYTES`](Self::MAX_BYTES).
    #[inline(always)]
    pub const fn new(address: u64, lkey: u32, length: u32) -> Self {
        DataSegment {
            byte_count: U32::new(length % Self::MAX_BYTES),
            lkey: U32::new(lkey),
            addr: U64::new(address),
        }
    }

    /// The number of bytes named, from 1 to [`MAX_BYTES`](Self::MAX_BYTES).
    pub const fn length(&self) -> u32 {
        match self.byte_count.get() % Self::MAX_BYTES {
            0 => Self::MAX_BYTES,
            length => length,
        }
    }

    /// Whether this ends a receive's list.
    pub const fn is_terminator(&self) -> bool {
        self.lkey.get() == Self::INVALID_LKEY
    }

    /// Whether these 16 bytes are no data segment but an [`InlineHeader`] and its first bytes.
    pub const fn is_inline(&self) -> bool {
        self.byte_count.get() >= InlineHeader::FLAG
    }
}

/// What precedes data carried in the entry itself (`struct mlx5_wqe_inl_data_seg`). The data
/// follows at once; header and data are padded to a multiple of 16 bytes together.
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct InlineHeader {
    /// The number of bytes that follow.
    #[bits(31, access = RO)]
    pub length: u32,
    /// Says that data follows, and not an address (`MLX5_INLINE_SEG`).
    pub inline: bool,
}

layout!(InlineHeader: size 4, align 1, {});

impl InlineHeader {
    /// The bit of [`inline`](Self::inline) (`MLX5_INLINE_SEG`).
    pub const FLAG: u32 = 1 << 31;

    /// The header of `length` bytes. 16 bits are enough for whatever fits an entry.
    #[inline(always)]
    pub const fn of(length: u16) -> Self {
        InlineHeader(U32::new(Self::FLAG | length as u32))
    }
}

/// A segment as words, to be stored to a ring in order.
macro_rules! segment_words {
    ($($segment:ty),*) => {
        $(
            impl $segment {
                /// The segment's bytes as 8-byte words, in memory order.
                #[inline(always)]
                pub fn to_words(self) -> [u64; 2] {
                    zerocopy::transmute!(self)
                }

                /// The segment whose bytes are these words, in memory order.
                #[inline(always)]
                pub fn from_words(words: [u64; 2]) -> Self {
                    zerocopy::transmute!(words)
                }
            }
        )*
    };
}

segment_words!(ControlSegment, RemoteAddressSegment, AtomicSegment, DataSegment);

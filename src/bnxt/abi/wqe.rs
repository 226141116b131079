//! Work entries: what a poster writes for the NIC.
//!
//! A request is two slots of 16 bytes, then a slot for each piece or for each 16 inline bytes. It may
//! start at any slot of the ring, and goes on at the ring's start. A receive is as long as the queue
//! pair's largest: two slots and one for each piece, of which there is at least one.
//!
//! From Linux' `roce_hsi.h` (`struct sq_send_hdr`, `sq_rdma_hdr`, `sq_atomic_hdr`, `sq_sge`,
//! `rq_wqe_hdr`, `sq_msn_search`, `sq_psn_search_ext`). All little-endian.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a slot: the unit in which entries of the send ring are counted.
pub const SLOT_BYTES: usize = 16;

/// Slots of an entry before its pieces or inline bytes.
pub const HEADER_SLOTS: usize = 2;

codes! {
    /// What a request asks for: its first byte (`SQ_BASE_WQE_TYPE_*`).
    pub enum Opcode: u8, "work entry type" {
        /// A send.
        Send = 0x00, "SQ_BASE_WQE_TYPE_SEND";
        /// A send with immediate.
        SendImmediate = 0x01, "SQ_BASE_WQE_TYPE_SEND_W_IMMEAD";
        /// A send that invalidates a key of the peer.
        SendInvalidate = 0x02, "SQ_BASE_WQE_TYPE_SEND_W_INVALID";
        /// A write.
        Write = 0x04, "SQ_BASE_WQE_TYPE_WRITE_WQE";
        /// A write with immediate.
        WriteImmediate = 0x05, "SQ_BASE_WQE_TYPE_WRITE_W_IMMEAD";
        /// A read.
        Read = 0x06, "SQ_BASE_WQE_TYPE_READ_WQE";
        /// A compare-and-swap of 8 bytes.
        CompareSwap = 0x08, "SQ_BASE_WQE_TYPE_ATOMIC_CS";
        /// A fetch-and-add of 8 bytes.
        FetchAdd = 0x0b, "SQ_BASE_WQE_TYPE_ATOMIC_FA";
        /// Invalidates a key of this side.
        LocalInvalidate = 0x0c, "SQ_BASE_WQE_TYPE_LOCAL_INVALID";
        /// Registers a region with the ring.
        FastRegister = 0x0d, "SQ_BASE_WQE_TYPE_FR_PMR";
        /// Binds a memory window.
        Bind = 0x0e, "SQ_BASE_WQE_TYPE_BIND";
    }
}

/// The first byte of a receive (`RQ_WQE_WQE_TYPE_RCV`).
pub const RECEIVE: u8 = 0x80;

/// How a request is to be done: its second byte (`SQ_SEND_FLAGS_*`).
#[bitfield(u8)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct EntryFlags {
    /// A completion is asked for.
    pub signal_completion: bool,
    /// It starts once the reads and atomics before it have finished.
    pub read_or_atomic_fence: bool,
    /// It starts once everything before it has finished.
    pub unconditional_fence: bool,
    /// Its arrival raises an event.
    pub solicited_event: bool,
    /// Its bytes follow in the entry.
    pub inline: bool,
    /// Its time is taken.
    pub timestamp_enable: bool,
    /// It is traced.
    pub debug_trace: bool,
    __: bool,
}

impl EntryFlags {
    /// The flags of a request. Linux and libbnxt_re, too, ask for the unconditional fence where a program
    /// asks for one.
    #[inline(always)]
    pub const fn of(signaled: bool, fenced: bool, solicited: bool) -> Self {
        EntryFlags(
            signaled as u8
                | (fenced as u8) << Self::UNCONDITIONAL_FENCE_OFFSET
                | (solicited as u8) << Self::SOLICITED_EVENT_OFFSET,
        )
    }

    /// The same, with inline bytes.
    #[inline(always)]
    pub const fn and_inline(self) -> Self {
        EntryFlags(self.0 | 1 << Self::INLINE_OFFSET)
    }
}

structures! {
    /// A send's first two slots.
    pub struct SendHeader, "sq_send_hdr", size 32 {
        /// An [`Opcode`]: one of the sends.
        wqe_type: u8, 0x0;
        /// How it is to be done.
        flags: EntryFlags, 0x1;
        /// Slots of the entry.
        wqe_size: u8, 0x2;
        /// 0.
        reserved8_1: u8, 0x3;
        /// The key to invalidate, or the immediate, as numbers of the host's.
        inv_key_or_imm_data: U32, 0x4;
        /// Bytes of the message.
        length: U32, 0x8;
        /// The queue key, of datagrams.
        q_key: U32, 0xc;
        /// The peer's queue pair, of datagrams.
        dst_qp: U32, 0x10;
        /// The address handle, of datagrams.
        avid: U32, 0x14;
        /// 0.
        reserved32: U32, 0x18;
        /// 0.
        timestamp: U32, 0x1c;
    }

    /// The first two slots of a read or a write.
    pub struct RdmaHeader, "sq_rdma_hdr", size 32 {
        /// An [`Opcode`]: a read or one of the writes.
        wqe_type: u8, 0x0;
        /// How it is to be done.
        flags: EntryFlags, 0x1;
        /// Slots of the entry.
        wqe_size: u8, 0x2;
        /// 0.
        reserved8: u8, 0x3;
        /// The immediate, as a number of the host's.
        imm_data: U32, 0x4;
        /// Bytes of the message.
        length: U32, 0x8;
        /// 0.
        reserved32_1: U32, 0xc;
        /// The address of the peer's first byte.
        remote_va: U64, 0x10;
        /// The peer's key.
        remote_key: U32, 0x18;
        /// 0.
        timestamp: U32, 0x1c;
    }

    /// The first two slots of an atomic. One piece of 8 bytes follows.
    pub struct AtomicHeader, "sq_atomic_hdr", size 32 {
        /// An [`Opcode`]: one of the atomics.
        wqe_type: u8, 0x0;
        /// How it is to be done.
        flags: EntryFlags, 0x1;
        /// 0: an atomic's size is always the same.
        reserved16: U16, 0x2;
        /// The peer's key.
        remote_key: U32, 0x4;
        /// The address of the peer's 8 bytes.
        remote_va: U64, 0x8;
        /// What to put there; in a fetch-and-add, what to add.
        swap_data: U64, 0x10;
        /// What must be there.
        cmp_data: U64, 0x18;
    }

    /// A piece of memory.
    pub struct Piece, "sq_sge", size 16 {
        /// The address of its first byte.
        va_or_pa: U64, 0x0;
        /// The key of its region.
        l_key: U32, 0x8;
        /// Its bytes.
        size: U32, 0xc;
    }

    /// A receive's first two slots.
    pub struct ReceiveHeader, "rq_wqe_hdr", size 32 {
        /// [`RECEIVE`].
        wqe_type: u8, 0x0;
        /// 0.
        flags: u8, 0x1;
        /// Slots of the entry that count.
        wqe_size: u8, 0x2;
        /// 0.
        reserved8: u8, 0x3;
        /// 0.
        reserved32: U32, 0x4;
        /// Comes back in the receive's completion: 20 bits in the first.
        wr_id: [U32; 2], 0x8;
        /// 0.
        reserved128: [u8; 16], 0x10;
    }

    /// What the NIC needs to know of a request to send it again, where it has a table with an entry for
    /// each slot of the send ring.
    pub struct PacketSearch, "sq_psn_search_ext", size 16 {
        /// The first packet sequence number in the low 24 bits, the [`Opcode`] above.
        opcode_start_psn: U32, 0x0;
        /// The packet sequence number after the last in the low 24 bits.
        flags_next_psn: U32, 0x4;
        /// The entry's first slot.
        start_slot_idx: U16, 0x8;
        /// 0.
        reserved16: U16, 0xa;
        /// 0.
        reserved32: U32, 0xc;
    }
}

impl Piece {
    /// The piece as words in memory order.
    #[inline(always)]
    pub fn to_words(address: u64, key: u32, bytes: u32) -> [u64; 2] {
        [address.to_le(), (u64::from(key) | u64::from(bytes) << 32).to_le()]
    }
}

/// What the NIC needs to know of a message to send it again (`struct sq_msn_search`), where it has a
/// table with an entry for each message.
#[bitfield(u64, repr = U64, from = U64::new, into = U64::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct MessageSearch {
    /// The packet sequence number of its first packet.
    #[bits(24)]
    pub start_psn: u32,
    /// The packet sequence number after its last packet.
    #[bits(24)]
    pub next_psn: u32,
    /// The entry's first slot in the send ring.
    pub start_idx: u16,
}

impl MessageSearch {
    /// The word of the message whose entry starts at slot `start`, in memory order. Of the packet
    /// sequence numbers, the low 24 bits count.
    #[inline(always)]
    pub const fn to_memory(start: u16, start_psn: u32, next_psn: u32) -> u64 {
        const PSN: u64 = (1 << MessageSearch::START_PSN_BITS) - 1;
        (start_psn as u64 & PSN
            | (next_psn as u64 & PSN) << Self::NEXT_PSN_OFFSET
            | (start as u64) << Self::START_IDX_OFFSET)
            .to_le()
    }
}

/// A request's first word, in memory order: `size` is that of the entry in slots, and `immediate` the
/// immediate or the key to invalidate.
#[inline(always)]
pub const fn first_word(opcode: Opcode, flags: EntryFlags, size: u8, immediate: u32) -> u64 {
    (opcode as u64 | (flags.0 as u64) << 8 | (size as u64) << 16 | (immediate as u64) << 32).to_le()
}

/// A receive's first two words, in memory order: `size` is that of the entry in slots, and `id` what
/// its completion carries.
#[inline(always)]
pub const fn receive_words(size: u8, id: u32) -> [u64; 2] {
    [(RECEIVE as u64 | (size as u64) << 16).to_le(), (id as u64).to_le()]
}

static_assertions::const_assert_eq!(size_of::<SendHeader>(), HEADER_SLOTS * SLOT_BYTES);
static_assertions::const_assert_eq!(size_of::<ReceiveHeader>(), HEADER_SLOTS * SLOT_BYTES);
static_assertions::const_assert_eq!(size_of::<MessageSearch>(), 8);

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn words_are_the_bytes_of_the_structures() {
        let flags = EntryFlags::of(true, false, true).and_inline();
        let header = RdmaHeader {
            wqe_type: Opcode::WriteImmediate.code(),
            flags: EntryFlags::new()
                .with_signal_completion(true)
                .with_solicited_event(true)
                .with_inline(true),
            wqe_size: 7,
            imm_data: 0x0102_0304.into(),
            ..RdmaHeader::new_zeroed()
        };
        let word = first_word(Opcode::WriteImmediate, flags, 7, 0x0102_0304);
        assert_eq!(word.to_ne_bytes(), header.as_bytes()[..8]);

        let piece = Piece { va_or_pa: 0x1122.into(), l_key: 0x33.into(), size: 0x8000_0000.into() };
        assert_eq!(Piece::to_words(0x1122, 0x33, 0x8000_0000).as_bytes(), piece.as_bytes());

        let receive = ReceiveHeader {
            wqe_type: RECEIVE,
            wqe_size: 3,
            wr_id: [0xf_ffff.into(), 0.into()],
            ..ReceiveHeader::new_zeroed()
        };
        assert_eq!(receive_words(3, 0xf_ffff).as_bytes(), &receive.as_bytes()[..16]);

        let search =
            MessageSearch::new().with_start_psn(0xff_fffe).with_next_psn(3).with_start_idx(0xabcd);
        let word = MessageSearch::to_memory(0xabcd, 0xff_fffe, 0x0100_0003);
        assert_eq!(word.to_ne_bytes(), search.as_bytes());
    }
}

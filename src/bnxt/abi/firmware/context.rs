//! The backing store: memory that a driver lends to the firmware for what it has to remember.
//!
//! A driver asks for each type of context, from type 0 on, following
//! [`next_valid_type`](FuncBackingStoreQcapsV2Answer::next_valid_type); allocates pages; and says
//! where they are. Entries of a page table are device addresses of pages with [`PTE_VALID`].
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

use super::{AnswerHeader, EmptyAnswer, RequestHeader, RequestType};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Asks about a type of context (`struct hwrm_func_backing_store_qcaps_v2_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncBackingStoreQcapsV2Request {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The type ([`context_type`]).
    pub kind: U16,
    unused0: [u8; 6],
}

layout!(FuncBackingStoreQcapsV2Request: size 24, align 1, {
    header: 0, kind: 16,
});

/// How much memory a type of context takes (`struct hwrm_func_backing_store_qcaps_v2_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncBackingStoreQcapsV2Answer {
    /// How it went.
    pub header: AnswerHeader,
    /// The type ([`context_type`]).
    pub kind: U16,
    /// Bytes of an entry.
    pub entry_size: U16,
    /// What it is ([`context_flags`]).
    pub flags: U32,
    /// A bit for each instance that there is; 0 is one instance, number 0.
    pub instance_bit_map: U32,
    /// What to fill the byte of each entry with, if the flags ask for it.
    pub ctx_init_value: u8,
    /// Which byte of each entry, in words of 4 bytes.
    pub ctx_init_offset: u8,
    /// What the number of entries is a multiple of; 0 is 1.
    pub entry_multiple: u8,
    unused0: [u8; 1],
    /// The most entries.
    pub max_num_entries: U32,
    /// The fewest entries.
    pub min_num_entries: U32,
    /// The type to ask for next; [`context_type::INVALID`] is the end.
    pub next_valid_type: U16,
    /// How many of `split_entry` count.
    pub subtype_valid_cnt: u8,
    unused1: [u8; 1],
    /// Parts of the entries, by type.
    pub split_entry: [U32; 4],
    unused2: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(FuncBackingStoreQcapsV2Answer: size 56, align 1, {
    header: 0, kind: 8, entry_size: 10, flags: 12, instance_bit_map: 16, ctx_init_value: 20, ctx_init_offset: 21, entry_multiple: 22, max_num_entries: 24, min_num_entries: 28, next_valid_type: 32, subtype_valid_cnt: 34, split_entry: 36, valid: 55,
});

request!(FuncBackingStoreQcapsV2Request: FuncBackingStoreQcapsV2 => FuncBackingStoreQcapsV2Answer);

/// Says where the memory of a type of context is (`struct hwrm_func_backing_store_cfg_v2_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct FuncBackingStoreCfgV2Request {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// The type ([`context_type`]).
    pub kind: U16,
    /// Which instance.
    pub instance: U16,
    /// Whether this is the last ([`CFG_ALL_DONE`]).
    pub flags: U32,
    /// The device address of the top table, or of the only page.
    pub page_dir: U64,
    /// Entries.
    pub num_entries: U32,
    /// Bytes of an entry.
    pub entry_size: U16,
    /// Levels of tables in bits 0 to 3, the code of the page size above: 0 for 4 KiB.
    pub page_size_pbl_level: u8,
    /// How many of `split_entry` count.
    pub subtype_valid_cnt: u8,
    /// Parts of the entries, by type.
    pub split_entry: [U32; 4],
    unused0: [u8; 8],
}

layout!(FuncBackingStoreCfgV2Request: size 64, align 1, {
    header: 0, kind: 16, instance: 18, flags: 20, page_dir: 24, num_entries: 32, entry_size: 36, page_size_pbl_level: 38, subtype_valid_cnt: 39, split_entry: 40,
});

request!(FuncBackingStoreCfgV2Request: FuncBackingStoreCfgV2 => EmptyAnswer);

/// The last message about the backing store (`FUNC_BACKING_STORE_CFG_V2_REQ_FLAGS_BS_CFG_ALL_DONE`).
pub const CFG_ALL_DONE: u32 = 0x2;
/// A page table's entry names a page (`PTU_PTE_VALID`).
pub const PTE_VALID: u64 = 0x1;

/// Types of context.
pub mod context_type {
    numbers! { u16;
        /// Queue pairs.
        QP = 0x0, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_QP";
        /// Shared receive queues.
        SRQ = 0x1, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_SRQ";
        /// Completion queues.
        CQ = 0x2, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_CQ";
        /// Virtual NICs.
        VNIC = 0x3, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_VNIC";
        /// Statistics.
        STAT = 0x4, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_STAT";
        /// Transmit queue memory of the slow path.
        SP_TQM_RING = 0x5, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_SP_TQM_RING";
        /// Transmit queue memory of the fast path.
        FP_TQM_RING = 0x6, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_FP_TQM_RING";
        /// Memory regions and address vectors.
        MRAV = 0xe, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_MRAV";
        /// Timers.
        TIM = 0xf, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_TIM";
        /// None.
        INVALID = 0xffff, "FUNC_BACKING_STORE_QCAPS_V2_REQ_TYPE_INVALID";
    }
}

/// Bits of [`FuncBackingStoreQcapsV2Answer::flags`].
pub mod context_flags {
    numbers! { u32;
        /// Each entry has a byte to fill.
        ENABLE_CTX_KIND_INIT = 0x1, "FUNC_BACKING_STORE_QCAPS_V2_RESP_FLAGS_ENABLE_CTX_KIND_INIT";
        /// There is such a type.
        TYPE_VALID = 0x2, "FUNC_BACKING_STORE_QCAPS_V2_RESP_FLAGS_TYPE_VALID";
    }
}

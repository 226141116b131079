//! Rings and statistics.
//!
//! From Linux's `bnxt_hsi.h`. All little-endian.

use super::{AnswerHeader, EmptyAnswer, RequestHeader, RequestType};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Makes a ring (`struct hwrm_ring_alloc_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RingAllocRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Which of the fields count ([`ring_enables`]).
    pub enables: U32,
    /// Which kind ([`ring_type`]).
    pub ring_type: u8,
    /// How many completions of sends come together.
    pub cmpl_coal_cnt: u8,
    /// 0.
    pub flags: U16,
    /// The device address of the table of pages, or of the only page.
    pub page_tbl_addr: U64,
    /// Where in the first page the ring begins: 0.
    pub fbo: U32,
    /// The base-2 logarithm of a page.
    pub page_size: u8,
    /// 1 with a table of pages, 0 without.
    pub page_tbl_depth: u8,
    unused0: [u8; 2],
    /// Entries.
    pub length: U32,
    /// The number that the driver gives it; for a notification ring, its interrupt vector.
    pub logical_id: U16,
    /// The completion ring of a transmit or receive ring.
    pub cmpl_ring_id: U16,
    /// The queue of a transmit ring.
    pub queue_id: U16,
    /// Bytes of each receive buffer.
    pub rx_buf_size: U16,
    /// The receive ring of an aggregation ring.
    pub rx_ring_id: U16,
    /// The notification ring of a completion ring.
    pub nq_ring_id: U16,
    unused1: [u8; 8],
    /// The statistics of a transmit or receive ring.
    pub stat_ctx_id: U32,
    unused2: [u8; 8],
    /// How it interrupts: [`INT_MODE_MSIX`].
    pub int_mode: u8,
    unused3: [u8; 3],
    /// What notifications of a completion ring carry.
    pub cq_handle: U64,
}

layout!(RingAllocRequest: size 88, align 1, {
    header: 0, enables: 16, ring_type: 20, cmpl_coal_cnt: 21, flags: 22, page_tbl_addr: 24, fbo: 32, page_size: 36, page_tbl_depth: 37, length: 40, logical_id: 44, cmpl_ring_id: 46, queue_id: 48, rx_buf_size: 50, rx_ring_id: 52, nq_ring_id: 54, stat_ctx_id: 64, int_mode: 76, cq_handle: 80,
});

/// The ring (`struct hwrm_ring_alloc_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RingAllocAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Its number.
    pub ring_id: U16,
    /// The number that the driver gave it.
    pub logical_ring_id: U16,
    /// Where it can be pushed to.
    pub push_buffer_index: u8,
    unused0: [u8; 2],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(RingAllocAnswer: size 16, align 1, {
    header: 0, ring_id: 8, logical_ring_id: 10, push_buffer_index: 12, valid: 15,
});

request!(RingAllocRequest: RingAlloc => RingAllocAnswer);

/// Takes a ring away (`struct hwrm_ring_free_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct RingFreeRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Which kind ([`ring_type`]).
    pub ring_type: u8,
    /// 0.
    pub flags: u8,
    /// Its number.
    pub ring_id: U16,
    unused0: [u8; 12],
}

layout!(RingFreeRequest: size 32, align 1, {
    header: 0, ring_type: 16, flags: 17, ring_id: 18,
});

request!(RingFreeRequest: RingFree => EmptyAnswer);

/// Makes a statistics context (`struct hwrm_stat_ctx_alloc_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct StatCtxAllocRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Where the counts are written to; 0 for nowhere.
    pub stats_dma_addr: U64,
    /// How often, in milliseconds; 0 for never.
    pub update_period_ms: U32,
    /// What is counted ([`STAT_CTX_ROCE`]).
    pub stat_ctx_flags: u8,
    unused0: [u8; 1],
    /// Bytes of the counts.
    pub stats_dma_length: U16,
    unused1: [u8; 16],
}

layout!(StatCtxAllocRequest: size 48, align 1, {
    header: 0, stats_dma_addr: 16, update_period_ms: 24, stat_ctx_flags: 28, stats_dma_length: 30,
});

/// The statistics context (`struct hwrm_stat_ctx_alloc_output`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct StatCtxAllocAnswer {
    /// How it went.
    pub header: AnswerHeader,
    /// Its number.
    pub stat_ctx_id: U32,
    unused0: [u8; 3],
    /// 1 once all the rest is written.
    pub valid: u8,
}

layout!(StatCtxAllocAnswer: size 16, align 1, {
    header: 0, stat_ctx_id: 8, valid: 15,
});

request!(StatCtxAllocRequest: StatCtxAlloc => StatCtxAllocAnswer);

/// Takes a statistics context away (`struct hwrm_stat_ctx_free_input`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct StatCtxFreeRequest {
    /// What is asked, and where the answer goes.
    pub header: RequestHeader,
    /// Its number.
    pub stat_ctx_id: U32,
    unused0: [u8; 4],
}

layout!(StatCtxFreeRequest: size 24, align 1, {
    header: 0, stat_ctx_id: 16,
});

request!(StatCtxFreeRequest: StatCtxFree => EmptyAnswer);

/// Kinds of rings.
pub mod ring_type {
    numbers! { u8;
        /// Completions of Ethernet.
        L2_CMPL = 0, "RING_ALLOC_REQ_RING_TYPE_L2_CMPL";
        /// Frames to send.
        TX = 1, "RING_ALLOC_REQ_RING_TYPE_TX";
        /// Buffers for frames.
        RX = 2, "RING_ALLOC_REQ_RING_TYPE_RX";
        /// Further buffers for frames.
        RX_AGG = 4, "RING_ALLOC_REQ_RING_TYPE_RX_AGG";
        /// Notifications.
        NQ = 5, "RING_ALLOC_REQ_RING_TYPE_NQ";
    }
}

/// Bits of [`RingAllocRequest::enables`].
pub mod ring_enables {
    numbers! { u32;
        /// `stat_ctx_id`.
        STAT_CTX_ID_VALID = 0x8, "RING_ALLOC_REQ_ENABLES_STAT_CTX_ID_VALID";
        /// `rx_ring_id`.
        RX_RING_ID_VALID = 0x40, "RING_ALLOC_REQ_ENABLES_RX_RING_ID_VALID";
        /// `nq_ring_id`.
        NQ_RING_ID_VALID = 0x80, "RING_ALLOC_REQ_ENABLES_NQ_RING_ID_VALID";
        /// `rx_buf_size`.
        RX_BUF_SIZE_VALID = 0x100, "RING_ALLOC_REQ_ENABLES_RX_BUF_SIZE_VALID";
    }
}

/// Interrupts are message-signalled ([`RingAllocRequest::int_mode`], `RING_ALLOC_REQ_INT_MODE_MSIX`).
pub const INT_MODE_MSIX: u8 = 2;
/// RoCE counts ([`StatCtxAllocRequest::stat_ctx_flags`], `STAT_CTX_ALLOC_REQ_STAT_CTX_FLAGS_ROCE`).
pub const STAT_CTX_ROCE: u8 = 1;

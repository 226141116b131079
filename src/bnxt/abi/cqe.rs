//! Completions: what the NIC writes into a completion ring.
//!
//! The byte that holds a completion's toggle is written last: it is 1 in the NIC's first pass over the
//! ring, then 0, and so on. Nothing else may be read before it.
//!
//! From Linux' `roce_hsi.h` (`struct cq_base`, `cq_req`, `cq_res_rc`, `cq_terminal`, `cq_cutoff`). All
//! little-endian.

use bitfield_struct::bitfield;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

codes! {
    /// What a completion reports (`CQ_BASE_CQE_TYPE_*`, as numbers of their own).
    pub enum CompletionKind: u8, "completion type" {
        /// Requests are done, or one has failed: a [`RequestCompletion`].
        Request = 0x0, "CQ_BASE_CQE_TYPE_REQ";
        /// A receive of a reliable connection is filled, or has failed: a [`ReceiveCompletion`].
        Receive = 0x1, "CQ_BASE_CQE_TYPE_RES_RC";
        /// A receive holds a datagram.
        ReceiveDatagram = 0x2, "CQ_BASE_CQE_TYPE_RES_UD";
        /// A receive holds a raw frame, or one of queue pair 1.
        ReceiveRaw = 0x3, "CQ_BASE_CQE_TYPE_RES_RAWETH_QP1";
        /// A queue pair has failed and completes no more: a [`TerminalCompletion`].
        Terminal = 0xe, "CQ_BASE_CQE_TYPE_TERMINAL";
        /// The ring goes on elsewhere, after a resize: a [`CutOffCompletion`].
        CutOff = 0xf, "CQ_BASE_CQE_TYPE_CUT_OFF";
    }
}

/// The byte of a completion that says what it reports, and whose it is (`cqe_type_toggle`).
#[bitfield(u8)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct KindToggle {
    /// The NIC's pass over the ring, modulo 2: true in the first.
    #[inline(always)]
    pub toggle: bool,
    /// The number of a [`CompletionKind`].
    #[inline(always)]
    #[bits(4)]
    pub kind: u8,
    /// In a [`CutOffCompletion`], the toggle of the resize; 0 or not specified in others.
    #[bits(2)]
    pub resize_toggle: u8,
    __: bool,
}

codes! {
    /// Why a request failed (`CQ_REQ_STATUS_*`).
    pub enum RequestStatus: u8, else Other {
        /// It did not.
        Ok = 0x0, "CQ_REQ_STATUS_OK";
        /// The peer answered what the protocol does not allow.
        BadResponse = 0x1, "CQ_REQ_STATUS_BAD_RESPONSE_ERR";
        /// The message is longer than it may be.
        LocalLength = 0x2, "CQ_REQ_STATUS_LOCAL_LENGTH_ERR";
        /// The entry is malformed.
        LocalQueuePairOperation = 0x3, "CQ_REQ_STATUS_LOCAL_QP_OPERATION_ERR";
        /// A local key refuses.
        LocalProtection = 0x4, "CQ_REQ_STATUS_LOCAL_PROTECTION_ERR";
        /// A memory management operation failed.
        MemoryManagement = 0x5, "CQ_REQ_STATUS_MEMORY_MGT_OPERATION_ERR";
        /// The peer refused the request as malformed.
        RemoteInvalidRequest = 0x6, "CQ_REQ_STATUS_REMOTE_INVALID_REQUEST_ERR";
        /// The peer's key refuses.
        RemoteAccess = 0x7, "CQ_REQ_STATUS_REMOTE_ACCESS_ERR";
        /// The peer failed.
        RemoteOperation = 0x8, "CQ_REQ_STATUS_REMOTE_OPERATION_ERR";
        /// The peer had no receive.
        ReceiverNotReadyRetries = 0x9, "CQ_REQ_STATUS_RNR_NAK_RETRY_CNT_ERR";
        /// The peer did not answer.
        TransportRetries = 0xa, "CQ_REQ_STATUS_TRANSPORT_RETRY_CNT_ERR";
        /// Not tried.
        Flushed = 0xb, "CQ_REQ_STATUS_WORK_REQUEST_FLUSHED_ERR";
    }
}

codes! {
    /// Why a receive failed (`CQ_RES_RC_STATUS_*`).
    pub enum ReceiveStatus: u8, else Other {
        /// It did not.
        Ok = 0x0, "CQ_RES_RC_STATUS_OK";
        /// A peer's access failed.
        LocalAccess = 0x1, "CQ_RES_RC_STATUS_LOCAL_ACCESS_ERROR";
        /// The message is longer than the receive.
        LocalLength = 0x2, "CQ_RES_RC_STATUS_LOCAL_LENGTH_ERR";
        /// A local key refuses.
        LocalProtection = 0x3, "CQ_RES_RC_STATUS_LOCAL_PROTECTION_ERR";
        /// The entry is malformed.
        LocalQueuePairOperation = 0x4, "CQ_RES_RC_STATUS_LOCAL_QP_OPERATION_ERR";
        /// A memory management operation failed.
        MemoryManagement = 0x5, "CQ_RES_RC_STATUS_MEMORY_MGT_OPERATION_ERR";
        /// The peer's request was malformed.
        RemoteInvalidRequest = 0x6, "CQ_RES_RC_STATUS_REMOTE_INVALID_REQUEST_ERR";
        /// Not filled: the queue pair had failed.
        Flushed = 0x7, "CQ_RES_RC_STATUS_WORK_REQUEST_FLUSHED_ERR";
        /// Not filled: the NIC flushed it.
        HardwareFlushed = 0x8, "CQ_RES_RC_STATUS_HW_FLUSH_ERR";
    }
}

/// What filled a receive (`CQ_RES_RC_FLAGS_*`).
#[bitfield(u16, repr = U16, from = U16::new, into = U16::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct ReceiveFlags {
    /// The receive is of a shared receive queue.
    pub srq: bool,
    /// There is an immediate.
    #[inline(always)]
    pub immediate: bool,
    /// A key was invalidated.
    #[inline(always)]
    pub invalidate: bool,
    /// It was a write, whose bytes are elsewhere.
    #[inline(always)]
    pub rdma: bool,
    #[bits(12)]
    __: u16,
}

structures! {
    /// A completion, whatever it reports.
    pub struct Completion, "cq_base", size 32 {
        /// As the kind says.
        reserved64_1: U64, 0x0;
        /// As the kind says.
        reserved64_2: U64, 0x8;
        /// As the kind says.
        reserved64_3: U64, 0x10;
        /// What it reports, and whose it is.
        cqe_type_toggle: KindToggle, 0x18;
        /// 0, or why it failed, as the kind says.
        status: u8, 0x19;
        /// As the kind says.
        reserved16: U16, 0x1a;
        /// As the kind says.
        opaque: U32, 0x1c;
    }

    /// Requests are done, up to one, or one has failed.
    pub struct RequestCompletion, "cq_req", size 32 {
        /// What the queue pair was made with.
        qp_handle: U64, 0x0;
        /// The number of requests done, modulo the ring's length; of a failed one, its first slot.
        sq_cons_idx: U16, 0x8;
        /// 0.
        reserved16_1: U16, 0xa;
        /// 0.
        reserved32_2: U32, 0xc;
        /// 0.
        reserved64: U64, 0x10;
        /// What it reports, and whose it is.
        cqe_type_toggle: KindToggle, 0x18;
        /// A [`RequestStatus`].
        status: u8, 0x19;
        /// 0.
        reserved16_2: U16, 0x1a;
        /// 0.
        reserved32_1: U32, 0x1c;
    }

    /// A receive of a reliable connection is filled, or has failed.
    pub struct ReceiveCompletion, "cq_res_rc", size 32 {
        /// Bytes that came.
        length: U32, 0x0;
        /// The immediate, or the invalidated key, as numbers of the host's.
        imm_data_or_inv_r_key: U32, 0x4;
        /// What the queue pair was made with.
        qp_handle: U64, 0x8;
        /// Not used for receives of reliable connections.
        mr_handle: U64, 0x10;
        /// What it reports, and whose it is.
        cqe_type_toggle: KindToggle, 0x18;
        /// A [`ReceiveStatus`].
        status: u8, 0x19;
        /// What filled it.
        flags: ReceiveFlags, 0x1a;
        /// What the receive was posted with, in the low 20 bits.
        srq_or_rq_wr_id: U32, 0x1c;
    }

    /// A queue pair has failed: what is outstanding completes no more.
    pub struct TerminalCompletion, "cq_terminal", size 32 {
        /// What the queue pair was made with.
        qp_handle: U64, 0x0;
        /// The number of requests done, modulo the ring's length; 0xffff for none.
        sq_cons_idx: U16, 0x8;
        /// The number of receives done, modulo the ring's length; 0xffff for none.
        rq_cons_idx: U16, 0xa;
        /// 0.
        reserved32_1: U32, 0xc;
        /// 0.
        reserved64_3: U64, 0x10;
        /// What it reports, and whose it is.
        cqe_type_toggle: KindToggle, 0x18;
        /// 0.
        status: u8, 0x19;
        /// 0.
        reserved16: U16, 0x1a;
        /// 0.
        reserved32_2: U32, 0x1c;
    }

    /// The last completion of a ring whose queue went on to another.
    pub struct CutOffCompletion, "cq_cutoff", size 32 {
        /// 0.
        reserved64_1: U64, 0x0;
        /// 0.
        reserved64_2: U64, 0x8;
        /// 0.
        reserved64_3: U64, 0x10;
        /// What it reports, and whose it is.
        cqe_type_toggle: KindToggle, 0x18;
        /// 0.
        status: u8, 0x19;
        /// 0.
        reserved16: U16, 0x1a;
        /// 0.
        reserved32: U32, 0x1c;
    }
}

impl ReceiveFlags {
    /// The bit of [`immediate`](Self::immediate).
    pub const IMMEDIATE: u16 = 1 << Self::IMMEDIATE_OFFSET;
    /// The bit of [`invalidate`](Self::invalidate).
    pub const INVALIDATE: u16 = 1 << Self::INVALIDATE_OFFSET;
    /// The bit of [`rdma`](Self::rdma).
    pub const RDMA: u16 = 1 << Self::RDMA_OFFSET;
}

impl KindToggle {
    /// The byte with this kind and this toggle.
    #[inline(always)]
    pub const fn of(kind: CompletionKind, toggle: bool) -> Self {
        KindToggle((kind as u8) << Self::KIND_OFFSET | toggle as u8)
    }
}

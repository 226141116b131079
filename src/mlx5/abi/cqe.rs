//! Completions: what the NIC writes into a completion ring.
//!
//! The last byte of a completion is written last and says whose the completion is: see
//! [`OpcodeOwner::is_new`]. Nothing else may be read before it.
//!
//! A ring's entries are 64 or 128 bytes. In 128, the completion is the second half, whether it
//! succeeded or failed; the first half holds scattered data, if any ([`Completion128`]).
//!
//! From rdma-core's `infiniband/mlx5dv.h`. All big-endian.

use super::{U24, Unknown};
use bitfield_struct::bitfield;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

codes! {
    /// What a completion reports (`MLX5_CQE_*`): the upper 4 bits of its last byte.
    pub enum CompletionOpcode: u8, "completion opcode" {
        /// An entry of the send ring is done; [`QueueWord::opcode`] says which kind.
        Request = 0, "MLX5_CQE_REQ";
        /// A receive was taken by a write with immediate.
        ReceiveWriteImmediate = 1, "MLX5_CQE_RESP_WR_IMM";
        /// A receive holds a send.
        ReceiveSend = 2, "MLX5_CQE_RESP_SEND";
        /// A receive holds a send with immediate.
        ReceiveSendImmediate = 3, "MLX5_CQE_RESP_SEND_IMM";
        /// A receive holds a send that invalidated a key.
        ReceiveSendInvalidate = 4, "MLX5_CQE_RESP_SEND_INV";
        /// The ring goes on elsewhere, after a resize.
        Resize = 5, "MLX5_CQE_RESIZE_CQ";
        /// Reports no packet; tag matching only.
        NoPacket = 6, "MLX5_CQE_NO_PACKET";
        /// A signature did not match.
        SignatureError = 12, "MLX5_CQE_SIG_ERR";
        /// An entry of the send ring failed: an [`ErrorCompletion`].
        RequestError = 13, "MLX5_CQE_REQ_ERR";
        /// A receive failed: an [`ErrorCompletion`].
        ReceiveError = 14, "MLX5_CQE_RESP_ERR";
        /// Never a completion: what software fills a fresh ring with.
        Invalid = 15, "MLX5_CQE_INVALID";
    }
}

/// Where a completion's scattered data is: bits 2 and 3 of its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CompletionFormat {
    /// The completion carries no data.
    Plain = 0,
    /// Up to 32 bytes, at the start of the completion itself (`MLX5_INLINE_SCATTER_32`).
    Inline32 = 1,
    /// Up to 64 bytes, in the 64 bytes before the completion (`MLX5_INLINE_SCATTER_64`).
    Inline64 = 2,
    /// The completion is compressed.
    Compressed = 3,
}

impl CompletionFormat {
    #[inline(always)]
    const fn from_bits(bits: u8) -> Self {
        match bits {
            0 => Self::Plain,
            1 => Self::Inline32,
            2 => Self::Inline64,
            _ => Self::Compressed,
        }
    }

    const fn into_bits(self) -> u8 {
        self as u8
    }
}

/// The last byte of a completion (`op_own`): what it reports, and whose it is.
#[bitfield(u8)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct OpcodeOwner {
    /// The NIC's pass over the ring, modulo 2 (`MLX5_CQE_OWNER_MASK`): false on the first.
    #[inline(always)]
    pub owner: bool,
    /// The sender asked for an event.
    #[inline(always)]
    pub solicited: bool,
    /// Where scattered data is.
    #[inline(always)]
    #[bits(2)]
    pub format: CompletionFormat,
    /// The number of a [`CompletionOpcode`].
    #[inline(always)]
    #[bits(4, access = RO)]
    pub opcode: u8,
}

impl OpcodeOwner {
    /// What software fills a fresh ring with. The opcode makes it no completion in either pass.
    /// (Zeroes would be one in the first.)
    pub const FRESH: OpcodeOwner = OpcodeOwner::from_bits(0xf1);

    /// Whether the NIC has written the completion in the pass where it writes `owner`. `owner` is
    /// the bit of the consumer index just above the ring's index bits.
    #[inline(always)]
    pub const fn is_new(self, owner: bool) -> bool {
        self.owner() == owner && self.opcode() != CompletionOpcode::Invalid as u8
    }

    /// The same, reporting `kind`.
    #[inline(always)]
    pub const fn with_kind(self, kind: CompletionOpcode) -> Self {
        let below = self.0 % (1 << Self::OPCODE_OFFSET);
        OpcodeOwner(below | (kind as u8) << Self::OPCODE_OFFSET)
    }

    /// What the completion reports.
    #[inline(always)]
    pub fn kind(self) -> Result<CompletionOpcode, Unknown> {
        self.opcode().try_into()
    }
}

/// The word of a completion that names a queue (`srqn_uidx`).
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct UserIndexWord {
    /// The user index that the queue pair (or shared receive queue) was made with, in completions
    /// of version 1; a shared receive queue's number in version 0.
    #[inline(always)]
    #[bits(24)]
    pub user_index: U24,
    /// Not specified.
    pub reserved: u8,
}

/// The word of a completion that names the queue pair and the operation (`sop_drop_qpn`,
/// `s_wqe_opcode_qpn`).
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct QueueWord {
    /// The queue pair's number.
    #[inline(always)]
    #[bits(24)]
    pub queue_pair: U24,
    /// For an entry of the send ring, the number of its [`Opcode`](super::wqe::Opcode).
    #[inline(always)]
    pub opcode: u8,
}

/// The word of a receive completion that names the sender (`flags_rqpn`).
#[bitfield(u32, repr = U32, from = U32::new, into = U32::get)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct SourceWord {
    /// The sender's queue pair number.
    #[bits(24)]
    pub queue_pair: U24,
    /// The service level, or what the L3 header was.
    #[bits(4)]
    pub service_level: u8,
    /// Not 0 if the packet had a global route header.
    #[bits(2)]
    pub global_route: u8,
    #[bits(2)]
    __: u8,
}

/// A completion (`struct mlx5_cqe64`). If [`op_own`](Self::op_own) says that it is an error, only
/// [`ErrorCompletion`]'s fields are defined.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Completion {
    /// Not specified, or scattered data.
    pub reserved0: [u8; 2],
    /// The entry's number, for receive rings of many strides.
    pub wqe_id: U16,
    /// Not specified, or scattered data.
    pub reserved4: [u8; 13],
    /// The path bits of the destination's local identifier.
    pub ml_path: u8,
    /// Not specified, or scattered data.
    pub reserved18: [u8; 4],
    /// The sender's local identifier.
    pub slid: U16,
    /// The sender.
    pub flags_rqpn: SourceWord,
    /// Header checks of raw packets.
    pub hds_ip_ext: u8,
    /// Header types of raw packets.
    pub l4_hdr_type_etc: u8,
    /// The VLAN tag of raw packets.
    pub vlan_info: U16,
    /// The queue pair's user index. Here scattered data ends.
    pub srqn_uidx: UserIndexWord,
    /// The immediate, in the order that it crossed the wire in; or the invalidated key.
    pub imm_inval_pkey: U32,
    /// What the completion is about, beyond its opcode: tag matching.
    pub app: u8,
    /// The operation of `app`.
    pub app_op: u8,
    /// Data of `app`.
    pub app_info: U16,
    /// The number of bytes received, or read.
    pub byte_cnt: U32,
    /// When, by the NIC's clock.
    pub timestamp: U64,
    /// The queue pair and the operation.
    pub sop_drop_qpn: QueueWord,
    /// The entry's index: the first slot of a send, the number of a receive, modulo 2^16.
    pub wqe_counter: U16,
    /// A check byte over the completion.
    pub signature: u8,
    /// What the completion reports, and whose it is. Written last, read first.
    pub op_own: OpcodeOwner,
}

layout!(Completion: size 64, align 1, {
    reserved0: 0, wqe_id: 2, reserved4: 4, ml_path: 17, reserved18: 18, slid: 22, flags_rqpn: 24,
    hds_ip_ext: 28, l4_hdr_type_etc: 29, vlan_info: 30, srqn_uidx: 32, imm_inval_pkey: 36, app: 40,
    app_op: 41, app_info: 42, byte_cnt: 44, timestamp: 48, sop_drop_qpn: 56, wqe_counter: 60,
    signature: 62, op_own: 63,
});

impl Completion {
    /// A completion of zeroes but for its owner byte, as software fills a fresh ring with.
    pub fn fresh() -> Self {
        Completion { op_own: OpcodeOwner::FRESH, ..zerocopy::FromZeros::new_zeroed() }
    }

    /// The same bytes, read as the completion of a failure.
    pub fn as_error(&self) -> &ErrorCompletion {
        zerocopy::transmute_ref!(self)
    }
}

/// The completion of a failure (`struct mlx5_err_cqe`). What is not named here is not defined:
/// there is no length and no immediate.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct ErrorCompletion {
    /// Not specified.
    pub reserved0: [u8; 32],
    /// The queue pair's user index, as in [`Completion::srqn_uidx`].
    pub srqn: UserIndexWord,
    /// Not specified.
    pub reserved36: [u8; 18],
    /// The NIC's own reason, which only its maker can read.
    pub vendor_err_synd: u8,
    /// The number of a [`Syndrome`].
    pub syndrome: u8,
    /// The queue pair, and the operation that failed.
    pub s_wqe_opcode_qpn: QueueWord,
    /// The entry's index.
    pub wqe_counter: U16,
    /// A check byte over the completion.
    pub signature: u8,
    /// What the completion reports, and whose it is. Written last, read first.
    pub op_own: OpcodeOwner,
}

layout!(ErrorCompletion: size 64, align 1, {
    reserved0: 0, srqn: 32, reserved36: 36, vendor_err_synd: 54, syndrome: 55,
    s_wqe_opcode_qpn: 56, wqe_counter: 60, signature: 62, op_own: 63,
});

impl ErrorCompletion {
    /// Why it failed.
    pub const fn syndrome(&self) -> Syndrome {
        Syndrome::from_code(self.syndrome)
    }

    /// The same bytes as a [`Completion`], to be written to a ring.
    pub fn as_completion(&self) -> &Completion {
        zerocopy::transmute_ref!(self)
    }
}

/// An entry of a ring of 128-byte entries.
///
/// Data scattered into the entry is in [`data`](Self::data) with [`CompletionFormat::Inline64`],
/// but at the start of [`completion`](Self::completion) with [`CompletionFormat::Inline32`].
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Completion128 {
    /// Scattered data, or not specified.
    pub data: [u8; 64],
    /// The completion, of a success or a failure.
    pub completion: Completion,
}

layout!(Completion128: size 128, align 1, { data: 0, completion: 64 });

impl Completion {
    /// The bytes that [`CompletionFormat::Inline32`] scatters into.
    pub fn inline32(&self) -> &[u8; 32] {
        let halves: &[[u8; 32]; 2] = zerocopy::transmute_ref!(self);
        let [data, _] = halves;
        data
    }
}

codes! {
    /// Why a work entry failed (`MLX5_CQE_SYNDROME_*`).
    pub enum Syndrome: u8, else Other {
        /// A message was longer than the memory for it, or than the port allows.
        LocalLength = 0x01, "MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR";
        /// The entry, or the queue pair's state, was wrong.
        LocalQueuePairOperation = 0x02, "MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR";
        /// A local key, its bounds, or its rights did not allow it.
        LocalProtection = 0x04, "MLX5_CQE_SYNDROME_LOCAL_PROT_ERR";
        /// Not done: the queue pair had failed before.
        Flushed = 0x05, "MLX5_CQE_SYNDROME_WR_FLUSH_ERR";
        /// A memory window could not be bound.
        MemoryWindowBind = 0x06, "MLX5_CQE_SYNDROME_MW_BIND_ERR";
        /// The peer answered what it should not have.
        BadResponse = 0x10, "MLX5_CQE_SYNDROME_BAD_RESP_ERR";
        /// A write of the peer with immediate was not allowed here.
        LocalAccess = 0x11, "MLX5_CQE_SYNDROME_LOCAL_ACCESS_ERR";
        /// The peer refused the request as malformed, or its receive was too small.
        RemoteInvalidRequest = 0x12, "MLX5_CQE_SYNDROME_REMOTE_INVAL_REQ_ERR";
        /// The peer's key, its bounds, or its rights did not allow it.
        RemoteAccess = 0x13, "MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR";
        /// The peer failed while it did it.
        RemoteOperation = 0x14, "MLX5_CQE_SYNDROME_REMOTE_OP_ERR";
        /// No answer, however often it was sent.
        TransportRetryExceeded = 0x15, "MLX5_CQE_SYNDROME_TRANSPORT_RETRY_EXC_ERR";
        /// The peer had no receive posted, however often it was tried.
        ReceiverNotReadyRetryExceeded = 0x16, "MLX5_CQE_SYNDROME_RNR_RETRY_EXC_ERR";
        /// The peer gave up the request.
        RemoteAborted = 0x22, "MLX5_CQE_SYNDROME_REMOTE_ABORTED_ERR";
    }
}

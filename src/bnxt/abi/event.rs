//! Entries of the event ring: what the RoCE engine's firmware reports.
//!
//! Bit 0 of [`CommandEvent::v`] is written last: it is 1 in the NIC's first pass over the ring, then 0,
//! and so on. Nothing else may be read before it.
//!
//! From Linux' `roce_hsi.h`. All little-endian.

use zerocopy::little_endian::{U16, U32};

codes! {
    /// What an entry of the event ring is about: the low 6 bits of its first byte.
    pub enum EventKind: u8, "event type" {
        /// A command's answer, or the failure of a queue pair or a completion queue.
        QueuePair = 0x38, "CREQ_BASE_TYPE_QP_EVENT";
        /// Something about the whole function.
        Function = 0x3a, "CREQ_BASE_TYPE_FUNC_EVENT";
    }
}

codes! {
    /// Why a command failed.
    pub enum CommandStatus: u8, else Other {
        /// It did not.
        Success = 0, "CREQ_QP_EVENT_STATUS_SUCCESS";
        /// It failed.
        Failed = 1, "CREQ_QP_EVENT_STATUS_FAIL";
        /// The function has no more of what the command needs.
        Resources = 2, "CREQ_QP_EVENT_STATUS_RESOURCES";
        /// The command does not exist, or not now.
        InvalidCommand = 3, "CREQ_QP_EVENT_STATUS_INVALID_CMD";
        /// The command is not implemented.
        NotImplemented = 4, "CREQ_QP_EVENT_STATUS_NOT_IMPLEMENTED";
        /// A field of the command holds what it must not.
        InvalidParameter = 5, "CREQ_QP_EVENT_STATUS_INVALID_PARAMETER";
        /// The NIC's hardware failed.
        Hardware = 6, "CREQ_QP_EVENT_STATUS_HARDWARE_ERROR";
        /// The firmware failed.
        Internal = 7, "CREQ_QP_EVENT_STATUS_INTERNAL_ERROR";
    }
}

impl core::fmt::Display for CommandStatus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            CommandStatus::Success => "success",
            CommandStatus::Failed => "failed",
            CommandStatus::Resources => "out of resources",
            CommandStatus::InvalidCommand => "invalid command",
            CommandStatus::NotImplemented => "not implemented",
            CommandStatus::InvalidParameter => "invalid parameter",
            CommandStatus::Hardware => "hardware error",
            CommandStatus::Internal => "internal error",
            CommandStatus::Other(code) => return write!(f, "unknown status {code}"),
        })
    }
}

/// [`CommandEvent::event`] of a [`QueuePairError`].
pub const QUEUE_PAIR_ERROR: u8 = 0xc0;

/// [`CommandEvent::event`] of a [`CompletionQueueError`].
pub const COMPLETION_QUEUE_ERROR: u8 = 0xc1;

structures! {
    /// A command has finished.
    pub struct CommandEvent, "creq_create_cq_resp", size 16 {
        /// The event's type: a [`EventKind`].
        kind = "type": u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`].
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The object that the command made or named.
        xid: U32, 0x4;
        /// Bit 0 says in which pass over the ring the NIC wrote the event.
        v: u8, 0x8;
        /// The command that finished, or what happened: an [`Opcode`](super::opcode::Opcode).
        event: u8, 0x9;
        /// 0.
        reserved48: [u8; 6], 0xa;
    }

    /// [`QueryVersion`](super::command::QueryVersion) has finished.
    pub struct VersionEvent, "creq_query_version_resp", size 16 {
        /// The event's type.
        kind = "type": u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`].
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The firmware's major version.
        fw_maj: u8, 0x4;
        /// The firmware's minor version.
        fw_minor: u8, 0x5;
        /// The firmware's build.
        fw_bld: u8, 0x6;
        /// The firmware's patch.
        fw_rsvd: u8, 0x7;
        /// Bit 0 says in which pass over the ring the NIC wrote the event.
        v: u8, 0x8;
        /// The command that finished, or what happened: an [`Opcode`](super::opcode::Opcode).
        event: u8, 0x9;
        /// 0.
        reserved16: U16, 0xa;
        /// The interface's major version.
        intf_maj: u8, 0xc;
        /// The interface's minor version.
        intf_minor: u8, 0xd;
        /// The interface's build.
        intf_bld: u8, 0xe;
        /// The interface's patch.
        intf_rsvd: u8, 0xf;
    }

    /// [`DestroyCompletionQueue`](super::command::DestroyCompletionQueue) has finished.
    pub struct DestroyCompletionQueueEvent, "creq_destroy_cq_resp", size 16 {
        /// The event's type: a [`EventKind`].
        kind = "type": u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`].
        status: u8, 0x1;
        /// The command's cookie.
        cookie: U16, 0x2;
        /// The object that the command made or named.
        xid: U32, 0x4;
        /// Bit 0 says in which pass over the ring the NIC wrote the event.
        v: u8, 0x8;
        /// The command that finished, or what happened: an [`Opcode`](super::opcode::Opcode).
        event: u8, 0x9;
        /// How the queue was armed.
        cq_arm_lvl: U16, 0xa;
        /// Notifications that the queue ever wrote, modulo 2^16.
        total_cnq_events: U16, 0xc;
        /// 0.
        reserved16: U16, 0xe;
    }

    /// A queue pair has failed.
    pub struct QueuePairError, "creq_qp_error_notification", size 16 {
        /// The event's type: a [`EventKind`].
        kind = "type": u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`].
        status: u8, 0x1;
        /// Not specified.
        req_slow_path_state: u8, 0x2;
        /// Why the requester failed.
        req_err_state_reason: u8, 0x3;
        /// The object that the command made or named.
        xid: U32, 0x4;
        /// Bit 0 says in which pass over the ring the NIC wrote the event.
        v: u8, 0x8;
        /// The command that finished, or what happened: an [`Opcode`](super::opcode::Opcode).
        event: u8, 0x9;
        /// Not specified.
        res_slow_path_state: u8, 0xa;
        /// Why the responder failed.
        res_err_state_reason: u8, 0xb;
        /// The send ring's consumer index.
        sq_cons_idx: U16, 0xc;
        /// The receive ring's consumer index.
        rq_cons_idx: U16, 0xe;
    }

    /// A completion queue has failed.
    pub struct CompletionQueueError, "creq_cq_error_notification", size 16 {
        /// The event's type: a [`EventKind`].
        kind = "type": u8, 0x0;
        /// 0, or why the command failed: a [`CommandStatus`].
        status: u8, 0x1;
        /// Why the completion queue failed.
        cq_err_reason: u8, 0x2;
        /// 0.
        reserved8: u8, 0x3;
        /// The object that the command made or named.
        xid: U32, 0x4;
        /// Bit 0 says in which pass over the ring the NIC wrote the event.
        v: u8, 0x8;
        /// The command that finished, or what happened: an [`Opcode`](super::opcode::Opcode).
        event: u8, 0x9;
        /// 0.
        reserved48: [u8; 6], 0xa;
    }
}

//! The records read from the kernel's event files.
//!
//! From Linux's `rdma/ib_user_verbs.h`; the event numbers from rdma-core's `infiniband/verbs.h`.
//! In the host's byte order.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A record of a completion channel (`struct ib_uverbs_comp_event_desc`): an armed completion queue
/// has a completion.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct CompEvent {
    /// The `user_handle` that the completion queue was made with.
    pub cq_handle: u64,
}

layout!(CompEvent: size 8, align 8, { cq_handle: 0 });

/// A record of an asynchronous event file (`struct ib_uverbs_async_event_desc`).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct AsyncEvent {
    /// What it is about: the `user_handle` of a queue pair or completion queue, or the number of a
    /// port.
    pub element: u64,
    /// The number of an [`AsyncEventType`].
    pub event_type: u32,
    /// 0.
    pub reserved: u32,
}

layout!(AsyncEvent: size 16, align 8, { element: 0, event_type: 8, reserved: 12 });

impl AsyncEvent {
    /// What happened.
    pub const fn kind(&self) -> AsyncEventType {
        AsyncEventType::from_code(self.event_type)
    }
}

codes! {
    /// What an asynchronous event reports (`enum ib_event_type`, which `enum ibv_event_type`
    /// repeats).
    pub enum AsyncEventType: u32, else Other {
        /// A completion queue failed; it was overrun, say.
        CompletionQueueError = 0, "IBV_EVENT_CQ_ERR";
        /// A queue pair failed.
        QueuePairFatal = 1, "IBV_EVENT_QP_FATAL";
        /// A queue pair refused a malformed request of its peer.
        QueuePairRequestError = 2, "IBV_EVENT_QP_REQ_ERR";
        /// A queue pair refused a request of its peer for want of rights.
        QueuePairAccessError = 3, "IBV_EVENT_QP_ACCESS_ERR";
        /// A packet came before the queue pair was ready to send.
        CommunicationEstablished = 4, "IBV_EVENT_COMM_EST";
        /// A send queue has drained.
        SendQueueDrained = 5, "IBV_EVENT_SQ_DRAINED";
        /// A connection moved to its other path.
        PathMigrated = 6, "IBV_EVENT_PATH_MIG";
        /// A connection could not move to its other path.
        PathMigrationError = 7, "IBV_EVENT_PATH_MIG_ERR";
        /// The NIC failed, or went away.
        DeviceFatal = 8, "IBV_EVENT_DEVICE_FATAL";
        /// A port came up.
        PortActive = 9, "IBV_EVENT_PORT_ACTIVE";
        /// A port went down.
        PortError = 10, "IBV_EVENT_PORT_ERR";
        /// A port's local identifier changed.
        LidChange = 11, "IBV_EVENT_LID_CHANGE";
        /// A port's partition table changed.
        PartitionKeyChange = 12, "IBV_EVENT_PKEY_CHANGE";
        /// A port's subnet manager changed.
        SubnetManagerChange = 13, "IBV_EVENT_SM_CHANGE";
        /// A shared receive queue failed.
        SharedReceiveQueueError = 14, "IBV_EVENT_SRQ_ERR";
        /// A shared receive queue ran low.
        SharedReceiveQueueLimit = 15, "IBV_EVENT_SRQ_LIMIT_REACHED";
        /// A failed queue pair has taken its last entry of a shared receive queue.
        LastEntryReached = 16, "IBV_EVENT_QP_LAST_WQE_REACHED";
        /// The subnet manager asks clients to register again.
        ClientReregister = 17, "IBV_EVENT_CLIENT_REREGISTER";
        /// A port's table of global identifiers changed.
        GidChange = 18, "IBV_EVENT_GID_CHANGE";
        /// A work queue failed.
        WorkQueueFatal = 19, "IBV_EVENT_WQ_FATAL";
    }
}

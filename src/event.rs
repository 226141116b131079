//! Events: what a NIC reports besides completions, and that an armed completion queue has one. They are
//! the same for every family; which of them there are, its event channel says.

use crate::completion::QueuePairIndex;

/// The type of completion queues that are only polled.
#[derive(Clone, Copy, Debug)]
pub struct Polled(());

/// The type of completion queues that can raise events.
#[derive(Clone, Copy, Debug)]
pub struct Notified(());

/// The most events that one wait answers.
pub const EVENTS: usize = 16;

/// What a NIC reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An armed completion queue has a completion. It has to be armed again for another event.
    Completion(CompletionQueueId),
    /// A completion queue failed: it was overrun, say.
    CompletionQueueFailed(CompletionQueueId),
    /// Something happened to a queue pair.
    QueuePair {
        /// Which.
        queue_pair: QueuePairIndex,
        /// What.
        event: QueuePairEvent,
    },
    /// Something happened to the port.
    Port(PortEvent),
    /// The NIC failed, or was taken away. Nothing completes any more.
    DeviceFailed,
    /// Something that this library does not know.
    Unknown {
        /// The number of the event (`enum ibv_event_type`).
        number: u32,
        /// What it is about, as the kernel says.
        element: u64,
    },
}

/// What happened to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueuePairEvent {
    /// It failed. Its requests and receives complete as flushed.
    Failed,
    /// It refused a malformed request of its peer, and failed.
    RequestError,
    /// It refused a request of its peer for want of rights, and failed.
    AccessError,
    /// A packet arrived before it was ready to send.
    CommunicationEstablished,
    /// Its send queue has drained.
    SendQueueDrained,
    /// It has failed, and has taken its last entry of a shared receive queue.
    LastEntryReached,
    /// Its connection moved to its other path.
    PathMigrated,
    /// Its connection could not move to its other path.
    PathMigrationFailed,
}

/// What happened to the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortEvent {
    /// It came up.
    Active,
    /// It went down.
    Down,
    /// Its local identifier changed.
    LidChanged,
    /// Its global identifiers changed.
    GidChanged,
    /// Its partition table changed.
    PartitionKeysChanged,
    /// Its subnet manager changed.
    SubnetManagerChanged,
    /// The subnet manager asks clients to register again.
    Reregister,
}

/// Names a completion queue among all that its NIC ever had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompletionQueueId(pub(crate) u64);

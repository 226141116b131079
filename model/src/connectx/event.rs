//! What a NIC reports besides completions.

use std::fmt;

/// Where a NIC's events go: the event queues of whoever drives it.
///
/// Called while the NIC is locked: an implementer must not call back into it.
pub trait EventSink: Send {
    /// An armed completion queue has a completion.
    fn completion(&self, queue: u32);

    /// Something happened that no completion tells.
    fn asynchronous(&self, event: Event);
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completion queue failed.
    CompletionQueueError {
        /// Its number.
        queue: u32,
    },
    /// A queue pair failed for a reason that no completion tells.
    QueuePairFatal {
        /// Its number.
        pair: u32,
    },
    /// The peer of a queue pair asked for what makes no sense.
    QueuePairRequestError {
        /// Its number.
        pair: u32,
    },
    /// The peer of a queue pair asked for what it may not do.
    QueuePairAccessError {
        /// Its number.
        pair: u32,
    },
    /// The first packet came in.
    CommunicationEstablished {
        /// The queue pair's number.
        pair: u32,
    },
    /// A queue pair in error takes nothing more from its shared receive queue.
    LastReceiveReached {
        /// The queue pair's number.
        pair: u32,
    },
    /// A shared receive queue has fewer receives than was asked for.
    SharedReceiveLimit {
        /// Its number.
        queue: u32,
    },
    /// The port came up.
    PortActive,
    /// The port went down.
    PortError,
    /// The port's table of global identifiers changed.
    GidChange,
    /// The NIC failed.
    DeviceFatal,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::CompletionQueueError { queue } => {
                write!(f, "completion queue {queue:#x} failed")
            }
            Event::QueuePairFatal { pair } => write!(f, "queue pair {pair:#x} failed"),
            Event::QueuePairRequestError { pair } => {
                write!(f, "queue pair {pair:#x} refused a malformed request")
            }
            Event::QueuePairAccessError { pair } => {
                write!(f, "queue pair {pair:#x} refused an access")
            }
            Event::CommunicationEstablished { pair } => {
                write!(f, "queue pair {pair:#x} got its first packet")
            }
            Event::LastReceiveReached { pair } => {
                write!(f, "queue pair {pair:#x} took its last shared receive")
            }
            Event::SharedReceiveLimit { queue } => {
                write!(f, "shared receive queue {queue:#x} has few receives left")
            }
            Event::PortActive => f.write_str("the port is active"),
            Event::PortError => f.write_str("the port is down"),
            Event::GidChange => f.write_str("the global identifiers changed"),
            Event::DeviceFatal => f.write_str("the device failed"),
        }
    }
}

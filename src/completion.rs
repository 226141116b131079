//! Completions: what became of the requests and receives that were posted. The same for every NIC
//! family.

use core::fmt;

/// What a completion queue reports of one request or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completion {
    /// A request of a send queue is done: its bytes have been taken, and have reached the peer.
    Sent(Sent),
    /// A receive is filled.
    Received(Received),
    /// A request or a receive failed. Every later one of its queue pair fails, too, as
    /// [`Status::WorkRequestFlushed`].
    Failed(Failed),
    /// The NIC wrote something that this library does not know as a completion.
    Unrecognized(Unrecognized),
}

/// Names a queue pair among all of its NIC, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePairIndex(pub(crate) u32);

impl QueuePairIndex {
    /// The index as a number, below 2^24: small numbers are used first, so that an engine can keep
    /// its own table by it.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The id that the request was posted with.
    pub id: u64,
    /// Whose it was.
    pub queue_pair: QueuePairIndex,
}

/// A receive that is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The id that the receive was posted with.
    pub id: u64,
    /// Whose it was.
    pub queue_pair: QueuePairIndex,
    /// The number of bytes that came: into the receive's pieces for a send, into the peer's choice
    /// of memory for a write.
    pub len: u32,
    /// What filled it.
    pub by: Arrival,
    /// Whether the peer asked for the arrival to wake this side.
    pub solicited: bool,
}

/// What filled a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A send.
    Send,
    /// A send with these 32 bits.
    SendImmediate(u32),
    /// A send that took this key away.
    SendInvalidate(u32),
    /// A write, somewhere else, with these 32 bits. The receive's own memory is untouched.
    WriteImmediate(u32),
}

/// A request or receive that failed. Nothing else of it is defined: no length, no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The id that it was posted with.
    pub id: u64,
    /// Whose it was.
    pub queue_pair: QueuePairIndex,
    /// Which queue it was posted to.
    pub queue: Queue,
    /// Why it failed.
    pub status: Status,
    /// The NIC's own reason, which only its maker can read.
    pub vendor: u8,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.queue {
            Queue::Send => "request",
            Queue::Receive => "receive",
        };
        let Failed { id, queue_pair, status, vendor, .. } = self;
        write!(f, "{what} {id} of queue pair {} failed: {status} ", queue_pair.0)?;
        write!(f, "(vendor syndrome {vendor:#04x})")
    }
}

impl core::error::Error for Failed {}

/// One of a queue pair's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Queue {
    /// Of requests.
    Send,
    /// Of receives.
    Receive,
}

/// Bytes that came where a completion was due and are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unrecognized {
    /// The queue pair that the bytes name, if they are in that much a completion.
    pub queue_pair: QueuePairIndex,
    /// The opcode that is not known.
    pub opcode: u8,
}

impl fmt::Display for Unrecognized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unrecognized { queue_pair, opcode } = self;
        write!(f, "a completion of queue pair {} has unknown opcode {opcode:#x}", queue_pair.0)
    }
}

/// Why a request or a receive failed (InfiniBand Architecture Specification, volume 1, 11.6.2,
/// "completion return status").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// A message was longer than its receive, than the memory for it, or than a port allows.
    LocalLength,
    /// The request was malformed, or not allowed in the queue pair's state.
    LocalQueuePairOperation,
    /// A local key does not exist, or its region's bounds, rights or protection domain refuse.
    LocalProtection,
    /// Not tried: the queue pair had failed before, or was taken down.
    WorkRequestFlushed,
    /// A memory window could not be bound.
    MemoryWindowBind,
    /// The peer answered what the protocol does not allow.
    BadResponse,
    /// A peer's access failed on this side.
    LocalAccess,
    /// The peer refused the request as malformed, or had a receive too small for it.
    RemoteInvalidRequest,
    /// The peer's key does not exist, or its region's bounds or rights, or its queue pair, refuse.
    RemoteAccess,
    /// The peer failed while it carried the request out.
    RemoteOperation,
    /// The peer did not answer, however often the request was sent.
    TransportRetryExceeded,
    /// The peer had no receive posted, however often the request was sent.
    ReceiverNotReadyRetryExceeded,
    /// The peer gave the request up.
    RemoteAborted,
    /// A status that this library does not know: the family's number of it.
    Other(u8),
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::LocalLength => "local length error",
            Status::LocalQueuePairOperation => "local queue pair operation error",
            Status::LocalProtection => "local protection error",
            Status::WorkRequestFlushed => "work request flushed",
            Status::MemoryWindowBind => "memory window bind error",
            Status::BadResponse => "bad response",
            Status::LocalAccess => "local access error",
            Status::RemoteInvalidRequest => "remote invalid request",
            Status::RemoteAccess => "remote access error",
            Status::RemoteOperation => "remote operation error",
            Status::TransportRetryExceeded => "transport retry count exceeded",
            Status::ReceiverNotReadyRetryExceeded => "receiver not ready retry count exceeded",
            Status::RemoteAborted => "remote aborted",
            Status::Other(code) => return write!(f, "unknown status {code:#04x}"),
        })
    }
}

//! What a connection asks of the device that it is part of.

use super::{NakCode, Packet};
use crate::memory::{Buffer, List, Memory, Refusal};
use std::fmt;

/// The device around one queue pair, as a [`Connection`](super::Connection) sees it.
///
/// A family makes one for the time of a call, out of the rings, completion queues and memory of the
/// queue pair at hand.
pub trait Host {
    /// The device's memory and keys.
    fn memory(&self) -> &Memory;

    /// The same, to invalidate a key.
    fn memory_mut(&mut self) -> &mut Memory;

    /// Sends a packet to the peer's port.
    fn transmit(&mut self, packet: Packet);

    /// `packets` of what was transmitted last had been transmitted before. For who counts.
    fn sent_again(&mut self, packets: u32) {
        let _ = packets;
    }

    /// The next work request of the send queue, in order, or `None` if there is none yet. Asked
    /// only when it can be begun soon.
    fn next_request(&mut self) -> Option<Request>;

    /// Does the local work of an [`Operation::Local`] request, after every request before it
    /// completed and before any after it begins.
    fn local_operation(&mut self, entry: u64) -> Status;

    /// A work request ended. Called once for each that was taken, in order, also for unsignaled
    /// ones.
    fn complete_send(&mut self, request: &Request, status: Status);

    /// The next receive of the receive queue, or `None` if there is none. On an extended connection:
    /// of the shared receive queue `extended`.
    fn next_receive(&mut self, extended: Option<u32>) -> Option<Receive>;

    /// The protection domain of the shared receive queue `number`, if an extended connection's peer
    /// may use it: its receives and the peer's keys are of that domain.
    fn extended_domain(&self, number: u32) -> Option<u32> {
        let _ = number;
        None
    }

    /// A receive ended. Called once for each that was taken, in order.
    fn complete_receive(&mut self, completion: ReceiveCompletion);

    /// The first packet came in (the event Communication Established).
    fn established(&mut self) {}

    /// The connection failed. Called once, after the completion that says why (if there is one) and
    /// before the flushed ones. The owner moves its queue pair to Error, raises the asynchronous
    /// event if the cause asks for one, and flushes what was never taken after the call into the
    /// connection returned.
    fn failed(&mut self, cause: Failure);
}

/// A work request, as a family decoded it.
#[derive(Clone)]
pub struct Request {
    /// The owner's name for it: an index of its ring.
    pub entry: u64,
    /// What to do.
    pub operation: Operation,
    /// The peer's shared receive queue, on an extended connection.
    pub extended: u32,
    /// The local bytes: sent by sends and writes, written by reads and atomics.
    pub data: Data,
    /// Begin only when every read and atomic before it completed.
    pub fenced: bool,
    /// Raise the peer's solicited event.
    pub solicited: bool,
    /// The owner wants a completion also on success. The connection calls
    /// [`Host::complete_send`] either way.
    pub signaled: bool,
}

/// What a work request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A message into the peer's next receive.
    Send,
    /// The same, with 4 bytes for the completion. The value is the wire's bytes read big-endian.
    SendImmediate(u32),
    /// A message, and the peer's key to take away.
    SendInvalidate(u32),
    /// Bytes to the peer's memory.
    Write(Remote),
    /// The same, with 4 bytes for a completion of the peer's next receive.
    WriteImmediate(Remote, u32),
    /// Bytes from the peer's memory.
    Read(Remote),
    /// Adds to 8 bytes of the peer's memory.
    FetchAdd {
        /// Which bytes.
        remote: Remote,
        /// The number to add.
        add: u64,
    },
    /// Replaces 8 bytes of the peer's memory if they compare equal.
    CompareSwap {
        /// Which bytes.
        remote: Remote,
        /// The number to compare with.
        compare: u64,
        /// The number to put there.
        swap: u64,
    },
    /// Something that sends no packet (no-operation, local invalidate, registration):
    /// [`Host::local_operation`].
    Local,
    /// An entry that could not be decoded or is not allowed: completes with this status in its
    /// turn and fails the connection.
    Refused(Status),
}

/// The peer's memory that a work request names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remote {
    /// The first byte's address.
    pub address: u64,
    /// The peer's key.
    pub rkey: u32,
}

/// The local bytes of a work request.
#[derive(Clone)]
pub enum Data {
    /// Memory, by key. The message's length is the list's, at most 2^31.
    List(List),
    /// Bytes that were in the work request itself.
    Inline(Buffer),
}

/// A receive, as a family decoded it.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The owner's name for it.
    pub entry: u64,
    /// Where the message's bytes go.
    pub list: List,
}

/// How a receive ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveCompletion {
    /// The receive's name.
    pub entry: u64,
    /// How it went. The fields below say something only on success.
    pub status: Status,
    /// What consumed it.
    pub kind: ReceiveKind,
    /// The message's bytes, 0 to 2^31.
    pub length: u32,
    /// The 4 bytes that came with it, read big-endian.
    pub immediate: Option<u32>,
    /// The key of this side that was taken away.
    pub invalidated: Option<u32>,
    /// The peer asked for an event.
    pub solicited: bool,
}

/// What consumes a receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveKind {
    /// A send.
    Send,
    /// A write with immediate, whose bytes went elsewhere.
    WriteImmediate,
}

/// How a work request or receive ended (IBTA vol. 1, chapter 11, "completion return status").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Status {
    /// Done.
    Success,
    /// The message is longer than the receive, or longer than messages may be.
    LocalLength,
    /// The entry itself is inconsistent.
    LocalQpOperation,
    /// The scatter/gather list names memory that this side may not touch so.
    LocalProtection,
    /// The queue pair failed before the entry was done.
    WrFlushed,
    /// A memory window or key could not be bound or invalidated.
    MemoryWindowBind,
    /// The peer's answer does not fit the request.
    BadResponse,
    /// The peer's write found this side's memory not accessible.
    LocalAccess,
    /// The peer refused the request as malformed, too long or unsupported.
    RemoteInvalidRequest,
    /// The peer refused access to its memory.
    RemoteAccess,
    /// The peer could not finish the request for a reason of its own.
    RemoteOperational,
    /// The peer did not answer.
    TransportRetryExceeded,
    /// The peer had no receive too many times.
    RnrRetryExceeded,
    /// The peer aborted the message.
    RemoteAborted,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Success => "success",
            Status::LocalLength => "local length error",
            Status::LocalQpOperation => "local QP operation error",
            Status::LocalProtection => "local protection error",
            Status::WrFlushed => "work request flushed",
            Status::MemoryWindowBind => "memory window bind error",
            Status::BadResponse => "bad response",
            Status::LocalAccess => "local access error",
            Status::RemoteInvalidRequest => "remote invalid request",
            Status::RemoteAccess => "remote access error",
            Status::RemoteOperational => "remote operational error",
            Status::TransportRetryExceeded => "transport retry counter exceeded",
            Status::RnrRetryExceeded => "RNR retry counter exceeded",
            Status::RemoteAborted => "remote aborted",
        })
    }
}

/// Why a connection failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A work request ended with this status. Its completion says so; there is no event.
    Request(Status),
    /// The peer asked for something that is not allowed; it got this NAK.
    ///
    /// Verbs' events: [`NakCode::InvalidRequest`] is `IBV_EVENT_QP_REQ_ERR`,
    /// [`NakCode::RemoteAccess`] is `IBV_EVENT_QP_ACCESS_ERR`. A NAK whose reason is in the
    /// completion of a receive (`receive` is set) raises no event.
    Peer {
        /// The NAK that the peer gets.
        nak: NakCode,
        /// The status of the receive that the peer's message had, if it had one.
        receive: Option<Status>,
        /// What exactly was wrong about the access, if it was an access.
        refusal: Option<Refusal>,
    },
    /// The owner said so ([`Connection::fail`](super::Connection::fail)).
    Owner,
}

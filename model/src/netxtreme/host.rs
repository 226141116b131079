//! The NIC as a connection of one of its queue pairs sees it: entries in, completions and packets out.

use super::completion_queue::{CompletionQueue, ENTRY, Written};
use super::nic::Netxtreme;
use super::queue_pair::Core;
use super::roce::{Gid, SharedReceives, Vector};
use super::{Counters, context};
use crate::fabric::{Fabric, Port};
use crate::memory::{Memory, Refusal};
use crate::network::Log;
use crate::rc::{
    Connection, Failure, Host, NakCode, Packet, Progress, Receive, ReceiveCompletion, ReceiveKind,
    Request, Status,
};
use doorbell::bnxt::abi::cqe::{
    CompletionKind, KindToggle, ReceiveCompletion as ReceiveEntry, ReceiveFlags, ReceiveStatus,
    RequestCompletion, RequestStatus, TerminalCompletion,
};
use doorbell::bnxt::abi::event::{EventKind, QUEUE_PAIR_ERROR, QueuePairError};
use doorbell::bnxt::abi::field::QueuePairState;
use std::collections::BTreeMap;
use zerocopy::{FromZeros, IntoBytes};

/// What of the NIC a connection may use while one of its methods runs.
pub(super) struct Attendant<'a> {
    pub(super) now: u64,
    pub(super) core: &'a mut Core,
    pub(super) memory: &'a mut Memory,
    pub(super) queues: &'a mut BTreeMap<u32, CompletionQueue>,
    pub(super) shared: &'a mut BTreeMap<u32, SharedReceives>,
    pub(super) gids: &'a BTreeMap<u16, Gid>,
    pub(super) vectors: &'a BTreeMap<u32, Vector>,
    pub(super) fabric: &'a mut dyn Fabric,
    pub(super) port: Port,
    pub(super) link_up: bool,
    pub(super) counters: &'a mut Counters,
    pub(super) log: &'a mut Log,
    /// What has to be told once the connection is done.
    pub(super) news: News,
}

/// What happened while a connection ran, that the rest of the NIC has to tell.
#[derive(Default)]
pub(super) struct News {
    /// Completion queues to notify.
    queues: Vec<u32>,
    /// Shared receive queues that run low.
    pub(super) shared: Vec<u32>,
    /// Events of the RoCE engine.
    events: Vec<[u8; 16]>,
}

/// A queue pair taken apart, for the time of a call into its connection.
pub(super) struct QueuePairParts<'a, 'b> {
    pub(super) connection: &'a mut Option<Connection>,
    pub(super) host: &'a mut Attendant<'b>,
}

/// The reasons of a failure, in events of it (`CREQ_QP_ERROR_NOTIFICATION_*_ERR_STATE_REASON_*`).
mod reason {
    pub(super) const NONE: u8 = 0;
    pub(super) const REQUEST_OPCODE: u8 = 0x01;
    pub(super) const REQUEST_RETRIES: u8 = 0x02;
    pub(super) const REQUEST_RNR_RETRIES: u8 = 0x03;
    pub(super) const REQUEST_NAK: u8 = 0x04;
    pub(super) const REQUEST_RX_MEMORY: u8 = 0x08;
    pub(super) const REQUEST_TX_MEMORY: u8 = 0x09;
    pub(super) const REQUEST_BAD_RESPONSE: u8 = 0x0b;
    pub(super) const REQUEST_INVALIDATE: u8 = 0x0e;
    pub(super) const REQUEST_ENTRY: u8 = 0x11;
    pub(super) const COMPLETION_QUEUE: u8 = 0x15;
    pub(super) const RESPONSE_LENGTH: u8 = 0x01;
    pub(super) const RESPONSE_OPCODE: u8 = 0x04;
    pub(super) const RESPONSE_KEY: u8 = 0x06;
    pub(super) const RESPONSE_DOMAIN: u8 = 0x07;
    pub(super) const RESPONSE_PERMISSION: u8 = 0x08;
    pub(super) const RESPONSE_RANGE: u8 = 0x09;
    pub(super) const RESPONSE_ALIGNMENT: u8 = 0x10;
    pub(super) const RESPONSE_MEMORY: u8 = 0x12;
}

/// The status that a request completes with.
fn request_status(status: Status) -> RequestStatus {
    match status {
        Status::Success => RequestStatus::Ok,
        Status::LocalLength => RequestStatus::LocalLength,
        Status::LocalQpOperation => RequestStatus::LocalQueuePairOperation,
        Status::LocalProtection | Status::LocalAccess => RequestStatus::LocalProtection,
        Status::WrFlushed => RequestStatus::Flushed,
        Status::MemoryWindowBind => RequestStatus::MemoryManagement,
        Status::BadResponse => RequestStatus::BadResponse,
        Status::RemoteInvalidRequest => RequestStatus::RemoteInvalidRequest,
        Status::RemoteAccess => RequestStatus::RemoteAccess,
        Status::RemoteOperational | Status::RemoteAborted => RequestStatus::RemoteOperation,
        Status::TransportRetryExceeded => RequestStatus::TransportRetries,
        Status::RnrRetryExceeded => RequestStatus::ReceiverNotReadyRetries,
    }
}

/// The status that a receive completes with.
pub(super) fn receive_status(status: Status) -> ReceiveStatus {
    match status {
        Status::Success => ReceiveStatus::Ok,
        Status::LocalLength => ReceiveStatus::LocalLength,
        Status::LocalProtection => ReceiveStatus::LocalProtection,
        Status::LocalQpOperation => ReceiveStatus::LocalQueuePairOperation,
        Status::MemoryWindowBind => ReceiveStatus::MemoryManagement,
        Status::RemoteInvalidRequest => ReceiveStatus::RemoteInvalidRequest,
        Status::WrFlushed => ReceiveStatus::Flushed,
        _ => ReceiveStatus::LocalAccess,
    }
}

/// Why a requester failed.
fn request_reason(status: Status) -> u8 {
    match status {
        Status::TransportRetryExceeded => reason::REQUEST_RETRIES,
        Status::RnrRetryExceeded => reason::REQUEST_RNR_RETRIES,
        Status::RemoteInvalidRequest
        | Status::RemoteAccess
        | Status::RemoteOperational
        | Status::RemoteAborted => reason::REQUEST_NAK,
        Status::LocalAccess => reason::REQUEST_RX_MEMORY,
        Status::LocalProtection | Status::LocalLength => reason::REQUEST_TX_MEMORY,
        Status::BadResponse => reason::REQUEST_BAD_RESPONSE,
        Status::MemoryWindowBind => reason::REQUEST_INVALIDATE,
        Status::LocalQpOperation => reason::REQUEST_ENTRY,
        Status::Success | Status::WrFlushed => reason::REQUEST_OPCODE,
    }
}

/// Why a responder failed.
fn response_reason(nak: NakCode, receive: Option<Status>, refusal: Option<Refusal>) -> u8 {
    match (refusal, receive, nak) {
        (Some(Refusal::UnknownKey { .. }), ..) => reason::RESPONSE_KEY,
        (Some(Refusal::ProtectionDomain { .. }), ..) => reason::RESPONSE_DOMAIN,
        (Some(Refusal::Right { .. }), ..) => reason::RESPONSE_PERMISSION,
        (Some(Refusal::Bounds { .. }), ..) => reason::RESPONSE_RANGE,
        (Some(Refusal::Misaligned { .. }), ..) => reason::RESPONSE_ALIGNMENT,
        (Some(_), ..) => reason::RESPONSE_MEMORY,
        (None, Some(Status::LocalLength), _) => reason::RESPONSE_LENGTH,
        (None, _, NakCode::RemoteAccess) => reason::RESPONSE_PERMISSION,
        (None, ..) => reason::RESPONSE_OPCODE,
    }
}

impl Host for Attendant<'_> {
    fn memory(&self) -> &Memory {
        self.memory
    }

    fn memory_mut(&mut self) -> &mut Memory {
        self.memory
    }

    fn transmit(&mut self, packet: Packet) {
        let Some((source, destination)) = self.core.path.filter(|_| self.link_up) else {
            self.counters.packets_dropped += u64::from(packet.run);
            return;
        };
        self.counters.packets_sent += u64::from(packet.run);
        self.fabric.send(self.now, self.port, source, destination, packet);
    }

    fn sent_again(&mut self, packets: u32) {
        self.counters.packets_sent_again += u64::from(packets);
    }

    fn next_request(&mut self) -> Option<Request> {
        if self.core.state != QueuePairState::ReadyToSend {
            return None;
        }
        let space = self.memory.space();
        self.core.next_request(space, self.counters, self.log)
    }

    fn local_operation(&mut self, _: u64) -> Status {
        let Some(key) = self.core.in_flight.front().and_then(|entry| entry.invalidate) else {
            return Status::Success;
        };
        match self.memory.keys.invalidate(key, self.core.domain, false) {
            Ok(()) => Status::Success,
            Err(refusal) => {
                self.refuse(refusal);
                Status::MemoryWindowBind
            }
        }
    }

    fn complete_send(&mut self, _: &Request, status: Status) {
        self.end_send(status);
    }

    fn next_receive(&mut self, _: Option<u32>) -> Option<Receive> {
        self.take_receive()
    }

    fn complete_receive(&mut self, completion: ReceiveCompletion) {
        if completion.status == Status::WrFlushed {
            // The driver knows what it has posted.
            return;
        }
        let mut entry = ReceiveEntry::new_zeroed();
        entry.cqe_type_toggle = KindToggle::of(CompletionKind::Receive, false);
        entry.qp_handle = self.core.handle.into();
        entry.status = receive_status(completion.status).code();
        entry.srq_or_rq_wr_id = (completion.entry as u32).into();
        let mut flags = ReceiveFlags::new().with_srq(self.core.shared.is_some());
        if completion.status == Status::Success {
            entry.length = completion.length.into();
            flags = flags
                .with_immediate(completion.immediate.is_some())
                .with_invalidate(completion.invalidated.is_some())
                .with_rdma(completion.kind == ReceiveKind::WriteImmediate);
            let word = completion.immediate.or(completion.invalidated).unwrap_or(0);
            entry.imm_data_or_inv_r_key = word.into();
        } else {
            self.note_failure(completion.status);
        }
        entry.flags = flags;
        let solicited = completion.solicited || completion.status != Status::Success;
        self.put(self.core.receive_queue, entry.as_bytes(), solicited);
    }

    fn failed(&mut self, cause: Failure) {
        let (number, mut event) = (self.core.number, QueuePairError::new_zeroed());
        self.core.state = QueuePairState::Error;
        match cause {
            Failure::Request(status) => event.req_err_state_reason = request_reason(status),
            Failure::Peer { nak, receive, refusal } => {
                if let Some(refusal) = refusal {
                    self.refuse(refusal);
                }
                self.log.note(format_args!("queue pair {number:#x} refused its peer: {nak:?}"));
                event.res_err_state_reason = response_reason(nak, receive, refusal);
                self.terminate();
            }
            Failure::Owner => return,
        }
        self.core.failed = true;
        self.report(event);
    }
}

impl Attendant<'_> {
    fn refuse(&mut self, refusal: Refusal) {
        self.counters.refused_accesses += 1;
        self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
    }

    fn note_failure(&mut self, status: Status) {
        self.counters.error_completions += 1;
        self.log.note(format_args!("queue pair {:#x}: {status}", self.core.number));
    }

    /// Tells the driver that the queue pair failed.
    fn report(&mut self, mut event: QueuePairError) {
        event.kind = EventKind::QueuePair.code();
        event.event = QUEUE_PAIR_ERROR;
        event.xid = self.core.number.into();
        event.sq_cons_idx = (self.core.done as u16).into();
        if let Ok(bytes) = event.as_bytes().try_into() {
            self.news.events.push(bytes);
        }
    }

    /// Tells the programs that poll, or wait for events, that the queue pair completes no more: nothing
    /// else would.
    fn terminate(&mut self) {
        let mut entry = TerminalCompletion::new_zeroed();
        entry.cqe_type_toggle = KindToggle::of(CompletionKind::Terminal, false);
        entry.qp_handle = self.core.handle.into();
        entry.sq_cons_idx = (self.core.done as u16).into();
        // What was received has its completions.
        entry.rq_cons_idx = 0.into();
        self.put(self.core.send_queue, entry.as_bytes(), true);
        if self.core.receive_queue != self.core.send_queue {
            self.put(self.core.receive_queue, entry.as_bytes(), true);
        }
    }

    /// Fails the queue pair for a reason of the NIC's own.
    pub(super) fn fail(&mut self, status: Status) {
        self.core.state = QueuePairState::Error;
        self.core.failed = true;
        let mut event = QueuePairError::new_zeroed();
        event.req_err_state_reason = request_reason(status);
        self.report(event);
    }

    /// The next receive, of the queue pair's own or of the shared queue.
    pub(super) fn take_receive(&mut self) -> Option<Receive> {
        let (all, space) = (self.core.all_of_memory, self.memory.space());
        if let Some(number) = self.core.shared {
            let shared = self.shared.get_mut(&number)?;
            let taken = shared.receives.take(all, space, self.counters, self.log);
            if taken.is_some() && shared.runs_low() {
                self.news.shared.push(number);
            }
            return taken;
        }
        self.core.receives.as_mut()?.take(all, space, self.counters, self.log)
    }

    /// The oldest entry that is on its way ends.
    pub(super) fn end_send(&mut self, status: Status) {
        let Some(entry) = self.core.in_flight.pop_front() else { return };
        if status == Status::WrFlushed {
            // The driver knows what it has posted.
            return;
        }
        if status == Status::Success {
            self.core.done = (self.core.done + 1) % self.core.slots;
            self.core.untold = true;
            if entry.signaled {
                self.tell_done();
            }
            return;
        }
        // What is done before it is told of before it.
        if self.core.untold {
            self.tell_done();
        }
        self.note_failure(status);
        let mut completion = self.blank();
        completion.sq_cons_idx = (entry.start as u16).into();
        completion.status = request_status(status).code();
        self.put(self.core.send_queue, completion.as_bytes(), true);
    }

    fn blank(&self) -> RequestCompletion {
        let mut completion = RequestCompletion::new_zeroed();
        completion.cqe_type_toggle = KindToggle::of(CompletionKind::Request, false);
        completion.qp_handle = self.core.handle.into();
        completion
    }

    /// Everything up to here is done.
    fn tell_done(&mut self) {
        self.core.untold = false;
        let mut completion = self.blank();
        completion.sq_cons_idx = (self.core.done as u16).into();
        self.put(self.core.send_queue, completion.as_bytes(), false);
    }

    /// Writes a completion into completion queue `number`.
    pub(super) fn put(&mut self, number: u32, completion: &[u8], solicited: bool) {
        let Ok(bytes) = <[u8; ENTRY]>::try_from(completion) else { return };
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let space = self.memory.space();
        match queue.write(space, bytes, solicited, self.counters, self.log) {
            Written::Quietly => {}
            Written::Announced => self.news.queues.push(number),
            Written::Nowhere if self.core.lost_completion => {}
            Written::Nowhere => {
                self.core.lost_completion = true;
                self.log.note(format_args!("completion queue {number:#x} runs over"));
                let mut event = QueuePairError::new_zeroed();
                event.req_err_state_reason = reason::COMPLETION_QUEUE;
                event.res_err_state_reason = reason::NONE;
                self.report(event);
            }
        }
    }

    /// Forgets what a queue pair in error has posted. Its driver flushes it by itself.
    fn flush(&mut self) {
        self.core.own = self.core.driver;
        self.core.in_flight.clear();
        if let Some(receives) = &mut self.core.receives {
            receives.own = receives.driver;
        }
    }
}

impl Netxtreme {
    /// Calls `with` with a queue pair's connection and what it may use, then looks after the rest:
    /// the next deadline, what has to be told, and what has to be flushed.
    pub(super) fn attend<R>(
        &mut self,
        number: u32,
        now: u64,
        fabric: &mut dyn Fabric,
        with: impl FnOnce(&mut QueuePairParts<'_, '_>) -> R,
    ) -> Option<R> {
        let link_up = self.is_link_up();
        let engine = &mut self.engine;
        let pair = engine.pairs.get_mut(&number)?;
        let mut host = Attendant {
            now,
            core: &mut pair.core,
            memory: &mut self.memory,
            queues: &mut engine.queues,
            shared: &mut engine.shared,
            gids: &engine.gids,
            vectors: &engine.vectors,
            fabric,
            port: self.port,
            link_up,
            counters: &mut self.counters,
            log: &mut self.log,
            news: News::default(),
        };
        let mut parts = QueuePairParts { connection: &mut pair.connection, host: &mut host };
        let result = with(&mut parts);
        let QueuePairParts { connection, host } = parts;
        if host.core.lost_completion && host.core.state != QueuePairState::Error {
            host.core.state = QueuePairState::Error;
            if let Some(connection) = connection {
                connection.fail(host);
            }
        }
        if host.core.state == QueuePairState::Error {
            host.flush();
        }
        let news = std::mem::take(&mut host.news);
        let deadline = pair.connection.as_ref().and_then(Connection::next_deadline);
        self.schedule.set_deadline(number, deadline);
        for queue in news.queues {
            self.announce_completion(queue);
        }
        for shared in news.shared {
            self.announce_shared_receives(shared);
        }
        for event in news.events {
            self.tell(event);
        }
        self.count_packets();
        Some(result)
    }

    /// Counts the packets that came and went since this was done last, in the context that the driver
    /// has named for them.
    fn count_packets(&mut self) {
        let counted = (self.counters.packets_sent, self.counters.packets_received);
        let before = std::mem::replace(&mut self.engine.counted, counted);
        if counted == before {
            return;
        }
        let Some(context) = self.statistics.get_mut(&self.engine.statistics) else { return };
        let (sent, received) = (counted.0 - before.0, counted.1 - before.1);
        if let Err(fault) = context.count_packets(self.memory.space(), sent, received) {
            self.log.note(format_args!("lost access: a statistics context: {fault}"));
        }
    }

    /// Fails a queue pair, as its driver or its context asks for.
    pub(super) fn fail_pair(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) {
        self.attend(number, now, fabric, |parts| {
            let was = std::mem::replace(&mut parts.host.core.state, QueuePairState::Error);
            if let Some(connection) = parts.connection {
                connection.fail(parts.host);
            }
            if !matches!(was, QueuePairState::Reset | QueuePairState::Error) {
                parts.host.terminate();
            }
        });
    }

    /// Sends a queue pair's answers ahead of its turn: it will not get another.
    pub(super) fn answer(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) {
        self.attend(number, now, fabric, |parts| {
            if let Some(connection) = parts.connection {
                connection.answer(parts.host);
            }
        });
    }

    /// Lets a queue pair send a burst.
    pub(super) fn advance_pair(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) {
        if fabric.is_congested(self.port) {
            return self.schedule.make_ready(number);
        }
        let progress = self.attend(number, now, fabric, |parts| match parts.connection {
            Some(connection) => connection.advance(now, parts.host),
            None => parts.host.send_datagrams(),
        });
        if progress == Some(Progress::More) {
            self.schedule.make_ready(number);
        }
    }

    /// Whether a queue pair's context is where it was put. If not, the queue pair fails.
    pub(super) fn has_context(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) -> bool {
        if self.contexts.has(context::queue_pair(number), self.memory.space()) {
            return true;
        }
        self.counters.lost_contexts += 1;
        self.log.note(format_args!(
            "queue pair {number:#x}: its context is not in the backing store any more"
        ));
        self.attend(number, now, fabric, |parts| {
            if parts.host.core.state != QueuePairState::Error {
                parts.host.fail(Status::LocalQpOperation);
                if let Some(connection) = parts.connection {
                    connection.fail(parts.host);
                }
            }
        });
        false
    }
}

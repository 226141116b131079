//! The NIC as a connection of one of its queue pairs sees it: entries in, completions and packets
//! out.

use super::completion_queue::{CompletionQueue, Written};
use super::datagram::Sources;
use super::queue_pair::{Core, InFlight, State};
use super::registration::Changeable;
use super::send::{self, Limits};
use super::shared_receive::SharedReceives;
use super::{Counters, Event, EventSink, Log, Service, Statistics};
use crate::fabric::{Fabric, Port};
use crate::memory::{AddressSpace, Memory};
use crate::rc::{
    Failure, Host, NakCode, Packet, Receive, ReceiveCompletion, ReceiveKind, Request, Status,
};
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::{
    Completion, CompletionOpcode, ErrorCompletion, OpcodeOwner, QueueWord, SourceWord, Syndrome,
    UserIndexWord,
};
use doorbell::mlx5::abi::wqe::CompletionMode;
use std::collections::BTreeMap;
use zerocopy::FromZeros;
use zerocopy::big_endian::{U16, U32, U64};

/// What of the NIC a connection may use while one of its methods runs.
pub(super) struct Attendant<'a> {
    pub(super) now: u64,
    pub(super) core: &'a mut Core,
    pub(super) memory: &'a mut Memory,
    pub(super) queues: &'a mut BTreeMap<u32, CompletionQueue>,
    pub(super) domains: &'a mut BTreeMap<u32, u32>,
    pub(super) changeable: &'a mut BTreeMap<u32, Changeable>,
    pub(super) shared: &'a mut BTreeMap<u32, SharedReceives>,
    pub(super) fabric: &'a mut dyn Fabric,
    pub(super) port: Port,
    pub(super) link_up: bool,
    pub(super) sources: &'a Sources,
    pub(super) limits: Limits,
    pub(super) events: &'a dyn EventSink,
    pub(super) counters: &'a mut Counters,
    pub(super) statistics: &'a mut Statistics,
    pub(super) log: &'a mut Log,
}

impl Host for Attendant<'_> {
    fn memory(&self) -> &Memory {
        self.memory
    }

    fn memory_mut(&mut self) -> &mut Memory {
        self.memory
    }

    fn transmit(&mut self, packet: Packet) {
        let Some(path) = self.core.path.filter(|_| self.link_up) else {
            self.counters.packets_dropped += u64::from(packet.run);
            return;
        };
        self.counters.packets_sent += u64::from(packet.run);
        self.statistics.packet_sent(self.core.counter_set(), &packet);
        self.fabric.send(self.now, self.port, path.source, path.destination, packet);
    }

    fn sent_again(&mut self, packets: u32) {
        self.counters.packets_sent_again += u64::from(packets);
    }

    fn next_request(&mut self) -> Option<Request> {
        if self.core.state != State::ReadyToSend {
            return None;
        }
        let space = self.memory.space();
        self.core.fetch_send(space, self.limits, self.counters, self.log)
    }

    fn local_operation(&mut self, entry: u64) -> Status {
        let index = entry as u16;
        let taken = self.core.in_flight.iter_mut().find(|taken| taken.index == index);
        match taken.and_then(|taken| taken.change.take()) {
            Some(change) => self.change_key(&change),
            None => Status::Success,
        }
    }

    fn complete_send(&mut self, request: &Request, status: Status) {
        let Some(in_flight) = self.core.in_flight.pop_front() else { return };
        self.write_send(&in_flight, status, send::bytes_in(request));
    }

    fn next_receive(&mut self, extended: Option<u32>) -> Option<Receive> {
        self.fetch_receive(extended)
    }

    fn extended_domain(&self, number: u32) -> Option<u32> {
        let shared = self.shared.get(&number)?;
        let domain = shared.extended()?.domain;
        let allowed = self.core.context.service == Service::ExtendedConnected { domain };
        allowed.then(|| shared.protection_domain())
    }

    fn complete_receive(&mut self, completion: ReceiveCompletion) {
        let index = completion.entry as u16;
        if completion.status != Status::Success {
            return self.write_receive_error(completion.entry, completion.status);
        }
        let opcode = match (completion.kind, completion.immediate, completion.invalidated) {
            (ReceiveKind::WriteImmediate, ..) => CompletionOpcode::ReceiveWriteImmediate,
            (ReceiveKind::Send, Some(_), _) => CompletionOpcode::ReceiveSendImmediate,
            (ReceiveKind::Send, None, Some(_)) => CompletionOpcode::ReceiveSendInvalidate,
            (ReceiveKind::Send, None, None) => CompletionOpcode::ReceiveSend,
        };
        let (queue, user_index) = self.receive_end(completion.entry);
        let mut entry = self.blank(opcode, 0, index);
        entry.srqn_uidx = UserIndexWord::new().with_user_index(U24::truncate(user_index));
        entry.op_own.set_solicited(completion.solicited);
        entry.byte_cnt = U32::new(completion.length);
        let word = completion.immediate.or(completion.invalidated);
        entry.imm_inval_pkey = U32::new(word.unwrap_or(0));
        let peer = self.core.attributes.peer.unwrap_or(0);
        let global = matches!(
            self.core.path,
            Some(super::Path { destination: crate::fabric::Address::Gid(_), .. })
        );
        entry.flags_rqpn =
            SourceWord::new().with_queue_pair(U24::truncate(peer)).with_global_route(global.into());
        self.put(queue, &entry, completion.solicited, false);
    }

    fn established(&mut self) {
        if self.core.state == State::ReadyToReceive {
            self.raise(Event::CommunicationEstablished { pair: self.core.number });
        }
    }

    fn failed(&mut self, cause: Failure) {
        let pair = self.core.number;
        self.core.state = State::Error;
        match cause {
            Failure::Request(status) => {
                self.log.note(format_args!("queue pair {pair:#x} failed: {status}"));
            }
            Failure::Peer { nak, receive, refusal } => {
                if let Some(refusal) = refusal {
                    self.counters.refused_accesses += 1;
                    self.log.note(format_args!("queue pair {pair:#x}: its peer: {refusal}"));
                }
                self.log.note(format_args!("queue pair {pair:#x} refused its peer: {nak:?}"));
                if receive.is_none() {
                    self.raise(match nak {
                        NakCode::RemoteAccess => Event::QueuePairAccessError { pair },
                        NakCode::InvalidRequest => Event::QueuePairRequestError { pair },
                        _ => Event::QueuePairFatal { pair },
                    });
                }
            }
            Failure::Owner => {}
        }
    }
}

impl Attendant<'_> {
    pub(super) fn space(&self) -> &dyn AddressSpace {
        self.memory.space()
    }

    pub(super) fn raise(&mut self, event: Event) {
        self.counters.asynchronous_events += 1;
        self.log.note(event);
        self.events.asynchronous(event);
    }

    /// The completion of a send entry, if it has one.
    pub(super) fn write_send(&mut self, entry: &InFlight, status: Status, bytes: u32) {
        if status == Status::Success {
            let always = entry.completion == CompletionMode::AlwaysWithEvent;
            if always || entry.completion == CompletionMode::Always {
                let mut completion =
                    self.blank(CompletionOpcode::Request, entry.opcode, entry.index);
                completion.byte_cnt = U32::new(bytes);
                self.put(self.core.context.send_queue, &completion, false, always);
            }
            return;
        }
        if entry.completion != CompletionMode::OnFirstError || !self.core.had_error {
            let (queue, user_index) = (self.core.context.send_queue, self.core.context.user_index);
            let mut completion = self.blank_error(CompletionOpcode::RequestError, status);
            completion.srqn = UserIndexWord::new().with_user_index(U24::truncate(user_index));
            completion.s_wqe_opcode_qpn.set_opcode(entry.opcode);
            completion.wqe_counter = U16::new(entry.index);
            self.put(queue, completion.as_completion(), true, false);
        }
        self.core.had_error = true;
    }

    /// Flushes what the queue pair in error has posted and its connection never took.
    pub(super) fn flush(&mut self) {
        if let Ok(counter) = self.core.send_counter(self.memory.space()) {
            self.core.announce(counter, self.log);
        }
        // A message of which some packets are out already.
        if self.core.unreliable.take_outgoing().is_some()
            && let Some(entry) = self.core.in_flight.pop_front()
        {
            self.write_send(&entry, Status::WrFlushed, 0);
        }
        loop {
            let space = self.memory.space();
            let request = self.core.fetch_send(space, self.limits, self.counters, self.log);
            if request.is_none() {
                break;
            }
            if let Some(entry) = self.core.in_flight.pop_back() {
                self.write_send(&entry, Status::WrFlushed, 0);
            }
        }
        if let Some(receive) = self.core.unreliable.take_receive() {
            self.write_receive_error(receive.entry, Status::WrFlushed);
        }
        // Receives of a shared queue are for others.
        while self.core.context.shared_receives.is_none()
            && let Some(receive) = self.fetch_receive(None)
        {
            self.write_receive_error(receive.entry, Status::WrFlushed);
        }
    }

    /// A successful completion with what all have.
    pub(super) fn blank(&self, opcode: CompletionOpcode, operation: u8, index: u16) -> Completion {
        let mut completion = Completion::new_zeroed();
        completion.op_own = OpcodeOwner::new().with_kind(opcode);
        completion.srqn_uidx =
            UserIndexWord::new().with_user_index(U24::truncate(self.core.context.user_index));
        completion.sop_drop_qpn = QueueWord::new()
            .with_queue_pair(U24::truncate(self.core.number))
            .with_opcode(operation);
        completion.wqe_counter = U16::new(index);
        completion.timestamp = U64::new(self.now);
        completion
    }

    /// The completion of a receive that went wrong.
    pub(super) fn write_receive_error(&mut self, entry: u64, status: Status) {
        let (queue, user_index) = self.receive_end(entry);
        let mut completion = self.blank_error(CompletionOpcode::ReceiveError, status);
        completion.srqn = UserIndexWord::new().with_user_index(U24::truncate(user_index));
        completion.wqe_counter = U16::new(entry as u16);
        self.put(queue, completion.as_completion(), true, false);
    }

    /// An error completion with what all have.
    fn blank_error(&mut self, opcode: CompletionOpcode, status: Status) -> ErrorCompletion {
        let mut completion = ErrorCompletion::new_zeroed();
        completion.op_own = OpcodeOwner::new().with_kind(opcode);
        completion.s_wqe_opcode_qpn =
            QueueWord::new().with_queue_pair(U24::truncate(self.core.number));
        completion.syndrome = syndrome(status).code();
        completion.vendor_err_synd = vendor_syndrome(status);
        self.counters.error_completions += 1;
        if status != Status::WrFlushed {
            self.log.note(format_args!("queue pair {:#x}: {opcode:?}: {status}", self.core.number));
        }
        completion
    }

    /// Writes a completion into completion queue `number`.
    pub(super) fn put(
        &mut self,
        number: u32,
        completion: &Completion,
        announced: bool,
        always: bool,
    ) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let space = self.memory.space();
        let written = queue.write(space, completion, announced, always, self.counters, self.log);
        match written {
            Written::Quietly => {}
            Written::WithEvent => {
                self.counters.completion_events += 1;
                self.events.completion(number);
            }
            Written::Failed => {
                self.raise(Event::CompletionQueueError { queue: number });
                self.lose();
            }
            Written::Nowhere => self.lose(),
        }
    }

    /// A completion has nowhere to go: the queue pair fails, and only an event can say so.
    fn lose(&mut self) {
        if !self.core.lost_completion {
            self.core.lost_completion = true;
            self.raise(Event::QueuePairFatal { pair: self.core.number });
        }
    }
}

/// The syndrome that tells a status.
fn syndrome(status: Status) -> Syndrome {
    match status {
        // There is no error completion of a success.
        Status::Success => Syndrome::Other(0),
        Status::LocalLength => Syndrome::LocalLength,
        Status::LocalQpOperation => Syndrome::LocalQueuePairOperation,
        Status::LocalProtection => Syndrome::LocalProtection,
        Status::WrFlushed => Syndrome::Flushed,
        Status::MemoryWindowBind => Syndrome::MemoryWindowBind,
        Status::BadResponse => Syndrome::BadResponse,
        Status::LocalAccess => Syndrome::LocalAccess,
        Status::RemoteInvalidRequest => Syndrome::RemoteInvalidRequest,
        Status::RemoteAccess => Syndrome::RemoteAccess,
        Status::RemoteOperational => Syndrome::RemoteOperation,
        Status::TransportRetryExceeded => Syndrome::TransportRetryExceeded,
        Status::RnrRetryExceeded => Syndrome::ReceiverNotReadyRetryExceeded,
        Status::RemoteAborted => Syndrome::RemoteAborted,
    }
}

/// The maker's own number beside a syndrome. Flushes have 0xf9 and 0xf5 on ConnectX; nobody may
/// rely on them, so here they only differ from zero.
fn vendor_syndrome(status: Status) -> u8 {
    0x80 | syndrome(status).code()
}

//! The answering half of a connection: the peer's packets to memory, receives and answers.
//!
//! Requests are executed as they come in; answers wait in a queue until
//! [`Connection::advance`](super::Connection::advance), because a read's answer is many packets.
//! Answers leave in the order of their PSNs: an acknowledgement that overtook a read's answer would
//! tell the requester that the answer was lost.

use super::{
    Aeth, AtomicEth, Attributes, Failure, Headers, Host, NakCode, Opcode, Packet, Psn, Receive,
    ReceiveCompletion, ReceiveKind, Reth, Status, Syndrome,
};
use crate::memory::{Payload, Refusal, Right};
use std::collections::VecDeque;

/// The longest message, in bytes (IBTA vol. 1, 9.7.6).
pub(super) const MAX_MESSAGE: u64 = 1 << 31;

/// The answering half of a connection.
pub(super) struct Responder {
    /// The PSN of the next new request.
    expected: Psn,
    /// Messages completed, 24 bits.
    message_sequence: u32,
    /// A NAK went out for `expected`: what is not `expected` is dropped quietly until it comes.
    nak_sent: bool,
    /// The message of which some packets came in.
    message: Option<Message>,
    /// What is still to be sent, in the order of PSNs.
    answers: VecDeque<Answer>,
    /// Results of the last atomics, for requests that come again. As many as responder resources.
    atomics: VecDeque<(Psn, u64)>,
    /// The peer did something that is not allowed. The connection fails when the NAK went out.
    refused: Option<Failure>,
}

/// A message of which some packets came in.
enum Message {
    Send { receive: Receive, received: u64 },
    Write { reth: Reth, received: u32 },
}

enum Answer {
    Acknowledge { psn: Psn, syndrome: Syndrome, message_sequence: u32 },
    Atomic { psn: Psn, was: u64, message_sequence: u32 },
    Read(ReadAnswer),
}

struct ReadAnswer {
    /// The PSN of the next packet, and the one after the last.
    psn: Psn,
    end: Psn,
    /// What is left to read.
    reth: Reth,
    /// No packet has been sent yet.
    first: bool,
    message_sequence: u32,
}

impl Answer {
    fn psn(&self) -> Psn {
        match self {
            Answer::Acknowledge { psn, .. } | Answer::Atomic { psn, .. } => *psn,
            Answer::Read(read) => read.psn,
        }
    }
}

/// Why a request is not executed.
enum Refused {
    /// There is no receive for it.
    NotReady,
    /// The peer may not do this. The message's receive, if it has one, gets the status.
    Nak(NakCode, Status, Option<Refusal>),
}

/// The request is malformed, out of order, or not for this queue pair.
const INVALID: Refused = Refused::Nak(NakCode::InvalidRequest, Status::RemoteInvalidRequest, None);

/// An access to the peer's choice of memory was refused.
fn no_access(refusal: Refusal) -> Refused {
    match refusal {
        Refusal::Misaligned { .. } => {
            Refused::Nak(NakCode::InvalidRequest, Status::RemoteInvalidRequest, Some(refusal))
        }
        Refusal::Fault(_) => {
            Refused::Nak(NakCode::RemoteOperational, Status::LocalQpOperation, Some(refusal))
        }
        _ => Refused::Nak(NakCode::RemoteAccess, Status::LocalAccess, Some(refusal)),
    }
}

/// Packets of a message of `length` bytes.
pub(super) fn packets(length: u64, mtu: u32) -> u32 {
    length.div_ceil(u64::from(mtu)).max(1) as u32
}

impl Responder {
    pub(super) fn new(expected: Psn) -> Self {
        Responder {
            expected,
            message_sequence: 0,
            nak_sent: false,
            message: None,
            answers: VecDeque::new(),
            atomics: VecDeque::new(),
            refused: None,
        }
    }

    /// Takes in a request packet.
    pub(super) fn receive(
        &mut self,
        attributes: &Attributes,
        packet: &Packet,
        host: &mut impl Host,
    ) {
        if self.refused.is_some() {
            return;
        }
        if packet.psn == self.expected {
            self.nak_sent = false;
            match self.execute(attributes, packet, host) {
                Ok(()) => {}
                Err(Refused::NotReady) => {
                    self.nak_sent = true;
                    self.nak(Syndrome::RnrNak { timer: attributes.rnr_timer & 31 });
                }
                Err(Refused::Nak(nak, status, refusal)) => {
                    self.nak(Syndrome::Nak(nak));
                    let receive = match self.message.take() {
                        Some(Message::Send { receive, .. }) => {
                            host.complete_receive(unsuccessful(receive.entry, status));
                            Some(status)
                        }
                        _ => None,
                    };
                    self.refused = Some(Failure::Peer { nak, receive, refusal });
                }
            }
        } else if packet.psn.is_before(self.expected) {
            self.execute_again(attributes, packet, host);
        } else if !self.nak_sent {
            self.nak_sent = true;
            self.nak(Syndrome::Nak(NakCode::SequenceError));
        }
    }

    /// Executes the request that is next in order.
    fn execute(
        &mut self,
        attributes: &Attributes,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        use Opcode::*;
        let mtu = attributes.mtu.bytes();
        let len = packet.payload.len();
        let right_length =
            match packet.opcode {
                SendFirst | SendMiddle | WriteFirst | WriteMiddle => len == mtu as usize,
                SendLast | SendLastImmediate | SendLastInvalidate | WriteLast
                | WriteLastImmediate => 1 <= len && len <= mtu as usize,
                SendOnly | SendOnlyImmediate | SendOnlyInvalidate | WriteOnly
                | WriteOnlyImmediate => len <= mtu as usize,
                _ => len == 0,
            };
        if !right_length {
            return Err(INVALID);
        }
        let access = attributes.peer_access;
        match (packet.opcode, &self.message) {
            (SendFirst | SendOnly | SendOnlyImmediate | SendOnlyInvalidate, None) => {
                let receive = host.next_receive().ok_or(Refused::NotReady)?;
                self.message = Some(Message::Send { receive, received: 0 });
                self.send(attributes, packet, host)
            }
            (
                SendMiddle | SendLast | SendLastImmediate | SendLastInvalidate,
                Some(Message::Send { .. }),
            ) => self.send(attributes, packet, host),
            (WriteFirst | WriteOnly | WriteOnlyImmediate, None) => {
                let (Headers::Remote(reth) | Headers::RemoteImmediate(reth, _)) = packet.headers
                else {
                    return Err(INVALID);
                };
                if !access.remote_write {
                    return Err(INVALID);
                }
                check_remote(attributes, Right::RemoteWrite, reth, host)?;
                self.message = Some(Message::Write { reth, received: 0 });
                let result = self.write(attributes, packet, host);
                if matches!(result, Err(Refused::NotReady)) {
                    // The packet will come again, as the first of its message.
                    self.message = None;
                }
                result
            }
            (WriteMiddle | WriteLast | WriteLastImmediate, Some(Message::Write { .. })) => {
                self.write(attributes, packet, host)
            }
            (ReadRequest, None) => {
                let Headers::Remote(reth) = packet.headers else { return Err(INVALID) };
                let resources = usize::from(attributes.responder_resources);
                if !access.remote_read || self.pending_reads() >= resources {
                    return Err(INVALID);
                }
                check_remote(attributes, Right::RemoteRead, reth, host)?;
                let psn = self.expected;
                self.expected = psn.add(packets(reth.length.into(), mtu));
                self.completed_message();
                self.answers.push_back(Answer::Read(ReadAnswer {
                    psn,
                    end: self.expected,
                    reth,
                    first: true,
                    message_sequence: self.message_sequence,
                }));
                Ok(())
            }
            (CompareSwap | FetchAdd, None) => {
                let Headers::Atomic(atomic) = packet.headers else { return Err(INVALID) };
                if !access.remote_atomic || attributes.responder_resources == 0 {
                    return Err(INVALID);
                }
                self.atomic(attributes, packet.opcode, atomic, host)
            }
            _ => Err(INVALID),
        }
    }

    /// A packet of the send in progress.
    fn send(
        &mut self,
        attributes: &Attributes,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        let Some(Message::Send { receive, received }) = &mut self.message else {
            return Err(INVALID);
        };
        let domain = attributes.protection_domain;
        host.memory().scatter(domain, &receive.list, *received, &packet.payload).map_err(
            |refusal| match refusal {
                Refusal::ListTooShort { .. } => {
                    Refused::Nak(NakCode::InvalidRequest, Status::LocalLength, Some(refusal))
                }
                _ => {
                    Refused::Nak(NakCode::RemoteOperational, Status::LocalProtection, Some(refusal))
                }
            },
        )?;
        *received += packet.payload.len() as u64;
        let received = *received;
        if received > MAX_MESSAGE {
            return Err(INVALID);
        }
        if !matches!(packet.opcode, Opcode::SendFirst | Opcode::SendMiddle) {
            let invalidated = match packet.headers {
                Headers::Invalidate(key) => {
                    host.memory_mut().keys.invalidate(key, domain, true).map_err(|refusal| {
                        Refused::Nak(NakCode::RemoteAccess, Status::MemoryWindowBind, Some(refusal))
                    })?;
                    Some(key)
                }
                _ => None,
            };
            if let Some(Message::Send { receive, .. }) = self.message.take() {
                host.complete_receive(ReceiveCompletion {
                    entry: receive.entry,
                    status: Status::Success,
                    kind: ReceiveKind::Send,
                    length: received as u32,
                    immediate: immediate(packet),
                    invalidated,
                    solicited: packet.solicited,
                });
            }
            self.completed_message();
        }
        self.executed(packet);
        Ok(())
    }

    /// A packet of the write in progress.
    fn write(
        &mut self,
        attributes: &Attributes,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        let Some(Message::Write { reth, received }) = &mut self.message else {
            return Err(INVALID);
        };
        let last = !matches!(packet.opcode, Opcode::WriteFirst | Opcode::WriteMiddle);
        let left = reth.length - *received;
        let len = packet.payload.len() as u32;
        if if last { len != left } else { len >= left } {
            return Err(INVALID);
        }
        let immediate = immediate(packet);
        let receive = match immediate {
            Some(_) => Some(host.next_receive().ok_or(Refused::NotReady)?),
            None => None,
        };
        let address = reth.address.wrapping_add((*received).into());
        let (rkey, length) = (reth.rkey, reth.length);
        *received += len;
        let domain = attributes.protection_domain;
        let written = host.memory().write_remote(domain, rkey, address, &packet.payload);
        if let Some(receive) = receive {
            host.complete_receive(match &written {
                Ok(()) => ReceiveCompletion {
                    entry: receive.entry,
                    status: Status::Success,
                    kind: ReceiveKind::WriteImmediate,
                    length,
                    immediate,
                    invalidated: None,
                    solicited: packet.solicited,
                },
                Err(_) => unsuccessful(receive.entry, Status::LocalAccess),
            });
        }
        written.map_err(no_access)?;
        if last {
            self.message = None;
            self.completed_message();
        }
        self.executed(packet);
        Ok(())
    }

    fn atomic(
        &mut self,
        attributes: &Attributes,
        opcode: Opcode,
        atomic: AtomicEth,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        let AtomicEth { address, rkey, swap_add, compare } = atomic;
        let domain = attributes.protection_domain;
        let memory = host.memory();
        let was = match opcode {
            Opcode::FetchAdd => memory.fetch_add(domain, rkey, address, swap_add),
            _ => memory.compare_swap(domain, rkey, address, compare, swap_add),
        }
        .map_err(no_access)?;
        let psn = self.expected;
        self.expected = psn.add(1);
        self.completed_message();
        if self.atomics.len() >= usize::from(attributes.responder_resources) {
            self.atomics.pop_front();
        }
        self.atomics.push_back((psn, was));
        let message_sequence = self.message_sequence;
        self.answers.push_back(Answer::Atomic { psn, was, message_sequence });
        Ok(())
    }

    /// A request comes again: writes and sends are acknowledged, reads are read again, atomics are
    /// answered from memory. What cannot be is dropped: the requester will try again, or give up.
    fn execute_again(&mut self, attributes: &Attributes, packet: &Packet, host: &mut impl Host) {
        let message_sequence = self.message_sequence;
        match (packet.opcode, packet.headers) {
            (Opcode::ReadRequest, Headers::Remote(reth)) => {
                let count = packets(reth.length.into(), attributes.mtu.bytes());
                if u64::from(reth.length) > MAX_MESSAGE
                    || count > self.expected.since(packet.psn)
                    || !attributes.peer_access.remote_read
                    || check_remote(attributes, Right::RemoteRead, reth, host).is_err()
                {
                    return;
                }
                self.read_again(
                    attributes,
                    ReadAnswer {
                        psn: packet.psn,
                        end: packet.psn.add(count),
                        reth,
                        first: true,
                        message_sequence,
                    },
                );
            }
            (Opcode::CompareSwap | Opcode::FetchAdd, _) => {
                let psn = packet.psn;
                let Some(&(_, was)) = self.atomics.iter().find(|saved| saved.0 == psn) else {
                    return;
                };
                let waits = self.answers.iter().any(
                    |answer| matches!(answer, Answer::Atomic { psn: other, .. } if *other == psn),
                );
                if !waits {
                    self.insert(Answer::Atomic { psn, was, message_sequence });
                }
            }
            (Opcode::ReadRequest, _) => {}
            _ => self.acknowledge(),
        }
    }

    fn read_again(&mut self, attributes: &Attributes, read: ReadAnswer) {
        let room = self.pending_reads() < usize::from(attributes.responder_resources);
        // A part of the same read may still wait to be sent.
        let end = read.end;
        let same = self.answers.iter_mut().find_map(|answer| match answer {
            Answer::Read(other) if other.end == end => Some(other),
            _ => None,
        });
        match same {
            Some(other) if read.psn.is_before(other.psn) => *other = read,
            Some(_) => {}
            None if room => self.insert(Answer::Read(read)),
            None => {}
        }
    }

    /// Puts an answer where its PSN belongs.
    fn insert(&mut self, answer: Answer) {
        let psn = answer.psn();
        let at = self.answers.iter().take_while(|other| other.psn().is_before(psn)).count();
        self.answers.insert(at, answer);
    }

    fn pending_reads(&self) -> usize {
        self.answers.iter().filter(|answer| matches!(answer, Answer::Read(_))).count()
    }

    /// A packet of a send or write was executed.
    fn executed(&mut self, packet: &Packet) {
        self.expected = self.expected.add(1);
        if packet.ack_request {
            self.acknowledge();
        }
    }

    fn completed_message(&mut self) {
        self.message_sequence = (self.message_sequence + 1) & 0xff_ffff;
    }

    /// Acknowledges everything before the expected PSN, with one packet for many.
    fn acknowledge(&mut self) {
        let answer = Answer::Acknowledge {
            psn: self.expected.add(Psn::COUNT - 1),
            // Receives are not counted out to the peer: it learns that there is none by a NAK.
            syndrome: Syndrome::Ack { credits: 31 },
            message_sequence: self.message_sequence,
        };
        // A NAK that waits is about the expected PSN, which this is before.
        let expected = self.expected;
        let is_nak =
            |answer: &Answer| matches!(answer, Answer::Acknowledge { psn, .. } if *psn == expected);
        let at = self.answers.len() - self.answers.iter().rev().take_while(|a| is_nak(a)).count();
        match at.checked_sub(1).and_then(|before| self.answers.get_mut(before)) {
            Some(last @ Answer::Acknowledge { syndrome: Syndrome::Ack { .. }, .. }) => {
                *last = answer;
            }
            _ => self.answers.insert(at, answer),
        }
    }

    fn nak(&mut self, syndrome: Syndrome) {
        self.answers.push_back(Answer::Acknowledge {
            psn: self.expected,
            syndrome,
            message_sequence: self.message_sequence,
        });
    }

    /// Whether an answer waits to be sent.
    pub(super) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Sends answers, at most `budget` packets, which it counts down. The error is why the
    /// connection must fail now.
    pub(super) fn advance(
        &mut self,
        attributes: &Attributes,
        budget: &mut u32,
        host: &mut impl Host,
    ) -> Result<(), Failure> {
        while *budget > 0 {
            let Some(answer) = self.answers.front_mut() else { break };
            *budget -= 1;
            match answer {
                Answer::Acknowledge { psn, syndrome, message_sequence } => {
                    let aeth = Aeth { syndrome: *syndrome, message_sequence: *message_sequence };
                    let headers = Headers::Ack(aeth);
                    let opcode = Opcode::Acknowledge;
                    host.transmit(response(attributes, opcode, *psn, headers, Payload::Empty));
                    self.answers.pop_front();
                }
                Answer::Atomic { psn, was, message_sequence } => {
                    let headers = Headers::AtomicAck(positive(*message_sequence), *was);
                    let opcode = Opcode::AtomicAcknowledge;
                    host.transmit(response(attributes, opcode, *psn, headers, Payload::Empty));
                    self.answers.pop_front();
                }
                Answer::Read(read) => match read.packet(attributes, host) {
                    Ok(packet) => {
                        host.transmit(packet);
                        if read.psn == read.end {
                            self.answers.pop_front();
                        }
                    }
                    Err(refused) => return Err(self.read_failed(attributes, refused, host)),
                },
            }
        }
        match self.refused {
            // The NAK was the last answer.
            Some(failure) if self.answers.is_empty() => Err(failure),
            _ => Ok(()),
        }
    }

    /// The memory of a read that was accepted is not to be read any more. The answer is a NAK in
    /// place of the packet.
    fn read_failed(
        &mut self,
        attributes: &Attributes,
        refused: Refused,
        host: &mut impl Host,
    ) -> Failure {
        let (nak, refusal) = match refused {
            Refused::Nak(nak, _, refusal) => (nak, refusal),
            Refused::NotReady => (NakCode::RemoteOperational, None),
        };
        if let Some(Answer::Read(read)) = self.answers.pop_front() {
            let syndrome = Syndrome::Nak(nak);
            let headers = Headers::Ack(Aeth { syndrome, message_sequence: read.message_sequence });
            let opcode = Opcode::Acknowledge;
            host.transmit(response(attributes, opcode, read.psn, headers, Payload::Empty));
        }
        Failure::Peer { nak, receive: None, refusal }
    }

    /// The connection failed: flushes the receive of a message in progress.
    pub(super) fn flush(&mut self, host: &mut impl Host) {
        self.answers.clear();
        if let Some(Message::Send { receive, .. }) = self.message.take() {
            host.complete_receive(unsuccessful(receive.entry, Status::WrFlushed));
        }
    }
}

impl ReadAnswer {
    /// The next packet of the answer.
    fn packet(&mut self, attributes: &Attributes, host: &impl Host) -> Result<Packet, Refused> {
        let len = self.reth.length.min(attributes.mtu.bytes());
        let Reth { address, rkey, .. } = self.reth;
        let payload = host
            .memory()
            .read_remote(attributes.protection_domain, rkey, address, len as usize)
            .map_err(no_access)?;
        let last = self.psn.add(1) == self.end;
        let opcode = match (self.first, last) {
            (true, true) => Opcode::ReadResponseOnly,
            (true, false) => Opcode::ReadResponseFirst,
            (false, false) => Opcode::ReadResponseMiddle,
            (false, true) => Opcode::ReadResponseLast,
        };
        let headers = match opcode {
            Opcode::ReadResponseMiddle => Headers::Plain,
            _ => Headers::Ack(positive(self.message_sequence)),
        };
        let packet = response(attributes, opcode, self.psn, headers, payload);
        self.first = false;
        self.psn = self.psn.add(1);
        self.reth.address = address.wrapping_add(len.into());
        self.reth.length -= len;
        Ok(packet)
    }
}

/// Checks the whole range that a request names. A request for no bytes names none.
fn check_remote(
    attributes: &Attributes,
    right: Right,
    reth: Reth,
    host: &impl Host,
) -> Result<(), Refused> {
    if u64::from(reth.length) > MAX_MESSAGE {
        return Err(INVALID);
    }
    if reth.length == 0 {
        return Ok(());
    }
    let keys = &host.memory().keys;
    let domain = attributes.protection_domain;
    match keys.check(reth.rkey, domain, right, reth.address, reth.length.into()) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(no_access(refusal)),
    }
}

fn immediate(packet: &Packet) -> Option<u32> {
    match packet.headers {
        Headers::Immediate(word) | Headers::RemoteImmediate(_, word) => Some(word),
        _ => None,
    }
}

fn unsuccessful(entry: u64, status: Status) -> ReceiveCompletion {
    ReceiveCompletion {
        entry,
        status,
        kind: ReceiveKind::Send,
        length: 0,
        immediate: None,
        invalidated: None,
        solicited: false,
    }
}

fn positive(message_sequence: u32) -> Aeth {
    Aeth { syndrome: Syndrome::Ack { credits: 31 }, message_sequence }
}

fn response(
    attributes: &Attributes,
    opcode: Opcode,
    psn: Psn,
    headers: Headers,
    payload: Payload,
) -> Packet {
    Packet {
        opcode,
        solicited: false,
        partition_key: attributes.partition_key,
        destination: attributes.peer,
        ack_request: false,
        psn,
        headers,
        payload,
    }
}

//! The answering half of a connection: the peer's packets to memory, receives and answers.
//!
//! Requests are executed as they come in; their answers wait in [`Answers`].

use super::answers::{Answers, nak_code};
use super::{
    AtomicEth, Attributes, Failure, Headers, Host, NakCode, Opcode, Packet, Psn, Receive,
    ReceiveCompletion, ReceiveKind, Reth, Status, Syndrome,
};
use crate::memory::{Refusal, Right};
use std::collections::VecDeque;

/// The longest message, in bytes (IBTA vol. 1, chapter 9).
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
    answers: Answers,
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
    Refused::Nak(nak_code(refusal), Status::LocalAccess, Some(refusal))
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
            answers: Answers::default(),
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
        let (mtu_bytes, run) = (mtu as usize, usize::from(packet.run.max(1)));
        let right_length =
            match packet.opcode {
                SendMiddle | WriteMiddle => len == mtu_bytes * run,
                _ if run > 1 => false,
                SendFirst | WriteFirst => len == mtu_bytes,
                SendLast | SendLastImmediate | SendLastInvalidate | WriteLast
                | WriteLastImmediate => 1 <= len && len <= mtu_bytes,
                SendOnly | SendOnlyImmediate | SendOnlyInvalidate | WriteOnly
                | WriteOnlyImmediate => len <= mtu_bytes,
                _ => len == 0,
            };
        if !right_length {
            return Err(INVALID);
        }
        let access = attributes.peer_access;
        let domain = domain_of(attributes, packet, host).ok_or(INVALID)?;
        match (packet.opcode, &self.message) {
            (SendFirst | SendOnly | SendOnlyImmediate | SendOnlyInvalidate, None) => {
                let receive = host.next_receive(packet.extended).ok_or(Refused::NotReady)?;
                self.message = Some(Message::Send { receive, received: 0 });
                self.send(domain, packet, host)
            }
            (
                SendMiddle | SendLast | SendLastImmediate | SendLastInvalidate,
                Some(Message::Send { .. }),
            ) => self.send(domain, packet, host),
            (WriteFirst | WriteOnly | WriteOnlyImmediate, None) => {
                let (Headers::Remote(reth) | Headers::RemoteImmediate(reth, _)) = packet.headers
                else {
                    return Err(INVALID);
                };
                if !access.remote_write {
                    return Err(INVALID);
                }
                check_remote(domain, Right::RemoteWrite, reth, host)?;
                self.message = Some(Message::Write { reth, received: 0 });
                let result = self.write(domain, packet, host);
                if matches!(result, Err(Refused::NotReady)) {
                    // The packet will come again, as the first of its message.
                    self.message = None;
                }
                result
            }
            (WriteMiddle | WriteLast | WriteLastImmediate, Some(Message::Write { .. })) => {
                self.write(domain, packet, host)
            }
            (ReadRequest, None) => {
                let Headers::Remote(reth) = packet.headers else { return Err(INVALID) };
                let resources = usize::from(attributes.responder_resources);
                if !access.remote_read || self.answers.awaited_reads() >= resources {
                    return Err(INVALID);
                }
                check_remote(domain, Right::RemoteRead, reth, host)?;
                let psn = self.expected;
                self.expected = psn.add(packets(reth.length.into(), mtu));
                self.completed_message();
                self.answers.read(psn, self.expected, reth, domain, self.message_sequence);
                Ok(())
            }
            (CompareSwap | FetchAdd, None) => {
                let Headers::Atomic(atomic) = packet.headers else { return Err(INVALID) };
                if !access.remote_atomic || attributes.responder_resources == 0 {
                    return Err(INVALID);
                }
                self.atomic(attributes, domain, packet.opcode, atomic, host)
            }
            _ => Err(INVALID),
        }
    }

    /// A packet of the send in progress.
    fn send(&mut self, domain: u32, packet: &Packet, host: &mut impl Host) -> Result<(), Refused> {
        let Some(Message::Send { receive, received }) = &mut self.message else {
            return Err(INVALID);
        };
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
    fn write(&mut self, domain: u32, packet: &Packet, host: &mut impl Host) -> Result<(), Refused> {
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
            Some(_) => Some(host.next_receive(packet.extended).ok_or(Refused::NotReady)?),
            None => None,
        };
        let address = reth.address.wrapping_add((*received).into());
        let (rkey, length) = (reth.rkey, reth.length);
        *received += len;
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
        domain: u32,
        opcode: Opcode,
        atomic: AtomicEth,
        host: &mut impl Host,
    ) -> Result<(), Refused> {
        let AtomicEth { address, rkey, swap_add, compare } = atomic;
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
        self.answers.atomic(psn, was, self.message_sequence);
        Ok(())
    }

    /// A request comes again: writes and sends are acknowledged, reads are read again, atomics are
    /// answered from memory. What cannot be is dropped: the requester will try again, or give up.
    fn execute_again(&mut self, attributes: &Attributes, packet: &Packet, host: &mut impl Host) {
        let (psn, sequence) = (packet.psn, self.message_sequence);
        let Some(domain) = domain_of(attributes, packet, host) else { return };
        match (packet.opcode, packet.headers) {
            (Opcode::ReadRequest, Headers::Remote(reth)) => {
                let count = packets(reth.length.into(), attributes.mtu.bytes());
                if u64::from(reth.length) > MAX_MESSAGE
                    || count > self.expected.since(psn)
                    || !attributes.peer_access.remote_read
                    || check_remote(domain, Right::RemoteRead, reth, host).is_err()
                {
                    return;
                }
                let most = attributes.responder_resources.into();
                self.answers.read_again(psn, psn.add(count), reth, domain, sequence, most);
            }
            (Opcode::CompareSwap | Opcode::FetchAdd, _) => {
                if let Some(&(_, was)) = self.atomics.iter().find(|saved| saved.0 == psn) {
                    self.answers.atomic_again(psn, was, sequence);
                }
            }
            (Opcode::ReadRequest, _) => {}
            _ => self.acknowledge(),
        }
    }

    /// A packet of a send or write was executed.
    fn executed(&mut self, packet: &Packet) {
        self.expected = self.expected.add(packet.run.max(1).into());
        if packet.ack_request {
            self.acknowledge();
        }
    }

    fn completed_message(&mut self) {
        self.message_sequence = (self.message_sequence + 1) & 0xff_ffff;
    }

    /// Acknowledges everything before the expected PSN.
    fn acknowledge(&mut self) {
        self.answers.acknowledge(self.expected, self.message_sequence);
    }

    fn nak(&mut self, syndrome: Syndrome) {
        self.answers.nak(self.expected, syndrome, self.message_sequence);
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
        longest_run: u16,
        budget: &mut u32,
        host: &mut impl Host,
    ) -> Result<(), Failure> {
        if let Err((nak, refusal)) = self.answers.send(attributes, longest_run, budget, host) {
            return Err(Failure::Peer { nak, receive: None, refusal });
        }
        match self.refused {
            // The NAK was the last answer.
            Some(failure) if self.answers.is_empty() => Err(failure),
            _ => Ok(()),
        }
    }

    /// The connection failed: flushes the receive of a message in progress.
    pub(super) fn flush(&mut self, host: &mut impl Host) {
        self.answers.clear();
        if let Some(Message::Send { receive, .. }) = self.message.take() {
            host.complete_receive(unsuccessful(receive.entry, Status::WrFlushed));
        }
    }
}

/// The protection domain of what a request may touch: the queue pair's, or on an extended connection
/// that of the shared receive queue that it names.
fn domain_of(attributes: &Attributes, packet: &Packet, host: &impl Host) -> Option<u32> {
    match packet.extended {
        None => Some(attributes.protection_domain),
        Some(queue) => host.extended_domain(queue),
    }
}

/// Checks the whole range that a request names. A request for no bytes names none.
fn check_remote(domain: u32, right: Right, reth: Reth, host: &impl Host) -> Result<(), Refused> {
    if u64::from(reth.length) > MAX_MESSAGE {
        return Err(INVALID);
    }
    if reth.length == 0 {
        return Ok(());
    }
    let keys = &host.memory().keys;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_around_after_24_bits() {
        let mut responder = Responder::new(Psn::default());
        responder.message_sequence = 0xff_fffe;
        responder.completed_message();
        assert_eq!(responder.message_sequence, 0xff_ffff);
        responder.completed_message();
        assert_eq!(responder.message_sequence, 0);
    }
}

//! The answers that a responder has still to send.
//!
//! They wait until [`Connection::advance`](super::Connection::advance), because a read's answer is
//! many packets, and because one acknowledgement may answer many requests. They leave in the order of
//! their PSNs: an acknowledgement that overtook a read's answer would tell the requester that the
//! answer was lost.

use super::{Aeth, Attributes, Headers, Host, NakCode, Opcode, Packet, Psn, Reth, Syndrome};
use crate::memory::{Payload, Refusal};
use std::collections::VecDeque;

/// The answers that a responder has still to send, in the order of PSNs.
#[derive(Default)]
pub(super) struct Answers(VecDeque<Answer>);

enum Answer {
    Acknowledge { psn: Psn, syndrome: Syndrome, message_sequence: u32 },
    Atomic { psn: Psn, was: u64, message_sequence: u32 },
    Read(Read),
}

struct Read {
    /// The PSN of the next packet, and the one after the last.
    psn: Psn,
    end: Psn,
    /// What is left to read, in this protection domain.
    reth: Reth,
    domain: u32,
    /// No packet has been sent yet.
    first: bool,
    message_sequence: u32,
    /// It was asked for again: the requester may have all of it by now.
    again: bool,
}

impl Answer {
    fn psn(&self) -> Psn {
        match self {
            Answer::Acknowledge { psn, .. } | Answer::Atomic { psn, .. } => *psn,
            Answer::Read(read) => read.psn,
        }
    }
}

impl Answers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn reads(&self) -> usize {
        self.0.iter().filter(|answer| matches!(answer, Answer::Read(_))).count()
    }

    /// The reads among them whose requester certainly waits for them. One that was asked for again may
    /// have been answered by packets that were late: the requester's next read does not wait for it.
    pub(super) fn awaited_reads(&self) -> usize {
        let awaited = |answer: &&Answer| matches!(answer, Answer::Read(Read { again: false, .. }));
        self.0.iter().filter(awaited).count()
    }

    /// Answers the read of `reth` with the packets from `psn` to before `end`.
    pub(super) fn read(
        &mut self,
        psn: Psn,
        end: Psn,
        reth: Reth,
        domain: u32,
        message_sequence: u32,
    ) {
        let read = Read { psn, end, reth, domain, first: true, message_sequence, again: false };
        self.0.push_back(Answer::Read(read));
    }

    /// Answers an atomic.
    pub(super) fn atomic(&mut self, psn: Psn, was: u64, message_sequence: u32) {
        self.0.push_back(Answer::Atomic { psn, was, message_sequence });
    }

    /// Acknowledges everything before `expected`, with one packet for many.
    pub(super) fn acknowledge(&mut self, expected: Psn, message_sequence: u32) {
        let answer = Answer::Acknowledge {
            psn: expected.add(Psn::COUNT - 1),
            // Receives are not counted out to the peer: it learns that there is none by a NAK.
            syndrome: Syndrome::Ack { credits: 31 },
            message_sequence,
        };
        // A NAK that waits is about the expected PSN, which this is before.
        let is_nak = |answer: &&Answer| matches!(answer, Answer::Acknowledge { psn, .. } if *psn == expected);
        let at = self.0.len() - self.0.iter().rev().take_while(is_nak).count();
        match at.checked_sub(1).and_then(|before| self.0.get_mut(before)) {
            Some(last @ Answer::Acknowledge { syndrome: Syndrome::Ack { .. }, .. }) => {
                *last = answer;
            }
            _ => self.0.insert(at, answer),
        }
    }

    /// Refuses the request with PSN `expected`.
    pub(super) fn nak(&mut self, expected: Psn, syndrome: Syndrome, message_sequence: u32) {
        self.0.push_back(Answer::Acknowledge { psn: expected, syndrome, message_sequence });
    }

    /// Answers a read that came again, unless its packets wait already or `most` reads wait.
    pub(super) fn read_again(
        &mut self,
        psn: Psn,
        end: Psn,
        reth: Reth,
        domain: u32,
        message_sequence: u32,
        most: usize,
    ) {
        let room = self.reads() < most;
        let read = Read { psn, end, reth, domain, first: true, message_sequence, again: true };
        // A part of the same read may still wait to be sent.
        let same = self.0.iter_mut().find_map(|answer| match answer {
            Answer::Read(other) if other.end == end => Some(other),
            _ => None,
        });
        match same {
            Some(other) if psn.is_before(other.psn) => *other = read,
            Some(_) => {}
            None if room => self.insert(Answer::Read(read)),
            None => {}
        }
    }

    /// Answers an atomic that came again, unless its answer waits already.
    pub(super) fn atomic_again(&mut self, psn: Psn, was: u64, message_sequence: u32) {
        let waits =
            |answer: &Answer| matches!(answer, Answer::Atomic { psn: other, .. } if *other == psn);
        if !self.0.iter().any(waits) {
            self.insert(Answer::Atomic { psn, was, message_sequence });
        }
    }

    /// Puts an answer where its PSN belongs.
    fn insert(&mut self, answer: Answer) {
        let psn = answer.psn();
        let at = self.0.iter().take_while(|other| other.psn().is_before(psn)).count();
        self.0.insert(at, answer);
    }

    /// Sends answers, at most `budget` packets, which it counts down; runs of at most `longest_run`.
    ///
    /// The memory of a read that was accepted may have been taken away meanwhile. Then the answer is
    /// a NAK in place of the packet that cannot be read, and the connection must fail: the error is
    /// that NAK, and why.
    pub(super) fn send(
        &mut self,
        attributes: &Attributes,
        longest_run: u16,
        budget: &mut u32,
        host: &mut impl Host,
    ) -> Result<(), (NakCode, Option<Refusal>)> {
        while *budget > 0 {
            let Some(answer) = self.0.front_mut() else { break };
            let mut packets = 1;
            let done = match answer {
                Answer::Acknowledge { psn, syndrome, message_sequence } => {
                    let (syndrome, message_sequence) = (*syndrome, *message_sequence);
                    let headers = Headers::Ack(Aeth { syndrome, message_sequence });
                    host.transmit(answer_packet(attributes, Opcode::Acknowledge, *psn, headers));
                    true
                }
                Answer::Atomic { psn, was, message_sequence } => {
                    let headers = Headers::AtomicAck(positive(*message_sequence), *was);
                    let opcode = Opcode::AtomicAcknowledge;
                    host.transmit(answer_packet(attributes, opcode, *psn, headers));
                    true
                }
                Answer::Read(read) => {
                    match read.packet(attributes, longest_run.min(*budget as u16), host) {
                        Ok(packet) => {
                            packets = packet.run.into();
                            host.transmit(packet);
                            read.psn == read.end
                        }
                        Err(refusal) => {
                            let nak = nak_code(refusal);
                            let (syndrome, message_sequence) =
                                (Syndrome::Nak(nak), read.message_sequence);
                            let headers = Headers::Ack(Aeth { syndrome, message_sequence });
                            let opcode = Opcode::Acknowledge;
                            host.transmit(answer_packet(attributes, opcode, read.psn, headers));
                            return Err((nak, Some(refusal)));
                        }
                    }
                }
            };
            if done {
                self.0.pop_front();
            }
            *budget = budget.saturating_sub(packets);
        }
        Ok(())
    }
}

impl Read {
    /// The next packet of the answer, or a run of at most `longest` in the middle of it.
    fn packet(
        &mut self,
        attributes: &Attributes,
        longest: u16,
        host: &impl Host,
    ) -> Result<Packet, Refusal> {
        let (mtu, domain) = (attributes.mtu.bytes(), self.domain);
        let left = self.end.since(self.psn);
        let opcode = match (self.first, left == 1) {
            (true, true) => Opcode::ReadResponseOnly,
            (true, false) => Opcode::ReadResponseFirst,
            (false, false) => Opcode::ReadResponseMiddle,
            (false, true) => Opcode::ReadResponseLast,
        };
        let headers = match opcode {
            Opcode::ReadResponseMiddle => Headers::Plain,
            _ => Headers::Ack(positive(self.message_sequence)),
        };
        let Reth { address, rkey, length } = self.reth;
        let memory = host.memory();
        let mut run = match opcode {
            Opcode::ReadResponseMiddle => (left - 1).min(longest.into()),
            _ => 1,
        };
        let mut payload = None;
        if run > 1 {
            // If it does not work out, the packets go one by one, to the one that is wrong.
            let len = (run * mtu) as usize;
            payload = memory.refer_remote(domain, rkey, address, len).ok().flatten();
        }
        let payload = match payload {
            Some(payload) => payload,
            None => {
                run = 1;
                memory.read_remote(domain, rkey, address, length.min(mtu) as usize)?
            }
        };
        let len = payload.len() as u32;
        let packet = Packet {
            payload,
            run: run as u16,
            ..answer_packet(attributes, opcode, self.psn, headers)
        };
        self.first = false;
        self.psn = self.psn.add(run);
        self.reth.address = address.wrapping_add(len.into());
        self.reth.length -= len;
        Ok(packet)
    }
}

/// What a peer is told when its choice of memory is refused.
pub(super) fn nak_code(refusal: Refusal) -> NakCode {
    match refusal {
        Refusal::Misaligned { .. } => NakCode::InvalidRequest,
        Refusal::Fault(_) => NakCode::RemoteOperational,
        _ => NakCode::RemoteAccess,
    }
}

fn positive(message_sequence: u32) -> Aeth {
    Aeth { syndrome: Syndrome::Ack { credits: 31 }, message_sequence }
}

/// An answer without payload.
fn answer_packet(attributes: &Attributes, opcode: Opcode, psn: Psn, headers: Headers) -> Packet {
    Packet {
        opcode,
        solicited: false,
        partition_key: attributes.partition_key,
        destination: attributes.peer,
        extended: attributes.extended.then_some(0),
        ack_request: false,
        psn,
        headers,
        payload: Payload::Empty,
        run: 1,
    }
}

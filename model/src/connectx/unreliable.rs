//! Unreliable connections (IBTA vol. 1, 9.8.2): messages in packets that nobody acknowledges. A message
//! with a packet missing is dropped, and its receive is used for the next.

use super::Path;
use super::Service;
use super::entry::SendEntry;
use super::host::Attendant;
use super::nic::Connectx;
use super::queue_pair::State;
use crate::fabric::{Fabric, Message};
use crate::memory::Payload;
use crate::rc::{
    Data, Headers, Host, Opcode, Operation, Packet, Psn, Receive, ReceiveCompletion, ReceiveKind,
    Remote, Reth, Status,
};

/// Both ends' state of an unreliable connection.
#[derive(Default)]
pub(super) struct Unreliable {
    /// The next packet's number, out and in.
    next: u32,
    expected: u32,
    /// The message that comes in, after its first packet.
    message: Option<Incoming>,
    /// A receive that was taken and is free again.
    spare: Option<Receive>,
    /// The message that goes out, after its first packets.
    outgoing: Option<Box<Outgoing>>,
}

/// A message that goes out.
pub(super) struct Outgoing {
    entry: SendEntry,
    /// The packets that are on their way.
    sent: u64,
}

impl Outgoing {
    pub(super) fn new(entry: SendEntry) -> Box<Self> {
        Box::new(Outgoing { entry, sent: 0 })
    }
}

/// A message that comes in.
enum Incoming {
    /// A send, its receive, and the bytes that are there.
    Send(Receive, u64),
    /// A write: where the next bytes go, how many are to come, and how many there were.
    Write(Reth, u64),
}

impl Unreliable {
    /// Expects this packet first.
    pub(super) fn expect(&mut self, psn: u32) {
        self.expected = psn;
    }

    /// Sends this packet first.
    pub(super) fn start(&mut self, psn: u32) {
        self.next = psn;
    }

    /// The message of which packets are still to go out.
    pub(super) fn take_outgoing(&mut self) -> Option<Box<Outgoing>> {
        self.outgoing.take()
    }

    /// The receive that was taken and has not completed.
    pub(super) fn take_receive(&mut self) -> Option<Receive> {
        self.abandon();
        self.spare.take()
    }

    /// The message that comes in is dropped; its receive is for the next.
    fn abandon(&mut self) {
        if let Some(Incoming::Send(receive, _)) = self.message.take() {
            self.spare = Some(receive);
        }
    }
}

impl Connectx {
    /// A packet of an unreliable connection came in.
    pub(super) fn take_unreliable(
        &mut self,
        path: Path,
        packet: &Packet,
        now: u64,
        fabric: &mut dyn Fabric,
    ) {
        let taken = self.attend(packet.destination, now, fabric, |parts| {
            let host = &mut *parts.host;
            let core = &host.core;
            let expected = core.context.service == Service::UnreliableConnected
                && core.path == Some(path)
                && matches!(core.state, State::ReadyToReceive | State::ReadyToSend);
            if expected {
                host.take_unreliable(packet);
            }
            expected
        });
        match taken {
            Some(true) => {
                self.counters.packets_received += 1;
                self.statistics.packet_received(0, packet);
            }
            _ => self.counters.packets_dropped += 1,
        }
    }
}

impl Attendant<'_> {
    /// Sends a message, packet by packet, as many as are `left` of this turn. Answers its status when all
    /// of it is on its way.
    pub(super) fn send_unreliable(
        &mut self,
        mut outgoing: Box<Outgoing>,
        left: &mut u64,
    ) -> Option<Status> {
        let end = outgoing.sent.saturating_add(*left);
        let status = self.send_packets(&outgoing.entry, outgoing.sent, end);
        let packets = match status {
            Ok(packets) => packets,
            Err(status) => return Some(status),
        };
        // A message without a packet is a step, too.
        *left = left.saturating_sub(packets.min(end).saturating_sub(outgoing.sent).max(1));
        if packets <= end {
            return Some(Status::Success);
        }
        outgoing.sent = end;
        self.core.unreliable.outgoing = Some(outgoing);
        None
    }

    /// Sends the packets of a message from number `start` on, up to `end`. Answers how many it has.
    fn send_packets(&mut self, entry: &SendEntry, start: u64, end: u64) -> Result<u64, Status> {
        if entry.length > self.limits.message {
            return Err(Status::LocalLength);
        }
        let (Some(path), Some(mtu)) = (self.core.path, self.core.attributes.mtu) else {
            return Err(Status::LocalQpOperation);
        };
        let (immediate, remote) = match entry.operation {
            Operation::Local => {
                let change = entry.change.as_deref();
                return match change.map_or(Status::Success, |change| self.change_key(change)) {
                    Status::Success => Ok(0),
                    status => Err(status),
                };
            }
            Operation::Send => (None, None),
            Operation::SendImmediate(word) => (Some(word), None),
            Operation::Write(remote) => (None, Some(remote)),
            Operation::WriteImmediate(remote, word) => (Some(word), Some(remote)),
            _ => return Err(Status::LocalQpOperation),
        };
        let mtu = u64::from(mtu.bytes());
        let packets = entry.length.div_ceil(mtu).max(1);
        for number in start..packets.min(end) {
            let offset = number * mtu;
            let length = mtu.min(entry.length - offset) as usize;
            let payload = self.part(entry, offset, length)?;
            let (first, last) = (number == 0, number + 1 == packets);
            let (opcode, headers) = shape(first, last, immediate, remote, entry.length);
            let psn = self.core.unreliable.next;
            self.core.unreliable.next = psn.wrapping_add(1) & 0xff_ffff;
            if !self.link_up {
                self.counters.packets_dropped += 1;
                continue;
            }
            self.counters.packets_sent += 1;
            let packet = Packet {
                opcode,
                solicited: last && entry.solicited,
                partition_key: 0xffff,
                destination: self.core.attributes.peer.unwrap_or(0),
                extended: None,
                ack_request: false,
                psn: Psn::new(psn),
                headers,
                payload,
                run: 1,
            };
            self.statistics.packet_sent(self.core.counter_set(), &packet);
            let message = Message::Unreliable(packet);
            self.fabric.send_message(self.now, self.port, path.source, path.destination, message);
        }
        Ok(packets)
    }

    fn part(&mut self, entry: &SendEntry, offset: u64, length: usize) -> Result<Payload, Status> {
        match &entry.data {
            Data::Inline(bytes) => {
                let rest = bytes.as_slice().get(offset as usize..).unwrap_or_default();
                Ok(Payload::copy_of(rest.get(..length).ok_or(Status::LocalQpOperation)?))
            }
            Data::List(list) => {
                let domain = self.core.context.protection_domain;
                self.memory.gather(domain, list, offset, length).map_err(|refusal| {
                    self.counters.refused_accesses += 1;
                    self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
                    Status::LocalProtection
                })
            }
        }
    }

    fn take_unreliable(&mut self, packet: &Packet) {
        use Opcode::*;
        let in_order = packet.psn.get() == self.core.unreliable.expected;
        self.core.unreliable.expected = packet.psn.get().wrapping_add(1) & 0xff_ffff;
        let begins = matches!(
            packet.opcode,
            SendFirst | SendOnly | SendOnlyImmediate | WriteFirst | WriteOnly | WriteOnlyImmediate
        );
        if begins || !in_order {
            self.core.unreliable.abandon();
        }
        if begins {
            self.core.unreliable.message = match packet.headers {
                Headers::Remote(reth) | Headers::RemoteImmediate(reth, _) => {
                    Some(Incoming::Write(reth, 0))
                }
                _ => {
                    let spare = self.core.unreliable.spare.take();
                    let receive = spare.or_else(|| self.fetch_receive(None));
                    receive.map(|receive| Incoming::Send(receive, 0))
                }
            };
        }
        let Some(message) = self.core.unreliable.message.take() else { return };
        let ends = !matches!(packet.opcode, SendFirst | SendMiddle | WriteFirst | WriteMiddle);
        let immediate = match packet.headers {
            Headers::Immediate(word) | Headers::RemoteImmediate(_, word) => Some(word),
            _ => None,
        };
        match message {
            Incoming::Send(receive, there) => {
                self.go_on_send(packet, receive, there, ends, immediate)
            }
            Incoming::Write(reth, there) => self.go_on_write(packet, reth, there, ends, immediate),
        }
    }

    fn go_on_send(
        &mut self,
        packet: &Packet,
        receive: Receive,
        there: u64,
        ends: bool,
        immediate: Option<u32>,
    ) {
        let domain = self.core.context.protection_domain;
        let mut completion = ReceiveCompletion {
            entry: receive.entry,
            status: Status::Success,
            kind: ReceiveKind::Send,
            length: 0,
            immediate,
            invalidated: None,
            solicited: packet.solicited,
        };
        let length = there + packet.payload.len() as u64;
        if let Err(refusal) = self.memory.scatter(domain, &receive.list, there, &packet.payload) {
            self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
            completion.status = match refusal {
                crate::memory::Refusal::ListTooShort { .. } => Status::LocalLength,
                _ => Status::LocalProtection,
            };
            self.complete_receive(completion);
            self.core.state = State::Error;
            return;
        }
        if ends {
            completion.length = length as u32;
            self.complete_receive(completion);
        } else {
            self.core.unreliable.message = Some(Incoming::Send(receive, length));
        }
    }

    fn go_on_write(
        &mut self,
        packet: &Packet,
        reth: Reth,
        there: u64,
        ends: bool,
        immediate: Option<u32>,
    ) {
        let length = packet.payload.len();
        let allowed = self.core.access.remote_write && length as u64 <= u64::from(reth.length);
        let domain = self.core.context.protection_domain;
        let written = allowed
            .then(|| self.memory.write_remote(domain, reth.rkey, reth.address, &packet.payload));
        match written {
            Some(Ok(())) => {}
            // A write that is not allowed is dropped, and nobody is told.
            Some(Err(refusal)) => {
                self.counters.refused_accesses += 1;
                self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
                return;
            }
            None => return,
        }
        let there = there + length as u64;
        if !ends {
            let reth = Reth {
                address: reth.address.wrapping_add(length as u64),
                rkey: reth.rkey,
                length: reth.length - length as u32,
            };
            self.core.unreliable.message = Some(Incoming::Write(reth, there));
            return;
        }
        if immediate.is_none() {
            return;
        }
        let spare = self.core.unreliable.spare.take();
        let Some(receive) = spare.or_else(|| self.fetch_receive(None)) else { return };
        self.complete_receive(ReceiveCompletion {
            entry: receive.entry,
            status: Status::Success,
            kind: ReceiveKind::WriteImmediate,
            length: there as u32,
            immediate,
            invalidated: None,
            solicited: packet.solicited,
        });
    }
}

/// A packet's opcode and headers, by its place in the message.
fn shape(
    first: bool,
    last: bool,
    immediate: Option<u32>,
    remote: Option<Remote>,
    length: u64,
) -> (Opcode, Headers) {
    use Opcode::*;
    let reth = remote.map(|Remote { address, rkey }| Reth { address, rkey, length: length as u32 });
    let immediate = immediate.filter(|_| last);
    let opcode = match (reth.is_some(), first, last, immediate.is_some()) {
        (false, true, true, false) => SendOnly,
        (false, true, true, true) => SendOnlyImmediate,
        (false, true, false, _) => SendFirst,
        (false, false, false, _) => SendMiddle,
        (false, false, true, false) => SendLast,
        (false, false, true, true) => SendLastImmediate,
        (true, true, true, false) => WriteOnly,
        (true, true, true, true) => WriteOnlyImmediate,
        (true, true, false, _) => WriteFirst,
        (true, false, false, _) => WriteMiddle,
        (true, false, true, false) => WriteLast,
        (true, false, true, true) => WriteLastImmediate,
    };
    let headers = match (reth.filter(|_| first), immediate) {
        (Some(reth), Some(word)) => Headers::RemoteImmediate(reth, word),
        (Some(reth), None) => Headers::Remote(reth),
        (None, Some(word)) => Headers::Immediate(word),
        (None, None) => Headers::Plain,
    };
    (opcode, headers)
}

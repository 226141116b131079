//! Queue pairs of datagrams: entries that say where they go, and messages with the way that they came.

use super::host::{Attendant, receive_status};
use super::nic::Netxtreme;
use crate::fabric::{Address, Datagram, Fabric, GlobalRoute, Message, ROUTE_BYTES};
use crate::memory::{Payload, Refusal};
use crate::rc::{Data, Operation, Progress, Status};
use doorbell::bnxt::abi::cqe::{CompletionKind, KindToggle};
use doorbell::bnxt::abi::field::{NetworkKind, QueuePairKind, QueuePairState};

/// A queue key that stands for the queue pair's own.
const OWN_KEY: u32 = 1 << 31;
/// Entries sent at once, before others have their turn.
const BURST: usize = 16;
/// The most bytes of a datagram.
const LONGEST: u64 = 4096;
/// The number by which general services are reached.
pub(super) const GENERAL_SERVICES: u32 = 1;

/// The completion of a receive that holds a datagram (`struct cq_res_ud`, `roce_hsi.h`).
mod completion {
    pub(super) const LENGTH: usize = 0x0;
    pub(super) const IMMEDIATE: usize = 0x4;
    pub(super) const HANDLE: usize = 0x8;
    pub(super) const SOURCE_LOW: usize = 0x16;
    pub(super) const KIND: usize = 0x18;
    pub(super) const STATUS: usize = 0x19;
    pub(super) const FLAGS: usize = 0x1a;
    pub(super) const SOURCE_HIGH: usize = 0x1c;
    pub(super) const SHARED: u16 = 1;
    pub(super) const HAS_IMMEDIATE: u16 = 2;
    pub(super) const NETWORK_SHIFT: u16 = 4;
}

impl Netxtreme {
    /// A datagram came in.
    pub(super) fn take_datagram(&mut self, datagram: &Datagram, now: u64, fabric: &mut dyn Fabric) {
        let taken = self.attend(datagram.destination, now, fabric, |parts| {
            parts.connection.is_none() && parts.host.take_datagram(datagram)
        });
        match taken {
            Some(true) => self.counters.packets_received += 1,
            _ => self.counters.packets_dropped += 1,
        }
    }
}

impl Attendant<'_> {
    /// Sends the datagrams that a queue pair has posted.
    pub(super) fn send_datagrams(&mut self) -> Progress {
        for _ in 0..BURST {
            if self.core.state != QueuePairState::ReadyToSend {
                return Progress::Idle;
            }
            let space = self.memory.space();
            let Some((_, entry)) = self.core.next_entry(space, self.counters, self.log) else {
                return Progress::Idle;
            };
            let status = entry.map_or_else(|status| status, |entry| self.send_datagram(&entry));
            self.end_send(status);
            if status != Status::Success {
                self.fail(status);
                return Progress::Idle;
            }
        }
        Progress::More
    }

    fn send_datagram(&mut self, entry: &super::entry::SendEntry) -> Status {
        let immediate = match entry.operation {
            Operation::Send => None,
            Operation::SendImmediate(word) => Some(word),
            Operation::Local => return Status::Success,
            Operation::Refused(status) => return status,
            _ => return Status::LocalQpOperation,
        };
        if entry.length > LONGEST {
            return Status::LocalLength;
        }
        let mut bytes = vec![0; entry.length as usize];
        match &entry.data {
            Data::Inline(inline) => bytes.copy_from_slice(inline.as_slice()),
            Data::List(list) => {
                let gathered = self.memory.gather(self.core.domain, list, 0, bytes.len());
                let read = gathered.map(|payload| payload.read(0, &mut bytes));
                if !matches!(read, Ok(Ok(()))) {
                    if let Err(refusal) = read {
                        self.counters.refused_accesses += 1;
                        let number = self.core.number;
                        self.log.note(format_args!("queue pair {number:#x}: {refusal}"));
                    }
                    return Status::LocalProtection;
                }
            }
        }
        let (destination, key, vector) = entry.address;
        let vector = self.vectors.get(&vector).copied();
        let Some(vector) = vector.filter(|vector| vector.domain == self.core.domain) else {
            self.log.note(format_args!(
                "queue pair {:#x}: no such address vector in its domain",
                self.core.number
            ));
            return Status::LocalQpOperation;
        };
        let Some(source) = self.gids.get(&vector.gid_index).map(|gid| gid.gid) else {
            return Status::LocalQpOperation;
        };
        if !self.link_up {
            self.counters.packets_dropped += 1;
            return Status::Success;
        }
        let datagram = Datagram {
            destination,
            source: self.core.number,
            queue_key: if key & OWN_KEY != 0 { self.core.attributes.queue_key } else { key },
            immediate,
            solicited: entry.solicited,
            route: Some(GlobalRoute {
                source,
                destination: vector.gid,
                traffic_class: vector.traffic_class,
                flow_label: vector.flow_label,
                hop_limit: vector.hop_limit,
                ip: vector.network != NetworkKind::RoceV1,
            }),
            bytes: bytes.into(),
        };
        self.counters.packets_sent += 1;
        let message = Message::Datagram(Box::new(datagram));
        let (from, to) = (Address::Gid(source), Address::Gid(vector.gid));
        self.fabric.set_neighbor(to, vector.mac);
        self.fabric.send_message(self.now, self.port, from, to, message);
        Status::Success
    }

    /// Takes a datagram in. Answers whether it had a place to go.
    fn take_datagram(&mut self, datagram: &Datagram) -> bool {
        let kind = self.core.kind;
        let takes = matches!(kind, QueuePairKind::Datagram | QueuePairKind::GeneralServices);
        let ready =
            matches!(self.core.state, QueuePairState::ReadyToReceive | QueuePairState::ReadyToSend);
        if !ready || !takes {
            return false;
        }
        let own_key = self.core.attributes.queue_key;
        if datagram.queue_key != own_key {
            self.log.note(format_args!(
                "queue pair {:#x}: a datagram with key {:#x}, not {own_key:#x}",
                self.core.number, datagram.queue_key
            ));
            return false;
        }
        let Some(receive) = self.take_receive() else { return false };
        let header = datagram.route.map(|route| route.header(datagram.bytes.len()));
        let parts = [
            (0, header.as_ref().map(|bytes| &bytes[..])),
            (ROUTE_BYTES, Some(&datagram.bytes[..])),
        ];
        let mut status = Status::Success;
        for (offset, bytes) in parts {
            let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { continue };
            let payload = Payload::copy_of(bytes);
            let scattered =
                self.memory.scatter(self.core.domain, &receive.list, offset as u64, &payload);
            if let Err(refusal) = scattered {
                status = match refusal {
                    Refusal::ListTooShort { .. } => Status::LocalLength,
                    _ => Status::LocalProtection,
                };
                self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
                break;
            }
        }
        let network = match datagram.route.map(|route| route.kind()) {
            None | Some(0) => NetworkKind::RoceV1,
            Some(1) => NetworkKind::RoceV2Ipv6,
            Some(_) => NetworkKind::RoceV2Ipv4,
        };
        let mut flags = u16::from(network.code()) << completion::NETWORK_SHIFT;
        if self.core.shared.is_some() {
            flags |= completion::SHARED;
        }
        if datagram.immediate.is_some() {
            flags |= completion::HAS_IMMEDIATE;
        }
        let length = (ROUTE_BYTES + datagram.bytes.len()) as u16;
        let source = datagram.source & 0xff_ffff;
        // Bits 16 to 23 of the source are the upper bits of the word with the receive's name.
        let high = (receive.entry as u32 & 0xf_ffff) | (source >> 16) << 24;
        let mut bytes = [0; super::completion_queue::ENTRY];
        let mut put = |at: usize, from: &[u8]| bytes[at..at + from.len()].copy_from_slice(from);
        put(completion::LENGTH, &length.to_le_bytes());
        put(completion::IMMEDIATE, &datagram.immediate.unwrap_or(0).to_le_bytes());
        put(completion::HANDLE, &self.core.handle.to_le_bytes());
        put(completion::SOURCE_LOW, &(source as u16).to_le_bytes());
        put(completion::KIND, &[KindToggle::of(CompletionKind::ReceiveDatagram, false).into()]);
        put(completion::STATUS, &[receive_status(status).code()]);
        put(completion::FLAGS, &flags.to_le_bytes());
        put(completion::SOURCE_HIGH, &high.to_le_bytes());
        self.put(self.core.receive_queue, &bytes, datagram.solicited);
        if status != Status::Success {
            self.counters.error_completions += 1;
            self.fail(status);
        }
        true
    }
}

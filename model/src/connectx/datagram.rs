//! Datagrams: entries that say where they go, and messages with the way that they came.

use super::host::Attendant;
use super::nic::Connectx;
use super::queue_pair::State;
use super::unreliable::Outgoing;
use super::{Refused, Service, Traffic, entry::SendEntry};
use crate::fabric::{Address, Datagram, Fabric, GlobalRoute, Message, ROUTE_BYTES};
use crate::memory::Payload;
use crate::rc::{Data, Operation, Progress, Status};
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::{CompletionOpcode, SourceWord};
use std::collections::BTreeMap;
use zerocopy::big_endian::{U16, U32};

/// Where datagrams are sent from: the port's local identifier, or its global ones by index.
#[derive(Default)]
pub(super) struct Sources {
    lid: Option<u16>,
    gids: BTreeMap<u8, SourceIdentifier>,
}

/// A global identifier that datagrams are sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceIdentifier {
    /// The identifier.
    pub gid: [u8; 16],
    /// Packets have IP headers (RoCE v2), not IBTA's own.
    pub ip: bool,
}

/// A queue key that stands for the queue pair's own.
const OWN_KEY: u32 = 1 << 31;
/// Packets sent at once, before others have their turn.
const BURST: u64 = 64;
/// The partition of datagrams without one: the default.
const DEFAULT_PARTITION: u32 = 0xffff;
/// Bytes of a datagram's base and datagram headers (IBTA vol. 1, 9.2).
const DATAGRAM_HEADERS: usize = 12 + 8;
/// The queue pair number that stands for a group's members.
const GROUP: u32 = 0xff_ffff;
/// Groups, and members of one, at most.
pub(super) const MOST_GROUPS: usize = 1 << 16;
pub(super) const MOST_MEMBERS: usize = 240;

impl Connectx {
    /// Sends datagrams from this local identifier from now on: the port is InfiniBand's.
    pub fn set_source_lid(&mut self, lid: u16) {
        self.sources.lid = Some(lid);
    }

    /// Sets or clears an identifier that datagrams can be sent from.
    pub fn set_source(&mut self, index: u8, identifier: Option<SourceIdentifier>) {
        match identifier {
            Some(identifier) => self.sources.gids.insert(index, identifier),
            None => self.sources.gids.remove(&index),
        };
    }

    /// Puts a queue pair of datagrams into a multicast group.
    pub fn join_group(&mut self, group: [u8; 16], number: u32) -> Result<(), Refused> {
        let pair = self.pairs.get(&number);
        let unknown = Refused::Unknown { what: "queue pair", number };
        if !pair.ok_or(unknown)?.core.context.service.is_datagram() {
            return Err(Refused::Parameter { what: "member of a group", value: number.into() });
        }
        if !self.groups.contains_key(&group) && self.groups.len() >= MOST_GROUPS {
            return Err(Refused::Limit { what: "multicast group", limit: MOST_GROUPS as u64 });
        }
        let members = self.groups.entry(group).or_default();
        if members.len() >= MOST_MEMBERS && !members.contains(&number) {
            return Err(Refused::Limit { what: "member of a group", limit: MOST_MEMBERS as u64 });
        }
        members.insert(number);
        Ok(())
    }

    /// Takes a queue pair out of a multicast group.
    pub fn leave_group(&mut self, group: [u8; 16], number: u32) -> Result<(), Refused> {
        let unknown = Refused::Unknown { what: "member of the group", number };
        let members = self.groups.get_mut(&group).ok_or(unknown)?;
        if !members.remove(&number) {
            return Err(unknown);
        }
        if members.is_empty() {
            self.groups.remove(&group);
        }
        Ok(())
    }

    /// Takes a queue pair that goes away out of all groups.
    pub(super) fn leave_groups(&mut self, number: u32) {
        self.groups.retain(|_, members| {
            members.remove(&number);
            !members.is_empty()
        });
    }

    /// A datagram came in.
    pub(super) fn take_datagram(
        &mut self,
        from: Address,
        datagram: &Datagram,
        now: u64,
        fabric: &mut dyn Fabric,
    ) {
        if datagram.destination == GROUP {
            let group = datagram.route.map(|route| route.destination);
            let members = group.and_then(|group| self.groups.get(&group)).cloned();
            let members = members.unwrap_or_default();
            let taken = members.iter().filter(|&&number| {
                self.attend(number, now, fabric, |parts| parts.host.take_datagram(from, datagram))
                    == Some(true)
            });
            match taken.count() {
                0 => self.counters.packets_dropped += 1,
                count => self.counters.packets_received += count as u64,
            }
            self.statistics
                .count_received(Traffic::ToGroup, DATAGRAM_HEADERS + datagram.bytes.len());
            return;
        }
        let number = match datagram.destination {
            special @ (0 | 1) => self.pairs.values().find_map(|pair| {
                let Service::Datagram { well_known, .. } = pair.core.context.service else {
                    return None;
                };
                (well_known == Some(special as u8)).then_some(pair.core.number)
            }),
            number => Some(number),
        };
        let taken = number.and_then(|number| {
            self.attend(number, now, fabric, |parts| {
                parts.connection.is_none() && parts.host.take_datagram(from, datagram)
            })
        });
        match taken {
            Some(true) => {
                self.counters.packets_received += 1;
                let octets = DATAGRAM_HEADERS + datagram.bytes.len();
                self.statistics.count_received(Traffic::ToOne, octets);
            }
            _ => self.counters.packets_dropped += 1,
        }
    }
}

impl Attendant<'_> {
    /// Sends what a queue pair without acknowledgements has posted.
    pub(super) fn send_unacknowledged(&mut self) -> Progress {
        let mut left = BURST;
        while left > 0 {
            if self.core.state != State::ReadyToSend {
                return Progress::Idle;
            }
            let status = match self.core.unreliable.take_outgoing() {
                Some(outgoing) => self.send_unreliable(outgoing, &mut left),
                None => {
                    let space = self.memory.space();
                    let next = self.core.next_entry(space, self.limits, self.counters, self.log);
                    let Some((_, entry)) = next else { return Progress::Idle };
                    match entry {
                        Ok(entry) if self.core.context.service.has_peer() => {
                            self.send_unreliable(Outgoing::new(entry), &mut left)
                        }
                        Ok(entry) => {
                            left -= 1;
                            Some(self.send_datagram(&entry))
                        }
                        Err(status) => Some(status),
                    }
                }
            };
            // Its other packets are for the next turn.
            let Some(status) = status else { return Progress::More };
            if let Some(in_flight) = self.core.in_flight.pop_front() {
                self.write_send(&in_flight, status, 0);
            }
            if status != Status::Success {
                self.core.state = State::Error;
                return Progress::Idle;
            }
        }
        Progress::More
    }

    fn send_datagram(&mut self, entry: &SendEntry) -> Status {
        if let Some(change) = &entry.change {
            return self.change_key(change);
        }
        let Some(vector) = entry.address else { return Status::Success };
        let most = self.core.attributes.mtu.map_or(4096, |mtu| u64::from(mtu.bytes()));
        if entry.length > most.max(4096) {
            return Status::LocalLength;
        }
        let bytes = match self.message_bytes(entry) {
            Ok(bytes) => bytes,
            Err(status) => return status,
        };
        let identifier = self.sources.gids.get(&vector.source_index()).copied();
        let (source, destination) = match (self.sources.lid, identifier) {
            (Some(lid), _) => (Address::Lid(lid), Address::Lid(vector.local.get())),
            (None, Some(identifier)) => {
                // On Ethernet, the members of a group have an address together.
                let group = vector.queue_pair() == GROUP;
                let to = if group { Address::Mac(vector.mac) } else { Address::Gid(vector.gid) };
                self.fabric.set_neighbor(to, vector.mac);
                (Address::Gid(identifier.gid), to)
            }
            (None, None) => {
                self.counters.packets_dropped += 1;
                return Status::Success;
            }
        };
        if !self.link_up {
            self.counters.packets_dropped += 1;
            return Status::Success;
        }
        let global = vector.is_global() || self.sources.lid.is_none();
        let route = identifier.filter(|_| global).map(|identifier| GlobalRoute {
            source: identifier.gid,
            destination: vector.gid,
            traffic_class: vector.traffic_class,
            flow_label: vector.flow_label(),
            hop_limit: vector.hop_limit,
            ip: identifier.ip,
        });
        let own_key = self.core.attributes.queue_key.unwrap_or(0);
        let key = vector.queue_key.get();
        let Service::Datagram { source: from, .. } = self.core.context.service else {
            return Status::LocalQpOperation;
        };
        let datagram = Datagram {
            destination: vector.queue_pair(),
            source: from.unwrap_or(self.core.number),
            queue_key: if key & OWN_KEY != 0 { own_key } else { key },
            immediate: match entry.operation {
                Operation::SendImmediate(word) => Some(word),
                _ => None,
            },
            solicited: entry.solicited,
            route,
            bytes: bytes.into(),
        };
        self.counters.packets_sent += 1;
        let kind = if vector.queue_pair() == GROUP { Traffic::ToGroup } else { Traffic::ToOne };
        self.statistics.count_sent(kind, DATAGRAM_HEADERS + datagram.bytes.len());
        let message = Message::Datagram(Box::new(datagram));
        self.fabric.send_message(self.now, self.port, source, destination, message);
        Status::Success
    }

    /// The bytes of a message of one packet.
    fn message_bytes(&mut self, entry: &SendEntry) -> Result<Vec<u8>, Status> {
        let list = match &entry.data {
            Data::Inline(bytes) => return Ok(bytes.as_slice().to_vec()),
            Data::List(list) => list,
        };
        let domain = self.core.context.protection_domain;
        let mut bytes = vec![0; entry.length as usize];
        let gathered = self.memory.gather(domain, list, 0, bytes.len());
        let read = gathered.map(|payload| payload.read(0, &mut bytes));
        match read {
            Ok(Ok(())) => Ok(bytes),
            Ok(Err(_)) => Err(Status::LocalProtection),
            Err(refusal) => {
                self.counters.refused_accesses += 1;
                self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
                Err(Status::LocalProtection)
            }
        }
    }

    /// Takes a datagram in. Answers whether it had a place to go.
    fn take_datagram(&mut self, from: Address, datagram: &Datagram) -> bool {
        let ready = matches!(self.core.state, State::ReadyToReceive | State::ReadyToSend);
        if !ready || !self.core.context.service.is_datagram() {
            return false;
        }
        let own_key = self.core.attributes.queue_key.unwrap_or(0);
        if datagram.queue_key != own_key {
            self.log.note(format_args!(
                "queue pair {:#x}: a datagram with key {:#x}, not {own_key:#x}",
                self.core.number, datagram.queue_key
            ));
            return false;
        }
        let Some(receive) = self.fetch_receive(None) else { return false };
        let index = receive.entry as u16;
        let domain = self.core.context.protection_domain;
        let header = datagram.route.map(|route| route.header(datagram.bytes.len()));
        let parts = [
            (0, header.as_ref().map(|bytes| &bytes[..])),
            (ROUTE_BYTES, Some(&datagram.bytes[..])),
        ];
        for (offset, bytes) in parts {
            let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else { continue };
            let payload = Payload::copy_of(bytes);
            let scattered = self.memory.scatter(domain, &receive.list, offset as u64, &payload);
            if let Err(refusal) = scattered {
                let status = match refusal {
                    crate::memory::Refusal::ListTooShort { .. } => Status::LocalLength,
                    _ => Status::LocalProtection,
                };
                self.log.note(format_args!("queue pair {:#x}: {refusal}", self.core.number));
                self.write_receive_error(receive.entry, status);
                self.core.state = State::Error;
                return true;
            }
        }
        let opcode = match datagram.immediate {
            Some(_) => CompletionOpcode::ReceiveSendImmediate,
            None => CompletionOpcode::ReceiveSend,
        };
        let mut completion = self.blank(opcode, 0, index);
        completion.op_own.set_solicited(datagram.solicited);
        completion.byte_cnt = U32::new((ROUTE_BYTES + datagram.bytes.len()) as u32);
        completion.imm_inval_pkey = U32::new(datagram.immediate.unwrap_or(DEFAULT_PARTITION));
        if let Address::Lid(lid) = from {
            completion.slid = U16::new(lid);
        }
        completion.flags_rqpn = SourceWord::new()
            .with_queue_pair(U24::truncate(datagram.source))
            .with_service_level(datagram.route.map_or(0, |route| route.kind()))
            .with_global_route(datagram.route.is_some().into());
        self.put(self.core.context.receive_queue, &completion, datagram.solicited, false);
        true
    }
}

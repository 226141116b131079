//! What a port carried, and what happened to the queue pairs of each set of counters: the numbers that
//! drivers ask for.

use crate::rc::{Headers, NakCode, Opcode, Packet, Syndrome};
use std::collections::BTreeMap;

/// Packets, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Packets.
    pub packets: u64,
    /// Their bytes, without what the link adds.
    pub octets: u64,
}

/// What travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// RDMA packets to one queue pair.
    ToOne,
    /// Datagrams to a group.
    ToGroup,
    /// Frames to all stations.
    FrameToAll,
    /// Frames to one station.
    FrameToOne,
    /// Frames to a group.
    FrameToGroup,
}

impl Traffic {
    /// All kinds, in their order.
    pub const ALL: [Traffic; 5] = [
        Traffic::ToOne,
        Traffic::ToGroup,
        Traffic::FrameToAll,
        Traffic::FrameToOne,
        Traffic::FrameToGroup,
    ];
}

/// The numbers of one set of counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Writes that peers asked for.
    pub writes: u32,
    /// Reads that peers asked for.
    pub reads: u32,
    /// Atomics that peers asked for.
    pub atomics: u32,
    /// Requests that found no receive.
    pub out_of_buffer: u32,
    /// Requests that came with a packet missing before them.
    pub out_of_sequence: u32,
    /// Peers that said so of ours.
    pub sequence_errors: u32,
}

/// All numbers of a port.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    received: [Carried; 5],
    sent: [Carried; 5],
    sets: BTreeMap<u8, QueueStatistics>,
}

impl Carried {
    fn add(&mut self, packets: u64, octets: u64) {
        self.packets += packets;
        self.octets += octets;
    }
}

/// The bytes of a packet, or of a run of them.
fn octets_of(packet: &Packet) -> u64 {
    let payload = packet.payload.len() as u64;
    let headers = packet.encoded_len() as u64 - payload;
    payload + headers * u64::from(packet.run)
}

impl Traffic {
    /// The kind of a frame.
    pub(super) fn of_frame(frame: &[u8]) -> Self {
        match frame {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Traffic::FrameToAll,
            [first, ..] if first & 1 != 0 => Traffic::FrameToGroup,
            _ => Traffic::FrameToOne,
        }
    }
}

impl Statistics {
    /// What came in of a kind.
    pub fn received(&self, traffic: Traffic) -> Carried {
        self.received[traffic as usize]
    }

    /// What went out of a kind.
    pub fn sent(&self, traffic: Traffic) -> Carried {
        self.sent[traffic as usize]
    }

    /// The numbers of a set of counters, which begins anew if `clear` says so.
    pub fn queues(&mut self, set: u8, clear: bool) -> QueueStatistics {
        let numbers = self.sets.entry(set).or_default();
        if clear { std::mem::take(numbers) } else { *numbers }
    }

    pub(super) fn count_received(&mut self, traffic: Traffic, octets: usize) {
        self.received[traffic as usize].add(1, octets as u64);
    }

    pub(super) fn count_sent(&mut self, traffic: Traffic, octets: usize) {
        self.sent[traffic as usize].add(1, octets as u64);
    }

    /// A packet of a connection came in, for a queue pair of `set`.
    pub(super) fn packet_received(&mut self, set: u8, packet: &Packet) {
        let run = u64::from(packet.run);
        self.received[Traffic::ToOne as usize].add(run, octets_of(packet));
        let numbers = self.sets.entry(set).or_default();
        match (packet.opcode, packet.headers) {
            (Opcode::WriteFirst | Opcode::WriteOnly | Opcode::WriteOnlyImmediate, _) => {
                numbers.writes += 1;
            }
            (Opcode::ReadRequest, _) => numbers.reads += 1,
            (Opcode::CompareSwap | Opcode::FetchAdd, _) => numbers.atomics += 1,
            (_, Headers::Ack(aeth)) if aeth.syndrome == Syndrome::Nak(NakCode::SequenceError) => {
                numbers.sequence_errors += 1;
            }
            _ => {}
        }
    }

    /// A packet of a connection went out, from a queue pair of `set`.
    pub(super) fn packet_sent(&mut self, set: u8, packet: &Packet) {
        let run = u64::from(packet.run);
        self.sent[Traffic::ToOne as usize].add(run, octets_of(packet));
        let Headers::Ack(aeth) = packet.headers else { return };
        let numbers = self.sets.entry(set).or_default();
        match aeth.syndrome {
            Syndrome::RnrNak { .. } => numbers.out_of_buffer += 1,
            Syndrome::Nak(NakCode::SequenceError) => numbers.out_of_sequence += 1,
            _ => {}
        }
    }
}

//! One end of a reliable connection.

use super::{Host, Packet, Psn};
use crate::memory::Access;

/// The most payload bytes of one packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mtu {
    /// 256 bytes.
    B256,
    /// 512 bytes.
    B512,
    /// 1024 bytes.
    B1024,
    /// 2048 bytes.
    B2048,
    /// 4096 bytes.
    B4096,
}

impl Mtu {
    /// All five, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// From `enum ib_mtu` (`ib_verbs.h`): 1 (256 bytes) to 5 (4096 bytes).
    pub fn from_verbs(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code.checked_sub(1)?)).copied()
    }

    /// In bytes.
    pub fn bytes(self) -> u32 {
        256 << self as u32
    }
}

/// The byte order of an atomic's answer in the requester's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// This machine's.
    Native,
    /// Big-endian.
    Big,
}

/// What a connection needs to answer its peer: the attributes of the change to Ready to Receive.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// The peer's queue pair number, 24 bits.
    pub peer: u32,
    /// The partition key that packets carry.
    pub partition_key: u16,
    /// The most payload of a packet, both ways.
    pub mtu: Mtu,
    /// The queue pair's protection domain.
    pub protection_domain: u32,
    /// What the queue pair lets its peer do; `local_write` is not looked at.
    pub peer_access: Access,
    /// The first PSN expected from the peer (`rq_psn`).
    pub expected_psn: Psn,
    /// Reads and atomics that the peer may have outstanding (`max_dest_rd_atomic`).
    pub responder_resources: u8,
    /// The 5-bit code of the time that the peer waits after a receiver-not-ready NAK
    /// (`min_rnr_timer`), see [`rnr_timer`](super::rnr_timer).
    pub rnr_timer: u8,
}

/// What a connection needs to send: the attributes of the change to Ready to Send.
#[derive(Clone, Debug)]
pub struct SendAttributes {
    /// The first PSN to send (`sq_psn`).
    pub first_psn: Psn,
    /// Reads and atomics to have outstanding (`max_rd_atomic`).
    pub max_outstanding_reads: u8,
    /// The 5-bit code of the acknowledgement timeout, see [`ack_timeout`](super::ack_timeout).
    pub timeout: u8,
    /// How often to try again without progress, 0 to 7 (`retry_cnt`).
    pub retry_count: u8,
    /// How often to try again after a receiver-not-ready NAK, 0 to 6; 7 is for ever (`rnr_retry`).
    pub rnr_retry: u8,
    /// Packets to have sent and unacknowledged at most.
    pub window: u32,
    /// The byte order of an atomic's answer in this side's memory.
    pub atomic_answers: ByteOrder,
}

/// Whether a connection has more to do right now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// Call again: only the packets of one call were bounded.
    More,
    /// Nothing to do until a packet, a work request or receive, or the deadline.
    Idle,
}

/// One end of a reliable connection; see [the module](super).
pub struct Connection {
    attributes: Attributes,
}

impl Connection {
    /// The most packets that one [`advance`](Self::advance) transmits.
    pub const BURST: u32 = 16;

    /// An end that answers its peer (Ready to Receive).
    pub fn new(attributes: Attributes) -> Self {
        Connection { attributes }
    }

    /// Lets it send, too (Ready to Send).
    pub fn start_sending(&mut self, attributes: SendAttributes) {
        todo!()
    }

    /// Changes what the peer may do from now on.
    pub fn set_peer_access(&mut self, access: Access) {
        self.attributes.peer_access = access;
    }

    /// Changes the receiver-not-ready timer's code.
    pub fn set_rnr_timer(&mut self, code: u8) {
        self.attributes.rnr_timer = code;
    }

    /// What the connection was made with, as changed since.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Stops taking work requests ([`Host::next_request`]) until it is called with `false`: the
    /// state Send Queue Drained, reached when [`is_drained`](Self::is_drained).
    pub fn set_draining(&mut self, draining: bool) {
        todo!()
    }

    /// Whether every work request that was taken has completed.
    pub fn is_drained(&self) -> bool {
        todo!()
    }

    /// Takes in a packet from the peer. Answers are sent by the next [`advance`](Self::advance), so
    /// that one acknowledgement answers a batch.
    pub fn receive(&mut self, now: u64, packet: &Packet, host: &mut impl Host) {
        todo!()
    }

    /// Does what is due at `now`: answers, timeouts, new work requests; at most
    /// [`BURST`](Self::BURST) packets.
    pub fn advance(&mut self, now: u64, host: &mut impl Host) -> Progress {
        todo!()
    }

    /// The time in nanoseconds at which [`advance`](Self::advance) has something to do even if
    /// nothing happens before.
    pub fn next_deadline(&self) -> Option<u64> {
        todo!()
    }

    /// The owner moves the queue pair to Error. Completes everything that the connection took from
    /// its host and has not completed with [`Status::WrFlushed`](super::Status::WrFlushed), in
    /// order; what it never took is the owner's to flush. Packets are ignored from now on. Does
    /// nothing on a connection that failed already.
    pub fn fail(&mut self, host: &mut impl Host) {
        todo!()
    }

    /// Whether the connection failed, by itself or by [`fail`](Self::fail).
    pub fn is_failed(&self) -> bool {
        todo!()
    }
}

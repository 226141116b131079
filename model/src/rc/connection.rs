//! One end of a reliable connection.

use super::requester::Requester;
use super::responder::Responder;
use super::{Failure, Host, Packet, Psn, Status};
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
    /// It is an extended connection (XRC): each request says which shared receive queue it is about.
    pub extended: bool,
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
    responder: Responder,
    /// From Ready to Send on.
    requester: Option<Requester>,
    established: bool,
    failed: bool,
    longest_run: u16,
}

impl Connection {
    /// The most packets that each half transmits in one [`advance`](Self::advance).
    pub const BURST: u32 = 16;

    /// An end that answers its peer (Ready to Receive).
    pub fn new(attributes: Attributes) -> Self {
        let responder = Responder::new(attributes.expected_psn);
        Connection {
            attributes,
            responder,
            requester: None,
            established: false,
            failed: false,
            longest_run: 1,
        }
    }

    /// Lets it hand over up to `count` middle packets of a message in one piece, a run (see
    /// [`Packet`]): the fabric's [`longest_run`](crate::fabric::Fabric::longest_run). It saves most of
    /// the work per packet.
    /// A run counts as its packets toward [`BURST`](Self::BURST) and the window.
    pub fn set_longest_run(&mut self, count: u16) {
        self.longest_run = count.max(1);
    }

    /// Has it keep no more than `count` packets on their way that are not acknowledged, and fewer for a
    /// while after some were lost: the fabric's
    /// [`most_outstanding`](crate::fabric::Fabric::most_outstanding), if it has one. Does nothing before
    /// [`start_sending`](Self::start_sending).
    pub fn limit_window(&mut self, count: u32) {
        if let Some(requester) = &mut self.requester {
            requester.limit_window(count);
        }
    }

    /// Lets it send, too (Ready to Send). Does nothing the second time.
    pub fn start_sending(&mut self, attributes: SendAttributes) {
        self.requester.get_or_insert_with(|| Requester::new(attributes));
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
        if let Some(requester) = &mut self.requester {
            requester.set_draining(draining);
        }
    }

    /// Whether every work request that was taken has completed.
    pub fn is_drained(&self) -> bool {
        self.requester.as_ref().is_none_or(Requester::is_drained)
    }

    /// Takes in a packet from the peer. Answers are sent by the next [`advance`](Self::advance), so
    /// that one acknowledgement answers a batch.
    pub fn receive(&mut self, now: u64, packet: &Packet, host: &mut impl Host) {
        // The top bit of a partition key is the membership, not the partition.
        let other_partition = packet.partition_key ^ self.attributes.partition_key;
        let other_service = packet.extended.is_some() != self.attributes.extended;
        if self.failed || other_partition & 0x7fff != 0 || other_service {
            return;
        }
        if !self.established {
            self.established = true;
            host.established();
        }
        if !packet.opcode.is_response() {
            self.responder.receive(&self.attributes, packet, host);
        } else if let Some(requester) = &mut self.requester
            && let Err(status) = requester.receive(now, &self.attributes, packet, host)
        {
            self.request_failed(status, host);
        }
    }

    /// Does what is due at `now`: answers, timeouts, new work requests.
    pub fn advance(&mut self, now: u64, host: &mut impl Host) -> Progress {
        if self.failed {
            return Progress::Idle;
        }
        let mut answers = Self::BURST;
        if let Err(cause) =
            self.responder.advance(&self.attributes, self.longest_run, &mut answers, host)
        {
            self.stop(cause, host);
            return Progress::Idle;
        }
        let mut requests = Self::BURST;
        if let Some(requester) = &mut self.requester
            && let Err(status) =
                requester.advance(now, &self.attributes, self.longest_run, &mut requests, host)
        {
            self.request_failed(status, host);
            return Progress::Idle;
        }
        if requests == 0 || self.responder.has_answers() { Progress::More } else { Progress::Idle }
    }

    /// The owner destroys the queue pair: sends the answers that wait, at most [`BURST`](Self::BURST)
    /// packets. What was executed has completed, so its owner may leave before the next
    /// [`advance`](Self::advance), and the peer would never hear of it.
    pub fn answer(&mut self, host: &mut impl Host) {
        let mut answers = Self::BURST;
        if !self.failed {
            // Nobody is left to fail.
            let _ = self.responder.advance(&self.attributes, self.longest_run, &mut answers, host);
        }
    }

    /// The time in nanoseconds at which [`advance`](Self::advance) has something to do even if
    /// nothing happens before.
    pub fn next_deadline(&self) -> Option<u64> {
        self.requester.as_ref().and_then(Requester::next_deadline)
    }

    /// The owner moves the queue pair to Error. Completes everything that the connection took from
    /// its host and has not completed with [`Status::WrFlushed`], in order; what it never took is
    /// the owner's to flush. Packets are ignored from now on. Does nothing on a connection that
    /// failed already.
    pub fn fail(&mut self, host: &mut impl Host) {
        if !self.failed {
            self.stop(Failure::Owner, host);
        }
    }

    /// Whether the connection failed, by itself or by [`fail`](Self::fail).
    pub fn is_failed(&self) -> bool {
        self.failed
    }

    /// The oldest work request failed.
    fn request_failed(&mut self, status: Status, host: &mut impl Host) {
        if let Some(requester) = &mut self.requester {
            requester.fail_front(status, host);
        }
        self.stop(Failure::Request(status), host);
    }

    fn stop(&mut self, cause: Failure, host: &mut impl Host) {
        self.failed = true;
        host.failed(cause);
        if let Some(requester) = &mut self.requester {
            requester.flush(host);
        }
        self.responder.flush(host);
    }
}

//! The sending half of a connection: work requests to packets, answers to completions.
//!
//! Three PSNs say where it is: `unacked`, the oldest that is not acknowledged; `next`, the one to
//! send next; and `frontier`, the one after the furthest that was ever sent. Normally `next` is the
//! frontier; after a timeout or NAK it goes back, at most to `unacked`.

use super::taken::Taken;
use super::window::Window;
use super::{
    Aeth, Attributes, ByteOrder, Data, Headers, Host, NakCode, Opcode, Operation, Packet, Psn,
    SendAttributes, Status, Syndrome, ack_timeout, rnr_timer,
};
use crate::memory::Payload;
use std::collections::VecDeque;

/// PSNs that may be outstanding at most, so that old and new ones differ (IBTA vol. 1, chapter 9).
const MAX_OUTSTANDING: u32 = Psn::COUNT / 2;

/// The sending half of a connection.
pub(super) struct Requester {
    settings: SendAttributes,
    /// Work requests that were taken and have not completed, oldest first.
    taken: VecDeque<Taken>,
    /// The one of `taken` that `next` belongs to; its length if that is still to be taken.
    at: usize,
    unacked: Psn,
    next: Psn,
    frontier: Psn,
    /// Reads and atomics before `at`: those whose answer is awaited.
    reads: u8,
    retries_left: u8,
    rnr_retries_left: u8,
    /// When to send again what is not acknowledged.
    timeout: Option<u64>,
    /// Nothing is sent before this time, because the peer had no receive for this PSN.
    rnr: Option<(u64, Psn)>,
    /// A NAK, or an answer with a gap before it, already made us go back to this PSN. Others that
    /// say the same say nothing new.
    went_back: Option<Psn>,
    /// Packets since the last one that asked for an acknowledgement.
    unasked: u32,
    draining: bool,
    window: Window,
}

/// What may be done next.
enum Step {
    /// Sent so many packets, or did a local operation, which counts as one.
    Done(u32),
    /// Nothing can be sent now.
    Wait,
}

impl Requester {
    pub(super) fn new(settings: SendAttributes) -> Self {
        let first = settings.first_psn;
        Requester {
            taken: VecDeque::new(),
            at: 0,
            unacked: first,
            next: first,
            frontier: first,
            reads: 0,
            retries_left: settings.retry_count,
            rnr_retries_left: settings.rnr_retry,
            timeout: None,
            rnr: None,
            went_back: None,
            unasked: 0,
            draining: false,
            window: Window::fixed(settings.window.clamp(1, MAX_OUTSTANDING)),
            settings,
        }
    }

    pub(super) fn limit_window(&mut self, count: u32) {
        self.window.limit(count);
    }

    pub(super) fn set_draining(&mut self, draining: bool) {
        self.draining = draining;
    }

    pub(super) fn is_drained(&self) -> bool {
        self.taken.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        match (self.rnr, self.timeout) {
            (Some((until, _)), _) => Some(until),
            (None, timeout) => timeout,
        }
    }

    /// Sends what is due, at most `budget` packets, which it counts down. The error is how the
    /// oldest work request fails.
    pub(super) fn advance(
        &mut self,
        now: u64,
        attributes: &Attributes,
        longest_run: u16,
        budget: &mut u32,
        host: &mut impl Host,
    ) -> Result<(), Status> {
        if let Some((until, _)) = self.rnr {
            if now < until {
                return Ok(());
            }
            self.rnr = None;
        }
        if self.timeout.is_some_and(|deadline| deadline <= now) {
            self.try_again()?;
        }
        while *budget > 0 {
            match self.step(now, attributes, longest_run.min(*budget as u16), host)? {
                Step::Done(packets) => *budget = budget.saturating_sub(packets),
                Step::Wait => break,
            }
        }
        Ok(())
    }

    /// Sends one packet or run, or does one local operation.
    fn step(
        &mut self,
        now: u64,
        attributes: &Attributes,
        longest_run: u16,
        host: &mut impl Host,
    ) -> Result<Step, Status> {
        let outstanding = self.next.since(self.unacked);
        if outstanding >= self.window.packets() {
            return Ok(Step::Wait);
        }
        if self.at == self.taken.len() {
            if self.draining {
                return Ok(Step::Wait);
            }
            let Some(request) = host.next_request() else { return Ok(Step::Wait) };
            self.taken.push_back(Taken::new(request, self.next, attributes, &self.settings));
        }
        let Some(taken) = self.taken.get_mut(self.at) else { return Ok(Step::Wait) };
        if taken.packets == 0 {
            return self.local(host);
        }
        let answered = taken.is_answered();
        // The PSNs that the step consumes, and the packets that it sends.
        let left = taken.end().since(self.next);
        let mut consumed = if answered { left } else { 1 };
        let mut packets = 1;
        let begins = self.next == taken.first;
        if begins && taken.request.fenced && self.reads > 0
            || answered && self.reads >= self.settings.max_outstanding_reads
            || outstanding + consumed > MAX_OUTSTANDING
        {
            return Ok(Step::Wait);
        }
        let last = consumed == left;
        let mut parts = None;
        if longest_run > 1 && !answered && !begins && left > 2 {
            let window = self.window.packets() - outstanding;
            let run = (left - 1).min(longest_run.into()).min(window);
            parts = taken.run(self.next, run, attributes, host);
            if parts.is_some() {
                (consumed, packets) = (run, run);
            }
        }
        let parts = match parts {
            Some(parts) => Ok(parts),
            None => taken.packet(self.next, last, attributes, host),
        };
        let (opcode, headers, payload) = match parts {
            Ok(parts) => parts,
            // It fails in its turn: when everything before it completed. Nothing after it is sent.
            Err(_) if self.at > 0 => return Ok(Step::Wait),
            Err(status) => return Err(status),
        };
        // Asked for at the end of each message, and often enough to keep the window moving.
        self.unasked += packets;
        let ask = last || self.unasked >= (self.window.packets() / 4).max(1);
        if ask {
            self.unasked = 0;
        }
        host.transmit(Packet {
            opcode,
            solicited: last && taken.request.solicited,
            partition_key: attributes.partition_key,
            destination: attributes.peer,
            extended: attributes.extended.then_some(taken.request.extended),
            ack_request: ask,
            psn: self.next,
            headers,
            payload,
            run: packets as u16,
        });
        if self.next.is_before(self.frontier) {
            host.sent_again(packets.min(self.frontier.since(self.next)));
        }
        self.next = self.next.add(consumed);
        if self.frontier.is_before(self.next) {
            self.frontier = self.next;
        }
        if last {
            self.at += 1;
            self.reads += u8::from(answered);
        }
        if self.timeout.is_none() {
            self.start_timer(now);
        }
        Ok(Step::Done(packets))
    }

    /// A work request that sends nothing, in its turn: when everything before it completed.
    fn local(&mut self, host: &mut impl Host) -> Result<Step, Status> {
        if self.at > 0 {
            return Ok(Step::Wait);
        }
        let Some(taken) = self.taken.front() else { return Ok(Step::Wait) };
        let status = match taken.failed {
            Some(status) => status,
            None => host.local_operation(taken.request.entry),
        };
        if status != Status::Success {
            return Err(status);
        }
        host.complete_send(&taken.request, status);
        self.taken.pop_front();
        Ok(Step::Done(1))
    }

    /// Takes in a packet that answers. The error is how the oldest work request fails.
    pub(super) fn receive(
        &mut self,
        now: u64,
        attributes: &Attributes,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Result<(), Status> {
        if packet.psn.since(self.unacked) >= self.frontier.since(self.unacked) {
            // Acknowledged already, or never sent: a ghost.
            return Ok(());
        }
        let positive =
            matches!(packet.headers, Headers::Ack(Aeth { syndrome: Syndrome::Ack { .. }, .. }));
        let acknowledged = if packet.opcode == Opcode::Acknowledge && positive {
            packet.psn.add(1)
        } else {
            packet.psn
        };
        if !self.acknowledge(now, acknowledged, host) {
            // A read or atomic before it has no answer yet: that was lost.
            return self.go_back_once();
        }
        match (packet.opcode, packet.headers) {
            (Opcode::Acknowledge, Headers::Ack(aeth)) => match aeth.syndrome {
                Syndrome::Ack { .. } => Ok(()),
                Syndrome::RnrNak { timer } => self.not_ready(now, packet.psn, timer),
                Syndrome::Nak(NakCode::SequenceError) => self.go_back_once(),
                Syndrome::Nak(NakCode::InvalidRequest) => Err(Status::RemoteInvalidRequest),
                Syndrome::Nak(NakCode::RemoteAccess) => Err(Status::RemoteAccess),
                Syndrome::Nak(NakCode::RemoteOperational) => Err(Status::RemoteOperational),
                Syndrome::Reserved(_) => Err(Status::BadResponse),
            },
            (Opcode::AtomicAcknowledge, Headers::AtomicAck(_, was)) => {
                self.atomic_answer(now, attributes, packet, was, host)
            }
            _ => self.read_response(now, attributes, packet, host),
        }
    }

    /// Completes what is acknowledged by the peer having executed everything before `upto`. False
    /// if a read or atomic before `upto` has not been answered: only what is before it completes.
    fn acknowledge(&mut self, now: u64, upto: Psn, host: &mut impl Host) -> bool {
        let before = self.unacked;
        let mut all = true;
        while self.unacked != upto {
            let Some(front) = self.taken.front() else { break };
            let end = front.end();
            if front.is_answered() || front.packets == 0 {
                all = false;
                break;
            }
            if upto.is_before(end) {
                self.unacked = upto;
            } else {
                self.unacked = end;
                self.complete_front(host);
            }
        }
        if self.unacked != before {
            self.window.acknowledged(self.unacked.since(before));
            self.made_progress(now);
        }
        all
    }

    fn complete_front(&mut self, host: &mut impl Host) {
        let Some(taken) = self.taken.pop_front() else { return };
        // If we had gone back to it, `made_progress` moves `next` on.
        if self.at > 0 {
            self.at -= 1;
            self.reads -= u8::from(taken.is_answered());
        }
        host.complete_send(&taken.request, Status::Success);
    }

    /// `unacked` moved.
    fn made_progress(&mut self, now: u64) {
        self.retries_left = self.settings.retry_count;
        self.rnr_retries_left = self.settings.rnr_retry;
        self.went_back = None;
        if self.rnr.is_some_and(|(_, psn)| psn.is_before(self.unacked)) {
            self.rnr = None;
        }
        if self.next.is_before(self.unacked) {
            self.next = self.unacked;
        }
        if self.next == self.unacked {
            self.timeout = None;
        } else {
            self.start_timer(now);
        }
    }

    fn start_timer(&mut self, now: u64) {
        self.timeout = ack_timeout(self.settings.timeout).map(|time| now.saturating_add(time));
    }

    /// Sends again what is not acknowledged, if retries are left.
    fn try_again(&mut self) -> Result<(), Status> {
        self.retries_left =
            self.retries_left.checked_sub(1).ok_or(Status::TransportRetryExceeded)?;
        self.window.lost();
        self.go_back();
        Ok(())
    }

    /// The same for the first of the packets that say that `unacked` was lost.
    fn go_back_once(&mut self) -> Result<(), Status> {
        if self.went_back != Some(self.unacked) {
            self.try_again()?;
            self.went_back = Some(self.unacked);
        }
        Ok(())
    }

    fn go_back(&mut self) {
        self.at = 0;
        self.next = self.unacked;
        self.reads = 0;
        self.timeout = None;
        self.went_back = None;
    }

    /// The peer has no receive for the packet `psn`, which is `unacked` now.
    fn not_ready(&mut self, now: u64, psn: Psn, timer: u8) -> Result<(), Status> {
        if self.rnr.is_some() {
            return Ok(());
        }
        if self.settings.rnr_retry != 7 {
            self.rnr_retries_left =
                self.rnr_retries_left.checked_sub(1).ok_or(Status::RnrRetryExceeded)?;
        }
        self.go_back();
        self.rnr = Some((now.saturating_add(rnr_timer(timer)), psn));
        Ok(())
    }

    /// A packet of a read's answer, which is due.
    fn read_response(
        &mut self,
        now: u64,
        attributes: &Attributes,
        packet: &Packet,
        host: &mut impl Host,
    ) -> Result<(), Status> {
        let Some(front) = self.taken.front_mut() else { return Err(Status::BadResponse) };
        let (Operation::Read(_), Data::List(list)) =
            (&front.request.operation, &front.request.data)
        else {
            return Err(Status::BadResponse);
        };
        let left = front.length - front.arrived;
        let mtu = u64::from(attributes.mtu.bytes());
        let last = left <= mtu;
        let says_last = match packet.opcode {
            Opcode::ReadResponseFirst | Opcode::ReadResponseMiddle => false,
            Opcode::ReadResponseLast | Opcode::ReadResponseOnly => true,
            _ => return Err(Status::BadResponse),
        };
        let len = packet.payload.len() as u64;
        let run = u64::from(packet.run.max(1));
        let right_length = match packet.opcode {
            Opcode::ReadResponseMiddle => len == mtu * run && len < left,
            _ => run == 1 && len == left.min(mtu),
        };
        if says_last != last || !right_length {
            return Err(Status::BadResponse);
        }
        host.memory()
            .scatter(attributes.protection_domain, list, front.arrived, &packet.payload)
            .map_err(|_| Status::LocalProtection)?;
        front.arrived += len;
        self.unacked = packet.psn.add(run as u32);
        self.window.acknowledged(run as u32);
        if last {
            self.complete_front(host);
        }
        self.made_progress(now);
        Ok(())
    }

    /// The answer of an atomic, which is due.
    fn atomic_answer(
        &mut self,
        now: u64,
        attributes: &Attributes,
        packet: &Packet,
        was: u64,
        host: &mut impl Host,
    ) -> Result<(), Status> {
        let Some(front) = self.taken.front() else { return Err(Status::BadResponse) };
        let (Operation::FetchAdd { .. } | Operation::CompareSwap { .. }, Data::List(list)) =
            (&front.request.operation, &front.request.data)
        else {
            return Err(Status::BadResponse);
        };
        let bytes = match self.settings.atomic_answers {
            ByteOrder::Native => was.to_ne_bytes(),
            ByteOrder::Big => was.to_be_bytes(),
        };
        let payload = Payload::copy_of(&bytes);
        host.memory()
            .scatter(attributes.protection_domain, list, 0, &payload)
            .map_err(|_| Status::LocalProtection)?;
        self.unacked = packet.psn.add(1);
        self.window.acknowledged(1);
        self.complete_front(host);
        self.made_progress(now);
        Ok(())
    }

    /// Completes the oldest work request with the status that it failed with.
    pub(super) fn fail_front(&mut self, status: Status, host: &mut impl Host) {
        if let Some(taken) = self.taken.pop_front() {
            host.complete_send(&taken.request, status);
        }
    }

    /// The connection failed: flushes what was taken.
    pub(super) fn flush(&mut self, host: &mut impl Host) {
        for taken in self.taken.drain(..) {
            host.complete_send(&taken.request, Status::WrFlushed);
        }
        (self.timeout, self.rnr) = (None, None);
    }
}

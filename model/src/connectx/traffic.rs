//! Whose turn it is: packets in, bursts out, deadlines, and what has to be flushed.

use super::host::Attendant;
use super::nic::Connectx;
use super::send::Limits;
use super::{Event, Path, State};
use crate::fabric::{Fabric, Message};
use crate::rc::{Connection, Packet, Progress};
use std::collections::VecDeque;

impl Connectx {
    pub(super) fn make_ready(&mut self, number: u32) {
        if self.is_ready.insert(number) {
            self.ready.push_back(number);
        }
    }

    /// The queue pairs that may have something to do now.
    pub(super) fn ready(&self) -> &VecDeque<u32> {
        &self.ready
    }

    /// Makes the queue pairs whose time has come ready.
    pub(super) fn wake(&mut self, now: u64) {
        while let Some(&(deadline, number)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            self.deadline_of.remove(&number);
            self.make_ready(number);
        }
    }

    /// When the next queue pair has something to do by itself.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.first().map(|&(deadline, _)| deadline)
    }

    /// Calls `with` with a queue pair's connection and what it may use, then looks after the rest:
    /// the next deadline, and what has to be flushed.
    pub(super) fn attend<R>(
        &mut self,
        number: u32,
        now: u64,
        fabric: &mut dyn Fabric,
        with: impl FnOnce(&mut QueuePairParts<'_, '_>) -> R,
    ) -> Option<R> {
        let pair = self.pairs.get_mut(&number)?;
        let mut host = Attendant {
            now,
            core: &mut pair.core,
            memory: &mut self.memory,
            queues: &mut self.queues,
            domains: &mut self.domains,
            changeable: &mut self.changeable,
            shared: &mut self.shared,
            fabric,
            port: self.port,
            link_up: self.link_up,
            sources: &self.sources,
            limits: Limits {
                message: 1 << self.capabilities.log_max_message,
                entry: self.capabilities.max_send_entry.into(),
            },
            events: &*self.events,
            counters: &mut self.counters,
            log: &mut self.log,
        };
        let mut parts = QueuePairParts { connection: &mut pair.connection, host: &mut host };
        let result = with(&mut parts);
        let QueuePairParts { connection, host } = parts;
        if host.core.lost_completion && host.core.state != State::Error {
            host.core.state = State::Error;
            if let Some(connection) = connection {
                connection.fail(host);
            }
        }
        if host.core.state == State::Error {
            host.flush();
            let first = self.in_error.insert(number);
            if first && host.core.context.shared_receives.is_some() {
                host.raise(Event::LastReceiveReached { pair: number });
            }
        }
        let deadline = pair.connection.as_ref().and_then(Connection::next_deadline);
        let known = self.deadline_of.get(&number).copied();
        if deadline != known {
            if let Some(known) = known {
                self.deadlines.remove(&(known, number));
                self.deadline_of.remove(&number);
            }
            if let Some(deadline) = deadline {
                self.deadlines.insert((deadline, number));
                self.deadline_of.insert(number, deadline);
            }
        }
        Some(result)
    }

    pub(super) fn fail_pair(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) {
        self.attend(number, now, fabric, |parts| {
            parts.host.core.state = State::Error;
            if let Some(connection) = parts.connection {
                connection.fail(parts.host);
            }
        });
    }

    /// Lets the ready queue pair at `place` send a burst.
    pub(super) fn advance(&mut self, place: usize, now: u64, fabric: &mut dyn Fabric) {
        let Some(number) = self.ready.remove(place) else { return };
        self.is_ready.remove(&number);
        let progress = self.attend(number, now, fabric, |parts| match parts.connection {
            Some(connection) => Some(connection.advance(now, parts.host)),
            None => Some(parts.host.send_unacknowledged()),
        });
        if progress == Some(Some(Progress::More)) {
            self.make_ready(number);
        }
    }

    /// Takes in the next packet that has arrived. Answers whether there was one.
    pub(super) fn receive(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        if self.dead {
            return false;
        }
        let Some(arrival) = fabric.receive(now, self.port) else {
            return self.receive_message(now, fabric);
        };
        let number = arrival.packet.destination;
        let expected = self.pairs.get(&number).is_some_and(|pair| {
            pair.connection.is_some()
                && pair.core.path.is_some_and(|path| {
                    path.source == arrival.destination && path.destination == arrival.source
                })
        });
        if !expected || !self.link_up {
            self.counters.packets_dropped += u64::from(arrival.packet.run);
            return true;
        }
        self.counters.packets_received += u64::from(arrival.packet.run);
        self.take_in(number, now, &arrival.packet, fabric);
        true
    }

    fn receive_message(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        let Some(arrival) = fabric.receive_message(now, self.port) else { return false };
        if !self.link_up {
            self.counters.packets_dropped += 1;
            return true;
        }
        match arrival.message {
            Message::Frame(bytes) => self.take_frame(&bytes, now),
            Message::Datagram(datagram) => {
                self.take_datagram(arrival.source, &datagram, now, fabric);
            }
            Message::Unreliable(packet) => {
                let path = Path { source: arrival.destination, destination: arrival.source };
                self.take_unreliable(path, &packet, now, fabric);
            }
        }
        true
    }

    fn take_in(&mut self, number: u32, now: u64, packet: &Packet, fabric: &mut dyn Fabric) {
        self.attend(number, now, fabric, |parts| {
            if let Some(connection) = parts.connection {
                connection.receive(now, packet, parts.host);
            }
        });
        self.make_ready(number);
    }

    /// Sends a queue pair's answers ahead of its turn: it will not get another.
    pub(super) fn answer(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) {
        self.attend(number, now, fabric, |parts| {
            if let Some(connection) = parts.connection {
                connection.answer(parts.host);
            }
        });
    }

    /// The same, of every queue pair. Answers whether all that the NIC sent has left.
    pub(super) fn answer_all(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        for number in self.pairs.keys().copied().collect::<Vec<_>>() {
            self.answer(number, now, fabric);
        }
        self.dead || !fabric.is_congested(self.port)
    }

    /// Flushes what was posted to queue pairs in error since. Receives are posted without a
    /// doorbell, so somebody has to look.
    pub(super) fn flush_late(&mut self, now: u64, fabric: &mut dyn Fabric) {
        for number in self.in_error.iter().copied().collect::<Vec<_>>() {
            self.attend(number, now, fabric, |_| ());
        }
    }

    /// Whether a queue pair is in error, so that [`flush_late`](Self::flush_late) may find work.
    pub(super) fn has_failed_pairs(&self) -> bool {
        !self.in_error.is_empty()
    }
}

/// A queue pair taken apart, for the time of a call into its connection.
pub(super) struct QueuePairParts<'a, 'b> {
    pub(super) connection: &'a mut Option<Connection>,
    pub(super) host: &'a mut Attendant<'b>,
}

//! Whose turn it is: packets in, bursts out, deadlines, and what has to be flushed.

use super::host::Attendant;
use super::nic::Connectx;
use super::send::Limits;
use super::{Event, Path, State};
use crate::fabric::{Fabric, Message, Port};
use crate::network::{Bus, Device};
use crate::rc::{Connection, Packet, Progress};
use std::sync::Arc;

impl Connectx {
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
            statistics: &mut self.statistics,
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
            let first = self.schedule.failed(number);
            if first && host.core.context.shared_receives.is_some() {
                host.raise(Event::LastReceiveReached { pair: number });
            }
        }
        let deadline = pair.connection.as_ref().and_then(Connection::next_deadline);
        self.schedule.set_deadline(number, deadline);
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
        self.schedule.make_ready(number);
    }

    /// Sends a queue pair's answers ahead of its turn: it will not get another.
    pub(super) fn answer(&mut self, number: u32, now: u64, fabric: &mut dyn Fabric) {
        self.attend(number, now, fabric, |parts| {
            if let Some(connection) = parts.connection {
                connection.answer(parts.host);
            }
        });
    }
}

impl Device for Connectx {
    fn port(&self) -> Port {
        self.port
    }

    fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    fn is_dead(&self) -> bool {
        self.dead
    }

    fn look(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        self.look_at_records(now, fabric)
    }

    fn is_watching(&self) -> bool {
        !self.watched.is_empty()
    }

    fn take_store(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        let Some(store) = self.bus.take() else { return false };
        if !self.dead {
            self.act_on(&store, now, fabric);
        }
        true
    }

    fn wake(&mut self, now: u64) {
        self.schedule.wake(now);
    }

    fn ready(&self) -> usize {
        self.schedule.ready()
    }

    fn advance(&mut self, place: usize, now: u64, fabric: &mut dyn Fabric) {
        let Some(number) = self.schedule.take(place) else { return };
        let progress = self.attend(number, now, fabric, |parts| match parts.connection {
            Some(connection) => Some(connection.advance(now, parts.host)),
            None => Some(parts.host.send_unacknowledged()),
        });
        if progress == Some(Some(Progress::More)) {
            self.schedule.make_ready(number);
        }
    }

    fn receive(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
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
        let set = self.pairs.get(&number).map_or(0, |pair| pair.core.counter_set());
        self.statistics.packet_received(set, &arrival.packet);
        self.take_in(number, now, &arrival.packet, fabric);
        true
    }

    fn next_deadline(&self) -> Option<u64> {
        self.schedule.next_deadline()
    }

    // Receives are posted without a doorbell, so somebody has to look.
    fn flush_late(&mut self, now: u64, fabric: &mut dyn Fabric) {
        for number in self.schedule.in_error() {
            self.attend(number, now, fabric, |_| ());
        }
    }

    fn has_failed_pairs(&self) -> bool {
        self.schedule.has_failed()
    }

    fn answer_all(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        for number in self.pairs.keys().copied().collect::<Vec<_>>() {
            self.answer(number, now, fabric);
        }
        self.dead || !fabric.is_congested(self.port)
    }

    fn close(&mut self, fabric: &mut dyn Fabric) {
        if !self.dead {
            self.bus.unplug();
            fabric.detach(self.port);
        }
    }
}

/// A queue pair taken apart, for the time of a call into its connection.
pub(super) struct QueuePairParts<'a, 'b> {
    pub(super) connection: &'a mut Option<Connection>,
    pub(super) host: &'a mut Attendant<'b>,
}

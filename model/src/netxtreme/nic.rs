//! The function, and everything in it.

use super::command_queue::CommandQueue;
use super::context::BackingStore;
use super::ethernet::Frames;
use super::firmware::Reservations;
use super::record::{Fetched, Record};
use super::refusal::Refusals;
use super::registers::Registers;
use super::ring::ChannelRing;
use super::roce::Engine;
use super::statistics::Statistics;
use super::{Counters, Identity};
use crate::connectx::firmware::Interrupts;
use crate::fabric::{Address, Fabric, Message, Port};
use crate::memory::{AddressSpace, Keys, Memory};
use crate::network::{Bus, Device, Log, Network, Nic, NicId, Schedule};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The first index of memory keys.
const FIRST_KEY: u32 = 0x100;
/// Keys beside those of the driver: one that stands for all of memory, for each protection domain
/// that uses it.
const OWN_KEYS: u32 = 1 << 16;

/// A virtual BCM57608.
pub struct Netxtreme {
    pub(super) bus: Arc<Bus>,
    pub(super) port: Port,
    pub(super) identity: Identity,
    pub(super) memory: Memory,
    pub(super) interrupts: Arc<dyn Interrupts>,
    pub(super) schedule: Schedule,
    pub(super) counters: Counters,
    pub(super) log: Log,
    pub(super) registers: Registers,
    /// Whether it may start accesses to memory.
    bus_master: bool,
    /// The cable is in, and the driver has not taken the link down.
    pub(super) cable: bool,
    pub(super) link_forced_down: bool,
    dead: bool,
    /// Who drives it has said so.
    pub(super) driven: bool,
    pub(super) reservations: Reservations,
    pub(super) contexts: BackingStore,
    pub(super) rings: BTreeMap<u16, ChannelRing>,
    pub(super) statistics: BTreeMap<u32, Statistics>,
    pub(super) frames: Frames,
    /// The ring that the firmware's own events go to.
    pub(super) events: Option<u16>,
    pub(super) commands: Option<CommandQueue>,
    pub(super) engine: Engine,
    /// Numbers are handed out in turn, so that a stale one meets nothing for long.
    pub(super) next_ring: u16,
    pub(super) next_number: u32,
    pub(super) refusals: Refusals,
    /// What queue pairs fetch that are made from now on, if somebody wants to know.
    pub(super) record: Option<Record>,
}

fn memory_of(space: &Arc<dyn AddressSpace>, identity: &Identity) -> Memory {
    Memory::new(
        Arc::clone(space),
        Keys::new(FIRST_KEY, identity.bounds.keys.min(1 << 20) + OWN_KEYS),
    )
}

impl Netxtreme {
    /// A function that was just switched on, at a new port of `network`'s fabric. Device addresses
    /// lead to `space`.
    pub fn switch_on(
        network: &Network,
        identity: Identity,
        space: Arc<dyn AddressSpace>,
        interrupts: Arc<dyn Interrupts>,
    ) -> NicId {
        network.add(|bus, fabric| {
            bus.lose_past(identity.bounds.doorbells as usize);
            let memory = memory_of(&space, &identity);
            let mut nic = Netxtreme {
                bus,
                port: fabric.attach(),
                identity,
                memory,
                interrupts,
                schedule: Schedule::default(),
                counters: Counters::default(),
                log: Log::default(),
                registers: Registers::default(),
                bus_master: true,
                cable: true,
                link_forced_down: false,
                dead: false,
                driven: false,
                reservations: Reservations::default(),
                contexts: BackingStore::default(),
                rings: BTreeMap::new(),
                statistics: BTreeMap::new(),
                frames: Frames::default(),
                events: None,
                commands: None,
                engine: Engine::default(),
                next_ring: 1,
                next_number: 0,
                refusals: Refusals::default(),
                record: None,
            };
            nic.bind(fabric);
            Nic::Netxtreme(Box::new(nic))
        })
    }

    fn bind(&mut self, fabric: &mut dyn Fabric) {
        fabric.bind(self.port, Address::Mac(self.identity.mac));
    }

    /// As after power-up.
    pub fn reset(&mut self, space: &Arc<dyn AddressSpace>, fabric: &mut dyn Fabric) {
        self.forget_everything(fabric);
        while self.bus.take().is_some() {}
        self.registers = Registers::default();
        self.memory = memory_of(space, &self.identity);
        self.driven = false;
        self.dead = false;
    }

    /// Every object is gone, and the backing store is not used any more.
    pub(super) fn forget_everything(&mut self, fabric: &mut dyn Fabric) {
        fabric.settle(self.port);
        self.stop_engine(fabric);
        self.schedule.clear();
        self.rings.clear();
        self.statistics.clear();
        self.frames = Frames::default();
        self.events = None;
        self.commands = None;
        self.reservations = Reservations::default();
        self.contexts = BackingStore::default();
        self.link_forced_down = false;
    }

    /// What it has seen and done.
    pub fn counters(&self) -> Counters {
        Counters { lost_doorbells: self.bus.lost(), ..self.counters }
    }

    /// What went wrong.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What went wrong since it was asked last, oldest first.
    pub fn take_log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log).into_lines()
    }

    /// Writes a line into the log.
    pub fn note(&mut self, line: impl std::fmt::Display) {
        self.log.note(line);
    }

    /// Keeps the entries that queue pairs fetch which are made from now on; the first 4096 of them.
    pub fn record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// The entries that were fetched since it was asked last, in their order.
    pub fn take_recorded(&mut self) -> Vec<Fetched> {
        self.record.as_ref().map(Record::take).unwrap_or_default()
    }

    /// Which NIC it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether it may start accesses to memory. Without, it does nothing.
    pub fn set_bus_master(&mut self, on: bool) {
        self.bus_master = on;
    }

    /// Whether it can work: it may reach memory, and has not died.
    pub(super) fn works(&self) -> bool {
        self.bus_master && !self.dead
    }

    /// The cable is plugged in or pulled out.
    pub fn set_link(&mut self, up: bool) {
        if self.cable != up {
            self.cable = up;
            self.tell_link();
        }
    }

    /// Whether the link is up.
    pub fn is_link_up(&self) -> bool {
        self.cable && !self.link_forced_down
    }

    /// The firmware dies: nothing is answered and nothing completes any more.
    pub fn die(&mut self) {
        self.dead = true;
        self.schedule.clear();
    }

    /// The RoCE objects that there are: keys, completion queues, queue pairs, shared receive queues,
    /// address vectors.
    pub fn objects(&self) -> [usize; 5] {
        let engine = &self.engine;
        let own = engine.all_of_memory.len();
        [
            self.memory.keys.len().saturating_sub(own),
            engine.queues.len(),
            engine.pairs.len(),
            engine.shared.len(),
            engine.vectors.len(),
        ]
    }

    /// Its port of the fabric.
    pub fn port(&self) -> Port {
        self.port
    }

    fn receive_message(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        let Some(arrival) = fabric.receive_message(now, self.port) else { return false };
        match arrival.message {
            _ if !self.is_link_up() => self.counters.packets_dropped += 1,
            Message::Frame(bytes) => self.take_frame(&bytes),
            Message::Datagram(datagram) => self.take_datagram(&datagram, now, fabric),
            // Unreliable connections are not something that it has.
            Message::Unreliable(_) => self.counters.packets_dropped += 1,
        }
        true
    }
}

impl Device for Netxtreme {
    fn port(&self) -> Port {
        self.port
    }

    fn bus(&self) -> &Arc<Bus> {
        &self.bus
    }

    fn is_dead(&self) -> bool {
        !self.works()
    }

    fn take_store(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        let Some(store) = self.bus.take() else { return false };
        if self.works() {
            self.act_on(&store, now, fabric);
        }
        true
    }

    fn receive(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        if !self.works() {
            // Nobody waits for it.
            let dropped = fabric.receive(now, self.port).is_some()
                || fabric.receive_message(now, self.port).is_some();
            self.counters.packets_dropped += u64::from(dropped);
            return dropped;
        }
        let Some(arrival) = fabric.receive(now, self.port) else {
            return self.receive_message(now, fabric);
        };
        let number = arrival.packet.destination;
        let expected = self.engine.pairs.get(&number).is_some_and(|pair| {
            pair.connection.is_some()
                && pair.core.path.is_some_and(|(source, destination)| {
                    source == arrival.destination && destination == arrival.source
                })
        });
        if !expected || !self.is_link_up() {
            self.counters.packets_dropped += u64::from(arrival.packet.run);
            return true;
        }
        self.counters.packets_received += u64::from(arrival.packet.run);
        self.attend(number, now, fabric, |parts| {
            if let Some(connection) = parts.connection {
                connection.receive(now, &arrival.packet, parts.host);
            }
        });
        self.schedule.make_ready(number);
        true
    }

    fn wake(&mut self, now: u64) {
        self.schedule.wake(now);
    }

    fn ready(&self) -> usize {
        self.schedule.ready()
    }

    fn advance(&mut self, place: usize, now: u64, fabric: &mut dyn Fabric) {
        if let Some(number) = self.schedule.take(place)
            && self.works()
        {
            self.advance_pair(number, now, fabric);
        }
    }

    fn next_deadline(&self) -> Option<u64> {
        self.schedule.next_deadline()
    }

    // Every entry is announced by a doorbell.
    fn flush_late(&mut self, _: u64, _: &mut dyn Fabric) {}

    fn has_failed_pairs(&self) -> bool {
        false
    }

    fn answer_all(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        for number in self.engine.pairs.keys().copied().collect::<Vec<_>>() {
            self.answer(number, now, fabric);
        }
        self.dead || !fabric.is_congested(self.port)
    }

    fn close(&mut self, fabric: &mut dyn Fabric) {
        self.bus.unplug();
        fabric.detach(self.port);
    }
}

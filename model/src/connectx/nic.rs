//! The NIC itself.

use super::completion_queue::CompletionQueue;
use super::datagram::Sources;
use super::ethernet::FrameQueues;
use super::queue_pair::QueuePair;
use super::registration::Changeable;
use super::shared_receive::SharedReceives;
use super::{Capabilities, Counters, Event, EventSink, Log, Refused, Statistics};
use crate::fabric::{Address, Fabric, Port};
use crate::memory::{AddressSpace, Keys, Memory};
use crate::network::{Bus, Schedule};
use crate::numbers::Numbers;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The first number of objects: numbers below are the NIC's own.
const FIRST_NUMBER: u32 = 0x40;
/// The first index of memory keys. 0x100 is the key that ends receives, 0x300 the reserved lkey.
const FIRST_KEY: u32 = 0x400;

/// How a NIC dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Every queue pair is flushed first, as by a firmware that still can.
    Flushed,
    /// Nothing completes any more.
    Silent,
}

/// A UAR page.
#[derive(Clone, Copy, Default)]
pub(super) struct Uar {
    /// Queue pairs and completion queues that use it.
    pub(super) users: u32,
    /// Whether it was given back while objects still used it.
    pub(super) given_back: bool,
}

/// A virtual ConnectX.
pub struct Connectx {
    pub(super) bus: Arc<Bus>,
    pub(super) port: Port,
    pub(super) addresses: Vec<Address>,
    pub(super) link_up: bool,
    pub(super) sources: Sources,
    /// The queue pairs that are in multicast groups, by the group's identifier.
    pub(super) groups: BTreeMap<[u8; 16], BTreeSet<u32>>,
    pub(super) capabilities: Capabilities,
    pub(super) memory: Memory,
    pub(super) events: Box<dyn EventSink>,
    pub(super) uars: BTreeMap<u32, Uar>,
    /// Which UAR pages are taken, from the first on.
    pub(super) uar_numbers: Numbers,
    pub(super) domains: BTreeMap<u32, u32>,
    /// What uses domain 0, the NIC's own.
    pub(super) own_domain: u32,
    /// What keys that entries may change need, by index.
    pub(super) changeable: BTreeMap<u32, Changeable>,
    pub(super) queues: BTreeMap<u32, CompletionQueue>,
    pub(super) pairs: BTreeMap<u32, QueuePair>,
    pub(super) shared: BTreeMap<u32, SharedReceives>,
    pub(super) frames: FrameQueues,
    /// Numbers are handed out in turn, so that a stale one meets nothing for long.
    pub(super) next_number: u32,
    /// Whose turn it is.
    pub(super) schedule: Schedule,
    /// BlueFlame copies under way: where the next slot goes to, page and offset, and whose it is.
    pub(super) copying: BTreeMap<(u32, u32), u32>,
    /// Register pages that are memory, which the NIC looks at.
    pub(super) watched: BTreeSet<u32>,
    pub(super) counters: Counters,
    pub(super) statistics: Statistics,
    pub(super) log: Log,
    pub(super) dead: bool,
}

impl Connectx {
    /// A NIC with no objects, at a new port of `fabric`.
    pub(crate) fn new(
        capabilities: Capabilities,
        space: Arc<dyn AddressSpace>,
        events: Box<dyn EventSink>,
        bus: Arc<Bus>,
        fabric: &mut dyn Fabric,
    ) -> Self {
        let keys = Keys::new(FIRST_KEY, 1 << capabilities.log_max_keys);
        Connectx {
            bus,
            port: fabric.attach(),
            addresses: Vec::new(),
            link_up: true,
            sources: Sources::default(),
            groups: BTreeMap::new(),
            capabilities,
            memory: Memory::new(space, keys),
            events,
            uars: BTreeMap::new(),
            uar_numbers: Numbers::default(),
            domains: BTreeMap::new(),
            own_domain: 0,
            changeable: BTreeMap::new(),
            queues: BTreeMap::new(),
            pairs: BTreeMap::new(),
            shared: BTreeMap::new(),
            frames: FrameQueues::default(),
            next_number: FIRST_NUMBER,
            schedule: Schedule::default(),
            copying: BTreeMap::new(),
            watched: BTreeSet::new(),
            counters: Counters::default(),
            statistics: Statistics::default(),
            log: Log::default(),
            dead: false,
        }
    }

    /// What it can.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// What it has seen and done.
    pub fn counters(&self) -> Counters {
        let register_stores = self.counters.register_stores + self.bus.seen();
        Counters { register_stores, ..self.counters }
    }

    /// What its port carried.
    pub fn statistics(&mut self) -> &mut Statistics {
        &mut self.statistics
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

    /// The objects that there are: protection domains, keys, completion queues, queue pairs, UARs.
    pub fn objects(&self) -> [usize; 5] {
        let keys = self.memory.keys.len();
        [self.domains.len(), keys, self.queues.len(), self.pairs.len(), self.uars.len()]
    }

    pub(super) fn alive(&self) -> Result<(), Refused> {
        if self.dead { Err(Refused::Dead) } else { Ok(()) }
    }

    /// A number that no object of `taken` has, out of `1 << log` numbers.
    pub(super) fn number(
        &mut self,
        log: u8,
        what: &'static str,
        taken: usize,
    ) -> Result<u32, Refused> {
        let limit = 1u64 << log;
        if taken as u64 + u64::from(FIRST_NUMBER) >= limit {
            return Err(Refused::Limit { what, limit });
        }
        loop {
            let number = self.next_number;
            self.next_number =
                if u64::from(number) + 1 >= limit { FIRST_NUMBER } else { number + 1 };
            let in_use = u64::from(number) >= limit
                || self.queues.contains_key(&number)
                || self.pairs.contains_key(&number)
                || self.shared.contains_key(&number)
                || self.is_frame_queue(number)
                || self.domains.contains_key(&number);
            if !in_use {
                return Ok(number);
            }
        }
    }

    /// Gives the port an address.
    pub fn bind(&mut self, address: Address, fabric: &mut dyn Fabric) {
        if !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
        if !self.dead {
            fabric.bind(self.port, address);
        }
    }

    /// Takes an address away from the port.
    pub fn unbind(&mut self, address: Address, fabric: &mut dyn Fabric) {
        self.addresses.retain(|&known| known != address);
        fabric.unbind(self.port, address);
    }

    /// Its port of the fabric.
    pub fn port(&self) -> Port {
        self.port
    }

    /// The link comes up or goes down; packets are lost while it is down.
    pub fn set_link(&mut self, up: bool) {
        if self.link_up != up && !self.dead {
            self.link_up = up;
            self.raise(if up { Event::PortActive } else { Event::PortError });
        }
    }

    /// Whether the link is up.
    pub fn is_link_up(&self) -> bool {
        self.link_up
    }

    /// Raises an asynchronous event.
    pub fn raise(&mut self, event: Event) {
        self.counters.asynchronous_events += 1;
        self.log.note(event);
        self.events.asynchronous(event);
    }

    /// The NIC dies. Objects can still be destroyed; nothing else works any more.
    pub fn die(&mut self, how: Death, now: u64, fabric: &mut dyn Fabric) {
        if self.dead {
            return;
        }
        if how == Death::Flushed {
            for number in self.pairs.keys().copied().collect::<Vec<_>>() {
                self.fail_pair(number, now, fabric);
            }
        }
        self.dead = true;
        self.bus.unplug();
        self.watched.clear();
        fabric.detach(self.port);
        self.schedule.clear();
        self.raise(Event::DeviceFatal);
    }

    /// Whether it died.
    pub fn is_dead(&self) -> bool {
        self.dead
    }
}

//! NICs that share a fabric, and how time passes for them.
//!
//! In a *free* network a thread runs the NICs all the time, and time is the clock's. In a *stepped*
//! network nothing happens until a test says so, one step after the other; time is a number that
//! jumps when there is nothing else to do, and a seed chooses what happens next among all that
//! could. The same seed and the same calls give the same run.
//!
//! | file | holds |
//! |---|---|
//! | `register` | doorbell registers, and the bus that stores travel on |
//! | `device` | what a network asks of a NIC |
//! | `schedule` | which queue pairs of a NIC have something to do |
//! | `world` | what happens next |
//! | `counters` | counters that know their names |
//! | `shown` | counters for other processes |
//! | `log` | what went wrong |

mod counters;
mod device;
mod log;
mod register;
mod schedule;
mod shown;
mod world;

pub use log::Log;
pub use register::{Store, UAR_PAGE, VirtualPage, VirtualRegister};

pub use shown::{NamedCounters, Seen, Shown, seen};

pub(crate) use counters::counters;
pub(crate) use device::{Device, Nic};
pub(crate) use register::{Bus, Mapping};
pub(crate) use schedule::Schedule;

use crate::connectx::{Capabilities, Connectx, EventSink};
use crate::fabric::{Fabric, FaultCounts, Faults, Faulty, Loopback, Tracer};
use crate::memory::AddressSpace;
use crate::netxtreme::Netxtreme;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};
use world::{Clock, Wire, World, serve};

/// A NIC of a network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NicId(u32);

/// What one step of a stepped network was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// A NIC took a store to one of its registers.
    Register(NicId),
    /// A NIC took in a packet.
    Packet(NicId),
    /// A queue pair of a NIC sent what it could.
    Send(NicId),
    /// Time went on to this many nanoseconds.
    Time(u64),
    /// Nothing is left to do.
    Idle,
}

/// NICs on one fabric. Clones are the same network; it ends with the last of them and of its NICs.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    world: Mutex<World>,
    /// Threads that wait for the world. The NICs' thread lets them go first.
    waiting: AtomicU32,
    thread: Option<Thread>,
    stop: AtomicBool,
}

/// How a network is made.
pub struct NetworkBuilder {
    seed: Option<u64>,
    faults: Option<(u64, Faults)>,
    fabric: Option<Box<dyn Fabric + Send>>,
    on_thread: Option<Box<dyn FnOnce() + Send>>,
}

impl NetworkBuilder {
    /// Nothing happens until a test says so, and `seed` chooses what happens next.
    pub fn stepped(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Packets are lost, doubled, reordered, delayed and corrupted, by `seed`, and the last of them
    /// are written down ([`Network::trace`]).
    pub fn faults(mut self, seed: u64, faults: Faults) -> Self {
        self.faults = Some((seed, faults));
        self
    }

    /// Packets travel on `fabric`.
    pub fn fabric(mut self, fabric: impl Fabric + Send + 'static) -> Self {
        self.fabric = Some(Box::new(fabric));
        self
    }

    /// The thread of a free network runs `first` before anything else: to say where and how it is to
    /// be scheduled.
    pub fn on_thread(mut self, first: impl FnOnce() + Send + 'static) -> Self {
        self.on_thread = Some(Box::new(first));
        self
    }

    /// The network. A free one starts its thread here.
    pub fn build(self) -> Network {
        let wire = match (self.fabric, self.faults, self.seed) {
            (Some(fabric), ..) => Wire::Other(fabric),
            (None, Some((seed, faults)), _) => {
                let faulty = Faulty::new(Loopback::new(), seed, faults);
                Wire::Faulty(Box::new(Tracer::new(faulty, TRACED)))
            }
            (None, None, Some(seed)) => {
                let faulty = Faulty::new(Loopback::new(), seed, Faults::default());
                Wire::Faulty(Box::new(Tracer::new(faulty, TRACED)))
            }
            (None, None, None) => Wire::Plain(Loopback::new()),
        };
        let clock = match self.seed {
            Some(seed) => Clock::Simulated(0, fastrand::Rng::with_seed(seed)),
            None => Clock::Real(Instant::now()),
        };
        let free = matches!(clock, Clock::Real(_));
        let world = Mutex::new(World { nics: BTreeMap::new(), next_nic: 0, wire, clock });
        let shared = |thread, world| Shared {
            world,
            waiting: AtomicU32::new(0),
            thread,
            stop: AtomicBool::new(false),
        };
        if !free {
            return Network(Arc::new(shared(None, world)));
        }
        // The thread needs the network and the network its thread: the thread waits for its half.
        let (send, receive) = std::sync::mpsc::sync_channel::<Weak<Shared>>(1);
        let first = self.on_thread;
        let spawned = std::thread::Builder::new().name("virtual-nics".into()).spawn(move || {
            if let Some(first) = first {
                first();
            }
            if let Ok(network) = receive.recv() {
                serve(&network);
            }
        });
        // A process that cannot start a thread gets a network that only moves when it is stepped.
        let thread = spawned.ok().map(|handle| handle.thread().clone());
        let shared = Arc::new(shared(thread, world));
        let _ = send.send(Arc::downgrade(&shared));
        Network(shared)
    }
}

/// The packets that a stepped or faulty network writes down.
const TRACED: usize = 200;

impl Network {
    /// A network whose NICs run by themselves, on a fabric where nothing goes wrong.
    pub fn free() -> Network {
        Network::builder().build()
    }

    /// A network that a test steps through, on a fabric where nothing goes wrong.
    pub fn stepped(seed: u64) -> Network {
        Network::builder().stepped(seed).build()
    }

    /// A network of choice.
    pub fn builder() -> NetworkBuilder {
        NetworkBuilder { seed: None, faults: None, fabric: None, on_thread: None }
    }

    /// Whether the NICs run by themselves.
    pub fn is_free(&self) -> bool {
        self.0.thread.is_some()
    }

    /// Adds a ConnectX. `space` is where its device addresses lead to.
    pub fn add_nic(
        &self,
        capabilities: Capabilities,
        space: Arc<dyn AddressSpace>,
        events: Box<dyn EventSink>,
    ) -> NicId {
        self.add(|bus, fabric| {
            Nic::Connectx(Box::new(Connectx::new(capabilities, space, events, bus, fabric)))
        })
    }

    /// Adds a NIC that `make` makes, given its bus and the fabric.
    pub(crate) fn add(&self, make: impl FnOnce(Arc<Bus>, &mut dyn Fabric) -> Nic) -> NicId {
        let depth = if self.is_free() { BUS_DEPTH } else { STEPPED_BUS_DEPTH };
        let bus = Arc::new(Bus::new(depth, self.is_free()));
        if let Some(thread) = &self.0.thread {
            bus.served_by(thread.clone());
        }
        let mut world = self.lock();
        let id = world.next_nic;
        world.next_nic += 1;
        let nic = make(bus, world.wire.fabric());
        world.nics.insert(id, nic);
        drop(world);
        self.wake();
        NicId(id)
    }

    /// Takes a NIC away. It touches no memory after this.
    pub fn remove_nic(&self, id: NicId) {
        let mut world = self.lock();
        if let Some(mut nic) = world.nics.remove(&id.0) {
            nic.device_mut().close(world.wire.fabric());
        }
    }

    /// Calls `with` with a ConnectX, the fabric and the time; `None` where there is no such NIC.
    pub fn with_nic<R>(
        &self,
        id: NicId,
        with: impl FnOnce(&mut Connectx, &mut dyn Fabric, u64) -> R,
    ) -> Option<R> {
        self.with(id, |nic, fabric, now| match nic {
            Nic::Connectx(nic) => Some(with(nic, fabric, now)),
            Nic::Netxtreme(_) => None,
        })
    }

    /// The same with a NetXtreme.
    pub fn with_netxtreme<R>(
        &self,
        id: NicId,
        with: impl FnOnce(&mut Netxtreme, &mut dyn Fabric, u64) -> R,
    ) -> Option<R> {
        self.with(id, |nic, fabric, now| match nic {
            Nic::Connectx(_) => None,
            Nic::Netxtreme(nic) => Some(with(nic, fabric, now)),
        })
    }

    fn with<R>(
        &self,
        id: NicId,
        with: impl FnOnce(&mut Nic, &mut dyn Fabric, u64) -> Option<R>,
    ) -> Option<R> {
        let mut world = self.lock();
        let now = world.now();
        let World { nics, wire, .. } = &mut *world;
        let result = with(nics.get_mut(&id.0)?, wire.fabric(), now)?;
        drop(world);
        self.wake();
        Some(result)
    }

    /// How many NICs the network has had.
    pub fn nics(&self) -> u32 {
        self.lock().next_nic
    }

    /// Puts a store to a NIC's registers on its bus, as a bus bridge does that has no mapped pages.
    /// Waits while the bus is full, in a free network.
    pub fn store(&self, id: NicId, store: Store) {
        if let Some(bus) = self.bus(id) {
            bus.put(store);
        }
    }

    /// The same, and does at once what there is to do then: a bridge that waits for nobody spares the
    /// NICs' thread its turn.
    pub fn store_and_serve(&self, id: NicId, store: Store) {
        /// Rounds in a row, after which the NICs' thread goes on.
        const ROUNDS: u32 = 32;
        let mut world = self.lock();
        let Some(bus) = world.nics.get(&id.0).map(|nic| Arc::clone(nic.device().bus())) else {
            return;
        };
        if !bus.try_put(store) {
            drop(world);
            return bus.put(store);
        }
        let busy = (0..ROUNDS).all(|_| world.run());
        let more = busy || world.waits();
        drop(world);
        if more {
            self.wake();
        }
    }

    pub(crate) fn bus(&self, id: NicId) -> Option<Arc<Bus>> {
        self.lock().nics.get(&id.0).map(|nic| Arc::clone(nic.device().bus()))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        let world = self.0.world.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        world
    }

    /// Wakes the NICs' thread: there may be something to do.
    fn wake(&self) {
        if let Some(thread) = &self.0.thread {
            thread.unpark();
        }
    }

    /// Does one of the things that could happen next, as the seed chooses. If nothing can but time
    /// can pass, time goes on to the next thing.
    ///
    /// A free network is not to be stepped; that does no harm, but what happens depends on timing.
    pub fn step(&self) -> Step {
        self.lock().step()
    }

    /// Steps until nothing is left to do, at most `most` times. Answers whether nothing is left.
    pub fn run_until_idle(&self, most: u64) -> bool {
        let mut world = self.lock();
        (0..most).any(|_| world.step() == Step::Idle)
    }

    /// Steps until `done` says so, nothing is left to do, or `most` steps were done. Answers whether
    /// `done` said so.
    pub fn run_until(&self, most: u64, mut done: impl FnMut() -> bool) -> bool {
        for _ in 0..most {
            if done() {
                return true;
            }
            if self.step() == Step::Idle {
                break;
            }
        }
        done()
    }

    /// How long a program had better let [`say_goodbye`](Self::say_goodbye) take.
    pub const GOODBYE: Duration = Duration::from_millis(500);

    /// Sends what the NICs' queue pairs have still to answer, and waits until all that they sent has
    /// left, for at most about `longest`. Answers whether it has.
    ///
    /// For a process that ends: its NICs' thread ends with it, whatever it has in hand.
    pub fn say_goodbye(&self, longest: Duration) -> bool {
        const PAUSE: Duration = Duration::from_millis(1);
        let pauses = longest.as_nanos() / PAUSE.as_nanos();
        for _ in 0..=pauses {
            let mut world = self.lock();
            let now = world.now();
            let World { nics, wire, .. } = &mut *world;
            let fabric = wire.fabric();
            // Every NIC, even where one has not finished.
            let finished = nics.values_mut().map(|nic| nic.device_mut().answer_all(now, fabric));
            if finished.fold(true, |all, one| all & one) {
                return true;
            }
            drop(world);
            std::thread::sleep(PAUSE);
        }
        false
    }

    /// Steps a stepped network until so much time has passed, or `most` steps were done. Where nothing is
    /// left to do, time passes all the same.
    pub fn pass(&self, time: Duration, most: u64) {
        let mut world = self.lock();
        let end = world.now().saturating_add(time.as_nanos() as u64);
        for _ in 0..most {
            if world.now() >= end || world.step() == Step::Idle {
                break;
            }
        }
        if let Clock::Simulated(now, _) = &mut world.clock {
            *now = end.max(*now);
        }
    }

    /// A random number: the seed's in a stepped network, else one that nobody can guess.
    pub fn random(&self) -> std::io::Result<u32> {
        if let Clock::Simulated(_, random) = &mut self.lock().clock {
            return Ok(random.u32(..));
        }
        let mut bytes = [0; 4];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(u32::from_ne_bytes(bytes))
    }

    /// The time, in nanoseconds since the network was made.
    pub fn now(&self) -> u64 {
        self.lock().now()
    }

    /// Changes what goes wrong from now on. Answers whether the network's fabric is one on which
    /// things go wrong.
    pub fn set_faults(&self, faults: Faults) -> bool {
        let mut world = self.lock();
        let Wire::Faulty(wire) = &mut world.wire else { return false };
        wire.inner_mut().set_faults(faults);
        true
    }

    /// What went wrong so far.
    pub fn fault_counts(&self) -> Option<FaultCounts> {
        match &self.lock().wire {
            Wire::Faulty(wire) => Some(wire.inner().counts()),
            Wire::Plain(_) | Wire::Other(_) => None,
        }
    }

    /// Loses everything to and from a NIC from now on, or not any more. Answers whether the
    /// network's fabric can.
    pub fn isolate(&self, id: NicId, isolated: bool) -> bool {
        let mut world = self.lock();
        let World { nics, wire, .. } = &mut *world;
        let (Some(nic), Wire::Faulty(wire)) = (nics.get(&id.0), wire) else { return false };
        wire.inner_mut().isolate(nic.device().port(), isolated);
        true
    }

    /// The last packets, as lines that a person can read; empty where the fabric writes none down.
    pub fn trace(&self) -> String {
        match &self.lock().wire {
            Wire::Faulty(wire) => wire.to_string(),
            Wire::Plain(_) | Wire::Other(_) => String::new(),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }
}

/// Stores that the bus of a NIC holds.
const BUS_DEPTH: usize = 4096;
/// The same in a stepped network, where what does not fit is kept elsewhere: little, so that
/// thousands of small tests do not spend their time on it.
const STEPPED_BUS_DEPTH: usize = 256;

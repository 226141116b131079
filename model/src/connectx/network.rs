//! NICs that share a fabric, and how time passes for them.
//!
//! In a *free* network a thread runs the NICs all the time, and time is the clock's. In a *stepped*
//! network nothing happens until a test says so, one step after the other; time is a number that
//! jumps when there is nothing else to do, and a seed chooses what happens next among all that
//! could. The same seed and the same calls give the same run.

use super::register::{Bus, Store};
use super::{Capabilities, Connectx, EventSink};
use crate::fabric::{Fabric, FaultCounts, Faults, Faulty, Loopback, Tracer};
use crate::memory::AddressSpace;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

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

/// The fabric of a network.
enum Wire {
    /// Nothing goes wrong on it.
    Plain(Loopback),
    /// Things go wrong, by a seed, and are written down.
    Faulty(Box<Tracer<Faulty<Loopback>>>),
    /// Somebody else's.
    Other(Box<dyn Fabric + Send>),
}

impl Wire {
    fn fabric(&mut self) -> &mut dyn Fabric {
        match self {
            Wire::Plain(fabric) => fabric,
            Wire::Faulty(fabric) => &mut **fabric,
            Wire::Other(fabric) => &mut **fabric,
        }
    }
}

enum Clock {
    /// Since when.
    Real(Instant),
    /// Nanoseconds, and who chooses what happens next.
    Simulated(u64, fastrand::Rng),
}

/// Everything of a network, under one lock: NICs, fabric and time. A NIC touches memory only with
/// this lock held, and whoever takes memory away holds it, too (SAFETY.md, D1).
pub(crate) struct World {
    nics: BTreeMap<u32, Connectx>,
    next_nic: u32,
    wire: Wire,
    clock: Clock,
}

/// How a network is made.
pub struct NetworkBuilder {
    seed: Option<u64>,
    faults: Option<(u64, Faults)>,
    fabric: Option<Box<dyn Fabric + Send>>,
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
        let spawned =
            std::thread::Builder::new().name("virtual-connectx".into()).spawn(move || {
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
        NetworkBuilder { seed: None, faults: None, fabric: None }
    }

    /// Whether the NICs run by themselves.
    pub fn is_free(&self) -> bool {
        self.0.thread.is_some()
    }

    /// Adds a NIC. `space` is where its device addresses lead to.
    pub fn add_nic(
        &self,
        capabilities: Capabilities,
        space: Arc<dyn AddressSpace>,
        events: Box<dyn EventSink>,
    ) -> NicId {
        let bus = Arc::new(Bus::new(BUS_DEPTH, self.is_free()));
        if let Some(thread) = &self.0.thread {
            bus.served_by(thread.clone());
        }
        let mut world = self.lock();
        let id = world.next_nic;
        world.next_nic += 1;
        let nic = Connectx::new(capabilities, space, events, bus, world.wire.fabric());
        world.nics.insert(id, nic);
        drop(world);
        self.wake();
        NicId(id)
    }

    /// Takes a NIC away. It touches no memory after this.
    pub fn remove_nic(&self, id: NicId) {
        let mut world = self.lock();
        if let Some(mut nic) = world.nics.remove(&id.0) {
            nic.close(world.wire.fabric());
        }
    }

    /// Calls `with` with a NIC, the fabric and the time; `None` where there is no such NIC.
    pub fn with_nic<R>(
        &self,
        id: NicId,
        with: impl FnOnce(&mut Connectx, &mut dyn Fabric, u64) -> R,
    ) -> Option<R> {
        let mut world = self.lock();
        let now = world.now();
        let World { nics, wire, .. } = &mut *world;
        let result = with(nics.get_mut(&id.0)?, wire.fabric(), now);
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

    pub(crate) fn bus(&self, id: NicId) -> Option<Arc<Bus>> {
        self.lock().nics.get(&id.0).map(|nic| Arc::clone(&nic.bus))
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
        wire.inner_mut().isolate(nic.port(), isolated);
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

impl World {
    fn now(&self) -> u64 {
        match &self.clock {
            Clock::Real(start) => start.elapsed().as_nanos() as u64,
            Clock::Simulated(now, _) => *now,
        }
    }

    /// One step, by the seed.
    fn step(&mut self) -> Step {
        let now = self.now();
        let fabric = self.wire.fabric();
        let arrived = fabric.next_arrival().is_some_and(|at| at <= now);
        let mut choices = Vec::new();
        for (&id, nic) in &mut self.nics {
            nic.look(now, fabric);
            nic.wake(now);
            if !nic.bus.is_empty() {
                choices.push((id, Choice::Store));
            }
            if arrived && !nic.is_dead() {
                choices.push((id, Choice::Packet));
            }
            choices.extend((0..nic.ready().len()).map(|place| (id, Choice::Send(place))));
        }
        while !choices.is_empty() {
            let chosen = match &mut self.clock {
                Clock::Simulated(_, random) => random.usize(..choices.len()),
                Clock::Real(_) => 0,
            };
            let (id, choice) = choices.swap_remove(chosen);
            let Some(nic) = self.nics.get_mut(&id) else { continue };
            match choice {
                Choice::Store => {
                    nic.take_store(now, fabric);
                    return Step::Register(NicId(id));
                }
                // The arrival may be another NIC's.
                Choice::Packet => {
                    if nic.receive(now, fabric) {
                        return Step::Packet(NicId(id));
                    }
                }
                Choice::Send(place) => {
                    nic.advance(place, now, fabric);
                    return Step::Send(NicId(id));
                }
            }
        }
        // Receives posted to queue pairs in error: nothing announced them.
        for nic in self.nics.values_mut() {
            nic.flush_late(now, fabric);
        }
        let later = self.nics.values().filter_map(Connectx::next_deadline).min();
        let later = later.into_iter().chain(fabric.next_arrival()).min();
        match (later, &mut self.clock) {
            (Some(later), Clock::Simulated(now, _)) if later > *now => {
                *now = later;
                Step::Time(later)
            }
            _ => Step::Idle,
        }
    }

    /// Everything that can be done now, up to a bound. Answers whether anything was.
    fn run(&mut self) -> bool {
        let now = self.now();
        let fabric = self.wire.fabric();
        let mut busy = false;
        for nic in self.nics.values_mut() {
            busy |= nic.look(now, fabric);
            nic.wake(now);
            for _ in 0..BATCH {
                if !nic.take_store(now, fabric) {
                    break;
                }
                busy = true;
            }
            for _ in 0..BATCH {
                if !nic.receive(now, fabric) {
                    break;
                }
                busy = true;
            }
            for _ in 0..nic.ready().len().min(BATCH) {
                nic.advance(0, now, fabric);
                busy = true;
            }
        }
        busy
    }

    /// When something has to be done again at the latest, from `now` on, if nothing happens.
    fn rest(&mut self) -> Duration {
        let now = self.now();
        let mut failed = false;
        let fabric = self.wire.fabric();
        for nic in self.nics.values_mut() {
            failed |= nic.has_failed_pairs();
            nic.flush_late(now, fabric);
        }
        let deadline = self.nics.values().filter_map(Connectx::next_deadline).min();
        let next = deadline.into_iter().chain(fabric.next_arrival()).min();
        let watching = self.nics.values().any(Connectx::is_watching);
        let longest = match (watching, failed) {
            (true, _) => LOOK_AT_REGISTERS,
            (false, true) => LOOK_FOR_RECEIVES,
            (false, false) => LONGEST_REST,
        };
        next.map_or(longest, |next| Duration::from_nanos(next.saturating_sub(now)).min(longest))
    }

    fn buses(&self) -> impl Iterator<Item = &Arc<Bus>> {
        self.nics.values().map(|nic| &nic.bus)
    }
}

enum Choice {
    Store,
    Packet,
    /// By place among the ready queue pairs.
    Send(usize),
}

/// What a free NIC does of one kind before it turns to the next.
const BATCH: usize = 64;
/// How often a free network looks at register pages that are memory.
const LOOK_AT_REGISTERS: Duration = Duration::from_micros(50);
/// How often a free network looks for receives of queue pairs in error.
const LOOK_FOR_RECEIVES: Duration = Duration::from_millis(1);
/// How long a free network sleeps at most. Stores wake it; this is for a fabric that cannot say
/// when packets arrive.
const LONGEST_REST: Duration = Duration::from_millis(20);
/// How often the NICs' thread lets others go first before it takes its turn.
const YIELDS_TO_WAITERS: u32 = 100;
/// How often a free network without work looks again before it gives the processor away, and how
/// often it does that before it sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 20;

/// The thread of a free network.
fn serve(network: &Weak<Shared>) {
    let mut idle = 0u32;
    loop {
        let Some(shared) = network.upgrade() else { return };
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        for _ in 0..YIELDS_TO_WAITERS {
            if shared.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::thread::yield_now();
        }
        let mut world = shared.world.lock().unwrap_or_else(PoisonError::into_inner);
        if world.run() {
            idle = 0;
            continue;
        }
        idle = idle.saturating_add(1);
        if idle < SPINS {
            drop(world);
            std::hint::spin_loop();
            continue;
        }
        if idle < SPINS + YIELDS {
            drop(world);
            drop(shared);
            std::thread::yield_now();
            continue;
        }
        let rest = world.rest();
        let buses: Vec<_> = world.buses().cloned().collect();
        drop(world);
        // Not to keep the network alive while it sleeps: the last owner wakes and ends it.
        let (waiting, thread) = (shared.waiting.load(Ordering::Relaxed), std::thread::current());
        drop(shared);
        for bus in &buses {
            bus.served_by(thread.clone());
            bus.going_to_sleep();
        }
        if waiting == 0 && buses.iter().all(|bus| bus.is_empty()) {
            std::thread::park_timeout(rest);
        }
        for bus in &buses {
            bus.awake();
        }
    }
}

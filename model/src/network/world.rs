//! Everything of a network, and what happens in it next: step by step, or by a thread.

use super::{Bus, Device, Nic, NicId, Shared, Step};
use crate::fabric::{Fabric, Faulty, Loopback, Tracer};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The fabric of a network.
pub(super) enum Wire {
    /// Nothing goes wrong on it.
    Plain(Loopback),
    /// Things go wrong, by a seed, and are written down.
    Faulty(Box<Tracer<Faulty<Loopback>>>),
    /// Somebody else's.
    Other(Box<dyn Fabric + Send>),
}

impl Wire {
    pub(super) fn fabric(&mut self) -> &mut dyn Fabric {
        match self {
            Wire::Plain(fabric) => fabric,
            Wire::Faulty(fabric) => &mut **fabric,
            Wire::Other(fabric) => &mut **fabric,
        }
    }
}

pub(super) enum Clock {
    /// Since when.
    Real(Instant),
    /// Nanoseconds, and who chooses what happens next.
    Simulated(u64, fastrand::Rng),
}

/// Everything of a network, under one lock: NICs, fabric and time. A NIC touches memory only with
/// this lock held, and whoever takes memory away holds it, too (SAFETY.md, D1).
pub(super) struct World {
    pub(super) nics: BTreeMap<u32, Nic>,
    pub(super) next_nic: u32,
    pub(super) wire: Wire,
    pub(super) clock: Clock,
}

impl World {
    pub(super) fn now(&self) -> u64 {
        match &self.clock {
            Clock::Real(start) => start.elapsed().as_nanos() as u64,
            Clock::Simulated(now, _) => *now,
        }
    }

    /// One step, by the seed.
    pub(super) fn step(&mut self) -> Step {
        let now = self.now();
        let fabric = self.wire.fabric();
        let arrived = fabric.next_arrival().is_some_and(|at| at <= now);
        let mut choices = Vec::new();
        for (&id, nic) in &mut self.nics {
            let nic = nic.device_mut();
            nic.wake(now);
            // Registers that are memory may be many: they are looked at where nothing else is to do.
            if !arrived && nic.ready() == 0 && nic.bus().is_empty() {
                nic.look(now, fabric);
            }
            if !nic.bus().is_empty() {
                choices.push((id, Choice::Store));
            }
            if arrived && !nic.is_dead() {
                choices.push((id, Choice::Packet));
            }
            choices.extend((0..nic.ready()).map(|place| (id, Choice::Send(place))));
        }
        while !choices.is_empty() {
            let chosen = match &mut self.clock {
                Clock::Simulated(_, random) => random.usize(..choices.len()),
                Clock::Real(_) => 0,
            };
            let (id, choice) = choices.swap_remove(chosen);
            let Some(nic) = self.nics.get_mut(&id) else { continue };
            let nic = nic.device_mut();
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
        for nic in self.nics.values_mut().map(Nic::device_mut) {
            nic.flush_late(now, fabric);
        }
        let later = deadline_of(&self.nics);
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
    pub(super) fn run(&mut self) -> bool {
        let now = self.now();
        let fabric = self.wire.fabric();
        let mut busy = false;
        for nic in self.nics.values_mut().map(Nic::device_mut) {
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
            for _ in 0..nic.ready().min(BATCH) {
                if fabric.is_congested(nic.port()) {
                    break;
                }
                nic.advance(0, now, fabric);
                busy = true;
            }
        }
        busy
    }

    /// Whether something has to be done again by itself.
    pub(super) fn waits(&mut self) -> bool {
        self.wire.fabric().next_arrival().is_some()
            || self.devices().any(|nic| nic.next_deadline().is_some() || nic.has_failed_pairs())
    }

    /// When something has to be done again at the latest, from `now` on, if nothing happens.
    fn rest(&mut self) -> Duration {
        let now = self.now();
        let mut failed = false;
        let fabric = self.wire.fabric();
        for nic in self.nics.values_mut().map(Nic::device_mut) {
            failed |= nic.has_failed_pairs();
            nic.flush_late(now, fabric);
        }
        let fabric_rest = fabric.rests_at_most();
        let deadline = deadline_of(&self.nics);
        let next = deadline.into_iter().chain(fabric.next_arrival()).min();
        let longest = match (self.is_watching(), failed) {
            (true, _) => LOOK_AT_REGISTERS,
            (false, true) => LOOK_FOR_RECEIVES,
            (false, false) => LONGEST_REST,
        };
        let longest = fabric_rest.map_or(longest, |rest| rest.min(longest));
        next.map_or(longest, |next| Duration::from_nanos(next.saturating_sub(now)).min(longest))
    }

    fn devices(&self) -> impl Iterator<Item = &dyn Device> {
        self.nics.values().map(Nic::device)
    }

    fn is_watching(&self) -> bool {
        self.devices().any(|nic| nic.is_watching())
    }

    fn buses(&self) -> impl Iterator<Item = &Arc<Bus>> {
        self.devices().map(|nic| nic.bus())
    }
}

/// When the first of the NICs has something to do by itself.
fn deadline_of(nics: &BTreeMap<u32, Nic>) -> Option<u64> {
    nics.values().filter_map(|nic| nic.device().next_deadline()).min()
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
pub(super) fn serve(network: &Weak<Shared>) {
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
        // Who watches memory is woken by time alone. Sleeping for a short time gives the processor
        // back sooner than yielding to threads that poll for what this one has to bring.
        if idle < SPINS + YIELDS && !world.is_watching() {
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

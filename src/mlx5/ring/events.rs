//! The count of a completion queue's events, which numbers its arms.

use crate::mlx5::abi::doorbell::ArmSequence;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{AtomicU32, Ordering};

/// How many events of a completion queue were read. Counted by whoever reads events, loaded by
/// whoever arms.
///
/// A NIC takes an arm that carries the number of an arm whose event it has raised for a repetition,
/// and ignores it. So an event is counted before the engine is told of it, and thereby before the
/// engine arms again; that order is between the engine's threads, which is why the count itself
/// needs none.
#[derive(Default)]
pub struct EventCount(AtomicU32);

impl EventCount {
    /// A count of no events.
    pub fn new() -> Self {
        EventCount(AtomicU32::new(0))
    }

    /// Counts an event that was read. One caller at a time.
    pub fn count(&self) {
        #[cfg(loom)]
        if mutant::is(Mutant::EventNotCounted) {
            return;
        }
        // One caller at a time adds to it, so a load and a store do.
        let events = self.0.load(Ordering::Relaxed);
        self.0.store(events.wrapping_add(1), Ordering::Relaxed);
    }

    /// The number of the next arm.
    #[inline(always)]
    pub fn sequence(&self) -> ArmSequence {
        ArmSequence::of(self.0.load(Ordering::Relaxed))
    }
}

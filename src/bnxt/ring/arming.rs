//! What whoever reads notifications tells whoever arms.

use crate::bnxt::abi::doorbell::Toggle;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{AtomicU8, Ordering};

/// The toggle of a completion queue's last notification.
///
/// A NIC takes an arm with another toggle for one of before that notification, and drops it. So the
/// toggle is noted before the engine is told of the event, and thereby before the engine arms again.
#[derive(Default)]
pub struct LastToggle(AtomicU8);

impl LastToggle {
    /// Of a queue that was never notified of.
    pub fn new() -> Self {
        LastToggle(AtomicU8::new(0))
    }

    /// Notes the toggle of a notification that was read, once arms with it were enabled.
    pub fn note(&self, toggle: Toggle) {
        #[cfg(loom)]
        if mutant::is(Mutant::EventNotCounted) {
            return;
        }
        // Pairs with the acquire in `get`: the register that enables arms was stored to before.
        self.0.store(toggle.get(), Ordering::Release);
    }

    /// What the next arm carries.
    #[inline(always)]
    pub fn get(&self) -> Toggle {
        // Pairs with the release in `note`.
        Toggle::new(self.0.load(Ordering::Acquire))
    }
}

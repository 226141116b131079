//! A doorbell register whose stores are paced.
//!
//! Doorbells of a BCM57608 go through a queue of the chip's, which drops those that do not fit. A
//! firmware that wants to be spared says so, and where the chip tells how much room there is. That takes
//! a read of a register, which is slow; so a ring is granted a number of doorbells at a time, and asks
//! for more when they are used up.

use alloc::sync::Arc;
use core::cell::Cell;
use doorbell_hal::mmio::Register;

/// Who knows how many doorbells the NIC has room for.
pub trait Pace: Send + Sync {
    /// How many doorbells a register may take before this is asked again: at least one. Waits, within a
    /// bound, while the NIC is behind.
    fn grant(&self) -> u32;

    /// A register is gone that asked for grants.
    fn leave(&self);
}

/// A register of 8 bytes that takes as many stores as it was granted, and then asks for more.
pub struct PacedRegister<R> {
    register: R,
    /// Stores that are granted. One thread at a time stores.
    left: Cell<u32>,
    /// `None` where the firmware does not ask for pacing.
    pace: Option<Arc<dyn Pace>>,
}

impl<R> PacedRegister<R> {
    /// A register whose doorbells `pace` grants; none are counted without it.
    pub fn new(register: R, pace: Option<Arc<dyn Pace>>) -> Self {
        let left = Cell::new(if pace.is_some() { 0 } else { u32::MAX });
        PacedRegister { register, left, pace }
    }

    /// Asks for more.
    #[cold]
    #[inline(never)]
    fn ask(&self) {
        let granted = self.pace.as_ref().map_or(u32::MAX, |pace| pace.grant());
        self.left.set(granted.max(1) - 1);
    }
}

impl<R: Register> Register for PacedRegister<R> {
    #[inline(always)]
    unsafe fn store(&self, at: usize, value: u64) {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => self.ask(),
        }
        // SAFETY: R1: passed on to our caller.
        unsafe { self.register.store(at, value) };
    }

    unsafe fn copy(&self, at: usize, slot: &[u64; 8]) {
        // SAFETY: R1: passed on to our caller.
        unsafe { self.register.copy(at, slot) };
    }
}

impl<R> Drop for PacedRegister<R> {
    fn drop(&mut self) {
        if let Some(pace) = &self.pace {
            pace.leave();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counts {
        stores: AtomicU32,
        grants: AtomicU32,
        gone: AtomicU32,
    }

    struct Counted(Arc<Counts>);

    impl Register for Counted {
        unsafe fn store(&self, _: usize, _: u64) {
            self.0.stores.fetch_add(1, Ordering::Relaxed);
        }

        unsafe fn copy(&self, _: usize, _: &[u64; 8]) {}
    }

    impl Pace for Counts {
        fn grant(&self) -> u32 {
            // What was granted before is used up: three at a time, and once none at all.
            let grants = self.grants.fetch_add(1, Ordering::Relaxed);
            let stores = self.stores.load(Ordering::Relaxed);
            assert_eq!(stores, if grants < 3 { grants * 3 } else { grants * 3 - 2 });
            if grants == 2 { 0 } else { 3 }
        }

        fn leave(&self) {
            self.gone.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_register_takes_as_many_stores_as_it_was_granted_and_then_asks() {
        let counts = Arc::new(Counts::default());
        let pace: Arc<dyn Pace> = counts.clone();
        let register = PacedRegister::new(Counted(counts.clone()), Some(pace));
        for _ in 0..13 {
            // SAFETY: R1: there is no register.
            unsafe { register.store(0, 0) };
        }
        assert_eq!(counts.stores.load(Ordering::Relaxed), 13);
        assert_eq!(counts.grants.load(Ordering::Relaxed), 5);
        drop(register);
        assert_eq!(counts.gone.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_register_that_is_not_paced_asks_nobody() {
        let counts = Arc::new(Counts::default());
        let register = PacedRegister::new(Counted(counts.clone()), None);
        for _ in 0..1000 {
            // SAFETY: R1: there is no register.
            unsafe { register.store(0, 0) };
        }
        drop(register);
        assert_eq!(counts.stores.load(Ordering::Relaxed), 1000);
        assert_eq!(counts.gone.load(Ordering::Relaxed), 0);
    }
}

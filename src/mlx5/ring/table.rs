//! How a completion finds its queue pair: by the user index that it carries, in one load, however
//! many queue pairs there are.

use super::outstanding::InFlight;
use crate::mlx5::abi::U24;
use alloc::boxed::Box;
use core::ptr::NonNull;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{AtomicPtr, Ordering};

/// The queue pairs of a NIC by user index.
pub struct Table(Places);

/// Where a table's places are.
#[derive(Clone, Copy)]
pub struct Places {
    first: NonNull<AtomicPtr<InFlight>>,
    /// The number of places, a power of two of at most 2^24, less one.
    mask: u32,
}

impl Places {
    #[inline(always)]
    fn place(&self, index: u32) -> NonNull<AtomicPtr<InFlight>> {
        // SAFETY: T1: there is a power of two of places, so the masked index is below it.
        unsafe { self.first.add((index & self.mask) as usize) }
    }

    /// The user index in the low bits of a completion's word: only as many bits count as number a
    /// place.
    #[inline(always)]
    pub fn index(&self, word: u32) -> u32 {
        word & self.mask
    }

    /// The queue pair with the user index in the low bits of `index`, or null: see
    /// [`index`](Self::index).
    ///
    /// # Safety
    ///
    /// The table lives (SAFETY.md, T1).
    #[inline(always)]
    pub unsafe fn get(&self, index: u32) -> *const InFlight {
        // SAFETY: T1: passed on to our caller.
        let place = unsafe { self.place(index).as_ref() };
        #[cfg(loom)]
        if mutant::is(Mutant::NoAcquireOfQueuePair) {
            return place.load(Ordering::Relaxed);
        }
        // Pairs with the release in `set`: the queue pair was made before. A completion comes only
        // after it, unless the NIC is broken.
        place.load(Ordering::Acquire)
    }
}

// SAFETY: T1: the places are this value's own atomics.
unsafe impl Send for Table {}
// SAFETY: T1: as for `Send`.
unsafe impl Sync for Table {}

impl Table {
    /// A table with at least `places` places, at most 2^24, and no queue pairs.
    ///
    /// Places take 8 bytes each; the system gives memory only to those that are used.
    pub fn new(places: u32) -> Self {
        let places = places.clamp(1, U24::MAX.get()).next_power_of_two();
        Table(Places { first: Self::allocate(places), mask: places - 1 })
    }

    #[cfg(not(loom))]
    fn allocate(places: u32) -> NonNull<AtomicPtr<InFlight>> {
        let zeroed = Box::<[AtomicPtr<InFlight>]>::new_zeroed_slice(places as usize);
        // SAFETY: T1: an atomic pointer of zero bytes is a null pointer.
        NonNull::from(Box::leak(unsafe { zeroed.assume_init() })).cast()
    }

    #[cfg(loom)]
    fn allocate(places: u32) -> NonNull<AtomicPtr<InFlight>> {
        let null = |_| AtomicPtr::new(core::ptr::null_mut());
        let empty: Box<[AtomicPtr<InFlight>]> = (0..places).map(null).collect();
        NonNull::from(Box::leak(empty)).cast()
    }

    /// The number of places.
    // There is at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.0.mask + 1
    }

    /// Where the places are.
    pub fn places(&self) -> Places {
        self.0
    }

    /// Puts `queue_pair`, or null, at `index`.
    pub fn set(&self, index: U24, queue_pair: *const InFlight) {
        // SAFETY: T1: the places are this table's.
        let place = unsafe { self.0.place(index.get()).as_ref() };
        place.store(queue_pair.cast_mut(), Ordering::Release);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let places = NonNull::slice_from_raw_parts(self.0.first, self.len() as usize);
        // SAFETY: T1: `allocate` leaked a box of that many places.
        drop(unsafe { Box::from_raw(places.as_ptr()) });
    }
}

//! How a completion finds its queue pair: by the index that it carries, in one load, however many
//! queue pairs there are.

use alloc::boxed::Box;
use core::ptr::NonNull;
#[cfg(loom)]
use doorbell_hal::sync::mutant::{self, Mutant};
use doorbell_hal::sync::{AtomicPtr, Ordering};

/// The queue pairs of a NIC by index. `T` is what a completion needs of one.
pub struct Table<T>(Places<T>);

/// The most places.
const MOST: u32 = 1 << 24;

/// Where a table's places are.
pub struct Places<T> {
    first: NonNull<AtomicPtr<T>>,
    /// The number of places, a power of two of at most 2^24, less one.
    mask: u32,
}

impl<T> Clone for Places<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Places<T> {}

impl<T> Places<T> {
    #[inline(always)]
    fn place(&self, index: u32) -> NonNull<AtomicPtr<T>> {
        // SAFETY: T1: there is a power of two of places, so the masked index is below it.
        unsafe { self.first.add((index & self.mask) as usize) }
    }

    /// The index in the low bits of a completion's word: only as many bits count as number a
    /// place.
    #[inline(always)]
    pub fn index(&self, word: u32) -> u32 {
        word & self.mask
    }

    /// The queue pair with the index in the low bits of `index`, or null: see
    /// [`index`](Self::index).
    ///
    /// # Safety
    ///
    /// The table lives (SAFETY.md, T1).
    #[inline(always)]
    pub unsafe fn get(&self, index: u32) -> *const T {
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
unsafe impl<T> Send for Table<T> {}
// SAFETY: T1: as for `Send`.
unsafe impl<T> Sync for Table<T> {}

impl<T> Table<T> {
    /// A table with at least `places` places, at most 2^24, and no queue pairs.
    ///
    /// Places take 8 bytes each; the system gives memory only to those that are used.
    pub fn new(places: u32) -> Self {
        let places = places.clamp(1, MOST).next_power_of_two();
        Table(Places { first: Self::allocate(places), mask: places - 1 })
    }

    #[cfg(not(loom))]
    fn allocate(places: u32) -> NonNull<AtomicPtr<T>> {
        let zeroed = Box::<[AtomicPtr<T>]>::new_zeroed_slice(places as usize);
        // SAFETY: T1: an atomic pointer of zero bytes is a null pointer.
        NonNull::from(Box::leak(unsafe { zeroed.assume_init() })).cast()
    }

    #[cfg(loom)]
    fn allocate(places: u32) -> NonNull<AtomicPtr<T>> {
        let null = |_| AtomicPtr::new(core::ptr::null_mut());
        let empty: Box<[AtomicPtr<T>]> = (0..places).map(null).collect();
        NonNull::from(Box::leak(empty)).cast()
    }

    /// The number of places.
    // There is at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u32 {
        self.0.mask + 1
    }

    /// Where the places are.
    pub fn places(&self) -> Places<T> {
        self.0
    }

    /// Puts `queue_pair`, or null, at `index`.
    pub fn set(&self, index: impl Into<u32>, queue_pair: *const T) {
        // SAFETY: T1: the places are this table's.
        let place = unsafe { self.0.place(index.into()).as_ref() };
        place.store(queue_pair.cast_mut(), Ordering::Release);
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        let places = NonNull::slice_from_raw_parts(self.0.first, self.len() as usize);
        // SAFETY: T1: `allocate` leaked a box of that many places.
        drop(unsafe { Box::from_raw(places.as_ptr()) });
    }
}

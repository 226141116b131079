//! Fences, atomics and cells between a processor and a NIC: the one place that swaps in loom's.
//!
//! A ring has three kinds of words:
//! - *bytes* of a slot, written by one side and read by the other after it was told to: [`DmaCell`];
//! - *ordering words* (owner bytes, doorbell records, counters): the atomics of this module;
//! - registers: [`crate::mmio`].
//!
//! The fences have their partners on the NIC's side of the bus; each names them. Under
//! `--cfg loom` everything here is loom's, so a model checks the code that ships. There a test may
//! also take one fence away (`mutant`) to see that the model notices.

#[cfg(not(loom))]
pub use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};
#[cfg(loom)]
pub use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering,
};

/// A word of a ring slot that one side writes and the other reads, never both at once.
///
/// Which side may touch it is decided by the ring's ordering words. Loom checks that.
#[cfg(not(loom))]
#[repr(transparent)]
pub struct DmaCell<T: Copy>(core::cell::UnsafeCell<T>);

/// A word of a ring slot that one side writes and the other reads, never both at once.
#[cfg(loom)]
pub struct DmaCell<T: Copy>(loom::cell::UnsafeCell<T>);

// SAFETY: S1: the cell's own methods are unsafe and say that accesses of different threads are
// ordered by the ring's ordering words.
unsafe impl<T: Copy + Send> Sync for DmaCell<T> {}

impl<T: Copy> DmaCell<T> {
    /// A cell that holds `value`.
    pub fn new(value: T) -> Self {
        #[cfg(not(loom))]
        return DmaCell(core::cell::UnsafeCell::new(value));
        #[cfg(loom)]
        DmaCell(loom::cell::UnsafeCell::new(value))
    }

    /// Stores `value` as one access of its size.
    ///
    /// # Safety
    ///
    /// No other thread, and no NIC, reads or writes the cell meanwhile (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn write(&self, value: T) {
        #[cfg(not(loom))]
        // SAFETY: S1, passed on to our caller; the pointer is the cell's own.
        unsafe {
            self.0.get().write_volatile(value)
        };
        #[cfg(loom)]
        self.0.with_mut(|cell| {
            // SAFETY: S1, passed on to our caller (and checked by loom); the pointer is the cell's.
            unsafe { *cell = value }
        });
    }

    /// Loads the value.
    ///
    /// # Safety
    ///
    /// No other thread, and no NIC, writes the cell meanwhile (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn read(&self) -> T {
        #[cfg(not(loom))]
        // SAFETY: S1, passed on to our caller; the pointer is the cell's own.
        return unsafe { *self.0.get() };
        #[cfg(loom)]
        self.0.with(|cell| {
            // SAFETY: S1, passed on to our caller (and checked by loom); the pointer is the cell's.
            unsafe { *cell }
        })
    }
}

/// Loads a word that no other thread writes.
///
/// Under loom it is no access: loom would take it for the one that a later store of this thread is to be
/// seen after, and look no further back.
///
/// # Safety
///
/// No other thread stores to the word meanwhile (SAFETY.md, S1).
#[inline(always)]
pub unsafe fn load_own(word: &AtomicU32) -> u32 {
    #[cfg(not(loom))]
    return word.load(Ordering::Relaxed);
    #[cfg(loom)]
    // SAFETY: S1: passed on to our caller (and checked by loom).
    unsafe {
        word.unsync_load()
    }
}

/// Orders the bytes written to a slot ahead of the doorbell record or counter that publishes them.
/// Pairs with the NIC reading the record before it fetches the slot.
#[inline(always)]
pub fn fence_before_publish() {
    #[cfg(loom)]
    if mutant::is(mutant::Mutant::NoFenceBeforePublish) {
        return;
    }
    release();
}

/// Orders the load of an owner byte ahead of the loads of the rest of a completion.
/// Pairs with the NIC writing a completion's owner byte last.
#[inline(always)]
pub fn fence_after_owner() {
    #[cfg(loom)]
    if mutant::is(mutant::Mutant::NoFenceAfterOwner) {
        return;
    }
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::Acquire);
    #[cfg(not(loom))]
    {
        core::sync::atomic::fence(Ordering::Acquire);
        #[cfg(target_arch = "aarch64")]
        // SAFETY: S2: a barrier touches no memory. The outer-shareable domain holds the NIC.
        unsafe {
            core::arch::asm!("dmb oshld", options(nostack, preserves_flags))
        };
    }
}

/// Orders stores to memory (the doorbell record) ahead of a store to an uncached register.
/// Pairs with the NIC reading the record after it saw the register.
#[inline(always)]
pub fn fence_before_uncached_register() {
    #[cfg(loom)]
    if mutant::is(mutant::Mutant::NoFenceBeforeRegister) {
        return;
    }
    release();
}

/// Orders stores to memory ahead of stores to a write-combining register page.
/// Pairs with the NIC reading the record after it saw the register.
#[inline(always)]
pub fn fence_before_write_combining() {
    #[cfg(loom)]
    if mutant::is(mutant::Mutant::NoFenceBeforeRegister) {
        return;
    }
    write_combining();
}

/// Sends what gathers in the write-combining buffers to the NIC, before any later store to the same
/// registers. Pairs with nothing: it is for speed, and so that two copies cannot merge.
#[inline(always)]
pub fn flush_write_combining() {
    write_combining();
}

/// Stores before it are seen by a NIC before stores after it, both to ordinary memory.
#[inline(always)]
fn release() {
    #[cfg(loom)]
    loom::sync::atomic::fence(Ordering::Release);
    #[cfg(not(loom))]
    {
        core::sync::atomic::fence(Ordering::Release);
        #[cfg(target_arch = "aarch64")]
        // SAFETY: S2: a barrier touches no memory. The outer-shareable domain holds the NIC.
        unsafe {
            core::arch::asm!("dmb oshst", options(nostack, preserves_flags))
        };
    }
}

#[inline(always)]
fn write_combining() {
    release();
    #[cfg(all(not(loom), target_arch = "x86_64"))]
    // SAFETY: S2: a barrier touches no memory, and every x86_64 processor has this one.
    unsafe {
        core::arch::x86_64::_mm_sfence()
    };
}

#[cfg(not(any(loom, target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the order of stores to memory and registers is worked out for x86_64 and aarch64");

/// Ways to break the order on purpose, so that a model shows that it would notice. Only under loom.
#[cfg(loom)]
pub mod mutant {
    use core::cell::Cell;

    /// One thing taken away from the shipped code.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub enum Mutant {
        /// [`super::fence_before_publish`] does nothing.
        NoFenceBeforePublish,
        /// [`super::fence_after_owner`] does nothing.
        NoFenceAfterOwner,
        /// [`super::fence_before_uncached_register`] and [`super::fence_before_write_combining`] do
        /// nothing.
        NoFenceBeforeRegister,
        /// Which entry completed is stored before the entry's id was read.
        FreedBeforeRead,
        /// Whether an entry marks the end of those posted is looked at after it was freed.
        EndSeenAfterFreed,
        /// The consumer record is stored before the completion was read.
        ConsumedBeforeRead,
        /// A poster loads which entry completed without acquiring what was read of it.
        NoAcquireOfFreed,
        /// A poller loads how many entries were posted without acquiring what was noted of them.
        NoAcquireOfPosted,
        /// A poller takes a queue pair out of the table without acquiring what it is made of.
        NoAcquireOfQueuePair,
        /// A completion queue is armed as if the next completion had been polled.
        ArmedWithStaleIndex,
        /// An event that was read is not counted.
        EventNotCounted,
        /// What was retired is freed without a look at whether the ring is empty.
        ReclaimedWithoutLooking,
        /// A queue pair's resources are retired before it is taken out of the table.
        ClearedAfterRetired,
    }

    std::thread_local! {
        static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Whether `mutant` is active on this thread. Loom runs all threads of a model on one.
    pub fn is(mutant: Mutant) -> bool {
        ACTIVE.get() == Some(mutant)
    }

    /// Activates `mutant` on this thread, or none.
    pub fn set(mutant: Option<Mutant>) {
        ACTIVE.set(mutant);
    }
}

/// A lock of the control path. Never taken by posting, ringing, polling or arming.
pub struct Mutex<T>(Inner<T>);

#[cfg(loom)]
type Inner<T> = loom::sync::Mutex<T>;
#[cfg(all(not(loom), feature = "std"))]
type Inner<T> = std::sync::Mutex<T>;
#[cfg(not(any(loom, feature = "std")))]
type Inner<T> = spin::Mutex<T>;

impl<T> Mutex<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        Mutex(Inner::new(value))
    }

    /// Waits for the lock. A holder that panicked does not poison it: every holder in this project
    /// leaves its data whole between statements.
    pub fn lock(&self) -> impl core::ops::DerefMut<Target = T> + '_ {
        #[cfg(any(loom, feature = "std"))]
        return self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(any(loom, feature = "std")))]
        self.0.lock()
    }
}

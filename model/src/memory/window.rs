//! Bytes of this process that a device may touch, and the copies that it makes.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes of this process that a device touches as an outside agent.
///
/// No Rust reference to them exists. Copies are atomic byte and word accesses, or on x86_64 one
/// `rep movsb` that the compiler cannot look into: they race with the owner's volatile accesses as
/// DMA does, and a reader sees each byte as it was before or after (SAFETY.md, D2).
#[derive(Clone, Copy)]
pub struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a [AtomicU8]>,
}

impl<'a> Window<'a> {
    /// The `len` bytes from `start` on.
    ///
    /// # Safety
    ///
    /// For `'a` the bytes stay mapped and readable, and writable if the window is written to; nobody
    /// holds Rust references to them (SAFETY.md, D1 and M2).
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Window { start, len, memory: PhantomData }
    }

    /// The bytes in this window.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies this window's bytes to `into`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn read(&self, into: &mut [u8]) {
        assert_eq!(self.len, into.len());
        // SAFETY: D1: this window's bytes are readable; `into` is ours alone and as long.
        unsafe { copy(self.start.as_ptr(), into.as_mut_ptr(), self.len) }
    }

    /// Copies `from` to this window's bytes.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn write(&self, from: &[u8]) {
        assert_eq!(self.len, from.len());
        // SAFETY: D1: this window's bytes are writable; `from` is readable and as long.
        unsafe { copy(from.as_ptr(), self.start.as_ptr(), self.len) }
    }

    /// Copies `from`'s bytes here, as many as both windows have; they may overlap.
    pub fn copy(&self, from: Window<'_>) {
        todo!()
    }

    /// Adds to the 8 bytes that the window starts with, as one step; what they were. `None` if there
    /// are fewer or they are not aligned to 8.
    pub fn fetch_add(&self, add: u64) -> Option<u64> {
        todo!()
    }

    /// Replaces the 8 bytes that the window starts with by `swap` if they are `compare`, as one
    /// step; what they were. `None` if there are fewer or they are not aligned to 8.
    pub fn compare_swap(&self, compare: u64, swap: u64) -> Option<u64> {
        todo!()
    }

    /// The 4 bytes that the window starts with, as one load with acquire order. `None` if there are
    /// fewer or they are not aligned to 4.
    pub fn load_word(&self) -> Option<u32> {
        todo!()
    }

    /// Stores the byte that the window starts with, with release order. `None` if there is none.
    pub fn store_byte(&self, byte: u8) -> Option<()> {
        todo!()
    }
}

/// Copies as an outside agent does.
///
/// # Safety
///
/// `len` bytes are readable at `from` and writable at `to` (SAFETY.md, D1).
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    todo!()
}

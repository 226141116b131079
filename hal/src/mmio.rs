//! Doorbell registers, and the barriers that the mapping of their page decides.

use crate::sync;

/// One doorbell register (or a pair of them, back to back) in a page of a NIC's registers.
///
/// Offsets are in bytes from the register's start. Values are in memory order: the byte at the
/// lowest address of `value` is the byte that the NIC sees first. Neither method orders the store
/// after anything: that is the caller's, through [`Caching`].
///
/// A register is `Send` but need not be `Sync`: one thread writes it at a time.
pub trait Register: Send {
    /// Stores 8 bytes at `at`, as one access.
    ///
    /// # Safety
    ///
    /// `at` is a multiple of 8 and `at + 8` is at most the length the register was made with
    /// (SAFETY.md, R1).
    unsafe fn store(&self, at: usize, value: u64);

    /// Copies one 64-byte slot to `at`, in rising order of addresses (a BlueFlame copy).
    ///
    /// # Safety
    ///
    /// `at` is a multiple of 64 and `at + 64` is at most the length the register was made with
    /// (SAFETY.md, R1).
    unsafe fn copy(&self, at: usize, slot: &[u64; 8]);
}

/// A page of a NIC's registers, mapped into this process.
pub trait RegisterPage: Send + Sync {
    /// A register in this page. It keeps the page mapped for as long as it lives.
    type Register: Register;

    /// The `len` bytes of registers at `offset`, or `None` where they do not lie in the page or
    /// are not aligned to 8 bytes.
    fn register(&self, offset: usize, len: usize) -> Option<Self::Register>;
}

/// How a page of registers is mapped. The mapping decides the barriers around a store to it, so it
/// is a type and not a flag.
pub trait Caching: Copy + Send + Sync + 'static {
    /// Whether stores to the page may be combined and delayed by the processor.
    const WRITE_COMBINING: bool;

    /// Orders every store to memory that comes before it ahead of the register stores that follow.
    fn before_store();

    /// Pushes register stores that came before it out to the NIC.
    fn after_store();
}

/// Stores reach the NIC one by one, as they are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uncached;

/// Stores gather in the processor's write-combining buffers: a 64-byte copy travels as one bus
/// transaction, and has to be flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteCombining;

impl Caching for Uncached {
    const WRITE_COMBINING: bool = false;

    #[inline(always)]
    fn before_store() {
        sync::fence_before_uncached_register();
    }

    #[inline(always)]
    fn after_store() {}
}

impl Caching for WriteCombining {
    const WRITE_COMBINING: bool = true;

    #[inline(always)]
    fn before_store() {
        sync::fence_before_write_combining();
    }

    #[inline(always)]
    fn after_store() {
        sync::flush_write_combining();
    }
}

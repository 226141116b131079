//! Memory that a NIC may reach.

use core::ptr::NonNull;

/// Memory that a NIC may read and write while this value lives: a ring, a doorbell record page, a
/// region's bytes.
///
/// # Safety
///
/// The implementer promises that the `len()` bytes from `as_ptr()` on stay mapped, readable and
/// writable, at the same address, until the value is dropped; that nothing else in the process owns
/// them; that they start at a page boundary; and that they were zero when the value was made
/// (SAFETY.md, M1).
pub unsafe trait DmaMemory: Send + Sync {
    /// The first byte.
    fn as_ptr(&self) -> NonNull<u8>;

    /// The size in bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

//! This process's own memory.

use super::{AddressSpace, Direction, Fault, Window};
use std::ptr::NonNull;

/// The memory of this process: a device address is a pointer's value.
#[derive(Debug)]
pub struct ProcessMemory(());

impl ProcessMemory {
    /// A device's view of this process.
    ///
    /// # Safety
    ///
    /// Whoever holds it passes only addresses of memory that the process handed to the device
    /// (rings, doorbell records, registered regions) and has not taken back (SAFETY.md, D1).
    pub unsafe fn new() -> Self {
        ProcessMemory(())
    }
}

// SAFETY: D1: `new`'s caller promised that only memory handed to the device is asked for, which stays
// mapped, and which its owner touches without references (M2).
unsafe impl AddressSpace for ProcessMemory {
    fn window(&self, address: u64, len: usize, _: Direction) -> Result<Window<'_>, Fault> {
        let fault = Fault { address, len };
        let start = usize::try_from(address).map_err(|_| fault)?;
        start.checked_add(len).ok_or(fault)?;
        let start = if len == 0 {
            NonNull::dangling()
        } else {
            NonNull::new(std::ptr::with_exposed_provenance_mut(start)).ok_or(fault)?
        };
        // SAFETY: D1, as `new`'s caller promised.
        Ok(unsafe { Window::new(start, len) })
    }
}

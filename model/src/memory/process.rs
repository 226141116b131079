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

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    #[test]
    fn a_device_address_is_a_pointer() {
        let words: [UnsafeCell<u64>; 4] = std::array::from_fn(|_| UnsafeCell::new(0));
        let address = words.as_ptr().expose_provenance() as u64;
        // SAFETY: D1: only the words' addresses, and none, are asked for.
        let memory = unsafe { ProcessMemory::new() };
        let memory: &dyn AddressSpace = &memory;
        memory.write(address + 3, &[1, 2, 3]).unwrap();
        let mut bytes = [0; 8];
        memory.read(address, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 0, 1, 2, 3, 0, 0]);
        assert_eq!(memory.fetch_add(address + 8, 5), Ok(0));
        assert_eq!(memory.compare_swap(address + 8, 5, 9), Ok(5));
        assert_eq!(memory.load_word(address + 8).map(u32::from_le), Ok(9));
        assert_eq!(memory.fetch_add(address + 9, 5), Err(Fault { address: address + 9, len: 8 }));
    }

    #[test]
    fn what_can_be_no_pointer_faults() {
        // SAFETY: D1: nothing is read or written.
        let memory = unsafe { ProcessMemory::new() };
        let memory: &dyn AddressSpace = &memory;
        assert_eq!(memory.probe(0, 1), Err(Fault { address: 0, len: 1 }));
        assert_eq!(memory.probe(u64::MAX, 2), Err(Fault { address: u64::MAX, len: 2 }));
        assert_eq!(memory.probe(0, 0), Ok(()));
        assert_eq!(memory.read(u64::MAX, &mut []), Ok(()));
    }
}

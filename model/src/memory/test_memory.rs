//! Memory for tests: sparse, safe, and with holes that fault.

use super::{AddressSpace, Direction, Fault, Window};

/// Memory of its own, in blocks at device addresses that a test chooses. Everything between faults.
#[derive(Default)]
pub struct TestMemory {
    blocks: Vec<Block>,
}

struct Block {
    address: u64,
    writable: bool,
    bytes: Box<[std::cell::UnsafeCell<u8>]>,
}

// SAFETY: D2: the bytes are reached only through windows, whose copies are atomic or opaque.
unsafe impl Sync for TestMemory {}

impl TestMemory {
    /// No memory at all.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `len` zero bytes at `address`.
    ///
    /// # Panics
    ///
    /// If they overlap others or run past the last address.
    pub fn add(&mut self, address: u64, len: usize) {
        todo!()
    }

    /// Adds `len` zero bytes at `address` which a device may only read.
    ///
    /// # Panics
    ///
    /// If they overlap others or run past the last address.
    pub fn add_read_only(&mut self, address: u64, len: usize) {
        todo!()
    }
}

// SAFETY: D1, M2: a block lives as long as the memory does, is never moved, and gives out no
// references.
unsafe impl AddressSpace for TestMemory {
    fn window(&self, address: u64, len: usize, direction: Direction) -> Result<Window<'_>, Fault> {
        todo!()
    }
}

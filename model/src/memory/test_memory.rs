//! Memory for tests: sparse, safe, and with holes that fault.

use super::{AddressSpace, Direction, Fault, Window};
use std::cell::UnsafeCell;
use std::ptr::NonNull;

/// Memory of its own, in blocks at device addresses that a test chooses. Everything between faults.
#[derive(Default)]
pub struct TestMemory {
    blocks: Vec<Block>,
}

struct Block {
    address: u64,
    len: usize,
    writable: bool,
    /// The bytes, from `address` rounded down to 8 on: device addresses and pointers are aligned
    /// alike, which atomics need.
    words: Box<[UnsafeCell<u64>]>,
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
        self.add_block(address, len, true);
    }

    /// Adds `len` zero bytes at `address` which a device may only read.
    ///
    /// # Panics
    ///
    /// If they overlap others or run past the last address.
    pub fn add_read_only(&mut self, address: u64, len: usize) {
        self.add_block(address, len, false);
    }

    fn add_block(&mut self, address: u64, len: usize, writable: bool) {
        let end = address.checked_add(len as u64).expect("runs past the last address");
        for block in &self.blocks {
            let apart = end <= block.address || block.address + block.len as u64 <= address;
            assert!(apart, "{len} bytes at {address:#x} overlap others");
        }
        let words = ((address % 8) as usize + len).div_ceil(8);
        let words = (0..words).map(|_| UnsafeCell::new(0)).collect();
        self.blocks.push(Block { address, len, writable, words });
    }
}

// SAFETY: D1, M2: a block lives as long as the memory does, is never moved or referred to, and the
// window is inside it.
unsafe impl AddressSpace for TestMemory {
    fn window(&self, address: u64, len: usize, direction: Direction) -> Result<Window<'_>, Fault> {
        if len == 0 {
            // SAFETY: D1: no bytes.
            return Ok(unsafe { Window::new(NonNull::dangling(), 0) });
        }
        for block in &self.blocks {
            let Some(offset) = address.checked_sub(block.address) else { continue };
            if offset < block.len as u64 {
                if direction == Direction::ToMemory && !block.writable {
                    break;
                }
                let offset = offset as usize;
                let len = len.min(block.len - offset);
                let skip = (block.address % 8) as usize + offset;
                let first = NonNull::from(&block.words[..]).cast::<u8>();
                // SAFETY: D1, M2: `skip + len` bytes are in the block's words, whose cells may be
                // written through a shared pointer.
                return Ok(unsafe { Window::new(first.add(skip), len) });
            }
        }
        Err(Fault { address, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> TestMemory {
        let mut memory = TestMemory::new();
        memory.add(0x1003, 0x20);
        memory.add(0x1023, 0x10);
        memory.add_read_only(0x2000, 0x10);
        memory
    }

    #[test]
    fn accesses_cross_blocks_that_touch() {
        let memory = memory();
        let memory: &dyn AddressSpace = &memory;
        let bytes: Vec<u8> = (1..=0x30).collect();
        memory.write(0x1003, &bytes).unwrap();
        let mut back = vec![0; 0x30];
        memory.read(0x1003, &mut back).unwrap();
        assert_eq!(back, bytes);
        memory.copy(0x1003, memory, 0x101b, 0x18).unwrap();
        memory.read(0x1003, &mut back).unwrap();
        assert_eq!(back, [&bytes[0x18..], &bytes[0x18..]].concat());
    }

    #[test]
    fn holes_and_read_only_blocks_fault() {
        let memory = memory();
        let memory: &dyn AddressSpace = &memory;
        let mut byte = [0; 2];
        assert_eq!(memory.read(0x1002, &mut byte), Err(Fault { address: 0x1002, len: 2 }));
        assert_eq!(memory.read(0x1032, &mut byte), Err(Fault { address: 0x1032, len: 2 }));
        assert_eq!(memory.read(u64::MAX, &mut byte), Err(Fault { address: u64::MAX, len: 2 }));
        assert_eq!(memory.read(0x2000, &mut byte), Ok(()));
        assert_eq!(memory.write(0x2000, &byte), Err(Fault { address: 0x2000, len: 2 }));
        assert_eq!(memory.fetch_add(0x2000, 1), Err(Fault { address: 0x2000, len: 8 }));
        assert_eq!(memory.fetch_add(0x102c, 1), Err(Fault { address: 0x102c, len: 8 }));
        assert_eq!(memory.fetch_add(0x1028, 1), Ok(0));
        assert_eq!(memory.compare_swap(0x1028, 1, 2), Ok(1));
        assert_eq!(memory.load_word(0x1026), Err(Fault { address: 0x1026, len: 4 }));
        assert_eq!(memory.store_byte(0x1033, 1), Err(Fault { address: 0x1033, len: 1 }));
        assert_eq!(memory.store_byte(0x1032, 1), Ok(()));
        assert_eq!(memory.read(0x9999, &mut []), Ok(()));
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn blocks_may_not_overlap() {
        memory().add(0x1000, 4);
    }
}

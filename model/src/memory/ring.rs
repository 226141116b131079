//! The memory of a ring, as a NIC reaches it: page by page, or in one piece.

use super::{AddressSpace, Fault, Pages};

/// A ring's bytes in the device's address space.
#[derive(Clone, Debug)]
pub struct Ring {
    pages: Pages,
    /// Where in its first page the ring starts, in bytes. 0 for rings in one piece.
    offset: u64,
    length: u64,
}

impl Ring {
    /// A ring of `length` bytes in one piece, from device address `start` on.
    pub fn flat(start: u64, length: u64) -> Self {
        Ring { pages: Pages::Flat { device_start: start }, offset: 0, length }
    }

    /// A ring of `length` bytes in pages, which starts `offset` bytes into the first page.
    pub fn paged(pages: Pages, offset: u64, length: u64) -> Self {
        Ring { pages, offset, length }
    }

    /// The part of the ring from `start` on, of `length` bytes.
    pub fn part(&self, start: u64, length: u64) -> Self {
        Ring { pages: self.pages.clone(), offset: self.offset + start, length }
    }

    /// The ring's bytes.
    pub fn len(&self) -> u64 {
        self.length
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The device address of byte `at`, and how many bytes follow it in one piece.
    fn place(&self, at: u64) -> Result<(u64, usize), Fault> {
        let fault = Fault { address: at, len: 1 };
        let left = self.length.checked_sub(at).filter(|&left| left > 0).ok_or(fault)?;
        let at = self.offset.checked_add(at).ok_or(fault)?;
        match &self.pages {
            Pages::Flat { device_start } => {
                Ok((device_start.checked_add(at).ok_or(fault)?, left as usize))
            }
            // A ring is never under a key.
            Pages::Parts(_) | Pages::Strides(_) => Err(fault),
            Pages::List { log_size, addresses } => {
                let within = at & ((1 << log_size) - 1);
                let page = addresses.get((at >> log_size) as usize).ok_or(fault)?;
                let left = left.min((1 << log_size) - within);
                Ok((page.checked_add(within).ok_or(fault)?, left as usize))
            }
        }
    }

    /// Copies `into.len()` bytes from `at` on out of the ring.
    pub fn read(&self, space: &dyn AddressSpace, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < into.len() {
            let (address, left) = self.place(at + done as u64)?;
            let end = into.len().min(done + left);
            space.read(address, &mut into[done..end])?;
            done = end;
        }
        Ok(())
    }

    /// Copies `from` into the ring at `at`.
    pub fn write(&self, space: &dyn AddressSpace, at: u64, from: &[u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < from.len() {
            let (address, left) = self.place(at + done as u64)?;
            let end = from.len().min(done + left);
            space.write(address, &from[done..end])?;
            done = end;
        }
        Ok(())
    }

    /// Stores one byte at `at`, after everything stored before.
    pub fn publish(&self, space: &dyn AddressSpace, at: u64, byte: u8) -> Result<(), Fault> {
        let (address, _) = self.place(at)?;
        space.store_byte(address, byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::TestMemory;

    #[test]
    fn a_paged_ring_crosses_its_pages_and_ends_where_it_ends() {
        let mut memory = TestMemory::new();
        memory.add(0x10_000, 4096);
        memory.add(0x50_000, 4096);
        let space: &dyn AddressSpace = &memory;
        let addresses = [0x50_000, 0x10_000].into();
        let ring = Ring::paged(Pages::List { log_size: 12, addresses }, 4096 - 64, 128);
        ring.write(space, 0, &[7; 128]).unwrap();
        let mut bytes = [0; 64];
        space.read(0x50_000 + 4096 - 64, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 64]);
        space.read(0x10_000, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 64]);
        assert!(ring.publish(space, 128, 1).is_err());
        let part = ring.part(64, 64);
        part.publish(space, 63, 9).unwrap();
        ring.read(space, 64, &mut bytes).unwrap();
        assert_eq!((bytes[62], bytes[63]), (7, 9));
        assert!(ring.write(space, 64, &[0; 65]).is_err());
    }

    #[test]
    fn a_flat_ring_is_where_it_was_said_to_be() {
        let mut memory = TestMemory::new();
        memory.add(0x4000, 256);
        let space: &dyn AddressSpace = &memory;
        let ring = Ring::flat(0x4040, 128);
        ring.write(space, 64, &[3; 64]).unwrap();
        let mut bytes = [0; 64];
        space.read(0x4080, &mut bytes).unwrap();
        assert_eq!(bytes, [3; 64]);
    }
}

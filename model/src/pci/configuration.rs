//! The configuration space of a function (PCI Express base specification, chapter 7).
//!
//! Bytes, and which of their bits a driver may write. The machine emulates the base address
//! registers and the MSI-X table; what it forwards of them changes nothing here.

use super::interrupts::VECTORS;

/// Bytes of a configuration space.
pub(super) const BYTES: usize = 4096;
/// The command register, and its bit by which a function may start accesses to memory.
const COMMAND: usize = 0x04;
const BUS_MASTER: u8 = 1 << 2;
/// Where the capabilities are.
const EXPRESS: usize = 0x60;
const MSIX: usize = 0x9c;
const POWER: usize = 0x40;
const VENDOR: usize = 0x48;
const VENDOR_BYTES: u8 = 0x18;
/// The device control register, whose top bit resets the function.
const DEVICE_CONTROL: usize = EXPRESS + 8;
const FUNCTION_LEVEL_RESET: u8 = 0x80;
/// The device control register's bit by which writes may be reordered.
const RELAXED_ORDERING: u8 = 0x10;

/// What a function shows in its configuration space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    /// The vendor's number, and the device's.
    pub(super) vendor: u16,
    pub(super) device: u16,
    /// Class, subclass and interface.
    pub(super) class: u32,
    /// Its base address registers, each of 64 bits and two places.
    pub(super) bars: &'static [u8],
    /// The BAR of the MSI-X table and of the pending bits, and where they are in it.
    pub(super) msix: (u8, u32, u32),
}

/// A configuration space.
pub(super) struct Configuration {
    bytes: Box<[u8; BYTES]>,
    writable: Box<[u8; BYTES]>,
}

/// What writing to a configuration space asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Nothing,
    /// The function is to be as after power-up.
    Reset,
}

impl Configuration {
    /// The space of a function.
    pub(super) fn new(shown: &Shown) -> Self {
        let Shown { vendor, device, class, bars, msix: (msix_bar, table, pending) } = *shown;
        let mut space =
            Configuration { bytes: Box::new([0; BYTES]), writable: Box::new([0; BYTES]) };
        space.put(0x00, &vendor.to_le_bytes());
        space.put(0x02, &device.to_le_bytes());
        // Memory, bus master, parity, system error, interrupts off.
        space.allow(COMMAND, &0x0546u16.to_le_bytes());
        // There is a list of capabilities.
        space.put(0x06, &0x0010u16.to_le_bytes());
        let [interface, subclass, base, _] = class.to_le_bytes();
        space.put(0x09, &[interface, subclass, base]);
        space.allow(0x0c, &[0xff]);
        for &bar in bars {
            // 64 bits, prefetchable.
            space.put(0x10 + 4 * usize::from(bar), &0x0cu32.to_le_bytes());
        }
        space.put(0x2c, &vendor.to_le_bytes());
        space.put(0x2e, &0x0007u16.to_le_bytes());
        space.put(0x34, &[EXPRESS as u8]);
        space.allow(0x3c, &[0xff]);

        // PCI Express, version 2, an endpoint.
        space.put(EXPRESS, &[0x10, MSIX as u8, 0x02, 0x00]);
        // Role-based error reporting; can be reset alone.
        space.put(EXPRESS + 4, &0x1000_8000u32.to_le_bytes());
        space.allow(DEVICE_CONTROL, &0x7fffu16.to_le_bytes());
        // Third generation, 16 lanes.
        space.put(EXPRESS + 12, &0x0103u32.to_le_bytes());
        space.allow(EXPRESS + 16, &0x0fffu16.to_le_bytes());
        space.put(EXPRESS + 18, &0x0103u16.to_le_bytes());
        space.allow(EXPRESS + 40, &0x041fu16.to_le_bytes());

        space.put(MSIX, &[0x11, POWER as u8]);
        space.put(MSIX + 2, &(VECTORS - 1).to_le_bytes());
        // Enable, mask all.
        space.allow(MSIX + 2, &0xc000u16.to_le_bytes());
        space.put(MSIX + 4, &(table | u32::from(msix_bar)).to_le_bytes());
        space.put(MSIX + 8, &(pending | u32::from(msix_bar)).to_le_bytes());

        // Power management, version 3.
        space.put(POWER, &[0x01, 0x00, 0x03, 0x00]);
        space.allow(POWER + 4, &0x0103u16.to_le_bytes());
        space
    }

    /// Adds the capability by which a driver of a ConnectX reaches registers of the device's inside, of
    /// which this one has none: a space that a driver chooses there reads as one that does not exist
    /// (Linux's `pci_vsc.c`: control, counter, semaphore, address, data). The counter never moves, so the
    /// semaphore is free as long as nobody holds it.
    pub(super) fn with_gateway(mut self) -> Self {
        self.put(POWER + 1, &[VENDOR as u8]);
        self.put(VENDOR, &[0x09, 0x00, VENDOR_BYTES, 0x00]);
        self.put(VENDOR + 8, &1u32.to_le_bytes());
        self.allow(VENDOR + 12, &u32::MAX.to_le_bytes());
        const { assert!(VENDOR + VENDOR_BYTES as usize <= EXPRESS) };
        self
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn allow(&mut self, at: usize, bits: &[u8]) {
        self.writable[at..at + bits.len()].copy_from_slice(bits);
    }

    /// Whether the function may start accesses to memory.
    pub(super) fn is_bus_master(&self) -> bool {
        self.bytes[COMMAND] & BUS_MASTER != 0
    }

    /// Whether writes that the function starts may be reordered.
    pub(super) fn is_relaxed(&self) -> bool {
        self.bytes[DEVICE_CONTROL] & RELAXED_ORDERING != 0
    }

    /// Copies bytes out; those beyond the end are zero.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) {
        for (offset, byte) in into.iter_mut().enumerate() {
            *byte = place(at, offset).and_then(|at| self.bytes.get(at)).copied().unwrap_or(0);
        }
    }

    /// Writes the bits that may be written.
    pub(super) fn write(&mut self, at: u64, from: &[u8]) -> Effect {
        let mut effect = Effect::Nothing;
        for (offset, &new) in from.iter().enumerate() {
            let Some(offset) = place(at, offset) else { break };
            let (Some(byte), Some(mask)) = (self.bytes.get_mut(offset), self.writable.get(offset))
            else {
                break;
            };
            *byte = *byte & !mask | new & mask;
            if offset == DEVICE_CONTROL + 1 && new & FUNCTION_LEVEL_RESET != 0 {
                effect = Effect::Reset;
            }
        }
        effect
    }
}

/// The byte `offset` behind `at`, if there can be one.
fn place(at: u64, offset: usize) -> Option<usize> {
    usize::try_from(at).ok()?.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space() -> Configuration {
        Configuration::new(&Shown {
            vendor: 0x15b3,
            device: 0x1017,
            class: 0x02_0000,
            bars: &[0, 2],
            msix: (2, 0x2000, 0x3000),
        })
    }

    fn read(space: &Configuration, at: u64) -> [u8; 4] {
        let mut bytes = [0; 4];
        space.read(at, &mut bytes);
        bytes
    }

    #[test]
    fn every_capability_is_reached_from_the_first() {
        let space = space().with_gateway();
        let mut kinds = Vec::new();
        let mut at = read(&space, 0x34)[0];
        while at != 0 {
            let [kind, next, ..] = read(&space, at.into());
            kinds.push(kind);
            at = next;
        }
        assert_eq!(kinds, [0x10, 0x11, 0x01, 0x09]);
    }

    #[test]
    fn only_writable_bits_change() {
        let mut space = space();
        for at in 0..BYTES as u64 {
            space.write(at, &[0xff]);
        }
        assert_eq!(read(&space, 0), [0xb3, 0x15, 0x17, 0x10]);
        assert_eq!(read(&space, 4), [0x46, 0x05, 0x10, 0x00]);
        assert_eq!(read(&space, 0x10), [0x0c, 0, 0, 0]);
        assert_eq!(read(&space, 0x18), [0x0c, 0, 0, 0]);
        assert_eq!(read(&space, 0x9c), [0x11, 0x40, 0x1f, 0xc0]);
        assert_eq!(read(&space, 0xa0), [0x02, 0x20, 0, 0]);
    }

    #[test]
    fn a_reset_is_asked_for_through_device_control() {
        let mut space = space();
        assert_eq!(space.write(0x68, &[0x10, 0x28]), Effect::Nothing);
        assert_eq!(space.write(0x68, &[0x10, 0xa8]), Effect::Reset);
        assert_eq!(read(&space, 0x68)[..2], [0x10, 0x28]);
    }

    #[test]
    fn beyond_the_end_there_is_nothing() {
        let mut space = space();
        assert_eq!(read(&space, BYTES as u64 - 2), [0; 4]);
        assert_eq!(read(&space, u64::MAX - 1), [0; 4]);
        assert_eq!(space.write(u64::MAX - 1, &[1; 8]), Effect::Nothing);
    }
}

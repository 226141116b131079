//! A PCI function that this process owns: what a driver stands on that has no kernel driver.

mod configuration;

pub use configuration::{Capability, Command, ConfigurationError, Identity, capability, command};
pub use configuration::{identity, relaxed_ordering, set_command, set_relaxed_ordering};

use crate::Errno;
use crate::memory::DmaMemory;
use crate::mmio::RegisterPage;
use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;

/// The address of a PCI function: domain, bus, device and function.
///
/// Written and read as Linux writes it: `0000:c1:00.0`. Addresses are ordered as buses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BusAddress {
    /// The domain, also called segment.
    pub domain: u32,
    /// The bus.
    pub bus: u8,
    device: u8,
    function: u8,
}

impl BusAddress {
    /// The address, or `None` for a device over 31 or a function over 7.
    pub const fn new(domain: u32, bus: u8, device: u8, function: u8) -> Option<Self> {
        if device < 32 && function < 8 {
            Some(BusAddress { domain, bus, device, function })
        } else {
            None
        }
    }

    /// The device on its bus, from 0 to 31.
    pub const fn device(self) -> u8 {
        self.device
    }

    /// The function of its device, from 0 to 7.
    pub const fn function(self) -> u8 {
        self.function
    }

    /// Whether both are functions of one device.
    pub const fn is_same_device(self, other: BusAddress) -> bool {
        self.domain == other.domain && self.bus == other.bus && self.device == other.device
    }

    /// The address in `text`, if it is one in Linux' form.
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, rest) = text.split_once(':')?;
        let (bus, rest) = rest.split_once(':')?;
        let (device, function) = rest.split_once('.')?;
        let digits = |text: &str, least: usize, most: usize| {
            let right = (least..=most).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_hexdigit());
            right.then(|| u32::from_str_radix(text, 16).ok()).flatten()
        };
        let byte = |text: &str, len: usize| digits(text, len, len).map(|value| value as u8);
        let (domain, bus) = (digits(domain, 4, 8)?, byte(bus, 2)?);
        BusAddress::new(domain, bus, byte(device, 2)?, byte(function, 1)?)
    }
}

impl fmt::Display for BusAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BusAddress { domain, bus, device, function } = self;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{function:x}")
    }
}

/// Where a device finds memory: the addresses that it puts on the bus.
pub trait DeviceAddresses: Send + Sync {
    /// The number of bytes that have device addresses.
    fn reach(&self) -> usize;

    /// A power of two, at least 4096: from each multiple of it on, that many bytes have consecutive
    /// device addresses, and start at a multiple of it there, too.
    fn granule(&self) -> usize;

    /// The device address of byte `at`, below [`reach`](Self::reach); bytes of one granule follow one
    /// another. `None` for a byte past the end.
    fn device_address(&self, at: usize) -> Option<u64>;
}

/// A PCI function that this process holds, alone.
///
/// While the value lives no other process and no kernel driver drives the function. Dropping it
/// makes the function available again; whoever drops it has made the function stop reaching
/// memory (bus mastering off), or relies on the memory's values, which outlive nothing.
///
/// # Safety
///
/// The implementer promises that:
/// - [`allocate`](Self::allocate)'s memory keeps [`DmaMemory`]'s promises, and its device addresses
///   lead to it and to nothing else for as long as it lives (SAFETY.md, M1, P1);
/// - the function reaches no memory of this process but what was allocated or pinned through this
///   value, at its device addresses, unless the driver gives it others (SAFETY.md, P1).
pub unsafe trait PciFunction: Send + Sync + 'static {
    /// Memory for rings, contexts and regions.
    type Memory: DmaMemory + DeviceAddresses + 'static;
    /// Memory that others own, made reachable for the function.
    type Pinned: DeviceAddresses + 'static;
    /// A range of the function's registers.
    type Bar: Bar + 'static;
    /// Interrupt vectors, as something to wait for.
    type Interrupts: Interrupts + 'static;

    /// Where the function is.
    fn bus_address(&self) -> BusAddress;

    /// Reads the configuration space from byte `at` on. The reads are as wide as `into` where that
    /// is 1, 2 or 4 bytes and `at` a multiple of it.
    fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno>;

    /// Writes the configuration space from byte `at` on, as wide as for reads.
    fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno>;

    /// Maps the registers behind base address register `number`, from 0 to 5, whole and uncached.
    fn bar(&self, number: u8) -> Result<Self::Bar, Errno>;

    /// Allocates at least `len` bytes, zeroed, starting at a page boundary, that the function can
    /// reach. A child of `fork` does not inherit them.
    fn allocate(&self, len: usize) -> Result<Self::Memory, Errno>;

    /// Makes the `len` bytes of this process from `start` on, both multiples of a page, reachable
    /// for the function.
    ///
    /// # Safety
    ///
    /// Until the answer is dropped, the bytes stay mapped, readable and writable, at that address
    /// and in the same pages of memory; and nothing refers to them as anything but raw memory
    /// (SAFETY.md, M1, M2, P1).
    unsafe fn pin(&self, start: NonNull<u8>, len: usize) -> Result<Self::Pinned, Errno>;

    /// Makes `len` bytes from `offset` on behind base address register `bar` of another function,
    /// `owner`, reachable for this one: a GPU's memory, say.
    fn pin_device(
        &self,
        owner: BusAddress,
        bar: u8,
        offset: u64,
        len: usize,
    ) -> Result<Self::Pinned, Errno>;

    /// Enables the first `vectors` MSI-X vectors of the function, and disables the rest. Fails where
    /// the way in which the function is held has none.
    fn interrupts(&self, vectors: u16) -> Result<Self::Interrupts, Errno>;

    /// Resets the function (a function-level reset, or what the system knows instead). Whatever the
    /// function was doing it does no more, and its configuration space is as the system keeps it.
    fn reset(&self) -> Result<(), Errno>;

    /// The size of a page in bytes, a power of two.
    fn page_size(&self) -> usize;

    /// A random number that a peer cannot guess, for a connection's first packet sequence number.
    fn random(&self) -> Result<u32, Errno>;

    /// The time since some moment in the past. It never goes backwards.
    fn now(&self) -> Duration;

    /// Lets time pass: about `time`, for the function to get on with what it was asked for. A
    /// function that is made of steps takes some.
    fn pause(&self, time: Duration);
}

/// The registers behind one base address register.
///
/// Stores of 8 bytes to doorbells are made through [`RegisterPage::register`]; these are for the
/// control path. Neither orders anything: that is the caller's.
pub trait Bar: RegisterPage {
    /// The number of bytes.
    fn size(&self) -> u64;

    /// Loads the 32-bit register at `at`, a multiple of 4. `None` if there is no such register.
    fn read(&self, at: u64) -> Option<u32>;

    /// Stores to the 32-bit register at `at`, a multiple of 4. `None` if there is no such register.
    fn write(&self, at: u64, value: u32) -> Option<()>;
}

/// Enabled interrupt vectors. Dropping the value disables them.
pub trait Interrupts: Send + Sync {
    /// Waits until a vector was raised since the last wait that answered it, or until `timeout` has
    /// passed: the smallest such vector, or `None`.
    fn wait(&self, timeout: Duration) -> Result<Option<u16>, Errno>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_bus_address_is_read_as_it_is_written_and_as_nothing_else() {
        for text in ["0000:c1:00.0", "10000:00:1f.7", "ffff:ff:00.1"] {
            assert_eq!(BusAddress::parse(text).unwrap().to_string(), text);
        }
        let wrong = [
            "",
            "c1:00.0",
            "0000:c1:00",
            "0000:c1:20.0",
            "0000:c1:00.8",
            "0000:c1:0.0",
            "0:c1:00.0",
            "0000:+1:00.0",
            "0000:c1:00.0 ",
            "123456789:c1:00.0",
            "0000:c1:00.00",
        ];
        for text in wrong {
            assert_eq!(BusAddress::parse(text), None, "{text}");
        }
    }

    #[test]
    fn bus_addresses_are_in_bus_order() {
        let order = ["0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0001:00:00.0"];
        let mut parsed = order.map(|text| BusAddress::parse(text).unwrap());
        parsed.reverse();
        parsed.sort();
        assert_eq!(parsed.map(|address| address.to_string()), order);
        assert!(parsed[0].is_same_device(parsed[1]) && !parsed[1].is_same_device(parsed[2]));
    }
}

//! The configuration space, as far as every function has it.
//!
//! PCI Local Bus Specification 3.0, chapter 6, and PCI Express Base Specification, chapter 7.5.

use super::PciFunction;
use crate::Errno;
use core::fmt;

/// The two numbers that name a kind of function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Who made it.
    pub vendor: u16,
    /// What it is, in the maker's numbering.
    pub device: u16,
}

/// What a function may do on the bus: its command register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command(u16);

impl Command {
    /// Answers accesses to its memory ranges (bit 1).
    pub const MEMORY: Command = Command(1 << 1);
    /// Starts accesses to memory of its own, interrupts included (bit 2).
    pub const BUS_MASTER: Command = Command(1 << 2);

    /// Whether all of `others` are on.
    pub const fn contains(self, others: Command) -> bool {
        self.0 & others.0 == others.0
    }
}

/// A capability in the list of the first 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Capability {
    /// PCI Express.
    Express = 0x10,
    /// MSI-X interrupts.
    MsiX = 0x11,
}

/// Why the configuration space could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigurationError {
    /// An access was refused.
    Refused(Errno),
    /// The function has no such capability.
    Missing(Capability),
    /// A bit that was written is not there when it is read back.
    Unchanged {
        /// What the bit is.
        what: &'static str,
    },
}

impl fmt::Display for ConfigurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigurationError::Refused(reason) => {
                write!(f, "an access to the configuration space was refused: {reason}")
            }
            ConfigurationError::Missing(Capability::Express) => {
                f.write_str("the function has no PCI Express capability")
            }
            ConfigurationError::Missing(Capability::MsiX) => {
                f.write_str("the function has no MSI-X capability")
            }
            ConfigurationError::Unchanged { what } => {
                write!(f, "{what} did not change when it was written")
            }
        }
    }
}

impl core::error::Error for ConfigurationError {}

impl From<Errno> for ConfigurationError {
    fn from(reason: Errno) -> Self {
        ConfigurationError::Refused(reason)
    }
}

const VENDOR: u16 = 0x00;
const COMMAND: u16 = 0x04;
const STATUS: u16 = 0x06;
const HAS_CAPABILITIES: u16 = 1 << 4;
const FIRST_CAPABILITY: u16 = 0x34;
/// The device control register, counted from the PCI Express capability.
const DEVICE_CONTROL: u16 = 0x08;
const RELAXED_ORDERING: u16 = 1 << 4;
/// Capabilities are 4 bytes at least, after the 64 of the header: no list is longer.
const MOST_CAPABILITIES: usize = (256 - 64) / 4;

fn read_u16<F: PciFunction>(function: &F, at: u16) -> Result<u16, Errno> {
    let mut bytes = [0; 2];
    function.read_configuration(at, &mut bytes)?;
    Ok(u16::from_le_bytes(bytes))
}

fn write_u16<F: PciFunction>(function: &F, at: u16, value: u16) -> Result<(), Errno> {
    function.write_configuration(at, &value.to_le_bytes())
}

fn read_u8<F: PciFunction>(function: &F, at: u16) -> Result<u8, Errno> {
    let mut bytes = [0; 1];
    function.read_configuration(at, &mut bytes)?;
    Ok(u8::from_le_bytes(bytes))
}

/// What kind of function it is.
pub fn identity<F: PciFunction>(function: &F) -> Result<Identity, ConfigurationError> {
    let vendor = read_u16(function, VENDOR)?;
    Ok(Identity { vendor, device: read_u16(function, VENDOR + 2)? })
}

/// What the function may do on the bus.
pub fn command<F: PciFunction>(function: &F) -> Result<Command, ConfigurationError> {
    Ok(Command(read_u16(function, COMMAND)?))
}

/// Turns `bits` of the command register on or off, and leaves the others as they are.
pub fn set_command<F: PciFunction>(
    function: &F,
    bits: Command,
    on: bool,
) -> Result<(), ConfigurationError> {
    let old = read_u16(function, COMMAND)?;
    let new = if on { old | bits.0 } else { old & !bits.0 };
    write_u16(function, COMMAND, new)?;
    if read_u16(function, COMMAND)? & bits.0 != new & bits.0 {
        return Err(ConfigurationError::Unchanged { what: "the command register" });
    }
    Ok(())
}

/// Where `capability` is in the configuration space.
pub fn capability<F: PciFunction>(
    function: &F,
    capability: Capability,
) -> Result<u16, ConfigurationError> {
    let missing = ConfigurationError::Missing(capability);
    if read_u16(function, STATUS)? & HAS_CAPABILITIES == 0 {
        return Err(missing);
    }
    let mut at = FIRST_CAPABILITY;
    for _ in 0..MOST_CAPABILITIES {
        // The two lowest bits of a link are reserved.
        let next = read_u8(function, at)? & !3;
        if next < 0x40 {
            return Err(missing);
        }
        if read_u8(function, next.into())? == capability as u8 {
            return Ok(next.into());
        }
        at = u16::from(next) + 1;
    }
    // The list goes round in a circle.
    Err(missing)
}

/// Whether writes that the function starts may be reordered (relaxed ordering).
pub fn relaxed_ordering<F: PciFunction>(function: &F) -> Result<bool, ConfigurationError> {
    let control = capability(function, Capability::Express)? + DEVICE_CONTROL;
    Ok(read_u16(function, control)? & RELAXED_ORDERING != 0)
}

/// Lets writes that the function starts be reordered, or forbids it. Answers whether it was allowed.
pub fn set_relaxed_ordering<F: PciFunction>(
    function: &F,
    on: bool,
) -> Result<bool, ConfigurationError> {
    let control = capability(function, Capability::Express)? + DEVICE_CONTROL;
    let old = read_u16(function, control)?;
    let new = if on { old | RELAXED_ORDERING } else { old & !RELAXED_ORDERING };
    write_u16(function, control, new)?;
    if read_u16(function, control)? & RELAXED_ORDERING != new & RELAXED_ORDERING {
        return Err(ConfigurationError::Unchanged { what: "relaxed ordering" });
    }
    Ok(old & RELAXED_ORDERING != 0)
}

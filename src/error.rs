//! Why a call of the control path failed.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use doorbell_hal::Errno;
use doorbell_hal::pci::{ConfigurationError, Identity};

/// Why a call of the control path failed. Whatever the call, it left nothing behind.
///
/// Posting has its own error, [`PostError`](crate::wr::PostError), and a request that failed is
/// reported by its completion.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory of this machine cannot be used.
    #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
    File(doorbell_hal::linux::FileError),
    /// A PCI function cannot be taken.
    #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
    Take(doorbell_hal::linux::pci::TakeError),
    /// A PCI function cannot be taken from its kernel driver, or not given back.
    #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
    Driver(doorbell_hal::linux::pci::DriverError),
    /// The machine has no RDMA device of this name.
    NoDevice {
        /// The name.
        device: String,
    },
    /// Another kernel driver than the family's, or none, holds the device's function.
    OtherDriver {
        /// The device.
        device: String,
        /// The driver that holds it.
        driver: Option<String>,
        /// The driver that must hold it.
        expected: &'static str,
    },
    /// The kernel refused a call.
    Refused {
        /// The device.
        device: String,
        /// The call.
        call: &'static str,
        /// The kernel's reason.
        reason: Errno,
    },
    /// The kernel's or firmware's answer to a call is not one that it may give.
    Answer {
        /// The device.
        device: String,
        /// The call.
        call: &'static str,
        /// What is wrong with the answer.
        wrong: &'static str,
        /// The value that is wrong.
        value: u64,
    },
    /// The firmware refused a request.
    Firmware {
        /// The device.
        device: String,
        /// The request.
        call: &'static str,
        /// The firmware's reason, by its name.
        reason: &'static str,
        /// The number of that reason.
        code: u32,
    },
    /// The firmware did not answer a request in time. It may still act on it, so it is asked for
    /// nothing else.
    NoAnswer {
        /// The device.
        device: String,
        /// The request.
        call: &'static str,
        /// How long it was waited for.
        within: Duration,
    },
    /// The firmware did not answer an earlier request in time, so it is asked for nothing else.
    Poisoned {
        /// The device.
        device: String,
        /// The request that was not made.
        call: &'static str,
        /// The request that was not answered.
        unanswered: &'static str,
    },
    /// The configuration space of a device's function cannot be used.
    Configuration {
        /// The device.
        device: String,
        /// Why.
        reason: ConfigurationError,
    },
    /// A device is of another kind than the family's.
    OtherDevice {
        /// The device.
        device: String,
        /// What it is.
        identity: Identity,
    },
    /// The port is not up.
    PortNotActive {
        /// The device.
        device: String,
        /// The port's state, by the specification's name.
        state: &'static str,
    },
    /// An Ethernet port has no RoCE v2 global identifier, as when its network interface has no
    /// address.
    NoRoceV2Identifier {
        /// The device.
        device: String,
    },
    /// The kernel gives fewer doorbell registers than one page holds.
    TooFewRegisters {
        /// The device.
        device: String,
        /// Bytes of registers that there are.
        bytes: u64,
        /// Bytes of registers that a page holds.
        page: u64,
    },
    /// An argument is outside of its bounds.
    OutOfRange {
        /// The argument.
        what: &'static str,
        /// Its value.
        given: u64,
        /// The least it may be.
        least: u64,
        /// The most it may be.
        most: u64,
    },
    /// The entries that may complete into a completion queue are more than it holds, so that it
    /// could be overrun.
    Overcommitted {
        /// Entries that could complete into it.
        needed: u64,
        /// Entries that it holds.
        holds: u64,
    },
    /// The peer cannot be reached from here.
    Unreachable {
        /// Why.
        why: &'static str,
    },
    /// Requests or receives of a failed queue pair have not been polled yet.
    NotDrained {
        /// Slots of requests not completed, the queue pair's own last one among them.
        sends: u32,
        /// Receives not completed.
        receives: u32,
    },
    /// Two things belong to different NICs, or to different queue pairs.
    Mismatched {
        /// What does not belong together.
        what: &'static str,
    },
    /// Objects of the NIC are in use.
    InUse {
        /// How many handles on the NIC its objects hold.
        objects: usize,
    },
}

impl Error {
    /// Refuses an argument that is not from `least` to `most`.
    pub(crate) fn check_range(
        what: &'static str,
        given: u32,
        least: u32,
        most: u32,
    ) -> Result<(), Error> {
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let (given, least, most) = (given.into(), least.into(), most.into());
        Err(Error::OutOfRange { what, given, least, most })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
            Error::File(error) => error.fmt(f),
            #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
            Error::Take(error) => error.fmt(f),
            #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
            Error::Driver(error) => error.fmt(f),
            Error::NoDevice { device } => write!(f, "there is no RDMA device {device}"),
            Error::OtherDriver { device, driver: Some(driver), expected } => {
                write!(f, "RDMA device {device} is held by {driver}, not by {expected}")
            }
            Error::OtherDriver { device, driver: None, expected } => {
                write!(f, "RDMA device {device} is not held by {expected}")
            }
            Error::Refused { device, call, reason } => {
                write!(f, "{device}: the kernel refused {call}: {reason}")
            }
            Error::Answer { device, call, wrong, value } => {
                write!(f, "{device}: the answer to {call} has {wrong} {value:#x}")
            }
            Error::Firmware { device, call, reason, code } => {
                write!(f, "{device}: the firmware refused {call}: {reason} ({code:#x})")
            }
            Error::NoAnswer { device, call, within } => {
                write!(f, "{device}: the firmware did not answer {call} within {within:?}")
            }
            Error::Poisoned { device, call, unanswered } => write!(
                f,
                "{device}: {call} was not made, as the firmware did not answer {unanswered} in time"
            ),
            Error::Configuration { device, reason } => write!(f, "{device}: {reason}"),
            Error::OtherDevice { device, identity: Identity { vendor, device: id } } => {
                write!(f, "{device} is a {vendor:04x}:{id:04x}, which is not a NIC of this family")
            }
            Error::PortNotActive { device, state } => {
                write!(f, "{device}: port 1 is not active but {state}")
            }
            Error::NoRoceV2Identifier { device } => write!(
                f,
                "{device}: port 1 is an Ethernet port with no RoCE v2 global identifier \
                 (its network interface has no address?)"
            ),
            Error::TooFewRegisters { device, bytes, page } => write!(
                f,
                "{device}: the kernel gives {bytes} bytes of doorbell registers, \
                 and a page holds {page}"
            ),
            Error::OutOfRange { what, given, least, most } => {
                write!(f, "{what} is {given}, and must be from {least} to {most}")
            }
            Error::Overcommitted { needed, holds } => write!(
                f,
                "{needed} entries could complete into a completion queue of {holds} \
                 (make it larger, or say `overcommit`)"
            ),
            Error::Unreachable { why } => write!(f, "the peer cannot be reached: {why}"),
            Error::NotDrained { sends, receives } => write!(
                f,
                "{sends} send slots and {receives} receives have not completed: \
                 poll their completions first"
            ),
            Error::Mismatched { what } => write!(f, "{what} do not belong together"),
            Error::InUse { objects } => {
                write!(f, "the NIC is in use by {objects} of its objects")
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
            Error::File(error) => Some(error),
            #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
            Error::Take(error) => Some(error),
            #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
            Error::Driver(error) => Some(error),
            Error::Refused { reason, .. } => Some(reason),
            Error::Configuration { reason, .. } => Some(reason),
            _ => None,
        }
    }
}

#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
impl From<doorbell_hal::linux::FileError> for Error {
    fn from(error: doorbell_hal::linux::FileError) -> Self {
        Error::File(error)
    }
}

#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
impl From<doorbell_hal::linux::pci::TakeError> for Error {
    fn from(error: doorbell_hal::linux::pci::TakeError) -> Self {
        Error::Take(error)
    }
}

#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
impl From<doorbell_hal::linux::pci::DriverError> for Error {
    fn from(error: doorbell_hal::linux::pci::DriverError) -> Self {
        Error::Driver(error)
    }
}

/// A call that was refused, and the object that it would have consumed, as it was.
pub struct Refused<T> {
    /// The object.
    pub object: T,
    /// Why the call was refused.
    pub error: Error,
}

/// Has `destroy` take back what `object` stands for, and gives it, if nobody else has it; otherwise, or
/// if that fails, gives `object` back as it was.
pub(crate) fn destroy_alone<T>(
    object: Arc<T>,
    destroy: impl FnOnce(&mut T) -> Result<(), Error>,
) -> Result<T, Refused<Arc<T>>> {
    match Arc::try_unwrap(object) {
        Ok(mut object) => match destroy(&mut object) {
            Ok(()) => Ok(object),
            Err(error) => Err(Refused { object: Arc::new(object), error }),
        },
        Err(object) => {
            let objects = Arc::strong_count(&object) - 1;
            Err(Refused { object, error: Error::InUse { objects } })
        }
    }
}

impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> core::error::Error for Refused<T> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.error.source()
    }
}

impl<T> From<Refused<T>> for Error {
    fn from(refused: Refused<T>) -> Self {
        refused.error
    }
}

//! A PCI function that one process holds.

use super::super::machine::{FileError, Machine};
use crate::pci::BusAddress;
use core::fmt;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};

/// A PCI function that this value holds: no other holds it meanwhile, in this process or another that
/// holds functions in this way. Dropping it, or the end of the process, lets it go.
#[derive(Debug)]
pub struct Held {
    address: BusAddress,
    /// The configuration space, locked.
    configuration: OwnedFd,
}

/// Why a function could not be held.
#[derive(Debug)]
#[non_exhaustive]
pub enum HoldError {
    /// A process holds it.
    Held {
        /// The function.
        address: BusAddress,
    },
    /// A file of it cannot be used.
    File(FileError),
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldError::Held { address } => write!(f, "a process holds PCI function {address}"),
            HoldError::File(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for HoldError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            HoldError::Held { .. } => None,
            HoldError::File(error) => Some(error),
        }
    }
}

impl Held {
    /// The function.
    pub fn address(&self) -> BusAddress {
        self.address
    }

    /// Its configuration space, open to be read and written.
    pub fn configuration(&self) -> &OwnedFd {
        &self.configuration
    }
}

impl Machine {
    /// Holds the PCI function at `address`, unless a process does. Needs to be allowed to write its
    /// configuration space.
    pub fn hold_pci_function(&self, address: BusAddress) -> Result<Held, HoldError> {
        let path = self.pci_path(address).join("config");
        let failed = |action, reason: rustix::io::Errno| {
            HoldError::File(FileError { action, path: path.clone(), reason: reason.into() })
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let configuration = rustix::fs::open(&path, flags, Mode::empty())
            .map_err(|reason| failed("open", reason))?;
        // A lock of the open file: a second one, of this process too, is refused.
        match rustix::fs::flock(&configuration, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Held { address, configuration }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(HoldError::Held { address }),
            Err(reason) => Err(failed("lock", reason)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::listing::made_up::MadeUp;
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_function_is_held_by_one_and_free_once_let_go() {
        let made_up = MadeUp::new();
        made_up.function("0000:c1:00.0", 0x1760, None, None);
        let address = BusAddress::parse("0000:c1:00.0").unwrap();
        let held = made_up.machine().hold_pci_function(address).unwrap();
        assert_eq!(held.address(), address);
        let refused = made_up.machine().hold_pci_function(address).unwrap_err();
        assert!(matches!(refused, HoldError::Held { address: at } if at == address));
        assert_eq!(refused.to_string(), "a process holds PCI function 0000:c1:00.0");
        drop(held);
        made_up.machine().hold_pci_function(address).unwrap();
    }

    #[test]
    fn a_function_that_is_not_there_is_an_error_that_names_its_file() {
        let address = BusAddress::parse("0000:c1:00.0").unwrap();
        let error = MadeUp::new().machine().hold_pci_function(address).unwrap_err().to_string();
        assert!(error.contains("cannot open") && error.contains("0000:c1:00.0/config"), "{error}");
    }
}

//! Taking a PCI function from its kernel driver, and giving it back. What these change stays changed
//! after the process, until it is changed back or the machine starts anew.
//!
//! Linux' `Documentation/ABI/testing/sysfs-bus-pci`: `driver_override`, `unbind`, `bind`,
//! `drivers_probe`.

use super::super::machine::{FileError, Machine};
use super::VFIO_DRIVER;
use super::hold::HoldError;
use super::listing::ListedFunction;
use crate::pci::BusAddress;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

/// How long a driver is waited for to let a function go, or to take it.
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of a function that was taken from its kernel driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The driver that had it.
    pub from: Option<String>,
    /// Whether vfio-pci has it now, so that it is held through an IOMMU; otherwise no driver has it,
    /// and it is held physically.
    pub through_vfio: bool,
}

/// Why a function was not taken from its kernel driver, or not given back.
#[derive(Debug)]
#[non_exhaustive]
pub enum DriverError {
    /// There is no such function.
    NoFunction {
        /// Where it would be.
        address: BusAddress,
    },
    /// It cannot be held: a process holds it.
    Hold(HoldError),
    /// Kernel drivers have other functions of the device, and there is no vfio-pci to keep this one
    /// apart from them.
    Siblings {
        /// The function.
        address: BusAddress,
        /// The others, and their drivers.
        others: Vec<(BusAddress, String)>,
    },
    /// An IOMMU translates its addresses, and there is no vfio-pci to hold it through.
    NoVfio {
        /// The function.
        address: BusAddress,
    },
    /// A file cannot be used.
    File(FileError),
    /// The kernel did what was asked, and another driver than expected has the function.
    Unmoved {
        /// The function.
        address: BusAddress,
        /// The driver that has it.
        driver: Option<String>,
    },
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriverError::NoFunction { address } => write!(f, "there is no PCI function {address}"),
            DriverError::Hold(error) => error.fmt(f),
            DriverError::Siblings { address, others } => {
                write!(f, "PCI function {address} is not alone on its device, and not with ")?;
                write!(f, "{VFIO_DRIVER}:")?;
                others.iter().try_for_each(|(other, driver)| write!(f, " {driver} has {other}"))
            }
            DriverError::NoVfio { address } => {
                write!(f, "PCI function {address} is behind an IOMMU, and the machine has no ")?;
                write!(f, "{VFIO_DRIVER} for it: load that module first")
            }
            DriverError::File(error) => error.fmt(f),
            DriverError::Unmoved { address, driver: Some(driver) } => {
                write!(f, "PCI function {address} is with {driver} all the same")
            }
            DriverError::Unmoved { address, driver: None } => {
                write!(f, "no driver has taken PCI function {address}")
            }
        }
    }
}

impl core::error::Error for DriverError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            DriverError::Hold(error) => Some(error),
            DriverError::File(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FileError> for DriverError {
    fn from(error: FileError) -> Self {
        DriverError::File(error)
    }
}

impl Machine {
    /// Takes the function at `address` from its kernel driver: its network interfaces and RDMA devices
    /// go. Where the machine uses an IOMMU, vfio-pci takes it, which must be there; unless the IOMMU
    /// translates nothing. Otherwise no driver has it, and it must be alone on its device.
    ///
    /// Refuses a function that a process holds, this one included. Needs `CAP_SYS_ADMIN` and write
    /// access to files under `/sys/bus/pci`.
    pub fn detach(&self, address: BusAddress) -> Result<Detached, DriverError> {
        let function = self.known(address)?;
        let _held = self.hold_pci_function(address).map_err(DriverError::Hold)?;
        let from = function.driver.clone();
        if from.as_deref() == Some(VFIO_DRIVER) {
            return Ok(Detached { from, through_vfio: true });
        }
        let vfio = self.path("sys/bus/pci/drivers").join(VFIO_DRIVER);
        let through_vfio = function.iommu_group.is_some() && vfio.exists();
        if !through_vfio {
            // With no driver it would be of use to nobody.
            if self.is_translated(&function) {
                return Err(DriverError::NoVfio { address });
            }
            let others = self.driven_siblings(address)?;
            if !others.is_empty() {
                return Err(DriverError::Siblings { address, others });
            }
        }
        if let Some(driver) = &from {
            self.unbind(address, driver)?;
        }
        if through_vfio {
            self.write(self.pci_path(address).join("driver_override"), VFIO_DRIVER)?;
            self.write(vfio.join("bind"), &address.to_string())?;
            self.wait(address, |driver| driver == Some(VFIO_DRIVER))?;
        }
        Ok(Detached { from, through_vfio })
    }

    /// Gives the function at `address` back to the kernel: the driver that takes it, or an error if none
    /// does. Nothing changes for a function that a driver has that is not vfio-pci.
    ///
    /// Refuses a function that a process holds, this one included. Needs what
    /// [`detach`](Self::detach) needs.
    pub fn attach(&self, address: BusAddress) -> Result<String, DriverError> {
        let function = self.known(address)?;
        let _held = self.hold_pci_function(address).map_err(DriverError::Hold)?;
        match function.driver {
            Some(driver) if driver != VFIO_DRIVER => return Ok(driver),
            Some(driver) => self.unbind(address, &driver)?,
            None => {}
        }
        // An empty line forces no driver.
        self.write(self.pci_path(address).join("driver_override"), "\n")?;
        self.write(self.path("sys/bus/pci/drivers_probe"), &address.to_string())?;
        self.wait(address, |driver| driver.is_some())?;
        let driver = self.pci_link(address, "driver")?;
        driver.ok_or(DriverError::Unmoved { address, driver: None })
    }

    fn known(&self, address: BusAddress) -> Result<ListedFunction, DriverError> {
        self.pci_function(address)?.ok_or(DriverError::NoFunction { address })
    }

    /// The other functions of the device that kernel drivers have.
    fn driven_siblings(
        &self,
        address: BusAddress,
    ) -> Result<Vec<(BusAddress, String)>, DriverError> {
        let all = self.all_pci_functions()?.into_iter();
        let others = all.filter(|it| it.address.is_same_device(address) && it.address != address);
        Ok(others.filter_map(|it| Some((it.address, it.driver?))).collect())
    }

    fn unbind(&self, address: BusAddress, driver: &str) -> Result<(), DriverError> {
        let file = self.path("sys/bus/pci/drivers").join(driver).join("unbind");
        self.write(file, &address.to_string())?;
        self.wait(address, |driver| driver.is_none())
    }

    fn write(&self, path: PathBuf, text: &str) -> Result<(), FileError> {
        // The file is there, and the kernel takes what one call writes.
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
        written.map_err(|reason| FileError { action: "write to", path, reason })
    }

    /// Waits until the function's driver is `wanted`.
    fn wait(
        &self,
        address: BusAddress,
        wanted: impl Fn(Option<&str>) -> bool,
    ) -> Result<(), DriverError> {
        let start = Instant::now();
        loop {
            let driver = self.pci_link(address, "driver")?;
            if wanted(driver.as_deref()) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                return Err(DriverError::Unmoved { address, driver });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::function::Access;
    use super::super::listing::made_up::MadeUp;
    use super::*;

    const NIC: &str = "0000:c1:00.0";

    fn nic() -> BusAddress {
        BusAddress::parse(NIC).unwrap()
    }

    #[test]
    fn with_an_iommu_vfio_takes_the_function_and_the_other_port_keeps_its_driver() {
        let made_up = MadeUp::new();
        made_up.driver(VFIO_DRIVER).function(NIC, 0x1760, Some("bnxt_en"), Some("6")).function(
            "0000:c1:00.1",
            0x1760,
            Some("bnxt_en"),
            Some("7"),
        );
        let machine = made_up.machine();
        let detached = made_up.with_kernel("bnxt_en", || machine.detach(nic())).unwrap();
        assert_eq!(detached, Detached { from: Some("bnxt_en".into()), through_vfio: true });
        let driver = machine.pci_function(nic()).unwrap().unwrap().driver;
        assert_eq!(driver.as_deref(), Some(VFIO_DRIVER));
        assert_eq!(made_up.text(NIC, "driver_override").trim(), VFIO_DRIVER);
        // A second time changes nothing, and needs no kernel.
        assert!(machine.detach(nic()).unwrap().through_vfio);

        let driver = made_up.with_kernel("bnxt_en", || machine.attach(nic())).unwrap();
        assert_eq!(driver, "bnxt_en");
        assert_eq!(machine.attach(nic()).unwrap(), "bnxt_en");
    }

    #[test]
    fn without_an_iommu_the_function_is_with_no_driver_if_it_is_alone_on_its_device() {
        let made_up = MadeUp::new();
        made_up.driver(VFIO_DRIVER).function(NIC, 0x1760, Some("bnxt_en"), None);
        let machine = made_up.machine();
        let detached = made_up.with_kernel("bnxt_en", || machine.detach(nic())).unwrap();
        assert_eq!(detached, Detached { from: Some("bnxt_en".into()), through_vfio: false });
        assert_eq!(machine.pci_function(nic()).unwrap().unwrap().driver, None);
        let driver = made_up.with_kernel("bnxt_en", || machine.attach(nic())).unwrap();
        assert_eq!(driver, "bnxt_en");
    }

    #[test]
    fn behind_an_iommu_and_without_vfio_the_function_stays_where_it_is() {
        let made_up = MadeUp::new();
        made_up.function(NIC, 0x1760, Some("bnxt_en"), Some("6"));
        let machine = made_up.machine();
        let error = machine.detach(nic()).unwrap_err();
        assert!(matches!(error, DriverError::NoVfio { .. }), "{error}");
        assert!(error.to_string().contains("vfio-pci"), "{error}");
        let driver = machine.pci_function(nic()).unwrap().unwrap().driver;
        assert_eq!(driver.as_deref(), Some("bnxt_en"));

        // An IOMMU that translates nothing is none.
        let group = made_up.path("sys/kernel/iommu_groups/6");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("type"), "identity\n").unwrap();
        let detached = made_up.with_kernel("bnxt_en", || machine.detach(nic())).unwrap();
        assert!(!detached.through_vfio);
        let function = machine.pci_function(nic()).unwrap().unwrap();
        assert_eq!(machine.pci_access(&function).unwrap(), Access::Physical);
    }

    #[test]
    fn other_functions_that_are_driven_are_named_and_nothing_changes() {
        let made_up = MadeUp::new();
        made_up
            .function(NIC, 0x1760, Some("bnxt_en"), None)
            .function("0000:c1:00.1", 0x1760, Some("bnxt_en"), None)
            .function("0000:c1:00.2", 0x1760, None, None)
            .function("0000:c2:00.0", 0x1760, Some("bnxt_en"), None);
        let error = made_up.machine().detach(nic()).unwrap_err();
        let DriverError::Siblings { others, .. } = &error else { panic!("{error}") };
        assert_eq!(others, &[(BusAddress::parse("0000:c1:00.1").unwrap(), "bnxt_en".into())]);
        assert!(error.to_string().contains("bnxt_en has 0000:c1:00.1"), "{error}");
        let driver = made_up.machine().pci_function(nic()).unwrap().unwrap().driver;
        assert_eq!(driver.as_deref(), Some("bnxt_en"));
    }

    #[test]
    fn a_function_that_a_process_holds_is_refused_both_ways() {
        let made_up = MadeUp::new();
        made_up.function(NIC, 0x1760, Some("bnxt_en"), None);
        let machine = made_up.machine();
        let held = machine.hold_pci_function(nic()).unwrap();
        for error in [machine.detach(nic()).unwrap_err(), machine.attach(nic()).unwrap_err()] {
            assert!(matches!(error, DriverError::Hold(HoldError::Held { .. })), "{error}");
        }
        drop(held);
    }

    #[test]
    fn a_function_that_is_not_there_is_named() {
        let error = MadeUp::new().machine().detach(nic()).unwrap_err();
        assert_eq!(error.to_string(), "there is no PCI function 0000:c1:00.0");
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let made_up = MadeUp::new();
        made_up.function(NIC, 0x1760, Some("bnxt_en"), None);
        fs::remove_file(made_up.path("sys/bus/pci/drivers/bnxt_en/unbind")).unwrap();
        let error = made_up.machine().detach(nic()).unwrap_err().to_string();
        assert!(error.contains("cannot write to") && error.contains("bnxt_en/unbind"), "{error}");
    }
}

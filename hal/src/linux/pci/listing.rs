//! Which PCI functions there are.

use super::super::machine::{FileError, Machine, is_absent, list};
use crate::pci::{BusAddress, Identity};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A PCI function, as the machine lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFunction {
    /// Where it is.
    pub address: BusAddress,
    /// What it is.
    pub identity: Identity,
    /// The kernel driver that has it.
    pub driver: Option<String>,
    /// Its IOMMU group: there is none where the machine has no IOMMU, or does not use it.
    pub iommu_group: Option<String>,
}

impl Machine {
    /// The PCI functions of the machine that are of kind `identity`, in bus order, whichever driver has
    /// each. None where the machine lists no PCI functions. Changes nothing on the machine.
    pub fn pci_functions(&self, identity: Identity) -> Result<Vec<ListedFunction>, FileError> {
        let mut functions = self.all_pci_functions()?;
        functions.retain(|function| function.identity == identity);
        Ok(functions)
    }

    /// All PCI functions of the machine, in bus order.
    pub fn all_pci_functions(&self) -> Result<Vec<ListedFunction>, FileError> {
        let mut functions = Vec::new();
        for name in list(&self.path("sys/bus/pci/devices"))? {
            let Some(address) = BusAddress::parse(&name) else { continue };
            // A function that was taken away while it was looked at is none.
            if let Some(function) = self.pci_function(address)? {
                functions.push(function);
            }
        }
        functions.sort_by_key(|function| function.address);
        Ok(functions)
    }

    /// The PCI function at `address`, if there is one.
    pub fn pci_function(&self, address: BusAddress) -> Result<Option<ListedFunction>, FileError> {
        let (Some(vendor), Some(device)) =
            (self.pci_number(address, "vendor")?, self.pci_number(address, "device")?)
        else {
            return Ok(None);
        };
        Ok(Some(ListedFunction {
            address,
            identity: Identity { vendor, device },
            driver: self.pci_link(address, "driver")?,
            iommu_group: self.pci_link(address, "iommu_group")?,
        }))
    }

    /// The directory of the PCI function at `address`.
    pub(super) fn pci_path(&self, address: BusAddress) -> PathBuf {
        self.path("sys/bus/pci/devices").join(address.to_string())
    }

    /// A number of 16 bits in a file of the function's, such as `0x14e4`.
    fn pci_number(&self, address: BusAddress, file: &str) -> Result<Option<u16>, FileError> {
        let path = self.pci_path(address).join(file);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(reason) => return Err(FileError { action: "read", path, reason }),
        };
        let digits = text.trim_end().trim_start_matches("0x");
        u16::from_str_radix(digits, 16).map(Some).map_err(|error| {
            let reason = io::Error::new(io::ErrorKind::InvalidData, error);
            FileError { action: "read a number from", path, reason }
        })
    }

    /// What a link of the function's leads to: the last part of its path.
    pub(super) fn pci_link(
        &self,
        address: BusAddress,
        link: &str,
    ) -> Result<Option<String>, FileError> {
        let path = self.pci_path(address).join(link);
        match fs::read_link(&path) {
            Ok(target) => Ok(target.file_name().map(|name| name.to_string_lossy().into())),
            Err(error) if is_absent(&error) => Ok(None),
            Err(reason) => Err(FileError { action: "read the link", path, reason }),
        }
    }
}

#[cfg(test)]
pub(super) mod made_up {
    //! A made-up machine with PCI functions.

    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    /// A made-up machine, gone when dropped.
    pub struct MadeUp(pub tempfile::TempDir);

    impl MadeUp {
        pub fn new() -> Self {
            MadeUp(tempfile::tempdir().unwrap())
        }

        pub fn machine(&self) -> Machine {
            Machine::under(self.0.path())
        }

        pub fn path(&self, relative: &str) -> PathBuf {
            self.0.path().join(relative)
        }

        /// Adds a driver.
        pub fn driver(&self, name: &str) -> &Self {
            let directory = self.path("sys/bus/pci/drivers").join(name);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("bind"), "").unwrap();
            fs::write(directory.join("unbind"), "").unwrap();
            fs::write(self.path("sys/bus/pci/drivers_probe"), "").unwrap();
            self
        }

        /// Adds a function.
        pub fn function(
            &self,
            address: &str,
            device: u16,
            driver: Option<&str>,
            group: Option<&str>,
        ) -> &Self {
            let directory = self.path("sys/bus/pci/devices").join(address);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("vendor"), "0x14e4\n").unwrap();
            fs::write(directory.join("device"), alloc::format!("{device:#06x}\n")).unwrap();
            fs::write(directory.join("config"), [0; 256]).unwrap();
            fs::write(directory.join("driver_override"), "(null)\n").unwrap();
            if let Some(driver) = driver {
                self.driver(driver);
                symlink(Path::new("../../drivers").join(driver), directory.join("driver")).unwrap();
            }
            if let Some(group) = group {
                let target = Path::new("../../../kernel/iommu_groups").join(group);
                symlink(target, directory.join("iommu_group")).unwrap();
            }
            self
        }

        pub fn text(&self, address: &str, file: &str) -> String {
            let path = self.path("sys/bus/pci/devices").join(address).join(file);
            fs::read_to_string(path).unwrap()
        }

        /// Does what a kernel does about what is written to `bind`, `unbind` and `drivers_probe`,
        /// while `run` runs. `natural` is the driver that takes functions with no override.
        pub fn with_kernel<T>(&self, natural: &str, run: impl FnOnce() -> T) -> T {
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Acquire) {
                        self.kernel(natural);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                let result = run();
                ended.store(true, Ordering::Release);
                result
            })
        }

        fn kernel(&self, natural: &str) {
            let drivers = self.path("sys/bus/pci/drivers");
            for driver in list(&drivers).unwrap() {
                if let Some(address) = taken(&drivers.join(&driver).join("unbind")) {
                    let _ = fs::remove_file(self.device(&address).join("driver"));
                }
                if let Some(address) = taken(&drivers.join(&driver).join("bind")) {
                    self.bind(&address, &driver);
                }
            }
            if let Some(address) = taken(&self.path("sys/bus/pci/drivers_probe")) {
                let forced = fs::read_to_string(self.device(&address).join("driver_override"));
                match forced.unwrap().trim() {
                    "" | "(null)" => self.bind(&address, natural),
                    driver => self.bind(&address, driver),
                }
            }
        }

        fn device(&self, address: &str) -> PathBuf {
            self.path("sys/bus/pci/devices").join(address)
        }

        fn bind(&self, address: &str, driver: &str) {
            if self.path("sys/bus/pci/drivers").join(driver).exists() {
                let target = Path::new("../../drivers").join(driver);
                let _ = symlink(target, self.device(address).join("driver"));
            }
        }
    }

    /// What was written to a file, which is then empty again.
    fn taken(path: &Path) -> Option<String> {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.is_empty() {
            return None;
        }
        fs::write(path, "").unwrap();
        Some(text.trim().into())
    }
}

#[cfg(test)]
mod tests {
    use super::made_up::MadeUp;
    use super::*;

    const KIND: Identity = Identity { vendor: 0x14e4, device: 0x1760 };

    #[test]
    fn functions_are_those_of_the_kind_in_bus_order_whichever_driver_has_them() {
        let made_up = MadeUp::new();
        made_up
            .function("0000:c1:00.1", 0x1760, Some("vfio-pci"), Some("7"))
            .function("0000:02:00.0", 0x1760, None, None)
            .function("0000:c1:00.0", 0x1760, Some("bnxt_en"), Some("6"))
            .function("0000:01:00.0", 0x1750, Some("bnxt_en"), None);
        let found = made_up.machine().pci_functions(KIND).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.address.to_string(), it.driver.as_deref(), it.iommu_group.as_deref()))
            .collect();
        let expected = [
            ("0000:02:00.0".to_string(), None, None),
            ("0000:c1:00.0".to_string(), Some("bnxt_en"), Some("6")),
            ("0000:c1:00.1".to_string(), Some("vfio-pci"), Some("7")),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_machine_that_lists_no_pci_functions_has_none() {
        assert!(MadeUp::new().machine().pci_functions(KIND).unwrap().is_empty());
    }

    #[test]
    fn a_listing_that_cannot_be_read_is_an_error_that_names_it() {
        let made_up = MadeUp::new();
        fs::create_dir_all(made_up.path("sys/bus/pci")).unwrap();
        fs::write(made_up.path("sys/bus/pci/devices"), "a file").unwrap();
        let error = made_up.machine().pci_functions(KIND).unwrap_err().to_string();
        assert!(error.contains("cannot list") && error.contains("pci/devices"), "{error}");
        let made_up = MadeUp::new();
        made_up.function("0000:01:00.0", 0x1760, None, None);
        fs::write(made_up.path("sys/bus/pci/devices/0000:01:00.0/vendor"), "0xzz\n").unwrap();
        let error = made_up.machine().pci_functions(KIND).unwrap_err().to_string();
        assert!(error.contains("0000:01:00.0/vendor"), "{error}");
    }
}

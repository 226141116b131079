//! `doorbell detach` and `doorbell attach`: which driver has the function of a NIC.

use crate::arguments::FunctionOptions;
use crate::failure::Failure;
use doorbell::bnxt;
use doorbell::error::Error;
use doorbell_hal::linux::Machine;
use doorbell_hal::linux::pci::{Detached, VFIO_DRIVER};
use doorbell_hal::pci::BusAddress;
use std::io::{self, Write};

/// Takes a function from its kernel driver.
pub fn detach(options: &FunctionOptions) -> Result<(), Failure> {
    detach_on(&Machine::this(), &options.function, &mut io::stdout().lock())
}

/// Gives a function back to its kernel driver.
pub fn attach(options: &FunctionOptions) -> Result<(), Failure> {
    attach_on(&Machine::this(), &options.function, &mut io::stdout().lock())
}

/// The index of the NIC that `function` names, and where it is.
fn find(machine: &Machine, function: &str) -> Result<(usize, BusAddress), Failure> {
    let buses = bnxt::buses(machine)?;
    let index = match (bnxt::index(function), BusAddress::parse(function)) {
        (Some(index), _) => Some(index),
        (None, Some(address)) => buses.iter().position(|bus| *bus == address),
        (None, None) => {
            return Err(Failure::Usage(format!(
                "\"{function}\" names no function: BNXT, BNXT:1 and so on do, or an address such as \
                 0000:01:00.0"
            )));
        }
    };
    let found = index.and_then(|index| Some((index, *buses.get(index)?)));
    found.ok_or_else(|| Failure::Nic(Error::NoDevice { device: function.to_owned() }))
}

fn detach_on(machine: &Machine, function: &str, out: &mut impl Write) -> Result<(), Failure> {
    let (index, address) = find(machine, function)?;
    let name = bnxt::name(index);
    let Detached { from, through_vfio } = bnxt::detach(machine, index)?;
    let was = match from.as_deref() {
        Some(VFIO_DRIVER) if through_vfio => " as before".to_owned(),
        Some(driver) => format!("; {driver} had it"),
        None => String::new(),
    };
    let now = if through_vfio { VFIO_DRIVER } else { "no driver" };
    writeln!(out, "{name} ({address}) is with {now}{was}")?;
    writeln!(out, "To use it: doorbell pingpong --device {name}")?;
    writeln!(out, "To give it back: doorbell attach {name}")?;
    Ok(())
}

fn attach_on(machine: &Machine, function: &str, out: &mut impl Write) -> Result<(), Failure> {
    let (index, address) = find(machine, function)?;
    let driver = bnxt::attach(machine, index)?;
    writeln!(out, "{} ({address}) is with {driver}", bnxt::name(index))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const NIC: &str = "0000:c1:00.0";
    const OTHER: &str = "0000:c1:00.1";

    /// A made-up machine, whose functions are with bnxt_en, each in a group of its own.
    struct MadeUp(tempfile::TempDir);

    impl MadeUp {
        fn new(functions: &[&str], drivers: &[&str]) -> Self {
            let made_up = MadeUp(tempfile::tempdir().unwrap());
            for driver in drivers {
                let directory = made_up.drivers().join(driver);
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("bind"), "").unwrap();
                fs::write(directory.join("unbind"), "").unwrap();
            }
            fs::write(made_up.drivers().with_file_name("drivers_probe"), "").unwrap();
            for address in functions {
                let directory = made_up.function(address);
                fs::create_dir_all(&directory).unwrap();
                fs::write(directory.join("vendor"), "0x14e4\n").unwrap();
                fs::write(directory.join("device"), "0x1760\n").unwrap();
                fs::write(directory.join("config"), [0; 256]).unwrap();
                fs::write(directory.join("driver_override"), "(null)\n").unwrap();
                symlink(
                    format!("../../../kernel/iommu_groups/{address}"),
                    directory.join("iommu_group"),
                )
                .unwrap();
                made_up.bind(address, "bnxt_en");
            }
            made_up
        }

        fn machine(&self) -> Machine {
            Machine::under(self.0.path())
        }

        fn drivers(&self) -> PathBuf {
            self.0.path().join("sys/bus/pci/drivers")
        }

        fn function(&self, address: &str) -> PathBuf {
            self.0.path().join("sys/bus/pci/devices").join(address)
        }

        fn bind(&self, address: &str, driver: &str) {
            let target = Path::new("../../drivers").join(driver);
            symlink(target, self.function(address).join("driver")).unwrap();
        }

        fn driver(&self, address: &str) -> Option<String> {
            let link = fs::read_link(self.function(address).join("driver")).ok()?;
            Some(link.file_name().unwrap().to_string_lossy().into_owned())
        }

        /// Runs `run`, and does what a kernel does about what it writes meanwhile.
        fn run(
            &self,
            run: impl FnOnce(&Machine, &mut Vec<u8>) -> Result<(), Failure>,
        ) -> Result<String, String> {
            let ended = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !ended.load(Ordering::Acquire) {
                        self.kernel();
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                let mut out = Vec::new();
                let ran = run(&self.machine(), &mut out);
                ended.store(true, Ordering::Release);
                ran.map(|()| String::from_utf8(out).unwrap()).map_err(|error| error.to_string())
            })
        }

        fn kernel(&self) {
            let taken = |path: PathBuf| {
                let text = fs::read_to_string(&path).unwrap_or_default();
                (!text.is_empty()).then(|| {
                    fs::write(&path, "").unwrap();
                    text.trim().to_owned()
                })
            };
            for driver in ["bnxt_en", VFIO_DRIVER] {
                if let Some(address) = taken(self.drivers().join(driver).join("unbind")) {
                    fs::remove_file(self.function(&address).join("driver")).unwrap();
                }
                if let Some(address) = taken(self.drivers().join(driver).join("bind")) {
                    self.bind(&address, driver);
                }
            }
            if let Some(address) = taken(self.drivers().with_file_name("drivers_probe")) {
                self.bind(&address, "bnxt_en");
            }
        }
    }

    #[test]
    fn a_nic_is_taken_from_its_driver_and_given_back_by_name_or_address() {
        let made_up = MadeUp::new(&[NIC, OTHER], &["bnxt_en", VFIO_DRIVER]);
        for (function, address) in [("BNXT", NIC), ("BNXT:1", OTHER), (OTHER, OTHER)] {
            let out = made_up.run(|machine, out| detach_on(machine, function, out)).unwrap();
            let first = out.lines().next().unwrap();
            assert!(
                first.ends_with(&format!("({address}) is with vfio-pci; bnxt_en had it")),
                "{out}"
            );
            assert_eq!(made_up.driver(address).as_deref(), Some(VFIO_DRIVER));
            let again = made_up.run(|machine, out| detach_on(machine, function, out)).unwrap();
            assert!(again.contains("is with vfio-pci as before"), "{again}");

            let out = made_up.run(|machine, out| attach_on(machine, function, out)).unwrap();
            assert!(out.ends_with(&format!("({address}) is with bnxt_en\n")), "{out}");
            assert_eq!(made_up.driver(address).as_deref(), Some("bnxt_en"));
        }
    }

    #[test]
    fn a_nic_that_a_process_holds_stays_where_it_is() {
        let made_up = MadeUp::new(&[NIC], &["bnxt_en", VFIO_DRIVER]);
        let _held = made_up.machine().hold_pci_function(BusAddress::parse(NIC).unwrap()).unwrap();
        for error in [
            made_up.run(|machine, out| detach_on(machine, "BNXT", out)).unwrap_err(),
            made_up.run(|machine, out| attach_on(machine, "BNXT", out)).unwrap_err(),
        ] {
            assert_eq!(error, format!("a process holds PCI function {NIC}"));
        }
        assert_eq!(made_up.driver(NIC).as_deref(), Some("bnxt_en"));
    }

    #[test]
    fn without_vfio_behind_an_iommu_a_nic_stays_where_it_is() {
        let made_up = MadeUp::new(&[NIC], &["bnxt_en"]);
        let error = made_up.run(|machine, out| detach_on(machine, "BNXT", out)).unwrap_err();
        assert!(error.contains(NIC) && error.contains("load that module"), "{error}");
        assert_eq!(made_up.driver(NIC).as_deref(), Some("bnxt_en"));
    }

    #[test]
    fn what_is_no_nic_is_refused_by_name() {
        let made_up = MadeUp::new(&[NIC], &["bnxt_en"]);
        for function in ["BNXT:1", "0000:00:02.0"] {
            let error = made_up.run(|machine, out| detach_on(machine, function, out)).unwrap_err();
            assert_eq!(error, format!("there is no RDMA device {function}"));
        }
        for function in ["mlx5_0", "", "c1:00.0"] {
            let error = made_up.run(|machine, out| attach_on(machine, function, out)).unwrap_err();
            assert!(error.contains("names no function") && error.contains(function), "{error}");
        }
    }
}

//! `doorbell devices`: the NICs of this machine, and the virtual one.

use crate::arguments::DevicesOptions;
use crate::failure::Failure;
use crate::family::Facts;
use crate::nics::{self, VIRTUAL, VIRTUAL_NETXTREME};
use crate::units;
use doorbell::error::Error;
use doorbell::{bnxt, mlx5};
use doorbell_hal::linux::Machine;
use doorbell_hal::linux::pci::{Access, ListedFunction};
use doorbell_model::network::{Seen, seen};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::Ipv6Addr;

/// Runs the command.
pub fn run(options: &DevicesOptions) -> Result<(), Failure> {
    let machine = Machine::this();
    let (mut list, failed) = List::of(&machine);
    let counted = if options.counters { list.count(&machine) } else { Ok(()) };
    let failed = failed.and(counted);
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer_pretty(&mut out, &list).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        list.print(&mut out)?;
    }
    failed
}

/// The NICs of a machine, sorted by name, and then the virtual one.
#[derive(Serialize)]
struct List {
    devices: Vec<Device>,
    /// Whether all of the machine's NICs are there.
    complete: bool,
    /// The virtual NICs that processes of this user have open, where counters were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    open: Option<Vec<Open>>,
}

/// Virtual NICs of another process.
#[derive(Serialize)]
struct Open {
    name: String,
    process: u32,
    counters: BTreeMap<String, u64>,
}

/// A NIC.
#[derive(Debug, Serialize)]
struct Device {
    name: String,
    /// Whether it is a model that runs in the program that opens it.
    #[serde(rename = "virtual")]
    is_virtual: bool,
    #[serde(flatten)]
    opened: Opened,
    /// What the kernel has counted at its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    counters: Option<BTreeMap<String, u64>>,
}

/// What opening a NIC says about it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Opened {
    Port(Port),
    Function(Function),
    Refused { error: String },
}

/// A function that a process can take: it is not opened to be listed, as that would reset it.
#[derive(Debug, Serialize)]
struct Function {
    /// Where it is.
    bus: String,
    /// The kernel driver that has it.
    driver: Option<String>,
    /// How it would be opened, or why it would not.
    #[serde(skip)]
    access: Result<Access, String>,
}

/// Port 1 of a NIC, and what the NIC can.
#[derive(Debug, Serialize)]
struct Port {
    link_layer: String,
    /// The most bytes that a packet carries.
    mtu: u32,
    gid: Ipv6Addr,
    /// The most bytes that a message has.
    max_message: u32,
    /// The most of a send queue: 64-byte slots, or requests of one piece.
    max_sends: u32,
    #[serde(skip)]
    sends_are: &'static str,
    /// The most receives of a receive queue.
    max_receives: u32,
    /// The most entries of a completion queue.
    max_completions: u32,
}

impl Device {
    fn new(name: &str, is_virtual: bool, nic: Result<impl Facts, Failure>) -> Self {
        let opened = match nic {
            Ok(nic) => Opened::Port(Port {
                link_layer: nic.link().to_string(),
                mtu: nic.mtu().bytes(),
                gid: nic.gid().into(),
                max_message: nic.max_message(),
                max_sends: nic.max_sends(),
                sends_are: nic.sends_are(),
                max_receives: nic.max_receives(),
                max_completions: nic.max_completions(),
            }),
            Err(failure) => Opened::Refused { error: failure.to_string() },
        };
        Device { name: name.into(), is_virtual, opened, counters: None }
    }
}

impl List {
    /// What `machine` has; and why its own NICs cannot be listed, if so.
    fn of(machine: &Machine) -> (Self, Result<(), Failure>) {
        let (names, failed) = match mlx5::names(machine) {
            Ok(names) => (names, Ok(())),
            Err(error) => (Vec::new(), Err(error.into())),
        };
        let mut devices: Vec<_> = names
            .iter()
            .map(|name| Device::new(name, false, nics::open_real(machine, name)))
            .collect();
        let failed = match Self::functions(machine) {
            Ok(functions) => {
                devices.extend(functions);
                failed
            }
            Err(error) => failed.and(Err(error.into())),
        };
        devices.push(Device::new(VIRTUAL, true, nics::open_virtual()));
        devices.push(Device::new(VIRTUAL_NETXTREME, true, nics::open_virtual_netxtreme()));
        (List { devices, complete: failed.is_ok(), open: None }, failed)
    }

    /// Reads what the NICs of `machine` have counted, and the virtual ones that are open somewhere.
    fn count(&mut self, machine: &Machine) -> Result<(), Failure> {
        let of_the_kernel = |device: &&mut Device| {
            !device.is_virtual && !matches!(device.opened, Opened::Function(_))
        };
        for device in self.devices.iter_mut().filter(of_the_kernel) {
            let counters = machine.rdma_counters(&device.name).map_err(Error::from)?;
            device.counters = Some(counters.into_iter().collect());
        }
        let open = |Seen { name, process, counters }| Open {
            name,
            process,
            counters: counters.into_iter().collect(),
        };
        self.open = Some(seen()?.into_iter().map(open).collect());
        Ok(())
    }

    /// The BCM57608s of `machine`.
    fn functions(machine: &Machine) -> Result<Vec<Device>, Error> {
        let functions = machine.pci_functions(bnxt::IDENTITY)?.into_iter().enumerate();
        let device = |(index, function): (_, ListedFunction)| Device {
            name: bnxt::name(index),
            is_virtual: false,
            opened: Opened::Function(Function {
                bus: function.address.to_string(),
                access: machine.pci_access(&function).map_err(|error| error.to_string()),
                driver: function.driver,
            }),
            counters: None,
        };
        Ok(functions.map(device).collect())
    }

    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        if self.complete && self.devices.iter().all(|device| device.is_virtual) {
            writeln!(out, "There is no RDMA NIC in this machine that doorbell drives.")?;
            writeln!(
                out,
                "(It has no device that the kernel's mlx5_core driver holds, and no BCM57608.)"
            )?;
            writeln!(out, "\nVirtual NICs are available, which need no hardware:\n")?;
        }
        for device in &self.devices {
            let is_virtual = device.is_virtual;
            let note = if is_virtual { " (virtual: a model in the program itself)" } else { "" };
            writeln!(out, "{}{note}", device.name)?;
            match &device.opened {
                Opened::Port(port) => port.print(out)?,
                Opened::Function(Function { bus, driver, access }) => {
                    row(out, "PCI function", bus)?;
                    row(out, "driver", driver.as_deref().unwrap_or("none"))?;
                    match access {
                        Ok(Access::Vfio) => row(out, "can be opened", "through vfio-pci")?,
                        Ok(Access::Physical) => row(out, "can be opened", "physically")?,
                        Err(why) => row(out, "cannot be opened", why)?,
                    }
                }
                Opened::Refused { error } => row(out, "cannot be opened", error)?,
            }
            if let Some(counters) = &device.counters {
                print_counters(out, counters)?;
            }
            writeln!(out)?;
        }
        for Open { name, process, counters } in self.open.iter().flatten() {
            writeln!(out, "{name} (process {process})")?;
            print_counters(out, counters)?;
            writeln!(out)?;
        }
        writeln!(out, "To run one: doorbell pingpong --device {VIRTUAL}")
    }
}

/// Those that are not 0.
fn print_counters(out: &mut impl Write, counters: &BTreeMap<String, u64>) -> io::Result<()> {
    for (name, value) in counters.iter().filter(|(_, value)| **value != 0) {
        row(out, name, &value.to_string())?;
    }
    Ok(())
}

impl Port {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        row(out, "port", "1, active")?;
        row(out, "link layer", &self.link_layer)?;
        row(out, "MTU", &format!("{} bytes", self.mtu))?;
        row(out, "GID", &self.gid.to_string())?;
        let most = u64::from(self.max_message);
        let bytes = units::bytes(most);
        row(out, "longest message", &format!("{bytes} ({} bytes)", units::grouped(most)))?;
        let grouped = |count: u32| units::grouped(count.into());
        let (sends, are) = (grouped(self.max_sends), self.sends_are);
        row(out, "send queue", &format!("up to {sends} {are}"))?;
        row(out, "receive queue", &format!("up to {} receives", grouped(self.max_receives)))?;
        let completions = grouped(self.max_completions);
        row(out, "completion queue", &format!("up to {completions} entries"))
    }
}

fn row(out: &mut impl Write, what: &str, value: &str) -> io::Result<()> {
    writeln!(out, "    {what:18} {value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn text(machine: &Machine) -> String {
        let mut out = Vec::new();
        List::of(machine).0.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_machine_without_an_rdma_nic_has_the_virtual_one() {
        let root = tempfile::tempdir().unwrap();
        let text = text(&Machine::under(root.path()));
        assert!(text.starts_with("There is no RDMA NIC in this machine"), "{text}");
        assert!(text.contains(VIRTUAL), "{text}");
    }

    #[test]
    fn a_nic_that_cannot_be_opened_is_listed_with_the_reason() {
        let root = tempfile::tempdir().unwrap();
        let function = root.path().join("sys/class/infiniband/mlx5_3/device");
        fs::create_dir_all(&function).unwrap();
        symlink("../../../bus/pci/drivers/mlx5_core", function.join("driver")).unwrap();
        let machine = Machine::under(root.path());

        let text = text(&machine);
        assert!(!text.contains("no RDMA NIC"), "{text}");
        let (_, after) = text.split_once("mlx5_3\n    cannot be opened").unwrap();
        assert!(after.lines().next().unwrap().contains("no verbs file belongs to"), "{text}");

        let document = serde_json::to_value(List::of(&machine).0).unwrap();
        let devices = &document["devices"];
        assert_eq!(devices[0]["name"], "mlx5_3");
        assert_eq!(devices[0]["virtual"], false);
        assert!(devices[0]["error"].as_str().unwrap().contains("no verbs file"), "{devices}");
        assert_eq!(devices[1]["name"], VIRTUAL);
    }

    #[test]
    fn a_bcm57608_is_listed_with_its_driver_and_how_it_can_be_opened() {
        let root = tempfile::tempdir().unwrap();
        for (address, driver, group) in [
            ("0000:01:00.0", Some("bnxt_en"), Some("1")),
            ("0000:02:00.0", Some("vfio-pci"), Some("2")),
            ("0000:03:00.0", None, Some("3")),
            ("0000:04:00.0", None, None),
        ] {
            let function = root.path().join("sys/bus/pci/devices").join(address);
            fs::create_dir_all(&function).unwrap();
            fs::write(function.join("vendor"), "0x14e4\n").unwrap();
            fs::write(function.join("device"), "0x1760\n").unwrap();
            for (link, target) in [("driver", driver), ("iommu_group", group)] {
                let Some(target) = target else { continue };
                symlink(format!("../{target}"), function.join(link)).unwrap();
            }
        }
        let text = text(&Machine::under(root.path()));
        let of = |name: &str| {
            let (_, after) = text.split_once(&format!("{name}\n")).unwrap();
            after.split("\n\n").next().unwrap().to_owned()
        };
        for (name, line) in [
            (
                "BNXT",
                "cannot be opened   PCI function 0000:01:00.0 is with bnxt_en: detach it first",
            ),
            ("BNXT:1", "can be opened      through vfio-pci"),
            ("BNXT:2", "cannot be opened   PCI function 0000:03:00.0 is behind an IOMMU"),
            ("BNXT:3", "can be opened      physically"),
        ] {
            assert!(of(name).contains(line), "{name}: {text}");
        }
    }

    #[test]
    fn counters_are_those_of_the_port_and_of_the_nic_in_text_without_zeroes() {
        let root = tempfile::tempdir().unwrap();
        let nic = root.path().join("sys/class/infiniband/mlx5_3");
        for (file, value) in [
            ("counters/port_rcv_packets", "12\n"),
            ("counters/port_rcv_errors", "0\n"),
            ("counters/unknown", "N/A (no PMA)\n"),
            ("hw_counters/out_of_sequence", "7\n"),
        ] {
            let path = nic.join("ports/1").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        fs::create_dir_all(nic.join("device")).unwrap();
        symlink("../../../bus/pci/drivers/mlx5_core", nic.join("device/driver")).unwrap();
        let machine = Machine::under(root.path());
        let mut list = List::of(&machine).0;
        list.count(&machine).unwrap();
        let document = serde_json::to_value(&list).unwrap();
        let expected = serde_json::json!({
            "out_of_sequence": 7, "port_rcv_errors": 0, "port_rcv_packets": 12
        });
        assert_eq!(document["devices"][0]["counters"], expected);
        let mut out = Vec::new();
        list.print(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("out_of_sequence    7\n"), "{text}");
        assert!(!text.contains("port_rcv_errors"), "{text}");
    }

    #[test]
    fn where_the_nics_cannot_be_listed_the_virtual_one_is_and_the_reason_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/class")).unwrap();
        fs::write(root.path().join("sys/class/infiniband"), "a file").unwrap();
        let machine = Machine::under(root.path());
        let (list, failed) = List::of(&machine);
        assert!(failed.unwrap_err().to_string().contains("sys/class/infiniband"));
        assert!(!list.complete);
        assert_eq!(list.devices.len(), 2);
        let text = text(&machine);
        assert!(text.starts_with(VIRTUAL), "{text}");
        assert!(!text.contains("no RDMA NIC"), "{text}");
    }
}

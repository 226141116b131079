//! The NICs of a machine: how they are found and taken.

use doorbell::bnxt::{self, buses, count, detach, name};
use doorbell::error::Error;
use doorbell_hal::linux::Machine;
use doorbell_hal::linux::pci::{HoldError, TakeError};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A made-up machine with functions: their addresses, device numbers and drivers.
fn machine(functions: &[(&str, u16, Option<&str>)]) -> (tempfile::TempDir, Machine) {
    let root = tempfile::tempdir().unwrap();
    for (address, device, driver) in functions {
        let directory = root.path().join("sys/bus/pci/devices").join(address);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("vendor"), "0x14e4\n").unwrap();
        fs::write(directory.join("device"), format!("{device:#06x}\n")).unwrap();
        fs::write(directory.join("config"), [0; 256]).unwrap();
        if let Some(driver) = driver {
            symlink(Path::new("../../drivers").join(driver), directory.join("driver")).unwrap();
        }
    }
    let machine = Machine::under(root.path());
    (root, machine)
}

#[test]
fn nics_are_the_bcm57608s_in_bus_order_whichever_driver_has_each() {
    let (_root, machine) = machine(&[
        ("0000:c1:00.1", 0x1760, None),
        ("0000:c1:00.0", 0x1760, Some("bnxt_en")),
        ("0000:02:00.0", 0x1760, Some("vfio-pci")),
        ("0000:01:00.0", 0x1750, Some("bnxt_en")),
    ]);
    let found: Vec<_> = buses(&machine).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(found, ["0000:02:00.0", "0000:c1:00.0", "0000:c1:00.1"]);
    assert_eq!(count(&machine).unwrap(), 3);
    assert_eq!([name(0), name(1), name(2)], ["BNXT", "BNXT:1", "BNXT:2"]);
}

#[test]
fn a_machine_that_lists_no_pci_functions_has_no_nics_and_that_is_no_error() {
    let (_root, machine) = machine(&[]);
    assert!(buses(&machine).unwrap().is_empty());
    assert_eq!(count(&machine).unwrap(), 0);
}

#[test]
fn pci_functions_that_cannot_be_listed_are_an_error_of_every_call() {
    let (root, machine) = machine(&[]);
    fs::create_dir_all(root.path().join("sys/bus/pci")).unwrap();
    fs::write(root.path().join("sys/bus/pci/devices"), "a file").unwrap();
    let errors = [
        buses(&machine).unwrap_err(),
        count(&machine).unwrap_err(),
        bnxt::open(&machine, 0).unwrap_err(),
        detach(&machine, 0).unwrap_err(),
        bnxt::attach(&machine, 0).unwrap_err(),
    ];
    for error in errors {
        assert!(error.to_string().contains("cannot list"), "{error}");
    }
}

#[test]
fn a_nic_that_the_machine_does_not_have_is_named() {
    let (_root, machine) = machine(&[("0000:c1:00.0", 0x1760, None)]);
    let error = bnxt::open(&machine, 1).unwrap_err();
    assert_eq!(error.to_string(), "there is no RDMA device BNXT:1");
    assert!(matches!(detach(&machine, 7).unwrap_err(), Error::NoDevice { .. }));
}

#[test]
fn a_nic_that_its_kernel_driver_has_must_be_detached_first() {
    let (_root, machine) = machine(&[("0000:c1:00.0", 0x1760, Some("bnxt_en"))]);
    let error = bnxt::open(&machine, 0).unwrap_err();
    assert!(matches!(error, Error::Take(TakeError::Driven { .. })), "{error}");
    assert!(error.to_string().contains("0000:c1:00.0 is with bnxt_en"), "{error}");
}

#[test]
fn a_nic_that_a_process_holds_is_not_opened() {
    let (_root, machine) = machine(&[("0000:c1:00.0", 0x1760, None)]);
    let _held = machine.hold_pci_function(buses(&machine).unwrap()[0]).unwrap();
    let error = bnxt::open(&machine, 0).unwrap_err();
    let held = matches!(error, Error::Take(TakeError::Hold(HoldError::Held { .. })));
    assert!(held, "{error}");
}

#[test]
fn a_nic_behind_an_iommu_is_taken_through_vfio_only() {
    let (root, machine) = machine(&[("0000:c1:00.0", 0x1760, None)]);
    let group = root.path().join("sys/bus/pci/devices/0000:c1:00.0/iommu_group");
    symlink("../../../kernel/iommu_groups/5", group).unwrap();
    let error = bnxt::open(&machine, 0).unwrap_err();
    assert!(matches!(error, Error::Take(TakeError::Translated { .. })), "{error}");
}

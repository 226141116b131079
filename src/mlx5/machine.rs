//! The ConnectX NICs of a Linux machine.

use super::Nic;
use crate::error::Error;
use alloc::string::String;
use alloc::vec::Vec;
use doorbell_hal::linux::{Machine, VerbsFile};

/// The kernel driver that holds a ConnectX function.
const DRIVER: &str = "mlx5_core";

/// The names of the RDMA devices of `machine` whose function mlx5_core holds, sorted as strings (so
/// `mlx5_10` comes before `mlx5_2`). None where `/sys/class/infiniband` does not exist. Changes
/// nothing on the machine.
pub fn names(machine: &Machine) -> Result<Vec<String>, Error> {
    Ok(machine.rdma_devices(DRIVER)?)
}

/// Opens port 1 of the NIC `name` of `machine`. Needs read and write access to its verbs file, and
/// no other privilege.
///
/// Fails if there is no such device, if mlx5_core does not hold its function, if it has no verbs
/// file or the file cannot be opened, and as [`Nic::open`] does.
pub fn open(machine: &Machine, name: &str) -> Result<Nic<VerbsFile>, Error> {
    if !machine.has_rdma_device(name) {
        return Err(Error::NoDevice { device: name.into() });
    }
    let driver = machine.driver_of(name)?;
    if driver.as_deref() != Some(DRIVER) {
        return Err(Error::OtherDriver { device: name.into(), driver, expected: DRIVER });
    }
    Nic::open(machine.open_verbs(name)?)
}

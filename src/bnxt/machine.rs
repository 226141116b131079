//! The BCM57608 NICs of a Linux machine.

use super::{IDENTITY, Nic};
use crate::error::Error;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use doorbell_hal::linux::Machine;
use doorbell_hal::linux::pci::{Detached, OwnedFunction};
use doorbell_hal::pci::BusAddress;

/// What the first NIC of a machine is called; the others are `BNXT:1`, `BNXT:2` and so on.
const NAME: &str = "BNXT";

/// Where the NICs of `machine` are, in bus order, whichever driver has each. None where the machine
/// lists no PCI functions. Changes nothing on the machine.
pub fn buses(machine: &Machine) -> Result<Vec<BusAddress>, Error> {
    let functions = machine.pci_functions(IDENTITY)?;
    Ok(functions.iter().map(|function| function.address).collect())
}

/// The number of [`buses`].
pub fn count(machine: &Machine) -> Result<usize, Error> {
    Ok(buses(machine)?.len())
}

/// The name of NIC `index` of a machine: `BNXT`, `BNXT:1`, `BNXT:2` and so on.
pub fn name(index: usize) -> String {
    match index {
        0 => NAME.into(),
        _ => format!("{NAME}:{index}"),
    }
}

/// The index of the NIC with this [`name`], if it is one.
pub fn index(name: &str) -> Option<usize> {
    let rest = name.strip_prefix(NAME)?;
    let index = match rest.strip_prefix(':') {
        None => rest.is_empty().then_some(0),
        Some(digits) => digits.parse().ok().filter(|index| *index != 0),
    }?;
    (self::name(index) == name).then_some(index)
}

/// Holds NIC `index` of `machine` and boots it: see [`Nic::open`]. The NIC must be detached
/// ([`detach`]), and the process needs what
/// [`Machine::take_pci_function`](doorbell_hal::linux::Machine::take_pci_function) needs. The process
/// holds the NIC until it is closed, or until it ends.
pub fn open(machine: &Machine, index: usize) -> Result<Nic<OwnedFunction>, Error> {
    Nic::open(machine.take_pci_function(bus(machine, index)?)?)
}

/// Takes NIC `index` of `machine` from its kernel driver: its network interfaces and RDMA devices go
/// until it is [`attach`]ed again, or the machine starts anew. See
/// [`Machine::detach`](doorbell_hal::linux::Machine::detach).
pub fn detach(machine: &Machine, index: usize) -> Result<Detached, Error> {
    Ok(machine.detach(bus(machine, index)?)?)
}

/// Gives NIC `index` of `machine` back to its kernel driver, and answers which that is. See
/// [`Machine::attach`](doorbell_hal::linux::Machine::attach).
pub fn attach(machine: &Machine, index: usize) -> Result<String, Error> {
    Ok(machine.attach(bus(machine, index)?)?)
}

/// Where NIC `index` is.
fn bus(machine: &Machine, index: usize) -> Result<BusAddress, Error> {
    let found = buses(machine)?.get(index).copied();
    found.ok_or_else(|| Error::NoDevice { device: name(index).to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bnxt_and_numbers_from_one_on() {
        for (position, text) in ["BNXT", "BNXT:1", "BNXT:2"].into_iter().enumerate() {
            assert_eq!((name(position).as_str(), index(text)), (text, Some(position)));
        }
        for text in ["", "bnxt", "BNXT:", "BNXT:0", "BNXT:01", "BNXT:+1", "BNXT1", "BNXT:1 "] {
            assert_eq!(index(text), None, "{text:?}");
        }
    }
}

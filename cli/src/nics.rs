//! Which NIC a name means: one of this machine, or the virtual one.

use crate::failure::Failure;
use doorbell::mlx5::{self, Nic};
use doorbell_hal::linux::{Machine, VerbsFile};
use doorbell_model::VirtualConnectx;

/// The name of the virtual ConnectX.
pub const VIRTUAL: &str = "virtual-connectx";

/// Opens a virtual ConnectX, which runs in this process for as long as it is open.
pub fn open_virtual() -> Result<Nic<VirtualConnectx>, Failure> {
    Ok(Nic::open(VirtualConnectx::builder().name(VIRTUAL).open())?)
}

/// Opens a NIC of `machine`.
pub fn open_real(machine: &Machine, name: &str) -> Result<Nic<VerbsFile>, Failure> {
    Ok(mlx5::open(machine, name)?)
}

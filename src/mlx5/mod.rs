//! ConnectX NICs (mlx5).

pub mod abi;
mod call;
mod context;
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
mod machine;
mod nic;
mod region;
pub mod ring;

#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
pub use machine::{names, open};
pub use nic::Nic;
pub use region::{DeviceRegion, Order, Region, access};

//! Virtual RDMA NICs: what doorbell's drivers, and others', are tested on.
//!
//! One engine lies under every family of NICs:
//!
//! | module | holds |
//! |---|---|
//! | [`memory`] | host memory as a device sees it, memory keys, and copies made as DMA makes them |
//! | [`rc`] | the reliable-connected transport: packets, PSNs, acknowledgements, retries |
//! | [`fabric`] | what carries packets between ports: loopback, and layers that lose and log them |
//! | [`network`] | NICs on one fabric, of any family, and how time passes for them |
//!
//! A family adds its rings, its objects and its firmware:
//!
//! | module | holds |
//! |---|---|
//! | [`connectx`] | the virtual ConnectX: rings, registers, queue pairs, completion queues, events |
//! | [`netxtreme`] | the virtual BCM57608: rings, doorbells, both firmware channels, its backing store |
//! | [`pci`] | virtual NICs as PCI functions, served to a virtual machine |
//! | [`kernel`] | the verbs file of a virtual ConnectX, answered in this process: [`VirtualConnectx`] |

pub mod connectx;
pub mod fabric;
pub mod kernel;
pub mod memory;
pub mod network;
pub mod netxtreme;
mod numbers;
pub mod pci;
pub mod rc;
pub mod roce;

pub use kernel::{VirtualConnectx, WatchedConnectx};
pub use pci::{VirtualNetxtreme, WatchedNetxtreme};

//! ConnectX NICs (mlx5).

pub mod abi;
mod call;
mod context;
mod cq;
mod event;
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
mod machine;
mod nic;
mod qp;
mod region;
pub mod ring;

pub use cq::{CompletionQueue, Notified, Polled};
pub use event::{CompletionQueueId, EVENTS, Event, EventChannel, PortEvent, QueuePairEvent};
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
pub use machine::{names, open};
pub use nic::Nic;
pub use qp::{Connection, PeerRights, QueuePair, QueuePairBuilder, ReceiveQueue, SendQueue};
pub use region::{DeviceRegion, Order, Region, access};

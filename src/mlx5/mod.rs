//! ConnectX NICs (mlx5), driven through the kernel's user verbs file.
//!
//! A NIC is one open port of one ConnectX function. The kernel's mlx5_ib driver owns it and shares
//! it with other programs: it makes the NIC's objects when asked to, and destroys those of a process
//! when the process's verbs file closes, at the latest when the process dies. Rings, doorbell
//! records and registers are mapped into the process, so that data moves without the kernel.
//!
//! | to | see |
//! |---|---|
//! | find and open a NIC | [`names`], [`open`], [`Nic`] |
//! | share memory with it, and with peers | [`Region`], [`DeviceRegion`], [`access`], [`Order`] |
//! | see what has completed | [`CompletionQueue`] |
//! | connect to a peer | [`QueuePairBuilder`], [`QueuePair`], [`PeerRights`], [`Connection`] |
//! | post | [`SendQueue`], [`ReceiveQueue`] |
//! | sleep until something happens | [`EventChannel`], [`Event`] |
//!
//! Needs Linux 5.10 or later, for calls that list global identifiers; ConnectX-4 or later, for completions
//! that carry a user index. It was never run on a ConnectX made of silicon: it runs on the virtual
//! one.
//!
//! References: InfiniBand Architecture Specification, volume 1, and its annex A17 (RoCE v2);
//! rdma-core's `mlx5dv.h` and Linux's uapi headers for the formats ([`abi`]).

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

pub use cq::CompletionQueue;
pub use event::EventChannel;
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
pub use machine::{names, open};
pub use nic::Nic;
pub use qp::{QueuePair, QueuePairBuilder, Queues, ReceiveQueue, SendQueue};
pub use region::{DeviceRegion, Region};

pub use crate::access::{self, Order};
pub use crate::connection::{Connection, PeerRights};
pub use crate::event::{
    CompletionQueueId, EVENTS, Event, Notified, Polled, PortEvent, QueuePairEvent,
};

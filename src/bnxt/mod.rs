//! BCM57608 NICs (bnxt), driven over PCI with no kernel driver at all.
//!
//! A NIC is one PCI function that this process owns: it resets it, gives its firmware the memory that
//! it works in, starts its RoCE engine, and rings its doorbells. Nobody else uses the function
//! meanwhile, and the kernel has no part in what it does.
//!
//! | to | see |
//! |---|---|
//! | find, take and open a NIC | [`buses`], [`detach`], [`open`], [`Nic`] |
//! | share memory with it, and with peers | [`Region`], [`DeviceRegion`], [`access`] |
//! | see what has completed | [`CompletionQueue`], and without polling [`EventChannel`] |
//! | connect to a peer | [`QueuePairBuilder`], [`QueuePair`], [`PeerRights`], [`Connection`] |
//! | post | [`SendQueue`], [`ReceiveQueue`] |
//!
//! Work requests, completions, states and endpoints are those of every family.
//!
//! # The fabric
//!
//! A NIC is known by its Ethernet address and by the IPv4 address `10.x.y.z`, whose `x.y.z` are the last
//! three bytes of its Ethernet address. A queue pair sends to its peer's Ethernet address directly, so
//! two NICs reach each other on one Ethernet segment, with packets of up to 4096 bytes. The library
//! trusts the fabric: a packet with the right queue pair and sequence number lands in memory.
//!
//! It was never run on a BCM57608 made of silicon: it runs on the virtual one.
//!
//! References: InfiniBand Architecture Specification, volume 1, and its annex A17 (RoCE v2); Linux'
//! `drivers/net/ethernet/broadcom/bnxt` and `drivers/infiniband/hw/bnxt_re`, and rdma-core's
//! `providers/bnxt_re`, for the formats ([`abi`]) and for what firmware expects.

pub mod abi;
mod backing;
mod boot;
mod commands;
mod context;
mod cq;
mod event;
mod firmware;
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
mod machine;
mod memory;
mod nic;
mod pacing;
mod qp;
mod region;
pub mod ring;

pub use boot::IDENTITY;
pub use cq::CompletionQueue;
pub use event::EventChannel;
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
pub use machine::{attach, buses, count, detach, index, name, open};
pub use nic::Nic;
pub use qp::{QueuePair, QueuePairBuilder, Queues, ReceiveQueue, SendQueue};
pub use region::{DeviceRegion, Region};

pub use crate::access;
pub use crate::connection::{Connection, PeerRights};
pub use crate::event::{CompletionQueueId, EVENTS, Event, Notified, Polled};

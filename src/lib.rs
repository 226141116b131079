//! Drives RDMA NICs with plain stores: no libibverbs, no system call, no lock and no allocation
//! between an engine's data and the NIC's doorbell register.
//!
//! ```
//! use doorbell::completion::Completion;
//! use doorbell::mlx5::{Connection, Nic, Order, PeerRights, access};
//! use doorbell::wr;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A NIC made of a thread of this process. One of silicon is
//! // `mlx5::open(&Machine::this(), "mlx5_0")?`, and nothing else changes.
//! let nic = Nic::open(doorbell_model::VirtualConnectx::builder().open())?;
//!
//! // Memory, a completion queue, and two queue pairs that will be each other's peer.
//! let source = nic.region::<access::Local>(4096, Order::InOrder)?;
//! let target = nic.region::<access::RemoteWrite>(4096, Order::InOrder)?;
//! let mut completions = nic.completion_queue(256)?;
//! let here = nic.queue_pair(&completions).create()?;
//! let there = nic.queue_pair(&completions).create()?;
//!
//! // Endpoints, and what regions are called by peers, travel by any means as plain bytes.
//! let (to_here, to_there) = (here.endpoint(), there.endpoint());
//! let mut here = here.connect(PeerRights::NONE, &to_there, &Connection::default())?;
//! let _there = there.connect(PeerRights::WRITE, &to_here, &Connection::default())?;
//!
//! source.write_at(0, b"hello")?;
//! let request = wr::write(source.slice(0..5)?, target.remote())?;
//! here.sends().post(request.id(7).signaled())?;
//! here.sends().ring();
//! let sent = loop {
//!     if let Some(completion) = completions.poll() {
//!         break completion;
//!     }
//! };
//! assert!(matches!(sent, Completion::Sent(sent) if sent.id == 7));
//!
//! let mut bytes = [0; 5];
//! target.read_at(0, &mut bytes)?;
//! assert_eq!(&bytes, b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! # Where things are
//!
//! | module | holds |
//! |---|---|
//! | [`wr`] | work requests: what to do, as plain values whose type is the operation |
//! | [`completion`] | completions: what became of them |
//! | [`access`] | what peers may do with a region, as types |
//! | [`connection`] | how a queue pair behaves towards its peer, and what it lets it do |
//! | [`state`] | the states of a queue pair, as types |
//! | [`endpoint`] | what a peer needs to know to connect |
//! | [`timer`] | the timers of a connection, with their times in their names |
//! | [`family`] | what an engine needs of a NIC, whatever its family, as traits |
//! | [`error`] | why a call of the control path failed |
//! | [`mlx5`] | ConnectX NICs: [`Nic`](mlx5::Nic), [`Region`](mlx5::Region), [`CompletionQueue`](mlx5::CompletionQueue), [`QueuePair`](mlx5::QueuePair), [`EventChannel`](mlx5::EventChannel) |
//! | [`bnxt`] | BCM57608 NICs |
//! | [`ring`] | what the rings of all families share, for those who look inside |
//!
//! # What the types promise
//!
//! - A request can only be posted to a queue pair that is ready to send, a receive to one that is at
//!   least initialized, nothing to one that was destroyed: [`QueuePair`](mlx5::QueuePair) moves from
//!   state to state by value.
//! - One thread at a time posts to a queue, and polls a completion queue: they take `&mut self`, and
//!   none of them can be cloned. Poster and poller may be different threads.
//! - Only a region that was registered for peers has a [`remote`](mlx5::Region::remote) name.
//! - An object's parents outlive it, and dropping an object takes it back from the NIC before its
//!   memory is freed.
//! - A refused call gives back what it took ([`Refused`](error::Refused)), and leaves nothing behind.
//!
//! # Without `std`
//!
//! With `default-features = false` the crate needs `core` and `alloc`, and whoever embeds it brings
//! its own [`Uverbs`](doorbell_hal::uverbs::Uverbs).
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

#[macro_use]
mod layout;

pub mod access;
pub mod bnxt;
pub mod completion;
pub mod connection;
pub mod endpoint;
pub mod error;
pub mod event;
pub mod family;
pub mod mlx5;
pub mod ring;
pub mod state;
pub mod timer;
pub mod wr;

/// The example in the README, kept working.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

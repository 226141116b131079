//! A virtual ConnectX: its objects, its rings and its registers.
//!
//! This is the NIC alone. It knows no kernel and no pointers: rings, records and registered memory
//! are device addresses, reached through an [`AddressSpace`](crate::memory::AddressSpace); objects
//! are made by plain calls with contexts; what it reports goes to an [`EventSink`]. The verbs file
//! of this process ([`crate::kernel`]) drives it so, and firmware commands of a PCI function can.
//!
//! | file | holds |
//! |---|---|
//! | `register` | the doorbell registers, and the bus that stores travel on |
//! | `network`, `world` | NICs that share a fabric, and how time passes for them: free or stepped |
//! | `nic` | [`Connectx`]: its objects, its port, its death |
//! | `doorbells` | what stores to the registers do |
//! | `traffic` | whose turn it is: packets in, bursts out, deadlines, flushes |
//! | `queue_pair` | contexts, states and changes of queue pairs |
//! | `send`, `receive` | the rings of a queue pair, read entry by entry |
//! | `shared_receive` | queues of receives that queue pairs share |
//! | `host` | the NIC as a connection sees it: entries in, completions and packets out |
//! | `registration` | entries that change memory keys |
//! | `datagram`, `unreliable` | services without acknowledgements |
//! | `ethernet`, `frame` | queues of Ethernet frames, and the frames |
//! | `completion_queue` | completion rings, overruns, arming |
//! | `entry` | work entries, decoded |
//! | `ring` | the memory of a ring |
//! | `counters` | what happened |
//! | [`firmware`] | objects made by commands, as a PCI function's driver gives them |

mod capabilities;
mod completion_queue;
mod counters;
mod datagram;
mod doorbells;
pub mod entry;
mod ethernet;
mod event;
pub mod firmware;
mod frame;
mod host;
mod network;
mod nic;
mod queue_pair;
mod receive;
mod refused;
mod register;
mod registration;
mod ring;
mod send;
mod shared_receive;
mod traffic;
mod unreliable;
mod world;

pub use capabilities::Capabilities;
pub use completion_queue::CompletionQueueContext;
pub use counters::{Counters, Log};
pub use datagram::SourceIdentifier;
pub use ethernet::{FrameQueueContext, FrameQueueState};
pub use event::{Event, EventSink};
pub use network::{Network, NetworkBuilder, NicId, Step};
pub use nic::{Connectx, Death};
pub use queue_pair::{Path, QueuePairAttributes, QueuePairContext, Service, State, Transition};
pub use refused::Refused;
pub use register::{Store, UAR_PAGE, VirtualPage, VirtualRegister};
pub use registration::Changeable;
pub use ring::Ring;
pub use shared_receive::{ExtendedReceives, SharedReceiveContext};

pub(crate) use register::Mapping;

//! A virtual ConnectX: its objects, its rings and its registers.
//!
//! This is the NIC alone. It knows no kernel and no pointers: rings, records and registered memory
//! are device addresses, reached through an [`AddressSpace`](crate::memory::AddressSpace); objects
//! are made by plain calls with contexts; what it reports goes to an [`EventSink`]. The verbs file
//! of this process ([`crate::kernel`]) drives it so, and firmware commands of a PCI function can.
//!
//! | file | holds |
//! |---|---|
//! | `nic` | [`Connectx`]: what it has, its port, its death |
//! | `objects` | objects made, changed and destroyed |
//! | `doorbells` | what stores to the registers do |
//! | `traffic` | whose turn it is: packets in, bursts out, deadlines, flushes |
//! | `queue_pair` | contexts, states and changes of queue pairs |
//! | `send`, `receive` | the rings of a queue pair, read entry by entry |
//! | `shared_receive` | queues of receives that queue pairs share |
//! | `host` | the NIC as a connection sees it: entries in, completions and packets out |
//! | `registration` | entries that change memory keys |
//! | `datagram`, `unreliable` | services without acknowledgements |
//! | `ethernet` | queues of Ethernet frames |
//! | `steering`, `headers` | flow tables: which queues a frame goes to, by its headers |
//! | `completion_queue` | completion rings, overruns, arming |
//! | `entry` | work entries, decoded |
//! | `counters` | what happened |
//! | `statistics` | the same as drivers ask for it |
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
mod headers;
mod host;
mod nic;
mod objects;
mod queue_pair;
mod receive;
mod refused;
mod registration;
mod send;
mod shared_receive;
mod statistics;
mod steering;
mod traffic;
mod unreliable;

pub use crate::memory::Ring;
pub use crate::network::{
    Log, Network, NetworkBuilder, NicId, Step, Store, UAR_PAGE, VirtualPage, VirtualRegister,
};
pub use capabilities::Capabilities;
pub use completion_queue::CompletionQueueContext;
pub use counters::Counters;
pub use datagram::SourceIdentifier;
pub use ethernet::{FrameQueueContext, FrameQueueState};
pub use event::{Event, EventSink};
pub use nic::{Connectx, Death};
pub use queue_pair::{Path, QueuePairAttributes, QueuePairContext, Service, State, Transition};
pub use refused::Refused;
pub use registration::Changeable;
pub use shared_receive::{ExtendedReceives, SharedReceiveContext};
pub use statistics::{Carried, QueueStatistics, Statistics, Traffic};
pub use steering::{Destination, FlowCounter, FlowEntry, Interface, Steering};

//! A virtual BCM57608: a whole PCI function, with both of its firmware channels.
//!
//! Nothing of it is known to any kernel. Its driver, Linux's `bnxt_en` and `bnxt_re` or doorbell's own,
//! owns the function: it resets it, lends it memory, and makes every object by commands.
//!
//! | module | holds |
//! |---|---|
//! | `nic` | [`Netxtreme`]: the function and everything in it |
//! | `registers` | BAR 0: the firmware's mailbox, the command queue's mailbox, its health |
//! | `doorbell` | BAR 2: what stores to doorbell pages do |
//! | `firmware` | the firmware channel (HWRM): what each request does |
//! | `context` | the backing store: memory lent to the firmware, used and looked after |
//! | `ring` | rings of the firmware channel: notifications, and Ethernet's |
//! | `notification` | notification rings and interrupts |
//! | `ethernet` | frames out and in |
//! | `page_table` | page tables, as every ring, region and context has one |
//! | `command_queue` | the RoCE engine's commands, and its event ring |
//! | `roce` | what each command does, and the objects that they make |
//! | `completion_queue` | completion rings of RoCE: toggles, arming, overruns |
//! | `queue_pair`, `entry`, `host` | queue pairs, their rings, and the transport's view of them |
//! | `datagram` | queue pairs of datagrams |
//! | `statistics` | what was moved, in memory of the driver's |
//! | `record` | entries as they are fetched |
//! | `refusal` | refusals that a test plans |

mod command_queue;
mod completion_queue;
mod context;
mod counters;
mod datagram;
mod doorbell;
mod entry;
mod ethernet;
mod firmware;
mod host;
mod identity;
mod nic;
mod notification;
mod page_table;
mod queue_pair;
mod record;
mod refusal;
mod registers;
mod ring;
mod roce;
mod statistics;

pub use counters::Counters;
pub use identity::{Bounds, Identity};
pub use nic::Netxtreme;
pub use record::{Fetched, FetchedFrom};
pub use registers::{BAR_BYTES, Bar};

//! The rings: everything that runs between an engine's data and the NIC's doorbell register, and
//! back. No system call, no lock, no allocation, no atomic read-modify-write.
//!
//! | module | holds | touched by |
//! |---|---|---|
//! | [`send`] | [`SendRing`]: posting requests, ringing the doorbell | the poster |
//! | [`entry`] | each operation as a work entry | the poster |
//! | [`receive`] | [`ReceiveRing`]: posting receives | the poster |
//! | [`completion`] | [`CompletionRing`]: polling, arming | the poller |
//! | [`outstanding`] | what poster and poller share of one queue pair: ids, and what completed last | both |
//! | [`committed`] | what may complete into a ring, and what queue pairs that are gone leave there | the poller looks at one flag; the control path |
//! | [`events`] | the count of events, which numbers the arms | the poller loads it; whoever reads events counts |
//! | [`table`] | how a completion finds its queue pair | the poller; the control path adds and removes |
//! | [`segment`] | ring memory as cells | whom the ordering words let |
//!
//! This module is public for the models in `loom-tests` and the benchmarks. Engines use the queues
//! in [`mlx5`](super), which own a ring's memory and keep the promises that its constructor asks
//! for.
//!
//! # Who may touch what
//!
//! A slot belongs to the poster until the doorbell record covers it, then to the NIC until it has
//! written the entry's completion, then to the poller until it has noted the completion,
//! then to the poster again. The ids beside the slots go the same round. Each hand-over is one store
//! of an ordering word and one load of it on the other side:
//!
//! | hand-over | stored by | loaded by |
//! |---|---|---|
//! | poster to NIC | [`SendRing::ring`], [`ReceiveRing::ring`]: the doorbell record, after `fence_before_publish` | the NIC, before it fetches the entry |
//! | NIC to poller | the NIC: the owner byte, last | [`CompletionRing::poll`]: the owner byte, then `fence_after_owner` |
//! | poller to poster | [`Outstanding::complete`]: which entry completed, released | [`Outstanding::completed`]: acquired, before the slot is written again |
//! | poller to NIC | [`CompletionRing::poll`]: the consumer record, released | the NIC, before it writes the slot again |

pub mod completion;
pub mod entry;
pub mod events;
pub mod outstanding;
pub mod receive;
pub mod segment;
pub mod send;

/// The queue pairs of a NIC by user index.
pub mod table {
    /// The queue pairs of a NIC by user index.
    pub type Table = crate::ring::table::Table<super::InFlight>;
}

pub use crate::ring::committed::{self, Committed};
pub use completion::CompletionRing;
pub use events::EventCount;
pub use outstanding::{InFlight, Outstanding};
pub use receive::ReceiveRing;
pub use send::SendRing;

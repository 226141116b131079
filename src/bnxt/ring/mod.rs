//! The rings: everything that runs between an engine's data and the NIC's doorbell register, and
//! back. No system call, no lock, no allocation, no atomic read-modify-write; but for queue pairs that
//! have failed.
//!
//! | module | holds | touched by |
//! |---|---|---|
//! | [`send`] | [`SendRing`]: posting requests, ringing the doorbell | the poster |
//! | [`entry`] | each operation as a work entry | the poster |
//! | [`receive`] | [`ReceiveRing`]: posting receives | the poster |
//! | [`completion`] | [`CompletionRing`]: polling, arming | the poller |
//! | [`arming`] | the toggle that an arm has to carry | whoever reads notifications, and the poller |
//! | [`outstanding`] | what poster and poller share of one queue pair: ids, how many were posted, how many completed | both |
//! | [`paced`] | the register, which takes as many doorbells as were granted | poster and poller, each its own |
//! | [`failures`] | the queue pairs that have failed, which pollers flush | the poller looks at one flag; the control path |
//! | [`slot`] | completion ring memory as cells | whom the toggle lets |
//!
//! This module is public for the models in `loom-tests` and the benchmarks. Engines use the queues in
//! [`bnxt`](super), which own a ring's memory and keep the promises that its constructor asks for.
//!
//! # Who may touch what
//!
//! As for [`mlx5`](crate::mlx5::ring), with other ordering words: a doorbell is the register store itself,
//! which follows a fence; the owner byte is the byte with a completion's toggle; and poster and poller
//! tell each other how many entries were posted and completed ([`Outstanding`]).

pub mod arming;
pub mod completion;
pub mod entry;
pub mod failures;
pub mod outstanding;
pub mod paced;
pub mod receive;
pub mod send;
pub mod slot;
#[cfg(all(test, not(loom)))]
mod tests;

pub use arming::LastToggle;
pub use completion::CompletionRing;
pub use failures::Failures;
pub use outstanding::{InFlight, Outstanding};
pub use paced::PacedRegister;
pub use receive::ReceiveRing;
pub use send::SendRing;

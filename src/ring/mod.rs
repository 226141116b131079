//! What the rings of all families share.
//!
//! | module | holds |
//! |---|---|
//! | [`table`] | how a completion finds its queue pair |
//! | [`committed`] | what may complete into a ring, and what queue pairs that are gone leave there |
//! | [`segment`] | ring memory as cells |

pub mod committed;
pub mod segment;
pub mod table;

use crate::completion::Completion;

/// A completion ring, as [`Committed`](committed::Committed) polls it.
pub trait Completions {
    /// The next completion, if one has come.
    fn poll(&mut self) -> Option<Completion>;

    /// Whether no completion waits, not even a part of one that was polled.
    fn is_empty(&self) -> bool;
}

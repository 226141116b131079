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

/// Asserts that a completion's bytes in pieces, and the cells of its slot, are as many as its own, and
/// each where the completion has the field that it is read as.
macro_rules! same_place {
    ($pieces:ty, $slot:ty, $completion:ty: $($piece:ident = $field:ident),*) => {
        static_assertions::assert_eq_size!($pieces, $completion);
        #[cfg(not(loom))]
        static_assertions::assert_eq_size!($slot, $completion);
        $(
            static_assertions::const_assert_eq!(
                core::mem::offset_of!($pieces, $piece),
                core::mem::offset_of!($completion, $field)
            );
            #[cfg(not(loom))]
            static_assertions::const_assert_eq!(
                core::mem::offset_of!($slot, $piece),
                core::mem::offset_of!($completion, $field)
            );
        )*
    };
}
pub(crate) use same_place;

/// A completion ring, as [`Committed`](committed::Committed) polls it.
pub trait Completions {
    /// The next completion, if one has come.
    fn poll(&mut self) -> Option<Completion>;

    /// Whether no completion waits, not even a part of one that was polled.
    fn is_empty(&self) -> bool;
}

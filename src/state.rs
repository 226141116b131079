//! The states of a queue pair, as types.
//!
//! ```text
//! Reset --init--> Init --ready_to_receive--> Rtr --ready_to_send--> Rts
//!   ^                                                                |
//!   +------------- reset, once drained -- Errored <------ fail ------+
//! ```
//!
//! | state | receives | requests |
//! |---|---|---|
//! | [`Reset`] | | |
//! | [`Init`] | posted | |
//! | [`Rtr`] (ready to receive) | posted, completed | |
//! | [`Rts`] (ready to send) | posted, completed | posted, completed |
//! | [`Errored`] | flushed | flushed |
//!
//! InfiniBand Architecture Specification, volume 1, 10.3.1.

mod sealed {
    pub trait Sealed {}
}

/// A state of a queue pair.
pub trait State: sealed::Sealed + Send + Sync + 'static {}

/// A state in which receives can be posted.
pub trait CanReceive: State {}

macro_rules! states {
    ($($(#[$meta:meta])* $name:ident)*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name(());

            impl sealed::Sealed for $name {}
            impl State for $name {}
        )*
    };
}

states! {
    /// Made, and nothing else.
    Reset
    /// The peer's rights are set. Receives can be posted, and nothing arrives.
    Init
    /// Connected to a peer, whose requests arrive.
    Rtr
    /// Connected to a peer, both ways.
    Rts
    /// Failed, or taken down: whatever is outstanding is flushed, and completes as that.
    Errored
}

impl CanReceive for Init {}
impl CanReceive for Rtr {}
impl CanReceive for Rts {}

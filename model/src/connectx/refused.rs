//! Why a NIC does not make, change or destroy an object.

use super::{State, Transition};
use std::fmt;

/// Why a NIC does not make, change or destroy an object. The objects are as they were before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no more of this.
    Limit {
        /// What there is no more of.
        what: &'static str,
        /// How many there are.
        limit: u64,
    },
    /// No object has this number.
    Unknown {
        /// What kind of object.
        what: &'static str,
        /// The number.
        number: u32,
    },
    /// Other objects stand on this one.
    Busy {
        /// What kind of object.
        what: &'static str,
        /// Its number.
        number: u32,
    },
    /// A value that this NIC does not take.
    Parameter {
        /// Which value.
        what: &'static str,
        /// What it is.
        value: u64,
    },
    /// The queue pair's state does not allow this.
    State {
        /// The queue pair.
        pair: u32,
        /// The state that it is in.
        state: State,
        /// The change that was asked for.
        transition: Transition,
    },
    /// A change of state needs something that was never set.
    Missing {
        /// The queue pair.
        pair: u32,
        /// What is missing.
        what: &'static str,
    },
    /// The NIC failed, or is gone.
    Dead,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Refused::Limit { what, limit } => write!(f, "there are only {limit} {what}s"),
            Refused::Unknown { what, number } => write!(f, "there is no {what} {number:#x}"),
            Refused::Busy { what, number } => write!(f, "{what} {number:#x} is in use"),
            Refused::Parameter { what, value } => write!(f, "{what} cannot be {value:#x}"),
            Refused::State { pair, state, transition } => {
                write!(f, "queue pair {pair:#x} is in {state:?}: no {transition:?}")
            }
            Refused::Missing { pair, what } => {
                write!(f, "queue pair {pair:#x} was never told its {what}")
            }
            Refused::Dead => f.write_str("the NIC does not answer"),
        }
    }
}

impl std::error::Error for Refused {}

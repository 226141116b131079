//! How a command ended.

use crate::connectx::Refused;
use std::fmt;

/// The status of a command's answer (`MLX5_CMD_STAT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0x0,
    /// The firmware failed.
    Internal = 0x1,
    /// No such command.
    BadOperation = 0x2,
    /// A parameter is not supported or out of range.
    BadParameter = 0x3,
    /// The system is not enabled, or in the wrong state.
    BadSystemState = 0x4,
    /// No such object.
    BadResource = 0x5,
    /// The object is in use.
    Busy = 0x6,
    /// A limit would be exceeded.
    Limit = 0x8,
    /// The object is in the wrong state.
    BadResourceState = 0x9,
    /// An index is out of range.
    BadIndex = 0xa,
    /// There are no more.
    NoResources = 0xf,
    /// The queue pair's state does not allow it.
    BadQueuePairState = 0x10,
    /// The command is too short.
    BadInputLength = 0x50,
    /// The answer has too little room.
    BadOutputLength = 0x51,
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the driver is told.
    pub status: Status,
    /// What a person is told.
    pub reason: String,
}

/// How a command ended.
pub(super) type Done<T = ()> = Result<T, Refusal>;

impl Refusal {
    pub(super) fn new(status: Status, reason: impl fmt::Display) -> Self {
        Refusal { status, reason: reason.to_string() }
    }

    /// A value that is not supported.
    pub(super) fn parameter(what: &str, value: impl fmt::LowerHex) -> Self {
        Refusal::new(Status::BadParameter, format_args!("{what} cannot be {value:#x}"))
    }

    /// No object has this number.
    pub(super) fn unknown(what: &str, number: u32) -> Self {
        Refusal::new(Status::BadResource, format_args!("there is no {what} {number:#x}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.status, self.reason)
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let status = match refused {
            Refused::Limit { .. } => Status::NoResources,
            Refused::Unknown { .. } => Status::BadResource,
            Refused::Busy { .. } => Status::Busy,
            Refused::Parameter { .. } | Refused::Missing { .. } => Status::BadParameter,
            Refused::State { .. } => Status::BadQueuePairState,
            Refused::Dead => Status::Internal,
        };
        Refusal::new(status, refused)
    }
}

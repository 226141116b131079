//! Why a command failed, and what a person can do about it.

use doorbell::completion::{Failed, Status, Unrecognized};
use doorbell::error::{Error, Refused};
use doorbell::mlx5::Event;
use doorbell::wr::{OutOfBounds, PostError, SizeError};
use doorbell_hal::Errno;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line asks for what cannot be.
    Usage(String),
    /// A call of the driver.
    Nic(Error),
    /// A message is longer than the NIC can.
    TooLong { device: String, size: u64, most: u64 },
    /// A request that was not posted.
    Post(PostError),
    /// A request that cannot be made.
    Size(SizeError),
    /// Bytes that are not in a region.
    Bounds(OutOfBounds),
    /// A request or receive that failed.
    Completion(Failed),
    /// A completion that nobody knows.
    Unrecognized(Unrecognized),
    /// A NIC that reports trouble.
    Event(Event),
    /// Nothing came for too long.
    TimedOut { what: &'static str, after: Duration },
    /// A byte is not what was sent.
    Byte { at: u64, expected: u8, found: u8 },
    /// Something else is not as it must be.
    Wrong { what: &'static str, expected: String, found: String },
    /// A program that cannot be started.
    Start { program: String, error: io::Error },
    /// The library that programs are started with is not there.
    NoShim { beside: PathBuf },
    /// The process at the other end, or the way to it.
    Peer(String),
    /// An address that cannot be listened at, or that nobody answers at.
    Address { address: String, error: io::Error },
    /// Ctrl-C.
    Interrupted,
    /// The output cannot be written.
    Output(io::Error),
    /// A socket that a virtual machine was to reach a NIC at.
    Socket { path: std::path::PathBuf, why: String },
    /// A file that cannot be read, written or understood.
    File { path: PathBuf, why: String },
    /// What happened, and where.
    During { place: String, failure: Box<Failure> },
}

impl Failure {
    /// Says where it happened.
    pub fn during(self, place: impl FnOnce() -> String) -> Failure {
        match self {
            // These are nobody's fault.
            Failure::Interrupted | Failure::Output(_) => self,
            _ => Failure::During { place: place(), failure: Box::new(self) },
        }
    }

    /// What happened, wherever it was.
    pub fn cause(&self) -> &Failure {
        match self {
            Failure::During { failure, .. } => failure.cause(),
            _ => self,
        }
    }

    /// Whether the reader of the output went away.
    pub fn is_closed_output(&self) -> bool {
        matches!(self.cause(), Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// What a person can do about it, where that is known.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self.cause() {
            Failure::Usage(_) => "For more information, try '--help'.",
            Failure::Nic(Error::NoDevice { .. }) => {
                "`doorbell devices` lists the NICs of this machine. \
                 `--device virtual-connectx` needs none."
            }
            Failure::Nic(Error::File(error))
                if error.reason.kind() == io::ErrorKind::PermissionDenied =>
            {
                "A NIC's verbs file has to be readable and writable: ask for access to it, or run as \
                 root."
            }
            Failure::Nic(Error::Refused { call: "REG_MR", reason: Errno::ENOMEM, .. }) => {
                "Registered memory is locked: raise the limit of it (`ulimit -l`), or use a smaller \
                 --size."
            }
            Failure::Post(PostError::InlineTooLong { .. }) => {
                "Use a smaller --size, or leave --inline out."
            }
            Failure::TooLong { .. } => "Use a smaller --size.",
            Failure::Completion(Failed { status: Status::TransportRetryExceeded, .. }) => {
                "The NIC's port does not reach itself: is its address up (`doorbell devices` shows \
                 which it is), and may it send to itself?"
            }
            Failure::NoShim { .. } => {
                "Build it with `cargo build -p doorbell-shim`, with --release for a release build."
            }
            Failure::TimedOut { .. } => {
                "If the machine is only slow, allow more time with --timeout."
            }
            Failure::Byte { .. } | Failure::Wrong { .. } => {
                "This is an error of the NIC or of its driver. The same --seed sends the same bytes \
                 again."
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(what) => f.write_str(what),
            Failure::Nic(error) => error.fmt(f),
            Failure::TooLong { device, size, most } => write!(
                f,
                "a message of {size} bytes is longer than {device} can send, which is {most} bytes"
            ),
            Failure::Post(error) => error.fmt(f),
            Failure::Size(error) => error.fmt(f),
            Failure::Bounds(error) => error.fmt(f),
            Failure::Completion(failed) => failed.fmt(f),
            Failure::Unrecognized(unrecognized) => unrecognized.fmt(f),
            Failure::Event(event) => write!(f, "the NIC reports {event:?}"),
            Failure::TimedOut { what, after } => {
                write!(f, "no {what} in {} seconds", after.as_secs())
            }
            Failure::Byte { at, expected, found } => {
                write!(f, "byte {at} is {found:#04x}, and {expected:#04x} was sent")
            }
            Failure::Wrong { what, expected, found } => {
                write!(f, "{what} is {found}, and must be {expected}")
            }
            Failure::Socket { path, why } => write!(f, "{}: {why}", path.display()),
            Failure::File { path, why } => write!(f, "{}: {why}", path.display()),
            Failure::Start { program, error } => write!(f, "cannot start {program}: {error}"),
            Failure::NoShim { beside } => {
                write!(f, "there is no libdoorbell_shim.so in {}", beside.display())
            }
            Failure::Peer(what) => f.write_str(what),
            Failure::Address { address, error } => write!(f, "{address}: {error}"),
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::Output(error) => write!(f, "cannot write the output: {error}"),
            Failure::During { place, failure } => write!(f, "{place}: {failure}"),
        }
    }
}

macro_rules! from {
    ($($error:ty => $variant:ident)*) => {
        $(
            impl From<$error> for Failure {
                fn from(error: $error) -> Self {
                    Failure::$variant(error)
                }
            }
        )*
    };
}

from! {
    Error => Nic
    PostError => Post
    SizeError => Size
    OutOfBounds => Bounds
    io::Error => Output
}

impl<T> From<Refused<T>> for Failure {
    fn from(refused: Refused<T>) -> Self {
        Failure::Nic(refused.error)
    }
}

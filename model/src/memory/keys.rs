//! Memory keys: what a device lets a queue pair, or its peer, do with which bytes.
//!
//! A key is 32 bits: `index << 8 | variant` (IBTA vol. 1, 10.6.3.3; the low byte is the consumer's).
//! One key serves as both lkey and rkey, as on ConnectX and BCM57608.

use std::fmt;
use std::sync::Arc;

/// What a registration allows beyond reading by its own side, which is always allowed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Access {
    /// This side's work requests may write (receives, read responses, atomic results).
    pub local_write: bool,
    /// Peers may write.
    pub remote_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// Peers may do atomics.
    pub remote_atomic: bool,
}

impl Access {
    /// Every right.
    pub const ALL: Access =
        Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };

    /// From the bits of `enum ib_uverbs_access_flags` (`rdma/ib_user_ioctl_verbs.h`): local write
    /// 1, remote write 2, remote read 4, remote atomic 8. Other bits are not looked at.
    pub fn from_verbs(bits: u32) -> Self {
        Access {
            local_write: bits & 1 != 0,
            remote_write: bits & 2 != 0,
            remote_read: bits & 4 != 0,
            remote_atomic: bits & 8 != 0,
        }
    }

    /// Whether `right` is among these.
    pub fn allows(self, right: Right) -> bool {
        match right {
            Right::LocalRead => true,
            Right::LocalWrite => self.local_write,
            Right::RemoteWrite => self.remote_write,
            Right::RemoteRead => self.remote_read,
            Right::RemoteAtomic => self.remote_atomic,
        }
    }
}

/// What an access needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// This side reads.
    LocalRead,
    /// This side writes.
    LocalWrite,
    /// The peer writes.
    RemoteWrite,
    /// The peer reads.
    RemoteRead,
    /// The peer does an atomic.
    RemoteAtomic,
}

/// Memory that a key stands for.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The protection domain's number. A queue pair of another domain is refused.
    pub protection_domain: u32,
    /// What is allowed.
    pub access: Access,
    /// The first address that work requests and peers may name.
    pub start: u64,
    /// The bytes from there on. `start + length` may be 2^64.
    pub length: u64,
    /// Where the bytes lie.
    pub pages: Pages,
    /// Writes may land in any order (relaxed ordering).
    pub relaxed: bool,
    /// A peer may take the key away with a SEND with invalidate.
    pub remote_invalidate: bool,
}

/// Where a registration's bytes lie in the device's address space.
#[derive(Clone, Debug)]
pub enum Pages {
    /// The byte at address `a` of the registration is at device address
    /// `device_start + (a - start)`.
    Flat {
        /// The device address of the registration's first byte.
        device_start: u64,
    },
    /// Pages of `1 << log_size` bytes. The first one holds the registration's first byte, at the
    /// offset that `start` has in a page.
    List {
        /// The binary logarithm of a page's size in bytes.
        log_size: u8,
        /// The device address of each page's first byte.
        addresses: Arc<[u64]>,
    },
}

impl Pages {
    /// Device addresses are the registration's own addresses.
    pub fn identity(start: u64) -> Self {
        Pages::Flat { device_start: start }
    }
}

/// Why an access is refused, in the order in which hardware checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No registration has this index, or its variant byte differs, or it was invalidated.
    UnknownKey {
        /// The key.
        key: u32,
    },
    /// The registration belongs to another protection domain.
    ProtectionDomain {
        /// The key.
        key: u32,
        /// The queue pair's protection domain.
        queue_pair: u32,
        /// The registration's.
        registration: u32,
    },
    /// The registration does not allow this.
    Right {
        /// The key.
        key: u32,
        /// What was needed.
        right: Right,
    },
    /// The bytes are not all in the registration.
    Bounds {
        /// The key.
        key: u32,
        /// The first address.
        address: u64,
        /// The number of bytes.
        length: u64,
    },
    /// An atomic's address is not a multiple of 8.
    Misaligned {
        /// The address.
        address: u64,
    },
    /// A scatter/gather list holds fewer bytes than the message.
    ListTooShort {
        /// The bytes of the list.
        capacity: u64,
        /// The end of the access in bytes from the list's start.
        needed: u64,
    },
    /// The registration's pages have no memory behind them.
    Fault(super::Fault),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Refusal::UnknownKey { key } => write!(f, "no memory is registered under key {key:#x}"),
            Refusal::ProtectionDomain { key, queue_pair, registration } => write!(
                f,
                "key {key:#x} is of protection domain {registration}, the queue pair of {queue_pair}"
            ),
            Refusal::Right { key, right } => write!(f, "key {key:#x} does not allow {right:?}"),
            Refusal::Bounds { key, address, length } => {
                write!(f, "{length} bytes at {address:#x} are not all under key {key:#x}")
            }
            Refusal::Misaligned { address } => {
                write!(f, "an atomic's address {address:#x} is not a multiple of 8")
            }
            Refusal::ListTooShort { capacity, needed } => {
                write!(f, "a list of {capacity} bytes was asked for byte {needed}")
            }
            Refusal::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// Every index up to the table's bound is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoFreeKey {
    /// The bound.
    pub capacity: u32,
}

impl fmt::Display for NoFreeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {} memory keys are in use", self.capacity)
    }
}

impl std::error::Error for NoFreeKey {}

/// The keys of one device.
pub struct Keys {
    // index -> slot
}

impl Keys {
    /// No keys yet; at most `capacity` at once, with indexes from `first_index` on. The bound is at
    /// most 2^24 together with the first index.
    pub fn new(first_index: u32, capacity: u32) -> Self {
        todo!()
    }

    /// Hands out a key for `registration`: a free index, with `variant` as its low byte if given
    /// (drivers that choose it), else one that differs from the index's last.
    pub fn insert(
        &mut self,
        registration: Registration,
        variant: Option<u8>,
    ) -> Result<u32, NoFreeKey> {
        todo!()
    }

    /// The registration under `key`, if there is one that is valid.
    pub fn get(&self, key: u32) -> Option<&Registration> {
        todo!()
    }

    /// Takes `key`'s registration out and frees its index, also when it was invalidated. `None` if
    /// the key was not handed out.
    pub fn remove(&mut self, key: u32) -> Option<Registration> {
        todo!()
    }

    /// Makes `key` refuse every access from now on. Its index stays taken until [`remove`](Self::remove).
    ///
    /// `remote`: a peer asks (SEND with invalidate), which the registration must allow.
    pub fn invalidate(
        &mut self,
        key: u32,
        protection_domain: u32,
        remote: bool,
    ) -> Result<(), Refusal> {
        todo!()
    }

    /// Checks an access in hardware's order: key, protection domain, right, bounds. A zero-length
    /// access must not be asked for: it checks no key (IBTA vol. 1, 9.4.3 and 9.4.4).
    pub fn check(
        &self,
        key: u32,
        protection_domain: u32,
        right: Right,
        address: u64,
        length: u64,
    ) -> Result<&Registration, Refusal> {
        todo!()
    }

    /// How many keys are handed out.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

//! The verbs ioctl and its commands: what every RDMA driver of Linux shares.
//!
//! | module | holds |
//! |---|---|
//! | [`ioctl`] | the call itself: a header and its attributes |
//! | [`method`] | the methods, and the attributes of each |
//! | [`write`](mod@write) | the older commands, which one method invokes; their requests and answers |
//! | [`device`] | answers about the device |
//! | [`qp`] | requests, answers and numbers of queue pairs |
//! | [`port`] | answers and numbers of ports and global identifiers |
//!
//! From Linux's `rdma/rdma_user_ioctl_cmds.h`, `rdma/ib_user_ioctl_cmds.h`,
//! `rdma/ib_user_ioctl_verbs.h` and `rdma/ib_user_verbs.h`. In the host's byte order, but for the
//! fields that say otherwise. Fields have the headers' names.

pub mod device;
pub mod ioctl;
pub mod method;
pub mod port;
pub mod qp;
pub mod write;

use bitfield_struct::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// What may be done to a region, or through a queue pair (`enum ib_uverbs_access_flags`).
#[bitfield(u32)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct AccessFlags {
    /// The NIC may write it for this process.
    pub local_write: bool,
    /// Peers may write it.
    pub remote_write: bool,
    /// Peers may read it.
    pub remote_read: bool,
    /// Peers may do atomics in it.
    pub remote_atomic: bool,
    /// Memory windows may be bound in it.
    pub mw_bind: bool,
    /// Its addresses start at 0.
    pub zero_based: bool,
    /// Its pages are not pinned.
    pub on_demand: bool,
    /// Its pages are huge ones.
    pub hugetlb: bool,
    #[bits(12)]
    __: u16,
    /// Writes into it may land in any order.
    pub relaxed_ordering: bool,
    #[bits(11)]
    __: u16,
}

/// What the kernel supports (`enum ib_uverbs_core_support`).
#[bitfield(u64)]
#[derive(PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct CoreSupport {
    /// Access flags from [`AccessFlags::relaxed_ordering`] on, which a kernel or NIC that does not
    /// know them ignores. An older kernel refuses them.
    pub optional_mr_access: bool,
    #[bits(63)]
    __: u64,
}

//! What peers may do with a region, as types, and the order in which a NIC writes it. The same for every
//! NIC family.
//!
//! The region's own NIC may always read and write it for this process.

use crate::connection::PeerRights;

mod sealed {
    pub trait Sealed {}
}

/// What peers may do with a region.
pub trait Access: sealed::Sealed + Send + Sync + 'static {
    /// As a queue pair has it: both must allow an access.
    const RIGHTS: PeerRights;
}

/// Peers may do something with the region, so it has a name for them.
pub trait Remote: Access {}

macro_rules! kinds {
    ($($(#[$meta:meta])* $name:ident: $rights:expr;)*) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub struct $name(());

            impl sealed::Sealed for $name {}
            impl Access for $name {
                const RIGHTS: PeerRights = $rights;
            }
        )*
    };
}

kinds! {
    /// Nothing: only requests and receives of this process reach it.
    Local: PeerRights::NONE;
    /// Write.
    RemoteWrite: PeerRights::WRITE;
    /// Read.
    RemoteRead: PeerRights::READ;
    /// Write and read.
    RemoteReadWrite: PeerRights::WRITE.and(PeerRights::READ);
    /// Write, read, and do atomics.
    RemoteAtomic: PeerRights::WRITE.and(PeerRights::READ).and(PeerRights::ATOMIC);
}

impl Remote for RemoteWrite {}
impl Remote for RemoteRead {}
impl Remote for RemoteReadWrite {}
impl Remote for RemoteAtomic {}

/// The order in which the NIC's writes land in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As the NIC makes them: a byte written later is seen later. What polling memory needs.
    InOrder,
    /// Any, until the completion is there (`IBV_ACCESS_RELAXED_ORDERING`). Faster on some machines.
    Relaxed,
}

//! Accesses of queue pairs to memory: checked by key, then copied.

use super::{AddressSpace, Keys, Payload, Refusal, Right};
use smallvec::SmallVec;
use std::sync::Arc;

/// One entry of a scatter/gather list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The first byte's address, as the registration counts.
    pub address: u64,
    /// The bytes, 0 to 2^31.
    pub length: u32,
    /// The key.
    pub lkey: u32,
}

/// A scatter/gather list.
pub type List = SmallVec<[Entry; 4]>;

/// The memory of one device: where it is, and the keys to it.
pub struct Memory {
    /// The keys handed out.
    pub keys: Keys,
    space: Arc<dyn AddressSpace>,
}

impl Memory {
    /// A device's memory.
    pub fn new(space: Arc<dyn AddressSpace>, keys: Keys) -> Self {
        Memory { keys, space }
    }

    /// The address space, for what a device reaches without keys: rings and doorbell records.
    pub fn space(&self) -> &dyn AddressSpace {
        &*self.space
    }

    /// The `len` bytes at `offset` of `list`, checked for reading by this side.
    pub fn gather(
        &self,
        protection_domain: u32,
        list: &[Entry],
        offset: u64,
        len: usize,
    ) -> Result<Payload, Refusal> {
        todo!()
    }

    /// Copies `payload` to `offset` of `list`, checked for writing by this side.
    pub fn scatter(
        &self,
        protection_domain: u32,
        list: &[Entry],
        offset: u64,
        payload: &Payload,
    ) -> Result<(), Refusal> {
        todo!()
    }

    /// The `len` bytes at `address` of `key`, checked for reading by the peer.
    pub fn read_remote(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        len: usize,
    ) -> Result<Payload, Refusal> {
        todo!()
    }

    /// Copies `payload` to `address` of `key`, checked for writing by the peer.
    pub fn write_remote(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        payload: &Payload,
    ) -> Result<(), Refusal> {
        todo!()
    }

    /// The peer's fetch-and-add on the 8 bytes at `address` of `key`: what they were. The bytes are
    /// a number in this machine's byte order.
    pub fn fetch_add(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        add: u64,
    ) -> Result<u64, Refusal> {
        todo!()
    }

    /// The peer's compare-and-swap on the 8 bytes at `address` of `key`: what they were. The bytes
    /// are a number in this machine's byte order.
    pub fn compare_swap(
        &self,
        protection_domain: u32,
        key: u32,
        address: u64,
        compare: u64,
        swap: u64,
    ) -> Result<u64, Refusal> {
        todo!()
    }
}

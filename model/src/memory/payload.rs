//! The bytes of a packet.

use super::{AddressSpace, Fault};
use std::sync::Arc;

/// Up to an MTU of bytes that belong to a packet.
#[derive(Clone)]
pub struct Buffer(Vec<u8>);

/// The bytes of a packet: here, or still where they came from.
///
/// A payload that refers to memory lets a loopback copy once, from source to destination. It may
/// only be looked at while the device that made it still has that memory: a fabric that keeps
/// packets settles them first ([`crate::fabric::Fabric::settle`]).
#[derive(Clone, Default)]
pub enum Payload {
    /// No bytes.
    #[default]
    Empty,
    /// The bytes.
    Bytes(Buffer),
    /// Where the bytes lie, in order.
    Memory {
        /// The address space of the segments.
        space: Arc<dyn AddressSpace>,
        /// The pieces, in order; unused ones have length 0.
        segments: [Segment; Payload::SEGMENTS],
    },
}

/// A piece of a payload in memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its device address.
    pub address: u64,
    /// Its bytes.
    pub len: u32,
}

impl Buffer {
    /// A buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        todo!()
    }

    /// A buffer of `len` bytes which `fill` writes.
    pub fn filled<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        todo!()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl Payload {
    /// The most pieces that a payload refers to; more are copied into a buffer.
    pub const SEGMENTS: usize = 4;

    /// A payload of a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        todo!()
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `offset` on to `into`.
    ///
    /// # Panics
    ///
    /// If the payload has fewer.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Fault> {
        todo!()
    }

    /// Copies `len` bytes from `offset` on to `address` of `space`.
    ///
    /// # Panics
    ///
    /// If the payload has fewer.
    pub fn copy_to(
        &self,
        offset: usize,
        len: usize,
        space: &dyn AddressSpace,
        address: u64,
    ) -> Result<(), Fault> {
        todo!()
    }

    /// Copies bytes that are still in memory into a buffer, so that the payload refers to no memory.
    pub fn settle(&mut self) -> Result<(), Fault> {
        todo!()
    }
}

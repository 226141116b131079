//! The bytes of a packet.

use super::{AddressSpace, Fault};
use std::cell::RefCell;
use std::sync::Arc;

/// Bytes that belong to a packet or a work request.
///
/// Buffers of at most [`Buffer::CAPACITY`] bytes are used again by the thread that dropped them, so
/// that packets cost no allocation once a few have passed.
pub struct Buffer {
    /// `CAPACITY` long, or `len` if that is more.
    bytes: Box<[u8]>,
    len: usize,
}

/// Free buffers of this thread.
const KEPT: usize = 256;
thread_local! {
    static FREE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

impl Buffer {
    /// The most bytes of a buffer that is used again: the largest MTU.
    pub const CAPACITY: usize = 4096;

    /// A buffer with a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buffer = Self::take(bytes.len());
        buffer.bytes[..bytes.len()].copy_from_slice(bytes);
        buffer
    }

    /// A buffer of `len` bytes which `fill` writes; they hold anything before.
    pub fn filled<E>(len: usize, fill: impl FnOnce(&mut [u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut buffer = Self::take(len);
        fill(&mut buffer.bytes[..len])?;
        Ok(buffer)
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn take(len: usize) -> Self {
        if len > Self::CAPACITY {
            return Buffer { bytes: vec![0; len].into_boxed_slice(), len };
        }
        let free = FREE.try_with(|free| free.borrow_mut().pop()).ok().flatten();
        let bytes = free.unwrap_or_else(|| vec![0; Self::CAPACITY].into_boxed_slice());
        Buffer { bytes, len }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that ends has no list of free buffers any more: then they go to the allocator.
        let _ = FREE.try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT && bytes.len() == Self::CAPACITY {
                free.push(bytes);
            }
        });
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Self::copy_of(self.as_slice())
    }
}

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
    /// Where the bytes lie.
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

impl Payload {
    /// The most pieces that a payload refers to; more are copied into a buffer.
    pub const SEGMENTS: usize = 2;

    /// A payload of a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Payload::Empty } else { Payload::Bytes(Buffer::copy_of(bytes)) }
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Payload::Empty => 0,
            Payload::Bytes(buffer) => buffer.len,
            Payload::Memory { segments, .. } => {
                segments.iter().map(|segment| segment.len as usize).sum()
            }
        }
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
        let len = into.len();
        self.pieces(offset, len, |at, piece| match piece {
            Piece::Bytes(bytes) => {
                into[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Piece::Memory(space, address, len) => space.read(address, &mut into[at..at + len]),
        })
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
        self.pieces(offset, len, |at, piece| {
            let to = address.checked_add(at as u64).ok_or(Fault { address, len })?;
            match piece {
                Piece::Bytes(bytes) => space.write(to, bytes),
                Piece::Memory(from, address, len) => space.copy(to, from, address, len),
            }
        })
    }

    /// The `len` bytes from `offset` on as a payload of their own; in memory if this one is.
    ///
    /// # Panics
    ///
    /// If the payload has fewer.
    pub fn part(&self, offset: usize, len: usize) -> Payload {
        let Payload::Memory { space, .. } = self else {
            let bytes = match self {
                Payload::Bytes(buffer) => buffer.as_slice(),
                _ => &[],
            };
            return Payload::copy_of(&bytes[offset..][..len]);
        };
        let mut segments = [Segment::default(); Payload::SEGMENTS];
        let mut used = 0;
        // Nothing is copied, so nothing faults.
        let _ = self.pieces(offset, len, |_, piece| {
            if let Piece::Memory(_, address, len) = piece {
                segments[used] = Segment { address, len: len as u32 };
                used += 1;
            }
            Ok(())
        });
        match used {
            0 => Payload::Empty,
            _ => Payload::Memory { space: space.clone(), segments },
        }
    }

    /// Copies bytes that are still in memory into a buffer, so that the payload refers to no memory.
    pub fn settle(&mut self) -> Result<(), Fault> {
        if let Payload::Memory { .. } = self {
            *self = Payload::Bytes(Buffer::filled(self.len(), |into| self.read(0, into))?);
        }
        Ok(())
    }

    /// Calls `each` for the pieces of `len` bytes from `offset` on, with how far in each begins.
    fn pieces(
        &self,
        offset: usize,
        len: usize,
        mut each: impl FnMut(usize, Piece<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let total = self.len();
        assert!(
            offset <= total && len <= total - offset,
            "{len} bytes at {offset} of a payload of {total}"
        );
        match self {
            Payload::Empty => Ok(()),
            Payload::Bytes(buffer) => each(0, Piece::Bytes(&buffer.as_slice()[offset..][..len])),
            Payload::Memory { space, segments } => {
                let mut skip = offset;
                let mut done = 0;
                for segment in segments {
                    let segment_len = segment.len as usize;
                    if skip >= segment_len {
                        skip -= segment_len;
                        continue;
                    }
                    let here = (segment_len - skip).min(len - done);
                    if here > 0 {
                        each(done, Piece::Memory(&**space, segment.address + skip as u64, here))?;
                    }
                    done += here;
                    skip = 0;
                }
                Ok(())
            }
        }
    }
}

enum Piece<'a> {
    Bytes(&'a [u8]),
    Memory(&'a dyn AddressSpace, u64, usize),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::TestMemory;

    fn memory() -> Arc<dyn AddressSpace> {
        let mut memory = TestMemory::new();
        memory.add(0, 256);
        memory.add(0x1000, 256);
        let memory: Arc<dyn AddressSpace> = Arc::new(memory);
        memory.write(0, &(0..=255).collect::<Vec<u8>>()).unwrap();
        memory
    }

    fn scattered(space: Arc<dyn AddressSpace>) -> Payload {
        let piece = |address, len| Segment { address, len };
        Payload::Memory { space, segments: [piece(10, 3), piece(30, 5)] }
    }

    #[test]
    fn every_part_of_a_payload_is_the_same_here_and_in_memory() {
        let space = memory();
        let expected = [10, 11, 12, 30, 31, 32, 33, 34];
        let mut settled = scattered(space.clone());
        settled.settle().unwrap();
        assert!(matches!(settled, Payload::Bytes(_)));
        for payload in [scattered(space.clone()), settled, Payload::copy_of(&expected)] {
            assert_eq!(payload.len(), 8);
            for offset in 0..=8 {
                for len in 0..=8 - offset {
                    let part = &expected[offset..offset + len];
                    let mut bytes = vec![0; len];
                    payload.read(offset, &mut bytes).unwrap();
                    assert_eq!(bytes, part);
                    space.write(0x1000, &[0xff; 32]).unwrap();
                    payload.copy_to(offset, len, &*space, 0x1001).unwrap();
                    let mut again = vec![0; len];
                    let own = payload.part(offset, len);
                    assert_eq!(own.len(), len);
                    own.read(0, &mut again).unwrap();
                    assert_eq!(again, part);
                    let mut around = [0; 32];
                    space.read(0x1000, &mut around).unwrap();
                    let mut wanted = [0xff; 32];
                    wanted[1..1 + len].copy_from_slice(part);
                    assert_eq!(around, wanted);
                }
            }
        }
    }

    #[test]
    fn a_settled_payload_keeps_its_bytes() {
        let space = memory();
        let mut payload = scattered(space.clone());
        payload.settle().unwrap();
        space.write(0, &[0; 64]).unwrap();
        let mut bytes = [0; 8];
        payload.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [10, 11, 12, 30, 31, 32, 33, 34]);
    }

    #[test]
    fn memory_that_is_gone_is_a_fault() {
        let segments = [Segment { address: 250, len: 16 }, Segment::default()];
        let mut payload = Payload::Memory { space: memory(), segments };
        assert_eq!(payload.settle(), Err(Fault { address: 250, len: 16 }));
        let top = Payload::copy_of(&[1, 2]);
        assert!(top.copy_to(0, 2, &*memory(), u64::MAX).is_err());
    }

    #[test]
    fn a_dropped_buffer_is_used_again() {
        let free = || FREE.with_borrow(Vec::len);
        let buffer = Buffer::copy_of(&[1; 100]);
        let before = free();
        drop(buffer);
        assert_eq!(free(), before + 1);
        let again = Buffer::copy_of(&[2; 10]);
        assert_eq!(free(), before);
        assert_eq!(again.as_slice(), [2; 10]);
        assert_eq!(again.clone().as_slice(), [2; 10]);
        let many: Vec<Buffer> = (0..2 * KEPT).map(|_| Buffer::copy_of(&[])).collect();
        drop(many);
        assert_eq!(free(), KEPT, "a thread keeps a bounded number");
    }
}

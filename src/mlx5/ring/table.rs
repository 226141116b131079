//! How a completion finds its queue pair: by the user index that it carries, in two loads, however
//! many queue pairs there are.

use super::outstanding::InFlight;
use crate::mlx5::abi::U24;
use alloc::boxed::Box;
use core::ptr;
use doorbell_hal::sync::{AtomicPtr, Ordering};

/// Index bits of a chunk; the rest number the chunks. Loom's atomics are large and slow to make, and
/// its models have a few queue pairs.
const CHUNK_BITS: u32 = if cfg!(loom) { 1 } else { 12 };
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNKS: usize = if cfg!(loom) { 2 } else { 1 << (24 - CHUNK_BITS) };

type Chunk = [AtomicPtr<InFlight>; CHUNK];

/// The queue pairs of a NIC by user index. Grows by chunks, which stay until the table goes.
pub struct Table {
    chunks: Box<[AtomicPtr<Chunk>; CHUNKS]>,
}

impl Default for Table {
    /// A table with no queue pairs.
    fn default() -> Self {
        Table { chunks: Box::new([const { () }; CHUNKS].map(|()| AtomicPtr::new(ptr::null_mut()))) }
    }
}

impl Table {
    /// The number of indexes.
    pub const INDEXES: usize = CHUNK * CHUNKS;

    #[inline(always)]
    fn place(index: U24) -> (usize, usize) {
        let index = index.get() as usize;
        (index / CHUNK % CHUNKS, index % CHUNK)
    }

    /// The queue pair with `index`, or null.
    #[inline(always)]
    pub fn get(&self, index: U24) -> *const InFlight {
        let (chunk, place) = Self::place(index);
        // Pairs with the release in `set`: the chunk was filled before.
        let chunk = self.chunks[chunk].load(Ordering::Acquire);
        if chunk.is_null() {
            return ptr::null();
        }
        // SAFETY: T1: a chunk that was stored lives as long as the table.
        let chunk = unsafe { &*chunk };
        // Pairs with the release in `set`: the queue pair was made before.
        chunk[place].load(Ordering::Acquire)
    }

    /// Puts `queue_pair`, or null, at `index`. One caller at a time.
    pub fn set(&self, index: U24, queue_pair: *const InFlight) {
        let (number, place) = Self::place(index);
        let mut chunk = self.chunks[number].load(Ordering::Acquire);
        if chunk.is_null() {
            let empty = [const { () }; CHUNK].map(|()| AtomicPtr::new(ptr::null_mut()));
            chunk = Box::into_raw(Box::new(empty));
            self.chunks[number].store(chunk, Ordering::Release);
        }
        // SAFETY: T1: a chunk that was stored lives as long as the table.
        let chunk = unsafe { &*chunk };
        chunk[place].store(queue_pair.cast_mut(), Ordering::Release);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for chunk in self.chunks.iter() {
            let chunk = chunk.load(Ordering::Acquire);
            if !chunk.is_null() {
                // SAFETY: T1: `set` made the chunk from a box, and nothing uses a dropped table.
                drop(unsafe { Box::from_raw(chunk) });
            }
        }
    }
}

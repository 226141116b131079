//! Memory that a NIC may reach, and copies in and out of it.

use core::ptr::NonNull;

/// Memory that a NIC may read and write while this value lives: a ring, a doorbell record page, a
/// region's bytes.
///
/// # Safety
///
/// The implementer promises that the `len()` bytes from `as_ptr()` on stay mapped, readable and
/// writable, at the same address, until the value is dropped; that nothing else in the process owns
/// them; that they start at a page boundary; and that they were zero when the value was made
/// (SAFETY.md, M1).
pub unsafe trait DmaMemory: Send + Sync {
    /// The first byte.
    fn as_ptr(&self) -> NonNull<u8>;

    /// The size in bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Copies memory that a NIC may write meanwhile. Each byte is copied as it was or as it will be, and
/// each aligned word of 8 bytes at once.
///
/// # Safety
///
/// `from` is the address of `into.len()` readable bytes that nothing refers to (SAFETY.md, M2).
pub unsafe fn copy_from_shared(from: NonNull<u8>, into: &mut [u8]) {
    let (head, words) = split(from, into.len());
    for (at, byte) in into.iter_mut().enumerate().take(head) {
        // SAFETY: M2: inside the bytes that our caller vouches for.
        *byte = unsafe { from.add(at).read_volatile() };
    }
    let (body, tail) = into[head..].as_chunks_mut::<WORD>();
    for (word, bytes) in body.iter_mut().enumerate() {
        // SAFETY: M2: as above; and `head` bytes on, the address is aligned.
        let value = unsafe { from.add(head).cast::<u64>().add(word).read_volatile() };
        *bytes = value.to_ne_bytes();
    }
    for (at, byte) in tail.iter_mut().enumerate() {
        // SAFETY: M2: as above.
        *byte = unsafe { from.add(head + words * WORD + at).read_volatile() };
    }
}

/// Copies to memory that a NIC may read or write meanwhile, each aligned word of 8 bytes at once.
///
/// # Safety
///
/// `into` is the address of `from.len()` writable bytes that nothing refers to (SAFETY.md, M2).
pub unsafe fn copy_to_shared(from: &[u8], into: NonNull<u8>) {
    let (head, words) = split(into, from.len());
    for (at, byte) in from.iter().enumerate().take(head) {
        // SAFETY: M2: inside the bytes that our caller vouches for.
        unsafe { into.add(at).write_volatile(*byte) };
    }
    let (body, tail) = from[head..].as_chunks::<WORD>();
    for (word, bytes) in body.iter().enumerate() {
        let value = u64::from_ne_bytes(*bytes);
        // SAFETY: M2: as above; and `head` bytes on, the address is aligned.
        unsafe { into.add(head).cast::<u64>().add(word).write_volatile(value) };
    }
    for (at, byte) in tail.iter().enumerate() {
        // SAFETY: M2: as above.
        unsafe { into.add(head + words * WORD + at).write_volatile(*byte) };
    }
}

const WORD: usize = size_of::<u64>();

/// How many of `len` bytes from `start` on come before the first aligned word, and how many whole
/// words follow.
fn split(start: NonNull<u8>, len: usize) -> (usize, usize) {
    let address = start.as_ptr() as usize;
    let head = (address.next_multiple_of(WORD) - address).min(len);
    (head, (len - head) / WORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_move_exactly_their_bytes_wherever_they_start() {
        for start in 0..9 {
            for len in 0..40 {
                let mut shared = [0u8; 64];
                let from: [u8; 40] = core::array::from_fn(|at| at as u8 + 1);
                let place = NonNull::from(&mut shared).cast::<u8>();
                // SAFETY: M2: 48 bytes at most, of 64.
                unsafe { copy_to_shared(&from[..len], place.add(start)) };
                let mut back = [0u8; 40];
                // SAFETY: M2: as above.
                unsafe { copy_from_shared(place.add(start), &mut back[..len]) };
                assert_eq!(back[..len], from[..len], "{len} bytes at {start}");
                assert!(
                    shared[..start].iter().chain(&shared[start + len..]).all(|byte| *byte == 0)
                );
                assert_eq!(shared[start..start + len], from[..len]);
            }
        }
    }
}

//! Ring memory as cells: 16-byte segments of work entries.

use core::ptr::NonNull;
use doorbell_hal::sync::DmaCell;

/// 16 bytes of a work entry.
#[repr(C, align(16))]
pub struct Segment([DmaCell<u64>; 2]);

#[cfg(not(loom))]
static_assertions::assert_eq_size!(Segment, [u8; 16]);

impl Default for Segment {
    /// A segment of zeroes.
    fn default() -> Self {
        Segment([DmaCell::new(0), DmaCell::new(0)])
    }
}

impl Segment {
    /// Stores the segment, in two whole words in rising order.
    ///
    /// # Safety
    ///
    /// The segment is the caller's (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn write(&self, words: [u64; 2]) {
        let [first, second] = words;
        // SAFETY: S1: passed on to our caller.
        unsafe { self.0[0].write(first) };
        // SAFETY: S1: passed on to our caller.
        unsafe { self.0[1].write(second) };
    }

    /// Copies `bytes` to the segments from `first` on, `at` bytes after its start, with the widest
    /// stores that there are.
    ///
    /// # Safety
    ///
    /// The segments that hold the bytes follow each other in memory, and are the caller's
    /// (SAFETY.md, Q1, S1).
    #[inline(always)]
    pub unsafe fn copy_to(first: NonNull<Segment>, at: usize, bytes: &[u8]) {
        #[cfg(not(loom))]
        // SAFETY: Q1, S1: passed on to our caller. Segments are cells, and nothing but bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                first.cast::<u8>().add(at).as_ptr(),
                bytes.len(),
            );
        }
        // Loom's cells are not bytes.
        #[cfg(loom)]
        for (at, byte) in (at..).zip(bytes) {
            // SAFETY: Q1, S1: passed on to our caller.
            unsafe {
                let segment = first.add(at / 16).as_ref();
                let mut words = segment.read();
                let word = &mut words[at % 16 / 8];
                let mut in_memory = word.to_ne_bytes();
                in_memory[at % 8] = *byte;
                *word = u64::from_ne_bytes(in_memory);
                segment.write(words);
            }
        }
    }

    /// Loads the segment.
    ///
    /// # Safety
    ///
    /// Nothing writes the segment meanwhile (SAFETY.md, S1).
    #[inline(always)]
    pub unsafe fn read(&self) -> [u64; 2] {
        // SAFETY: S1: passed on to our caller.
        unsafe { [self.0[0].read(), self.0[1].read()] }
    }
}

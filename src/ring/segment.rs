//! Ring memory as cells: 16-byte segments of work entries.

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

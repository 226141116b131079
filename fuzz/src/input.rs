//! A fuzzer's bytes, taken as numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Takes numbers off the front of a fuzzer's bytes. There are always more: zeroes, after the end.
///
/// Clones take from the same bytes, so that a target and what it tests can share them.
#[derive(Clone)]
pub struct Input(Arc<Bytes>);

struct Bytes {
    bytes: Box<[u8]>,
    taken: AtomicUsize,
}

impl Input {
    /// All of `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        Input(Arc::new(Bytes { bytes: bytes.into(), taken: AtomicUsize::new(0) }))
    }

    /// Whether only zeroes are left.
    pub fn is_empty(&self) -> bool {
        self.0.taken.load(Ordering::Relaxed) >= self.0.bytes.len()
    }

    /// Up to `len` bytes: as many as are left.
    pub fn bytes(&self, len: usize) -> &[u8] {
        let from = self.0.taken.fetch_add(len, Ordering::Relaxed).min(self.0.bytes.len());
        let rest = &self.0.bytes[from..];
        &rest[..len.min(rest.len())]
    }

    /// `N` bytes.
    pub fn array<const N: usize>(&self) -> [u8; N] {
        let mut array = [0; N];
        let bytes = self.bytes(N);
        array[..bytes.len()].copy_from_slice(bytes);
        array
    }

    /// A byte.
    pub fn byte(&self) -> u8 {
        self.array::<1>()[0]
    }

    /// Two bytes, little-endian.
    pub fn half(&self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    /// Four bytes, little-endian.
    pub fn word(&self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// Eight bytes, little-endian.
    pub fn double(&self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// A byte as a place below `count`, which is from 1 to 256.
    pub fn below(&self, count: usize) -> usize {
        usize::from(self.byte()) % count.max(1)
    }

    /// One of `list`, unless it is empty.
    pub fn pick<'a, T>(&self, list: &'a mut [T]) -> Option<&'a mut T> {
        let count = list.len();
        if count == 0 { None } else { list.get_mut(self.below(count)) }
    }

    /// Takes one out of `list`, unless it is empty.
    pub fn take<T>(&self, list: &mut Vec<T>) -> Option<T> {
        if list.is_empty() { None } else { Some(list.swap_remove(self.below(list.len()))) }
    }

    /// Whether the lowest bit of a byte is set.
    pub fn flag(&self) -> bool {
        self.byte() & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_off_the_front_and_zeroes_after_the_end() {
        let input = Input::new(&[1, 2, 3, 4, 5, 6, 7]);
        let other = input.clone();
        assert_eq!((input.byte(), other.half()), (1, 0x0302));
        assert!(!input.is_empty());
        assert_eq!(input.word(), 0x0706_0504);
        assert!(other.is_empty());
        assert_eq!((other.double(), input.below(3), input.flag()), (0, 0, false));
        assert!(input.bytes(4).is_empty());
        assert_eq!(Input::new(&[9, 8]).bytes(4), [9, 8]);
    }
}

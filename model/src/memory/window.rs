//! Bytes of this process that a device may touch, and the copies that it makes.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Bytes of this process that a device touches as an outside agent.
///
/// No Rust reference to them exists. Copies are atomic accesses, or on x86_64 instructions that the
/// compiler cannot look into: they race with the owner's volatile accesses as DMA does, and a reader
/// sees each byte as it was before or after (SAFETY.md, D2). The last bytes of a copy land after all
/// others, as a program expects that polls the end of a message.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a [AtomicU8]>,
}

impl<'a> Window<'a> {
    /// The `len` bytes from `start` on.
    ///
    /// # Safety
    ///
    /// For `'a` the bytes stay mapped and readable, and writable if the window is written to; nobody
    /// holds Rust references to them (SAFETY.md, D1 and M2).
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Window { start, len, memory: PhantomData }
    }

    /// The bytes in this window.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies this window's bytes to `into`.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn read(&self, into: &mut [u8]) {
        assert_eq!(self.len, into.len());
        // SAFETY: D1: this window's bytes are readable; `into` is ours alone and as long.
        unsafe { copy(self.start.as_ptr(), into.as_mut_ptr(), self.len) }
    }

    /// Copies `from` to this window's bytes.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn write(&self, from: &[u8]) {
        assert_eq!(self.len, from.len());
        // SAFETY: D1: this window's bytes are writable; `from` is readable and as long.
        unsafe { copy(from.as_ptr(), self.start.as_ptr(), self.len) }
    }

    /// Copies `from`'s bytes here, as many as both windows have; answers how many. If the windows
    /// overlap, what lands is a mixture, as with DMA.
    pub fn copy(&self, from: Window<'_>) -> usize {
        let len = self.len.min(from.len);
        // SAFETY: D1: `from`'s bytes are readable and this window's writable, for `len` bytes both.
        unsafe { copy(from.start.as_ptr(), self.start.as_ptr(), len) };
        len
    }

    /// Adds to the 8 bytes that the window starts with, as one step; what they were. `None` if there
    /// are fewer or they are not aligned to 8.
    pub fn fetch_add(&self, add: u64) -> Option<u64> {
        Some(self.atomic()?.fetch_add(add, Ordering::SeqCst))
    }

    /// Replaces the 8 bytes that the window starts with by `swap` if they are `compare`, as one
    /// step; what they were. `None` if there are fewer or they are not aligned to 8.
    pub fn compare_swap(&self, compare: u64, swap: u64) -> Option<u64> {
        let word = self.atomic()?;
        let (Ok(was) | Err(was)) =
            word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst);
        Some(was)
    }

    /// The 4 bytes that the window starts with, as one load with acquire order. `None` if there are
    /// fewer or they are not aligned to 4.
    pub fn load_word(&self) -> Option<u32> {
        let pointer = self.aligned::<AtomicU32>()?;
        // SAFETY: D1: readable and aligned; D2: an atomic access races with no volatile access of a
        // word that orders things, for those are atomics too.
        Some(unsafe { AtomicU32::from_ptr(pointer) }.load(Ordering::Acquire))
    }

    /// Puts `word` in place of the 4 bytes that the window starts with, as one step; what they were.
    /// `None` if there are fewer or they are not aligned to 4.
    pub fn swap_word(&self, word: u32) -> Option<u32> {
        let pointer = self.aligned::<AtomicU32>()?;
        // SAFETY: D1: readable, writable and aligned; D2: an atomic access, as in `load_word`.
        Some(unsafe { AtomicU32::from_ptr(pointer) }.swap(word, Ordering::AcqRel))
    }

    /// Stores the byte that the window starts with, with release order. `None` if there is none.
    pub fn store_byte(&self, byte: u8) -> Option<()> {
        let pointer = self.aligned::<AtomicU8>()?;
        // SAFETY: D1: writable; D2: an atomic access.
        unsafe { AtomicU8::from_ptr(pointer) }.store(byte, Ordering::Release);
        Some(())
    }

    fn atomic(&self) -> Option<&'a AtomicU64> {
        let pointer = self.aligned::<AtomicU64>()?;
        // SAFETY: D1: readable, writable and aligned for `'a`; D2: an atomic access.
        Some(unsafe { AtomicU64::from_ptr(pointer) })
    }

    /// The window's start as a pointer to a `T`, if it is long enough and aligned.
    fn aligned<T>(&self) -> Option<*mut T::Plain>
    where
        T: Atomic,
    {
        let pointer = self.start.as_ptr().cast::<T::Plain>();
        (self.len >= size_of::<T>() && pointer.addr().is_multiple_of(align_of::<T>()))
            .then_some(pointer)
    }
}

/// An atomic and the integer in it.
trait Atomic {
    type Plain;
}
impl Atomic for AtomicU8 {
    type Plain = u8;
}
impl Atomic for AtomicU32 {
    type Plain = u32;
}
impl Atomic for AtomicU64 {
    type Plain = u64;
}

/// Copies as an outside agent does, the last bytes last.
///
/// # Safety
///
/// `len` bytes are readable at `from` and writable at `to` (SAFETY.md, D1).
#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::asm;
    /// Below this many bytes, starting `rep movsb` costs more than it saves.
    const BULK: usize = 256;

    // SAFETY: D1 for every access, passed on by our caller: each stays within the `len` bytes. D2:
    // the accesses are atomics, or instructions that the compiler knows nothing of.
    unsafe {
        if len < 8 {
            return copy_bytes(from, to, len);
        }
        let last = len - 8;
        if len < BULK {
            let mut at = 0;
            while at < last {
                copy_word(from.add(at), to.add(at));
                at += 8;
            }
        } else {
            // The stores of a string instruction may land out of order; the word after it may not.
            asm!("rep movsb", inout("rcx") last => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags));
        }
        copy_word(from.add(last), to.add(last));
    }

    /// One load and one store of 8 bytes, aligned or not.
    #[inline(always)]
    unsafe fn copy_word(from: *const u8, to: *mut u8) {
        // SAFETY: D1: 8 bytes at each, passed on by our caller.
        unsafe {
            asm!("mov {word}, [{from}]", "mov [{to}], {word}", word = out(reg) _, from = in(reg) from,
                to = in(reg) to, options(nostack, preserves_flags));
        }
    }
}

/// Copies as an outside agent does, the last bytes last.
///
/// # Safety
///
/// `len` bytes are readable at `from` and writable at `to` (SAFETY.md, D1).
#[cfg(any(not(target_arch = "x86_64"), miri))]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let head = from.align_offset(8).min(len);
    // SAFETY: D1 for every access, passed on by our caller: each stays within the `len` bytes, and
    // words are aligned on both sides. D2: every access is an atomic.
    unsafe {
        let mut at = head;
        if to.add(head).addr().is_multiple_of(8) {
            copy_bytes(from, to, head);
            while at + 8 < len {
                let word = AtomicU64::from_ptr(from.add(at).cast_mut().cast());
                AtomicU64::from_ptr(to.add(at).cast())
                    .store(word.load(Ordering::Relaxed), Ordering::Relaxed);
                at += 8;
            }
        } else {
            at = 0;
        }
        copy_bytes(from.add(at), to.add(at), len - at);
    }
}

/// Copies byte by byte, the last one last.
///
/// # Safety
///
/// `len` bytes are readable at `from` and writable at `to` (SAFETY.md, D1).
unsafe fn copy_bytes(from: *const u8, to: *mut u8, len: usize) {
    for at in 0..len {
        let order = if at + 1 == len { Ordering::Release } else { Ordering::Relaxed };
        // SAFETY: D1: within the `len` bytes, passed on by our caller. D2: atomics.
        unsafe {
            let byte = AtomicU8::from_ptr(from.add(at).cast_mut()).load(Ordering::Relaxed);
            AtomicU8::from_ptr(to.add(at)).store(byte, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::UnsafeCell;

    /// 1024 bytes that windows may be made of.
    struct Bytes(Box<[UnsafeCell<u64>]>);

    impl Bytes {
        fn new() -> Self {
            Bytes((0..128).map(|_| UnsafeCell::new(0)).collect())
        }

        fn window(&self, start: usize, len: usize) -> Window<'_> {
            assert!(start + len <= 1024);
            let first = NonNull::new(self.0.as_ptr().cast_mut().cast::<u8>()).unwrap();
            // SAFETY: D1, M2: inside the cells, which live as long as `self` and are not referred to.
            unsafe { Window::new(first.add(start), len) }
        }

        fn bytes(&self) -> Vec<u8> {
            let mut bytes = vec![0; 1024];
            self.window(0, 1024).read(&mut bytes);
            bytes
        }
    }

    #[test]
    fn copies_exactly_the_window_at_every_length_and_alignment() {
        let pattern: Vec<u8> = (0..1024u32).map(|i| (i * 7 + i / 256 + 1) as u8).collect();
        for len in (0..70).chain([250, 255, 256, 257, 300, 511, 512, 700]) {
            for (source_start, target_start) in [(0, 0), (1, 0), (0, 3), (5, 5), (7, 2), (8, 16)] {
                let source = Bytes::new();
                source.window(0, 1024).write(&pattern);
                let target = Bytes::new();
                let copied =
                    target.window(target_start, len).copy(source.window(source_start, len));
                assert_eq!(copied, len);
                let mut expected = vec![0; 1024];
                expected[target_start..target_start + len]
                    .copy_from_slice(&pattern[source_start..source_start + len]);
                assert_eq!(
                    target.bytes(),
                    expected,
                    "{len} bytes, {source_start} to {target_start}"
                );
            }
        }
    }

    #[test]
    fn a_copy_takes_the_shorter_window() {
        let source = Bytes::new();
        source.window(0, 1024).write(&[0xaa; 1024]);
        let target = Bytes::new();
        assert_eq!(target.window(0, 10).copy(source.window(0, 20)), 10);
        assert_eq!(target.window(20, 10).copy(source.window(0, 5)), 5);
        assert_eq!(
            target.bytes()[..30],
            [[0xaa; 10], [0; 10], [0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0, 0, 0]].concat()
        );
    }

    #[test]
    fn atomics_need_eight_aligned_bytes() {
        let bytes = Bytes::new();
        assert_eq!(bytes.window(8, 8).fetch_add(5), Some(0));
        assert_eq!(bytes.window(8, 9).fetch_add(u64::MAX), Some(5));
        assert_eq!(bytes.window(8, 8).compare_swap(4, 9), Some(4));
        assert_eq!(bytes.window(8, 8).compare_swap(4, 10), Some(9));
        assert_eq!(bytes.window(8, 8).fetch_add(0), Some(9));
        for (start, len) in [(9, 8), (12, 8), (8, 7), (8, 0)] {
            assert_eq!(bytes.window(start, len).fetch_add(1), None);
            assert_eq!(bytes.window(start, len).compare_swap(0, 1), None);
        }
        assert_eq!(bytes.window(4, 4).load_word(), Some(0));
        assert_eq!(
            bytes.window(8, 4).load_word(),
            Some(u32::from_ne_bytes(9u64.to_ne_bytes()[..4].try_into().unwrap()))
        );
        assert_eq!(bytes.window(6, 4).load_word(), None);
        assert_eq!(bytes.window(8, 3).load_word(), None);
        assert_eq!(bytes.window(3, 1).store_byte(7), Some(()));
        assert_eq!(bytes.window(3, 0).store_byte(8), None);
        assert_eq!(bytes.bytes()[..5], [0, 0, 0, 7, 0]);
    }

    #[test]
    fn fetch_add_wraps() {
        let bytes = Bytes::new();
        bytes.window(0, 8).write(&u64::MAX.to_ne_bytes());
        assert_eq!(bytes.window(0, 8).fetch_add(3), Some(u64::MAX));
        assert_eq!(bytes.window(0, 8).fetch_add(0), Some(2));
    }
}

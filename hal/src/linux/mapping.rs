//! A page of a device's registers, mapped from its file.

use crate::Errno;
use crate::mmio::{Register, RegisterPage};
use alloc::sync::Arc;
use core::ptr::NonNull;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags};
use volatile_register::WO;

/// A mapped page (or several) of registers. Dropping the last register and the page unmaps it.
#[derive(Clone, Debug)]
pub struct MappedPage(Arc<Mapping>);

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: R1: the mapping is a range of addresses with no thread of its own; stores to it are made
// by `Register`, whose holder is one thread at a time.
unsafe impl Send for Mapping {}
// SAFETY: R1: as for `Send`; a shared mapping only hands out its address and length.
unsafe impl Sync for Mapping {}

impl MappedPage {
    /// Maps `len` bytes of `file` from `offset`, shared and write-only: what a register page is
    /// good for.
    pub fn map(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        Self::map_as(file, offset, len, ProtFlags::WRITE)
    }

    /// As [`map`](Self::map), to be read as well.
    pub fn map_readable(file: BorrowedFd<'_>, offset: u64, len: usize) -> Result<Self, Errno> {
        Self::map_as(file, offset, len, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn map_as(
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        protection: ProtFlags,
    ) -> Result<Self, Errno> {
        // SAFETY: R1: a new mapping at an address that the kernel chooses; nothing else refers to it
        // until it is unmapped by `drop`.
        let start = unsafe {
            rustix::mm::mmap(core::ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset)
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::ENOMEM)?;
        Ok(MappedPage(Arc::new(Mapping { start, len })))
    }

    /// The first byte. Registers are to be written through [`RegisterPage::register`]; this is for
    /// who hands the mapping on to a driver of its own.
    pub fn start(&self) -> NonNull<u8> {
        self.0.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: R1: every register into the mapping held a count on it, so none is left.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl RegisterPage for MappedPage {
    type Register = MappedRegister;

    fn register(&self, offset: usize, len: usize) -> Option<MappedRegister> {
        let end = offset.checked_add(len)?;
        if end > self.0.len || !offset.is_multiple_of(8) || !len.is_multiple_of(8) {
            return None;
        }
        // SAFETY: R1: `offset` was just checked to lie inside the mapping.
        let start = unsafe { self.0.start.add(offset) };
        Some(MappedRegister { start: start.cast(), _page: self.0.clone() })
    }
}

/// A register in a [`MappedPage`].
#[derive(Debug)]
pub struct MappedRegister {
    start: NonNull<WO<u64>>,
    _page: Arc<Mapping>,
}

// SAFETY: R1: the register's page stays mapped through its count on it, and stores to a device do
// not depend on the thread that makes them.
unsafe impl Send for MappedRegister {}

impl Register for MappedRegister {
    #[inline(always)]
    unsafe fn store(&self, at: usize, value: u64) {
        // SAFETY: R1: our caller keeps `at` inside the register, which lies inside the mapping.
        unsafe { self.start.byte_add(at).as_ref().write(value) };
    }

    #[inline(always)]
    unsafe fn copy(&self, at: usize, slot: &[u64; 8]) {
        // The widest stores that the compiler was told of fill a write-combining buffer with the
        // fewest instructions: two of 32 bytes, or four of 16, which every x86_64 processor has.
        #[cfg(all(target_arch = "x86_64", target_feature = "avx"))]
        type Wide = core::arch::x86_64::__m256i;
        #[cfg(all(target_arch = "x86_64", not(target_feature = "avx")))]
        type Wide = core::arch::x86_64::__m128i;
        #[cfg(target_arch = "x86_64")]
        for part in 0..size_of_val(slot) / size_of::<Wide>() {
            // SAFETY: R1: our caller keeps `at + 64` inside the register and `at` a multiple of 64,
            // so each store is aligned; the load is from the 64 bytes of `slot`.
            unsafe {
                let word = slot.as_ptr().cast::<Wide>().add(part).read_unaligned();
                let to = self.start.as_ptr().byte_add(at).cast::<Wide>().add(part);
                to.write_volatile(word);
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        for (word, value) in slot.iter().enumerate() {
            // SAFETY: R1: our caller keeps `at + 64` inside the register.
            unsafe { self.start.byte_add(at).add(word).as_ref().write(*value) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::io::pread;

    #[test]
    fn stores_and_copies_land_at_their_offsets_in_memory_order() {
        let file = memfd_create("page", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        let page = MappedPage::map(file.as_fd(), 0, 4096).unwrap();
        let register = page.register(0x800, 512).unwrap();
        drop(page);
        // SAFETY: R1: 8 and 64 bytes inside the 512 of the register.
        unsafe {
            register.store(8, u64::from_ne_bytes(*b"doorbell"));
            register.copy(256, &[1, 2, 3, 4, 5, 6, 7, 8]);
        }
        let mut bytes = [0; 8];
        pread(&file, &mut bytes, 0x808).unwrap();
        assert_eq!(&bytes, b"doorbell");
        for word in 0..8 {
            pread(&file, &mut bytes, 0x900 + 8 * word).unwrap();
            assert_eq!(u64::from_ne_bytes(bytes), word + 1);
        }
    }

    #[test]
    fn a_register_outside_its_page_or_misaligned_is_refused() {
        let file = memfd_create("page", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 4096).unwrap();
        let page = MappedPage::map(file.as_fd(), 0, 4096).unwrap();
        assert!(page.register(4096 - 8, 8).is_some());
        assert!(page.register(4096, 8).is_none());
        assert!(page.register(4096 - 8, 16).is_none());
        assert!(page.register(4, 8).is_none());
        assert!(page.register(0, 12).is_none());
        assert!(page.register(usize::MAX - 7, 16).is_none());
    }
}

//! The registers behind a base address register, mapped from a file.

use super::super::mapping::{MappedPage, MappedRegister};
use crate::Errno;
use crate::mmio::RegisterPage;
use crate::pci::Bar;
use rustix::fd::BorrowedFd;
use volatile_register::RW;

/// The registers behind one base address register. Dropping the last register and this unmaps them.
#[derive(Clone, Debug)]
pub struct MappedBar {
    page: MappedPage,
    size: u64,
}

impl MappedBar {
    /// Maps `size` bytes of `file` from `offset` on.
    pub fn map(file: BorrowedFd<'_>, offset: u64, size: u64) -> Result<Self, Errno> {
        let len = usize::try_from(size).map_err(|_| Errno::ENOMEM)?;
        Ok(MappedBar { page: MappedPage::map_readable(file, offset, len)?, size })
    }

    /// The first byte.
    pub(super) fn start(&self) -> core::ptr::NonNull<u8> {
        self.page.start()
    }

    fn register_of_32(&self, at: u64) -> Option<&RW<u32>> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.size {
            return None;
        }
        // SAFETY: R1: just checked to lie in the mapping, which lives as long as this value.
        let register = unsafe { self.page.start().add(at as usize) }.cast::<RW<u32>>();
        // SAFETY: R1: as above; it is only reached by volatile accesses.
        Some(unsafe { register.as_ref() })
    }
}

impl RegisterPage for MappedBar {
    type Register = MappedRegister;

    fn register(&self, offset: usize, len: usize) -> Option<MappedRegister> {
        self.page.register(offset, len)
    }
}

impl Bar for MappedBar {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64) -> Option<u32> {
        Some(u32::from_le(self.register_of_32(at)?.read()))
    }

    fn write(&self, at: u64, value: u32) -> Option<()> {
        // SAFETY: R1: registers of a function that we hold, which whoever writes them knows.
        unsafe { self.register_of_32(at)?.write(value.to_le()) };
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    #[test]
    fn registers_are_read_as_they_were_written_and_nowhere_else() {
        let file = memfd_create("bar", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, 8192).unwrap();
        let bar = MappedBar::map(file.as_fd(), 0, 8192).unwrap();
        bar.write(0x520, 0x8000).unwrap();
        assert_eq!((bar.read(0x520), bar.read(8188), bar.size()), (Some(0x8000), Some(0), 8192));
        for at in [8192, 8190, 0x521, u64::MAX - 3, u64::MAX] {
            assert_eq!((bar.read(at), bar.write(at, 1)), (None, None), "{at:#x}");
        }
    }
}

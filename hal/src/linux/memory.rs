//! Memory of this process that a NIC may reach.

use crate::Errno;
use crate::memory::DmaMemory;
use core::ptr::NonNull;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The size of the huge pages to take memory from. There must be free ones of that size
/// (`/proc/sys/vm/nr_hugepages`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HugePage {
    /// 2 MiB.
    Mib2,
    /// 1 GiB.
    Gib1,
}

impl HugePage {
    /// The size of one page in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            HugePage::Mib2 => 2 << 20,
            HugePage::Gib1 => 1 << 30,
        }
    }
}

/// Anonymous private memory, zeroed, page aligned, that a child of `fork` does not inherit
/// (`MADV_DONTFORK`): were the parent's pages shared with a child, a write by either would move the
/// parent to a copy that the NIC does not know.
#[derive(Debug)]
pub struct Anonymous {
    start: NonNull<u8>,
    len: usize,
}

impl Anonymous {
    /// Maps `len` bytes, rounded up to whole pages. A `len` of 0 maps one page.
    pub fn new(len: usize) -> Result<Self, Errno> {
        Self::map(len, rustix::param::page_size(), MapFlags::empty())
    }

    /// Maps `len` bytes of huge pages, rounded up to whole ones.
    pub fn huge(len: usize, page: HugePage) -> Result<Self, Errno> {
        let size = match page {
            HugePage::Mib2 => MapFlags::HUGE_2MB,
            HugePage::Gib1 => MapFlags::HUGE_1GB,
        };
        Self::map(len, page.bytes(), MapFlags::HUGETLB | size)
    }

    fn map(len: usize, page: usize, flags: MapFlags) -> Result<Self, Errno> {
        let len = len.max(1).checked_next_multiple_of(page).ok_or(Errno::ENOMEM)?;
        // SAFETY: M1: a new private mapping at an address that the kernel chooses; it is ours alone
        // until `drop` unmaps it.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                core::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | flags,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::ENOMEM)?;
        let memory = Anonymous { start, len };
        // SAFETY: M1: the range is the mapping just made, and the advice changes no byte of it.
        unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontFork) }?;
        Ok(memory)
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: M1: the mapping is ours, and whoever gave it to a NIC has taken it back before
        // dropping it. The call fails only for ranges that are not mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

// SAFETY: M1: the mapping is exclusively this value's, page aligned, zeroed by the kernel, and
// unmapped only by `drop`.
unsafe impl DmaMemory for Anonymous {
    fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: M1: the value owns plain memory, which has no thread of its own; what threads do with its
// bytes is decided by the cells and atomics laid over them.
unsafe impl Send for Anonymous {}
// SAFETY: M1: as for `Send`; the value's own methods only read its address and length.
unsafe impl Sync for Anonymous {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::string::String;

    /// The flags line of the mapping that holds `address`.
    fn flags_of(address: usize) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            if let Some((range, _)) = line.split_once(' ')
                && let Some((from, to)) = range.split_once('-')
                && let (Ok(from), Ok(to)) =
                    (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                inside = (from..to).contains(&address);
            }
            if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.into();
            }
        }
        panic!("no mapping holds {address:#x}");
    }

    #[test]
    fn memory_is_zeroed_page_aligned_and_whole_pages() {
        let page = rustix::param::page_size();
        for len in [0, 1, page - 1, page, page + 1, 10 * page] {
            let memory = Anonymous::new(len).unwrap();
            assert_eq!(memory.as_ptr().as_ptr() as usize % page, 0);
            assert_eq!(memory.len(), len.max(1).next_multiple_of(page));
            for at in [0, memory.len() - 1] {
                // SAFETY: M1: `at` is inside the mapping.
                assert_eq!(unsafe { memory.as_ptr().add(at).read() }, 0);
            }
        }
    }

    #[test]
    fn a_forked_child_does_not_inherit_the_memory() {
        let memory = Anonymous::new(1).unwrap();
        let flags = flags_of(memory.as_ptr().as_ptr() as usize);
        assert!(flags.split_whitespace().any(|flag| flag == "dc"), "no dontcopy in {flags}");
    }

    #[test]
    fn a_size_that_overflows_is_refused() {
        assert_eq!(Anonymous::new(usize::MAX).unwrap_err(), Errno::ENOMEM);
    }
}

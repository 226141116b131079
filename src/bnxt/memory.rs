//! Memory that the function reaches, and the page tables by which it finds it.

use super::abi::page::{PAGE_BYTES, PAGE_ENTRIES, PageEntry};
use crate::error::Error;
use core::ptr::NonNull;
use doorbell_hal::Errno;
use doorbell_hal::memory::{DmaMemory, copy_from_shared, copy_to_shared};
use doorbell_hal::pci::{DeviceAddresses, PciFunction};
use doorbell_hal::sync::{AtomicU64, Ordering};

/// Allocates memory that the function reaches.
pub(super) fn allocate<F: PciFunction>(function: &F, len: usize) -> Result<F::Memory, Error> {
    function.allocate(len).map_err(|reason| refused(function, "the allocation of memory", reason))
}

/// An error of the system for something asked of a function.
pub(super) fn refused<F: PciFunction>(function: &F, call: &'static str, reason: Errno) -> Error {
    use alloc::string::ToString;
    Error::Refused { device: function.bus_address().to_string(), call, reason }
}

/// Copies `bytes` to `memory` from byte `at` on. False, and nothing copied, if they do not fit.
pub(super) fn write(memory: &impl DmaMemory, at: usize, bytes: &[u8]) -> bool {
    let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= memory.len());
    if fits {
        // SAFETY: M1, M2: just checked to lie in the memory, which is only reached by raw copies.
        unsafe { copy_to_shared(bytes, memory.as_ptr().add(at)) };
    }
    fits
}

/// Copies the bytes of `memory` from byte `at` on. False, and nothing copied, if there are fewer.
pub(super) fn read(memory: &impl DmaMemory, at: usize, bytes: &mut [u8]) -> bool {
    let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= memory.len());
    if fits {
        // SAFETY: M1, M2: as for `write`.
        unsafe { copy_from_shared(memory.as_ptr().add(at), bytes) };
    }
    fits
}

/// The word of 8 bytes at byte `at`, as something that two sides order by. `None` if it is not in the
/// memory, or not aligned.
pub(super) fn word(memory: &impl DmaMemory, at: usize) -> Option<u64> {
    let end = at.checked_add(size_of::<u64>())?;
    if end > memory.len() || !at.is_multiple_of(size_of::<u64>()) {
        return None;
    }
    // SAFETY: M1: just checked to lie in the memory, which starts at a page, and is only reached by
    // raw copies and atomics.
    let word: NonNull<AtomicU64> = unsafe { memory.as_ptr().add(at) }.cast();
    // SAFETY: M1: as above.
    Some(u64::from_le(unsafe { word.as_ref() }.load(Ordering::Relaxed)))
}

/// What a page table is for: what its last entries say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A ring that the NIC goes round in: its last two pages are marked.
    Ring,
    /// A region or a context.
    Flat,
}

/// A page table: how the NIC finds memory that is more than a page.
pub(super) struct PageTable<F: PciFunction> {
    /// Kept until the NIC has forgotten it.
    _tables: alloc::vec::Vec<F::Memory>,
    /// The device address of the top: of a table's page, or of the only page.
    pub(super) top: u64,
    /// Levels of tables above the pages: 0 to 2.
    pub(super) levels: u8,
}

impl<F: PciFunction> PageTable<F> {
    /// A table of the `len` bytes of `memory`, in pages of `page` bytes: a power of two, at most the
    /// memory's granule, at least 4 KiB.
    pub(super) fn new<A: DeviceAddresses + ?Sized>(
        function: &F,
        memory: &A,
        len: usize,
        page: usize,
        purpose: Purpose,
    ) -> Result<Self, Error> {
        Self::of_levels(function, memory, len, page, purpose, 0)
    }

    /// As [`new`](Self::new), with at least `least` levels.
    pub(super) fn of_levels<A: DeviceAddresses + ?Sized>(
        function: &F,
        memory: &A,
        len: usize,
        page: usize,
        purpose: Purpose,
        least: u8,
    ) -> Result<Self, Error> {
        let pages = len.div_ceil(page).max(1);
        let address = |at: usize| {
            let address = memory.device_address(at);
            address.ok_or_else(|| refused(function, "a device address", Errno::EFAULT))
        };
        let levels = match pages {
            1 => 0,
            2..=PAGE_ENTRIES => 1,
            _ => 2,
        };
        let levels = u8::max(levels, least);
        if levels == 0 {
            return Ok(PageTable { _tables: alloc::vec::Vec::new(), top: address(0)?, levels });
        }
        let mut leaves = alloc::vec::Vec::with_capacity(pages);
        for index in 0..pages {
            let mut entry = PageEntry::to(address(index * page)?);
            if purpose == Purpose::Ring {
                entry.set_last(index + 1 == pages);
                entry.set_next_to_last(index + 2 == pages);
            }
            leaves.push(entry);
        }
        let leaf = table(function, &leaves)?;
        let leaf_address = |at: usize| {
            let address = leaf.device_address(at);
            address.ok_or_else(|| refused(function, "a device address", Errno::EFAULT))
        };
        if levels == 1 {
            let top = leaf_address(0)?;
            return Ok(PageTable { _tables: alloc::vec![leaf], top, levels });
        }
        let mut directory = alloc::vec::Vec::new();
        for at in (0..pages.div_ceil(PAGE_ENTRIES)).map(|index| index * PAGE_BYTES) {
            directory.push(PageEntry::to(leaf_address(at)?));
        }
        let directory = table(function, &directory)?;
        if directory.granule() < directory_bytes(pages) {
            // The NIC takes a directory for one block.
            return Err(refused(function, "memory in one block for a directory", Errno::ENOMEM));
        }
        let top = directory.device_address(0);
        let top = top.ok_or_else(|| refused(function, "a device address", Errno::EFAULT))?;
        Ok(PageTable { _tables: alloc::vec![leaf, directory], top, levels })
    }
}

/// Bytes of the directory of a table of `pages` pages.
const fn directory_bytes(pages: usize) -> usize {
    pages.div_ceil(PAGE_ENTRIES) * size_of::<PageEntry>()
}

/// Memory that holds `entries`, and zeroes after them.
fn table<F: PciFunction>(function: &F, entries: &[PageEntry]) -> Result<F::Memory, Error> {
    use zerocopy::IntoBytes;
    let bytes = entries.as_bytes();
    let memory = allocate(function, bytes.len().next_multiple_of(PAGE_BYTES))?;
    write(&memory, 0, bytes);
    Ok(memory)
}

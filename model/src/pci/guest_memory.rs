//! The guest's memory, by device address.
//!
//! A machine says which of its memory a function may reach: ranges of device addresses, each with a
//! file and an offset in it. Behind an IOMMU there are many thousands of small ranges, nearly all
//! of one file. So each file is mapped once and whole, and stays mapped for as long as the memory
//! lives; a range is only an entry of an ordered map.

use crate::memory::{AddressSpace, Direction, Fault, Window};
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

/// The guest's memory.
#[derive(Default)]
pub struct GuestMemory(RwLock<Maps>);

#[derive(Default)]
struct Maps {
    files: Vec<MappedFile>,
    /// By first device address; no two overlap.
    ranges: BTreeMap<u64, Range>,
}

/// A file, mapped whole.
struct MappedFile {
    device: u64,
    inode: u64,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: D1, D2: a mapping belongs to no thread, and its bytes are only touched through windows.
unsafe impl Send for MappedFile {}
// SAFETY: D1, D2: as above.
unsafe impl Sync for MappedFile {}

#[derive(Clone, Copy)]
struct Range {
    length: u64,
    /// Which file, and where in it.
    file: usize,
    offset: usize,
    writable: bool,
}

/// Why a range cannot be mapped.
#[derive(Debug)]
pub enum Unmappable {
    /// It has no bytes, or wraps.
    Bounds,
    /// It overlaps another.
    Overlap,
    /// It leaves its file.
    File,
    /// The file cannot be mapped.
    System(rustix::io::Errno),
}

impl fmt::Display for Unmappable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmappable::Bounds => f.write_str("it has no bytes, or wraps"),
            Unmappable::Overlap => f.write_str("it overlaps a range that is mapped"),
            Unmappable::File => f.write_str("it leaves its file"),
            Unmappable::System(errno) => errno.fmt(f),
        }
    }
}

impl std::error::Error for Unmappable {}

impl GuestMemory {
    /// No memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Maps the `length` bytes at `offset` of `file` to device address `address`.
    pub fn map(
        &self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> Result<(), Unmappable> {
        let last = length.checked_sub(1).and_then(|more| address.checked_add(more));
        let last = last.ok_or(Unmappable::Bounds)?;
        let mut maps = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // The last range that begins before the end of this one is the only one that can overlap.
        let before = maps.ranges.range(..=last).next_back();
        if before.is_some_and(|(&start, range)| start + (range.length - 1) >= address) {
            return Err(Unmappable::Overlap);
        }
        let file = maps.file(file)?;
        let end = offset.checked_add(length).ok_or(Unmappable::File)?;
        if end > maps.files[file].length as u64 {
            return Err(Unmappable::File);
        }
        let range = Range { length, file, offset: offset as usize, writable };
        maps.ranges.insert(address, range);
        Ok(())
    }

    /// Unmaps whatever is mapped of the `length` bytes from `address` on, which may end at 2^64 or
    /// beyond. Ranges that reach over an end keep the rest.
    ///
    /// Nothing reaches the memory through those addresses after this. The caller holds the lock that
    /// the NIC holds when it touches memory.
    pub fn unmap(&self, address: u64, length: u64) {
        let Some(last) = length.checked_sub(1).map(|more| address.saturating_add(more)) else {
            return;
        };
        let mut maps = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let starts: Vec<u64> = maps
            .ranges
            .range(..=last)
            .rev()
            .take_while(|&(&start, range)| start + (range.length - 1) >= address)
            .map(|(&start, _)| start)
            .collect();
        for start in starts {
            let Some(range) = maps.ranges.remove(&start) else { continue };
            let end = start + (range.length - 1);
            if start < address {
                maps.ranges.insert(start, Range { length: address - start, ..range });
            }
            if end > last {
                let skipped = last - start + 1;
                let rest =
                    Range { length: end - last, offset: range.offset + skipped as usize, ..range };
                maps.ranges.insert(last + 1, rest);
            }
        }
    }

    /// Unmaps everything.
    pub fn unmap_all(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).ranges.clear();
    }

    /// The number of ranges.
    pub fn ranges(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).ranges.len()
    }
}

impl Maps {
    /// The place of `file` among the files, mapped if it was not.
    fn file(&mut self, file: &File) -> Result<usize, Unmappable> {
        let status = fstat(file).map_err(Unmappable::System)?;
        let length = usize::try_from(status.st_size).map_err(|_| Unmappable::File)?;
        let (device, inode) = (status.st_dev, status.st_ino);
        let known = self.files.iter().rposition(|known| {
            (known.device, known.inode) == (device, inode) && known.length >= length
        });
        if let Some(known) = known {
            return Ok(known);
        }
        if length == 0 {
            return Err(Unmappable::File);
        }
        // SAFETY: D1: a new mapping, at a place that the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                0,
            )
        };
        let start = start.map_err(Unmappable::System)?;
        let start = NonNull::new(start.cast()).ok_or(Unmappable::File)?;
        self.files.push(MappedFile { device, inode, start, length });
        Ok(self.files.len() - 1)
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: D1: the mapping is this one's own; windows into it borrow the memory that owns it,
        // so none is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

// SAFETY: D1: a window lies in a file that is mapped, readable and writable, until the memory is
// dropped, which the window borrows. The machine does not shrink the files that it shares. M2: no
// reference to the bytes is ever made here.
unsafe impl AddressSpace for GuestMemory {
    fn window(&self, address: u64, len: usize, direction: Direction) -> Result<Window<'_>, Fault> {
        if len == 0 {
            // SAFETY: D1: no bytes.
            return Ok(unsafe { Window::new(NonNull::dangling(), 0) });
        }
        let fault = Fault { address, len };
        let maps = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (start, range) = maps.ranges.range(..=address).next_back().ok_or(fault)?;
        let within = address - start;
        let left = range.length.checked_sub(within).filter(|&left| left > 0).ok_or(fault)?;
        if direction == Direction::ToMemory && !range.writable {
            return Err(fault);
        }
        let file = maps.files.get(range.file).ok_or(fault)?;
        let at = range.offset + within as usize;
        let len = len.min(left.try_into().unwrap_or(usize::MAX));
        // SAFETY: D1: `map` checked that the range lies in its file.
        Ok(unsafe { Window::new(file.start.add(at), len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use std::os::unix::fs::FileExt;

    const PAGE: u64 = 4096;

    fn file(pages: u64) -> File {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, pages * PAGE).unwrap();
        File::from(file)
    }

    fn space(memory: &GuestMemory) -> &dyn AddressSpace {
        memory
    }

    #[test]
    fn an_access_crosses_ranges_that_lie_apart_in_the_file() {
        let (memory, file) = (GuestMemory::new(), file(4));
        memory.map(0x10_000, PAGE, &file, 2 * PAGE, true).unwrap();
        memory.map(0x11_000, PAGE, &file, 0, true).unwrap();
        space(&memory).write(0x10_ffc, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        let mut bytes = [0; 4];
        file.read_exact_at(&mut bytes, 3 * PAGE - 4).unwrap();
        assert_eq!(bytes, [1, 2, 3, 4]);
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [5, 6, 7, 8]);
        assert!(space(&memory).write(0x11_ffc, &[0; 8]).is_err());
        assert!(space(&memory).read(0xf_fff, &mut [0; 1]).is_err());
    }

    #[test]
    fn read_only_ranges_are_not_written() {
        let (memory, file) = (GuestMemory::new(), file(1));
        memory.map(0, PAGE, &file, 0, false).unwrap();
        assert!(space(&memory).read(0, &mut [0; 8]).is_ok());
        assert!(space(&memory).write(0, &[0; 8]).is_err());
    }

    #[test]
    fn one_unmap_takes_all_ranges_inside_and_cuts_those_that_reach_over() {
        let (memory, file) = (GuestMemory::new(), file(8));
        for page in 0..8 {
            memory.map(page * PAGE, PAGE, &file, page * PAGE, true).unwrap();
        }
        file.write_all_at(&[9], 5 * PAGE + 100).unwrap();
        memory.unmap(2 * PAGE + 50, 3 * PAGE);
        assert_eq!(memory.ranges(), 6);
        let reads = |at| {
            let mut byte = [0];
            space(&memory).read(at, &mut byte).map(|()| byte[0])
        };
        assert!(reads(2 * PAGE + 49).is_ok());
        assert!(reads(2 * PAGE + 50).is_err() && reads(5 * PAGE + 49).is_err());
        assert_eq!(reads(5 * PAGE + 100), Ok(9));
    }

    #[test]
    fn unmapping_what_is_not_there_and_past_the_end_of_addresses_does_no_harm() {
        let (memory, file) = (GuestMemory::new(), file(2));
        memory.unmap(0, u64::MAX);
        memory.map(u64::MAX - PAGE + 1, PAGE, &file, 0, true).unwrap();
        memory.map(0, PAGE, &file, PAGE, true).unwrap();
        memory.unmap(0xfef0_0000, 0xffff_ffff_0110_0000);
        assert_eq!(memory.ranges(), 1);
        memory.unmap(PAGE, 0);
        memory.unmap(0, u64::MAX);
        assert_eq!(memory.ranges(), 0);
    }

    #[test]
    fn ranges_that_cannot_be_are_refused() {
        let (memory, file) = (GuestMemory::new(), file(2));
        memory.map(PAGE, PAGE, &file, 0, true).unwrap();
        let refused = |address, length, offset| memory.map(address, length, &file, offset, true);
        assert!(matches!(refused(0, 2 * PAGE, 0), Err(Unmappable::Overlap)));
        assert!(matches!(refused(PAGE + 1, 1, 0), Err(Unmappable::Overlap)));
        assert!(matches!(refused(0, 0, 0), Err(Unmappable::Bounds)));
        assert!(matches!(refused(u64::MAX, 2, 0), Err(Unmappable::Bounds)));
        assert!(matches!(refused(0x10_000, 2 * PAGE, 1), Err(Unmappable::File)));
        assert!(matches!(refused(0x10_000, 1, u64::MAX), Err(Unmappable::File)));
        assert_eq!(memory.ranges(), 1);
    }
}

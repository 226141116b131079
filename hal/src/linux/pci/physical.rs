//! A function with no IOMMU in front of it: registers mapped from sysfs, memory by its physical
//! addresses. For machines without an IOMMU, or with one that translates nothing.
//!
//! The function then reaches all of the machine's memory: this process is trusted like a kernel driver.
//! What it takes, and what it relies on, is SAFETY.md, P2.

use super::super::machine::{FileError, Machine};
use super::super::memory::{Anonymous, HugePage};
use super::bar::MappedBar;
use crate::Errno;
use crate::memory::DmaMemory;
use crate::pci::BusAddress;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Memory is taken in pages of this size, which are in one block and never moved.
const HUGE: usize = HugePage::Mib2.bytes();
/// The smallest piece of one.
const PIECE: usize = 4096;
/// An entry of `/proc/self/pagemap`: the page is in memory, and its number is in the low bits
/// (Linux' `Documentation/admin-guide/mm/pagemap.rst`).
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// A function that this process drives by physical addresses.
#[derive(Debug)]
pub(super) struct Physical {
    directory: PathBuf,
    pagemap: Arc<OwnedFd>,
    pool: Arc<Mutex<Pool>>,
}

impl Physical {
    /// Takes the function at `address`, which no driver has.
    pub(super) fn open(machine: &Machine, address: BusAddress) -> Result<Self, FileError> {
        let directory = machine.pci_path(address);
        let path = machine.path("proc/self/pagemap");
        let pagemap = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let pagemap =
            pagemap.map_err(|reason| FileError { action: "open", path, reason: reason.into() })?;
        // Switches the function on, which no driver has done.
        let enable = directory.join("enable");
        fs::write(&enable, "1").map_err(|reason| FileError {
            action: "write to",
            path: enable,
            reason,
        })?;
        let pool = Arc::new(Mutex::new(Pool::default()));
        Ok(Physical { directory, pagemap: Arc::new(pagemap), pool })
    }

    pub(super) fn bar(&self, number: u8) -> Result<MappedBar, Errno> {
        let path = self.directory.join(alloc::format!("resource{number}"));
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::SYNC;
        let file = rustix::fs::open(&path, flags, Mode::empty())?;
        let size = rustix::fs::fstat(&file)?.st_size;
        MappedBar::map(file.as_fd(), 0, u64::try_from(size).map_err(|_| Errno::ENXIO)?)
    }

    pub(super) fn reset(&self) -> Result<(), Errno> {
        let written = fs::write(self.directory.join("reset"), "1");
        written.map_err(|error| Errno(error.raw_os_error().unwrap_or(Errno::EIO.0)))
    }

    /// At least `len` bytes, zeroed: in one block if they are at most 2 MiB, and in blocks of 2 MiB
    /// otherwise.
    pub(super) fn allocate(&self, len: usize) -> Result<Block, Errno> {
        let size = len.max(PIECE).checked_next_power_of_two().ok_or(Errno::ENOMEM)?;
        if size > HUGE {
            let huge = Huge::new(&self.pagemap, len)?;
            return Ok(Block { at: 0, len: huge.memory.len(), granule: HUGE, huge, pool: None });
        }
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let (huge, at) = match pool.take(size) {
            Some(piece) => piece,
            None => {
                let huge = Huge::new(&self.pagemap, HUGE)?;
                pool.add(huge);
                pool.take(size).ok_or(Errno::ENOMEM)?
            }
        };
        drop(pool);
        let pool = Some(self.pool.clone());
        let block = Block { at, len: size, granule: size, huge, pool };
        // SAFETY: M1: the piece is this block's alone.
        unsafe { block.start().write_bytes(0, size) };
        Ok(block)
    }

    /// Where the pages of `len` bytes from `start` on are, which stay in memory from here on.
    pub(super) fn pin(&self, start: NonNull<u8>, len: usize) -> Result<Vec<u64>, Errno> {
        // SAFETY: M1: our caller's bytes, of which this changes none.
        unsafe { rustix::mm::mlock(start.as_ptr().cast(), len) }?;
        let address = start.as_ptr() as usize;
        (0..len).step_by(PIECE).map(|at| frame(&self.pagemap, address + at)).collect()
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        // The kernel counts who has switched a function on, and the next driver is to find it off: its
        // bus mastering is off then, too. A function that is gone has nothing to be switched off.
        let _ = fs::write(self.directory.join("enable"), "0");
    }
}

/// The physical address of the page at `address`.
fn frame(pagemap: &OwnedFd, address: usize) -> Result<u64, Errno> {
    let mut entry = [0; 8];
    let at = (address / PIECE * entry.len()) as u64;
    if rustix::io::pread(pagemap, &mut entry, at)? != entry.len() {
        return Err(Errno::EFAULT);
    }
    let entry = u64::from_ne_bytes(entry);
    match entry & FRAME {
        // Without CAP_SYS_ADMIN, every page seems to be number 0.
        0 => Err(Errno::EPERM),
        frame if entry & PRESENT != 0 => Ok(frame * PIECE as u64),
        _ => Err(Errno::EFAULT),
    }
}

/// Huge pages, and where each is.
#[derive(Debug)]
struct Huge {
    memory: Anonymous,
    frames: Vec<u64>,
}

impl Huge {
    fn new(pagemap: &OwnedFd, len: usize) -> Result<Arc<Self>, Errno> {
        let memory = Anonymous::huge(len, HugePage::Mib2)?;
        let start = memory.as_ptr();
        let frames = (0..memory.len()).step_by(HUGE).map(|at| {
            // The page is there once it was touched.
            // SAFETY: M1: the memory is ours, and this is inside of it.
            unsafe { start.add(at).write_volatile(0) };
            frame(pagemap, start.as_ptr() as usize + at)
        });
        let frames = frames.collect::<Result<_, _>>()?;
        Ok(Arc::new(Huge { memory, frames }))
    }
}

/// Pieces of huge pages that are free, each a power of two of bytes.
#[derive(Debug, Default)]
pub(super) struct Pool {
    free: BTreeMap<usize, Vec<(Arc<Huge>, usize)>>,
}

impl Pool {
    fn add(&mut self, huge: Arc<Huge>) {
        self.free.entry(HUGE).or_default().push((huge, 0));
    }

    /// A piece of `size` bytes, cut from the smallest that is large enough.
    fn take(&mut self, size: usize) -> Option<(Arc<Huge>, usize)> {
        let (larger, pieces) =
            self.free.range_mut(size..).find(|(_, pieces)| !pieces.is_empty())?;
        let (huge, at) = pieces.pop()?;
        let mut left = *larger;
        while left > size {
            left /= 2;
            self.free.entry(left).or_default().push((huge.clone(), at + left));
        }
        Some((huge, at))
    }
}

/// Memory by its physical addresses.
#[derive(Debug)]
pub(super) struct Block {
    huge: Arc<Huge>,
    at: usize,
    pub(super) len: usize,
    pub(super) granule: usize,
    /// Where it goes back to.
    pool: Option<Arc<Mutex<Pool>>>,
}

impl Block {
    pub(super) fn start(&self) -> NonNull<u8> {
        // SAFETY: M1: the piece lies in its huge page.
        unsafe { self.huge.memory.as_ptr().add(self.at) }
    }

    pub(super) fn device_address(&self, at: usize) -> Option<u64> {
        if at >= self.len {
            return None;
        }
        let at = self.at + at;
        Some(self.huge.frames.get(at / HUGE)? + (at % HUGE) as u64)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Some(pool) = &self.pool {
            let mut pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            pool.free.entry(self.len).or_default().push((self.huge.clone(), self.at));
        }
    }
}

/// Where `len` bytes from `offset` on behind base address register `bar` of the function in `directory`
/// are (the lines of its `resource` file: first, last, flags).
pub(super) fn resource(
    directory: &Path,
    bar: u8,
    offset: u64,
    len: usize,
) -> Result<u64, FileError> {
    let path = directory.join("resource");
    let failed = |reason| FileError { action: "read", path: path.clone(), reason };
    let text = fs::read_to_string(&path).map_err(failed)?;
    let invalid = |what: &str| failed(io::Error::new(io::ErrorKind::InvalidData, what.to_string()));
    let line = text.lines().nth(bar.into()).ok_or_else(|| invalid("there is no such line"))?;
    let mut numbers = line
        .split_whitespace()
        .map_while(|number| u64::from_str_radix(number.trim_start_matches("0x"), 16).ok());
    let (Some(first), Some(last), Some(flags)) = (numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(invalid("a line holds no three numbers"));
    };
    /// `IORESOURCE_MEM`.
    const MEMORY: u64 = 0x200;
    if flags & MEMORY == 0 || last < first {
        return Err(invalid("it is no memory"));
    }
    let size = (last - first).saturating_add(1);
    let end = offset.checked_add(len as u64);
    if !offset.is_multiple_of(PIECE as u64) || end.is_none_or(|end| end > size) {
        return Err(invalid("the memory there is shorter"));
    }
    Ok(first + offset)
}

#[cfg(test)]
mod tests {
    use super::super::listing::made_up::MadeUp;
    use super::*;

    #[test]
    fn a_function_that_is_taken_is_switched_on_and_off_again_when_it_is_let_go() {
        let made_up = MadeUp::new();
        made_up.function("0000:c1:00.0", 0x1760, None, None);
        fs::create_dir_all(made_up.path("proc/self")).unwrap();
        fs::write(made_up.path("proc/self/pagemap"), "").unwrap();
        let address = BusAddress::parse("0000:c1:00.0").unwrap();
        let function = made_up.machine().take_pci_function(address).unwrap();
        assert_eq!(made_up.text("0000:c1:00.0", "enable"), "1");
        drop(function);
        assert_eq!(made_up.text("0000:c1:00.0", "enable"), "0");
    }

    #[test]
    fn a_devices_memory_is_where_its_resource_file_says() {
        let directory = tempfile::tempdir().unwrap();
        let lines = "0x00000000f0000000 0x00000000f0ffffff 0x0000000000140204\n\
                     0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                     0x000000000000e000 0x000000000000e01f 0x0000000000040101\n";
        fs::write(directory.path().join("resource"), lines).unwrap();
        let at = |bar, offset, len| resource(directory.path(), bar, offset, len);
        assert_eq!(at(0, 0, 4096).unwrap(), 0xf000_0000);
        assert_eq!(at(0, 0xff_f000, 4096).unwrap(), 0xf0ff_f000);
        for (bar, offset, len) in [
            (0, 0xff_f000, 4097),
            (0, 1, 1),
            (0, u64::MAX - 4095, 8192),
            (1, 0, 1),
            (2, 0, 1),
            (3, 0, 1),
        ] {
            assert!(at(bar, offset, len).is_err(), "{bar} {offset:#x} {len}");
        }
    }
}

//! A function at the other end of a socket.

use super::super::mapping::MappedPage;
use super::super::pci::AddressSpace;
use super::client::Client;
use crate::Errno;
use crate::memory::DmaMemory;
use crate::mmio::{Register, RegisterPage};
use crate::pci::{Bar, BusAddress, DeviceAddresses, Interrupts, PciFunction};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::time::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::Advice;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The region that is the configuration space (`VFIO_PCI_CONFIG_REGION_INDEX`).
const CONFIGURATION: u32 = 7;
/// Memory that is at least so long is at a multiple of it, so that it has large pages for the function.
const GRANULE: usize = 2 << 20;

/// A PCI function that another process emulates, such as `doorbell model netxtreme --socket PATH`.
///
/// Its memory is shared with that process, and its registers are messages on a socket: each store to a
/// doorbell is one, and is answered. Memory of this process cannot be made reachable for it, but what
/// is allocated through it, nor can another device's.
pub struct EmulatedFunction {
    link: Arc<Link>,
    since: Instant,
}

/// What everything that the function has given out keeps alive.
struct Link {
    client: Client,
    addresses: Mutex<AddressSpace>,
}

impl EmulatedFunction {
    /// Connects to who listens at `path`. There is one at a time who drives the function.
    pub fn connect(path: &Path) -> Result<Self, Errno> {
        let link =
            Link { client: Client::connect(path)?, addresses: Mutex::new(AddressSpace::new()) };
        Ok(EmulatedFunction { link: Arc::new(link), since: Instant::now() })
    }
}

/// Memory that is shared with whoever emulates a function.
pub struct EmulatedMemory {
    page: MappedPage,
    len: usize,
    address: u64,
    link: Arc<Link>,
}

impl EmulatedMemory {
    fn new(link: &Arc<Link>, len: usize) -> Result<Self, Errno> {
        let page = rustix::param::page_size();
        let len = len.max(1).checked_next_multiple_of(page).ok_or(Errno::ENOMEM)?;
        let file = memfd_create("device memory", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, len as u64)?;
        let mapped = MappedPage::map_readable(file.as_fd(), 0, len)?;
        let start = mapped.start().as_ptr().cast();
        // SAFETY: M1: the range is the mapping just made, and the advice changes no byte of it.
        unsafe { rustix::mm::madvise(start, len, Advice::LinuxDontFork) }?;
        let align = if len >= GRANULE { GRANULE } else { page };
        let addresses = || link.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let address = addresses().take(len as u64, align as u64).ok_or(Errno::ENOSPC)?;
        if let Err(refused) = link.client.map(address, len as u64, file.as_fd()) {
            addresses().give_back(address, len as u64);
            return Err(refused);
        }
        Ok(EmulatedMemory { page: mapped, len, address, link: Arc::clone(link) })
    }
}

impl Drop for EmulatedMemory {
    fn drop(&mut self) {
        // The address is not used again if whoever emulates the function might not have let go of it;
        // the memory is only this process's mapping of what both share.
        if self.link.client.unmap(self.address, self.len as u64).is_ok() {
            let addresses = self.link.addresses.lock();
            addresses
                .unwrap_or_else(PoisonError::into_inner)
                .give_back(self.address, self.len as u64);
        }
    }
}

// SAFETY: M1: a new mapping of a new file, zeroed and page aligned, which nothing else of this process
// refers to, until it is dropped.
unsafe impl DmaMemory for EmulatedMemory {
    fn as_ptr(&self) -> NonNull<u8> {
        self.page.start()
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl DeviceAddresses for EmulatedMemory {
    fn reach(&self) -> usize {
        self.len
    }

    fn granule(&self) -> usize {
        // It is in one piece, which starts at a multiple of its alignment.
        if self.len >= GRANULE { GRANULE } else { rustix::param::page_size() }
    }

    fn device_address(&self, at: usize) -> Option<u64> {
        (at < self.len).then(|| self.address + at as u64)
    }
}

/// Memory of others is not shared with the process that emulates a function: there is none.
pub enum NotPinned {}

impl DeviceAddresses for NotPinned {
    fn reach(&self) -> usize {
        match *self {}
    }

    fn granule(&self) -> usize {
        match *self {}
    }

    fn device_address(&self, _: usize) -> Option<u64> {
        match *self {}
    }
}

/// Registers behind a BAR of the function.
pub struct EmulatedBar {
    link: Arc<Link>,
    number: u8,
    size: u64,
}

/// A register of the function.
pub struct EmulatedRegister {
    link: Arc<Link>,
    number: u8,
    at: u64,
}

impl RegisterPage for EmulatedBar {
    type Register = EmulatedRegister;

    fn register(&self, offset: usize, len: usize) -> Option<EmulatedRegister> {
        let end = offset.checked_add(len)?;
        let inside = end as u64 <= self.size && offset.is_multiple_of(8);
        let (number, at) = (self.number, offset as u64);
        inside.then(|| EmulatedRegister { link: Arc::clone(&self.link), number, at })
    }
}

impl Register for EmulatedRegister {
    unsafe fn store(&self, at: usize, value: u64) {
        // A store to a function that is gone goes nowhere, as on a bus.
        let place = self.at + at as u64;
        let _ = self.link.client.write(self.number.into(), place, &value.to_ne_bytes());
    }

    unsafe fn copy(&self, at: usize, slot: &[u64; 8]) {
        for (word, value) in slot.iter().enumerate() {
            // SAFETY: R1: passed on to our caller.
            unsafe { self.store(at + 8 * word, *value) };
        }
    }
}

impl Bar for EmulatedBar {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64) -> Option<u32> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.size {
            return None;
        }
        let mut word = [0; 4];
        // A function that is gone reads as ones.
        let read = self.link.client.read(self.number.into(), at, &mut word);
        Some(read.map_or(u32::MAX, |()| u32::from_le_bytes(word)))
    }

    fn write(&self, at: u64, value: u32) -> Option<()> {
        if !at.is_multiple_of(4) || at.checked_add(4)? > self.size {
            return None;
        }
        let _ = self.link.client.write(self.number.into(), at, &value.to_le_bytes());
        Some(())
    }
}

/// Enabled vectors, each with an event file. Dropping it disables them.
pub struct EventFiles {
    files: Vec<OwnedFd>,
    link: Arc<Link>,
}

impl Interrupts for EventFiles {
    fn wait(&self, timeout: Duration) -> Result<Option<u16>, Errno> {
        let mut files: Vec<_> =
            self.files.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
        // A timeout past what the kernel counts waits for ever.
        match poll(&mut files, Timespec::try_from(timeout).ok().as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        for (vector, file) in (0..).zip(&self.files) {
            match rustix::io::read(file, &mut [0; 8]) {
                Ok(_) => return Ok(Some(vector)),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }
}

impl Drop for EventFiles {
    fn drop(&mut self) {
        // Whoever emulates the function signals files that nobody reads any more, if it does not answer.
        let _ = self.link.client.listen(&[]);
    }
}

// SAFETY: M1, P1: memory is a file's, mapped here and handed to the other process, at device addresses
// that are its alone until that process has let go of it. That process reaches no other memory of this
// one: it has files, and no addresses.
unsafe impl PciFunction for EmulatedFunction {
    type Memory = EmulatedMemory;
    type Pinned = NotPinned;
    type Bar = EmulatedBar;
    type Interrupts = EventFiles;

    fn bus_address(&self) -> BusAddress {
        // It is on no bus of this machine.
        const NOWHERE: BusAddress = match BusAddress::new(0, 0, 0, 0) {
            Some(address) => address,
            None => unreachable!(),
        };
        NOWHERE
    }

    fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno> {
        self.link.client.read(CONFIGURATION, at.into(), into)
    }

    fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno> {
        self.link.client.write(CONFIGURATION, at.into(), bytes)
    }

    fn bar(&self, number: u8) -> Result<EmulatedBar, Errno> {
        if number > 5 {
            return Err(Errno::EINVAL);
        }
        match self.link.client.region_bytes(number.into())? {
            0 => Err(Errno::EINVAL),
            size => Ok(EmulatedBar { link: Arc::clone(&self.link), number, size }),
        }
    }

    fn allocate(&self, len: usize) -> Result<EmulatedMemory, Errno> {
        EmulatedMemory::new(&self.link, len)
    }

    unsafe fn pin(&self, _: NonNull<u8>, _: usize) -> Result<NotPinned, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn pin_device(&self, _: BusAddress, _: u8, _: u64, _: usize) -> Result<NotPinned, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    fn interrupts(&self, vectors: u16) -> Result<EventFiles, Errno> {
        if !(1..=16).contains(&vectors) {
            return Err(Errno::EINVAL);
        }
        let file = |_| Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let files = (0..vectors).map(file).collect::<Result<Vec<_>, Errno>>()?;
        let borrowed: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        self.link.client.listen(&borrowed)?;
        Ok(EventFiles { files, link: Arc::clone(&self.link) })
    }

    fn reset(&self) -> Result<(), Errno> {
        self.link.client.reset()
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        super::super::random()
    }

    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    fn pause(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

//! A verbs file whose register pages are memory.

use super::file::VirtualConnectx;
use super::{Control, VirtualEventFile, VirtualEventFiles, VirtualMemory, uar};
use doorbell_hal::Errno;
use doorbell_hal::linux::MappedPage;
use doorbell_hal::uverbs::Uverbs;
use rustix::fd::AsFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

/// An open verbs file whose register pages are plain memory, mapped with the type that maps a real
/// NIC's: a driver's stores to them are the very instructions that it makes on hardware.
///
/// The NIC cannot see stores to memory. It looks at the doorbell records instead, which a driver
/// writes before the registers. So BlueFlame copies are not used, and a driver that forgets its
/// registers is not found out. Tests of a driver want [`VirtualConnectx`]; this is for counting its
/// instructions, and for drivers that know nothing of virtual NICs.
pub struct WatchedConnectx(VirtualConnectx);

impl WatchedConnectx {
    /// The same open file, with register pages that are memory. Pages that are mapped already stay
    /// as they are.
    pub fn new(file: VirtualConnectx) -> Self {
        WatchedConnectx(file)
    }

    /// A hand on the NIC that stays when a driver takes the file.
    pub fn control(&self) -> Control {
        self.0.control()
    }
}

impl WatchedConnectx {
    /// The event files that commands made through this file and the process has not closed: what a
    /// program reads and closes by descriptor.
    pub fn open_event_files(&self) -> Vec<VirtualEventFile> {
        let inner = self.0.file().inner();
        let open = inner.event_files.iter().filter(|(_, queue)| queue.is_open());
        open.map(|(_, queue)| VirtualEventFile(Arc::clone(queue))).collect()
    }

    fn watch(&self, offset: u64, len: usize) -> Result<MappedPage, Errno> {
        let file = self.0.file();
        let page = uar::find(file, offset, len)?.page;
        let memory = memfd_create("register page", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, len as u64)?;
        let mapped = MappedPage::map(memory.as_fd(), 0, len)?;
        file.device.nic(|nic, _, _| nic.watch_uar(page))?;
        Ok(mapped)
    }
}

// SAFETY: K1: as `VirtualConnectx`, which does everything; register pages are memory of their own.
unsafe impl Uverbs for WatchedConnectx {
    type Memory = VirtualMemory;
    type Page = MappedPage;
    type EventFiles = VirtualEventFiles;

    fn device_name(&self) -> &str {
        self.0.device_name()
    }

    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        // SAFETY: K2, passed on to our caller.
        unsafe { self.0.ioctl(command) }
    }

    fn map(&self, offset: u64, len: usize) -> Result<MappedPage, Errno> {
        self.0.file().device.called("mmap")?;
        self.watch(offset, len)
    }

    fn allocate(&self, len: usize) -> Result<VirtualMemory, Errno> {
        self.0.allocate(len)
    }

    unsafe fn event_files(
        &self,
        completion: i32,
        asynchronous: i32,
    ) -> Result<VirtualEventFiles, Errno> {
        // SAFETY: K3, passed on to our caller.
        unsafe { self.0.event_files(completion, asynchronous) }
    }

    fn page_size(&self) -> usize {
        self.0.page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        self.0.random()
    }
}

//! A verbs file whose register pages are memory.

use super::file::VirtualConnectx;
use super::{Control, VirtualEventFiles, VirtualMemory, uar};
use doorbell_hal::Errno;
use doorbell_hal::linux::MappedPage;
use doorbell_hal::uverbs::Uverbs;
use rustix::fd::AsFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;

/// An open verbs file whose register pages are plain memory, mapped with the type that maps a real
/// NIC's: a driver's stores to them are the very instructions that it makes on hardware.
///
/// The NIC cannot see single stores to memory. It looks: at the word that arms completion queues,
/// and at the send counters of the doorbell records. So two arms through one page in quick
/// succession may be seen as one, BlueFlame copies are not used, and a driver that forgets its send
/// register is not found out. Tests of a driver want [`VirtualConnectx`]; this is for counting its
/// instructions.
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

/// The NIC's view of a register page: a mapping for reading.
struct View {
    start: *mut c_void,
    length: usize,
}

// SAFETY: M1: the value owns a mapping, which has no thread of its own, and gives out no access.
unsafe impl Send for View {}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: D1: the NIC drops this when it looks at the page no more; the mapping is ours.
        let _ = unsafe { rustix::mm::munmap(self.start, self.length) };
    }
}

impl WatchedConnectx {
    fn watch(&self, offset: u64, len: usize) -> Result<MappedPage, Errno> {
        let file = self.0.file();
        let page = uar::find(file, offset, len)?.page;
        let memory = memfd_create("register page", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, len as u64)?;
        let mapped = MappedPage::map(memory.as_fd(), 0, len)?;
        // SAFETY: M1: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ,
                MapFlags::SHARED,
                &memory,
                0,
            )
        }?;
        let view = View { start, length: len };
        let address = start.expose_provenance() as u64;
        file.device.nic(|nic, _, _| nic.watch_uar(page, address, Box::new(view)))?;
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

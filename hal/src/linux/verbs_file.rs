//! A verbs file: `/dev/infiniband/uverbsN`.

use super::EventDescriptors;
use super::{Anonymous, MappedPage};
use crate::Errno;
use crate::uverbs::Uverbs;
use alloc::string::String;
use core::ffi::c_void;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use std::io;
use std::path::Path;

/// An open verbs file. The kernel destroys every object made through it when it is dropped, or when
/// the process dies.
#[derive(Debug)]
pub struct VerbsFile {
    file: OwnedFd,
    device: String,
}

impl VerbsFile {
    /// Opens the verbs file at `path`, which belongs to RDMA device `device`.
    pub fn open(device: &str, path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(VerbsFile { file, device: device.into() })
    }
}

impl AsFd for VerbsFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// `RDMA_VERBS_IOCTL` (`rdma/rdma_user_ioctl_cmds.h`): magic 0x1b, number 1, and the size of a
/// `struct ib_uverbs_ioctl_hdr`.
const RDMA_VERBS_IOCTL: Opcode =
    rustix::ioctl::opcode::read_write::<[u8; IOCTL_HEADER_SIZE]>(0x1b, 1);
const IOCTL_HEADER_SIZE: usize = 24;

/// One verbs call on a command in memory.
struct VerbsCall(*mut c_void);

// SAFETY: K2: the opcode is the verbs ioctl's, the pointer is to a command whose length is in its
// header, and the kernel's writes stay inside what the command names, which our caller vouches for.
unsafe impl Ioctl for VerbsCall {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        RDMA_VERBS_IOCTL
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

// SAFETY: K1: the kernel touches only what a command names, and its mlx5_ib driver makes the device
// forget an object's memory before it answers the object's destruction or releases the closed file.
unsafe impl Uverbs for VerbsFile {
    type Memory = Anonymous;
    type Page = MappedPage;
    type EventFiles = EventDescriptors;

    fn device_name(&self) -> &str {
        &self.device
    }

    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno> {
        // SAFETY: K2: our caller vouches for the command.
        Ok(unsafe { rustix::ioctl::ioctl(&self.file, VerbsCall(command.as_mut_ptr().cast())) }?)
    }

    fn map(&self, offset: u64, len: usize) -> Result<MappedPage, Errno> {
        MappedPage::map(self.file.as_fd(), offset, len)
    }

    fn allocate(&self, len: usize) -> Result<Anonymous, Errno> {
        Anonymous::new(len)
    }

    unsafe fn event_files(
        &self,
        completion: i32,
        asynchronous: i32,
    ) -> Result<EventDescriptors, Errno> {
        // SAFETY: K3: our caller got the descriptors from successful calls and takes them once.
        unsafe { EventDescriptors::take(completion, asynchronous) }
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        super::random()
    }
}

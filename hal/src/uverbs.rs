//! A kernel's user verbs file: what a driver that shares its NIC with the kernel stands on.

use crate::Errno;
use crate::memory::DmaMemory;
use crate::mmio::RegisterPage;
use core::time::Duration;

/// An open verbs file of one RDMA device.
///
/// The kernel destroys every object made through the file when the file closes, which is when this
/// value is dropped.
///
/// # Safety
///
/// The implementer promises that:
/// - [`ioctl`](Self::ioctl) reads and writes only memory that the command names;
/// - memory that a successful command handed to the device (a ring, a record, a region) is reached
///   by the device only until the object is destroyed or the file is closed;
/// - [`allocate`](Self::allocate)'s memory keeps [`DmaMemory`]'s promises.
///
/// (SAFETY.md, K1.)
pub unsafe trait Uverbs: Send + Sync + 'static {
    /// Memory for rings, doorbell records and regions.
    type Memory: DmaMemory + 'static;
    /// A mapped page of the device's registers.
    type Page: RegisterPage + 'static;
    /// A file that the kernel reports events through.
    type EventFile: EventFile + 'static;

    /// The name of the RDMA device, such as `mlx5_0`.
    fn device_name(&self) -> &str;

    /// Makes one `RDMA_VERBS_IOCTL` call (`rdma/rdma_user_ioctl_cmds.h`) with `command`, which
    /// begins with a `struct ib_uverbs_ioctl_hdr` and holds its attributes. The kernel writes
    /// answers into the command and to where its attributes point.
    ///
    /// # Safety
    ///
    /// Every pointer that `command` carries is valid for the reads and writes that the command's
    /// method does through it, and whatever the method hands to the device stays mapped until it is
    /// taken back (SAFETY.md, K2).
    unsafe fn ioctl(&self, command: &mut [u64]) -> Result<(), Errno>;

    /// Maps `len` bytes of the device's registers at `offset`, an offset that the kernel gave.
    fn map(&self, offset: u64, len: usize) -> Result<Self::Page, Errno>;

    /// Allocates at least `len` bytes, zeroed, starting at a page boundary. A child of `fork` does
    /// not inherit them.
    fn allocate(&self, len: usize) -> Result<Self::Memory, Errno>;

    /// Takes the event file whose descriptor a command answered with.
    ///
    /// # Safety
    ///
    /// `descriptor` came out of a successful [`ioctl`](Self::ioctl) on this file, and is taken once
    /// (SAFETY.md, K3).
    unsafe fn event_file(&self, descriptor: i32) -> Result<Self::EventFile, Errno>;

    /// The size of a page in bytes, a power of two.
    fn page_size(&self) -> usize;
}

/// A file that the kernel writes event records to.
pub trait EventFile: Send + Sync {
    /// Reads whole records into `buffer` and says how many bytes were read. Never waits:
    /// [`Errno::EAGAIN`] says that there is nothing.
    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Waits until one of `files` can be read, or `timeout` has passed. Says which can be; all
    /// false after a timeout or a signal.
    fn wait(files: [&Self; 2], timeout: Duration) -> Result<[bool; 2], Errno>;
}

//! A kernel's user verbs file: what a driver that shares its NIC with the kernel stands on.

use crate::Errno;
use crate::memory::DmaMemory;
use crate::mmio::RegisterPage;
use core::time::Duration;

/// An open verbs file of one RDMA device.
///
/// The kernel destroys every object made through the file when the file closes, which is when this
/// value and every page and register [mapped](Self::map) from it are dropped.
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
    /// The pair of files that the kernel reports events through.
    type EventFiles: EventFiles + 'static;

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

    /// Takes the event files whose descriptors commands answered with: one for completion events
    /// (a completion channel), one for asynchronous events.
    ///
    /// # Safety
    ///
    /// Both descriptors came out of successful [`ioctl`](Self::ioctl)s on this file, and are taken
    /// once, whatever the result (SAFETY.md, K3).
    unsafe fn event_files(
        &self,
        completion: i32,
        asynchronous: i32,
    ) -> Result<Self::EventFiles, Errno>;

    /// The size of a page in bytes, a power of two.
    fn page_size(&self) -> usize;

    /// A random number that a peer cannot guess, for a connection's first packet sequence number.
    fn random(&self) -> Result<u32, Errno>;
}

/// A pair of files that the kernel writes event records to.
pub trait EventFiles: Send + Sync {
    /// Reads whole records of completion events into `buffer` and says how many bytes were read.
    /// Never waits: [`Errno::EAGAIN`] says that there is none.
    fn read_completion(&self, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Reads one record of an asynchronous event into `buffer` and says how many bytes were read.
    /// Never waits: [`Errno::EAGAIN`] says that there is none.
    fn read_asynchronous(&self, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Waits until either file has a record, `timeout` has passed, or a signal came.
    fn wait(&self, timeout: Duration) -> Result<(), Errno>;
}

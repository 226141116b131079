//! Regions of a device's memory, exported as a dma-buf.
//!
//! A dma-buf of this process is whatever descriptor can be mapped shared: a udmabuf, a memfd, a
//! dma-heap buffer. The model maps it, and the NIC reaches it there.

use super::attributes::Call;
use super::file::{Outcome, State};
use super::objects::Object;
use super::{methods, region};
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::method;
use doorbell_hal::Errno;
use rustix::fd::BorrowedFd;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use zerocopy::IntoBytes;

/// A dma-buf, mapped.
pub(super) struct Mapping {
    start: *mut c_void,
    length: usize,
}

// SAFETY: M1: the value owns a mapping, which has no thread of its own, and gives out no access.
unsafe impl Send for Mapping {}
// SAFETY: M1: as for `Send`; there is nothing to call on a shared value.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: D1: the key was destroyed before its region was dropped, so that no NIC touches
        // the mapping; it is this value's own.
        let _ = unsafe { rustix::mm::munmap(self.start, self.length) };
    }
}

/// Access flags that a dma-buf region may have.
const ALLOWED: u32 = 0xf | 1 << 20;

/// `UVERBS_METHOD_REG_DMABUF_MR`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn register(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    use method::reg_dmabuf_mr as attribute;
    let domain = call.handle(attribute::PD_HANDLE).ok_or(Errno::ENOENT)?;
    // SAFETY: K2, passed on to our caller.
    let (offset, length, iova, descriptor) = unsafe {
        (
            call.input::<u64>(attribute::OFFSET)?,
            call.input::<u64>(attribute::LENGTH)?,
            call.input::<u64>(attribute::IOVA)?,
            call.input::<u32>(attribute::FD)?,
        )
    };
    let page = super::user::page_size() - 1;
    if offset & page != iova & page {
        return Err(Errno::EINVAL);
    }
    let flags = AccessFlags::from(call.flags(attribute::ACCESS_FLAGS, ALLOWED)?);
    region::check_access(flags)?;
    if call.flags(methods::DMABUF_DATA_DIRECT, 1)? != 0 {
        // `reg_user_mr_dmabuf_by_data_direct`: there is no data direct function.
        return Err(Errno::EINVAL);
    }
    // SAFETY: K2, passed on to our caller: the descriptor is an open one of this process.
    let (mapping, start) = unsafe { map(descriptor, offset, length, flags) }?;
    let made = region::register(
        state,
        region::Made { domain, start, length, iova, flags, pinned: 0, mapping: Some(mapping) },
    )?;
    let key = made.key;
    // SAFETY: K2, passed on to our caller.
    let answered = unsafe {
        call.output(attribute::RESP_LKEY, key.as_bytes())
            .and_then(|()| call.output(attribute::RESP_RKEY, key.as_bytes()))
    };
    if let Err(errno) = answered {
        let _ = state.device.nic(|nic, fabric, _| nic.destroy_key(key, fabric));
        return Err(errno);
    }
    Ok(Outcome::Made(Object::Region(made)))
}

/// `ib_umem_dmabuf_get`: the mapping, and the address of the byte at `offset`.
///
/// # Safety
///
/// K2: `descriptor` is open for the time of the call, or not open at all.
unsafe fn map(
    descriptor: u32,
    offset: u64,
    length: u64,
    flags: AccessFlags,
) -> Result<(Mapping, u64), Errno> {
    let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
    let descriptor = i32::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // SAFETY: K2, passed on to our caller; a descriptor that is not open is answered with EBADF.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    // `dma_buf_get`: EBADF for no file, EINVAL for a file of another kind.
    let size = rustix::fs::fstat(file)?.st_size;
    // `dma_buf_get`'s other files, and one that is too short, are EINVAL alike.
    if length == 0 || u64::try_from(size).is_ok_and(|size| size < end) {
        return Err(Errno::EINVAL);
    }
    let page = super::user::page_size() - 1;
    let first = offset & !page;
    let mapped = usize::try_from(end - first).map_err(|_| Errno::EINVAL)?;
    let mut protection = ProtFlags::READ;
    if region::is_writable(flags) {
        protection |= ProtFlags::WRITE;
    }
    // SAFETY: M1: a new mapping at an address that the kernel chooses.
    let start = unsafe {
        rustix::mm::mmap(std::ptr::null_mut(), mapped, protection, MapFlags::SHARED, file, first)
    };
    let start = start.map_err(|_| Errno::EINVAL)?;
    // SAFETY: M1: the range is the mapping just made; the advice changes no byte of it.
    let _ = unsafe { rustix::mm::madvise(start, mapped, rustix::mm::Advice::LinuxDontFork) };
    let address = start.expose_provenance() as u64 + (offset - first);
    Ok((Mapping { start, length: mapped }, address))
}

//! Memory regions.

use super::attributes::Call;
use super::file::{Outcome, State};
use super::objects::{Object, Region};
use crate::memory::{Access, Pages, Registration};
use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::abi::verbs::method;
use doorbell_hal::Errno;
use zerocopy::IntoBytes;

/// Every access flag that the kernel knows (`IB_ACCESS_SUPPORTED`): the first ten, and the
/// optional range.
const KNOWN: u32 = 0x3ff | 0x3ff0_0000;

/// Flags that this device cannot (`IB_ACCESS_FLUSH_GLOBAL`, `_PERSISTENT`, `_ON_DEMAND`).
const UNSUPPORTED: u32 = 1 << 8 | 1 << 9 | 1 << 6;

/// `ib_check_mr_access`.
pub(super) fn check_access(flags: AccessFlags) -> Result<(), Errno> {
    let bits = u32::from(flags);
    if (flags.remote_write() || flags.remote_atomic()) && !flags.local_write() {
        return Err(Errno::EINVAL);
    }
    if bits & !KNOWN != 0 {
        return Err(Errno::EINVAL);
    }
    if bits & UNSUPPORTED != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

/// Whether anything may write memory with these flags (`ib_access_writable`).
pub(super) fn is_writable(flags: AccessFlags) -> bool {
    flags.local_write() || flags.remote_write() || flags.remote_atomic() || flags.mw_bind()
}

/// What a region is made of.
pub(super) struct Made {
    /// The handle of its protection domain.
    pub(super) domain: u32,
    /// Where its first byte is.
    pub(super) start: u64,
    pub(super) length: u64,
    /// The address of its first byte in work entries.
    pub(super) iova: u64,
    pub(super) flags: AccessFlags,
    pub(super) pinned: u64,
    pub(super) mapping: Option<super::dmabuf::Mapping>,
}

/// Makes a region of memory that is checked and pinned. Unpins it if the NIC refuses.
pub(super) fn register(state: &State<'_>, made: Made) -> Result<Region, Errno> {
    let Made { domain, start, length, iova, flags, pinned, mapping } = made;
    let number = state.inner.objects.domain(domain.into())?.number;
    let registration = Registration {
        protection_domain: number,
        access: Access::from_verbs(flags.into()),
        start: iova,
        length,
        pages: Pages::Flat { device_start: start },
        relaxed: flags.relaxed_ordering(),
        // `set_mkc_access_pd_addr_fields` never sets `en_rinval`: only memory windows can be
        // invalidated by a peer.
        remote_invalidate: state.device.settings.remote_invalidate,
    };
    match state.device.nic(|nic, _, _| nic.create_key(registration, None)) {
        Ok(key) => Ok(Region { key, domain, length, iova, pinned, _mapping: mapping }),
        Err(errno) => {
            state.device.unpin(pinned);
            Err(errno)
        }
    }
}

/// `UVERBS_METHOD_QUERY_MR`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn query(state: &mut State<'_>, call: &mut Call<'_>) -> Result<Outcome, Errno> {
    let handle = call.handle(method::query_mr::HANDLE).ok_or(Errno::ENOENT)?;
    let &Region { key, length, iova, .. } = state.inner.objects.region(handle.into())?;
    // SAFETY: K2, passed on to our caller.
    unsafe {
        call.output(method::query_mr::RESP_LKEY, key.as_bytes())?;
        call.output(method::query_mr::RESP_RKEY, key.as_bytes())?;
        call.output(method::query_mr::RESP_LENGTH, length.as_bytes())?;
        call.output_if_asked(method::query_mr::RESP_IOVA, iova.as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// Registers memory of the caller (`ib_uverbs_reg_mr`, `mlx5_ib_reg_user_mr`).
pub(super) fn register_memory(
    state: &State<'_>,
    request: &doorbell::mlx5::abi::verbs::write::RegMr,
) -> Result<Region, Errno> {
    let page = super::user::page_size() - 1;
    if request.start & page != request.hca_va & page {
        return Err(Errno::EINVAL);
    }
    state.context()?;
    check_access(request.access_flags)?;
    state.inner.objects.domain(request.pd_handle.into())?;
    let writable = is_writable(request.access_flags);
    let pinned = state.device.pin(request.start, request.length, writable)?;
    register(
        state,
        Made {
            domain: request.pd_handle,
            start: request.start,
            length: request.length,
            iova: request.hca_va,
            flags: request.access_flags,
            pinned,
            mapping: None,
        },
    )
}

/// The object of a region.
pub(super) fn object(region: Region) -> Object {
    Object::Region(region)
}

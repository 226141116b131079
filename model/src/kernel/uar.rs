//! Register pages: objects of the mlx5 driver, and the pages of a context without them.

use super::attributes::Call;
use super::file::{File, Opened, Outcome, State};
use super::objects::{Object, Uar};
use crate::network::{Mapping, UAR_PAGE, VirtualPage};
use doorbell::mlx5::abi::driver::{UarAllocType, uar_alloc};
use doorbell_hal::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// `MLX5_IB_MMAP_OFFSET_START`: the first command of an offset that names an entry.
const FIRST_ENTRY: u64 = 9;
/// `MLX5_IB_MMAP_CMD_SHIFT`.
const COMMAND_SHIFT: u64 = 8;

/// Entries that a file may have.
const ENTRIES: u32 = 1 << 16;

/// The offset to map entry `index` at (`mlx5_entry_to_mmap_offset`).
fn offset_of(index: u64, page: u64) -> u64 {
    ((index >> 8) << 16 | FIRST_ENTRY << COMMAND_SHIFT | index & 0xff) * page
}

/// The index of the entry that is mapped at `offset`.
fn index_of(offset: u64, page: u64) -> Option<u32> {
    let number = offset / page;
    let index = (number >> 16) << 8 | number & 0xff;
    u32::try_from(index).ok().filter(|_| offset_of(index, page) == offset)
}

/// `MLX5_IB_METHOD_UAR_OBJ_ALLOC`.
///
/// # Safety
///
/// K2, for the call.
pub(super) unsafe fn allocate(
    state: &mut State<'_>,
    call: &mut Call<'_>,
) -> Result<Outcome, Errno> {
    state.context()?;
    let kind = call.constant(uar_alloc::TYPE, u32::MAX.into())?;
    match UarAllocType::from_code(kind) {
        Some(UarAllocType::NonCached) => {}
        Some(UarAllocType::BlueFlame) if state.device.capabilities.blue_flame => {}
        Some(UarAllocType::BlueFlame) | None => return Err(Errno::EOPNOTSUPP),
    }
    let page = state.device.nic(|nic, _, _| nic.allocate_uar())?;
    let system_page = super::user::page_size();
    let device = Arc::clone(state.device);
    let mapping = Mapping::new(move || {
        let _ = device.nic(|nic, _, _| nic.free_uar(page));
    });
    let entry = state.inner.objects.take_entry(ENTRIES).ok_or(Errno::ENOMEM)?;
    let mmap_offset = offset_of(entry.index.into(), system_page);
    let length = system_page as u32;
    // SAFETY: K2, passed on to our caller.
    unsafe {
        call.output(uar_alloc::MMAP_OFFSET, mmap_offset.as_bytes())?;
        call.output(uar_alloc::PAGE_ID, page.as_bytes())?;
        call.output(uar_alloc::MMAP_LENGTH, length.as_bytes())?;
    }
    Ok(Outcome::Made(Object::Uar(Uar { page, entry, mapping })))
}

/// A register page that a process may map.
pub(super) struct Found {
    /// The NIC's number of it.
    pub(super) page: u32,
    /// What keeps it with the NIC, for a page that is an object.
    kept: Option<Arc<Mapping>>,
}

/// The register page at `offset`, to be mapped in `len` bytes (`mlx5_ib_mmap`).
pub(super) fn find(file: &File, offset: u64, len: usize) -> Result<Found, Errno> {
    let system_page = super::user::page_size();
    let device = &file.device;
    if device.is_removed() {
        return Err(Errno::EIO);
    }
    if !offset.is_multiple_of(system_page) {
        return Err(Errno::EINVAL);
    }
    let inner = file.inner();
    let context = inner.context.as_ref().ok_or(Errno::EINVAL)?;
    let index = index_of(offset, system_page);
    let entry = index.and_then(|index| inner.objects.uar_at(index));
    // `rdma_user_mmap_io`: the whole entry, no more and no less.
    if len as u64 != system_page || len < UAR_PAGE {
        return Err(Errno::EINVAL);
    }
    match entry {
        Some(uar) => Ok(Found { page: uar.page, kept: Some(Arc::clone(&uar.mapping)) }),
        None => Ok(Found { page: static_page(device, context, offset / system_page)?, kept: None }),
    }
}

/// Maps a register page whose stores the NIC sees. The mapping holds the file open.
pub(super) fn map(
    file: &File,
    opened: &Arc<Opened>,
    offset: u64,
    len: usize,
) -> Result<VirtualPage, Errno> {
    let Found { page, kept } = find(file, offset, len)?;
    let device = &file.device;
    let bus = device.network.bus(device.nic).ok_or(Errno::EIO)?;
    device.mappings.fetch_add(1, Ordering::Relaxed);
    let (counted, opened) = (Arc::clone(device), Arc::clone(opened));
    let mapping = Mapping::new(move || {
        counted.mappings.fetch_sub(1, Ordering::Relaxed);
        drop((kept, opened));
    });
    Ok(VirtualPage::new(bus, page, mapping))
}

/// A page that came with the context (`uar_mmap`).
fn static_page(
    device: &super::device::Device,
    context: &super::file::Context,
    page_offset: u64,
) -> Result<u32, Errno> {
    /// `MLX5_IB_MMAP_REGULAR_PAGE`, `_WC_PAGE`, `_NC_PAGE`.
    const REGULAR: u64 = 0;
    const WRITE_COMBINING: u64 = 2;
    const NON_CACHED: u64 = 3;
    let command = (page_offset >> COMMAND_SHIFT) & 0xff;
    match command {
        WRITE_COMBINING if !device.capabilities.blue_flame => return Err(Errno::EPERM),
        REGULAR | WRITE_COMBINING | NON_CACHED => {}
        _ => return Err(Errno::EINVAL),
    }
    if context.dynamic_uars {
        return Err(Errno::EINVAL);
    }
    let index = (page_offset & ((1 << COMMAND_SHIFT) - 1)) as usize;
    context.static_uars.get(index).copied().ok_or(Errno::EINVAL)
}

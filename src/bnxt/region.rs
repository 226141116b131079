//! Regions: memory that the NIC may read and write.

use super::Nic;
use super::abi::command::{AllocateKey, DeallocateKey, RegisterRegion};
use super::abi::field::{RegionAccess, RegionPages};
use super::abi::page::PAGE_BYTES;
use super::context::{Context, PROTECTION_DOMAIN};
use super::memory::{PageTable, Purpose};
use crate::access::{Access, Remote};
use crate::connection::PeerRights;
use crate::error::{Error, Refused};
use crate::wr::{LocalSlice, MAX_MESSAGE, OutOfBounds, RemoteSlice};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use doorbell_hal::memory::{self, DmaMemory};
use doorbell_hal::pci::{BusAddress, DeviceAddresses, PciFunction};
use zerocopy::FromZeros;

/// The largest page that a region's table has.
const LARGEST_PAGE: usize = 1 << 30;
/// A region's key is one of memory, not of a window (`CMDQ_ALLOCATE_MRW_MRW_FLAGS_MR`).
const KIND: u8 = 0;
/// Registering allocates the key (`CMDQ_REGISTER_MR_FLAGS_ALLOC_MR`).
const ALLOCATE: u16 = 1;

/// What a registration holds until the NIC has forgotten it.
enum Held<F: PciFunction> {
    Owned(F::Memory),
    Pinned(F::Pinned),
}

impl<F: PciFunction> Held<F> {
    fn addresses(&self) -> &dyn DeviceAddresses {
        match self {
            Held::Owned(memory) => memory,
            Held::Pinned(pinned) => pinned,
        }
    }
}

/// A registration: what all kinds of regions have.
struct Registration<F: PciFunction> {
    context: Arc<Context<F>>,
    key: u32,
    /// The address by which the NIC names the first byte.
    address: u64,
    len: usize,
    /// What it is of, and the table that says where that is. `None` once it was undone, or kept.
    held: Option<(Held<F>, PageTable<F>)>,
}

impl<F: PciFunction> Registration<F> {
    /// Registers `len` bytes of `held`, from byte `skip` of it on, under the address `address`, which
    /// has the place in a page of 4 KiB that the bytes have.
    fn new<A: Access>(
        context: &Arc<Context<F>>,
        held: Held<F>,
        skip: usize,
        address: u64,
        len: usize,
    ) -> Result<Self, Error> {
        let function = &context.function;
        let page = page_of(held.addresses(), address - skip as u64);
        let whole = skip + len;
        let table = PageTable::new(function, held.addresses(), whole, page, Purpose::Flat)?;
        context.add_region()?;
        let mut registration =
            Registration { context: context.clone(), key: 0, address, len, held: None };
        // From here on, dropping the registration counts the region back.
        registration.held = Some((held, table));
        let registered = registration.register::<A>(page);
        match registered {
            Ok(key) => {
                registration.key = key;
                Ok(registration)
            }
            Err(error) => {
                // A firmware that has not answered may have registered it all the same.
                let held = registration.held.take();
                context.remove_region();
                if matches!(error, Error::NoAnswer { .. }) {
                    context.keep(KeptRegion(held));
                }
                Err(error)
            }
        }
    }

    fn register<A: Access>(&self, page: usize) -> Result<u32, Error> {
        let context = &self.context;
        let Some((_, table)) = &self.held else { return Ok(self.key) };
        let with_region = context.facts.limits.key_with_region;
        let mut command = RegisterRegion {
            log2_pg_size_lvl: RegionPages::new()
                .with_levels(table.levels)
                .with_log2_page_size(page.ilog2() as u8),
            access: access_of::<A>(),
            log2_pbl_pg_size: (PAGE_BYTES.ilog2() as u16).into(),
            pbl: table.top.into(),
            va: self.address.into(),
            mr_size: (self.len as u64).into(),
            ..FromZeros::new_zeroed()
        };
        if with_region {
            command.header.flags = ALLOCATE.into();
            command.key = PROTECTION_DOMAIN.into();
            return Ok(context.command(command, &mut [])?.xid.get());
        }
        let allocate = AllocateKey {
            mrw_flags: KIND,
            pd_id: PROTECTION_DOMAIN.into(),
            ..FromZeros::new_zeroed()
        };
        let key = context.command(allocate, &mut [])?.xid.get();
        command.key = key.into();
        if let Err(error) = context.command(command, &mut []) {
            // A key that is not freed goes with the next reset.
            let _ = deallocate(context, key);
            return Err(error);
        }
        Ok(key)
    }

    fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds> {
        let (key, most) = (self.key, MAX_MESSAGE as usize);
        // SAFETY: M2: the bytes are this region's, which hands them out as raw memory only.
        unsafe { LocalSlice::of_region(self.address, self.len, key, range, most) }
    }

    fn remote(&self) -> RemoteSlice {
        RemoteSlice::new(self.address, self.len as u64, self.key)
    }

    /// Undoes the registration, unless that was done.
    fn deregister(&mut self) -> Result<(), Error> {
        if self.held.is_some() {
            deallocate(&self.context, self.key)?;
            self.held = None;
            self.context.remove_region();
        }
        Ok(())
    }
}

impl<F: PciFunction> Drop for Registration<F> {
    fn drop(&mut self) {
        if self.deregister().is_err() {
            // The NIC may still reach it.
            self.context.keep(KeptRegion(self.held.take()));
        }
    }
}

/// What a region leaves that could not be deregistered.
struct KeptRegion<F: PciFunction>(#[allow(dead_code)] Option<(Held<F>, PageTable<F>)>);

fn deallocate<F: PciFunction>(context: &Context<F>, key: u32) -> Result<(), Error> {
    let command = DeallocateKey { mrw_flags: KIND, key: key.into(), ..FromZeros::new_zeroed() };
    context.command(command, &mut []).map(drop)
}

fn access_of<A: Access>() -> RegionAccess {
    RegionAccess::new()
        .with_local_write(true)
        .with_remote_read(A::RIGHTS.contains(PeerRights::READ))
        .with_remote_write(A::RIGHTS.contains(PeerRights::WRITE))
        .with_remote_atomic(A::RIGHTS.contains(PeerRights::ATOMIC))
}

/// The size of the pages of a table of memory that the NIC names from `address` on: the largest in
/// which each byte has the same place by either address.
fn page_of(memory: &dyn DeviceAddresses, address: u64) -> usize {
    let apart = memory.device_address(0).unwrap_or(0) ^ address;
    let mut page = LARGEST_PAGE.min(memory.granule());
    while page > PAGE_BYTES && apart & (page as u64 - 1) != 0 {
        page /= 2;
    }
    page
}

/// Memory of this process that the NIC may read and write, and that peers may reach as `A` says.
///
/// A NIC writes it whenever it likes, and in order, so its bytes are only ever copied in and out
/// ([`write_at`](Self::write_at), [`read_at`](Self::read_at)), never borrowed. Dropping the region
/// deregisters it first, and frees the memory then.
pub struct Region<A: Access, F: PciFunction> {
    registration: Registration<F>,
    start: NonNull<u8>,
    access: PhantomData<A>,
}

// SAFETY: M2: a region is an address of memory that outlives it, and copies in and out of it are
// volatile, as for memory that a device writes.
unsafe impl<A: Access, F: PciFunction> Send for Region<A, F> {}
// SAFETY: M2: as for `Send`.
unsafe impl<A: Access, F: PciFunction> Sync for Region<A, F> {}

impl<F: PciFunction> Nic<F> {
    /// Allocates `len` bytes, zeroed, and registers them. `len` is at least 1.
    pub fn region<A: Access>(&self, len: usize) -> Result<Region<A, F>, Error> {
        let context = &self.context;
        check_len(len)?;
        let allocated = context.function.allocate(len);
        let memory = allocated.map_err(context.refused("the allocation of memory"))?;
        let start = memory.as_ptr();
        let address = start.as_ptr() as u64;
        let held = Held::Owned(memory);
        let registration = Registration::new::<A>(context, held, 0, address, len)?;
        Ok(Region { registration, start, access: PhantomData })
    }

    /// Registers `len` bytes of the process's memory from `start` on, whose pages are pinned for the
    /// NIC. They may start anywhere.
    ///
    /// # Safety
    ///
    /// From now until the region was dropped or deregistered, the bytes stay mapped, readable and
    /// writable, in the same pages of memory, and nothing refers to them: they are only reached by
    /// raw pointers, as a NIC reads and writes them whenever it likes (SAFETY.md, M1, M2, P1).
    pub unsafe fn region_at<A: Access>(
        &self,
        start: NonNull<u8>,
        len: usize,
    ) -> Result<Region<A, F>, Error> {
        let context = &self.context;
        check_len(len)?;
        let page = context.function.page_size();
        let address = start.as_ptr() as usize;
        let skip = address % page;
        let overflows = || Error::OutOfRange {
            what: "a region's length",
            given: len as u64,
            least: 1,
            most: (usize::MAX - address) as u64,
        };
        let end = address.checked_add(len).ok_or_else(overflows)?;
        let whole = end.checked_next_multiple_of(page).ok_or_else(overflows)? - (address - skip);
        // SAFETY: M1: `skip` bytes before `start`, in the same page.
        let first = unsafe { start.sub(skip) };
        // SAFETY: M1, M2, P1: passed on to our caller, for the pages that hold the bytes.
        let pinned = unsafe { context.function.pin(first, whole) };
        let pinned = pinned.map_err(context.refused("the pinning of memory"))?;
        let held = Held::Pinned(pinned);
        let registration = Registration::new::<A>(context, held, skip, address as u64, len)?;
        Ok(Region { registration, start, access: PhantomData })
    }

    /// Registers `len` bytes from `offset` on behind base address register `bar` of another PCI
    /// function, `owner`: a GPU's memory, say. `offset` is a multiple of a page. The region's
    /// addresses start at 0.
    pub fn device_region<A: Access>(
        &self,
        owner: BusAddress,
        bar: u8,
        offset: u64,
        len: usize,
    ) -> Result<DeviceRegion<A, F>, Error> {
        let context = &self.context;
        check_len(len)?;
        let pinned = context.function.pin_device(owner, bar, offset, len);
        let pinned = pinned.map_err(context.refused("the pinning of a device's memory"))?;
        let registration = Registration::new::<A>(context, Held::Pinned(pinned), 0, 0, len)?;
        Ok(DeviceRegion { registration, access: PhantomData })
    }
}

/// Refuses a length of 0.
fn check_len(len: usize) -> Result<(), Error> {
    if len == 0 {
        let what = "a region's length";
        return Err(Error::OutOfRange { what, given: 0, least: 1, most: usize::MAX as u64 });
    }
    Ok(())
}

impl<A: Access, F: PciFunction> Region<A, F> {
    /// The number of bytes.
    // A region has at least one byte.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.registration.len
    }

    /// The first byte. Whoever uses the pointer keeps to raw accesses: the NIC, and peers, write the
    /// bytes whenever they like.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// The bytes `range`, to be named in requests and receives. At most as many as a message carries.
    pub fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds> {
        self.registration.slice(range)
    }

    /// Copies the bytes from `at` on into `bytes`.
    ///
    /// A byte that a peer writes meanwhile is copied as it was or as it will be.
    pub fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(at, bytes.len(), self.registration.len)?;
        // SAFETY: M1, M2: checked to lie in the region, which is only reached by raw copies.
        unsafe { memory::copy_from_shared(self.start.add(at), bytes) };
        Ok(())
    }

    /// Copies `bytes` to the bytes from `at` on.
    pub fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(at, bytes.len(), self.registration.len)?;
        // SAFETY: M1, M2: checked to lie in the region, which is only reached by raw copies.
        unsafe { memory::copy_to_shared(bytes, self.start.add(at)) };
        Ok(())
    }

    /// Deregisters the region and frees its memory, if it owns it. A refusal gives it back.
    pub fn deregister(mut self) -> Result<(), Refused<Self>> {
        match self.registration.deregister() {
            Ok(()) => Ok(()),
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}

impl<A: Remote, F: PciFunction> Region<A, F> {
    /// The region as peers name it.
    pub fn remote(&self) -> RemoteSlice {
        self.registration.remote()
    }
}

impl<A: Access, F: PciFunction> fmt::Debug for Region<A, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("start", &self.start).field("len", &self.len()).finish()
    }
}

/// Memory of another device that the NIC may read and write, and that peers may reach as `A` says. This
/// process reaches it only through the NIC.
pub struct DeviceRegion<A: Access, F: PciFunction> {
    registration: Registration<F>,
    access: PhantomData<A>,
}

impl<A: Access, F: PciFunction> DeviceRegion<A, F> {
    /// The bytes `range`, to be named in requests and receives.
    pub fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds> {
        self.registration.slice(range)
    }

    /// Deregisters the region. A refusal gives it back.
    pub fn deregister(mut self) -> Result<(), Refused<Self>> {
        match self.registration.deregister() {
            Ok(()) => Ok(()),
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}

impl<A: Remote, F: PciFunction> DeviceRegion<A, F> {
    /// The region as peers name it.
    pub fn remote(&self) -> RemoteSlice {
        self.registration.remote()
    }
}

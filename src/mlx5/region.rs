//! Regions: memory that the NIC may read and write.

use super::Nic;
use super::abi::verbs::AccessFlags;
use super::abi::verbs::method;
use super::abi::verbs::write::{self, WriteCommand};
use super::call::Call;
use super::context::Context;
use crate::access::{Access, Order, Remote};
use crate::connection::PeerRights;
use crate::error::{Error, Refused};
use crate::wr::{LocalSlice, OutOfBounds, RemoteSlice};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::NonNull;
use doorbell_hal::memory::{self, DmaMemory};
use doorbell_hal::uverbs::Uverbs;
use zerocopy::FromZeros;

/// A registration at the kernel: what all kinds of regions have.
struct Registration<V: Uverbs> {
    context: Arc<Context<V>>,
    handle: u32,
    lkey: u32,
    rkey: u32,
    /// The address by which the NIC names the first byte.
    address: u64,
    len: usize,
    /// Whether the kernel has it still.
    live: bool,
}

impl<V: Uverbs> Registration<V> {
    fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds> {
        let (key, most) = (self.lkey, self.context.port.max_message as usize);
        // SAFETY: M2: the bytes are this region's, which hands them out as raw memory only.
        unsafe { LocalSlice::of_region(self.address, self.len, key, range, most) }
    }

    fn remote(&self) -> RemoteSlice {
        RemoteSlice::new(self.address, self.len as u64, self.rkey)
    }

    /// Undoes the registration, unless that was done.
    fn deregister(&mut self) -> Result<(), Error> {
        if self.live {
            let call = Call::new("DEREG_MR", method::mr::DESTROY)
                .handle(method::destroy_mr::HANDLE, self.handle);
            // SAFETY: K2: the call hands no memory to the device.
            unsafe { call.make(&self.context.verbs) }?;
            self.live = false;
        }
        Ok(())
    }
}

/// Memory of this process that the NIC may read and write, and that peers may reach as `A` says.
///
/// A NIC writes it whenever it likes, so its bytes are only ever copied in and out
/// ([`write_at`](Self::write_at), [`read_at`](Self::read_at)), never borrowed. Dropping the region
/// deregisters it first, and frees the memory then.
///
/// Registering locks the pages in memory: `RLIMIT_MEMLOCK` bounds how many, without
/// `CAP_IPC_LOCK`.
pub struct Region<A: Access, V: Uverbs> {
    registration: Registration<V>,
    start: NonNull<u8>,
    len: usize,
    /// The memory, if the region owns it.
    memory: Option<V::Memory>,
    access: PhantomData<A>,
}

// SAFETY: M2: a region is an address of memory that outlives it, and copies in and out of it are
// volatile, as for memory that a device writes.
unsafe impl<A: Access, V: Uverbs> Send for Region<A, V> {}
// SAFETY: M2: as for `Send`.
unsafe impl<A: Access, V: Uverbs> Sync for Region<A, V> {}

impl<V: Uverbs> Nic<V> {
    /// Allocates `len` bytes, zeroed, and registers them. `len` is at least 1.
    pub fn region<A: Access>(&self, len: usize, order: Order) -> Result<Region<A, V>, Error> {
        self.region_of(self.context.allocate(len)?, len, order)
    }

    /// Registers the first `len` bytes of `memory`, which the region then owns; huge pages, say.
    pub fn region_of<A: Access>(
        &self,
        memory: V::Memory,
        len: usize,
        order: Order,
    ) -> Result<Region<A, V>, Error> {
        if !(1..=memory.len()).contains(&len) {
            let (given, most) = (len as u64, memory.len() as u64);
            return Err(Error::OutOfRange { what: "a region's length", given, least: 1, most });
        }
        let start = memory.as_ptr();
        // SAFETY: M1: the memory stays mapped until the region, which owns it, has deregistered it.
        let registration = unsafe { self.register::<A>(start, len, order) }?;
        Ok(Region { registration, start, len, memory: Some(memory), access: PhantomData })
    }

    /// Registers `len` bytes of the process's memory from `start` on. They may start anywhere.
    ///
    /// # Safety
    ///
    /// From now until the region was dropped or deregistered, the bytes stay mapped, readable and
    /// writable, and nothing refers to them: they are only reached by raw pointers, as a NIC reads
    /// and writes them whenever it likes (SAFETY.md, M1, M2).
    pub unsafe fn region_at<A: Access>(
        &self,
        start: NonNull<u8>,
        len: usize,
        order: Order,
    ) -> Result<Region<A, V>, Error> {
        // SAFETY: M1: passed on to our caller.
        let registration = unsafe { self.register::<A>(start, len, order) }?;
        Ok(Region { registration, start, len, memory: None, access: PhantomData })
    }

    /// # Safety
    ///
    /// The bytes stay mapped until the registration is undone (SAFETY.md, M1).
    unsafe fn register<A: Access>(
        &self,
        start: NonNull<u8>,
        len: usize,
        order: Order,
    ) -> Result<Registration<V>, Error> {
        let address = start.as_ptr() as u64;
        let request = write::RegMr {
            start: address,
            length: len as u64,
            hca_va: address,
            pd_handle: self.context.protection_domain,
            access_flags: flags::<A>(order),
            ..FromZeros::new_zeroed()
        };
        let mut response = write::RegMrResp::new_zeroed();
        let call = Call::write("REG_MR", WriteCommand::RegMr, &request, &mut response);
        // SAFETY: K2: the bytes stay mapped, as our caller promises.
        unsafe { call.make(&self.context.verbs) }?;
        let write::RegMrResp { mr_handle: handle, lkey, rkey, .. } = response;
        let context = self.context.clone();
        Ok(Registration { context, handle, lkey, rkey, address, len, live: true })
    }

    /// Registers `len` bytes from `offset` on of the dma-buf `descriptor`: memory of a device, say.
    /// Needs Linux 5.12. The region's addresses start at 0.
    #[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
    pub fn device_region<A: Access>(
        &self,
        descriptor: std::os::fd::BorrowedFd<'_>,
        offset: u64,
        len: usize,
        order: Order,
    ) -> Result<DeviceRegion<A, V>, Error> {
        use std::os::fd::AsRawFd;
        let (mut lkey, mut rkey) = (0u32, 0u32);
        use method::reg_dmabuf_mr as attribute;
        let call = Call::new("REG_DMABUF_MR", method::mr::REG_DMABUF)
            .new_handle(attribute::HANDLE)
            .handle(attribute::PD_HANDLE, self.context.protection_domain)
            .constant(attribute::OFFSET, offset)
            .constant(attribute::LENGTH, len as u64)
            // The kernel wants the address to have the offset's place in a page.
            .constant(attribute::IOVA, offset % self.context.verbs.page_size() as u64)
            .number(attribute::FD, descriptor.as_raw_fd() as u32)
            .number(attribute::ACCESS_FLAGS, flags::<A>(order).into_bits())
            .output(attribute::RESP_LKEY, &mut lkey)
            .output(attribute::RESP_RKEY, &mut rkey);
        // SAFETY: K2: the dma-buf's memory is not this process's, and the kernel holds it.
        let answer = unsafe { call.make(&self.context.verbs) }?;
        let registration = Registration {
            context: self.context.clone(),
            handle: answer.handle(attribute::HANDLE),
            lkey,
            rkey,
            address: offset % self.context.verbs.page_size() as u64,
            len,
            live: true,
        };
        Ok(DeviceRegion { registration, access: PhantomData })
    }
}

fn flags<A: Access>(order: Order) -> AccessFlags {
    let rights = A::RIGHTS;
    AccessFlags::new()
        .with_local_write(true)
        .with_remote_write(rights.contains(PeerRights::WRITE))
        .with_remote_read(rights.contains(PeerRights::READ))
        .with_remote_atomic(rights.contains(PeerRights::ATOMIC))
        .with_relaxed_ordering(order == Order::Relaxed)
}

impl<A: Access, V: Uverbs> Region<A, V> {
    /// The number of bytes.
    // A region has at least one byte.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The first byte. Whoever uses the pointer keeps to raw accesses: the NIC, and peers, write
    /// the bytes whenever they like.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.start
    }

    /// The bytes `range`, to be named in requests and receives. At most as many as a message
    /// carries.
    pub fn slice(&self, range: Range<usize>) -> Result<LocalSlice, OutOfBounds> {
        self.registration.slice(range)
    }

    /// Copies the bytes from `at` on into `bytes`.
    ///
    /// A byte that a peer writes meanwhile is copied as it was or as it will be.
    pub fn read_at(&self, at: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(at, bytes.len(), self.len)?;
        // SAFETY: M1, M2: checked to lie in the region, which is only reached by raw copies.
        unsafe { memory::copy_from_shared(self.start.add(at), bytes) };
        Ok(())
    }

    /// Copies `bytes` to the bytes from `at` on.
    pub fn write_at(&self, at: usize, bytes: &[u8]) -> Result<(), OutOfBounds> {
        OutOfBounds::check(at, bytes.len(), self.len)?;
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

impl<A: Remote, V: Uverbs> Region<A, V> {
    /// The region as peers name it.
    pub fn remote(&self) -> RemoteSlice {
        self.registration.remote()
    }
}

impl<A: Access, V: Uverbs> Drop for Region<A, V> {
    fn drop(&mut self) {
        if self.registration.deregister().is_err()
            && let Some(memory) = self.memory.take()
        {
            // The kernel may still let the NIC write it.
            self.registration.context.keep(memory);
        }
    }
}

impl<A: Access, V: Uverbs> fmt::Debug for Region<A, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Region").field("start", &self.start).field("len", &self.len).finish()
    }
}

/// Memory of a device, exported as a dma-buf, that the NIC may read and write, and that peers may
/// reach as `A` says. This process reaches it only through the NIC.
pub struct DeviceRegion<A: Access, V: Uverbs> {
    registration: Registration<V>,
    access: PhantomData<A>,
}

impl<A: Access, V: Uverbs> DeviceRegion<A, V> {
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

impl<A: Remote, V: Uverbs> DeviceRegion<A, V> {
    /// The region as peers name it.
    pub fn remote(&self) -> RemoteSlice {
        self.registration.remote()
    }
}

impl<A: Access, V: Uverbs> Drop for DeviceRegion<A, V> {
    fn drop(&mut self) {
        // What the kernel keeps goes with the file.
        let _ = self.registration.deregister();
    }
}

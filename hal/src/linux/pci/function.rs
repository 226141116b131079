//! A function of this machine that this process owns.

use super::super::machine::{FileError, Machine};
use super::bar::MappedBar;
use super::hold::{Held, HoldError};
use super::listing::ListedFunction;
use super::physical::{self, Block, Physical};
use super::vfio::{self, MappedMemory, Mapping, Vfio};
use super::{VFIO_DRIVER, Vectors};
use crate::Errno;
use crate::memory::DmaMemory;
use crate::pci::{BusAddress, DeviceAddresses, PciFunction};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;
use core::time::Duration;
use rustix::fd::OwnedFd;
use std::time::Instant;

/// A PCI function of this machine that this process owns: through vfio-pci, or physically.
///
/// See [`Machine::take_pci_function`].
#[derive(Debug)]
pub struct OwnedFunction {
    way: Way,
    machine: Machine,
    held: Held,
    start: Instant,
}

#[derive(Debug)]
enum Way {
    Vfio(Arc<Vfio>),
    Physical(Physical),
}

/// How a process holds a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Behind an IOMMU, through vfio-pci.
    Vfio,
    /// With no IOMMU that translates anything, by physical addresses.
    Physical,
}

/// Why a function could not be taken.
#[derive(Debug)]
#[non_exhaustive]
pub enum TakeError {
    /// There is no such function.
    NoFunction {
        /// Where it would be.
        address: BusAddress,
    },
    /// It cannot be held: a process holds it.
    Hold(HoldError),
    /// A driver of the kernel's has it: it must be detached.
    Driven {
        /// The function.
        address: BusAddress,
        /// The driver.
        driver: String,
    },
    /// No driver has it, and an IOMMU would translate its addresses: it must be with vfio-pci.
    Translated {
        /// The function.
        address: BusAddress,
    },
    /// A file cannot be used.
    File(FileError),
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TakeError::NoFunction { address } => write!(f, "there is no PCI function {address}"),
            TakeError::Hold(error) => error.fmt(f),
            TakeError::Driven { address, driver } => {
                write!(f, "PCI function {address} is with {driver}: detach it first")
            }
            TakeError::Translated { address } => {
                write!(f, "PCI function {address} is behind an IOMMU, and not with {VFIO_DRIVER}")
            }
            TakeError::File(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TakeError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            TakeError::Hold(error) => Some(error),
            TakeError::File(error) => Some(error),
            _ => None,
        }
    }
}

impl From<FileError> for TakeError {
    fn from(error: FileError) -> Self {
        TakeError::File(error)
    }
}

impl Machine {
    /// Takes the function at `address`, which is [detached](Self::detach): through vfio-pci if that has
    /// it, and physically if no driver has it.
    ///
    /// Through vfio-pci it needs read and write access to `/dev/vfio` and to the function's `config`,
    /// and `RLIMIT_MEMLOCK` for the memory that the function reaches. Physically it needs
    /// `CAP_SYS_ADMIN` and `CAP_IPC_LOCK`, write access to the function's files under `/sys/bus/pci`,
    /// free huge pages of 2 MiB (`vm.nr_hugepages`) for its memory, and an IOMMU that translates
    /// nothing or none at all.
    pub fn take_pci_function(&self, address: BusAddress) -> Result<OwnedFunction, TakeError> {
        let function = self.pci_function(address)?.ok_or(TakeError::NoFunction { address })?;
        let held = self.hold_pci_function(address).map_err(TakeError::Hold)?;
        let way = match self.pci_access(&function)? {
            Access::Vfio => {
                let group = function.iommu_group.ok_or_else(|| vfio::no_group(self, address))?;
                Way::Vfio(Arc::new(Vfio::open(self, address, &group)?))
            }
            Access::Physical => Way::Physical(Physical::open(self, address)?),
        };
        Ok(OwnedFunction { way, machine: self.clone(), held, start: Instant::now() })
    }

    /// How [`take_pci_function`](Self::take_pci_function) would hold `function`, or why it would not.
    /// Looks at files only, and changes nothing.
    pub fn pci_access(&self, function: &ListedFunction) -> Result<Access, TakeError> {
        let address = function.address;
        match &function.driver {
            Some(driver) if driver == VFIO_DRIVER => Ok(Access::Vfio),
            Some(driver) => Err(TakeError::Driven { address, driver: driver.clone() }),
            None if self.is_translated(function) => Err(TakeError::Translated { address }),
            None => Ok(Access::Physical),
        }
    }

    /// Whether an IOMMU translates the addresses of a function that no driver has.
    pub(super) fn is_translated(&self, function: &ListedFunction) -> bool {
        let Some(group) = &function.iommu_group else { return false };
        let path = self.path("sys/kernel/iommu_groups").join(group).join("type");
        !std::fs::read_to_string(path).is_ok_and(|kind| kind.trim() == "identity")
    }
}

/// Memory that an [`OwnedFunction`] reaches.
#[derive(Debug)]
pub struct FunctionMemory(Kind);

#[derive(Debug)]
enum Kind {
    Mapped(MappedMemory),
    Block(Block),
}

// SAFETY: M1: a mapping or a block is exclusively its value's, page aligned, zeroed when it was made,
// and unmapped or given back only when it is dropped, after the function was made to forget it.
unsafe impl DmaMemory for FunctionMemory {
    fn as_ptr(&self) -> NonNull<u8> {
        match &self.0 {
            Kind::Mapped(mapped) => mapped.memory.as_ptr(),
            Kind::Block(block) => block.start(),
        }
    }

    fn len(&self) -> usize {
        match &self.0 {
            Kind::Mapped(mapped) => mapped.memory.len(),
            Kind::Block(block) => block.len,
        }
    }
}

impl DeviceAddresses for FunctionMemory {
    fn reach(&self) -> usize {
        self.len()
    }

    fn granule(&self) -> usize {
        match &self.0 {
            Kind::Mapped(mapped) => mapped.mapping.granule,
            Kind::Block(block) => block.granule,
        }
    }

    fn device_address(&self, at: usize) -> Option<u64> {
        match &self.0 {
            Kind::Mapped(mapped) => {
                (at < mapped.mapping.len).then(|| mapped.mapping.iova + at as u64)
            }
            Kind::Block(block) => block.device_address(at),
        }
    }
}

/// Memory of others that an [`OwnedFunction`] reaches.
#[derive(Debug)]
pub struct PinnedMemory(Pinned);

#[derive(Debug)]
enum Pinned {
    /// Behind an IOMMU; with the mapping of a device's memory, if it is that.
    Mapped(Mapping, #[allow(dead_code)] Option<MappedBar>),
    /// Pages of 4 KiB, wherever they are, and the number of bytes.
    Pages(Vec<u64>, usize),
    /// A device's memory, in one block.
    Device(u64, usize),
}

/// Bytes of a page.
const PAGE: usize = 4096;

impl DeviceAddresses for PinnedMemory {
    fn reach(&self) -> usize {
        match &self.0 {
            Pinned::Mapped(mapping, _) => mapping.len,
            Pinned::Pages(_, len) | Pinned::Device(_, len) => *len,
        }
    }

    fn granule(&self) -> usize {
        match &self.0 {
            Pinned::Mapped(mapping, _) => mapping.granule,
            Pinned::Pages(..) | Pinned::Device(..) => PAGE,
        }
    }

    fn device_address(&self, at: usize) -> Option<u64> {
        if at >= self.reach() {
            return None;
        }
        match &self.0 {
            Pinned::Mapped(mapping, _) => Some(mapping.iova + at as u64),
            Pinned::Pages(pages, _) => Some(pages.get(at / PAGE)? + (at % PAGE) as u64),
            Pinned::Device(start, _) => Some(start + at as u64),
        }
    }
}

/// An error of a file as the number that the system gave.
fn errno(error: FileError) -> Errno {
    Errno(error.reason.raw_os_error().unwrap_or(Errno::EINVAL.0))
}

// SAFETY: P1: behind an IOMMU the function reaches what is mapped for it, and nothing else; without
// one, the driver gives it no addresses but those of memory that was allocated or pinned here
// (SAFETY.md, P2). M1: see `FunctionMemory`.
unsafe impl PciFunction for OwnedFunction {
    type Memory = FunctionMemory;
    type Pinned = PinnedMemory;
    type Bar = MappedBar;
    type Interrupts = Vectors;

    fn bus_address(&self) -> BusAddress {
        self.held.address()
    }

    fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno> {
        match &self.way {
            Way::Vfio(vfio) => vfio.read_configuration(at, into),
            Way::Physical(_) => {
                let file: &OwnedFd = self.held.configuration();
                let read = rustix::io::pread(file, &mut *into, at.into())?;
                if read == into.len() { Ok(()) } else { Err(Errno::EIO) }
            }
        }
    }

    fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno> {
        match &self.way {
            Way::Vfio(vfio) => vfio.write_configuration(at, bytes),
            Way::Physical(_) => {
                let written = rustix::io::pwrite(self.held.configuration(), bytes, at.into())?;
                if written == bytes.len() { Ok(()) } else { Err(Errno::EIO) }
            }
        }
    }

    fn bar(&self, number: u8) -> Result<MappedBar, Errno> {
        match &self.way {
            Way::Vfio(vfio) => vfio.bar(number),
            Way::Physical(physical) => physical.bar(number),
        }
    }

    fn allocate(&self, len: usize) -> Result<FunctionMemory, Errno> {
        Ok(FunctionMemory(match &self.way {
            Way::Vfio(vfio) => Kind::Mapped(MappedMemory::new(vfio, len)?),
            Way::Physical(physical) => Kind::Block(physical.allocate(len)?),
        }))
    }

    unsafe fn pin(&self, start: NonNull<u8>, len: usize) -> Result<PinnedMemory, Errno> {
        if len == 0 || !len.is_multiple_of(PAGE) || !(start.as_ptr() as usize).is_multiple_of(PAGE)
        {
            return Err(Errno::EINVAL);
        }
        Ok(PinnedMemory(match &self.way {
            // SAFETY: P1: our caller promises that the bytes stay.
            Way::Vfio(vfio) => Pinned::Mapped(unsafe { vfio.map(start, len) }?, None),
            Way::Physical(physical) => Pinned::Pages(physical.pin(start, len)?, len),
        }))
    }

    fn pin_device(
        &self,
        owner: BusAddress,
        bar: u8,
        offset: u64,
        len: usize,
    ) -> Result<PinnedMemory, Errno> {
        let directory = self.machine.pci_path(owner);
        let whole = len.checked_next_multiple_of(PAGE).ok_or(Errno::EINVAL)?;
        let start = physical::resource(&directory, bar, offset, whole).map_err(errno)?;
        Ok(PinnedMemory(match &self.way {
            Way::Physical(_) => Pinned::Device(start, len),
            Way::Vfio(vfio) => {
                use rustix::fd::AsFd;
                use rustix::fs::{Mode, OFlags};
                let path = directory.join(alloc::format!("resource{bar}"));
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                let file = rustix::fs::open(&path, flags, Mode::empty())?;
                let mapped = MappedBar::map(file.as_fd(), offset, whole as u64)?;
                // SAFETY: P1: the mapping of the registers is dropped after that of the addresses.
                let mapping = unsafe { vfio.map(mapped.start(), whole) }?;
                Pinned::Mapped(mapping, Some(mapped))
            }
        }))
    }

    fn interrupts(&self, vectors: u16) -> Result<Vectors, Errno> {
        match &self.way {
            Way::Vfio(vfio) => Vectors::enable(vfio, vectors),
            Way::Physical(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    fn reset(&self) -> Result<(), Errno> {
        match &self.way {
            Way::Vfio(vfio) => vfio.reset(),
            Way::Physical(physical) => physical.reset(),
        }
    }

    fn page_size(&self) -> usize {
        rustix::param::page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        crate::linux::random()
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn pause(&self, time: Duration) {
        // A sleep of less takes longer than it says.
        if time < Duration::from_micros(50) {
            let start = Instant::now();
            while start.elapsed() < time {
                core::hint::spin_loop();
            }
        } else {
            std::thread::sleep(time);
        }
    }
}

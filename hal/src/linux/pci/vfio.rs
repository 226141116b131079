//! A function behind an IOMMU, through vfio-pci: Linux' `linux/vfio.h`, a group and a container of type
//! 1.

use super::super::machine::{FileError, Machine};
use super::super::memory::Anonymous;
use super::address_space::AddressSpace;
use super::bar::MappedBar;
use crate::Errno;
use crate::memory::DmaMemory;
use crate::pci::BusAddress;
use alloc::ffi::CString;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::ffi::c_void;
use core::ptr::NonNull;
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// `_IO(VFIO_TYPE, VFIO_BASE + number)`.
const fn opcode(number: u8) -> Opcode {
    rustix::ioctl::opcode::none(b';', 100 + number)
}

const GET_API_VERSION: Opcode = opcode(0);
const CHECK_EXTENSION: Opcode = opcode(1);
const SET_IOMMU: Opcode = opcode(2);
const GROUP_GET_STATUS: Opcode = opcode(3);
const GROUP_SET_CONTAINER: Opcode = opcode(4);
const GROUP_GET_DEVICE_FD: Opcode = opcode(6);
const DEVICE_GET_REGION_INFO: Opcode = opcode(8);
const DEVICE_SET_IRQS: Opcode = opcode(10);
const DEVICE_RESET: Opcode = opcode(11);
const IOMMU_MAP_DMA: Opcode = opcode(13);
const IOMMU_UNMAP_DMA: Opcode = opcode(14);

const API_VERSION: i32 = 0;
/// `VFIO_TYPE1v2_IOMMU`.
const TYPE1: usize = 3;
/// `VFIO_GROUP_FLAGS_VIABLE`: every device of the group is with vfio-pci, or with nobody.
const VIABLE: u32 = 1;
/// `VFIO_PCI_CONFIG_REGION_INDEX`.
const CONFIGURATION: u32 = 7;
/// `VFIO_REGION_INFO_FLAG_MMAP`.
const MAPPABLE: u32 = 4;
/// `VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE`.
const READ_WRITE: u32 = 3;
/// `VFIO_PCI_MSIX_IRQ_INDEX`.
const MSIX: u32 = 2;
/// `VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_TRIGGER`.
const NO_EVENTS: u32 = 1 | 1 << 5;
/// `VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER`.
const EVENT_FILES: u32 = 1 << 2 | 1 << 5;

/// `struct vfio_group_status`.
#[repr(C)]
struct GroupStatus {
    argsz: u32,
    flags: u32,
}

/// `struct vfio_region_info`.
#[repr(C)]
struct RegionInfo {
    argsz: u32,
    flags: u32,
    index: u32,
    cap_offset: u32,
    size: u64,
    offset: u64,
}

/// `struct vfio_iommu_type1_dma_map`.
#[repr(C)]
struct DmaMap {
    argsz: u32,
    flags: u32,
    vaddr: u64,
    iova: u64,
    size: u64,
}

/// `struct vfio_iommu_type1_dma_unmap`.
#[repr(C)]
struct DmaUnmap {
    argsz: u32,
    flags: u32,
    iova: u64,
    size: u64,
}

static_assertions::const_assert_eq!(size_of::<GroupStatus>(), 8);
static_assertions::const_assert_eq!(size_of::<RegionInfo>(), 32);
static_assertions::const_assert_eq!(size_of::<DmaMap>(), 32);
static_assertions::const_assert_eq!(size_of::<DmaUnmap>(), 24);

/// A call whose argument is a number, or points to what the opcode takes.
struct Call(Opcode, *mut c_void);

// SAFETY: K1: whoever makes a call gives it an argument of its opcode's kind, and the kernel writes at
// most as many bytes as the argument says it has.
unsafe impl Ioctl for Call {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.0
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.1
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

/// # Safety
///
/// `argument` is what `opcode` takes (SAFETY.md, K1).
unsafe fn call(file: &OwnedFd, opcode: Opcode, argument: *mut c_void) -> Result<i32, Errno> {
    // SAFETY: K1: passed on to our caller.
    Ok(unsafe { rustix::ioctl::ioctl(file, Call(opcode, argument)) }?)
}

fn call_with_number(file: &OwnedFd, opcode: Opcode, argument: usize) -> Result<i32, Errno> {
    // SAFETY: K1: the opcode takes a number, and follows no pointer.
    unsafe { call(file, opcode, core::ptr::without_provenance_mut(argument)) }
}

/// # Safety
///
/// `opcode` takes a `T` (SAFETY.md, K1).
unsafe fn call_with<T>(file: &OwnedFd, opcode: Opcode, argument: &mut T) -> Result<i32, Errno> {
    // SAFETY: K1: passed on to our caller.
    unsafe { call(file, opcode, core::ptr::from_mut(argument).cast()) }
}

/// A function that vfio-pci gave to this process.
#[derive(Debug)]
pub(super) struct Vfio {
    device: OwnedFd,
    configuration: u64,
    container: Arc<Container>,
    /// Kept open: the device is given back when it closes.
    _group: OwnedFd,
}

/// What translates the function's addresses.
#[derive(Debug)]
pub(super) struct Container {
    file: OwnedFd,
    addresses: Mutex<AddressSpace>,
}

impl Vfio {
    /// Takes the function at `address`, which is in IOMMU group `group`.
    pub(super) fn open(
        machine: &Machine,
        address: BusAddress,
        group: &str,
    ) -> Result<Self, FileError> {
        let failed = |action, path: &PathBuf, reason: Errno| FileError {
            action,
            path: path.clone(),
            reason: reason.into(),
        };
        let open = |path: &PathBuf| {
            rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .map_err(|reason| failed("open", path, reason.into()))
        };
        let (container_path, group_path) =
            (machine.path("dev/vfio/vfio"), machine.path("dev/vfio").join(group));
        let container = open(&container_path)?;
        let on_container = |reason| failed("set up", &container_path, reason);
        let version = call_with_number(&container, GET_API_VERSION, 0).map_err(on_container)?;
        let type1 = call_with_number(&container, CHECK_EXTENSION, TYPE1).map_err(on_container)?;
        if version != API_VERSION || type1 != 1 {
            return Err(on_container(Errno::EPROTONOSUPPORT));
        }
        let group = open(&group_path)?;
        let on_group = |reason| failed("set up", &group_path, reason);
        let mut status = GroupStatus { argsz: size_of::<GroupStatus>() as u32, flags: 0 };
        // SAFETY: K1: the status is what the opcode takes.
        unsafe { call_with(&group, GROUP_GET_STATUS, &mut status) }.map_err(on_group)?;
        if status.flags & VIABLE == 0 {
            // Other functions of the group are with drivers of the kernel's.
            return Err(on_group(Errno::EBUSY));
        }
        let mut descriptor = container.as_raw_fd();
        // SAFETY: K1: the opcode takes the number of an open file.
        unsafe { call_with(&group, GROUP_SET_CONTAINER, &mut descriptor) }.map_err(on_group)?;
        call_with_number(&container, SET_IOMMU, TYPE1).map_err(on_container)?;
        let name = CString::new(address.to_string());
        let name = name.map_err(|_| on_group(Errno::EINVAL))?;
        // SAFETY: K1: the opcode takes a name that ends with a zero.
        let device = unsafe { call(&group, GROUP_GET_DEVICE_FD, name.as_ptr().cast_mut().cast()) };
        let device = device.map_err(on_group)?;
        // SAFETY: K3: the kernel has just opened it for us.
        let device = unsafe { OwnedFd::from_raw_fd(device) };
        let configuration = region(&device, CONFIGURATION).map_err(on_group)?.offset;
        let addresses = Mutex::new(AddressSpace::new());
        let container = Arc::new(Container { file: container, addresses });
        Ok(Vfio { device, configuration, container, _group: group })
    }

    pub(super) fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno> {
        let read = rustix::io::pread(&self.device, &mut *into, self.configuration + u64::from(at))?;
        if read == into.len() { Ok(()) } else { Err(Errno::EIO) }
    }

    pub(super) fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno> {
        let written = rustix::io::pwrite(&self.device, bytes, self.configuration + u64::from(at))?;
        if written == bytes.len() { Ok(()) } else { Err(Errno::EIO) }
    }

    pub(super) fn bar(&self, number: u8) -> Result<MappedBar, Errno> {
        let info = region(&self.device, number.into())?;
        if info.size == 0 || info.flags & MAPPABLE == 0 {
            return Err(Errno::ENXIO);
        }
        MappedBar::map(self.device.as_fd(), info.offset, info.size)
    }

    pub(super) fn reset(&self) -> Result<(), Errno> {
        call_with_number(&self.device, DEVICE_RESET, 0).map(drop)
    }

    /// Makes `len` bytes from `start` on reachable, at consecutive addresses.
    ///
    /// # Safety
    ///
    /// The bytes stay mapped until the answer is dropped (SAFETY.md, P1).
    pub(super) unsafe fn map(&self, start: NonNull<u8>, len: usize) -> Result<Mapping, Errno> {
        // Aligned so that tables of large pages lead to it.
        let align = len.next_power_of_two().clamp(4096, 1 << 30) as u64;
        let container = self.container.clone();
        let lock = || container.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let iova = lock().take(len as u64, align).ok_or(Errno::ENOSPC)?;
        let mut map = DmaMap {
            argsz: size_of::<DmaMap>() as u32,
            flags: READ_WRITE,
            vaddr: start.as_ptr() as u64,
            iova,
            size: len as u64,
        };
        // SAFETY: K1: the opcode takes it; P1: the memory stays, as our caller promises.
        if let Err(reason) = unsafe { call_with(&container.file, IOMMU_MAP_DMA, &mut map) } {
            lock().give_back(iova, len as u64);
            return Err(reason);
        }
        let granule = align as usize;
        Ok(Mapping { container, iova, len, granule })
    }

    /// Raises events of the first vectors in `files`, one each, and of no others.
    pub(super) fn set_interrupts(&self, files: &[i32]) -> Result<(), Errno> {
        const HEADER: usize = 5;
        let argument_bytes = (HEADER + files.len()) * size_of::<u32>();
        let mut argument = alloc::vec![
            argument_bytes as u32,
            if files.is_empty() { NO_EVENTS } else { EVENT_FILES },
            MSIX,
            0,
            files.len() as u32,
        ];
        argument.extend(files.iter().map(|file| *file as u32));
        // SAFETY: K1: a `struct vfio_irq_set` and its descriptors, as long as it says.
        unsafe { call(&self.device, DEVICE_SET_IRQS, argument.as_mut_ptr().cast()) }.map(drop)
    }
}

fn region(device: &OwnedFd, index: u32) -> Result<RegionInfo, Errno> {
    let argsz = size_of::<RegionInfo>() as u32;
    let mut info = RegionInfo { argsz, flags: 0, index, cap_offset: 0, size: 0, offset: 0 };
    // SAFETY: K1: the opcode takes it.
    unsafe { call_with(device, DEVICE_GET_REGION_INFO, &mut info) }?;
    Ok(info)
}

/// Memory that the function reaches at consecutive addresses, until this is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    container: Arc<Container>,
    pub(super) iova: u64,
    pub(super) len: usize,
    pub(super) granule: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let argsz = size_of::<DmaUnmap>() as u32;
        let mut unmap = DmaUnmap { argsz, flags: 0, iova: self.iova, size: self.len as u64 };
        // SAFETY: K1: the opcode takes it.
        let unmapped = unsafe { call_with(&self.container.file, IOMMU_UNMAP_DMA, &mut unmap) };
        // Addresses that are still mapped lead to memory that is not ours any more: never again.
        if unmapped.is_ok() {
            let addresses = &self.container.addresses;
            let mut addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner);
            addresses.give_back(self.iova, self.len as u64);
        }
    }
}

/// Memory of this process that the function reaches. Taken back from it before it is freed.
#[derive(Debug)]
pub(super) struct MappedMemory {
    pub(super) mapping: Mapping,
    pub(super) memory: Anonymous,
}

impl MappedMemory {
    pub(super) fn new(vfio: &Vfio, len: usize) -> Result<Self, Errno> {
        let memory = Anonymous::new(len)?;
        // SAFETY: P1: the mapping is dropped before the memory, in the order of the fields.
        let mapping = unsafe { vfio.map(memory.as_ptr(), memory.len()) }?;
        Ok(MappedMemory { mapping, memory })
    }
}

/// A name for errors about the group of a function that has none.
pub(super) fn no_group(machine: &Machine, address: BusAddress) -> FileError {
    let text: String = alloc::format!("PCI function {address} is in no IOMMU group");
    FileError {
        action: "find",
        path: machine.path("sys/bus/pci/devices").join(address.to_string()).join("iommu_group"),
        reason: io::Error::new(io::ErrorKind::NotFound, text),
    }
}

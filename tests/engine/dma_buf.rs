//! Regions of a device's memory, exported as a dma-buf.

use crate::device::{on_any_device, pair, pattern, sent};
use doorbell::error::Error;
use doorbell::mlx5::access::{Local, RemoteReadWrite};
use doorbell::mlx5::{DeviceRegion, Order};
use doorbell::wr;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::io::{pread, pwrite};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A dma-buf, and the memory file whose pages it exports.
struct Exported {
    dma_buf: OwnedFd,
    pages: OwnedFd,
}

/// `struct udmabuf_create` (`linux/udmabuf.h`).
#[repr(C)]
struct UdmabufCreate {
    memfd: u32,
    flags: u32,
    offset: u64,
    size: u64,
}

/// `UDMABUF_CREATE`, `_IOW('u', 0x42, struct udmabuf_create)`.
const UDMABUF_CREATE: libc::c_ulong = 0x4018_7542;

impl Exported {
    /// A dma-buf of `len` bytes, whole pages; a reason if this machine cannot make one.
    ///
    /// The virtual NIC takes a memory file for one, so there it can always.
    fn new(len: u64) -> Result<Exported, String> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let pages = memfd_create("exported", flags).unwrap();
        ftruncate(&pages, len).unwrap();
        fcntl_add_seals(&pages, SealFlags::SHRINK).unwrap();
        match Self::udmabuf(&pages, len) {
            Ok(dma_buf) => Ok(Exported { dma_buf, pages }),
            Err(error) if crate::device::named().is_some() => Err(format!("/dev/udmabuf: {error}")),
            Err(_) => Ok(Exported { dma_buf: pages.try_clone().unwrap(), pages }),
        }
    }

    fn udmabuf(pages: &OwnedFd, len: u64) -> std::io::Result<OwnedFd> {
        let driver = std::fs::OpenOptions::new().read(true).write(true).open("/dev/udmabuf")?;
        let memfd = pages.as_raw_fd() as u32;
        let create = UdmabufCreate { memfd, flags: 1, offset: 0, size: len };
        // SAFETY: K2: the driver reads the struct and nothing else.
        let made = unsafe { libc::ioctl(driver.as_raw_fd(), UDMABUF_CREATE, &create) };
        if made < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: K3: the descriptor was just made for us.
        Ok(unsafe { OwnedFd::from_raw_fd(made) })
    }

    fn bytes(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert_eq!(pread(&self.pages, &mut bytes, at).unwrap(), len);
        bytes
    }
}

macro_rules! exported_or_skip {
    ($len:expr) => {
        match Exported::new($len) {
            Ok(exported) => exported,
            Err(why) => {
                eprintln!("skipped: no dma-buf can be made: {why}");
                return;
            }
        }
    };
}

on_any_device! {
    fn peers_write_and_read_a_devices_memory<V>(device) {
        let exported = exported_or_skip!(1 << 16);
        let [mut a, b] = pair(device);
        // From the start, from within a page, and to the very end.
        for (offset, len) in [(0, 4096), (4096, 8192), (5000, 3000), ((1 << 16) - 100, 100)] {
            let region: DeviceRegion<RemoteReadWrite, V> =
                b.nic.device_region(exported.dma_buf.as_fd(), offset, len, Order::InOrder).unwrap();
            let remote = region.remote();
            assert_eq!(remote.len(), len as u64);
            let bytes = a.fill(0, len, offset);
            a.post(wr::write(a.piece(0..len), remote).unwrap().signaled());
            sent(&mut a.cq);
            assert_eq!(exported.bytes(offset, len), bytes, "{len} bytes at {offset}");
            let bytes = pattern(len, offset + 1);
            pwrite(&exported.pages, &bytes, offset).unwrap();
            a.post(wr::read(a.piece(0..len), remote).unwrap().signaled());
            sent(&mut a.cq);
            assert_eq!(a.bytes(0..len), bytes, "{len} bytes at {offset}");
            region.deregister().unwrap();
        }
    }

    fn a_devices_memory_is_sent_from<V>(device) {
        let exported = exported_or_skip!(8192);
        let [mut a, b] = pair(device);
        pwrite(&exported.pages, &pattern(8192, 1), 0).unwrap();
        let region: DeviceRegion<Local, V> =
            a.nic.device_region(exported.dma_buf.as_fd(), 100, 8000, Order::Relaxed).unwrap();
        // The descriptor is not needed any more: the kernel has its own hold on the memory.
        drop(exported);
        let from = region.slice(1000..3000).unwrap();
        a.post(wr::write(from, b.remote(0..2000)).unwrap().signaled());
        sent(&mut a.cq);
        assert_eq!(b.bytes(0..2000), pattern(8192, 1)[1100..3100]);
        assert_eq!(region.slice(0..8001).unwrap_err().len, 8000);
    }

    fn what_is_no_dma_buf_or_too_short_is_refused_by_name_of_the_call<V>(device) {
        let nic = device.nic(0);
        let exported = exported_or_skip!(4096);
        let (reader, _writer) = std::io::pipe().unwrap();
        let attempts = [
            nic.device_region::<Local>(reader.as_fd(), 0, 4096, Order::InOrder),
            nic.device_region::<Local>(exported.dma_buf.as_fd(), 0, 4097, Order::InOrder),
            nic.device_region::<Local>(exported.dma_buf.as_fd(), 4096, 1, Order::InOrder),
            nic.device_region::<Local>(exported.dma_buf.as_fd(), u64::MAX, 1, Order::InOrder),
            nic.device_region::<Local>(exported.dma_buf.as_fd(), 0, 0, Order::InOrder),
        ];
        for refused in attempts.map(|attempt| attempt.err().unwrap()) {
            let named = matches!(refused, Error::Refused { call: "REG_DMABUF_MR", .. });
            assert!(named, "{refused}");
        }
    }
}

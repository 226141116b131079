//! The memory of the device itself (MEMIC): a part of the BAR, which programs map and keys name.
//!
//! It is a file, so that the NIC reaches it as it reaches the machine's memory: at device addresses
//! that no machine has.

use super::guest_memory::GuestMemory;
use crate::connectx::firmware::device_memory::{ADDRESS, BAR_START, BYTES};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The memory of a device.
pub(super) struct DeviceMemory(File);

impl DeviceMemory {
    /// Zeroes.
    pub(super) fn new() -> io::Result<Self> {
        let file = memfd_create("device-memory", MemfdFlags::CLOEXEC)?;
        ftruncate(&file, BYTES)?;
        Ok(DeviceMemory(file.into()))
    }

    /// Lets the NIC reach it; `memory` may have forgotten it with the machine's own.
    pub(super) fn map(&self, memory: &GuestMemory) {
        memory.unmap(ADDRESS, BYTES);
        // It has just been taken out, and lies in its file.
        let _ = memory.map(ADDRESS, BYTES, &self.0, 0, true);
    }

    /// Where an access of `length` bytes at `at` of the BAR is in the file, if it is one to it.
    fn place(at: u64, length: usize) -> Option<u64> {
        let offset = at.checked_sub(BAR_START)?;
        (offset.checked_add(length as u64)? <= BYTES).then_some(offset)
    }

    /// A store to the BAR. Answers whether it was one to this.
    pub(super) fn write(&self, at: u64, from: &[u8]) -> bool {
        let place = Self::place(at, from.len());
        place.is_some_and(|place| self.0.write_all_at(from, place).is_ok())
    }

    /// A load from the BAR. Answers whether it was one from this.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let place = Self::place(at, into.len());
        place.is_some_and(|place| self.0.read_exact_at(into, place).is_ok())
    }
}

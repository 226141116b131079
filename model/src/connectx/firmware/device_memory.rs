//! The device's own memory (MEMIC): which of it is in use.

use super::Firmware;
use super::layout::command::{alloc_memic_in, alloc_memic_out, dealloc_memic_in};
use super::status::{Done, Refusal, Status};

/// Where it begins in the BAR: behind the UAR pages. It ends where the BAR does.
pub(crate) const BAR_START: u64 = 31 << 20;
/// Its bytes.
pub(crate) const BYTES: u64 = 1 << 20;
/// Where the NIC reaches it: device addresses that no machine has.
pub(crate) const ADDRESS: u64 = 0xfff0_0000_0000_0000;
/// The most bytes that can be had at once.
pub(super) const MOST: u64 = 128 << 10;
/// The binary logarithm of the fewest.
pub(super) const LOG_LEAST: u64 = 6;

impl Firmware {
    /// ALLOC_MEMIC: the driver says from which range.
    pub(super) fn allocate_device_memory(&mut self, input: &[u8], output: &mut [u8]) -> Done {
        let start = alloc_memic_in::RANGE_START_ADDR.get(input);
        let range = alloc_memic_in::RANGE_SIZE.get(input);
        let length = alloc_memic_in::MEMIC_SIZE.get(input);
        if length == 0 || length > MOST.min(range) || !length.is_multiple_of(1 << LOG_LEAST) {
            return Err(Refusal::parameter("length of device memory", length));
        }
        if device_address(start, length).is_none() {
            return Err(Refusal::parameter("address of device memory", start));
        }
        let before = self.device_memory.range(..start + length).next_back();
        if before.is_some_and(|(&other, &bytes)| other + bytes > start) {
            return Err(Refusal::new(Status::NoResources, "that device memory is in use"));
        }
        self.device_memory.insert(start, length);
        alloc_memic_out::MEMIC_START_ADDR.set(output, start);
        Ok(())
    }

    /// DEALLOC_MEMIC.
    pub(super) fn free_device_memory(&mut self, input: &[u8]) -> Done {
        let start = dealloc_memic_in::MEMIC_START_ADDR.get(input);
        let freed = self.device_memory.remove(&start);
        freed.map(drop).ok_or_else(|| Refusal::parameter("address of device memory", start))
    }
}

/// Where the NIC reaches the `length` bytes at `start` of the BAR, if they are device memory.
pub(super) fn device_address(start: u64, length: u64) -> Option<u64> {
    let offset = start.checked_sub(BAR_START)?;
    (offset.checked_add(length)? <= BYTES).then(|| ADDRESS + offset)
}

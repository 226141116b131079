//! Page lists: where the memory of rings and registrations lies.

use super::layout::work_queue::wq;
use super::status::{Done, Refusal, Status};
use crate::connectx::Ring;
use crate::memory::Pages;

/// Where the list begins in every command that makes an object with one (`pas`).
pub(super) const LIST: usize = 272;
/// Bytes of an entry.
const ENTRY: usize = 8;
/// The low bits of an entry are flags.
const ADDRESS: u64 = !0xfff;
/// Units of the first page's offset: a 64th of a page, so that 6 bits reach every one.
const OFFSET_UNITS: u32 = 6;

/// The first `count` addresses of the list at `bytes[start..]`.
pub(super) fn addresses(bytes: &[u8], start: usize, count: usize) -> Done<Vec<u64>> {
    let list = count
        .checked_mul(ENTRY)
        .and_then(|length| start.checked_add(length))
        .and_then(|end| bytes.get(start..end))
        .ok_or_else(|| {
            Refusal::new(
                Status::BadInputLength,
                format_args!("a list of {count} pages in a command of {} bytes", bytes.len()),
            )
        })?;
    let entry = |entry: &[u8]| entry.iter().fold(0, |value, &byte| value << 8 | u64::from(byte));
    Ok(list.chunks_exact(ENTRY).map(|bytes| entry(bytes) & ADDRESS).collect())
}

/// A ring of `length` bytes in the pages of the list at `bytes[start..]`: of `1 << log_page` bytes
/// each, the first begun at `offset` 64ths of it.
pub(super) fn ring(
    bytes: &[u8],
    start: usize,
    log_page: u32,
    offset: u64,
    length: u64,
) -> Done<Ring> {
    if !(12..=31).contains(&log_page) {
        return Err(Refusal::parameter("log of a page", log_page));
    }
    let offset = offset << (log_page - OFFSET_UNITS);
    let pages = (offset + length).div_ceil(1 << log_page);
    let addresses = addresses(bytes, start, pages as usize)?;
    let pages = Pages::List { log_size: log_page as u8, addresses: addresses.into() };
    Ok(Ring::paged(pages, offset, length))
}

/// A queue of entries that software posts, as a command describes it.
pub(super) struct WorkQueue {
    pub(super) protection_domain: u32,
    pub(super) ring: Ring,
    pub(super) log_entries: u8,
    pub(super) log_stride: u8,
    pub(super) record: u64,
}

/// The work queue that the context `queue` of the command `input` describes.
pub(super) fn work_queue(input: &[u8], queue: &[u8]) -> Done<WorkQueue> {
    let log_entries = wq::LOG_WQ_SZ.get(queue) as u8;
    let log_stride = wq::LOG_WQ_STRIDE.get(queue) as u8;
    let ring = ring(
        input,
        LIST,
        wq::LOG_WQ_PG_SZ.get32(queue) + 12,
        wq::PAGE_OFFSET.get(queue),
        1 << (log_entries + log_stride),
    )?;
    let (protection_domain, record) = (wq::PD.get32(queue), wq::DBR_ADDR.get(queue));
    Ok(WorkQueue { protection_domain, ring, log_entries, log_stride, record })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{AddressSpace, TestMemory};

    #[test]
    fn the_offset_of_the_first_page_counts_64ths_of_a_page() {
        let mut memory = TestMemory::new();
        memory.add(0x10_0000, 0x4000);
        let space: &dyn AddressSpace = &memory;
        let list = 0x10_0003u64.to_be_bytes();
        let ring = ring(&list, 0, 14, 3, 64).unwrap();
        ring.write(space, 0, &[7; 64]).unwrap();
        let mut bytes = [0; 64];
        space.read(0x10_0000 + 3 * 256, &mut bytes).unwrap();
        assert_eq!(bytes, [7; 64]);
    }

    #[test]
    fn a_list_that_does_not_hold_the_ring_is_refused() {
        let list = [0u8; 16];
        assert!(ring(&list, 0, 12, 0, 8192).is_ok());
        assert!(ring(&list, 0, 12, 1, 8192).is_err());
        assert!(ring(&list, 16, 12, 0, 64).is_err());
        assert!(ring(&list, 0, 11, 0, 64).is_err());
        assert!(ring(&list, 0, 60, 63, u64::MAX >> 8).is_err());
        assert!(addresses(&list, 8, usize::MAX).is_err());
    }
}

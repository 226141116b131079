//! The caller's memory, as a kernel reaches it: copies through the pointers of a command, and the
//! check that memory to be pinned is really there.

use doorbell_hal::Errno;
use std::fs;

/// The lowest address a process may map (`vm.mmap_min_addr` of every distribution).
const LOWEST: u64 = 0x1_0000;

/// The size of a page in bytes.
pub(super) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

fn range(address: u64, length: usize) -> Result<(), Errno> {
    let end = address.checked_add(length as u64).ok_or(Errno::EFAULT)?;
    // User addresses are below 2^47 on x86_64 and 2^48 on aarch64 with 4 KiB pages.
    if length != 0 && (address < LOWEST || end > 1 << 48) {
        return Err(Errno::EFAULT);
    }
    Ok(())
}

/// Copies bytes from `address` into `buffer`.
///
/// # Safety
///
/// `address` came out of a command, whose caller promised K2: it is valid for these reads.
pub(super) unsafe fn read(address: u64, buffer: &mut [u8]) -> Result<(), Errno> {
    range(address, buffer.len())?;
    // SAFETY: K2, passed on to our caller; `buffer` is ours and cannot overlap what the caller
    // shares with a kernel call in flight.
    unsafe {
        std::ptr::copy_nonoverlapping(address as *const u8, buffer.as_mut_ptr(), buffer.len())
    };
    Ok(())
}

/// Copies `bytes` to `address`.
///
/// # Safety
///
/// `address` came out of a command, whose caller promised K2: it is valid for these writes.
pub(super) unsafe fn write(address: u64, bytes: &[u8]) -> Result<(), Errno> {
    range(address, bytes.len())?;
    // SAFETY: K2, passed on to our caller.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok(())
}

/// Whether the `length` bytes at `address` are mapped, readable and, where asked, writable: what
/// `ib_umem_get` finds out by pinning them. Refuses with `EFAULT` as it does.
pub(super) fn check_mapped(address: u64, length: u64, writable: bool) -> Result<(), Errno> {
    let end = address.checked_add(length).ok_or(Errno::EFAULT)?;
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else {
        // A sandbox without /proc: take the caller's word (K2).
        return Ok(());
    };
    let mut reached = address;
    for line in maps.lines() {
        let Some((start, stop, permissions)) = parse(line) else { continue };
        if stop <= reached {
            continue;
        }
        if start > reached || !permissions.starts_with('r') {
            return Err(Errno::EFAULT);
        }
        if writable && permissions.as_bytes().get(1) != Some(&b'w') {
            return Err(Errno::EFAULT);
        }
        reached = stop;
        if reached >= end {
            return Ok(());
        }
    }
    Err(Errno::EFAULT)
}

/// A line of `/proc/self/maps`: first and last address (exclusive) and the permissions.
fn parse(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.split_ascii_whitespace();
    let (start, stop) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(stop, 16).ok()?, permissions))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_this_process_is_mapped_and_page_zero_is_not() {
        let mut bytes = vec![0u8; 3 * 4096];
        check_mapped(bytes.as_mut_ptr() as u64, bytes.len() as u64, true).unwrap();
        assert_eq!(check_mapped(0, 4096, false), Err(Errno::EFAULT));
        assert_eq!(check_mapped(u64::MAX - 10, 4096, false), Err(Errno::EFAULT));
    }

    #[test]
    fn constants_can_be_pinned_for_reading_only() {
        static WORDS: [u64; 512] = [7; 512];
        let address = WORDS.as_ptr() as u64;
        check_mapped(address, 4096, false).unwrap();
        assert_eq!(check_mapped(address, 4096, true), Err(Errno::EFAULT));
    }

    #[test]
    fn copies_through_wild_pointers_are_refused_before_they_are_made() {
        let mut byte = [0];
        // SAFETY: K2: refused before the copy, which is what the test shows.
        assert_eq!(unsafe { read(8, &mut byte) }, Err(Errno::EFAULT));
        // SAFETY: K2: as above.
        assert_eq!(unsafe { write(u64::MAX, &byte) }, Err(Errno::EFAULT));
    }
}

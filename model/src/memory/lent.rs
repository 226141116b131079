//! Memory of this process that was lent to one device, at device addresses that are not the process's.

use super::{AddressSpace, Direction, Fault, Window};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{PoisonError, RwLock};

/// Memory lent to a device. Its device addresses follow one another only within a granule, as those of
/// pages behind an IOMMU: whoever takes them for the process's, or for one piece, meets nothing.
pub struct LentMemory {
    loans: RwLock<Loans>,
    granule: usize,
}

#[derive(Default)]
struct Loans {
    /// By first device address; no two overlap.
    all: BTreeMap<u64, Bytes>,
    next: u64,
}

#[derive(Clone, Copy)]
struct Bytes {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: D1, D2: the bytes belong to no thread, and are only touched through windows.
unsafe impl Send for Bytes {}
// SAFETY: D1, D2: as above.
unsafe impl Sync for Bytes {}

/// A loan's place among device addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    base: u64,
    len: usize,
    granule: usize,
}

/// Where device addresses begin: above what 32 bits reach.
const FIRST: u64 = 0x10_0000_0000;
/// Granules are this many of their lengths apart.
const APART: u64 = 2;

impl LentMemory {
    /// Nothing lent yet. Within `granule` bytes, a power of two and at least 4096, device addresses
    /// follow one another.
    ///
    /// # Panics
    ///
    /// If `granule` is no such number.
    pub fn new(granule: usize) -> Self {
        assert!(granule.is_power_of_two() && granule >= 4096, "no granule of {granule} bytes");
        LentMemory { loans: RwLock::default(), granule }
    }

    /// Lends the `len` bytes from `start` on.
    ///
    /// # Safety
    ///
    /// The bytes stay mapped, readable and writable, and nothing refers to them as anything but raw
    /// memory, until [`take_back`](Self::take_back) has returned (SAFETY.md, D1 and M2).
    pub unsafe fn lend(&self, start: NonNull<u8>, len: usize) -> Loan {
        let granule = self.granule as u64;
        let mut loans = self.loans.write().unwrap_or_else(PoisonError::into_inner);
        let base = loans.next.max(FIRST).next_multiple_of(granule);
        loans.next = base + (len as u64).div_ceil(granule).max(1) * APART * granule;
        loans.all.insert(base, Bytes { start, len });
        Loan { base, len, granule: self.granule }
    }

    /// Bytes that are lent.
    pub fn lent(&self) -> usize {
        let loans = self.loans.read().unwrap_or_else(PoisonError::into_inner);
        loans.all.values().map(|bytes| bytes.len).sum()
    }

    /// Takes a loan back. The device reaches its bytes no more. The caller holds the lock that the
    /// device holds while it touches memory.
    pub fn take_back(&self, loan: Loan) {
        self.loans.write().unwrap_or_else(PoisonError::into_inner).all.remove(&loan.base);
    }
}

impl Loan {
    /// Its bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Within so many bytes device addresses follow one another.
    pub fn granule(self) -> usize {
        self.granule
    }

    /// The device address of byte `at`.
    pub fn device_address(self, at: usize) -> Option<u64> {
        let (piece, within) = (at / self.granule, at % self.granule);
        let piece = piece as u64 * APART * self.granule as u64;
        (at < self.len).then(|| self.base + piece + within as u64)
    }
}

// SAFETY: D1, M2: a window lies in bytes that are lent; whoever lent them has promised that they are
// mapped, readable, writable and nobody's reference until they are taken back, which happens only while
// the device is locked and has no window.
unsafe impl AddressSpace for LentMemory {
    fn window(&self, address: u64, len: usize, _: Direction) -> Result<Window<'_>, Fault> {
        if len == 0 {
            // SAFETY: D1: no bytes.
            return Ok(unsafe { Window::new(NonNull::dangling(), 0) });
        }
        let fault = Fault { address, len };
        let granule = self.granule as u64;
        let loans = self.loans.read().unwrap_or_else(PoisonError::into_inner);
        let (&base, bytes) = loans.all.range(..=address).next_back().ok_or(fault)?;
        let (piece, within) =
            ((address - base) / (APART * granule), (address - base) % (APART * granule));
        if within >= granule {
            return Err(fault);
        }
        let at = usize::try_from(piece * granule + within).map_err(|_| fault)?;
        let left = bytes.len.checked_sub(at).filter(|&left| left > 0).ok_or(fault)?;
        let len = len.min(left).min((granule - within) as usize);
        // SAFETY: D1: `at` and `len` bytes from there on are inside the loan.
        Ok(unsafe { Window::new(bytes.start.add(at), len) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loan_is_reached_at_its_device_addresses_and_nowhere_else_until_it_is_taken_back() {
        let memory = LentMemory::new(4096);
        let space: &dyn AddressSpace = &memory;
        let mut bytes = vec![0u8; 3 * 4096 - 10];
        let start = NonNull::new(bytes.as_mut_ptr()).unwrap();
        // SAFETY: D1, M2: `bytes` outlives the loan, and is not touched before it is taken back.
        let loan = unsafe { memory.lend(start, bytes.len()) };
        let (first, second) =
            (loan.device_address(4095).unwrap(), loan.device_address(4096).unwrap());
        assert_ne!(first + 1, second);
        space.write(first, &[7]).unwrap();
        space.write(second, &[8]).unwrap();
        assert!(space.read(first, &mut [0; 2]).is_err());
        assert!(space.read(first + 1, &mut [0]).is_err());
        let last = loan.device_address(3 * 4096 - 11).unwrap();
        assert_eq!(loan.device_address(3 * 4096 - 10), None);
        assert!(space.read(last, &mut [0]).is_ok());
        assert!(space.read(last + 1, &mut [0]).is_err());
        assert!(space.read(FIRST - 1, &mut [0]).is_err());
        memory.take_back(loan);
        assert!(space.read(first, &mut [0]).is_err());
        assert_eq!((bytes[4095], bytes[4096]), (7, 8));
    }
}

//! Page tables: where the memory of rings, regions and contexts lies.
//!
//! A table has 0 to 2 levels. With none, the address is the page itself; with 1, it is a table of
//! entries; with 2, a table of tables of one page each. Only entries that are valid count.

use crate::memory::{AddressSpace, Fault, Pages, Ring};
use doorbell::bnxt::abi::page::{PAGE_ENTRIES, PageEntry};
use std::fmt;
use zerocopy::FromBytes;

/// The most pages that a table may lead to: what 8 MiB of entries name.
const MOST_PAGES: u64 = 1 << 20;

/// Why a page table cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadTable {
    /// More than 2 levels, or a size of pages that there is not.
    Shape,
    /// It has more pages than this NIC takes.
    TooLong {
        /// The pages.
        pages: u64,
    },
    /// One page, with no table, does not hold it.
    TooShort {
        /// The bytes that it would have to hold.
        bytes: u64,
    },
    /// An entry is not valid.
    Invalid {
        /// Which.
        entry: u64,
    },
    /// There is no memory.
    Fault(Fault),
}

impl fmt::Display for BadTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadTable::Shape => f.write_str("a page table of no possible shape"),
            BadTable::TooLong { pages } => write!(f, "a page table of {pages} pages"),
            BadTable::TooShort { bytes } => write!(f, "one page for {bytes} bytes"),
            BadTable::Invalid { entry } => write!(f, "entry {entry} of a page table is not valid"),
            BadTable::Fault(fault) => write!(f, "a page table: {fault}"),
        }
    }
}

impl From<Fault> for BadTable {
    fn from(fault: Fault) -> Self {
        BadTable::Fault(fault)
    }
}

/// The binary logarithm of a page's size, from its code (`*_PG_SIZE_*`).
pub(super) fn log_page(code: u8) -> Result<u8, BadTable> {
    match code {
        0 => Ok(12),
        1 => Ok(13),
        2 => Ok(16),
        3 => Ok(21),
        4 => Ok(23),
        5 => Ok(30),
        _ => Err(BadTable::Shape),
    }
}

/// A page table, as commands name one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    /// The device address of the top table, or of the page.
    pub(super) top: u64,
    /// Levels of tables.
    pub(super) levels: u8,
    /// The binary logarithm of a page's size.
    pub(super) log_page: u8,
}

impl Table {
    /// The addresses of the first `count` pages.
    fn addresses(self, space: &dyn AddressSpace, count: u64) -> Result<Vec<u64>, BadTable> {
        if count > MOST_PAGES {
            return Err(BadTable::TooLong { pages: count });
        }
        match self.levels {
            1 => entries(space, self.top, count, 0),
            2 => {
                let per_table = PAGE_ENTRIES as u64;
                let tables = entries(space, self.top, count.div_ceil(per_table), 0)?;
                let mut all = Vec::new();
                for (first, table) in (0..).step_by(PAGE_ENTRIES).zip(tables) {
                    let here = per_table.min(count - first);
                    all.extend(entries(space, table, here, first)?);
                }
                Ok(all)
            }
            _ => Err(BadTable::Shape),
        }
    }

    /// Where `bytes` bytes from `offset` into the first page on lie.
    pub(super) fn pages(
        self,
        space: &dyn AddressSpace,
        offset: u64,
        bytes: u64,
    ) -> Result<Pages, BadTable> {
        if !(12..=39).contains(&self.log_page) {
            return Err(BadTable::Shape);
        }
        let end = offset.checked_add(bytes).ok_or(BadTable::Shape)?;
        if self.levels == 0 {
            if end > 1 << self.log_page {
                return Err(BadTable::TooShort { bytes: end });
            }
            return Ok(Pages::List { log_size: self.log_page, addresses: [self.top].into() });
        }
        let addresses = self.addresses(space, end.div_ceil(1 << self.log_page))?;
        Ok(Pages::List { log_size: self.log_page, addresses: addresses.into() })
    }

    /// A ring of `bytes` bytes.
    pub(super) fn ring(self, space: &dyn AddressSpace, bytes: u64) -> Result<Ring, BadTable> {
        Ok(Ring::paged(self.pages(space, 0, bytes)?, 0, bytes))
    }
}

/// `count` entries at `table`, of which the first is the `first`th of all.
fn entries(
    space: &dyn AddressSpace,
    table: u64,
    count: u64,
    first: u64,
) -> Result<Vec<u64>, BadTable> {
    let mut bytes = vec![0; count as usize * size_of::<PageEntry>()];
    space.read(table, &mut bytes)?;
    (first..)
        .zip(bytes.chunks_exact(size_of::<PageEntry>()))
        .map(|(number, bytes)| match PageEntry::read_from_bytes(bytes) {
            Ok(entry) if entry.valid() => Ok(entry.address()),
            _ => Err(BadTable::Invalid { entry: number }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::TestMemory;

    fn memory(entries: &[(u64, u64)]) -> TestMemory {
        let mut memory = TestMemory::new();
        memory.add(0x1000, 0x10_000);
        let space: &dyn AddressSpace = &memory;
        for (address, entry) in entries {
            space.write(*address, &entry.to_le_bytes()).unwrap();
        }
        memory
    }

    fn ring(memory: &TestMemory, levels: u8, bytes: u64) -> Result<Ring, BadTable> {
        Table { top: 0x1000, levels, log_page: 12 }.ring(memory, bytes)
    }

    #[test]
    fn tables_of_every_level_lead_to_their_pages() {
        let memory = memory(&[(0x1000, 0x2001), (0x1008, 0x3007), (0x2000, 0x5001)]);
        let space: &dyn AddressSpace = &memory;
        space.write(0x5010, &[7]).unwrap();
        space.write(0x3010, &[8]).unwrap();
        let mut byte = [0];
        ring(&memory, 2, 4096).unwrap().read(space, 0x10, &mut byte).unwrap();
        assert_eq!(byte, [7]);
        ring(&memory, 1, 8192).unwrap().read(space, 0x1010, &mut byte).unwrap();
        assert_eq!(byte, [8]);
        ring(&memory, 0, 4096).unwrap().read(space, 0, &mut byte).unwrap();
        assert_eq!(byte, [1]);
    }

    #[test]
    fn a_table_that_leads_nowhere_is_refused() {
        let memory = memory(&[(0x1000, 0x2001)]);
        assert_eq!(ring(&memory, 1, 8192).unwrap_err(), BadTable::Invalid { entry: 1 });
        assert_eq!(ring(&memory, 2, 4096).unwrap_err(), BadTable::Invalid { entry: 0 });
        assert_eq!(ring(&memory, 3, 4096).unwrap_err(), BadTable::Shape);
        assert_eq!(ring(&memory, 0, 4097).unwrap_err(), BadTable::TooShort { bytes: 4097 });
        assert!(matches!(ring(&memory, 1, u64::MAX), Err(BadTable::TooLong { .. })));
        let far = Table { top: 0x100_0000, levels: 1, log_page: 12 };
        assert!(matches!(far.ring(&memory, 4096), Err(BadTable::Fault(_))));
        let odd = Table { top: 0x1000, levels: 1, log_page: 3 };
        assert_eq!(odd.ring(&memory, 4096).unwrap_err(), BadTable::Shape);
    }
}

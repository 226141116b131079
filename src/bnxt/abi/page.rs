//! Entries of page tables, by which the NIC finds rings, contexts and regions.
//!
//! From Linux' `roce_hsi.h` (`struct ptu_pte`, `struct ptu_pde`) and `bnxt.h`.

use bitfield_struct::bitfield;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of the pages that tables are made of, and of the smallest that they lead to.
pub const PAGE_BYTES: usize = 4096;

/// Entries of a page of a table.
pub const PAGE_ENTRIES: usize = PAGE_BYTES / size_of::<PageEntry>();

/// An entry of a page table (`PTU_PTE_*`).
#[bitfield(u64, repr = U64, from = U64::new, into = U64::get)]
#[derive(PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
pub struct PageEntry {
    /// There is a page.
    pub valid: bool,
    /// It is the ring's last.
    pub last: bool,
    /// It is the ring's last but one.
    pub next_to_last: bool,
    #[bits(9)]
    __: u16,
    /// The page's device address, without its 12 low bits.
    #[bits(52)]
    pub frame: u64,
}

impl PageEntry {
    /// An entry that leads to the page at `address`, whose 12 low bits do not count.
    pub const fn to(address: u64) -> Self {
        PageEntry(U64::new(address >> Self::FRAME_OFFSET << Self::FRAME_OFFSET | 1))
    }

    /// The device address that the entry leads to.
    pub const fn address(self) -> u64 {
        self.0.get() >> Self::FRAME_OFFSET << Self::FRAME_OFFSET
    }
}

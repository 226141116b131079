//! Device addresses that are free: which a function is given for memory, behind an IOMMU.

use alloc::collections::BTreeMap;

/// Ranges of device addresses, free or taken.
///
/// They lie between 4 GiB and 256 GiB: above what firmware and interrupts use, and below what the
/// smallest IOMMU translates (39 bits).
#[derive(Debug)]
pub(in crate::linux) struct AddressSpace {
    /// The length of each free range, by its start. No two of them touch.
    free: BTreeMap<u64, u64>,
}

const START: u64 = 1 << 32;
const END: u64 = 1 << 38;

impl AddressSpace {
    pub(in crate::linux) fn new() -> Self {
        AddressSpace { free: BTreeMap::from([(START, END - START)]) }
    }

    /// Takes `len` addresses that start at a multiple of `align`, a power of two. `None` if there are
    /// none.
    pub(in crate::linux) fn take(&mut self, len: u64, align: u64) -> Option<u64> {
        let (start, free, at) = self.free.iter().find_map(|(start, free)| {
            let at = start.checked_next_multiple_of(align)?;
            let skipped = at - start;
            (skipped <= *free && len <= free - skipped).then_some((*start, *free, at))
        })?;
        self.free.remove(&start);
        if at > start {
            self.free.insert(start, at - start);
        }
        let end = start + free;
        if at + len < end {
            self.free.insert(at + len, end - (at + len));
        }
        Some(at)
    }

    /// Gives back what was taken.
    pub(in crate::linux) fn give_back(&mut self, start: u64, len: u64) {
        let (mut start, mut len) = (start, len);
        if let Some((before, free)) = self.free.range(..start).next_back()
            && before + free == start
        {
            (start, len) = (*before, free + len);
        }
        if let Some(free) = self.free.remove(&(start + len)) {
            len += free;
        }
        self.free.insert(start, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn ranges_do_not_overlap_and_all_come_back() {
        let mut space = AddressSpace::new();
        let mut taken: Vec<(u64, u64)> = Vec::new();
        for round in 0..200u64 {
            let (len, align) = (4096 * (1 + round * 7 % 50), 4096 << (round % 10));
            let start = space.take(len, align).unwrap();
            assert!(start.is_multiple_of(align) && start >= START && start + len <= END);
            assert!(taken.iter().all(|(at, size)| at + size <= start || start + len <= *at));
            taken.push((start, len));
            if round % 3 == 0 {
                let (start, len) = taken.remove(round as usize * 5 % taken.len());
                space.give_back(start, len);
            }
        }
        taken.iter().for_each(|(start, len)| space.give_back(*start, *len));
        assert_eq!(space.free, AddressSpace::new().free);
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let mut space = AddressSpace::new();
        assert_eq!(space.take(END - START + 1, 4096), None);
        assert_eq!(space.take(END - START, 4096), Some(START));
        assert_eq!(space.take(1, 1), None);
        assert_eq!(space.take(4096, 1 << 63), None);
    }
}

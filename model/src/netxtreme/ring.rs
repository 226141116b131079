//! Rings of the firmware channel: notifications, and Ethernet's buffers and completions.

use super::page_table::{BadTable, Table};
use crate::memory::{AddressSpace, Fault, Ring};
use doorbell::bnxt::abi::doorbell::DoorbellFields;
use doorbell::bnxt::abi::firmware::ring::{RingAllocRequest, ring_type};

/// A ring of the firmware channel.
pub(super) struct ChannelRing {
    pub(super) kind: u8,
    /// Entries, all of 16 bytes.
    pub(super) memory: Ring,
    pub(super) entries: u32,
    /// The next entry to write or to read; and the pass, modulo 2.
    pub(super) own: Place,
    /// What the driver has written or read.
    pub(super) driver: Place,
    /// The interrupt vector of a notification ring.
    pub(super) vector: u16,
    /// The next entry raises an interrupt, or is notified.
    pub(super) armed: bool,
    /// The notification ring of a completion ring.
    pub(super) notified: u16,
    /// What those notifications carry.
    pub(super) handle: u64,
    /// The toggle of the last notification.
    pub(super) toggle: u8,
    /// The completion ring of a transmit or receive ring.
    pub(super) completions: u16,
    /// Bytes of a receive buffer.
    pub(super) buffer_bytes: u32,
    /// The context that counts what a transmit or receive ring moves.
    pub(super) statistics: u32,
}

/// Bytes of an entry.
pub(super) const ENTRY: u64 = 16;

/// A place in a ring and its pass, modulo 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    index: u32,
    pass: bool,
}

impl Place {
    /// The place that a doorbell names, if the ring has such a one.
    pub(super) fn of(doorbell: DoorbellFields, entries: u32) -> Option<Place> {
        let index = doorbell.index();
        (index < entries).then_some(Place { index, pass: doorbell.epoch() })
    }

    pub(super) fn index(self) -> u32 {
        self.index
    }

    /// Whether the place is in an even pass, of which the first is one: the valid bit of what a NIC
    /// writes there.
    pub(super) fn valid(self) -> bool {
        !self.pass
    }

    /// The place `count` entries on, at most a ring's length.
    pub(super) fn after(self, count: u32, entries: u32) -> Place {
        let index = self.index + count;
        if index < entries {
            Place { index, ..self }
        } else {
            Place { index: index - entries, pass: !self.pass }
        }
    }

    /// Entries from `earlier` to here: 0 to a ring's length, or `None` where there would be more.
    pub(super) fn since(self, earlier: Place, entries: u32) -> Option<u32> {
        let distance = if self.pass == earlier.pass {
            self.index.checked_sub(earlier.index)
        } else {
            (self.index + entries).checked_sub(earlier.index)
        };
        distance.filter(|&distance| distance <= entries)
    }
}

/// The most entries of a ring.
const MOST_ENTRIES: u32 = 1 << 20;

impl ChannelRing {
    pub(super) fn new(
        request: &RingAllocRequest,
        space: &dyn AddressSpace,
    ) -> Result<Self, BadTable> {
        let entries = request.length.get();
        if entries == 0 || entries > MOST_ENTRIES {
            return Err(BadTable::TooLong { pages: entries.into() });
        }
        let table = Table {
            top: request.page_tbl_addr.get(),
            levels: request.page_tbl_depth,
            log_page: request.page_size,
        };
        let memory = match table.levels {
            // One piece, however long.
            0 => Ring::flat(table.top, u64::from(entries) * ENTRY),
            _ => table.ring(space, u64::from(entries) * ENTRY)?,
        };
        Ok(ChannelRing {
            kind: request.ring_type,
            memory,
            entries,
            own: Place::default(),
            driver: Place::default(),
            vector: request.logical_id.get(),
            armed: false,
            notified: request.nq_ring_id.get(),
            handle: request.cq_handle.get(),
            toggle: 0,
            completions: request.cmpl_ring_id.get(),
            buffer_bytes: request.rx_buf_size.get().into(),
            statistics: request.stat_ctx_id.get(),
        })
    }

    pub(super) fn is(&self, kind: u8) -> bool {
        self.kind == kind
    }

    pub(super) fn is_notifications(&self) -> bool {
        self.is(ring_type::NQ)
    }

    /// Writes `entry`, whose valid bit is bit 0 of byte 8, as the next. Answers whether there was
    /// room.
    pub(super) fn write(
        &mut self,
        space: &dyn AddressSpace,
        mut entry: [u8; ENTRY as usize],
    ) -> Result<bool, Fault> {
        if self.own.since(self.driver, self.entries).is_none_or(|held| held >= self.entries) {
            return Ok(false);
        }
        let at = u64::from(self.own.index) * ENTRY;
        let flags = entry[8] & !1 | u8::from(self.own.valid());
        // The valid bit changes last.
        entry[8] = flags ^ 1;
        self.memory.write(space, at, &entry)?;
        self.memory.publish(space, at + 8, flags)?;
        self.own = self.own.after(1, self.entries);
        Ok(true)
    }

    /// The next entry that the driver has written.
    pub(super) fn read(&mut self, space: &dyn AddressSpace) -> Option<(u32, [u8; ENTRY as usize])> {
        if self.own == self.driver {
            return None;
        }
        let index = self.own.index;
        let mut entry = [0; ENTRY as usize];
        let read = self.memory.read(space, u64::from(index) * ENTRY, &mut entry);
        self.own = self.own.after(1, self.entries);
        read.ok().map(|()| (index, entry))
    }

    /// Entries that the driver has written and that were not read.
    pub(super) fn posted(&self) -> u32 {
        self.driver.since(self.own, self.entries).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart_over_two_passes() {
        let start = Place::default();
        let full = start.after(5, 5);
        assert_eq!((full.index(), full.valid()), (0, false));
        assert_eq!(full.since(start, 5), Some(5));
        assert_eq!(start.since(start, 5), Some(0));
        assert_eq!(full.after(3, 5).since(full.after(1, 5), 5), Some(2));
        // Behind: a distance that no ring can hold.
        assert_eq!(start.after(1, 5).since(start.after(2, 5), 5), None);
        assert_eq!(full.after(2, 5).since(start, 5), None);
        assert_eq!(full.after(5, 5), start);
    }
}

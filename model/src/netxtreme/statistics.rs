//! Statistics contexts: what rings and the RoCE engine have moved, in memory of the driver's.
//!
//! The words are those of `struct ctx_hw_stats` in Linux's `bnxt_hsi.h`, 64 bits each, little-endian.
//! Hardware writes them now and then; here they are always what was counted.

use crate::memory::{AddressSpace, Fault};

/// The bytes that a context needs at least: up to the last word that is counted.
const LEAST_BYTES: u16 = 8 * WORDS as u16;
const WORDS: usize = 16;

/// Words of received frames or packets: to one port, to a group, to all; and their bytes likewise.
const RECEIVED: usize = 0;
const RECEIVED_BYTES: usize = 5;
/// Received, and dropped.
const RECEIVE_DISCARDED: usize = 3;
/// The same of those that were sent.
const SENT: usize = 8;
const SENT_BYTES: usize = 13;

/// Which way a frame goes, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Received,
    Discarded,
    Sent,
}

/// A context: counts, and where the driver reads them.
pub(super) struct Statistics {
    /// Where the driver's memory is, if it gave some.
    at: Option<u64>,
    counts: [u64; WORDS],
}

impl Statistics {
    /// A context of nothing yet, whose driver has `bytes` bytes for it at `at`. `None` if that is too
    /// little.
    pub(super) fn new(at: u64, bytes: u16) -> Option<Self> {
        let at = (at != 0).then_some(at);
        (at.is_none() || bytes >= LEAST_BYTES).then_some(Statistics { at, counts: [0; WORDS] })
    }

    /// Counts a frame of `bytes` bytes to the Ethernet address `to`.
    pub(super) fn count(
        &mut self,
        space: &dyn AddressSpace,
        moved: Moved,
        to: [u8; 6],
        bytes: usize,
    ) -> Result<(), Fault> {
        let kind = match to {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff] => 2,
            [first, ..] => usize::from(first & 1),
        };
        match moved {
            Moved::Received => {
                self.add(space, RECEIVED + kind, 1)?;
                self.add(space, RECEIVED_BYTES + kind, bytes as u64)
            }
            Moved::Discarded => self.add(space, RECEIVE_DISCARDED, 1),
            Moved::Sent => {
                self.add(space, SENT + kind, 1)?;
                self.add(space, SENT_BYTES + kind, bytes as u64)
            }
        }
    }

    /// Counts the RoCE engine's packets.
    pub(super) fn count_packets(
        &mut self,
        space: &dyn AddressSpace,
        sent: u64,
        received: u64,
    ) -> Result<(), Fault> {
        self.add(space, SENT, sent)?;
        self.add(space, RECEIVED, received)
    }

    fn add(&mut self, space: &dyn AddressSpace, word: usize, more: u64) -> Result<(), Fault> {
        let Some(count) = self.counts.get_mut(word).filter(|_| more > 0) else { return Ok(()) };
        *count += more;
        match self.at {
            Some(at) => space.write(at.wrapping_add(8 * word as u64), &count.to_le_bytes()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::TestMemory;

    const AT: u64 = 0x1000;

    fn word(memory: &TestMemory, number: u64) -> u64 {
        let space: &dyn AddressSpace = memory;
        let mut bytes = [0; 8];
        space.read(AT + 8 * number, &mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    #[test]
    fn frames_are_counted_by_their_kind_in_the_drivers_memory() {
        let mut memory = TestMemory::new();
        memory.add(AT, 160);
        let mut context = Statistics::new(AT, 160).unwrap();
        for (moved, to, bytes) in [
            (Moved::Received, [2, 0, 0, 0, 0, 1], 100),
            (Moved::Received, [2, 0, 0, 0, 0, 1], 50),
            (Moved::Received, [1, 0, 0, 0, 0, 1], 60),
            (Moved::Received, [0xff; 6], 70),
            (Moved::Discarded, [2, 0, 0, 0, 0, 1], 80),
            (Moved::Sent, [2, 0, 0, 0, 0, 2], 90),
            (Moved::Sent, [0xff; 6], 42),
        ] {
            context.count(&memory, moved, to, bytes).unwrap();
        }
        context.count_packets(&memory, 5, 7).unwrap();
        let words: Vec<u64> = (0..16).map(|number| word(&memory, number)).collect();
        // `struct ctx_hw_stats`: received, to one, a group, all; discarded, in error; bytes; and sent.
        assert_eq!(words, [2 + 7, 1, 1, 1, 0, 150, 60, 70, 1 + 5, 0, 1, 0, 0, 90, 0, 42]);
    }

    #[test]
    fn a_context_whose_memory_is_too_short_is_none_and_one_without_memory_counts_on() {
        assert!(Statistics::new(AT, LEAST_BYTES - 1).is_none());
        let memory = TestMemory::new();
        let mut context = Statistics::new(0, 0).unwrap();
        assert!(context.count(&memory, Moved::Sent, [0; 6], 60).is_ok());
        let mut context = Statistics::new(AT, 160).unwrap();
        assert!(context.count(&memory, Moved::Sent, [0; 6], 60).is_err());
    }
}

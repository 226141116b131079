//! Copies to send registers, as a bus without bursts brings them: word by word.
//!
//! A processor that writes 64 bytes to a write-combining page sends them to a NIC in one piece. A
//! virtual machine hands them on as eight stores of 8 bytes, and the first is no different from a
//! plain doorbell. So the first store to a register waits a moment for the second. Where none ever
//! follows, the register's stores do not wait any more.

use crate::connectx::Store;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a store waits for the next.
pub(super) const PATIENCE: Duration = Duration::from_millis(1);
/// Plain doorbells in a row after which a register's stores do not wait.
const PLAIN: u8 = 8;
/// Where send registers begin in a page, and the bytes of each of their halves.
const SENDS: u32 = doorbell::mlx5::abi::uar::SEND_OFFSET as u32;
const HALF: u32 = doorbell::mlx5::abi::uar::SEND_HALF_BYTES as u32;
const SLOT: u32 = 64;
const WORD: u32 = 8;

/// A half of a send register: its page, and where it begins there.
type Register = (u32, u32);

/// Puts words together, for each register by itself: processors store to theirs at the same time.
#[derive(Default)]
pub(super) struct Combiner {
    /// Plain doorbells in a row.
    plain: BTreeMap<Register, u8>,
    copies: BTreeMap<Register, Copy>,
}

/// A copy that may be under way.
struct Copy {
    /// Where its slot begins, and the words that are there.
    offset: u32,
    slot: [u64; 8],
    words: usize,
    since: Instant,
    /// The first word was passed on already: what follows says nothing new.
    passed: bool,
}

impl Combiner {
    /// Takes a store of 8 bytes; passes on what is complete.
    pub(super) fn take(&mut self, page: u32, offset: u32, value: u64, pass: &mut dyn FnMut(Store)) {
        if offset < SENDS {
            return pass(Store::Word { page, offset, value });
        }
        let register = (page, offset & !(HALF - 1));
        if let Some(copy) = self.copies.get_mut(&register)
            && copy.offset + copy.words as u32 * WORD == offset
        {
            self.plain.remove(&register);
            copy.since = Instant::now();
            if let Some(word) = copy.slot.get_mut(copy.words) {
                *word = value;
            }
            copy.words += 1;
            if copy.words == copy.slot.len() {
                if !copy.passed {
                    pass(Store::Slot { page, offset: copy.offset, slot: copy.slot });
                }
                // The copy may go on in the next slot of the same half.
                copy.offset += SLOT;
                copy.words = 0;
                if copy.offset.is_multiple_of(HALF) {
                    self.copies.remove(&register);
                }
            }
            return;
        }
        if !offset.is_multiple_of(HALF) {
            return pass(Store::Word { page, offset, value });
        }
        if let Some(copy) = self.copies.remove(&register) {
            self.give_up(register, &copy, pass);
        }
        let passed = self.plain.get(&register).is_some_and(|&plain| plain >= PLAIN);
        if passed {
            pass(Store::Word { page, offset, value });
        }
        let mut slot = [0; 8];
        slot[0] = value;
        let copy = Copy { offset, slot, words: 1, since: Instant::now(), passed };
        self.copies.insert(register, copy);
    }

    /// A copy does not go on: its words are passed on one by one.
    fn give_up(&mut self, register: Register, copy: &Copy, pass: &mut dyn FnMut(Store)) {
        if copy.passed {
            return;
        }
        if copy.words == 1 {
            let plain = self.plain.entry(register).or_default();
            *plain = plain.saturating_add(1);
        }
        for (word, &value) in (0..).zip(copy.slot.iter().take(copy.words)) {
            pass(Store::Word { page: register.0, offset: copy.offset + word * WORD, value });
        }
    }

    /// Passes on all words that still wait, one by one.
    pub(super) fn flush(&mut self, pass: &mut dyn FnMut(Store)) {
        for (register, copy) in std::mem::take(&mut self.copies) {
            self.give_up(register, &copy, pass);
        }
    }

    /// Passes on the first words that have waited long enough. What follows them later is dropped:
    /// the NIC fetches the entry from memory.
    pub(super) fn expire(&mut self, pass: &mut dyn FnMut(Store)) {
        for (&(page, at), copy) in &mut self.copies {
            if copy.passed || copy.words == 0 || copy.since.elapsed() < PATIENCE {
                continue;
            }
            copy.passed = true;
            if copy.offset == at {
                let plain = self.plain.entry((page, at)).or_default();
                *plain = plain.saturating_add(1);
                pass(Store::Word { page, offset: copy.offset, value: copy.slot[0] });
            }
        }
    }

    /// Since when a word waits.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let waiting = self.copies.values().filter(|copy| !copy.passed && copy.words > 0);
        waiting.map(|copy| copy.since).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores(combiner: &mut Combiner, words: &[(u32, u64)]) -> Vec<Store> {
        let mut all = Vec::new();
        for &(offset, value) in words {
            combiner.take(3, offset, value, &mut |store| all.push(store));
        }
        all
    }

    fn slot(offset: u32, first: u64) -> (Vec<(u32, u64)>, Store) {
        let slot: [u64; 8] = std::array::from_fn(|word| first + word as u64);
        let words = (0..).zip(slot).map(|(word, value)| (offset + word * 8, value)).collect();
        (words, Store::Slot { page: 3, offset, slot })
    }

    fn word(offset: u32, value: u64) -> Store {
        Store::Word { page: 3, offset, value }
    }

    #[test]
    fn eight_words_in_a_row_are_a_copy_and_it_may_go_on() {
        let mut combiner = Combiner::default();
        let ((mut words, first), (more, second)) = (slot(0x900, 1), slot(0x940, 9));
        words.extend(more);
        assert_eq!(stores(&mut combiner, &words), [first, second]);
        assert!(combiner.waits_since().is_none());
    }

    #[test]
    fn a_word_alone_is_a_doorbell_and_comes_before_the_next_one() {
        let mut combiner = Combiner::default();
        assert_eq!(stores(&mut combiner, &[(0x800, 1)]), []);
        assert!(combiner.waits_since().is_some());
        assert_eq!(stores(&mut combiner, &[(0x20, 2)]), [word(0x20, 2)]);
        assert_eq!(stores(&mut combiner, &[(0x800, 3)]), [word(0x800, 1)]);
        let mut all = Vec::new();
        combiner.flush(&mut |store| all.push(store));
        assert_eq!(all, [word(0x800, 3)]);
    }

    #[test]
    fn a_register_without_copies_stops_waiting_until_there_is_one() {
        let mut combiner = Combiner::default();
        for value in 0..8 {
            assert!(stores(&mut combiner, &[(0x800, value)]).len() <= 1);
        }
        stores(&mut combiner, &[(0x800, 8)]);
        assert_eq!(stores(&mut combiner, &[(0x800, 9)]), [word(0x800, 9)]);
        // The copy's first word was passed on; the rest only teaches.
        let (words, _) = slot(0x800, 10);
        assert_eq!(stores(&mut combiner, &words), [word(0x800, 10)]);
        let (words, whole) = slot(0x800, 20);
        assert_eq!(stores(&mut combiner, &words), [whole]);
    }

    #[test]
    fn copies_to_two_registers_at_the_same_time_are_told_apart() {
        let mut combiner = Combiner::default();
        let ((left, first), (right, second)) = (slot(0x800, 1), slot(0xa00, 9));
        let mixed: Vec<_> = left.into_iter().zip(right).flat_map(|(a, b)| [a, b]).collect();
        assert_eq!(stores(&mut combiner, &mixed), [first, second]);
    }

    #[test]
    fn a_copy_that_takes_too_long_is_a_doorbell() {
        let mut combiner = Combiner::default();
        let (words, _) = slot(0x800, 1);
        stores(&mut combiner, &words[..3]);
        for copy in combiner.copies.values_mut() {
            copy.since -= PATIENCE;
        }
        let mut all = Vec::new();
        combiner.expire(&mut |store| all.push(store));
        assert_eq!(all, [word(0x800, 1)]);
        assert_eq!(stores(&mut combiner, &words[3..]), []);
    }

    #[test]
    fn a_copy_that_breaks_off_is_passed_on_word_by_word() {
        let mut combiner = Combiner::default();
        let all = stores(&mut combiner, &[(0x800, 1), (0x808, 2), (0x800, 3)]);
        assert_eq!(all, [word(0x800, 1), word(0x808, 2)]);
    }
}

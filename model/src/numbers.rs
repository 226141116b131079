//! Numbers that are handed out, the lowest free one first, each in as long as it takes to find it.

use std::collections::BTreeSet;

/// Which numbers are taken, from 0 on.
#[derive(Default)]
pub(crate) struct Numbers {
    /// The lowest number that was never taken.
    next: u32,
    /// Those below it that are free again.
    free: BTreeSet<u32>,
}

impl Numbers {
    /// Takes the lowest free number that is below `limit`, if there is one.
    pub(crate) fn take(&mut self, limit: u32) -> Option<u32> {
        if let Some(number) = self.free.pop_first() {
            return Some(number);
        }
        let number = self.next;
        (number < limit).then(|| {
            self.next += 1;
            number
        })
    }

    /// Gives a number that was taken back.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.free.insert(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_number_comes_first_and_none_past_the_limit() {
        let mut numbers = Numbers::default();
        assert_eq!([0; 4].map(|_| numbers.take(3)), [Some(0), Some(1), Some(2), None]);
        numbers.give_back(1);
        numbers.give_back(0);
        assert_eq!([0; 3].map(|_| numbers.take(3)), [Some(0), Some(1), None]);
    }
}

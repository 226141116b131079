//! 24-bit packet sequence numbers.

use std::fmt;

/// A packet sequence number: 24 bits, counting around (IBTA vol. 1, chapter 9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The number of sequence numbers.
    pub const COUNT: u32 = 1 << 24;

    /// From the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Psn(value & (Self::COUNT - 1))
    }

    /// The number, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The number `count` further on.
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Psn::new(self.0.wrapping_add(count))
    }

    /// How many numbers further on `self` is than `earlier`, going around: 0 to 2^24 - 1.
    pub const fn since(self, earlier: Psn) -> u32 {
        self.0.wrapping_sub(earlier.0) & (Self::COUNT - 1)
    }

    /// Whether `self` comes before `other`: it is 1 to 2^23 numbers behind.
    pub const fn is_before(self, other: Psn) -> bool {
        self.since(other) >= Self::COUNT / 2
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_around_after_24_bits() {
        let last = Psn::new(0xff_ffff);
        assert_eq!(last.add(1), Psn::new(0));
        assert_eq!(last.add(3).get(), 2);
        assert_eq!(Psn::new(2).since(last), 3);
        assert_eq!(last.since(Psn::new(2)), 0xff_fffd);
        assert_eq!(Psn::new(0x0100_0005).get(), 5);
    }

    #[test]
    fn half_of_the_numbers_come_before_any_number() {
        let here = Psn::new(0x10);
        assert!(!here.is_before(here));
        assert!(here.is_before(here.add(1)));
        assert!(here.is_before(here.add(1 << 23)));
        assert!(!here.is_before(here.add((1 << 23) + 1)));
        assert!(here.add((1 << 23) + 1).is_before(here));
    }
}

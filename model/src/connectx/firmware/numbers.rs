//! Objects that are only numbers here: handed out, named in other commands, and taken back.

use super::status::{Done, Refusal, Status};
use std::collections::{BTreeMap, BTreeSet};

/// A kind of such objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    TransportDomain,
    ExtendedDomain,
    Counter,
    SendInterface,
    ReceiveInterface,
    ReceiveTable,
    FlowTable,
    FlowGroup,
    FlowCounter,
}

impl Kind {
    /// The largest number of this kind.
    fn last(self) -> u32 {
        match self {
            // Counters are named by 8 bits in queue pairs.
            Kind::Counter => 0xff,
            _ => 0xffff,
        }
    }
}

/// The numbers in use.
#[derive(Default)]
pub(super) struct Numbers(BTreeMap<Kind, BTreeSet<u32>>);

impl Numbers {
    /// The lowest free number, from 1 on.
    pub(super) fn take(&mut self, kind: Kind) -> Done<u32> {
        let taken = self.0.entry(kind).or_default();
        let mut free = 1;
        for &number in taken.iter() {
            if number != free {
                break;
            }
            free += 1;
        }
        if free > kind.last() {
            return Err(Refusal::new(Status::NoResources, format_args!("no more {kind:?}s")));
        }
        taken.insert(free);
        Ok(free)
    }

    /// Takes a number back.
    pub(super) fn give_back(&mut self, kind: Kind, number: u32) -> Done {
        let known = self.0.get_mut(&kind).is_some_and(|taken| taken.remove(&number));
        if known { Ok(()) } else { Err(Refusal::unknown(&format!("{kind:?}"), number)) }
    }

    /// Whether a number is in use.
    pub(super) fn contains(&self, kind: Kind, number: u32) -> bool {
        self.0.get(&kind).is_some_and(|taken| taken.contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_handed_out_once_until_they_are_back() {
        let mut numbers = Numbers::default();
        let taken: Vec<u32> = (0..255).map(|_| numbers.take(Kind::Counter).unwrap()).collect();
        assert_eq!(taken, (1..=255).collect::<Vec<_>>());
        assert_eq!(numbers.take(Kind::Counter).unwrap_err().status, Status::NoResources);
        numbers.give_back(Kind::Counter, 7).unwrap();
        assert!(numbers.give_back(Kind::Counter, 7).is_err());
        assert!(!numbers.contains(Kind::Counter, 7));
        assert_eq!(numbers.take(Kind::Counter).unwrap(), 7);
        assert_eq!(numbers.take(Kind::FlowTable).unwrap(), 1);
    }
}

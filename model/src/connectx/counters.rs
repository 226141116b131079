//! What a NIC has seen and done, for tests and for people.

use std::collections::VecDeque;
use std::fmt;

/// Counts of what a NIC has seen and done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Stores to doorbell registers, of either size.
    pub register_stores: u64,
    /// Stores that announced send entries.
    pub send_doorbells: u64,
    /// Stores that armed a completion queue.
    pub arm_doorbells: u64,
    /// Entries that came in a BlueFlame copy.
    pub blue_flame_entries: u64,
    /// Doorbells that no queue listens to: wrong page, offset, number or state.
    pub stray_doorbells: u64,
    /// Doorbells that the doorbell record lagged behind: for entries that it did not cover yet, or
    /// an arm that it did not hold.
    pub record_behind_register: u64,
    /// Work entries read from send rings.
    pub send_entries: u64,
    /// Work entries read from receive rings.
    pub receive_entries: u64,
    /// Work entries that were malformed.
    pub malformed_entries: u64,
    /// Completions written.
    pub completions: u64,
    /// Completions written that were errors.
    pub error_completions: u64,
    /// Completions that did not fit their ring.
    pub overruns: u64,
    /// Completion events raised.
    pub completion_events: u64,
    /// Asynchronous events raised.
    pub asynchronous_events: u64,
    /// Accesses to memory that were refused: key, bounds, right, protection domain.
    pub refused_accesses: u64,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets received by a queue pair.
    pub packets_received: u64,
    /// Packets dropped: no such queue pair, wrong peer, port down.
    pub packets_dropped: u64,
}

/// The last lines of what went wrong, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Log {
    lines: VecDeque<String>,
    dropped: u64,
}

impl Log {
    /// The lines kept.
    const LINES: usize = 256;

    /// Adds a line.
    pub(crate) fn note(&mut self, line: impl fmt::Display) {
        if self.lines.len() == Self::LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.to_string());
    }

    /// The lines, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(String::as_str)
    }

    /// The lines, oldest first, and no more than those.
    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.into()
    }

    /// Whether nothing went wrong.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped > 0 {
            writeln!(f, "({} earlier lines)", self.dropped)?;
        }
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_the_last_lines_and_says_how_many_are_gone() {
        let mut log = Log::default();
        for line in 0..Log::LINES + 3 {
            log.note(line);
        }
        assert_eq!(log.lines().next(), Some("3"));
        assert_eq!(log.lines().count(), Log::LINES);
        assert!(log.to_string().starts_with("(3 earlier lines)\n3\n"));
    }
}

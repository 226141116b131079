//! What went wrong, in lines that a person reads.

use std::collections::VecDeque;
use std::fmt;

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

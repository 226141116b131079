//! A bar that shows how far a long run is.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// A bar on standard error, if that is a terminal, once a run takes longer than a moment.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    shown: bool,
    /// Rounds that the bar does not know of yet.
    pending: u64,
}

/// Runs shorter than this have no bar.
const MOMENT: Duration = Duration::from_secs(1);

impl Progress {
    /// Of a run of `rounds` rounds.
    pub fn new(rounds: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(rounds), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{msg:>24} [{bar:40}] {percent:>3}%") {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress { bar, start: Instant::now(), shown: false, pending: 0 }
    }

    /// Says what is being measured.
    pub fn label(&mut self, what: String) {
        self.bar.set_message(what);
    }

    /// One round is done.
    pub fn round(&mut self) {
        self.pending += 1;
        if !self.shown && self.start.elapsed() > MOMENT {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
        if self.shown {
            self.bar.inc(std::mem::take(&mut self.pending));
        }
    }

    /// Takes the bar away while `print` writes.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

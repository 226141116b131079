//! What became of the packets of a fabric that leaves the process.

use crate::network::counters;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a fabric's packets came to. They are counted while it works, and may be read by anybody.
#[derive(Debug, Default)]
pub struct WireCounters {
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) corrupt: AtomicU64,
    pub(super) unreachable: AtomicU64,
    pub(super) overrun: AtomicU64,
}

counters! {
    /// [`WireCounters`] at one time.
    pub struct WireCounts {
        /// Packets sent.
        pub sent: u64,
        /// Packets received that are what they ought to be.
        pub received: u64,
        /// Packets received that are not.
        pub malformed: u64,
        /// Packets received whose invariant CRC is wrong.
        pub corrupt: u64,
        /// Packets to send to where no packet can go.
        pub unreachable: u64,
        /// Packets for which there was no room, on the way out or in.
        pub overrun: u64,
    }
}

impl WireCounters {
    /// What they are now.
    pub fn read(&self) -> WireCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WireCounts {
            sent: read(&self.sent),
            received: read(&self.received),
            malformed: read(&self.malformed),
            corrupt: read(&self.corrupt),
            unreachable: read(&self.unreachable),
            overrun: read(&self.overrun),
        }
    }
}

impl fmt::Display for WireCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WireCounts { sent, received, malformed, corrupt, unreachable, overrun } = self;
        write!(
            f,
            "{sent} packets sent, {received} received; dropped: {malformed} malformed, {corrupt} \
             with a wrong invariant CRC, {unreachable} to nobody, {overrun} without room"
        )
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

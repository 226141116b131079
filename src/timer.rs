//! The timers of a connection, with their times in their names: a code of 0 means the longest time
//! of one, and no time at all of the other.

use core::time::Duration;

/// How long a peer is asked to wait that finds no receive posted here (receiver not ready).
///
/// InfiniBand Architecture Specification, volume 1, 9.7.5.2.8, table "RNR NAK timer field".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RnrTimer(u8);

/// The times of codes 0 to 31, in units of 10 microseconds.
const RNR_TIMES: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536,
    2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

impl RnrTimer {
    /// 10 microseconds, the shortest.
    pub const US_10: RnrTimer = RnrTimer(1);
    /// 120 microseconds.
    pub const US_120: RnrTimer = RnrTimer(7);
    /// 640 microseconds.
    pub const US_640: RnrTimer = RnrTimer(12);
    /// 10.24 milliseconds.
    pub const MS_10: RnrTimer = RnrTimer(20);
    /// 655.36 milliseconds, the longest.
    pub const MS_655: RnrTimer = RnrTimer(0);

    /// The shortest timer of at least `time`; the longest there is for more than that.
    pub fn at_least(time: Duration) -> RnrTimer {
        let fits = |code: &u8| RnrTimer(*code).time() >= time;
        RnrTimer((1..32).find(fits).unwrap_or(0))
    }

    /// The time.
    pub const fn time(self) -> Duration {
        Duration::from_micros(RNR_TIMES[self.0 as usize % RNR_TIMES.len()] as u64 * 10)
    }

    /// The specification's number, from 0 to 31.
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// How long a queue pair waits for an acknowledgement before it sends again.
///
/// A NIC waits between this and four times this. InfiniBand Architecture Specification, volume 1,
/// 9.7.6.1.3: 4.096 microseconds times 2 to the power of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AckTimeout(u8);

impl AckTimeout {
    /// No timeout: a lost packet stops the connection for ever.
    pub const INFINITE: AckTimeout = AckTimeout(0);
    /// 67.1 milliseconds.
    pub const MS_67: AckTimeout = AckTimeout(14);
    /// 8796 seconds, the longest.
    pub const S_8796: AckTimeout = AckTimeout(31);

    /// The shortest timeout of at least `time`; the longest there is for more than that.
    pub fn at_least(time: Duration) -> AckTimeout {
        let fits = |code: &u8| AckTimeout(*code).time().is_some_and(|least| least >= time);
        AckTimeout((1..31).find(fits).unwrap_or(31))
    }

    /// The time, or `None` for [`INFINITE`](Self::INFINITE).
    pub const fn time(self) -> Option<Duration> {
        match self.0 {
            0 => None,
            code => Some(Duration::from_nanos(4096 << code)),
        }
    }

    /// The specification's number, from 0 to 31.
    pub const fn code(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_the_shortest_that_is_long_enough() {
        let us = Duration::from_micros;
        assert_eq!(RnrTimer::at_least(us(0)), RnrTimer::US_10);
        assert_eq!(RnrTimer::at_least(us(120)), RnrTimer::US_120);
        assert_eq!(RnrTimer::at_least(us(121)).time(), us(160));
        assert_eq!(RnrTimer::at_least(us(491_520)).code(), 31);
        assert_eq!(RnrTimer::at_least(us(491_521)), RnrTimer::MS_655);
        assert_eq!(RnrTimer::at_least(Duration::MAX), RnrTimer::MS_655);
        assert_eq!(RnrTimer::MS_10.time(), us(10_240));
        assert_eq!(RnrTimer::MS_655.time(), us(655_360));

        assert_eq!(AckTimeout::at_least(Duration::ZERO).time(), Some(Duration::from_nanos(8192)));
        assert_eq!(AckTimeout::at_least(us(67_108)), AckTimeout::MS_67);
        assert_eq!(AckTimeout::at_least(Duration::MAX), AckTimeout::S_8796);
        assert_eq!(AckTimeout::INFINITE.time(), None);
    }
}

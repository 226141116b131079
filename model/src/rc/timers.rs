//! The codes of times.

/// The time that a requester waits after a receiver-not-ready NAK, in nanoseconds, by the NAK's
/// 5-bit code (IBTA vol. 1, table 45). Code 0 is the longest: 655.36 ms.
pub fn rnr_timer(code: u8) -> u64 {
    todo!()
}

/// The time without progress after which a requester sends again, in nanoseconds: `4.096 µs << code`,
/// 5 bits; `None` for code 0, which waits for ever (IBTA vol. 1, 9.7.6.1.3).
pub fn ack_timeout(code: u8) -> Option<u64> {
    todo!()
}

//! What is measured: rows and columns of the table, and how one of its cells is done.

/// Operations that are measured in one go. As in `libmlx5.c`.
pub const OPERATIONS: usize = 64;

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Row {
    Post,
    Post8,
    Post32,
    Unsignaled,
    Inline16,
    Inline32,
    Inline64,
    Inline220,
    Receive,
    Send,
    PollBoth,
    Poll,
    Poll16,
    Poll64,
    Poll4096,
    PollEmpty,
}

impl Row {
    pub const ALL: [Row; 16] = [
        Row::Post,
        Row::Post8,
        Row::Post32,
        Row::Unsignaled,
        Row::Inline16,
        Row::Inline32,
        Row::Inline64,
        Row::Inline220,
        Row::Receive,
        Row::Send,
        Row::PollBoth,
        Row::Poll,
        Row::Poll16,
        Row::Poll64,
        Row::Poll4096,
        Row::PollEmpty,
    ];

    /// What the table calls it.
    pub fn name(self) -> &'static str {
        match self {
            Row::Post => "post a write, ring",
            Row::Post8 => "post a write, ring after 8",
            Row::Post32 => "post a write, ring after 32",
            Row::Unsignaled => "post a write, ring; 1 in 16 signaled",
            Row::Inline16 => "post a write of 16 inline bytes, ring",
            Row::Inline32 => "post a write of 32 inline bytes, ring",
            Row::Inline64 => "post a write of 64 inline bytes, ring",
            Row::Inline220 => "post a write of 220 inline bytes, ring",
            Row::Receive => "post a receive",
            Row::Send => "post a send, ring",
            Row::PollBoth => "poll a completion of a send or receive",
            Row::Poll => "poll a completion",
            Row::Poll16 => "poll a completion, 16 at a time",
            Row::Poll64 => "poll a completion, 64 queue pairs",
            Row::Poll4096 => "poll a completion, 4096 queue pairs",
            Row::PollEmpty => "poll, nothing there",
        }
    }
}

/// Whose way of doing it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Column {
    /// doorbell, with an 8-byte store to the register.
    Ours,
    /// doorbell, with the entry carried by the doorbell (BlueFlame).
    OursCarried,
    /// `ibv_post_send`, `ibv_post_recv`, `ibv_poll_cq`.
    Verbs,
    /// `ibv_wr_*`, `ibv_start_poll`.
    Extended,
}

impl Column {
    pub const ALL: [Column; 4] =
        [Column::Ours, Column::OursCarried, Column::Verbs, Column::Extended];
}

/// A way of doing a row.
pub struct Subject {
    pub row: Row,
    pub column: Column,
    measure: Box<dyn FnMut(u64) -> u64>,
}

impl Subject {
    /// `measure` does the operations `OPERATIONS` times, for requests with the id that it is given,
    /// and whatever has to be done before and after. It answers what [`last_timed`] says of the operations.
    /// Where instructions are counted, there is one call of one function named `count_*` in all that.
    pub fn new(row: Row, column: Column, measure: impl FnMut(u64) -> u64 + 'static) -> Self {
        Subject { row, column, measure: Box::new(measure) }
    }

    /// Does it once: cycles of the time-stamp counter, for all operations.
    pub fn measure(&mut self, id: u64) -> u64 {
        (self.measure)(id)
    }
}

/// How often each operation is done `OPERATIONS` times: once to count it, and twice to time it, for the
/// second time is what it takes when it is done all the time, with code and rings in the caches.
pub fn laps(loops: bool) -> usize {
    if loops { 2 } else { 1 }
}

/// Does `work` `laps` times: how long the last took, in cycles of the time-stamp counter, and what came
/// of it.
#[inline(always)]
pub fn last_timed<R>(laps: usize, mut work: impl FnMut() -> R) -> (u64, R) {
    for _ in 1..laps {
        work();
    }
    timed(work)
}

/// Does `work`: how long it took, in cycles of the time-stamp counter, and what came of it.
#[inline(always)]
fn timed<R>(work: impl FnOnce() -> R) -> (u64, R) {
    drain_stores();
    let start = now();
    let result = work();
    (now() - start, result)
}

#[inline(always)]
fn drain_stores() {
    // SAFETY: S2: a fence touches no memory.
    unsafe { std::arch::x86_64::_mm_mfence() };
}

/// The time-stamp counter, read when all before is done and before anything after begins.
#[inline(always)]
fn now() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: S2: reading a counter and fences touch no memory.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

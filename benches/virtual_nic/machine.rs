//! What the machine can do at all: move a cache line, bytes, and messages between two threads.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// A word in a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Spins until `done` says so.
#[inline]
pub fn wait(mut done: impl FnMut() -> bool) {
    /// Spins before the processor is offered to others: where there are fewer than threads, nothing
    /// would go on.
    const SPINS: u32 = 2000;
    let mut spins = 0u32;
    while !done() {
        spins += 1;
        if spins.is_multiple_of(SPINS) {
            std::thread::yield_now();
        }
        spin_loop();
    }
}

/// Nanoseconds of half a round trip of a cache line between two threads, of several bursts.
pub fn cache_line() -> Vec<f64> {
    const BURSTS: u64 = 20;
    const ROUNDS: u64 = 50;
    let [there, back] = [Line::default(), Line::default()];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=BURSTS * ROUNDS {
                wait(|| there.0.load(Ordering::Acquire) == round);
                back.0.store(round, Ordering::Release);
            }
        });
        let burst = |burst: u64| {
            let start = Instant::now();
            for round in burst * ROUNDS + 1..=(burst + 1) * ROUNDS {
                there.0.store(round, Ordering::Release);
                wait(|| back.0.load(Ordering::Acquire) == round);
            }
            start.elapsed().as_nanos() as f64 / (2 * ROUNDS) as f64
        };
        // The other thread runs by the end of the first.
        (0..BURSTS).map(burst).skip(1).collect()
    })
}

/// Memory to copy to and from.
pub struct Copies {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Copies {
    pub fn new(len: usize) -> Self {
        Copies { from: vec![1; len], to: vec![2; len] }
    }

    /// Nanoseconds of a copy.
    pub fn copy(&mut self) -> f64 {
        const COPIES: u32 = 8;
        let start = Instant::now();
        for _ in 0..COPIES {
            self.to.copy_from_slice(std::hint::black_box(&self.from));
            std::hint::black_box(&mut self.to);
        }
        start.elapsed().as_nanos() as f64 / f64::from(COPIES)
    }
}

/// Slots of the queue.
const SLOTS: u64 = 256;

/// A queue of one producer and one consumer, of slots of a cache line as a work entry is one.
struct Queue {
    slots: [Line; SLOTS as usize],
    written: Line,
    read: Line,
}

/// Nanoseconds a message of a queue between two threads, of several bursts.
pub fn queue() -> Vec<f64> {
    const BURSTS: u64 = 20;
    const MESSAGES: u64 = 10_000;
    let queue = Queue {
        slots: std::array::from_fn(|_| Line::default()),
        written: Line::default(),
        read: Line::default(),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..BURSTS * MESSAGES {
                wait(|| queue.written.0.load(Ordering::Acquire) > number);
                let message = queue.slots[(number % SLOTS) as usize].0.load(Ordering::Relaxed);
                assert_eq!(message, number);
                queue.read.0.store(number + 1, Ordering::Release);
            }
        });
        let burst = |burst: u64| {
            let start = Instant::now();
            for number in burst * MESSAGES..(burst + 1) * MESSAGES {
                wait(|| queue.read.0.load(Ordering::Acquire) + SLOTS > number);
                queue.slots[(number % SLOTS) as usize].0.store(number, Ordering::Relaxed);
                queue.written.0.store(number + 1, Ordering::Release);
            }
            start.elapsed().as_nanos() as f64 / MESSAGES as f64
        };
        // The other thread runs by the end of the first.
        (0..BURSTS).map(burst).skip(1).collect()
    })
}

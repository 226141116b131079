//! Waiting for completions, with an end to patience.

use doorbell::completion::{Completion, Failed, Received};
use doorbell::mlx5::CompletionQueue;
use doorbell_hal::uverbs::Uverbs;
use std::time::{Duration, Instant};

/// How long a test waits for what must come: far longer than it takes on a loaded machine.
pub fn patience() -> Duration {
    Duration::from_secs(30)
}

/// The next completion.
#[track_caller]
pub fn next<V: Uverbs, N>(queue: &mut CompletionQueue<V, N>) -> Completion {
    next_or_step(queue, || ())
}

/// The next completion. Calls `step` whenever there is none yet.
#[track_caller]
pub fn next_or_step<V: Uverbs, N>(
    queue: &mut CompletionQueue<V, N>,
    mut step: impl FnMut(),
) -> Completion {
    let end = Instant::now() + patience();
    loop {
        if let Some(completion) = queue.poll() {
            return completion;
        }
        assert!(Instant::now() < end, "no completion came");
        step();
        std::thread::yield_now();
    }
}

/// The id of the next completion, which is of a request that is done.
#[track_caller]
pub fn sent<V: Uverbs, N>(queue: &mut CompletionQueue<V, N>) -> u64 {
    match next(queue) {
        Completion::Sent(sent) => sent.id,
        other => panic!("no request is done, but {other:?}"),
    }
}

/// The next completion, which is of a receive that is filled.
#[track_caller]
pub fn received<V: Uverbs, N>(queue: &mut CompletionQueue<V, N>) -> Received {
    match next(queue) {
        Completion::Received(received) => received,
        other => panic!("no receive is filled, but {other:?}"),
    }
}

/// The next completion, which is a failure.
#[track_caller]
pub fn failed<V: Uverbs, N>(queue: &mut CompletionQueue<V, N>) -> Failed {
    match next(queue) {
        Completion::Failed(failed) => failed,
        other => panic!("nothing failed, but {other:?}"),
    }
}

/// The next `count` completions.
#[track_caller]
pub fn drain<V: Uverbs, N>(queue: &mut CompletionQueue<V, N>, count: usize) -> Vec<Completion> {
    (0..count).map(|_| next(queue)).collect()
}

/// Waits until `done` says so.
#[track_caller]
pub fn until(mut done: impl FnMut() -> bool) {
    let end = Instant::now() + patience();
    while !done() {
        assert!(Instant::now() < end, "what should happen did not");
        std::thread::yield_now();
    }
}

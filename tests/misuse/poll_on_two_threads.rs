//! One thread at a time polls a completion queue.

use doorbell::mlx5::CompletionQueue;
use doorbell_hal::uverbs::Uverbs;

/// Each thread polls through its reference.
fn on_two_threads<V: Uverbs>(_first: &mut CompletionQueue<V>, _second: &mut CompletionQueue<V>) {}

fn misuse<V: Uverbs>(mut queue: CompletionQueue<V>) {
    on_two_threads(&mut queue, &mut queue);
}

fn shared<V: Uverbs>(queue: &CompletionQueue<V>) {
    let _ = queue.poll();
}

fn main() {}

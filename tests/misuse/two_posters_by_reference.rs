//! One thread at a time posts to a send queue.

use doorbell::mlx5::SendQueue;
use doorbell_hal::uverbs::Uverbs;

/// Each thread posts through its reference.
fn on_two_threads<V: Uverbs>(_first: &mut SendQueue<V>, _second: &mut SendQueue<V>) {}

fn misuse<V: Uverbs>(mut queue: SendQueue<V>) {
    on_two_threads(&mut queue, &mut queue);
}

fn main() {}

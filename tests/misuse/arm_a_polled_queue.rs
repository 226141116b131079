//! A completion queue without an event channel raises no events.

use doorbell::mlx5::CompletionQueue;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut queue: CompletionQueue<V>) {
    queue.arm();
    queue.arm_solicited();
}

fn main() {}

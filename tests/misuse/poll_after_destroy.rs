//! A completion queue that was destroyed is gone.

use doorbell::mlx5::CompletionQueue;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut queue: CompletionQueue<V>) {
    queue.destroy().unwrap();
    let _ = queue.poll();
}

fn main() {}

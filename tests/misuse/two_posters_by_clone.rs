//! There is one send queue of a queue pair.

use doorbell::mlx5::{ReceiveQueue, SendQueue};
use doorbell_hal::uverbs::Uverbs;

fn send<V: Uverbs>(queue: SendQueue<V>) -> [SendQueue<V>; 2] {
    [queue.clone(), queue]
}

fn receive<V: Uverbs>(queue: ReceiveQueue<V>) -> [ReceiveQueue<V>; 2] {
    [queue.clone(), queue]
}

fn main() {}

//! Of a queue pair in Reset there is nothing to take down.

use doorbell::mlx5::QueuePair;
use doorbell::state::Reset;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(qp: QueuePair<Reset, V>) {
    let _ = qp.fail();
}

fn main() {}

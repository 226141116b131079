//! A queue pair is destroyed once.

use doorbell::mlx5::QueuePair;
use doorbell::state::Reset;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(qp: QueuePair<Reset, V>) {
    qp.destroy().unwrap();
    qp.destroy().unwrap();
}

fn main() {}

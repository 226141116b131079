//! Only a connected queue pair is split.

use doorbell::mlx5::QueuePair;
use doorbell::state::Init;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(qp: QueuePair<Init, V>) {
    let _ = qp.split();
}

fn main() {}

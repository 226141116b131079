//! A queue pair is reset after it was taken down and drained.

use doorbell::mlx5::QueuePair;
use doorbell::state::Rts;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(qp: QueuePair<Rts, V>) {
    let _ = qp.reset();
}

fn main() {}

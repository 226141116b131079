//! A queue pair that was taken down takes no receives: they would only be flushed.

use doorbell::mlx5::QueuePair;
use doorbell::state::Errored;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Errored, V>) {
    let _ = qp.receives().post(wr::receive(Nothing));
}

fn main() {}

//! A queue pair takes receives from Init on.

use doorbell::mlx5::QueuePair;
use doorbell::state::Reset;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Reset, V>) {
    let _ = qp.receives().post(wr::receive(Nothing));
}

fn main() {}

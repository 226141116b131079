//! A queue pair that is ready to receive does not send yet.

use doorbell::mlx5::QueuePair;
use doorbell::state::Rtr;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Rtr, V>) {
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

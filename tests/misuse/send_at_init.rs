//! A queue pair that nothing can reach yet sends nothing.

use doorbell::mlx5::QueuePair;
use doorbell::state::Init;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Init, V>) {
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

//! A queue pair that was just made sends nothing.

use doorbell::mlx5::QueuePair;
use doorbell::state::Reset;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Reset, V>) {
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

//! A queue pair that was split is its two queues, and nothing else.

use doorbell::mlx5::QueuePair;
use doorbell::state::Rts;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Rts, V>) {
    let (_sends, _receives) = qp.split();
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

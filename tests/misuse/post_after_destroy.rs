//! A queue pair that was destroyed is gone.

use doorbell::mlx5::QueuePair;
use doorbell::state::Rts;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(mut qp: QueuePair<Rts, V>) {
    qp.destroy().unwrap();
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

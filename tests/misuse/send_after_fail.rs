//! A queue pair that was taken down sends nothing, by its old name or its new one.

use doorbell::mlx5::QueuePair;
use doorbell::state::Rts;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn new_name<V: Uverbs>(qp: QueuePair<Rts, V>) {
    let mut errored = qp.fail().unwrap();
    let _ = errored.sends().post(wr::send(Nothing));
}

fn old_name<V: Uverbs>(mut qp: QueuePair<Rts, V>) {
    let _errored = qp.fail().unwrap();
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

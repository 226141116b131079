//! A receive is no request.

use doorbell::mlx5::SendQueue;
use doorbell::wr::{self, Nothing};
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(queue: &mut SendQueue<V>) {
    let _ = queue.post(wr::receive(Nothing));
}

fn main() {}

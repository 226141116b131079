//! A queue pair is connected once, until it was reset.

use doorbell::endpoint::Endpoint;
use doorbell::mlx5::{Connection, PeerRights, QueuePair};
use doorbell::state::{Reset, Rts};
use doorbell_hal::uverbs::Uverbs;

fn new_name<V: Uverbs>(qp: QueuePair<Rts, V>, peer: &Endpoint) {
    let _ = qp.connect(PeerRights::NONE, peer, &Connection::new());
}

fn old_name<V: Uverbs>(qp: QueuePair<Reset, V>, peer: &Endpoint) {
    let _ = qp.connect(PeerRights::NONE, peer, &Connection::new());
    let _ = qp.connect(PeerRights::NONE, peer, &Connection::new());
}

fn main() {}

//! States come one after the other.

use doorbell::endpoint::Endpoint;
use doorbell::mlx5::{Connection, PeerRights, QueuePair};
use doorbell::state::{Init, Reset, Rtr};
use doorbell_hal::uverbs::Uverbs;

fn from_reset<V: Uverbs>(qp: QueuePair<Reset, V>, peer: &Endpoint) {
    let _ = qp.ready_to_receive(peer, &Connection::new());
}

fn from_init<V: Uverbs>(qp: QueuePair<Init, V>) {
    let _ = qp.ready_to_send(&Connection::new());
}

fn back<V: Uverbs>(qp: QueuePair<Rtr, V>) {
    let _ = qp.init(PeerRights::NONE);
}

fn main() {}

//! States come one after the other.

use doorbell::endpoint::Endpoint;
use doorbell::bnxt::{Connection, PeerRights, QueuePair};
use doorbell::state::{Init, Reset, Rtr};
use doorbell_hal::pci::PciFunction;

fn from_reset<F: PciFunction>(qp: QueuePair<Reset, F>, peer: &Endpoint) {
    let _ = qp.ready_to_receive(peer, &Connection::new());
}

fn from_init<F: PciFunction>(qp: QueuePair<Init, F>) {
    let _ = qp.ready_to_send(&Connection::new());
}

fn back<F: PciFunction>(qp: QueuePair<Rtr, F>) {
    let _ = qp.init(PeerRights::NONE);
}

fn main() {}

//! A queue pair is connected once, until it was reset.

use doorbell::endpoint::Endpoint;
use doorbell::bnxt::{Connection, PeerRights, QueuePair};
use doorbell::state::{Reset, Rts};
use doorbell_hal::pci::PciFunction;

fn new_name<F: PciFunction>(qp: QueuePair<Rts, F>, peer: &Endpoint) {
    let _ = qp.connect(PeerRights::NONE, peer, &Connection::new());
}

fn old_name<F: PciFunction>(qp: QueuePair<Reset, F>, peer: &Endpoint) {
    let _ = qp.connect(PeerRights::NONE, peer, &Connection::new());
    let _ = qp.connect(PeerRights::NONE, peer, &Connection::new());
}

fn main() {}

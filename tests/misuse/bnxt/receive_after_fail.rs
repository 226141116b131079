//! A queue pair that was taken down takes no receives: they would only be flushed.

use doorbell::bnxt::QueuePair;
use doorbell::state::Errored;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Errored, F>) {
    let _ = qp.receives().post(wr::receive(Nothing));
}

fn main() {}

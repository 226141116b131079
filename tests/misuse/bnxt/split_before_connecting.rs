//! Only a connected queue pair is split.

use doorbell::bnxt::QueuePair;
use doorbell::state::Init;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(qp: QueuePair<Init, F>) {
    let _ = qp.split();
}

fn main() {}

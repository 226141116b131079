//! A queue pair is reset after it was taken down and drained.

use doorbell::bnxt::QueuePair;
use doorbell::state::Rts;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(qp: QueuePair<Rts, F>) {
    let _ = qp.reset();
}

fn main() {}

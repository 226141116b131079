//! A queue pair is destroyed once.

use doorbell::bnxt::QueuePair;
use doorbell::state::Reset;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(qp: QueuePair<Reset, F>) {
    qp.destroy().unwrap();
    qp.destroy().unwrap();
}

fn main() {}

//! Of a queue pair in Reset there is nothing to take down.

use doorbell::bnxt::QueuePair;
use doorbell::state::Reset;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(qp: QueuePair<Reset, F>) {
    let _ = qp.fail();
}

fn main() {}

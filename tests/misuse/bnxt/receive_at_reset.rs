//! A queue pair takes receives from Init on.

use doorbell::bnxt::QueuePair;
use doorbell::state::Reset;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Reset, F>) {
    let _ = qp.receives().post(wr::receive(Nothing));
}

fn main() {}

//! A queue pair that nothing can reach yet sends nothing.

use doorbell::bnxt::QueuePair;
use doorbell::state::Init;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Init, F>) {
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

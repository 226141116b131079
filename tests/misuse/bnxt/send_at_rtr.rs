//! A queue pair that is ready to receive does not send yet.

use doorbell::bnxt::QueuePair;
use doorbell::state::Rtr;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Rtr, F>) {
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

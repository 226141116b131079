//! A queue pair that was just made sends nothing.

use doorbell::bnxt::QueuePair;
use doorbell::state::Reset;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Reset, F>) {
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

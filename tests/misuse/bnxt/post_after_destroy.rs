//! A queue pair that was destroyed is gone.

use doorbell::bnxt::QueuePair;
use doorbell::state::Rts;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Rts, F>) {
    qp.destroy().unwrap();
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

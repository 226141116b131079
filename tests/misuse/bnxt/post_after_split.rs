//! A queue pair that was split is its two queues, and nothing else.

use doorbell::bnxt::QueuePair;
use doorbell::state::Rts;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut qp: QueuePair<Rts, F>) {
    let (_sends, _receives) = qp.split();
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

//! A queue pair that was taken down sends nothing, by its old name or its new one.

use doorbell::bnxt::QueuePair;
use doorbell::state::Rts;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn new_name<F: PciFunction>(qp: QueuePair<Rts, F>) {
    let mut errored = qp.fail().unwrap();
    let _ = errored.sends().post(wr::send(Nothing));
}

fn old_name<F: PciFunction>(mut qp: QueuePair<Rts, F>) {
    let _errored = qp.fail().unwrap();
    let _ = qp.sends().post(wr::send(Nothing));
}

fn main() {}

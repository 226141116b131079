//! A receive is no request.

use doorbell::bnxt::SendQueue;
use doorbell::wr::{self, Nothing};
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(queue: &mut SendQueue<F>) {
    let _ = queue.post(wr::receive(Nothing));
}

fn main() {}

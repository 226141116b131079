//! One thread at a time posts to a send queue.

use doorbell::bnxt::SendQueue;
use doorbell_hal::pci::PciFunction;

/// Each thread posts through its reference.
fn on_two_threads<F: PciFunction>(_first: &mut SendQueue<F>, _second: &mut SendQueue<F>) {}

fn misuse<F: PciFunction>(mut queue: SendQueue<F>) {
    on_two_threads(&mut queue, &mut queue);
}

fn main() {}

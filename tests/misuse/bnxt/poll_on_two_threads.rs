//! One thread at a time polls a completion queue.

use doorbell::bnxt::CompletionQueue;
use doorbell_hal::pci::PciFunction;

/// Each thread polls through its reference.
fn on_two_threads<F: PciFunction>(_first: &mut CompletionQueue<F>, _second: &mut CompletionQueue<F>) {}

fn misuse<F: PciFunction>(mut queue: CompletionQueue<F>) {
    on_two_threads(&mut queue, &mut queue);
}

fn shared<F: PciFunction>(queue: &CompletionQueue<F>) {
    let _ = queue.poll();
}

fn main() {}

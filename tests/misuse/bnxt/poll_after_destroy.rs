//! A completion queue that was destroyed is gone.

use doorbell::bnxt::CompletionQueue;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(mut queue: CompletionQueue<F>) {
    queue.destroy().unwrap();
    let _ = queue.poll();
}

fn main() {}

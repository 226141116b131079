//! There is one send queue of a queue pair.

use doorbell::bnxt::{ReceiveQueue, SendQueue};
use doorbell_hal::pci::PciFunction;

fn send<F: PciFunction>(queue: SendQueue<F>) -> [SendQueue<F>; 2] {
    [queue.clone(), queue]
}

fn receive<F: PciFunction>(queue: ReceiveQueue<F>) -> [ReceiveQueue<F>; 2] {
    [queue.clone(), queue]
}

fn main() {}

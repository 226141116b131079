//! A NIC that was closed is gone.

use doorbell::bnxt::Nic;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(nic: Nic<F>) {
    nic.close().unwrap();
    let _ = nic.completion_queue(8);
}

fn main() {}

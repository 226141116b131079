//! Memory that a region does not own takes a promise, which is `unsafe` to give.

use doorbell::bnxt::access::Local;
use doorbell::bnxt::Nic;
use doorbell_hal::pci::PciFunction;
use std::ptr::NonNull;

fn misuse<F: PciFunction>(nic: &Nic<F>, bytes: &mut [u8]) {
    let _ = nic.region_at::<Local>(NonNull::from(bytes).cast(), 8);
}

fn main() {}

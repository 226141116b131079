//! A region that was deregistered is gone.

use doorbell::bnxt::Region;
use doorbell::bnxt::access::RemoteRead;
use doorbell_hal::pci::PciFunction;

fn misuse<F: PciFunction>(region: Region<RemoteRead, F>) {
    region.deregister().unwrap();
    let _ = region.slice(0..8);
    let _ = region.read_at(0, &mut [0; 8]);
}

fn main() {}

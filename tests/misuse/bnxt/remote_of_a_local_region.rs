//! A region that is for this process only has no name for peers.

use doorbell::bnxt::access::Local;
use doorbell::bnxt::{DeviceRegion, Region};
use doorbell_hal::pci::PciFunction;

fn host<F: PciFunction>(region: &Region<Local, F>) {
    let _ = region.remote();
}

fn device<F: PciFunction>(region: &DeviceRegion<Local, F>) {
    let _ = region.remote();
}

fn main() {}

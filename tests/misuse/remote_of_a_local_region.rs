//! A region that is for this process only has no name for peers.

use doorbell::mlx5::access::Local;
use doorbell::mlx5::{DeviceRegion, Region};
use doorbell_hal::uverbs::Uverbs;

fn host<V: Uverbs>(region: &Region<Local, V>) {
    let _ = region.remote();
}

fn device<V: Uverbs>(region: &DeviceRegion<Local, V>) {
    let _ = region.remote();
}

fn main() {}

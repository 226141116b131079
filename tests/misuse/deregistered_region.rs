//! A region that was deregistered is gone.

use doorbell::mlx5::Region;
use doorbell::mlx5::access::RemoteRead;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(region: Region<RemoteRead, V>) {
    region.deregister().unwrap();
    let _ = region.slice(0..8);
    let _ = region.read_at(0, &mut [0; 8]);
}

fn main() {}

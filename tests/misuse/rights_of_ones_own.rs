//! What peers may do is one of the kinds that there are.

use doorbell::mlx5::abi::verbs::AccessFlags;
use doorbell::mlx5::access::Access;

struct Everything;

impl Access for Everything {
    const FLAGS: AccessFlags = AccessFlags::new();
}

fn main() {}

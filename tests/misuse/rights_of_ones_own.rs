//! What peers may do is one of the kinds that there are.

use doorbell::mlx5::PeerRights;
use doorbell::mlx5::access::Access;

struct Everything;

impl Access for Everything {
    const RIGHTS: PeerRights = PeerRights::NONE;
}

fn main() {}

//! A NIC that was closed is gone.

use doorbell::mlx5::Nic;
use doorbell_hal::uverbs::Uverbs;

fn misuse<V: Uverbs>(nic: Nic<V>) {
    nic.close().unwrap();
    let _ = nic.completion_queue(8);
}

fn main() {}

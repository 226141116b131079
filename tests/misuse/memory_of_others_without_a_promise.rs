//! Memory that a region does not own takes a promise, which is `unsafe` to give.

use doorbell::mlx5::access::Local;
use doorbell::mlx5::{Nic, Order};
use doorbell_hal::uverbs::Uverbs;
use std::ptr::NonNull;

fn misuse<V: Uverbs>(nic: &Nic<V>, bytes: &mut [u8]) {
    let _ = nic.region_at::<Local>(NonNull::from(bytes).cast(), 8, Order::InOrder);
}

fn main() {}

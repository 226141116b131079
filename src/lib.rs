//! Drives RDMA NICs.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod mlx5;

//! Drives RDMA NICs.
#![no_std]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod completion;
pub mod endpoint;
pub mod error;
pub mod mlx5;
pub mod state;
pub mod timer;
pub mod wr;

//! ConnectX NICs (mlx5).

pub mod abi;

//! The layouts that the driver shares with the NIC and its firmware. All little-endian.
//!
//! | module | holds |
//! |---|---|
//! | [`firmware`] | the messages of the firmware channel (HWRM): what sets the function up |
//!
//! Every type is plain bytes, as those of [`mlx5::abi`](crate::mlx5::abi) are: any bytes are a value,
//! and sizes and offsets are checked when this crate compiles.

pub mod firmware;

pub use crate::layout::Unknown;

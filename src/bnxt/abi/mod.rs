//! The layouts that the driver shares with the NIC and its firmware. All little-endian.
//!
//! | module | holds |
//! |---|---|
//! | [`wqe`] | work entries: what a poster writes for the NIC |
//! | [`cqe`] | completions: what the NIC writes for a poller |
//! | [`notification`] | what the NIC writes into a notification ring |
//! | [`doorbell`] | the words that go to doorbell registers |
//! | [`page`] | entries of page tables |
//! | [`firmware`] | the messages of the firmware channel (HWRM): what sets the function up |
//! | [`command`], [`opcode`], [`field`] | the commands of the RoCE engine's firmware |
//! | [`event`], [`answer`] | what it answers, in its event ring and in memory |
//!
//! Every type is plain bytes, as those of [`mlx5::abi`](crate::mlx5::abi) are: any bytes are a value,
//! and sizes and offsets are checked when this crate compiles. Fields have the names that Linux'
//! `roce_hsi.h` gives them; `tests/abi_golden` compares them with what that header says.

pub mod answer;
pub mod command;
pub mod cqe;
pub mod doorbell;
pub mod event;
pub mod field;
pub mod firmware;
pub mod notification;
pub mod opcode;
pub mod page;
pub mod wqe;

pub use crate::layout::{CStructure, Unknown};

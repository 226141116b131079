//! The virtual ConnectX and its verbs file, driven by hand: raw ioctls and raw work entries, no
//! driver. What is asserted of errors is what Linux's `ib_uverbs` and `mlx5_ib` (6.12) do; comments
//! name the function.

mod anything;
mod client;
mod dmabuf;
mod failures;
mod ioctl;
mod life;
mod objects;
mod older;
mod rings;
mod side;
mod states;

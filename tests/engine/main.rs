//! The library as an engine uses it, on whatever NICs there are.

#[path = "../device/mod.rs"]
mod device;

mod operations;
mod rings;
mod sizes;
mod names;
mod regions;
mod bounds;
mod dma_buf;
mod endpoint;
mod life;
mod events;
mod failing;
mod recovery;
mod doorbells;
mod threads;

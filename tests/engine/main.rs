//! The library as an engine uses it, on whatever NICs there are.

#[path = "../device/mod.rs"]
mod device;

mod bounds;
mod dma_buf;
mod doorbells;
mod endpoint;
mod events;
mod failing;
mod life;
mod names;
mod operations;
mod recovery;
mod regions;
mod rings;
mod sizes;
mod threads;

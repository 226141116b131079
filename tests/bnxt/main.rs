//! The driver of the BCM57608, on the virtual one, as an engine uses it.

mod bounds;
mod device;
mod events;
mod failing;
mod firmware;
mod life;
mod machine;
mod operations;
mod pacing;
mod regions;
mod rings;

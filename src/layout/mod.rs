//! How the layouts that drivers share with NICs, firmware and kernels are written down, the same way
//! for every family: sizes and offsets that are checked when the crate compiles, and numbers that
//! become enums.

#[macro_use]
mod code;
#[macro_use]
mod pinned;
#[macro_use]
mod structures;

pub use code::Unknown;
pub use structures::CStructure;

//! Linux: verbs files, PCI functions, mapped registers and memory, made with rustix. The only system calls of the
//! project's drivers.

mod events;
mod machine;
mod mapping;
mod memory;
pub mod pci;
mod verbs_file;
pub mod vfio_user;

/// A random number that nobody can guess.
fn random() -> Result<u32, crate::Errno> {
    let mut bytes = [0; 4];
    // A request of up to 256 bytes is never cut short (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u32::from_ne_bytes(bytes))
}

pub use events::EventDescriptors;
pub use machine::{FileError, Machine};
pub use mapping::{MappedPage, MappedRegister};
pub use memory::{Anonymous, HugePage};
pub use verbs_file::VerbsFile;

//! Linux: verbs files, PCI functions, mapped registers and memory, made with rustix. The only system calls of the
//! project's drivers.

mod events;
mod machine;
mod mapping;
mod memory;
pub mod pci;
mod verbs_file;

pub use events::EventDescriptors;
pub use machine::{FileError, Machine};
pub use mapping::{MappedPage, MappedRegister};
pub use memory::{Anonymous, HugePage};
pub use verbs_file::VerbsFile;

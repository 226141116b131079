//! The PCI functions of a machine: which there are, who drives them, and holding one.
//!
//! | module | holds |
//! |---|---|
//! | `listing` | which functions there are |
//! | `driver` | taking a function from its kernel driver, and giving it back |
//! | `hold` | a function that one process holds |
//! | `function` | a function that this process owns, in one of two ways: |
//! | `vfio`, `address_space`, `vectors` | behind an IOMMU, through vfio-pci |
//! | `physical` | with no IOMMU, by physical addresses |
//! | `bar` | registers, mapped |

mod address_space;
mod bar;
mod driver;
mod function;
mod hold;
mod listing;
mod physical;
mod vectors;
mod vfio;

pub(super) use address_space::AddressSpace;
pub use bar::MappedBar;
pub use driver::{Detached, DriverError};
pub use function::{Access, FunctionMemory, OwnedFunction, PinnedMemory, TakeError};
pub use hold::{Held, HoldError};
pub use listing::ListedFunction;
pub use vectors::Vectors;

/// The kernel driver that lets processes drive functions through an IOMMU.
pub const VFIO_DRIVER: &str = "vfio-pci";

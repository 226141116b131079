//! The PCI functions of a machine: which there are, who drives them, and holding one.
//!
//! | module | holds |
//! |---|---|
//! | `listing` | which functions there are |
//! | `driver` | taking a function from its kernel driver, and giving it back |
//! | `hold` | a function that one process holds |

mod driver;
mod hold;
mod listing;

pub use driver::{Detached, DriverError};
pub use hold::{Held, HoldError};
pub use listing::ListedFunction;

/// The kernel driver that lets processes drive functions through an IOMMU.
pub const VFIO_DRIVER: &str = "vfio-pci";

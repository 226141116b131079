//! Virtual NICs as PCI functions, for drivers in a virtual machine.
//!
//! A [`ConnectxFunction`] is what a ConnectX is on its bus: a configuration space, a BAR and MSI-X
//! vectors. [`Server`] gives it to a machine over the vfio-user protocol, as QEMU's `vfio-user-pci`
//! speaks it. The guest's memory is mapped from the files that the machine sends ([`GuestMemory`]).
//!
//! | file | holds |
//! |---|---|
//! | `configuration` | the configuration space |
//! | `registers` | the BAR: the initialization segment and the UAR pages |
//! | `write_combining` | copies to registers, put together from words |
//! | `interrupts` | MSI-X vectors as event files |
//! | `guest_memory` | the guest's memory, by device address |
//! | `function` | the function: all of these around the firmware |
//! | `server` | the function on a socket |

mod configuration;
mod function;
mod guest_memory;
mod interrupts;
mod registers;
mod server;
mod write_combining;

pub use function::{ConnectxFunction, Identity};
pub use guest_memory::{GuestMemory, Unmappable};
pub use interrupts::MsixVectors;
pub use server::{ServeError, Server};

//! PCI functions that another process emulates (vfio-user): no hardware, no kernel driver, no privilege.
//!
//! | module | holds |
//! |---|---|
//! | `client` | the protocol's messages |
//! | `function` | the function, its memory, registers and interrupts |

mod client;
mod function;

pub use function::{EmulatedBar, EmulatedFunction, EmulatedMemory, EmulatedRegister, EventFiles};

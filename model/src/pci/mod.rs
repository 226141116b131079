//! Virtual NICs as PCI functions, for drivers in a virtual machine.
//!
//! A [`Function`] is what a NIC is on its bus: a configuration space, BARs and MSI-X vectors.
//! [`Server`] gives it to a machine over the vfio-user protocol, as QEMU's `vfio-user-pci` speaks it. The guest's memory is mapped from the files that the machine sends ([`GuestMemory`]).
//!
//! | file | holds |
//! |---|---|
//! | `configuration` | the configuration space |
//! | `registers` | a ConnectX's BAR: the initialization segment and the UAR pages |
//! | `write_combining` | copies to registers, put together from words |
//! | `interrupts` | MSI-X vectors as event files |
//! | `device_memory` | a ConnectX's own memory, in its BAR |
//! | `guest_memory` | the guest's memory, by device address |
//! | `function` | a ConnectX: all of these around the firmware |
//! | `netxtreme` | a BCM57608 |
//! | `server` | the function on a socket |
//! | `virtual_netxtreme` | a BCM57608 of this process, for a driver of this process |

mod configuration;
mod device_memory;
mod function;
mod guest_memory;
mod interrupts;
mod netxtreme;
mod registers;
mod server;
mod virtual_netxtreme;
mod write_combining;

pub use function::{ConnectxFunction, Identity};
pub use guest_memory::{GuestMemory, Unmappable};
pub use interrupts::MsixVectors;
pub use netxtreme::NetxtremeFunction;
pub use server::{ServeError, Server};
pub use virtual_netxtreme::{NetxtremeBuilder, VirtualNetxtreme, WatchedNetxtreme};

use std::fs::File;
use std::time::Duration;

/// A NIC on its bus, as a machine sees it.
pub trait Function: Send {
    /// Bytes of the BAR with this number, from 0 to 5; 0 where there is none.
    fn bar_bytes(&self, bar: u8) -> u64;

    /// As after power-up. Memory stays, and who listens.
    fn reset(&mut self);

    /// The NIC dies: it answers nothing any more.
    fn fail(&mut self);

    /// The link comes up or goes down, whatever the driver wants.
    fn set_link(&mut self, up: bool);

    /// The memory that the function reaches.
    fn memory(&self) -> &std::sync::Arc<GuestMemory>;

    /// Its vectors.
    fn interrupts(&self) -> &MsixVectors;

    /// What went wrong since it was asked last, oldest first.
    fn take_log(&mut self) -> Vec<String>;

    /// What it has seen and done since it was reset, on one line.
    fn summary(&self) -> String;

    /// How many objects of each kind there are, on one line.
    fn objects(&self) -> String;

    /// The firmware is to refuse a command of this name, after `skip` more of them. Answers whether it
    /// has such a command.
    fn plan_refusal(&mut self, command: &str, skip: u64) -> bool;

    /// Whether a planned refusal has not come yet.
    fn is_refusal_planned(&mut self) -> bool;

    /// How often each command was given since this was asked last.
    fn take_given(&mut self) -> Vec<(String, u64)>;

    /// Starts to keep the entries that the NIC fetches. Answers whether it can.
    fn record(&mut self) -> bool {
        false
    }

    /// The entries that were fetched since this was asked last, in their order: `send` or `receive`, and
    /// the bytes.
    fn take_recorded(&mut self) -> Vec<(&'static str, Vec<u8>)> {
        Vec::new()
    }

    /// Lets the function reach more memory.
    fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        writable: bool,
    ) -> Result<(), Unmappable>;

    /// Takes memory away, all of it if no length is said. The NIC is done with it when this returns.
    fn unmap(&mut self, address: u64, length: Option<u64>);

    /// Reads the configuration space.
    fn read_configuration(&self, at: u64, into: &mut [u8]);

    /// Writes the configuration space.
    fn write_configuration(&mut self, at: u64, from: &[u8]);

    /// Reads a BAR.
    fn read_bar(&mut self, bar: u8, at: u64, into: &mut [u8]);

    /// Writes a BAR.
    fn write_bar(&mut self, bar: u8, at: u64, from: &[u8]);

    /// Whether a store waits for what follows it. Whoever serves the function calls
    /// [`serve_waiting`](Self::serve_waiting) a moment later.
    fn is_waiting(&self) -> bool {
        false
    }

    /// Passes a store on that has waited long enough. Answers how long to wait for the one that has
    /// not.
    fn serve_waiting(&mut self) -> Option<Duration> {
        None
    }
}

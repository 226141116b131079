//! What doorbell's drivers stand on: the few things that a platform owes them.
//!
//! | module | holds |
//! |---|---|
//! | [`uverbs`] | [`Uverbs`](uverbs::Uverbs): a kernel's user verbs file: calls, mapped pages, event files |
//! | [`pci`] | [`PciFunction`](pci::PciFunction): a PCI function that this process owns: registers, memory with device addresses, reset |
//! | [`mmio`] | [`Register`](mmio::Register): a doorbell register, and how its page is mapped |
//! | [`memory`] | [`DmaMemory`](memory::DmaMemory): memory that a NIC may reach |
//! | [`sync`] | the fences, atomics and cells between a processor and a NIC; the one place that swaps in loom |
//! | [`linux`] | all of these on Linux; the only system calls of the project's drivers |
//!
//! A driver knows a NIC only through these, so the same posting and polling code runs on a NIC
//! made of silicon and on one made of threads.
#![no_std]

extern crate alloc;
#[cfg(any(feature = "std", loom))]
extern crate std;

mod errno;
#[cfg(all(feature = "linux", target_os = "linux", not(loom)))]
pub mod linux;
pub mod memory;
pub mod mmio;
pub mod pci;
pub mod sync;
pub mod uverbs;

pub use errno::Errno;

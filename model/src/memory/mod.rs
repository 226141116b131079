//! Host memory as a device sees it.
//!
//! - [`AddressSpace`]: where a device address lies in this process. [`ProcessMemory`] is this
//!   process's own memory; [`LentMemory`] what of it was lent to one device; [`TestMemory`] is memory
//!   of its own, for tests.
//! - [`Keys`]: the memory keys that a device has handed out, and what each one allows.
//! - [`Memory`]: both together: every access that a queue pair makes, checked and then copied.
//! - [`Ring`]: the memory of a ring, page by page.
//! - [`Payload`]: the bytes of a packet, either here or still where they came from.
//!
//! Copies are made as an outside agent makes them ([`Window`]), because the program that owns the
//! memory reads and writes it meanwhile, as it would beside a NIC.
//!
//! Nothing here locks. Whoever owns a device holds one lock while the device touches memory, and
//! takes the same lock to take memory away (SAFETY.md, D1).

mod keys;
mod lent;
mod payload;
mod process;
mod region;
mod ring;
mod test_memory;
mod translate;
mod window;

pub use keys::{Access, Keys, NoFreeKey, Pages, Part, Refusal, Registration, Right, Strides};
pub use lent::{LentMemory, Loan};
pub use payload::{Buffer, Payload, Segment};
pub use process::ProcessMemory;
pub use region::{Entry, List, Memory};
pub use ring::Ring;
pub use test_memory::TestMemory;
pub use translate::MAX_INDIRECTION;
pub use window::Window;

use std::fmt;

/// A device's view of host memory, by device address.
///
/// The one method says where a device address lies in this process; every copy goes through the
/// [`Window`] it gives.
///
/// # Safety
///
/// The implementer promises that each window's bytes are mapped, readable, and (where asked for with
/// [`Direction::ToMemory`]) writable for the window's life, and that nobody holds Rust references to
/// them (SAFETY.md, D1 and M2).
pub unsafe trait AddressSpace: Send + Sync {
    /// The bytes from `address` on that lie in one piece here: at least one and at most `len`.
    ///
    /// Answers an empty window when `len` is 0, whatever the address.
    fn window(&self, address: u64, len: usize, direction: Direction) -> Result<Window<'_>, Fault>;
}

/// Which way a device moves bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The device reads memory.
    FromMemory,
    /// The device writes memory.
    ToMemory,
}

/// Device addresses with no memory behind them (or none that may be written).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The first device address of the access.
    pub address: u64,
    /// The bytes of the access.
    pub len: usize,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no memory for {} bytes at device address {:#x}", self.len, self.address)
    }
}

impl std::error::Error for Fault {}

impl dyn AddressSpace + '_ {
    /// Copies `into.len()` bytes at `address` out of memory.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let len = into.len();
        let mut done = 0;
        while done < len {
            let window = self.piece(address, done, len, Direction::FromMemory)?;
            window.read(&mut into[done..done + window.len()]);
            done += window.len();
        }
        Ok(())
    }

    /// Copies `from` into memory at `address`.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let mut done = 0;
        while done < from.len() {
            let window = self.piece(address, done, from.len(), Direction::ToMemory)?;
            window.write(&from[done..done + window.len()]);
            done += window.len();
        }
        Ok(())
    }

    /// Copies `len` bytes at `from_address` of the space `from` into memory at `address`, without
    /// a buffer between.
    pub fn copy(
        &self,
        address: u64,
        from: &dyn AddressSpace,
        from_address: u64,
        len: usize,
    ) -> Result<(), Fault> {
        let mut done = 0;
        while done < len {
            let source = from.piece(from_address, done, len, Direction::FromMemory)?;
            let target = self.piece(address, done, done + source.len(), Direction::ToMemory)?;
            target.copy(source);
            done += target.len();
        }
        Ok(())
    }

    /// Adds `add` to the 8 bytes at `address`, in this machine's byte order, as one step, wrapping.
    /// Answers what they were.
    ///
    /// An address that is not a multiple of 8 is a fault.
    pub fn fetch_add(&self, address: u64, add: u64) -> Result<u64, Fault> {
        self.word(address)?.fetch_add(add).ok_or(Fault { address, len: 8 })
    }

    /// Puts `swap` in place of the 8 bytes at `address` if they are `compare`, as one step. Answers
    /// what they were.
    ///
    /// An address that is not a multiple of 8 is a fault.
    pub fn compare_swap(&self, address: u64, compare: u64, swap: u64) -> Result<u64, Fault> {
        self.word(address)?.compare_swap(compare, swap).ok_or(Fault { address, len: 8 })
    }

    /// The 4 bytes at `address` as one load that is ordered before everything after it, in this
    /// machine's byte order: how a device reads a doorbell record.
    ///
    /// An address that is not a multiple of 4 is a fault.
    pub fn load_word(&self, address: u64) -> Result<u32, Fault> {
        self.piece(address, 0, 4, Direction::FromMemory)?
            .load_word()
            .ok_or(Fault { address, len: 4 })
    }

    /// Puts `word` in place of the 4 bytes at `address`, in this machine's byte order, as one step.
    /// Answers what they were.
    ///
    /// An address that is not a multiple of 4 is a fault.
    pub fn swap_word(&self, address: u64, word: u32) -> Result<u32, Fault> {
        self.piece(address, 0, 4, Direction::ToMemory)?
            .swap_word(word)
            .ok_or(Fault { address, len: 4 })
    }

    /// Stores `byte` at `address` after everything before it: how a device writes a completion's
    /// owner byte.
    pub fn store_byte(&self, address: u64, byte: u8) -> Result<(), Fault> {
        self.piece(address, 0, 1, Direction::ToMemory)?
            .store_byte(byte)
            .ok_or(Fault { address, len: 1 })
    }

    /// Whether a device could read the `len` bytes at `address`.
    pub fn probe(&self, address: u64, len: usize) -> Result<(), Fault> {
        let mut done = 0;
        while done < len {
            done += self.piece(address, done, len, Direction::FromMemory)?.len();
        }
        Ok(())
    }

    fn word(&self, address: u64) -> Result<Window<'_>, Fault> {
        self.piece(address, 0, 8, Direction::ToMemory)
    }

    /// The window at `done` bytes into an access of `len` bytes at `address`; never empty.
    #[inline]
    fn piece(
        &self,
        address: u64,
        done: usize,
        len: usize,
        direction: Direction,
    ) -> Result<Window<'_>, Fault> {
        let window = match address.checked_add(done as u64) {
            Some(at) => self.window(at, len - done, direction).ok(),
            None => None,
        };
        match window {
            Some(window) if !window.is_empty() => Ok(window),
            _ => Err(Fault { address, len }),
        }
    }
}

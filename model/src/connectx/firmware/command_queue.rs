//! The command queue: where the driver puts commands, and how they are brought in and answered.
//!
//! The queue is a page of entries of 64 bytes. The first 16 bytes of a command and of its answer are
//! in the entry; the rest is in blocks of 512 bytes, each of which says where the next one is.

use crate::memory::{AddressSpace, Fault};
use std::fmt;

/// Binary logarithm of the entries of the queue.
pub(crate) const LOG_ENTRIES: u32 = 5;
/// Binary logarithm of the bytes of an entry.
pub(crate) const LOG_ENTRY: u32 = 6;
/// The most bytes of a command or answer: a page list for 8 GiB of small pages.
const MOST_BYTES: usize = 16 << 20;
/// The fewest bytes: an opcode and a modifier, a status and a syndrome.
const LEAST_BYTES: usize = 8;
/// Bytes of a command or answer in its entry.
const INLINE: usize = 16;
/// Bytes of a command or answer in a block.
const BLOCK: usize = 512;

/// An entry (`struct mlx5_cmd_layout`): where its parts are.
mod entry {
    pub(super) const TYPE: usize = 0;
    pub(super) const INPUT_LENGTH: usize = 4;
    pub(super) const INPUT_BLOCKS: usize = 8;
    pub(super) const INPUT: usize = 16;
    pub(super) const OUTPUT: usize = 32;
    pub(super) const OUTPUT_BLOCKS: usize = 48;
    pub(super) const OUTPUT_LENGTH: usize = 56;
    pub(super) const TOKEN: usize = 60;
    pub(super) const STATUS: usize = 63;
    pub(super) const BYTES: usize = 64;
}

/// The type of an entry that carries a command (`MLX5_PCI_CMD_XPORT`).
const COMMAND: u8 = 7;
/// Says that the entry is the device's; the rest of its byte is the delivery status.
const OWNED: u8 = 1;

/// A block (`struct mlx5_cmd_prot_block`): where its parts are after the data.
mod block {
    pub(super) const NEXT: usize = 560;
    pub(super) const TOKEN: usize = 573;
    pub(super) const BYTES: usize = 576;
}

/// Why a command could not be brought in, or its answer put back (`MLX5_CMD_DELIVERY_STAT_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Undelivered {
    /// Memory that the entry or a block names is not there.
    Unreachable(Fault),
    /// The entry's type is no command's.
    Type(u8),
    /// A block belongs to another command.
    Token,
    /// The command's length is none that a command has.
    InputLength(u32),
    /// The answer's length is none that an answer has.
    OutputLength(u32),
}

impl Undelivered {
    /// The delivery status.
    fn code(self) -> u8 {
        match self {
            Undelivered::Token => 0x2,
            Undelivered::Unreachable(_) => 0x6,
            Undelivered::InputLength(_) => 0x7,
            Undelivered::OutputLength(_) => 0x8,
            Undelivered::Type(_) => 0x10,
        }
    }
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undelivered::Unreachable(fault) => fault.fmt(f),
            Undelivered::Type(kind) => write!(f, "an entry of type {kind:#x}"),
            Undelivered::Token => f.write_str("a block of another command"),
            Undelivered::InputLength(length) => write!(f, "a command of {length} bytes"),
            Undelivered::OutputLength(length) => write!(f, "an answer of {length} bytes"),
        }
    }
}

impl From<Fault> for Undelivered {
    fn from(fault: Fault) -> Self {
        Undelivered::Unreachable(fault)
    }
}

/// A command that was brought in.
pub(super) struct Command {
    /// The device address of its entry.
    at: u64,
    token: u8,
    blocks: u64,
    /// Its bytes.
    pub(super) input: Vec<u8>,
    /// Zeroes, as many as the driver has room for.
    pub(super) output: Vec<u8>,
}

/// Brings in the command at `at`. `None` if the entry is not the device's.
pub(super) fn fetch(space: &dyn AddressSpace, at: u64) -> Result<Option<Command>, Undelivered> {
    let mut bytes = [0; entry::BYTES];
    space.read(at, &mut bytes)?;
    if bytes[entry::STATUS] & OWNED == 0 {
        return Ok(None);
    }
    if bytes[entry::TYPE] != COMMAND {
        return Err(Undelivered::Type(bytes[entry::TYPE]));
    }
    let token = bytes[entry::TOKEN];
    let length = word(&bytes, entry::INPUT_LENGTH);
    let mut input = sized(length).ok_or(Undelivered::InputLength(length))?;
    let length = word(&bytes, entry::OUTPUT_LENGTH);
    let output = sized(length).ok_or(Undelivered::OutputLength(length))?;
    let (inline, rest) = input.split_at_mut(INLINE);
    inline.copy_from_slice(&bytes[entry::INPUT..entry::INPUT + INLINE]);
    let mut next = address(&bytes, entry::INPUT_BLOCKS);
    for part in rest.chunks_mut(BLOCK) {
        let mut block = [0; block::BYTES];
        space.read(next, &mut block)?;
        if block[block::TOKEN] != token {
            return Err(Undelivered::Token);
        }
        part.copy_from_slice(&block[..part.len()]);
        next = address(&block, block::NEXT);
    }
    Ok(Some(Command { at, token, blocks: address(&bytes, entry::OUTPUT_BLOCKS), input, output }))
}

/// Puts a command's answer back, and gives its entry back to the driver.
pub(super) fn answer(space: &dyn AddressSpace, command: &Command) -> Result<(), Undelivered> {
    let (inline, rest) = command.output.split_at(INLINE);
    let mut next = command.blocks;
    for part in rest.chunks(BLOCK) {
        let mut block = [0; block::BYTES];
        space.read(next, &mut block)?;
        if block[block::TOKEN] != command.token {
            return Err(Undelivered::Token);
        }
        space.write(next, part)?;
        next = address(&block, block::NEXT);
    }
    space.write(command.at + entry::OUTPUT as u64, inline)?;
    Ok(space.store_byte(command.at + entry::STATUS as u64, 0)?)
}

/// Gives an entry back that no command came out of.
pub(super) fn give_back(space: &dyn AddressSpace, at: u64, why: Undelivered) {
    // An entry that cannot be written cannot be given back; the driver's timer finds out.
    let _ = space.store_byte(at + entry::STATUS as u64, why.code() << 1);
}

fn sized(length: u32) -> Option<Vec<u8>> {
    let length = length as usize;
    // The shortest that there are do not fill their entry.
    (LEAST_BYTES..=MOST_BYTES).contains(&length).then(|| vec![0; length.max(INLINE)])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    (0..4).fold(0, |value, byte| value << 8 | u32::from(bytes[at + byte]))
}

fn address(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

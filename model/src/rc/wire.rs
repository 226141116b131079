//! Packets as bytes: base transport header, extension headers, payload, pad. The invariant CRC and
//! what comes before (Ethernet, IP, UDP) belong to a fabric.

use super::Packet;
use crate::memory::Fault;
use std::fmt;

/// The most bytes of an encoded packet: headers and 4096 bytes of payload.
pub const MAX_PACKET: usize = 12 + 28 + 4096;

/// Bytes that are not a packet of a reliable connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Fewer bytes than the headers need.
    Short {
        /// The bytes there are.
        len: usize,
        /// The bytes needed.
        needed: usize,
    },
    /// Not an opcode of reliable connections.
    Opcode(u8),
    /// Not transport header version 0.
    Version(u8),
    /// More padding than payload.
    Pad {
        /// The pad count, 0 to 3.
        pad: u8,
        /// The bytes after the headers.
        len: usize,
    },
    /// More payload than the largest MTU.
    Long {
        /// The payload bytes.
        len: usize,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Malformed::Short { len, needed } => {
                write!(f, "a packet of {len} bytes, where its headers need {needed}")
            }
            Malformed::Opcode(byte) => {
                write!(f, "opcode {byte:#04x} is not one of reliable connections")
            }
            Malformed::Version(version) => {
                write!(f, "transport header version {version}, where 0 is the only one")
            }
            Malformed::Pad { pad, len } => write!(f, "{pad} bytes of padding in {len} of payload"),
            Malformed::Long { len } => write!(f, "{len} bytes of payload, of at most 4096"),
        }
    }
}

impl std::error::Error for Malformed {}

impl Packet {
    /// The bytes of the encoded packet.
    pub fn encoded_len(&self) -> usize {
        todo!()
    }

    /// Appends the packet's bytes to `to`.
    ///
    /// Fails if the payload's memory is gone.
    pub fn encode(&self, to: &mut Vec<u8>) -> Result<(), Fault> {
        todo!()
    }

    /// Reads a packet. Any bytes give a packet or an error. Headers that the opcode does not have
    /// and reserved bits are not looked at.
    pub fn decode(bytes: &[u8]) -> Result<Packet, Malformed> {
        todo!()
    }
}

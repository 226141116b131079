//! A packet of the transport as bytes, whatever its service.

use crate::fabric::{Datagram, Message};
use crate::memory::Fault;
use crate::rc::{Malformed, Packet};
use std::fmt;

/// A packet of the transport.
#[derive(Clone)]
pub enum Transport {
    /// Of a reliable connection.
    Reliable(Packet),
    /// Of a service that nobody acknowledges. Frames of Ethernet are none.
    Unreliable(Message),
}

/// Bytes that are not a packet of the transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadTransport {
    /// A connection's packet that is malformed.
    Connection(Malformed),
    /// An opcode of a service that is not spoken here.
    Opcode(u8),
    /// Not transport header version 0.
    Version(u8),
    /// A datagram that is too short for its headers.
    Short {
        /// The bytes there are.
        len: usize,
        /// The bytes needed.
        needed: usize,
    },
    /// A datagram whose payload and padding are not a multiple of 4 bytes, or more padding than
    /// payload, or more than the largest MTU.
    Payload {
        /// The bytes of payload and padding.
        len: usize,
        /// The bytes of padding.
        pad: u8,
    },
}

impl fmt::Display for BadTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BadTransport::Connection(malformed) => write!(f, "{malformed}"),
            BadTransport::Opcode(byte) => {
                write!(f, "opcode {byte:#04x} is of no service that is spoken here")
            }
            BadTransport::Version(version) => {
                write!(f, "transport header version {version}, where 0 is the only one")
            }
            BadTransport::Short { len, needed } => {
                write!(f, "a datagram of {len} bytes, where its headers need {needed}")
            }
            BadTransport::Payload { len, pad } => {
                write!(f, "a datagram of {len} bytes of payload and padding, {pad} of them padding")
            }
        }
    }
}

impl std::error::Error for BadTransport {}

/// The bits of an opcode that say which service it is of (IBTA vol. 1, 9.2.1).
const SERVICE: u8 = 0xe0;
const RELIABLE: u8 = 0x00;
const UNRELIABLE: u8 = 0x20;
/// `UD_SEND_ONLY`, and with immediate.
const DATAGRAM: u8 = 0x64;
const DATAGRAM_IMMEDIATE: u8 = 0x65;

/// Base transport header and datagram extended transport header.
const DATAGRAM_HEADERS: usize = 12 + 8;
const LARGEST_MTU: usize = 4096;

impl Transport {
    /// Appends the packet's bytes to `to`: base transport header to padding. `sequence` numbers
    /// datagrams, which need a sequence number that nobody looks at.
    ///
    /// On failure, when the payload's memory is gone, `to` is as it was. A frame of Ethernet has no
    /// bytes here.
    ///
    /// # Panics
    ///
    /// If it is a run of packets, as [`Packet::encode`] does.
    pub fn encode(&self, sequence: u32, to: &mut Vec<u8>) -> Result<(), Fault> {
        let start = to.len();
        match self {
            Transport::Reliable(packet) => packet.encode(to),
            Transport::Unreliable(Message::Unreliable(packet)) => {
                packet.encode(to)?;
                if let Some(opcode) = to.get_mut(start) {
                    *opcode |= UNRELIABLE;
                }
                Ok(())
            }
            Transport::Unreliable(Message::Datagram(datagram)) => {
                encode_datagram(datagram, sequence, to);
                Ok(())
            }
            Transport::Unreliable(Message::Frame(_)) => Ok(()),
        }
    }

    /// Reads a packet. Any bytes give one or an error. A datagram has no route yet: that is in the
    /// headers before it.
    pub fn decode(bytes: &[u8]) -> Result<Transport, BadTransport> {
        let Some((&opcode, rest)) = bytes.split_first() else {
            return Err(BadTransport::Short { len: 0, needed: 12 });
        };
        match (opcode & SERVICE, opcode) {
            (RELIABLE, _) => {
                Packet::decode(bytes).map(Transport::Reliable).map_err(BadTransport::Connection)
            }
            (UNRELIABLE, _) => {
                let mut same = Vec::with_capacity(bytes.len());
                same.push(opcode & !SERVICE);
                same.extend_from_slice(rest);
                let packet = Packet::decode(&same).map_err(BadTransport::Connection)?;
                // Sends and writes are all there is: nothing is read, and nobody answers.
                if opcode & !SERVICE > 0x0b {
                    return Err(BadTransport::Opcode(opcode));
                }
                Ok(Transport::Unreliable(Message::Unreliable(packet)))
            }
            (_, DATAGRAM | DATAGRAM_IMMEDIATE) => decode_datagram(bytes),
            _ => Err(BadTransport::Opcode(opcode)),
        }
    }
}

fn encode_datagram(datagram: &Datagram, sequence: u32, to: &mut Vec<u8>) {
    let pad = datagram.bytes.len().next_multiple_of(4) - datagram.bytes.len();
    let opcode = match datagram.immediate {
        None => DATAGRAM,
        Some(_) => DATAGRAM_IMMEDIATE,
    };
    // The migration bit is 1, as of a queue pair that has no alternate path.
    let flags = u8::from(datagram.solicited) << 7 | 1 << 6 | (pad as u8) << 4;
    to.extend_from_slice(&[opcode, flags, 0xff, 0xff]);
    let words = [
        datagram.destination & 0xff_ffff,
        sequence & 0xff_ffff,
        datagram.queue_key,
        datagram.source & 0xff_ffff,
    ];
    words.iter().chain(&datagram.immediate).for_each(|word| {
        to.extend_from_slice(&word.to_be_bytes());
    });
    to.extend_from_slice(&datagram.bytes);
    to.resize(to.len() + pad, 0);
}

fn decode_datagram(bytes: &[u8]) -> Result<Transport, BadTransport> {
    let immediate = bytes.first() == Some(&DATAGRAM_IMMEDIATE);
    let needed = DATAGRAM_HEADERS + if immediate { 4 } else { 0 };
    let word = |at: usize| {
        let word = bytes.get(at..).and_then(<[u8]>::first_chunk);
        word.map(|word| u32::from_be_bytes(*word))
            .ok_or(BadTransport::Short { len: bytes.len(), needed })
    };
    let flags = word(0)? >> 16 & 0xff;
    let (destination, queue_key, source) = (word(4)?, word(12)?, word(16)?);
    let immediate = if immediate { Some(word(20)?) } else { None };
    if flags & 0xf != 0 {
        return Err(BadTransport::Version((flags & 0xf) as u8));
    }
    let rest = bytes.get(needed..).unwrap_or_default();
    let pad = (flags >> 4 & 3) as u8;
    let bad = BadTransport::Payload { len: rest.len(), pad };
    let len = rest.len().checked_sub(pad.into()).ok_or(bad)?;
    if len > LARGEST_MTU || !rest.len().is_multiple_of(4) {
        return Err(bad);
    }
    Ok(Transport::Unreliable(Message::Datagram(Box::new(Datagram {
        destination: destination & 0xff_ffff,
        source: source & 0xff_ffff,
        queue_key,
        immediate,
        solicited: flags & 0x80 != 0,
        route: None,
        bytes: rest.get(..len).unwrap_or_default().into(),
    }))))
}

impl From<Packet> for Transport {
    fn from(packet: Packet) -> Transport {
        Transport::Reliable(packet)
    }
}

impl From<Message> for Transport {
    fn from(message: Message) -> Transport {
        Transport::Unreliable(message)
    }
}

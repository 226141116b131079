//! The packets of a reliable connection.

use super::Psn;
use crate::memory::Payload;
use std::fmt;

/// A packet: base transport header, the extension headers that its opcode asks for, and payload.
///
/// Or a *run*: middle packets of one message that follow each other, in one piece, as network stacks
/// hand large segments down. A connection makes runs only where it is told that it may
/// ([`Connection::set_longest_run`](super::Connection::set_longest_run)); a fabric that looks at
/// single packets [splits](Self::split) them.
#[derive(Clone)]
pub struct Packet {
    /// What it is.
    pub opcode: Opcode,
    /// Raise a solicited event when the message is complete.
    pub solicited: bool,
    /// The partition.
    pub partition_key: u16,
    /// The queue pair that it is for, 24 bits.
    pub destination: u32,
    /// It is of an extended connection (XRC, IBTA vol. 1, annex A14): the shared receive queue that a
    /// request is about, 24 bits (XRCETH); 0 in answers, which do not say it.
    pub extended: Option<u32>,
    /// An acknowledgement is asked for.
    pub ack_request: bool,
    /// Its sequence number.
    pub psn: Psn,
    /// The extension headers. Their variant is the opcode's [`Opcode::layout`].
    pub headers: Headers,
    /// The payload, without padding.
    pub payload: Payload,
    /// How many packets of equal length this is: 1, or more for a run. Only middle packets run.
    pub run: u16,
}

impl Packet {
    /// The single packets of a run; a single packet as it is.
    pub fn split(self) -> impl Iterator<Item = Packet> {
        let run = self.run.max(1);
        let len = self.payload.len() / usize::from(run);
        let mut whole = Some(self);
        (0..run).filter_map(move |at| {
            if run == 1 {
                return whole.take();
            }
            let packet = whole.as_ref()?;
            Some(Packet {
                psn: packet.psn.add(at.into()),
                // An acknowledgement of the last one is one of all.
                ack_request: packet.ack_request && at + 1 == run,
                payload: packet.payload.part(usize::from(at) * len, len),
                run: 1,
                ..*packet
            })
        })
    }
}

/// The opcodes of reliable connections (IBTA vol. 1, chapter 9, "OpCode field"; the
/// same numbers are in Linux's `ib_pack.h`, `IB_OPCODE_*`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)] // Each is the specification's own name.
pub enum Opcode {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendLastImmediate = 0x03,
    SendOnly = 0x04,
    SendOnlyImmediate = 0x05,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteLastImmediate = 0x09,
    WriteOnly = 0x0a,
    WriteOnlyImmediate = 0x0b,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    AtomicAcknowledge = 0x12,
    CompareSwap = 0x13,
    FetchAdd = 0x14,
    SendLastInvalidate = 0x16,
    SendOnlyInvalidate = 0x17,
}

/// Which extension headers a packet has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// None.
    Plain,
    /// ImmDt.
    Immediate,
    /// IETH.
    Invalidate,
    /// RETH.
    Remote,
    /// RETH, ImmDt.
    RemoteImmediate,
    /// AETH.
    Ack,
    /// AETH, AtomicAckETH.
    AtomicAck,
    /// AtomicETH.
    Atomic,
}

/// The extension headers of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Headers {
    /// None.
    Plain,
    /// ImmDt: 4 bytes, read big-endian.
    Immediate(u32),
    /// IETH: the key to invalidate.
    Invalidate(u32),
    /// RETH.
    Remote(Reth),
    /// RETH and ImmDt.
    RemoteImmediate(Reth, u32),
    /// AETH.
    Ack(Aeth),
    /// AETH, and AtomicAckETH: what the 8 bytes were.
    AtomicAck(Aeth, u64),
    /// AtomicETH.
    Atomic(AtomicEth),
}

/// RDMA extended transport header (IBTA vol. 1, chapter 9, RETH; Linux `rxe_hdr.h`, `struct
/// rxe_reth`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// The first byte's address.
    pub address: u64,
    /// The key.
    pub rkey: u32,
    /// The message's bytes, 0 to 2^31.
    pub length: u32,
}

/// Acknowledge extended transport header (IBTA vol. 1, chapter 9, AETH; Linux `rxe_hdr.h`, `struct
/// rxe_aeth`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// What the responder says.
    pub syndrome: Syndrome,
    /// The messages that it has completed, 24 bits.
    pub message_sequence: u32,
}

/// The 8 bits of an AETH's syndrome (IBTA vol. 1, chapter 9, "AETH syndrome field"; Linux
/// `rxe_hdr.h`, `enum aeth_syndrome`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syndrome {
    /// A positive acknowledgement. The low 5 bits are a code of receives that are free, 31 for "not
    /// told".
    Ack {
        /// The code, 5 bits.
        credits: u8,
    },
    /// Receiver not ready: try again after a time.
    RnrNak {
        /// The time's code, 5 bits; see [`rnr_timer`](super::rnr_timer).
        timer: u8,
    },
    /// Refused.
    Nak(NakCode),
    /// A value that the specification reserves: the byte.
    Reserved(u8),
}

/// Why a responder refuses (IBTA vol. 1, chapter 9, "NAK codes").
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing; the NAK's PSN is the one expected.
    SequenceError = 0,
    /// Malformed, too long, out of order, unsupported.
    InvalidRequest = 1,
    /// The key or rights do not allow it.
    RemoteAccess = 2,
    /// The responder cannot finish it for a reason of its own.
    RemoteOperational = 3,
}

/// Atomic extended transport header (IBTA vol. 1, chapter 9, AtomicETH; Linux `rxe_hdr.h`,
/// `struct rxe_atmeth`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicEth {
    /// The address of the 8 bytes.
    pub address: u64,
    /// The key.
    pub rkey: u32,
    /// What to add, or to put there.
    pub swap_add: u64,
    /// What to compare with.
    pub compare: u64,
}

impl fmt::Display for Packet {
    /// One line: everything but the payload's bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to QP {:#x} psn {}", self.opcode, self.destination, self.psn)?;
        match self.headers {
            Headers::Plain => {}
            Headers::Immediate(word) => write!(f, " immediate {word:#x}")?,
            Headers::Invalidate(key) => write!(f, " invalidate {key:#x}")?,
            Headers::Remote(reth) => write!(f, " {reth}")?,
            Headers::RemoteImmediate(reth, word) => write!(f, " {reth} immediate {word:#x}")?,
            Headers::Ack(aeth) => write!(f, " {aeth}")?,
            Headers::AtomicAck(aeth, was) => write!(f, " {aeth} was {was:#x}")?,
            Headers::Atomic(AtomicEth { address, rkey, swap_add, compare }) => {
                write!(f, " at {address:#x} key {rkey:#x} {swap_add:#x} {compare:#x}")?;
            }
        }
        if self.run > 1 {
            write!(f, " run of {}", self.run)?;
        }
        if !self.payload.is_empty() {
            write!(f, " payload {}", self.payload.len())?;
        }
        let flags = [(self.ack_request, " ack?"), (self.solicited, " solicited")];
        flags.iter().filter(|flag| flag.0).try_for_each(|flag| f.write_str(flag.1))
    }
}

impl fmt::Display for Reth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:#x} key {:#x} length {}", self.address, self.rkey, self.length)
    }
}

impl fmt::Display for Aeth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} msn {}", self.syndrome, self.message_sequence)
    }
}

impl Opcode {
    /// From the opcode byte of a base transport header.
    pub fn from_byte(byte: u8) -> Option<Self> {
        use Opcode::*;
        const ALL: [Opcode; 23] = [
            SendFirst,
            SendMiddle,
            SendLast,
            SendLastImmediate,
            SendOnly,
            SendOnlyImmediate,
            WriteFirst,
            WriteMiddle,
            WriteLast,
            WriteLastImmediate,
            WriteOnly,
            WriteOnlyImmediate,
            ReadRequest,
            ReadResponseFirst,
            ReadResponseMiddle,
            ReadResponseLast,
            ReadResponseOnly,
            Acknowledge,
            AtomicAcknowledge,
            CompareSwap,
            FetchAdd,
            SendLastInvalidate,
            SendOnlyInvalidate,
        ];
        // 0x15 is reserved.
        match byte {
            0x00..=0x14 => Some(ALL[usize::from(byte)]),
            0x16..=0x17 => Some(ALL[usize::from(byte) - 1]),
            _ => None,
        }
    }

    /// Its extension headers.
    pub fn layout(self) -> Layout {
        use Opcode::*;
        match self {
            SendFirst | SendMiddle | SendLast | SendOnly | WriteMiddle | WriteLast
            | ReadResponseMiddle => Layout::Plain,
            SendLastImmediate | SendOnlyImmediate | WriteLastImmediate => Layout::Immediate,
            SendLastInvalidate | SendOnlyInvalidate => Layout::Invalidate,
            WriteFirst | WriteOnly | ReadRequest => Layout::Remote,
            WriteOnlyImmediate => Layout::RemoteImmediate,
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge => Layout::Ack,
            AtomicAcknowledge => Layout::AtomicAck,
            CompareSwap | FetchAdd => Layout::Atomic,
        }
    }

    /// Whether it goes from responder to requester.
    pub fn is_response(self) -> bool {
        matches!(self as u8, 0x0d..=0x12)
    }
}

impl Syndrome {
    /// The byte: a kind in bits 6 and 5, a value in bits 4 to 0. Values wider than that lose their
    /// high bits.
    pub fn to_byte(self) -> u8 {
        match self {
            Syndrome::Ack { credits } => credits & 0x1f,
            Syndrome::RnrNak { timer } => 0x20 | timer & 0x1f,
            Syndrome::Nak(code) => 0x60 | code as u8,
            Syndrome::Reserved(byte) => byte,
        }
    }

    /// From the byte.
    pub fn from_byte(byte: u8) -> Self {
        let value = byte & 0x1f;
        match (byte >> 5, value) {
            (0, credits) => Syndrome::Ack { credits },
            (1, timer) => Syndrome::RnrNak { timer },
            (3, 0) => Syndrome::Nak(NakCode::SequenceError),
            (3, 1) => Syndrome::Nak(NakCode::InvalidRequest),
            (3, 2) => Syndrome::Nak(NakCode::RemoteAccess),
            (3, 3) => Syndrome::Nak(NakCode::RemoteOperational),
            _ => Syndrome::Reserved(byte),
        }
    }
}

impl Headers {
    /// Which ones they are.
    pub fn layout(&self) -> Layout {
        match self {
            Headers::Plain => Layout::Plain,
            Headers::Immediate(_) => Layout::Immediate,
            Headers::Invalidate(_) => Layout::Invalidate,
            Headers::Remote(_) => Layout::Remote,
            Headers::RemoteImmediate(..) => Layout::RemoteImmediate,
            Headers::Ack(_) => Layout::Ack,
            Headers::AtomicAck(..) => Layout::AtomicAck,
            Headers::Atomic(_) => Layout::Atomic,
        }
    }
}

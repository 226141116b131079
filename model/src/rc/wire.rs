//! Packets as bytes: base transport header, extension headers, payload, pad. The invariant CRC and
//! what comes before (Ethernet, IP, UDP) belong to a fabric.

use super::{Aeth, AtomicEth, Headers, Layout, Opcode, Packet, Psn, Reth, Syndrome};
use crate::memory::{Buffer, Fault, Payload};
use std::fmt;

/// The most bytes of an encoded packet: headers and 4096 bytes of payload.
pub const MAX_PACKET: usize = 12 + 4 + 28 + 4096;

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
    /// Payload and padding are not a multiple of 4 bytes.
    Unaligned {
        /// The bytes after the headers.
        len: usize,
    },
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
            Malformed::Unaligned { len } => {
                write!(f, "{len} bytes of payload and padding, not a multiple of 4")
            }
            Malformed::Pad { pad, len } => write!(f, "{pad} bytes of padding in {len} of payload"),
            Malformed::Long { len } => write!(f, "{len} bytes of payload, of at most 4096"),
        }
    }
}

impl std::error::Error for Malformed {}

/// A base transport header's bytes.
const BTH: usize = 12;
/// An extended connection's header's bytes (XRCETH): 8 bits of nothing, and a shared receive queue.
const XRCETH: usize = 4;
/// The service in the top bits of an opcode (IBTA vol. 1, 9.2, "OpCode field"): extended connections.
/// That of reliable connections is 0.
const EXTENDED: u8 = 0b101 << 5;
/// Those bits.
const SERVICE: u8 = 0b111 << 5;

impl Packet {
    /// The bytes of the encoded packet: headers, payload, and padding to a multiple of 4.
    pub fn encoded_len(&self) -> usize {
        let extended = if self.extended.is_some() { extended_len(self.opcode) } else { 0 };
        BTH + extended + self.headers.layout().len() + self.payload.len().next_multiple_of(4)
    }

    /// Appends the packet's bytes to `to`. On failure, when the payload's memory is gone, `to` is as
    /// it was.
    ///
    /// # Panics
    ///
    /// If it is a run: that is split first.
    pub fn encode(&self, to: &mut Vec<u8>) -> Result<(), Fault> {
        assert!(self.run <= 1, "a run of packets has no bytes of its own");
        let start = to.len();
        let payload = self.payload.len();
        let pad = payload.next_multiple_of(4) - payload;
        // The migration bit is 1: a queue pair that has no alternate path counts as migrated.
        let flags = u8::from(self.solicited) << 7 | 1 << 6 | (pad as u8) << 4;
        let service = if self.extended.is_some() { EXTENDED } else { 0 };
        to.extend_from_slice(&[service | self.opcode as u8, flags]);
        to.extend_from_slice(&self.partition_key.to_be_bytes());
        to.extend_from_slice(&(self.destination & 0xff_ffff).to_be_bytes());
        to.extend_from_slice(&(u32::from(self.ack_request) << 31 | self.psn.get()).to_be_bytes());
        if let Some(queue) = self.extended.filter(|_| extended_len(self.opcode) > 0) {
            to.extend_from_slice(&(queue & 0xff_ffff).to_be_bytes());
        }
        self.headers.encode(to);
        let header = to.len();
        to.resize(header + payload + pad, 0);
        let result = self.payload.read(0, &mut to[header..header + payload]);
        if result.is_err() {
            to.truncate(start);
        }
        result
    }

    /// Reads a packet. Any bytes give a packet or an error. Reserved bits, congestion marks and the
    /// bytes of the padding are not looked at.
    pub fn decode(bytes: &[u8]) -> Result<Packet, Malformed> {
        let mut reader = Reader { rest: bytes };
        let short = |needed| Malformed::Short { len: bytes.len(), needed };
        let [opcode, flags] = reader.take().ok_or(short(BTH))?;
        let partition_key = u16::from_be_bytes(reader.take().ok_or(short(BTH))?);
        let destination = reader.word().ok_or(short(BTH))? & 0xff_ffff;
        let sequence = reader.word().ok_or(short(BTH))?;
        let is_extended = opcode & SERVICE == EXTENDED;
        let within = if is_extended { opcode & !SERVICE } else { opcode };
        let opcode = Opcode::from_byte(within).ok_or(Malformed::Opcode(opcode))?;
        if flags & 0xf != 0 {
            return Err(Malformed::Version(flags & 0xf));
        }
        let layout = opcode.layout();
        let extended_len = if is_extended { extended_len(opcode) } else { 0 };
        let needed = BTH + extended_len + layout.len();
        let extended = match (is_extended, extended_len) {
            (false, _) => None,
            (true, 0) => Some(0),
            (true, _) => Some(reader.word().ok_or(short(needed))? & 0xff_ffff),
        };
        let headers = Headers::decode(layout, &mut reader).ok_or(short(needed))?;
        let len = reader.rest.len();
        let pad = flags >> 4 & 3;
        if !len.is_multiple_of(4) {
            return Err(Malformed::Unaligned { len });
        }
        let payload = len.checked_sub(pad.into()).ok_or(Malformed::Pad { pad, len })?;
        if payload > Buffer::CAPACITY {
            return Err(Malformed::Long { len: payload });
        }
        Ok(Packet {
            opcode,
            solicited: flags & 0x80 != 0,
            partition_key,
            destination,
            extended,
            ack_request: sequence >> 31 != 0,
            psn: Psn::new(sequence),
            headers,
            payload: Payload::copy_of(&reader.rest[..payload]),
            run: 1,
        })
    }
}

/// The bytes of a packet's XRCETH, if it is of an extended connection.
fn extended_len(opcode: Opcode) -> usize {
    if opcode.is_response() { 0 } else { XRCETH }
}

impl Layout {
    /// The headers' bytes.
    fn len(self) -> usize {
        match self {
            Layout::Plain => 0,
            Layout::Immediate | Layout::Invalidate | Layout::Ack => 4,
            Layout::AtomicAck => 4 + 8,
            Layout::Remote => 16,
            Layout::RemoteImmediate => 16 + 4,
            Layout::Atomic => 28,
        }
    }
}

impl Headers {
    fn encode(&self, to: &mut Vec<u8>) {
        match *self {
            Headers::Plain => {}
            Headers::Immediate(word) | Headers::Invalidate(word) => {
                to.extend_from_slice(&word.to_be_bytes());
            }
            Headers::Remote(reth) => reth.encode(to),
            Headers::RemoteImmediate(reth, word) => {
                reth.encode(to);
                to.extend_from_slice(&word.to_be_bytes());
            }
            Headers::Ack(aeth) => aeth.encode(to),
            Headers::AtomicAck(aeth, was) => {
                aeth.encode(to);
                to.extend_from_slice(&was.to_be_bytes());
            }
            Headers::Atomic(atomic) => {
                to.extend_from_slice(&atomic.address.to_be_bytes());
                to.extend_from_slice(&atomic.rkey.to_be_bytes());
                to.extend_from_slice(&atomic.swap_add.to_be_bytes());
                to.extend_from_slice(&atomic.compare.to_be_bytes());
            }
        }
    }

    fn decode(layout: Layout, from: &mut Reader<'_>) -> Option<Self> {
        Some(match layout {
            Layout::Plain => Headers::Plain,
            Layout::Immediate => Headers::Immediate(from.word()?),
            Layout::Invalidate => Headers::Invalidate(from.word()?),
            Layout::Remote => Headers::Remote(Reth::decode(from)?),
            Layout::RemoteImmediate => Headers::RemoteImmediate(Reth::decode(from)?, from.word()?),
            Layout::Ack => Headers::Ack(Aeth::decode(from)?),
            Layout::AtomicAck => Headers::AtomicAck(Aeth::decode(from)?, from.double_word()?),
            Layout::Atomic => Headers::Atomic(AtomicEth {
                address: from.double_word()?,
                rkey: from.word()?,
                swap_add: from.double_word()?,
                compare: from.double_word()?,
            }),
        })
    }
}

impl Reth {
    fn encode(self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.address.to_be_bytes());
        to.extend_from_slice(&self.rkey.to_be_bytes());
        to.extend_from_slice(&self.length.to_be_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        Some(Reth { address: from.double_word()?, rkey: from.word()?, length: from.word()? })
    }
}

impl Aeth {
    fn encode(self, to: &mut Vec<u8>) {
        let syndrome = u32::from(self.syndrome.to_byte()) << 24;
        to.extend_from_slice(&(syndrome | self.message_sequence & 0xff_ffff).to_be_bytes());
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let word = from.word()?;
        Some(Aeth {
            syndrome: Syndrome::from_byte((word >> 24) as u8),
            message_sequence: word & 0xff_ffff,
        })
    }
}

/// Takes big-endian numbers off the front of bytes.
struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn double_word(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rc::NakCode;

    fn packet(
        opcode: Opcode,
        destination: u32,
        psn: u32,
        headers: Headers,
        payload: &[u8],
    ) -> Packet {
        Packet {
            opcode,
            solicited: false,
            partition_key: 0xffff,
            destination,
            extended: None,
            ack_request: false,
            psn: Psn::new(psn),
            headers,
            payload: Payload::copy_of(payload),
            run: 1,
        }
    }

    fn asking(packet: Packet) -> Packet {
        Packet { ack_request: true, ..packet }
    }

    fn encoded(packet: &Packet) -> Vec<u8> {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes).unwrap();
        bytes
    }

    /// Packets, and their bytes as scapy 2.8.0 writes them. The bytes were made by
    ///
    /// ```python
    /// from scapy.all import raw, Raw
    /// from scapy.contrib.roce import BTH, AETH
    /// from struct import pack
    /// def show(packet): print(raw(packet)[:-4].hex())   # without the invariant CRC
    /// b = lambda **fields: BTH(migreq=1, icrc=0, **fields)
    /// reth = lambda length: pack('>QII', 0x7f1122334455, 0xa1b2c3, length)
    /// show(b(opcode='RC_SEND_ONLY', solicited=1, padcount=3, dqpn=0xd2, ackreq=1, psn=0xfffffe)
    ///      / Raw(b'hello\0\0\0'))
    /// show(b(opcode='RC_ACKNOWLEDGE', dqpn=0x123456, psn=0xcf1650) / AETH(syndrome=0x1f, msn=0xabcd))
    /// show(b(opcode='RC_ACKNOWLEDGE', dqpn=0x123456, psn=1) / AETH(syndrome=0x20|12, msn=0xffffff))
    /// show(b(opcode='RC_ACKNOWLEDGE', dqpn=0x123456, psn=2) / AETH(syndrome=0x62, msn=7))
    /// show(b(opcode='RC_RDMA_READ_RESPONSE_ONLY', dqpn=5, psn=9) / AETH(syndrome=0x1f, msn=1)
    ///      / Raw(b'abcd'))
    /// show(b(opcode='RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE', dqpn=5, psn=9, ackreq=1, pkey=0x8001,
    ///      padcount=1) / Raw(reth(3) + pack('>I', 0xdeadbeef) + b'xyz\0'))
    /// show(b(opcode='RC_RDMA_READ_REQUEST', dqpn=5, psn=9, ackreq=1) / Raw(reth(0x80000000)))
    /// show(b(opcode='RC_COMPARE_SWAP', dqpn=5, psn=9, ackreq=1)
    ///      / Raw(pack('>QIQQ', 0x7f1122334450, 0xa1b2c3, 0x1111222233334444, 0x5555666677778888)))
    /// show(b(opcode='RC_ATOMIC_ACKNOWLEDGE', dqpn=5, psn=9) / AETH(syndrome=0x1f, msn=2)
    ///      / Raw(pack('>Q', 0x0102030405060708)))
    /// show(b(opcode=0x17, dqpn=5, psn=9, ackreq=1) / Raw(pack('>I', 0xa1b2c3) + b'1234'))
    /// ```
    ///
    /// Scapy knows BTH and AETH. The order in RETH, AtomicETH and AtomicAckETH is that of
    /// `struct rxe_reth`, `rxe_atmeth` and `rxe_atmack` (Linux `rxe_hdr.h`).
    fn golden() -> Vec<(Packet, &'static str)> {
        let reth = |length| Reth { address: 0x7f11_2233_4455, rkey: 0xa1_b2c3, length };
        let ack = |syndrome, message_sequence| Aeth { syndrome, message_sequence };
        let unlimited = Syndrome::Ack { credits: 31 };
        let mut send = asking(packet(Opcode::SendOnly, 0xd2, 0xfffffe, Headers::Plain, b"hello"));
        send.solicited = true;
        let mut write = asking(packet(
            Opcode::WriteOnlyImmediate,
            5,
            9,
            Headers::RemoteImmediate(reth(3), 0xdead_beef),
            b"xyz",
        ));
        write.partition_key = 0x8001;
        let acknowledge = |psn, syndrome, sequence| {
            let headers = Headers::Ack(ack(syndrome, sequence));
            packet(Opcode::Acknowledge, 0x123456, psn, headers, &[])
        };
        let atomic = AtomicEth {
            address: 0x7f11_2233_4450,
            rkey: 0xa1_b2c3,
            swap_add: 0x1111_2222_3333_4444,
            compare: 0x5555_6666_7777_8888,
        };
        vec![
            (send, "04f0ffff000000d280fffffe68656c6c6f000000"),
            (acknowledge(0xcf1650, unlimited, 0xabcd), "1140ffff0012345600cf16501f00abcd"),
            (
                acknowledge(1, Syndrome::RnrNak { timer: 12 }, 0xffffff),
                "1140ffff00123456000000012cffffff",
            ),
            (
                acknowledge(2, Syndrome::Nak(NakCode::RemoteAccess), 7),
                "1140ffff001234560000000262000007",
            ),
            (
                packet(Opcode::ReadResponseOnly, 5, 9, Headers::Ack(ack(unlimited, 1)), b"abcd"),
                "1040ffff00000005000000091f00000161626364",
            ),
            (write, "0b508001000000058000000900007f112233445500a1b2c300000003deadbeef78797a00"),
            (
                asking(packet(Opcode::ReadRequest, 5, 9, Headers::Remote(reth(1 << 31)), &[])),
                "0c40ffff000000058000000900007f112233445500a1b2c380000000",
            ),
            (
                asking(packet(Opcode::CompareSwap, 5, 9, Headers::Atomic(atomic), &[])),
                "1340ffff000000058000000900007f112233445000a1b2c311112222333344445555666677778888",
            ),
            (
                packet(
                    Opcode::AtomicAcknowledge,
                    5,
                    9,
                    Headers::AtomicAck(ack(unlimited, 2), 0x0102_0304_0506_0708),
                    &[],
                ),
                "1240ffff00000005000000091f0000020102030405060708",
            ),
            (
                asking(packet(
                    Opcode::SendOnlyInvalidate,
                    5,
                    9,
                    Headers::Invalidate(0xa1_b2c3),
                    b"1234",
                )),
                "1740ffff000000058000000900a1b2c331323334",
            ),
        ]
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn packets_have_the_bytes_that_scapy_writes() {
        for (packet, bytes) in golden() {
            assert_eq!(hex(&encoded(&packet)), bytes, "{:?}", packet.opcode);
            assert_eq!(packet.encoded_len() * 2, bytes.len());
        }
    }

    #[test]
    fn every_opcode_comes_back_as_it_went() {
        let aeth = Aeth { syndrome: Syndrome::Reserved(0x45), message_sequence: 0xfedcba };
        let reth = Reth { address: u64::MAX - 1, rkey: 0xffff_0001, length: 0x8000_0000 };
        let atomic = AtomicEth { address: 8, rkey: 1, swap_add: u64::MAX, compare: 2 };
        let mut opcodes = 0;
        for byte in 0..=255 {
            let Some(opcode) = Opcode::from_byte(byte) else { continue };
            opcodes += 1;
            assert_eq!(opcode as u8, byte);
            let headers = match opcode.layout() {
                Layout::Plain => Headers::Plain,
                Layout::Immediate => Headers::Immediate(0x01020304),
                Layout::Invalidate => Headers::Invalidate(0x01020304),
                Layout::Remote => Headers::Remote(reth),
                Layout::RemoteImmediate => Headers::RemoteImmediate(reth, 7),
                Layout::Ack => Headers::Ack(aeth),
                Layout::AtomicAck => Headers::AtomicAck(aeth, u64::MAX - 5),
                Layout::Atomic => Headers::Atomic(atomic),
            };
            assert_eq!(headers.layout(), opcode.layout());
            for len in [0, 1, 2, 3, 4, 5, 4093, 4096] {
                let payload: Vec<u8> = (0..len).map(|at| at as u8 ^ 0x5a).collect();
                let mut sent = packet(opcode, 0xfffffe, 0xffffff, headers, &payload);
                (sent.solicited, sent.ack_request) = (len % 2 == 1, len % 3 == 1);
                let bytes = encoded(&sent);
                assert_eq!(bytes.len(), sent.encoded_len());
                assert!(bytes.len() <= MAX_PACKET);
                let got = Packet::decode(&bytes).unwrap();
                assert_eq!(got.opcode, opcode);
                assert_eq!((got.destination, got.psn), (0xfffffe, Psn::new(0xffffff)));
                assert_eq!((got.solicited, got.ack_request), (sent.solicited, sent.ack_request));
                assert_eq!(got.headers, headers);
                let mut back = vec![0; got.payload.len()];
                got.payload.read(0, &mut back).unwrap();
                assert_eq!(back, payload);
            }
        }
        assert_eq!(opcodes, 23);
    }

    /// The opcodes are those of `IB_OPCODE_XRC_*`, from 0xa0 on (annex A14; Linux's `ib_pack.h` has
    /// the base 0xa0); the header follows the base transport header (IBTA vol. 1, A14.3.3).
    #[test]
    fn a_request_of_an_extended_connection_names_its_queue_and_an_answer_does_not() {
        let mut send = packet(Opcode::SendOnlyImmediate, 5, 9, Headers::Immediate(7), b"1234");
        send.extended = Some(0x12_3456);
        assert_eq!(hex(&encoded(&send)), "a540ffff0000000500000009001234560000000731323334");
        assert_eq!(encoded(&send).len(), send.encoded_len());
        let back = Packet::decode(&encoded(&send)).unwrap();
        assert_eq!((back.opcode, back.extended), (send.opcode, send.extended));
        for len in 12..20 {
            let short = Packet::decode(&encoded(&send)[..len]).err();
            assert_eq!(short, Some(Malformed::Short { len, needed: 20 }));
        }
        let aeth = Aeth { syndrome: Syndrome::Ack { credits: 31 }, message_sequence: 1 };
        let mut answer = packet(Opcode::Acknowledge, 5, 9, Headers::Ack(aeth), &[]);
        answer.extended = Some(0);
        assert_eq!(hex(&encoded(&answer)), "b140ffff00000005000000091f000001");
        assert_eq!(Packet::decode(&encoded(&answer)).unwrap().extended, Some(0));
        // The services between the two are none of these.
        for opcode in [0x20, 0x40, 0x60, 0x80, 0xc0, 0xe0, 0xb8] {
            let mut bytes = encoded(&send);
            bytes[0] = opcode;
            assert_eq!(Packet::decode(&bytes).err(), Some(Malformed::Opcode(opcode)));
        }
    }

    #[test]
    fn every_syndrome_byte_comes_back_as_it_went() {
        for byte in 0..=255 {
            assert_eq!(Syndrome::from_byte(byte).to_byte(), byte);
        }
    }

    #[test]
    fn a_packet_cut_anywhere_is_an_error_that_says_what_is_missing() {
        for (packet, _) in golden() {
            let bytes = encoded(&packet);
            let headers = BTH + packet.headers.layout().len();
            for len in 0..bytes.len() {
                let error = Packet::decode(&bytes[..len]).err();
                if len < BTH {
                    assert_eq!(error, Some(Malformed::Short { len, needed: BTH }));
                } else if len < headers {
                    assert_eq!(error, Some(Malformed::Short { len, needed: headers }));
                } else if !(len - headers).is_multiple_of(4) {
                    assert_eq!(error, Some(Malformed::Unaligned { len: len - headers }));
                }
            }
        }
    }

    #[test]
    fn what_no_connection_sends_is_an_error() {
        let bytes = encoded(&golden()[0].0);
        let with = |at: usize, byte: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            Packet::decode(&bytes).err()
        };
        for opcode in [0x15, 0x18, 0x1f, 0x20, 0x64, 0x81, 0xff] {
            assert_eq!(with(0, opcode), Some(Malformed::Opcode(opcode)));
        }
        assert_eq!(with(1, 0x01), Some(Malformed::Version(1)));
        assert_eq!(with(1, 0xff), Some(Malformed::Version(15)));
        assert_eq!(with(1, 0x30), None);
        let empty = [0x04, 0x10, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1];
        assert_eq!(Packet::decode(&empty).err(), Some(Malformed::Pad { pad: 1, len: 0 }));
        let mut long = empty.to_vec();
        long[1] = 0;
        long.resize(BTH + 4100, 0);
        assert_eq!(Packet::decode(&long).err(), Some(Malformed::Long { len: 4100 }));
        long[1] = 0x30;
        assert_eq!(Packet::decode(&long).err(), Some(Malformed::Long { len: 4097 }));
        long[1] = 0;
        long.truncate(BTH + 4096);
        assert!(Packet::decode(&long).is_ok());
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error_and_a_packet_has_its_bytes() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut packets = 0;
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..random.usize(0..80)).map(|_| random.u8(..)).collect();
            if random.bool() && bytes.len() > 1 {
                let service = if random.bool() { EXTENDED } else { 0 };
                bytes[0] = (bytes[0] % 0x18) | service;
                bytes[1] &= 0xf0;
            }
            let Ok(packet) = Packet::decode(&bytes) else { continue };
            packets += 1;
            let again = encoded(&packet);
            // Reserved bits, marks and padding are ours; the rest is as it came.
            let pad = usize::from(bytes[1] >> 4 & 3);
            let (first, rest) = (&bytes[..bytes.len() - pad], &again[..again.len() - pad]);
            let known = |bytes: &[u8]| {
                let mut bytes = bytes.to_vec();
                bytes[1] |= 0x40;
                bytes[4] = 0;
                bytes[8] &= 0x80;
                if packet.extended.is_some() && !packet.opcode.is_response() {
                    bytes[12] = 0;
                }
                bytes
            };
            assert_eq!(known(first), known(rest));
        }
        assert!(packets > 500, "only {packets} of the random bytes were packets");
    }

    #[test]
    fn a_payload_whose_memory_is_gone_leaves_nothing_behind() {
        let space = std::sync::Arc::new(crate::memory::TestMemory::new());
        let mut segments = [Default::default(); Payload::SEGMENTS];
        segments[0] = crate::memory::Segment { address: 0x10, len: 5 };
        let mut packet = golden().remove(0).0;
        packet.payload = Payload::Memory { space, segments };
        let mut bytes = vec![1, 2, 3];
        assert!(packet.encode(&mut bytes).is_err());
        assert_eq!(bytes, [1, 2, 3]);
    }
}

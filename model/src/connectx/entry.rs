//! Work entries, decoded: from the bytes of a ring to what is to be done.
//!
//! Any bytes are an entry or a [`Malformed`]: what software put into the ring is not trusted.

use super::registration::{self, KeyChange};
use crate::memory::{Buffer, Entry, List};
use crate::rc::{Data, Operation, Remote};
use doorbell::mlx5::abi::wqe::{
    AtomicSegment, CompletionMode, ControlSegment, DataSegment, FenceMode, InlineHeader,
    MAX_SEGMENTS, Opcode, RemoteAddressSegment, SEGMENT_BYTES, SLOT_SEGMENTS,
};
use std::fmt;
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An entry of a send ring.
#[derive(Clone)]
pub struct SendEntry {
    /// The number of the operation, for the completion.
    pub opcode: u8,
    /// The first slot, modulo 2^16.
    pub index: u16,
    /// The slots that it takes.
    pub slots: u16,
    /// When it completes with a completion.
    pub completion: CompletionMode,
    /// It waits for the reads and atomics before it.
    pub fenced: bool,
    /// The peer's completion counts as solicited.
    pub solicited: bool,
    /// What to do.
    pub operation: Operation,
    /// What it changes about a memory key.
    pub change: Option<Box<KeyChange>>,
    /// To whom a datagram goes.
    pub address: Option<AddressVector>,
    /// The peer's shared receive queue, on an extended connection.
    pub extended: u32,
    /// What to send, or where to put what comes in.
    pub data: Data,
    /// The bytes of `data`.
    pub length: u64,
}

/// Why bytes are no work entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The control segment says so many segments.
    Segments(u8),
    /// The entry says so many slots, of which so many were posted.
    Unposted {
        /// The entry's slots.
        slots: u16,
        /// The posted slots from the entry on.
        posted: u16,
    },
    /// The control segment names another queue pair.
    QueuePair(u32),
    /// The control segment says another slot than the one it is in.
    Index {
        /// What it says.
        found: u16,
        /// Where it is.
        expected: u16,
    },
    /// No such operation, or none of this transport.
    Opcode(u8),
    /// The operation's modifier is not zero.
    Modifier(u8),
    /// The entry ends before the operation's segments do.
    Truncated,
    /// More inline bytes than the entry holds.
    Inline(u32),
    /// Inline data where data has to be stored.
    InlineDestination,
    /// Inline data and memory in one entry. Hardware can; this NIC cannot.
    Mixed,
    /// The fence mode is none.
    Fence(FenceMode),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Segments(count) => {
                write!(f, "{count} segments, where an entry has from 1 to {MAX_SEGMENTS}")
            }
            Malformed::Unposted { slots, posted } => {
                write!(f, "{slots} slots, of which {posted} are posted")
            }
            Malformed::QueuePair(number) => write!(f, "queue pair {number:#x} is not this one"),
            Malformed::Index { found, expected } => {
                write!(f, "index {found:#x} in slot {expected:#x}")
            }
            Malformed::Opcode(code) => write!(f, "opcode {code:#x}"),
            Malformed::Modifier(modifier) => write!(f, "opcode modifier {modifier:#x}"),
            Malformed::Truncated => write!(f, "ends before the operation's segments do"),
            Malformed::Inline(length) => {
                write!(f, "{length} inline bytes are more than the entry holds")
            }
            Malformed::InlineDestination => write!(f, "inline data where data is to be stored"),
            Malformed::Mixed => write!(f, "inline data and memory in one entry"),
            Malformed::Fence(mode) => write!(f, "fence mode {mode:?}"),
        }
    }
}

/// The segments of the entry that starts with `control`, or why it is none. `expected` is the slot
/// that it is in; `posted` the number of posted slots from there on.
pub fn check_control(
    control: &ControlSegment,
    queue_pair: u32,
    expected: u16,
    posted: u16,
) -> Result<usize, Malformed> {
    let segments = control.qpn_ds.segments();
    if segments == 0 || usize::from(segments) > MAX_SEGMENTS {
        return Err(Malformed::Segments(segments));
    }
    let slots = slots_of(segments.into());
    if slots > posted {
        return Err(Malformed::Unposted { slots, posted });
    }
    if control.qpn_ds.queue_pair().get() != queue_pair {
        return Err(Malformed::QueuePair(control.qpn_ds.queue_pair().get()));
    }
    let found = control.opmod_idx_opcode.index();
    if found != expected {
        return Err(Malformed::Index { found, expected });
    }
    if control.opmod_idx_opcode.modifier() != 0 {
        return Err(Malformed::Modifier(control.opmod_idx_opcode.modifier()));
    }
    Ok(segments.into())
}

/// The slots that `segments` segments take.
pub fn slots_of(segments: usize) -> u16 {
    segments.div_ceil(SLOT_SEGMENTS) as u16
}

/// To whom a datagram goes (`struct mlx5_av`).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct AddressVector {
    /// What the receiver checks the datagram by; with the top bit set, the queue pair's own.
    pub queue_key: U32,
    /// 0.
    pub reserved4: U32,
    /// The receiver: the low 24 bits.
    pub destination: U32,
    /// Rate and service level.
    pub rate_level: u8,
    /// The low bits of the local identifier, where there are several.
    pub path_bits: u8,
    /// The receiver's local identifier, or the UDP port to send from.
    pub local: U16,
    /// 0.
    pub reserved16: [u8; 4],
    /// The receiver's Ethernet address.
    pub mac: [u8; 6],
    /// The traffic class.
    pub traffic_class: u8,
    /// Routers that may be passed.
    pub hop_limit: u8,
    /// Whether there is a global route (bit 30), the index of the source's identifier (bits 27 to
    /// 20), and the flow label.
    pub route: U32,
    /// The receiver's global identifier.
    pub gid: [u8; 16],
}

const _: () = assert!(size_of::<AddressVector>() == 48);

impl AddressVector {
    /// The queue pair that it is for.
    pub fn queue_pair(&self) -> u32 {
        self.destination.get() & 0xff_ffff
    }

    /// Whether there is a global route.
    pub fn is_global(&self) -> bool {
        self.route.get() >> 30 & 1 != 0
    }

    /// The index of the source's global identifier.
    pub fn source_index(&self) -> u8 {
        (self.route.get() >> 20) as u8
    }

    /// 20 bits.
    pub fn flow_label(&self) -> u32 {
        self.route.get() & 0xf_ffff
    }
}

/// Which shared receive queue of the peer an entry of an extended connection is for (`struct
/// mlx5_wqe_xrc_seg`).
#[derive(Clone, Copy, FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ExtendedSegment {
    shared_receives: U32,
    _reserved4: [u8; 12],
}

/// Decodes an entry of a queue pair whose messages say where they go: a send, or nothing.
pub fn decode_datagram(bytes: &[u8], segments: usize) -> Result<SendEntry, Malformed> {
    let bytes = bytes.get(..segments * SEGMENT_BYTES).ok_or(Malformed::Truncated)?;
    let mut rest = Segments { bytes };
    let control: ControlSegment = rest.next()?;
    let code = control.opmod_idx_opcode.opcode();
    let change = change(code, bytes)?;
    let operation = match Opcode::from_code(code) {
        _ if change.is_some() => Operation::Local,
        Some(Opcode::Nop) => Operation::Local,
        Some(Opcode::Send) => Operation::Send,
        Some(Opcode::SendImmediate) => Operation::SendImmediate(control.imm.get()),
        _ => return Err(Malformed::Opcode(code)),
    };
    let (address, (data, length)) = match operation {
        Operation::Local => (None, (Data::List(List::new()), 0)),
        _ => (Some(rest.next()?), rest.sources()?),
    };
    Ok(SendEntry {
        opcode: code,
        index: control.opmod_idx_opcode.index(),
        slots: slots_of(segments),
        completion: control.fm_ce_se.completion(),
        fenced: false,
        solicited: control.fm_ce_se.solicited(),
        operation,
        change,
        address,
        extended: 0,
        data,
        length,
    })
}

/// Decodes a send entry out of its bytes, of which there are those of `segments` segments at least
/// (see [`check_control`]). On an `extended` connection, the peer's shared receive queue is in it.
pub fn decode_send(bytes: &[u8], segments: usize, extended: bool) -> Result<SendEntry, Malformed> {
    let bytes = bytes.get(..segments * SEGMENT_BYTES).ok_or(Malformed::Truncated)?;
    let mut rest = Segments { bytes };
    let control: ControlSegment = rest.next()?;
    let code = control.opmod_idx_opcode.opcode();
    if let Some(change) = change(code, bytes)? {
        return Ok(SendEntry {
            opcode: code,
            index: control.opmod_idx_opcode.index(),
            slots: slots_of(segments),
            completion: control.fm_ce_se.completion(),
            fenced: false,
            solicited: false,
            operation: Operation::Local,
            change: Some(change),
            address: None,
            extended: 0,
            data: Data::List(List::new()),
            length: 0,
        });
    }
    let opcode = Opcode::from_code(code).ok_or(Malformed::Opcode(code))?;
    let extended = match extended {
        true => rest.next::<ExtendedSegment>()?.shared_receives.get() & 0xff_ffff,
        false => 0,
    };
    let immediate = control.imm.get();
    let operation = match opcode {
        Opcode::Nop => Operation::Local,
        Opcode::Send => Operation::Send,
        Opcode::SendImmediate => Operation::SendImmediate(immediate),
        Opcode::SendInvalidate => Operation::SendInvalidate(immediate),
        Opcode::Write => Operation::Write(rest.remote()?),
        Opcode::WriteImmediate => Operation::WriteImmediate(rest.remote()?, immediate),
        Opcode::Read => Operation::Read(rest.remote()?),
        Opcode::CompareSwap => {
            let remote = rest.remote()?;
            let operands: AtomicSegment = rest.next()?;
            let (compare, swap) = (operands.compare.get(), operands.swap_add.get());
            Operation::CompareSwap { remote, compare, swap }
        }
        Opcode::FetchAdd => {
            let remote = rest.remote()?;
            let operands: AtomicSegment = rest.next()?;
            Operation::FetchAdd { remote, add: operands.swap_add.get() }
        }
    };
    let (data, length) = match opcode {
        Opcode::Nop => (Data::List(List::new()), 0),
        Opcode::Read | Opcode::CompareSwap | Opcode::FetchAdd => rest.destinations()?,
        _ => rest.sources()?,
    };
    let fenced = match control.fm_ce_se.fence() {
        FenceMode::None | FenceMode::InitiatorSmall => false,
        FenceMode::Fence | FenceMode::StrongOrdering | FenceMode::SmallAndFence => true,
        reserved => return Err(Malformed::Fence(reserved)),
    };
    Ok(SendEntry {
        opcode: code,
        index: control.opmod_idx_opcode.index(),
        slots: slots_of(segments),
        completion: control.fm_ce_se.completion(),
        fenced,
        solicited: control.fm_ce_se.solicited(),
        operation,
        change: None,
        address: None,
        extended,
        data,
        length,
    })
}

/// What an entry changes about a memory key, if it is one that does.
fn change(code: u8, bytes: &[u8]) -> Result<Option<Box<KeyChange>>, Malformed> {
    match code {
        registration::OPCODE => Ok(Some(Box::new(registration::decode(bytes)?))),
        _ => Ok(None),
    }
}

/// Decodes a receive entry out of its bytes: the memory that a message goes to, in order.
pub fn decode_receive(bytes: &[u8]) -> Result<List, Malformed> {
    let mut segments = Segments { bytes };
    let mut list = List::new();
    while !segments.bytes.is_empty() {
        let segment: DataSegment = segments.next()?;
        if segment.is_terminator() {
            break;
        }
        if segment.is_inline() {
            return Err(Malformed::InlineDestination);
        }
        list.push(piece(&segment));
    }
    Ok(list)
}

fn piece(segment: &DataSegment) -> Entry {
    Entry { address: segment.addr.get(), length: segment.length(), lkey: segment.lkey.get() }
}

/// The segments of an entry that are still to be read.
struct Segments<'a> {
    bytes: &'a [u8],
}

impl Segments<'_> {
    fn next<T: FromBytes>(&mut self) -> Result<T, Malformed> {
        let (segment, rest) = T::read_from_prefix(self.bytes).map_err(|_| Malformed::Truncated)?;
        self.bytes = rest;
        Ok(segment)
    }

    fn remote(&mut self) -> Result<Remote, Malformed> {
        let segment: RemoteAddressSegment = self.next()?;
        Ok(Remote { address: segment.raddr.get(), rkey: segment.rkey.get() })
    }

    /// Data segments, or inline data, to the end of the entry.
    fn sources(&mut self) -> Result<(Data, u64), Malformed> {
        let mut list = List::new();
        let mut inline = Vec::new();
        let mut has_inline = false;
        while !self.bytes.is_empty() {
            let segment: DataSegment = self.peek()?;
            if !segment.is_inline() {
                self.next::<DataSegment>()?;
                list.push(piece(&segment));
                continue;
            }
            has_inline = true;
            let header: InlineHeader = self.peek()?;
            let length = header.length();
            let start = size_of::<InlineHeader>();
            let data = (start.checked_add(length as usize))
                .and_then(|end| self.bytes.get(start..end))
                .ok_or(Malformed::Inline(length))?;
            inline.extend_from_slice(data);
            let padded = (start + data.len()).next_multiple_of(SEGMENT_BYTES);
            self.bytes = self.bytes.get(padded..).unwrap_or_default();
        }
        match (has_inline, list.is_empty()) {
            (false, _) => {
                let length = bytes_of(&list);
                Ok((Data::List(list), length))
            }
            (true, true) => Ok((Data::Inline(Buffer::copy_of(&inline)), inline.len() as u64)),
            (true, false) => Err(Malformed::Mixed),
        }
    }

    fn peek<T: FromBytes>(&self) -> Result<T, Malformed> {
        T::read_from_prefix(self.bytes)
            .map(|(segment, _)| segment)
            .map_err(|_| Malformed::Truncated)
    }

    fn destinations(&mut self) -> Result<(Data, u64), Malformed> {
        let mut list = List::new();
        while !self.bytes.is_empty() {
            let segment: DataSegment = self.next()?;
            if segment.is_inline() {
                return Err(Malformed::InlineDestination);
            }
            list.push(piece(&segment));
        }
        let length = bytes_of(&list);
        Ok((Data::List(list), length))
    }
}

/// The bytes that a list names.
pub fn bytes_of(list: &[Entry]) -> u64 {
    list.iter().map(|entry| u64::from(entry.length)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell::mlx5::abi::U24;
    use doorbell::mlx5::abi::wqe::ControlFlags;
    use zerocopy::IntoBytes;

    fn control(opcode: Opcode, segments: u8) -> ControlSegment {
        let flags = ControlFlags::new().with_completion(CompletionMode::Always);
        ControlSegment::new(opcode, 7, U24::truncate(0x100), segments, flags, 0x1122_3344)
    }

    fn decode(bytes: &[u8], segments: usize) -> Result<SendEntry, Malformed> {
        decode_send(bytes, segments, false)
    }

    /// Why bytes are no entry.
    fn refusal(bytes: &[u8], segments: usize) -> Malformed {
        decode(bytes, segments).err().expect("the bytes were taken for an entry")
    }

    #[test]
    fn a_write_of_one_segment_is_read_back() {
        let mut bytes = control(Opcode::Write, 3).as_bytes().to_vec();
        bytes.extend_from_slice(RemoteAddressSegment::new(0x1000, 9).as_bytes());
        bytes.extend_from_slice(DataSegment::new(0x2000, 5, 64).as_bytes());
        let entry = decode(&bytes, 3).ok().unwrap();
        assert_eq!(entry.operation, Operation::Write(Remote { address: 0x1000, rkey: 9 }));
        let Data::List(list) = entry.data else { panic!("the data is in memory") };
        assert_eq!(list[..], [Entry { address: 0x2000, length: 64, lkey: 5 }]);
        assert_eq!((entry.index, entry.slots, entry.length), (7, 1, 64));
        assert_eq!(entry.completion, CompletionMode::Always);
    }

    #[test]
    fn inline_data_comes_out_of_the_entry_and_never_beside_memory() {
        let mut bytes = control(Opcode::SendImmediate, 2).as_bytes().to_vec();
        bytes.extend_from_slice(InlineHeader::of(11).as_bytes());
        bytes.extend_from_slice(b"eleven byte");
        bytes.resize(32, 0);
        let entry = decode(&bytes, 2).ok().unwrap();
        assert_eq!(entry.operation, Operation::SendImmediate(0x1122_3344));
        let Data::Inline(data) = entry.data else { panic!("the data is in the entry") };
        assert_eq!(data.as_slice(), b"eleven byte");
        bytes.extend_from_slice(DataSegment::new(0x2000, 5, 1 << 31).as_bytes());
        assert_eq!(refusal(&bytes, 3), Malformed::Mixed);
    }

    #[test]
    fn several_inline_segments_follow_each_other_each_padded_with_its_header() {
        let mut bytes = control(Opcode::Send, 4).as_bytes().to_vec();
        for part in [&b"thirteen byte"[..], b"and four"] {
            bytes.extend_from_slice(InlineHeader::of(part.len() as u16).as_bytes());
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len().next_multiple_of(16), 0);
        }
        let entry = decode(&bytes, bytes.len() / 16).ok().unwrap();
        let Data::Inline(data) = entry.data else { panic!("the data is in the entry") };
        assert_eq!(data.as_slice(), b"thirteen byteand four");
    }

    #[test]
    fn an_entry_that_ends_early_is_malformed_whatever_it_asks_for() {
        for opcode in [Opcode::Write, Opcode::Read, Opcode::CompareSwap, Opcode::FetchAdd] {
            let bytes = control(opcode, 1);
            assert_eq!(refusal(bytes.as_bytes(), 1), Malformed::Truncated, "{opcode:?}");
        }
        let mut bytes = control(Opcode::Send, 2).as_bytes().to_vec();
        bytes.extend_from_slice(InlineHeader::of(13).as_bytes());
        bytes.resize(32, 0);
        assert_eq!(refusal(&bytes, 2), Malformed::Inline(13));
    }

    #[test]
    fn the_control_segment_is_checked_against_its_place() {
        let good = control(Opcode::Send, 5);
        assert_eq!(check_control(&good, 0x100, 7, 2), Ok(5));
        assert_eq!(
            check_control(&good, 0x100, 7, 1),
            Err(Malformed::Unposted { slots: 2, posted: 1 })
        );
        assert_eq!(check_control(&good, 0x101, 7, 2), Err(Malformed::QueuePair(0x100)));
        let other = Malformed::Index { found: 7, expected: 8 };
        assert_eq!(check_control(&good, 0x100, 8, 2), Err(other));
        for segments in [0, 64, 255] {
            let bad = control(Opcode::Send, segments);
            assert_eq!(check_control(&bad, 0x100, 7, 99), Err(Malformed::Segments(segments)));
        }
    }

    #[test]
    fn a_receive_ends_at_its_terminator_and_zero_bytes_mean_2_to_the_31() {
        let mut bytes = DataSegment::new(0x1000, 3, 16).as_bytes().to_vec();
        bytes.extend_from_slice(DataSegment::new(0x3000, 3, 1 << 31).as_bytes());
        bytes.extend_from_slice(DataSegment::TERMINATOR.as_bytes());
        bytes.extend_from_slice(DataSegment::new(0x5000, 3, 16).as_bytes());
        let pieces = decode_receive(&bytes).unwrap();
        assert_eq!(pieces.len(), 2);
        assert_eq!(pieces[1].length, 1 << 31);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut bytes = [0u8; 1024];
        for _ in 0..20_000 {
            for chunk in bytes.chunks_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                chunk.copy_from_slice(&state.to_le_bytes());
            }
            bytes[3] = Opcode::SYMBOLS[state as usize % Opcode::SYMBOLS.len()].0 as u8;
            let _ = decode_send(&bytes, state as usize % 64, state.is_multiple_of(3));
            let _ = decode_receive(&bytes[..16 << (state % 5)]);
        }
    }
}

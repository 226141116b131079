//! Work entries, decoded: from the bytes of a ring to what is to be done.
//!
//! Any bytes are an entry or a [`Malformed`]: what software put into the ring is not trusted.

use doorbell::mlx5::abi::wqe::{
    AtomicSegment, CompletionMode, ControlSegment, DataSegment, FenceMode, InlineHeader,
    MAX_SEGMENTS, Opcode, RemoteAddressSegment, SEGMENT_BYTES, SLOT_SEGMENTS,
};
use std::fmt;
use zerocopy::FromBytes;

/// Bytes of memory that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte, as the key's region numbers them.
    pub address: u64,
    /// The key.
    pub lkey: u32,
    /// The number of bytes, from 1 to 2^31.
    pub length: u32,
}

/// Data to gather.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From memory.
    Memory(Piece),
    /// From the entry itself.
    Inline(Vec<u8>),
}

impl Source {
    /// The number of bytes.
    pub fn length(&self) -> u64 {
        match self {
            Source::Memory(piece) => piece.length.into(),
            Source::Inline(bytes) => bytes.len() as u64,
        }
    }
}

/// The peer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The first byte, as the peer's region numbers them.
    pub address: u64,
    /// The peer's key.
    pub rkey: u32,
}

/// What a send ring's entry asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing.
    Nop,
    /// A send.
    Send {
        /// What to send.
        data: Vec<Source>,
        /// 32 bits for the receiver, in the order that they cross the wire in.
        immediate: Option<u32>,
        /// A key of the receiver to invalidate.
        invalidate: Option<u32>,
    },
    /// A write.
    Write {
        /// Where to.
        remote: Remote,
        /// What to write.
        data: Vec<Source>,
        /// 32 bits for a receive of the peer.
        immediate: Option<u32>,
    },
    /// A read.
    Read {
        /// Where from.
        remote: Remote,
        /// Where to.
        into: Vec<Piece>,
    },
    /// Compare-and-swap of 8 bytes.
    CompareSwap {
        /// Where.
        remote: Remote,
        /// What it must hold.
        compare: u64,
        /// What it then holds.
        swap: u64,
        /// Where what it held goes to.
        into: Vec<Piece>,
    },
    /// Fetch-and-add of 8 bytes.
    FetchAdd {
        /// Where.
        remote: Remote,
        /// What to add.
        add: u64,
        /// Where what it held goes to.
        into: Vec<Piece>,
    },
}

/// An entry of a send ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendEntry {
    /// The number of the operation, for the completion.
    pub opcode: u8,
    /// The first slot, modulo 2^16.
    pub index: u16,
    /// The slots that it takes.
    pub slots: u16,
    /// When it completes with a completion.
    pub completion: CompletionMode,
    /// What it waits for.
    pub fence: FenceMode,
    /// The peer's completion counts as solicited.
    pub solicited: bool,
    /// What to do.
    pub request: Request,
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

/// Decodes a send entry out of its bytes, of which there are those of `segments` segments at least
/// (see [`check_control`]).
pub fn decode_send(bytes: &[u8], segments: usize) -> Result<SendEntry, Malformed> {
    let bytes = bytes.get(..segments * SEGMENT_BYTES).ok_or(Malformed::Truncated)?;
    let mut rest = Segments { bytes };
    let control: ControlSegment = rest.next()?;
    let code = control.opmod_idx_opcode.opcode();
    let opcode = Opcode::from_code(code).ok_or(Malformed::Opcode(code))?;
    let immediate = control.imm.get();
    let request = match opcode {
        Opcode::Nop => Request::Nop,
        Opcode::Send | Opcode::SendImmediate | Opcode::SendInvalidate => Request::Send {
            data: rest.sources()?,
            immediate: (opcode == Opcode::SendImmediate).then_some(immediate),
            invalidate: (opcode == Opcode::SendInvalidate).then_some(immediate),
        },
        Opcode::Write | Opcode::WriteImmediate => Request::Write {
            remote: rest.remote()?,
            data: rest.sources()?,
            immediate: (opcode == Opcode::WriteImmediate).then_some(immediate),
        },
        Opcode::Read => Request::Read { remote: rest.remote()?, into: rest.destinations()? },
        Opcode::CompareSwap => {
            let remote = rest.remote()?;
            let operands: AtomicSegment = rest.next()?;
            Request::CompareSwap {
                remote,
                compare: operands.compare.get(),
                swap: operands.swap_add.get(),
                into: rest.destinations()?,
            }
        }
        Opcode::FetchAdd => {
            let remote = rest.remote()?;
            let operands: AtomicSegment = rest.next()?;
            let add = operands.swap_add.get();
            Request::FetchAdd { remote, add, into: rest.destinations()? }
        }
    };
    let fence = control.fm_ce_se.fence();
    if matches!(fence, FenceMode::Reserved5 | FenceMode::Reserved6 | FenceMode::Reserved7) {
        return Err(Malformed::Fence(fence));
    }
    Ok(SendEntry {
        opcode: code,
        index: control.opmod_idx_opcode.index(),
        slots: slots_of(segments),
        completion: control.fm_ce_se.completion(),
        fence,
        solicited: control.fm_ce_se.solicited(),
        request,
    })
}

/// Decodes a receive entry out of its bytes: the memory that a message goes to, in order.
pub fn decode_receive(bytes: &[u8]) -> Result<Vec<Piece>, Malformed> {
    let mut segments = Segments { bytes };
    let mut pieces = Vec::new();
    while !segments.bytes.is_empty() {
        let segment: DataSegment = segments.next()?;
        if segment.is_terminator() {
            break;
        }
        if segment.is_inline() {
            return Err(Malformed::InlineDestination);
        }
        pieces.push(piece(&segment));
    }
    Ok(pieces)
}

fn piece(segment: &DataSegment) -> Piece {
    Piece { address: segment.addr.get(), lkey: segment.lkey.get(), length: segment.length() }
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

    /// Data segments and inline data, in any mixture.
    fn sources(&mut self) -> Result<Vec<Source>, Malformed> {
        let mut sources = Vec::new();
        while !self.bytes.is_empty() {
            let (segment, rest) = DataSegment::read_from_prefix(self.bytes)
                .map_err(|_| Malformed::Truncated)?;
            if !segment.is_inline() {
                self.bytes = rest;
                sources.push(Source::Memory(piece(&segment)));
                continue;
            }
            let (header, rest) = InlineHeader::read_from_prefix(self.bytes)
                .map_err(|_| Malformed::Truncated)?;
            let length = header.length();
            let data = rest.get(..length as usize).ok_or(Malformed::Inline(length))?;
            sources.push(Source::Inline(data.to_vec()));
            let padded = (size_of::<InlineHeader>() + data.len()).next_multiple_of(SEGMENT_BYTES);
            self.bytes = self.bytes.get(padded..).unwrap_or_default();
        }
        Ok(sources)
    }

    fn destinations(&mut self) -> Result<Vec<Piece>, Malformed> {
        let mut pieces = Vec::new();
        while !self.bytes.is_empty() {
            let segment: DataSegment = self.next()?;
            if segment.is_inline() {
                return Err(Malformed::InlineDestination);
            }
            pieces.push(piece(&segment));
        }
        Ok(pieces)
    }
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

    #[test]
    fn a_write_of_one_segment_is_read_back() {
        let mut bytes = control(Opcode::Write, 3).as_bytes().to_vec();
        bytes.extend_from_slice(RemoteAddressSegment::new(0x1000, 9).as_bytes());
        bytes.extend_from_slice(DataSegment::new(0x2000, 5, 64).as_bytes());
        let entry = decode_send(&bytes, 3).unwrap();
        let data = vec![Source::Memory(Piece { address: 0x2000, lkey: 5, length: 64 })];
        let remote = Remote { address: 0x1000, rkey: 9 };
        assert_eq!(entry.request, Request::Write { remote, data, immediate: None });
        assert_eq!((entry.index, entry.slots), (7, 1));
        assert_eq!(entry.completion, CompletionMode::Always);
    }

    #[test]
    fn inline_data_and_segments_mix_and_inline_is_padded_to_16_with_its_header() {
        let mut bytes = control(Opcode::SendImmediate, 4).as_bytes().to_vec();
        bytes.extend_from_slice(InlineHeader::of(13).as_bytes());
        bytes.extend_from_slice(b"thirteen byte");
        bytes.resize(48, 0);
        bytes.extend_from_slice(DataSegment::new(0x2000, 5, 1 << 31).as_bytes());
        let entry = decode_send(&bytes, 4).unwrap();
        let Request::Send { data, immediate, invalidate } = entry.request else { panic!() };
        assert_eq!((immediate, invalidate), (Some(0x1122_3344), None));
        assert_eq!(data[0], Source::Inline(b"thirteen byte".to_vec()));
        assert_eq!(data[1].length(), 1 << 31);
    }

    #[test]
    fn an_entry_that_ends_early_is_malformed_whatever_it_asks_for() {
        for opcode in [Opcode::Write, Opcode::Read, Opcode::CompareSwap, Opcode::FetchAdd] {
            let bytes = control(opcode, 1);
            assert_eq!(decode_send(bytes.as_bytes(), 1), Err(Malformed::Truncated), "{opcode:?}");
        }
        let mut bytes = control(Opcode::Send, 2).as_bytes().to_vec();
        bytes.extend_from_slice(InlineHeader::of(13).as_bytes());
        bytes.resize(32, 0);
        assert_eq!(decode_send(&bytes, 2), Err(Malformed::Inline(13)));
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
            let _ = decode_send(&bytes, state as usize % 64);
            let _ = decode_receive(&bytes[..16 << (state % 5)]);
        }
    }
}

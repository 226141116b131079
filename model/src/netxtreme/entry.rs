//! Work entries, decoded. Whatever they hold, the answer is a request or a status.

use crate::memory::{Buffer, Entry, List};
use crate::rc::{Data, Operation, Remote, Status};
use doorbell::bnxt::abi::wqe::{
    AtomicHeader, EntryFlags, HEADER_SLOTS, Opcode, Piece, RdmaHeader, ReceiveHeader, SLOT_BYTES,
    SendHeader,
};
use std::fmt;
use zerocopy::FromBytes;

/// The most slots of an entry: a header and 13 pieces, or 208 inline bytes.
pub(super) const MOST_SLOTS: u32 = (HEADER_SLOTS + MOST_PIECES) as u32;
/// The most pieces of an entry.
pub(super) const MOST_PIECES: usize = 13;
/// The most inline bytes.
pub(super) const MOST_INLINE: usize = MOST_PIECES * SLOT_BYTES;
/// The key that stands for all of memory, where a queue pair may use it.
pub(super) const RESERVED_KEY: u32 = 0xffff_ffff;

/// Why an entry cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    /// No such opcode.
    Opcode(u8),
    /// It has fewer or more slots than it may.
    Slots(u32),
    /// Its pieces have other bytes than its header says.
    Length { header: u64, pieces: u64 },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Opcode(code) => write!(f, "opcode {code:#x}"),
            Malformed::Slots(slots) => write!(f, "{slots} slots"),
            Malformed::Length { header, pieces } => {
                write!(f, "{header} bytes in the header, {pieces} in the pieces")
            }
        }
    }
}

/// A send entry.
#[derive(Clone)]
pub(super) struct SendEntry {
    pub(super) operation: Operation,
    pub(super) data: Data,
    pub(super) length: u64,
    pub(super) signaled: bool,
    pub(super) fenced: bool,
    pub(super) solicited: bool,
    /// Where a datagram goes: queue pair, queue key, address vector.
    pub(super) address: (u32, u32, u32),
    /// A key to invalidate.
    pub(super) invalidate: Option<u32>,
}

/// The slots of the entry that begins with these bytes.
pub(super) fn slots_of(first: &[u8; SLOT_BYTES]) -> Result<u32, Malformed> {
    let opcode = Opcode::from_code(first[0]).ok_or(Malformed::Opcode(first[0]))?;
    let slots = match opcode {
        Opcode::CompareSwap | Opcode::FetchAdd => 3,
        Opcode::LocalInvalidate | Opcode::FastRegister | Opcode::Bind => 2,
        _ => u32::from(first[2]),
    };
    if !(HEADER_SLOTS as u32..=MOST_SLOTS).contains(&slots) {
        return Err(Malformed::Slots(slots));
    }
    Ok(slots)
}

/// The pieces in `bytes`. `all` is the key that stands for all of memory.
fn pieces(bytes: &[u8], all: Option<u32>) -> List {
    bytes
        .chunks_exact(SLOT_BYTES)
        .filter_map(|bytes| Piece::read_from_bytes(bytes).ok())
        .map(|piece| {
            let key = piece.l_key.get();
            let lkey = if key == RESERVED_KEY { all.unwrap_or(key) } else { key };
            Entry { address: piece.va_or_pa.get(), length: piece.size.get(), lkey }
        })
        .collect()
}

fn bytes_of(list: &List) -> u64 {
    list.iter().map(|piece| u64::from(piece.length)).sum()
}

/// Decodes a send entry, whole.
pub(super) fn decode_send(bytes: &[u8], all: Option<u32>) -> Result<SendEntry, Malformed> {
    let slots = Malformed::Slots((bytes.len() / SLOT_BYTES) as u32);
    let (header, rest) = SendHeader::read_from_prefix(bytes).map_err(|_| slots)?;
    let opcode = Opcode::from_code(header.wqe_type).ok_or(Malformed::Opcode(header.wqe_type))?;
    let flags: EntryFlags = header.flags;
    let mut entry = SendEntry {
        operation: Operation::Local,
        data: Data::List(List::new()),
        length: 0,
        signaled: flags.signal_completion(),
        fenced: flags.read_or_atomic_fence() || flags.unconditional_fence(),
        solicited: flags.solicited_event(),
        address: (
            header.dst_qp.get() & 0xff_ffff,
            header.q_key.get(),
            header.avid.get() & 0xf_ffff,
        ),
        invalidate: None,
    };
    let word = header.inv_key_or_imm_data.get();
    let (rdma, _) = RdmaHeader::read_from_prefix(bytes).map_err(|_| slots)?;
    let remote = Remote { address: rdma.remote_va.get(), rkey: rdma.remote_key.get() };
    entry.operation = match opcode {
        Opcode::Send => Operation::Send,
        Opcode::SendImmediate => Operation::SendImmediate(word),
        Opcode::SendInvalidate => Operation::SendInvalidate(word),
        Opcode::Write => Operation::Write(remote),
        Opcode::WriteImmediate => Operation::WriteImmediate(remote, word),
        Opcode::Read => Operation::Read(remote),
        Opcode::CompareSwap | Opcode::FetchAdd => {
            let (atomic, _) = AtomicHeader::read_from_prefix(bytes).map_err(|_| slots)?;
            let remote = Remote { address: atomic.remote_va.get(), rkey: atomic.remote_key.get() };
            let list = pieces(rest, all);
            entry.length = bytes_of(&list);
            entry.data = Data::List(list);
            entry.operation = match opcode {
                Opcode::FetchAdd => Operation::FetchAdd { remote, add: atomic.swap_data.get() },
                _ => Operation::CompareSwap {
                    remote,
                    compare: atomic.cmp_data.get(),
                    swap: atomic.swap_data.get(),
                },
            };
            return Ok(entry);
        }
        Opcode::LocalInvalidate => {
            entry.invalidate = Some(word);
            return Ok(entry);
        }
        // It says that it has neither.
        Opcode::FastRegister | Opcode::Bind => {
            entry.operation = Operation::Refused(Status::MemoryWindowBind);
            return Ok(entry);
        }
    };
    let length = header.length.get();
    entry.length = length.into();
    entry.data = if flags.inline() {
        let wrong = Malformed::Length { header: length.into(), pieces: rest.len() as u64 };
        Data::Inline(Buffer::copy_of(rest.get(..length as usize).ok_or(wrong)?))
    } else {
        let list = pieces(rest, all);
        let there = bytes_of(&list);
        if there != entry.length {
            return Err(Malformed::Length { header: entry.length, pieces: there });
        }
        Data::List(list)
    };
    Ok(entry)
}

/// A receive entry: what it is called, and where its bytes go.
pub(super) fn decode_receive(bytes: &[u8], all: Option<u32>) -> Result<(u32, List), Malformed> {
    let slots = Malformed::Slots((bytes.len() / SLOT_BYTES) as u32);
    let (header, rest) = ReceiveHeader::read_from_prefix(bytes).map_err(|_| slots)?;
    if header.wqe_type != doorbell::bnxt::abi::wqe::RECEIVE {
        return Err(Malformed::Opcode(header.wqe_type));
    }
    let size = usize::from(header.wqe_size);
    let count = size.checked_sub(HEADER_SLOTS).ok_or(Malformed::Slots(size as u32))?;
    let list = rest.get(..count * SLOT_BYTES).ok_or(Malformed::Slots(size as u32))?;
    Ok((header.wr_id[0].get() & 0xf_ffff, pieces(list, all)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zerocopy::{FromZeros, IntoBytes};

    fn write(length: u32, pieces: &[(u64, u32, u32)]) -> Vec<u8> {
        let mut header = RdmaHeader::new_zeroed();
        header.wqe_type = Opcode::Write.code();
        header.flags = EntryFlags::of(true, false, false);
        header.wqe_size = (2 + pieces.len()) as u8;
        header.length = length.into();
        header.remote_va = 0x1234.into();
        header.remote_key = 7.into();
        let mut bytes = header.as_bytes().to_vec();
        for &(va, key, size) in pieces {
            let piece = Piece { va_or_pa: va.into(), l_key: key.into(), size: size.into() };
            bytes.extend_from_slice(piece.as_bytes());
        }
        bytes
    }

    #[test]
    fn a_write_is_read_as_it_was_written() {
        let entry =
            decode_send(&write(30, &[(8, 5, 10), (9, RESERVED_KEY, 20)]), Some(77)).unwrap();
        assert_eq!(entry.operation, Operation::Write(Remote { address: 0x1234, rkey: 7 }));
        let Data::List(list) = entry.data else { panic!("not a list") };
        assert_eq!(list[0], Entry { address: 8, length: 10, lkey: 5 });
        assert_eq!(list[1], Entry { address: 9, length: 20, lkey: 77 });
        assert!(entry.signaled && !entry.fenced && !entry.solicited);
    }

    #[test]
    fn a_header_that_contradicts_its_pieces_is_malformed() {
        let wrong = decode_send(&write(31, &[(8, 5, 30)]), None).err();
        assert_eq!(wrong, Some(Malformed::Length { header: 31, pieces: 30 }));
    }

    #[test]
    fn sizes_are_the_entrys_own_or_its_kinds() {
        let mut first = [0; SLOT_BYTES];
        (first[0], first[2]) = (Opcode::Read.code(), 15);
        assert_eq!(slots_of(&first), Ok(15));
        first[2] = 16;
        assert_eq!(slots_of(&first), Err(Malformed::Slots(16)));
        first[0] = Opcode::FetchAdd.code();
        assert_eq!(slots_of(&first), Ok(3));
        first[0] = 0x77;
        assert_eq!(slots_of(&first), Err(Malformed::Opcode(0x77)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = decode_send(&bytes, Some(1));
            let _ = decode_receive(&bytes, None);
            if let Some(first) = bytes.first_chunk() {
                let _ = slots_of(first);
            }
        }
    }
}

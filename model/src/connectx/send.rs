//! The send side of a queue pair: doorbells, and the entries behind them.

use super::entry::{self, Malformed, SendEntry};
use super::queue_pair::{Core, InFlight, State};
use super::{Counters, Log};
use crate::memory::{AddressSpace, Fault};
use crate::network::Store;
use crate::rc::{Operation, Request, Status};
use doorbell::mlx5::abi::doorbell::CounterWord;
use doorbell::mlx5::abi::uar;
use doorbell::mlx5::abi::wqe::{
    CompletionMode, ControlSegment, MAX_SLOTS, SEGMENT_BYTES, SLOT_BYTES,
};
use zerocopy::{FromBytes, IntoBytes};

/// What entries may be, at most.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of a message.
    pub(super) message: u64,
    /// Bytes of an entry.
    pub(super) entry: usize,
}

/// The entry that a BlueFlame copy brings: it spares the NIC the fetch.
#[derive(Default)]
pub(super) struct BlueFlame {
    /// The bytes that came and were not used.
    bytes: Vec<u8>,
    /// Where the copy's next slot has to go in the page, while it is not complete.
    next: Option<u32>,
    /// Where in the page the copy ends.
    end: u32,
}

impl BlueFlame {
    /// Takes a slot of a copy at `offset` in the page. Answers whether it completes an entry.
    fn take(&mut self, offset: u32, slot: &[u64; 8]) -> bool {
        let bytes = slot.as_bytes();
        if is_half_start(offset) {
            let Ok((control, _)) = ControlSegment::read_from_prefix(bytes) else { return false };
            let slots = entry::slots_of(control.qpn_ds.segments().into());
            self.bytes = bytes.to_vec();
            self.end = offset + u32::from(slots) * SLOT_BYTES as u32;
        } else if self.next == Some(offset) {
            // The entry may have been fetched in between: what is left of its copy is no entry.
            if !self.bytes.is_empty() {
                self.bytes.extend_from_slice(bytes);
            }
        } else {
            return false;
        }
        let next = offset + SLOT_BYTES as u32;
        self.next = (next < self.end).then_some(next);
        self.next.is_none()
    }

    /// What was copied of the entry at slot `index`, from its first byte on.
    fn entry(&mut self, index: u16) -> Option<Vec<u8>> {
        let (control, _) = ControlSegment::read_from_prefix(&self.bytes).ok()?;
        if control.opmod_idx_opcode.index() != index {
            return None;
        }
        Some(std::mem::take(&mut self.bytes))
    }
}

/// Whether a copy to `offset` of a UAR page is the first slot of one.
fn is_half_start(offset: u32) -> bool {
    (offset as usize)
        .checked_sub(uar::SEND_OFFSET)
        .is_some_and(|at| at.is_multiple_of(uar::SEND_HALF_BYTES))
}

/// Where the first segments of a store to a send register lead: the queue pair, and what is said
/// about its last entry.
pub(super) fn doorbell_of(store: &Store) -> Option<(u32, ControlSegment)> {
    let (offset, first) = match store {
        Store::Word { offset, value, .. } => (*offset, [*value, 0]),
        Store::Slot { offset, slot, .. } => (*offset, [slot[0], slot[1]]),
    };
    let control = ControlSegment::from_words(first);
    is_half_start(offset).then_some((control.qpn_ds.queue_pair().get(), control))
}

impl Core {
    /// A doorbell: reads the record, up to whose counter entries may be read from now on.
    pub(super) fn ring(
        &mut self,
        store: &Store,
        control: &ControlSegment,
        space: &dyn AddressSpace,
        counters: &mut Counters,
        log: &mut Log,
    ) {
        let number = self.number;
        if !matches!(self.state, State::ReadyToSend | State::Error) {
            counters.stray_doorbells += 1;
            log.note(format_args!("queue pair {number:#x}: a doorbell at {:?}", self.state));
            return;
        }
        counters.send_doorbells += 1;
        if let Store::Slot { offset, slot, .. } = store
            && self.blue_flame.take(*offset, slot)
        {
            counters.blue_flame_entries += 1;
        }
        let announced = match self.send_counter(space) {
            Ok(counter) => counter,
            Err(fault) => {
                log.note(format_args!("queue pair {number:#x}: doorbell record: {fault}"));
                return;
            }
        };
        let slots = entry::slots_of(control.qpn_ds.segments().into());
        let end = control.opmod_idx_opcode.index().wrapping_add(slots);
        if (announced.wrapping_sub(end) as i16) < 0 {
            counters.record_behind_register += 1;
            log.note(format_args!(
                "queue pair {number:#x}: the register announces slot {end:#x}, the record \
                 {announced:#x}"
            ));
        }
        self.announce(announced, log);
    }

    /// A slot of a BlueFlame copy whose first slot was a doorbell. Answers where the slot after it
    /// goes to, if there is one; `None` if the copy does not go on at `offset`.
    pub(super) fn continue_blue_flame(
        &mut self,
        offset: u32,
        slot: &[u64; 8],
        counters: &mut Counters,
    ) -> Option<Option<u32>> {
        if self.blue_flame.next != Some(offset) {
            return None;
        }
        if self.blue_flame.take(offset, slot) {
            counters.blue_flame_entries += 1;
        }
        Some(self.blue_flame.next)
    }

    /// Where the next slot of a BlueFlame copy goes to, if one is under way.
    pub(super) fn next_blue_flame(&self) -> Option<u32> {
        self.blue_flame.next
    }

    /// The send counter of the doorbell record.
    pub(super) fn send_counter(&self, space: &dyn AddressSpace) -> Result<u16, Fault> {
        let word = space.load_word(self.context.record.wrapping_add(4))?;
        Ok(CounterWord::from_memory(word).counter())
    }

    /// Lets entries up to `counter` be read, if the ring can hold so many.
    pub(super) fn announce(&mut self, counter: u16, log: &mut Log) {
        let slots = 1u32 << self.context.log_send_slots;
        let ahead = counter.wrapping_sub(self.send_consumer);
        if u32::from(ahead) > slots {
            log.note(format_args!(
                "queue pair {:#x}: the record announces {ahead} slots of a ring of {slots}",
                self.number
            ));
            return;
        }
        self.send_producer = counter;
    }

    /// Reads the next announced entry. `entry` names it to the connection.
    pub(super) fn fetch_send(
        &mut self,
        space: &dyn AddressSpace,
        limits: Limits,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Option<Request> {
        let (index, entry) = self.next_entry(space, limits, counters, log)?;
        Some(match entry {
            Ok(entry) => request_of(index, entry, limits),
            Err(status) => refused(index, status),
        })
    }

    /// Reads the next announced entry, or says why it is none. Answers its slot, too.
    pub(super) fn next_entry(
        &mut self,
        space: &dyn AddressSpace,
        limits: Limits,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Option<(u16, Result<SendEntry, Status>)> {
        let posted = self.announced();
        if posted == 0 {
            return None;
        }
        counters.send_entries += 1;
        let index = self.send_consumer;
        let read = self.read_send(space, index, posted, limits);
        let (in_flight, slots, entry) = match read {
            Ok(entry) => {
                let slots = entry.slots;
                let in_flight = InFlight {
                    index,
                    opcode: entry.opcode,
                    completion: entry.completion,
                    change: entry.change.clone(),
                };
                (in_flight, slots, Ok(entry))
            }
            Err(Unreadable { control, reason }) => {
                counters.malformed_entries += 1;
                log.note(format_args!(
                    "queue pair {:#x}: the send entry in slot {index:#x}: {reason}",
                    self.number
                ));
                let in_flight = InFlight {
                    index,
                    opcode: control.opmod_idx_opcode.opcode(),
                    completion: CompletionMode::Always,
                    change: None,
                };
                // How many slots it takes is as little to be trusted as the rest. The queue pair
                // fails with it, so what follows is only flushed.
                let slots = entry::slots_of(control.qpn_ds.segments().into()).clamp(1, posted);
                (in_flight, slots, Err(Status::LocalQpOperation))
            }
        };
        self.send_consumer = index.wrapping_add(slots);
        self.in_flight.push_back(in_flight);
        Some((index, entry))
    }

    /// The bytes of the entry in slot `index` as they are in the ring: as many as its control segment
    /// says. `None` where there is no ring or no memory.
    pub(super) fn send_entry(&self, space: &dyn AddressSpace, index: u16) -> Option<Vec<u8>> {
        let ring = self.context.send_ring.as_ref()?;
        let mask = (1u64 << self.context.log_send_slots) - 1;
        let mut bytes = vec![0; MAX_SLOTS * SLOT_BYTES];
        for (slot, to) in (0..).zip(bytes.chunks_mut(SLOT_BYTES)) {
            let at = (u64::from(index.wrapping_add(slot)) & mask) * SLOT_BYTES as u64;
            ring.read(space, at, to).ok()?;
        }
        let (control, _) = ControlSegment::read_from_prefix(&bytes).ok()?;
        bytes.truncate(usize::from(control.qpn_ds.segments()) * SEGMENT_BYTES);
        Some(bytes)
    }

    /// The bytes of the entry in slot `index`, decoded.
    fn read_send(
        &mut self,
        space: &dyn AddressSpace,
        index: u16,
        posted: u16,
        limits: Limits,
    ) -> Result<SendEntry, Unreadable> {
        let mut bytes = [0; MAX_SLOTS * SLOT_BYTES];
        let copied = self.blue_flame.entry(index);
        let read = |slot: u16, to: &mut [u8]| {
            let from = usize::from(slot) * SLOT_BYTES;
            if let Some(part) = copied.as_ref().and_then(|b| b.get(from..from + SLOT_BYTES)) {
                to.copy_from_slice(part);
                return Ok(());
            }
            let mask = (1u64 << self.context.log_send_slots) - 1;
            let at = (u64::from(index.wrapping_add(slot)) & mask) * SLOT_BYTES as u64;
            let ring = self.context.send_ring.as_ref().ok_or(Reason::NoRing)?;
            ring.read(space, at, to).map_err(Reason::Fault)
        };
        let unread = ControlSegment::default();
        let (first, _) = bytes.split_at_mut(SLOT_BYTES);
        read(0, first).map_err(|reason| Unreadable { control: unread, reason })?;
        let control = match ControlSegment::read_from_prefix(first) {
            Ok((control, _)) => control,
            Err(_) => unread,
        };
        let unreadable = |reason| Unreadable { control, reason };
        let segments = entry::check_control(&control, self.number, index, posted)
            .map_err(|malformed| unreadable(Reason::Malformed(malformed)))?;
        if segments * SEGMENT_BYTES > limits.entry {
            return Err(unreadable(Reason::TooLong { limit: limits.entry }));
        }
        for (slot, to) in (0..).zip(bytes.chunks_mut(SLOT_BYTES)) {
            if slot > 0 && slot < entry::slots_of(segments) {
                read(slot, to).map_err(unreadable)?;
            }
        }
        let decoded = match self.context.service.has_peer() {
            false => entry::decode_datagram(&bytes, segments),
            true => entry::decode_send(&bytes, segments, self.context.service.is_extended()),
        };
        decoded.map_err(|malformed| unreadable(Reason::Malformed(malformed)))
    }
}

/// Why an entry could not be read, and what its control segment says.
struct Unreadable {
    control: ControlSegment,
    reason: Reason,
}

enum Reason {
    Malformed(Malformed),
    Fault(Fault),
    NoRing,
    TooLong { limit: usize },
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Malformed(malformed) => malformed.fmt(f),
            Reason::Fault(fault) => fault.fmt(f),
            Reason::NoRing => f.write_str("there is no send ring"),
            Reason::TooLong { limit } => write!(f, "longer than {limit} bytes"),
        }
    }
}

fn refused(index: u16, status: Status) -> Request {
    Request {
        entry: index.into(),
        operation: Operation::Refused(status),
        data: crate::rc::Data::List(crate::memory::List::new()),
        fenced: false,
        solicited: false,
        extended: 0,
        signaled: true,
    }
}

/// The request that an entry makes.
fn request_of(index: u16, entry: SendEntry, limits: Limits) -> Request {
    if entry.length > limits.message {
        return refused(index, Status::LocalLength);
    }
    Request {
        entry: index.into(),
        operation: entry.operation,
        data: entry.data,
        fenced: entry.fenced,
        solicited: entry.solicited,
        extended: entry.extended,
        signaled: matches!(
            entry.completion,
            CompletionMode::Always | CompletionMode::AlwaysWithEvent
        ),
    }
}

/// Whether an operation's completion says how many bytes came in, and how many.
pub(super) fn bytes_in(request: &Request) -> u32 {
    match request.operation {
        Operation::Read(_) => match &request.data {
            crate::rc::Data::List(list) => entry::bytes_of(list) as u32,
            crate::rc::Data::Inline(_) => 0,
        },
        Operation::FetchAdd { .. } | Operation::CompareSwap { .. } => 8,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell::mlx5::abi::U24;
    use doorbell::mlx5::abi::wqe::{ControlFlags, DataSegment, Opcode};

    /// The second half of a datagram's entry is its data segments: 1024 bytes there read like slot 4 of
    /// an entry.
    #[test]
    fn the_rest_of_a_copy_whose_entry_was_fetched_is_no_entry() {
        let flags = ControlFlags::new();
        let control = ControlSegment::new(Opcode::Send, 2, U24::truncate(1), 5, flags, 0);
        let mut first = [0u64; 8];
        first.as_mut_bytes()[..16].copy_from_slice(control.as_bytes());
        let mut second = [0u64; 8];
        let data = DataSegment::new(0x1000, 0xd4, 1024);
        second.as_mut_bytes()[..16].copy_from_slice(data.as_bytes());
        let mut copy = BlueFlame::default();
        assert!(!copy.take(0x800, &first));
        assert_eq!(copy.entry(2).map(|bytes| bytes.len()), Some(64));
        assert!(copy.take(0x840, &second));
        assert_eq!(copy.entry(4), None);
        // A copy that is whole before that is all used.
        assert!(!copy.take(0x900, &first));
        assert!(copy.take(0x940, &second));
        assert_eq!(copy.entry(2).map(|bytes| bytes.len()), Some(128));
    }
}

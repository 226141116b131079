//! Queue pairs: what they are made of, and what their rings say.

use super::Counters;
use super::entry::{self, Malformed, SendEntry};
use super::record::{FetchedFrom, Record};
use super::ring::Place;
use crate::fabric::Address;
use crate::memory::{Access, AddressSpace, Entry, Fault, Ring};
use crate::network::Log;
use crate::rc::{Connection, Data, Mtu, Operation, Psn, Receive, Request, Status};
use doorbell::bnxt::abi::field::{QueuePairKind, QueuePairState};
use doorbell::bnxt::abi::wqe::{MessageSearch, SLOT_BYTES};
use std::collections::VecDeque;
use zerocopy::FromBytes;

/// A queue pair: its connection, and everything else.
pub(super) struct QueuePair {
    /// From Ready to Receive on, of a reliable one.
    pub(super) connection: Option<Connection>,
    pub(super) core: Core,
}

/// A send entry on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    /// The slot where it begins.
    pub(super) start: u32,
    pub(super) signaled: bool,
    pub(super) invalidate: Option<u32>,
}

/// Where receives come from.
pub(super) struct Receives {
    pub(super) memory: Ring,
    pub(super) entries: u32,
    /// Bytes of an entry.
    pub(super) stride: u32,
    /// The next to take, and one past the last that was posted.
    pub(super) own: Place,
    pub(super) driver: Place,
    pub(super) record: Option<Record>,
}

/// What a connection's host needs of its queue pair.
pub(super) struct Core {
    pub(super) number: u32,
    pub(super) kind: QueuePairKind,
    pub(super) handle: u64,
    pub(super) domain: u32,
    /// The doorbell page.
    pub(super) page: u32,
    pub(super) send_queue: u32,
    pub(super) receive_queue: u32,
    /// The key that stands for all of memory, if this queue pair may use it.
    pub(super) all_of_memory: Option<u32>,
    /// Every request has a completion.
    pub(super) complete_all: bool,
    /// The send ring, and its message table behind it.
    pub(super) sends: Ring,
    /// Slots of the send ring.
    pub(super) slots: u32,
    pub(super) own: Place,
    pub(super) driver: Place,
    pub(super) receives: Option<Receives>,
    /// The shared receive queue instead.
    pub(super) shared: Option<u32>,
    pub(super) state: QueuePairState,
    pub(super) access: Access,
    /// From and to.
    pub(super) path: Option<(Address, Address)>,
    pub(super) attributes: Attributes,
    /// Entries read and not completed, in order.
    pub(super) in_flight: VecDeque<InFlight>,
    /// Entries done, modulo the slots; and whether some of them no completion told of.
    pub(super) done: u32,
    pub(super) untold: bool,
    /// Messages sent, for their places in the table; and the number of the next one's first packet.
    pub(super) message: u32,
    pub(super) psn: Psn,
    /// A completion had nowhere to go. The queue pair has to fail, too.
    pub(super) lost_completion: bool,
    /// It failed, and nothing more completes.
    pub(super) failed: bool,
    pub(super) record: Option<Record>,
}

/// What a queue pair was told, of which queries answer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attributes {
    pub(super) access: u8,
    pub(super) partition_key: u16,
    pub(super) queue_key: u32,
    pub(super) gid: [u8; 16],
    pub(super) gid_index: u16,
    pub(super) flow_label: u32,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
    pub(super) network: u8,
    pub(super) destination_mac: [u8; 6],
    pub(super) mtu: Option<Mtu>,
    pub(super) timeout: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry: u8,
    pub(super) rnr_timer: u8,
    pub(super) expected_psn: u32,
    pub(super) first_psn: u32,
    pub(super) outbound_slots: u8,
    pub(super) inbound_slots: u8,
    pub(super) peer: u32,
}

/// A request that cannot be done: it completes with `status` in its turn.
fn refused(entry: u32, status: Status) -> Request {
    Request {
        entry: entry.into(),
        operation: Operation::Refused(status),
        data: Data::List(crate::memory::List::new()),
        fenced: false,
        solicited: false,
        signaled: true,
        extended: 0,
    }
}

/// The longest message.
const LONGEST: u64 = 1 << 31;

/// Why an entry could not be read.
enum Unreadable {
    Malformed(Malformed),
    Fault(Fault),
    /// It has more slots than were announced.
    Cut {
        slots: u32,
        announced: u32,
    },
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unreadable::Malformed(why) => why.fmt(f),
            Unreadable::Fault(fault) => write!(f, "lost access: {fault}"),
            Unreadable::Cut { slots, announced } => {
                write!(f, "an entry of {slots} slots, of which {announced} are announced")
            }
        }
    }
}

impl Core {
    /// Slots that were announced and not read.
    pub(super) fn announced(&self) -> u32 {
        self.driver.since(self.own, self.slots).unwrap_or(0)
    }

    fn read(&self, space: &dyn AddressSpace, slot: u32, into: &mut [u8]) -> Result<(), Fault> {
        let at = u64::from(slot % self.slots) * SLOT_BYTES as u64;
        self.sends.read(space, at, into)
    }

    /// The bytes of the entry that begins at slot `start`, and its slots.
    fn fetch(&self, space: &dyn AddressSpace, start: u32) -> Result<(Vec<u8>, u32), Unreadable> {
        let mut first = [0; SLOT_BYTES];
        self.read(space, start, &mut first).map_err(Unreadable::Fault)?;
        let slots = entry::slots_of(&first).map_err(Unreadable::Malformed)?;
        let announced = self.announced();
        if slots > announced {
            return Err(Unreadable::Cut { slots, announced });
        }
        let mut bytes = vec![0; slots as usize * SLOT_BYTES];
        for (slot, to) in (start..).zip(bytes.chunks_exact_mut(SLOT_BYTES)) {
            self.read(space, slot, to).map_err(Unreadable::Fault)?;
        }
        Ok((bytes, slots))
    }

    /// The next entry, and the slot where it begins. The error is its status.
    pub(super) fn next_entry(
        &mut self,
        space: &dyn AddressSpace,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Option<(u32, Result<SendEntry, Status>)> {
        if self.announced() == 0 {
            return None;
        }
        counters.send_entries += 1;
        let start = self.own.index();
        let fetched = self.fetch(space, start).and_then(|(bytes, slots)| {
            if let Some(record) = &self.record {
                record.add(FetchedFrom::Sends, &bytes);
            }
            entry::decode_send(&bytes, self.all_of_memory)
                .map(|entry| (entry, slots))
                .map_err(Unreadable::Malformed)
        });
        let (entry, slots) = match fetched {
            Ok((entry, slots)) => (Ok(entry), slots),
            Err(why) => {
                counters.malformed_entries += 1;
                log.note(format_args!(
                    "queue pair {:#x}: the entry at slot {start:#x}: {why}",
                    self.number
                ));
                // Nobody knows where the next begins. There is none: the queue pair fails.
                (Err(Status::LocalQpOperation), self.announced())
            }
        };
        self.own = self.own.after(slots, self.slots);
        self.in_flight.push_back(InFlight {
            start,
            signaled: self.complete_all || entry.as_ref().map_or(true, |entry| entry.signaled),
            invalidate: entry.as_ref().ok().and_then(|entry| entry.invalidate),
        });
        Some((start, entry))
    }

    /// The next request of a reliable connection.
    pub(super) fn next_request(
        &mut self,
        space: &dyn AddressSpace,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Option<Request> {
        let (start, entry) = self.next_entry(space, counters, log)?;
        let entry = match entry {
            Ok(entry) => entry,
            Err(status) => return Some(refused(start, status)),
        };
        if entry.length > LONGEST {
            return Some(refused(start, Status::LocalLength));
        }
        if !matches!(entry.operation, Operation::Local | Operation::Refused(_)) {
            self.check_message(start, &entry, space, counters, log);
        }
        Some(Request {
            entry: start.into(),
            operation: entry.operation,
            data: entry.data,
            fenced: entry.fenced,
            solicited: entry.solicited,
            signaled: entry.signaled,
            extended: 0,
        })
    }

    /// Looks at what the message table says of an entry: where it begins, and its packets' numbers.
    /// Hardware finds there what to send again.
    fn check_message(
        &mut self,
        start: u32,
        entry: &SendEntry,
        space: &dyn AddressSpace,
        counters: &mut Counters,
        log: &mut Log,
    ) {
        let mtu = self.attributes.mtu.map_or(4096, Mtu::bytes);
        let packets = match entry.operation {
            Operation::FetchAdd { .. } | Operation::CompareSwap { .. } => 1,
            _ => entry.length.div_ceil(mtu.into()).max(1) as u32,
        };
        let (first, next) = (self.psn, self.psn.add(packets));
        let places = self.slots.next_power_of_two() / 2;
        let place = self.message % places.max(1);
        self.message = self.message.wrapping_add(1);
        self.psn = next;
        let table = u64::from(self.slots) * SLOT_BYTES as u64;
        let mut bytes = [0; 8];
        let read = self.sends.read(space, table + u64::from(place) * 8, &mut bytes);
        let search = MessageSearch::read_from_bytes(&bytes).unwrap_or_default();
        let right = read.is_ok()
            && search.start_psn() == first.get()
            && search.next_psn() == next.get()
            && u32::from(search.start_idx()) == start;
        if !right {
            counters.wrong_message_table += 1;
            log.note(format_args!(
                "queue pair {:#x}: place {place:#x} of the message table says {search:?}, and not \
                 slot {start:#x}, packets {:#x} to {:#x}",
                self.number,
                first.get(),
                next.get()
            ));
        }
    }
}

impl Receives {
    pub(super) fn posted(&self) -> u32 {
        self.driver.since(self.own, self.entries).unwrap_or(0)
    }

    /// Takes the next receive, if one was posted.
    pub(super) fn take(
        &mut self,
        all: Option<u32>,
        space: &dyn AddressSpace,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Option<Receive> {
        if self.posted() == 0 {
            return None;
        }
        counters.receive_entries += 1;
        let index = self.own.index();
        self.own = self.own.after(1, self.entries);
        let mut bytes = vec![0; self.stride as usize];
        let at = u64::from(index) * u64::from(self.stride);
        let decoded = match self.memory.read(space, at, &mut bytes) {
            Ok(()) => {
                if let Some(record) = &self.record {
                    record.add(FetchedFrom::Receives, &bytes);
                }
                entry::decode_receive(&bytes, all).map_err(|why| why.to_string())
            }
            Err(fault) => Err(format!("lost access: {fault}")),
        };
        let (name, list) = decoded.unwrap_or_else(|why| {
            counters.malformed_entries += 1;
            log.note(format_args!("the receive entry {index:#x}: {why}"));
            // A key that nothing has: the message finds no memory to go to.
            (index, [Entry { address: 0, length: 1 << 31, lkey: 0 }].into_iter().collect())
        });
        Some(Receive { entry: name.into(), list })
    }
}

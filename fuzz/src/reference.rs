//! What the specification says of a completion's bytes and of a queue's slots, worked out without
//! the driver's types.

use doorbell::completion::{Arrival, Completion, Queue, Status};
use std::collections::VecDeque;

/// A completion, as far as it can be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Sent { id: u64, queue_pair: u32 },
    Received { id: u64, queue_pair: u32, len: u32, by: Arrival, solicited: bool },
    Failed { id: u64, queue_pair: u32, queue: Queue, syndrome: u8, vendor: u8 },
    Unrecognized { queue_pair: u32, opcode: u8 },
}

impl Seen {
    /// The completion that is in `bytes`, of the queue pair at `queue_pair`. Frees what completed.
    /// None if it is that of the entry which marks a queue's end.
    pub(crate) fn of(
        bytes: &[u8; 64],
        queue_pair: u32,
        sends: &mut Mirror,
        receives: &mut Mirror,
    ) -> Option<Self> {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let counter = u16::from_be_bytes([bytes[60], bytes[61]]);
        let (immediate, len, solicited) = (word(36), word(44), bytes[63] & 2 != 0);
        let opcode = bytes[63] >> 4;
        let by = match opcode {
            0 => return Some(Seen::Sent { id: sends.complete(counter), queue_pair }),
            1 => Arrival::WriteImmediate(immediate),
            2 => Arrival::Send,
            3 => Arrival::SendImmediate(immediate),
            4 => Arrival::SendInvalidate(immediate),
            13 | 14 => {
                let (queue, mirror) = match opcode {
                    13 => (Queue::Send, sends),
                    _ => (Queue::Receive, receives),
                };
                let (id, vendor, syndrome) = (mirror.complete(counter), bytes[54], bytes[55]);
                let failed = Seen::Failed { id, queue_pair, queue, syndrome, vendor };
                return (mirror.end != Some(counter)).then_some(failed);
            }
            _ => return Some(Seen::Unrecognized { queue_pair, opcode }),
        };
        let id = receives.complete(counter);
        Some(Seen::Received { id, queue_pair, len, by, solicited })
    }
}

impl From<Completion> for Seen {
    fn from(completion: Completion) -> Self {
        match completion {
            Completion::Sent(sent) => Seen::Sent { id: sent.id, queue_pair: sent.queue_pair.get() },
            Completion::Received(received) => Seen::Received {
                id: received.id,
                queue_pair: received.queue_pair.get(),
                len: received.len,
                by: received.by,
                solicited: received.solicited,
            },
            Completion::Failed(failed) => {
                assert!(!failed.to_string().is_empty());
                Seen::Failed {
                    id: failed.id,
                    queue_pair: failed.queue_pair.get(),
                    queue: failed.queue,
                    syndrome: syndrome(failed.status),
                    vendor: failed.vendor,
                }
            }
            Completion::Unrecognized(unrecognized) => {
                assert!(!unrecognized.to_string().is_empty());
                let queue_pair = unrecognized.queue_pair.get();
                Seen::Unrecognized { queue_pair, opcode: unrecognized.opcode }
            }
            other => panic!("a new kind of completion, which this does not know: {other:?}"),
        }
    }
}

/// The syndrome of a status (`MLX5_CQE_SYNDROME_*`).
fn syndrome(status: Status) -> u8 {
    match status {
        Status::LocalLength => 0x01,
        Status::LocalQueuePairOperation => 0x02,
        Status::LocalProtection => 0x04,
        Status::WorkRequestFlushed => 0x05,
        Status::MemoryWindowBind => 0x06,
        Status::BadResponse => 0x10,
        Status::LocalAccess => 0x11,
        Status::RemoteInvalidRequest => 0x12,
        Status::RemoteAccess => 0x13,
        Status::RemoteOperation => 0x14,
        Status::TransportRetryExceeded => 0x15,
        Status::ReceiverNotReadyRetryExceeded => 0x16,
        Status::RemoteAborted => 0x22,
        Status::Other(code) => code,
        other => panic!("a new status, which this does not know: {other}"),
    }
}

/// Whose the slots of a completion ring are.
pub(crate) struct Owner {
    len: usize,
    consumed: usize,
}

impl Owner {
    /// A ring of `len` slots of which none was consumed.
    pub(crate) fn new(len: usize) -> Self {
        Owner { len, consumed: 0 }
    }

    /// The slot that comes next.
    pub(crate) fn next(&self) -> usize {
        self.consumed % self.len
    }

    /// The owner bit of what comes next.
    pub(crate) fn pass(&self) -> u8 {
        (self.consumed / self.len % 2) as u8
    }

    /// Whether the next slot holds a completion.
    pub(crate) fn is_next(&self, slots: &[[u8; 64]]) -> bool {
        let last = slots[self.next()][63];
        last & 1 == self.pass() && last >> 4 != 15
    }

    /// The bytes of the next completion, if it has come.
    pub(crate) fn take(&mut self, slots: &[[u8; 64]]) -> Option<[u8; 64]> {
        let bytes = slots[self.next()];
        let is_next = self.is_next(slots);
        self.consumed += usize::from(is_next);
        is_next.then_some(bytes)
    }
}

/// A queue's posted entries.
pub(crate) struct Mirror {
    len: u32,
    /// The id that was posted last at each place.
    ids: Vec<u64>,
    /// The first slot of each entry, and the one after its last, counted from the ring's making on.
    entries: VecDeque<(u32, u32)>,
    freed: u32,
    posted: u32,
    /// What the last completion named.
    completed: u16,
    /// The entry that marks the end, and completes unseen.
    end: Option<u16>,
}

impl Mirror {
    /// A queue of `len` slots.
    pub(crate) fn new(len: u32) -> Self {
        let ids = vec![0; len.max(1) as usize];
        let entries = VecDeque::new();
        Mirror { len, ids, entries, freed: 0, posted: 0, completed: u16::MAX, end: None }
    }

    /// An entry of `slots` slots was posted.
    pub(crate) fn post(&mut self, slots: u32, id: u64) {
        let place = self.posted as usize % self.ids.len();
        self.ids[place] = id;
        self.entries.push_back((self.posted, self.posted + slots));
        self.posted += slots;
    }

    /// The entry that marks the end was posted, unless it was before.
    pub(crate) fn end(&mut self) {
        if self.end.is_none() {
            self.end = Some(self.posted as u16);
            self.post(1, 0);
        }
    }

    /// The completion of the entry that starts at slot `counter`, modulo 2^16. Answers its id.
    fn complete(&mut self, counter: u16) -> u64 {
        self.completed = counter;
        self.ids[usize::from(counter) % self.ids.len()]
    }

    /// Checks what a queue says of itself, looking at the last completion now.
    ///
    /// A completion frees its entry and those before. One that names no outstanding entry frees
    /// none, and one that names a slot inside of an entry frees anything but what was not posted.
    pub(crate) fn check(&mut self, room: u32, outstanding: u32) {
        assert!(room <= self.len, "{room} slots free in a ring of {}", self.len);
        assert_eq!(room + outstanding, self.len);
        let before = self.posted - self.freed;
        assert!(outstanding <= before, "{outstanding} slots outstanding, {before} were");
        let freed = self.posted - outstanding;
        let ahead = u32::from(self.completed.wrapping_sub(self.freed as u16));
        let at = self.freed + ahead;
        if ahead >= before {
            assert_eq!(freed, self.freed, "freed by what was not posted");
        } else if let Some((_, end)) = self.entries.iter().find(|entry| entry.0 == at) {
            assert_eq!(freed, *end);
        }
        self.freed = freed;
        self.entries.retain(|entry| entry.1 > freed);
    }
}

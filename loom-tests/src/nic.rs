//! A NIC made of threads: what the hardware does, in its order.
//!
//! - It takes the stores to a register in their order, then reads the doorbell record, then the
//!   entries that the record covers. It reads the record whenever it is at a queue pair, so that it
//!   may know of an entry before the register announces it.
//! - It writes a completion where the consumer record says that there is room, its owner byte last.
//! - An arm says which completions the engine knows. If there are others, the event is raised at
//!   once, else with the next completion. An arm with the number of an arm whose event was raised is
//!   a repetition, and is ignored.

use crate::bus::Store;
use crate::memory::{CompletionQueue, PIECES, QueuePair};
use crate::request;
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::{Completion, CompletionOpcode, OpcodeOwner, UserIndexWord};
use doorbell::mlx5::abi::doorbell::{
    ArmDoorbell, ArmWord, ConsumerWord, CounterWord, SendDoorbell,
};
use doorbell::mlx5::abi::uar::SEND_HALF_BYTES;
use doorbell::mlx5::abi::wqe::{
    CompletionMode, ControlSegment, DataSegment, SLOT_BYTES, SLOT_SEGMENTS,
};
use doorbell_hal::sync::Ordering;
use std::sync::Arc;

/// A send entry that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Its first slot, which the poster also put into its first 4 bytes.
    pub start: u16,
    /// Whether it is to be reported.
    pub signaled: bool,
}

/// The side of a NIC that carries out a queue pair's requests.
pub struct Sender {
    queue_pair: Arc<QueuePair>,
    stores: usize,
    /// The entry that is copied to the register.
    copied: u16,
    next: u16,
}

impl Sender {
    pub fn new(queue_pair: &Arc<QueuePair>) -> Self {
        let queue_pair = queue_pair.clone();
        Sender { queue_pair, stores: 0, copied: 0, next: 0 }
    }

    /// Starts over, as for a queue pair that was reset.
    pub fn reset(&mut self) {
        self.next = 0;
    }

    /// Looks at the register, then at the record, and fetches what is new.
    pub fn look(&mut self) -> Vec<Fetched> {
        let arrived = self.queue_pair.bus.arrived(self.stores);
        self.stores += arrived.len();
        let record = self.queue_pair.send_record.load(Ordering::Acquire);
        let known = CounterWord::from_memory(record).counter();
        for store in arrived {
            let announced = match store {
                Store::Word(_, word) => index(word),
                Store::Slot(at, slot) => {
                    // An entry is copied from the start of a half on.
                    let number = (at % SEND_HALF_BYTES / SLOT_BYTES) as u16;
                    if number == 0 {
                        self.copied = index(slot[0]);
                    }
                    self.copied.wrapping_add(number)
                }
            };
            let covered = known.wrapping_sub(announced) as i16 > 0;
            assert!(covered, "the record covers {known} slots, and {announced} was announced");
            if let Store::Slot(_, slot) = store {
                assert_eq!(slot[..], self.slot(announced), "the register got the slot's bytes");
            }
        }
        let mut fetched = Vec::new();
        while self.next != known {
            fetched.push(self.fetch());
        }
        fetched
    }

    fn fetch(&mut self) -> Fetched {
        let start = self.next;
        let control = ControlSegment::from_words(self.segment(start, 0));
        assert_eq!(control.opmod_idx_opcode.index(), start, "the entry is the slot's");
        let slots = usize::from(control.qpn_ds.segments()).div_ceil(SLOT_SEGMENTS) as u16;
        if control.qpn_ds.segments() > 1 {
            let [_header @ .., a, b, c, d] = self.segment(start, 1)[0].to_ne_bytes();
            assert_eq!([a, b, c, d], request::mark(start.into()), "the data is the entry's");
        }
        for slot in 1..slots {
            let data = self.segment(start.wrapping_add(slot), 0);
            assert_eq!(data, [request::DATA; 2], "the data is the entry's");
        }
        self.next = start.wrapping_add(slots);
        let signaled = control.fm_ce_se.completion() == CompletionMode::Always;
        Fetched { start, signaled }
    }

    fn slot(&self, slot: u16) -> Vec<u64> {
        (0..SLOT_SEGMENTS).flat_map(|segment| self.segment(slot, segment)).collect()
    }

    fn segment(&self, slot: u16, segment: usize) -> [u64; 2] {
        let segments = &self.queue_pair.send_segments;
        let index = (usize::from(slot) * SLOT_SEGMENTS + segment) % segments.len();
        // SAFETY: S1: the record covers the slot (and loom checks it).
        unsafe { segments[index].read() }
    }
}

/// The slot that a register's value names.
fn index(word: u64) -> u16 {
    SendDoorbell::from_memory(word).opmod_idx_opcode.index()
}

/// The side of a NIC that fills a queue pair's receives.
pub struct Receiver {
    queue_pair: Arc<QueuePair>,
    next: u16,
}

impl Receiver {
    pub fn new(queue_pair: &Arc<QueuePair>) -> Self {
        Receiver { queue_pair: queue_pair.clone(), next: 0 }
    }

    /// Looks at the record. The next receive, if there is one: its number and its pieces.
    pub fn look(&mut self) -> Option<(u16, Vec<DataSegment>)> {
        let record = self.queue_pair.receive_record.load(Ordering::Acquire);
        let (number, known) = (self.next, CounterWord::from_memory(record).counter());
        if number == known {
            return None;
        }
        self.next = number.wrapping_add(1);
        let segments = &self.queue_pair.receive_segments;
        let first = usize::from(number) * PIECES % segments.len();
        let pieces = segments[first..first + PIECES].iter().map(|segment| {
            // SAFETY: S1: the record covers the receive (and loom checks it).
            DataSegment::from_words(unsafe { segment.read() })
        });
        Some((number, pieces.take_while(|piece| !piece.is_terminator()).collect()))
    }
}

/// The side of a NIC that reports completions.
pub struct Reporter {
    queue: Arc<CompletionQueue>,
    /// Completions written so far.
    producer: u32,
    /// Those up to the last solicited one.
    solicited: u32,
    stores: usize,
    /// The arm that waits for a completion.
    armed: Option<ArmWord>,
    /// The number of the last arm whose event was raised.
    raised: Option<u8>,
}

/// What a completion says.
#[derive(Clone, Copy)]
pub struct Report {
    pub kind: CompletionOpcode,
    pub index: U24,
    /// The entry's first slot.
    pub counter: u16,
    /// The number of bytes.
    pub bytes: u32,
    pub solicited: bool,
}

impl Report {
    /// That the send entry at slot `counter` of queue pair `index` is done.
    pub fn sent(index: U24, counter: u16) -> Self {
        let kind = CompletionOpcode::Request;
        Report { kind, index, counter, bytes: 0, solicited: false }
    }

    /// That it failed.
    pub fn failed(index: U24, counter: u16) -> Self {
        Report { kind: CompletionOpcode::RequestError, ..Self::sent(index, counter) }
    }
}

impl Reporter {
    pub fn new(queue: &Arc<CompletionQueue>) -> Self {
        let queue = queue.clone();
        Reporter { queue, producer: 0, solicited: 0, stores: 0, armed: None, raised: None }
    }

    /// Writes a completion; false if there is no room.
    pub fn report(&mut self, report: Report) -> bool {
        let len = self.queue.slots.len() as u32;
        let record = self.queue.consumer_record.load(Ordering::Acquire);
        let consumed = ConsumerWord::from_memory(record).index().get();
        let used = U24::truncate(self.producer.wrapping_sub(consumed)).get();
        assert!(used <= len, "{consumed} completions are consumed of {}", self.producer);
        if used == len {
            return false;
        }
        let completion = Completion {
            srqn_uidx: UserIndexWord::new().with_user_index(report.index),
            byte_cnt: report.bytes.into(),
            imm_inval_pkey: report.bytes.into(),
            wqe_counter: report.counter.into(),
            op_own: OpcodeOwner::new()
                .with_owner(self.producer & len != 0)
                .with_solicited(report.solicited)
                .with_kind(report.kind),
            ..Completion::fresh()
        };
        // SAFETY: S1: the slot is consumed (and loom checks it).
        unsafe { self.queue.slots[(self.producer % len) as usize].write(completion) };
        self.producer += 1;
        if report.solicited {
            self.solicited = self.producer;
        }
        true
    }

    /// Takes the arms that have arrived. Whether an event is raised: by them, or by the completions
    /// since.
    pub fn event(&mut self) -> bool {
        let arrived = self.queue.bus.arrived(self.stores);
        let mut event = self.due();
        for store in arrived {
            self.stores += 1;
            let Store::Word(0, word) = store else { panic!("{store:?} arms nothing") };
            let arm = ArmDoorbell::from_memory(word).arm;
            let armed = arm.consumer().get();
            let record = self.queue.arm_record.load(Ordering::Acquire);
            let record = ArmWord::from_memory(record).consumer().get();
            assert!(record >= armed, "the record says {record}, and {armed} was armed");
            if self.raised != Some(arm.sequence().get()) {
                self.armed = Some(arm);
                event |= self.due();
            }
        }
        event
    }

    /// Whether what the armed event is for has come. It is raised, then, and disarmed.
    fn due(&mut self) -> bool {
        let Some(arm) = self.armed else { return false };
        let newest = if arm.solicited_only() { self.solicited } else { self.producer };
        let due = newest > arm.consumer().get();
        if due {
            self.raised = Some(arm.sequence().get());
            self.armed = None;
        }
        due
    }
}

//! Bytes in a BCM57608's completion ring, polled by the code that ships, while queue pairs post.
//!
//! What a poll must answer is worked out here without the driver's types: a completion names a queue
//! pair, says that requests up to a count are done or that the one at a slot has failed, or that the
//! oldest receive is filled; and what is outstanding of a queue pair that has failed is flushed, once
//! nothing waits in the ring.

use crate::input::Input;
use doorbell::bnxt::abi::cqe;
use doorbell::bnxt::abi::doorbell::QueueNumber;
use doorbell::bnxt::ring::completion::CompletionParts;
use doorbell::bnxt::ring::entry::Limits;
use doorbell::bnxt::ring::receive::ReceiveParts;
use doorbell::bnxt::ring::send::SendParts;
use doorbell::bnxt::ring::slot::CompletionSlot;
use doorbell::bnxt::ring::{
    CompletionRing, Failures, InFlight, LastToggle, Outstanding, ReceiveRing, SendRing,
};
use doorbell::completion::{Arrival, Completion, Queue, Status};
use doorbell::ring::Completions;
use doorbell::ring::segment::Segment;
use doorbell::ring::table::Table;
use doorbell::wr::{self, Inline, LocalSlice, Nothing, PostError, RemoteSlice};
use doorbell_hal::mmio::Register;
use doorbell_hal::sync::DmaCell;
use std::collections::VecDeque;
use std::ptr::NonNull;
use zerocopy::FromBytes;

/// A register that leads nowhere.
struct Nowhere;

impl Register for Nowhere {
    unsafe fn store(&self, _: usize, _: u64) {}

    unsafe fn copy(&self, _: usize, _: &[u64; 8]) {}
}

/// Calls of one run: more are of no use.
const CALLS: usize = 4096;
/// The completion queue's number, and that of another where a queue pair may complete, too.
const HERE: u32 = 5;
const ELSEWHERE: u32 = 6;
/// Slots of a send ring, entries of a receive ring.
const SLOTS: u32 = 256;
const RECEIVES: u32 = 8;
/// Pieces of a receive.
const PIECES: u32 = 3;
/// Pieces and inline bytes of a request.
const LIMITS: Limits = Limits { pieces: 6, inline: 96, max_message: 1 << 31 };

/// Fills completion slots with bytes, posts, and polls.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let mut world = World::new(&input);
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        world.call(&input);
    }
    world.drain();
}

/// A posted request, as the specification counts it.
struct Posted {
    id: u64,
    /// Its first slot, from the ring's making on.
    start: u32,
    signaled: bool,
}

/// What a queue pair has outstanding.
#[derive(Default)]
struct Mirror {
    sends: VecDeque<Posted>,
    receives: VecDeque<u64>,
    /// Of them, those that the NIC was told of.
    rung: usize,
    rung_receives: usize,
    /// The slot after the last that was posted, from the ring's making on.
    next_slot: u32,
    /// Requests and receives that completed, ever.
    sent: u32,
    received: u32,
}

/// A queue pair's rings, and what they hold.
struct Pair {
    // The rings are dropped before what they point to.
    sends: SendRing<Nowhere>,
    receives: ReceiveRing<Nowhere>,
    in_flight: Box<InFlight>,
    _segments: [Box<[Segment]>; 2],
    _messages: Box<[DmaCell<u64>]>,
    most: u32,
    most_receives: u32,
    mirror: Mirror,
    is_live: bool,
}

/// A completion, as far as it can be compared.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Sent { id: u64, pair: u32 },
    Received { id: u64, pair: u32, len: u32, by: Arrival },
    Failed { id: u64, pair: u32, queue: Queue, status: u8 },
    Unrecognized { pair: u32, opcode: u8 },
}

/// The status of an entry that was flushed, in requests and in receives.
const FLUSHED: [u8; 2] = [11, 7];

impl From<Completion> for Seen {
    fn from(completion: Completion) -> Self {
        match completion {
            Completion::Sent(sent) => Seen::Sent { id: sent.id, pair: sent.queue_pair.get() },
            Completion::Received(received) => {
                assert!(!received.solicited, "this family's completions do not say so");
                let (id, pair) = (received.id, received.queue_pair.get());
                Seen::Received { id, pair, len: received.len, by: received.by }
            }
            Completion::Failed(failed) => {
                assert!(!failed.to_string().is_empty());
                let (id, pair, queue) = (failed.id, failed.queue_pair.get(), failed.queue);
                Seen::Failed { id, pair, queue, status: code(failed.status, queue) }
            }
            Completion::Unrecognized(unrecognized) => {
                assert!(!unrecognized.to_string().is_empty());
                let (pair, opcode) = (unrecognized.queue_pair.get(), unrecognized.opcode);
                Seen::Unrecognized { pair, opcode }
            }
            other => panic!("a new kind of completion, which this does not know: {other:?}"),
        }
    }
}

/// The number of a status (`CQ_REQ_STATUS_*`, `CQ_RES_RC_STATUS_*`).
fn code(status: Status, queue: Queue) -> u8 {
    match (queue, status) {
        (_, Status::Other(code)) => code,
        (Queue::Send, Status::BadResponse) => 1,
        (Queue::Send, Status::LocalLength) => 2,
        (Queue::Send, Status::LocalQueuePairOperation) => 3,
        (Queue::Send, Status::LocalProtection) => 4,
        (Queue::Send, Status::MemoryWindowBind) => 5,
        (Queue::Send, Status::RemoteInvalidRequest) => 6,
        (Queue::Send, Status::RemoteAccess) => 7,
        (Queue::Send, Status::RemoteOperation) => 8,
        (Queue::Send, Status::ReceiverNotReadyRetryExceeded) => 9,
        (Queue::Send, Status::TransportRetryExceeded) => 10,
        (Queue::Send, Status::WorkRequestFlushed) => FLUSHED[0],
        (Queue::Receive, Status::LocalAccess) => 1,
        (Queue::Receive, Status::LocalLength) => 2,
        (Queue::Receive, Status::LocalProtection) => 3,
        (Queue::Receive, Status::LocalQueuePairOperation) => 4,
        (Queue::Receive, Status::MemoryWindowBind) => 5,
        (Queue::Receive, Status::RemoteInvalidRequest) => 6,
        (Queue::Receive, Status::WorkRequestFlushed) => FLUSHED[1],
        other => panic!("a status that this family does not have: {other:?}"),
    }
}

/// A completion's bytes, as the specification has them.
struct Bytes([u8; 32]);

impl Bytes {
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("4 bytes"))
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.0[at..at + 2].try_into().expect("2 bytes"))
    }

    fn kind(&self) -> u8 {
        self.0[24] >> 1 & 15
    }

    fn status(&self) -> u8 {
        self.0[25]
    }
}

struct World {
    ring: CompletionRing<Nowhere>,
    slots: Box<[CompletionSlot]>,
    /// The slots' bytes.
    bytes: Vec<[u8; 32]>,
    pairs: Vec<Pair>,
    table: Box<Table<InFlight>>,
    _failures: Box<Failures>,
    _toggle: Box<LastToggle>,
    consumed: usize,
    /// What completions have said and polls have not answered yet.
    expected: VecDeque<Seen>,
    /// Queue pairs that have failed, the first first.
    failed: Vec<u32>,
}

impl World {
    fn new(input: &Input) -> Self {
        let len = 2 << input.below(6);
        let slots: Box<[_]> = (0..len).map(|_| CompletionSlot::default()).collect();
        let table = Box::new(Table::new(1 << input.below(3)));
        let failures = Box::new(Failures::new());
        let toggle = Box::new(LastToggle::new());
        let pairs: Vec<Pair> =
            (0..table.len()).take(1 + input.below(3)).map(|_| Pair::new(input)).collect();
        for (index, pair) in (0u32..).zip(&pairs) {
            table.set(index, &*pair.in_flight);
        }
        let parts = CompletionParts {
            slots: NonNull::from(&*slots).cast(),
            len,
            table: NonNull::from(&*table),
            failures: NonNull::from(&*failures),
            toggle: NonNull::from(&*toggle),
            register: Nowhere,
            number: QueueNumber::new(HERE).expect("a small number"),
        };
        // SAFETY: Q1, R1: everything is in boxes that this holds longer than the ring; what the table
        // holds is kept until the end. No register is behind the mapping.
        let ring = unsafe { CompletionRing::new(parts) };
        let bytes = vec![[0; 32]; slots.len()];
        let (expected, failed) = (VecDeque::new(), Vec::new());
        World {
            ring,
            slots,
            bytes,
            pairs,
            table,
            _failures: failures,
            _toggle: toggle,
            consumed: 0,
            expected,
            failed,
        }
    }

    fn call(&mut self, input: &Input) {
        match input.byte() % 12 {
            0 | 1 => {
                let at = self.pair(input);
                self.pairs[at].send(input);
            }
            2 => {
                let at = self.pair(input);
                self.pairs[at].receive(input);
            }
            3 => {
                let at = self.pair(input);
                self.pairs[at].ring();
            }
            // Anything, anywhere.
            4 => {
                let at = input.below(self.slots.len());
                self.write(at, input.array());
            }
            // Anything, next.
            5 => {
                let mut bytes: [u8; 32] = input.array();
                bytes[24] = bytes[24] & !1 | u8::from(self.toggle());
                self.write(self.consumed % self.slots.len(), bytes);
            }
            // What a NIC would say, or nearly.
            6 | 7 => self.plausible(input),
            8 => {
                self.poll();
            }
            9 => {
                let at = self.pair(input) as u32;
                // It is gone: nothing of it comes any more.
                self.table.set(at, std::ptr::null());
                self.pairs[at as usize].is_live = false;
                // What is left of a completion is of one queue pair.
                let is_its = |seen: &Seen| matches!(seen, Seen::Sent { pair, .. } | Seen::Failed { pair, .. } if *pair == at);
                if self.expected.iter().all(is_its) {
                    self.expected.clear();
                }
            }
            10 => {
                let waits = !self.expected.is_empty() || self.next().is_some();
                assert!(!(waits && self.ring.is_empty()), "a ring is empty where something waits");
            }
            _ => self.drain(),
        }
        self.check_room();
    }

    fn pair(&mut self, input: &Input) -> usize {
        input.below(self.pairs.len())
    }

    fn toggle(&self) -> bool {
        (self.consumed / self.slots.len()).is_multiple_of(2)
    }

    fn write(&mut self, at: usize, bytes: [u8; 32]) {
        let completion = cqe::Completion::read_from_bytes(&bytes).expect("32 bytes");
        // SAFETY: S1: the ring is not polled meanwhile.
        unsafe { self.slots[at].write(completion) };
        self.bytes[at] = bytes;
    }

    fn plausible(&mut self, input: &Input) {
        let at = self.pair(input);
        let mirror = &self.pairs[at].mirror;
        let mut bytes = [0; 32];
        let (kind, status) = (input.byte() % 4, input.byte());
        let status = if status < 0xc0 { 0 } else { status % 16 };
        let count = input.below(4) as u32;
        match kind {
            0 | 1 => {
                bytes[..8].copy_from_slice(&(at as u64).to_le_bytes());
                let index = match (status, mirror.sends.get(count as usize)) {
                    (0, _) | (_, None) => mirror.sent.wrapping_add(count),
                    (_, Some(failed)) => failed.start % SLOTS,
                };
                bytes[8..10].copy_from_slice(&(index as u16).to_le_bytes());
            }
            2 => {
                bytes[..8].copy_from_slice(&input.array::<8>());
                bytes[8..16].copy_from_slice(&(at as u64).to_le_bytes());
                bytes[26] = input.byte();
                let oldest = mirror.received.wrapping_add(count / 3) % RECEIVES;
                bytes[28..].copy_from_slice(&oldest.to_le_bytes());
            }
            _ => bytes[..8].copy_from_slice(&(at as u64).to_le_bytes()),
        }
        bytes[24] = [0, 0, 2, 28][usize::from(kind)] | u8::from(self.toggle());
        bytes[25] = status;
        self.write(self.consumed % self.slots.len(), bytes);
    }

    /// The next completion, if it has come.
    fn next(&self) -> Option<Bytes> {
        let bytes = self.bytes[self.consumed % self.slots.len()];
        (bytes[24] & 1 == u8::from(self.toggle())).then_some(Bytes(bytes))
    }

    /// What the next completion says, if it says something.
    fn read(&mut self, bytes: &Bytes) {
        let (kind, status) = (bytes.kind(), bytes.status());
        let place = bytes.word(if kind == 1 { 8 } else { 0 }) & (self.table.len() - 1);
        if !matches!(kind, 0 | 1 | 14) {
            return self.expected.push_back(Seen::Unrecognized { pair: place, opcode: kind });
        }
        let Some(pair) = self.pairs.get_mut(place as usize).filter(|pair| pair.is_live) else {
            return;
        };
        let mirror = &mut pair.mirror;
        let unrecognized = Seen::Unrecognized { pair: place, opcode: kind };
        let mut failed = kind == 14;
        match kind {
            0 => {
                let index = u32::from(bytes.half(8));
                let done = match status {
                    0 => index.wrapping_sub(mirror.sent) % SLOTS,
                    _ => {
                        let starts = |sent: &Posted| sent.start % SLOTS == index % SLOTS;
                        let known = mirror.sends.iter().take(mirror.rung).position(starts);
                        1 + known.unwrap_or(0) as u32
                    }
                };
                if done as usize > mirror.rung {
                    return self.expected.push_back(unrecognized);
                }
                for number in 1..=done {
                    let sent = mirror.take_sent().expect("it was rung");
                    if number == done && status != 0 {
                        let (id, queue) = (sent.id, Queue::Send);
                        self.expected.push_back(Seen::Failed { id, pair: place, queue, status });
                        failed = true;
                    } else if sent.signaled {
                        self.expected.push_back(Seen::Sent { id: sent.id, pair: place });
                    }
                }
            }
            1 if status == 8 => failed = true,
            1 => {
                let is_oldest = (bytes.word(28) ^ mirror.received).is_multiple_of(RECEIVES);
                if !is_oldest || mirror.rung_receives == 0 {
                    return self.expected.push_back(unrecognized);
                }
                let id = mirror.take_received().expect("it was rung");
                let (len, immediate, flags) = (bytes.word(0), bytes.word(4), bytes.half(26));
                if status != 0 {
                    let queue = Queue::Receive;
                    self.expected.push_back(Seen::Failed { id, pair: place, queue, status });
                    failed = true;
                } else {
                    let by = match (flags & 8 != 0, flags & 2 != 0, flags & 4 != 0) {
                        (true, ..) => Arrival::WriteImmediate(immediate),
                        (_, true, _) => Arrival::SendImmediate(immediate),
                        (.., true) => Arrival::SendInvalidate(immediate),
                        _ => Arrival::Send,
                    };
                    self.expected.push_back(Seen::Received { id, pair: place, len, by });
                }
            }
            _ => {}
        }
        if failed && !self.failed.contains(&place) {
            self.failed.push(place);
        }
    }

    /// What is flushed next, of queue pairs that have failed.
    fn flush(&mut self) -> Option<Seen> {
        for &place in &self.failed {
            let Some(pair) = self.pairs.get_mut(place as usize).filter(|pair| pair.is_live) else {
                continue;
            };
            let here = [pair.in_flight.send_ring, pair.in_flight.receive_ring].map(|r| r == HERE);
            let mirror = &mut pair.mirror;
            if here[0] && mirror.rung > 0 {
                let id = mirror.take_sent().expect("it was rung").id;
                let (queue, status) = (Queue::Send, FLUSHED[0]);
                return Some(Seen::Failed { id, pair: place, queue, status });
            }
            if here[1] && mirror.rung_receives > 0 {
                let id = mirror.take_received().expect("it was rung");
                let (queue, status) = (Queue::Receive, FLUSHED[1]);
                return Some(Seen::Failed { id, pair: place, queue, status });
            }
        }
        None
    }

    fn poll(&mut self) -> bool {
        let completion = self.ring.poll().map(Seen::from);
        while self.expected.is_empty() {
            let Some(bytes) = self.next() else { break };
            self.consumed += 1;
            self.read(&bytes);
        }
        let expected = self.expected.pop_front().or_else(|| self.flush());
        assert_eq!(completion, expected);
        completion.is_some()
    }

    /// Polls until there is nothing: every slot comes once at most, and every entry.
    fn drain(&mut self) {
        let entries = self.pairs.iter().map(|pair| pair.mirror.sends.len() + RECEIVES as usize);
        let most = self.slots.len() + entries.sum::<usize>() + self.expected.len();
        for _ in 0..=most {
            if !self.poll() {
                return;
            }
        }
        panic!("there were more than {most} completions");
    }

    fn check_room(&mut self) {
        for pair in &mut self.pairs {
            pair.check_room();
        }
    }
}

impl Mirror {
    fn take_sent(&mut self) -> Option<Posted> {
        self.rung = self.rung.checked_sub(1)?;
        self.sent = self.sent.wrapping_add(1);
        self.sends.pop_front()
    }

    fn take_received(&mut self) -> Option<u64> {
        self.rung_receives = self.rung_receives.checked_sub(1)?;
        self.received = self.received.wrapping_add(1);
        self.receives.pop_front()
    }
}

impl Pair {
    fn new(input: &Input) -> Self {
        let most = 1 + u32::from(input.byte()) % 85;
        let most_receives = input.below(RECEIVES as usize) as u32;
        let ring = |input: &Input| if input.below(4) == 0 { ELSEWHERE } else { HERE };
        let in_flight = Box::new(InFlight {
            send: Outstanding::new(SLOTS / 2),
            receive: Outstanding::new(RECEIVES),
            send_mask: SLOTS - 1,
            send_ring: ring(input),
            receive_ring: ring(input),
        });
        let segments = [SLOTS, RECEIVES * (2 + PIECES)]
            .map(|count| (0..count).map(|_| Segment::default()).collect::<Box<[Segment]>>());
        let messages: Box<[_]> = (0..SLOTS / 2).map(|_| DmaCell::new(0)).collect();
        let [slots, entries] =
            segments.each_ref().map(|segments| NonNull::from(&**segments).cast());
        let number = QueueNumber::new(9).expect("a small number");
        let send = SendParts {
            slots,
            len: SLOTS,
            messages: NonNull::from(&*messages).cast(),
            most,
            limits: LIMITS,
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.send),
            register: Nowhere,
        };
        let receive = ReceiveParts {
            slots: entries,
            len: RECEIVES,
            most: most_receives,
            pieces: PIECES,
            max_message: LIMITS.max_message,
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.receive),
            register: Nowhere,
        };
        // SAFETY: Q1, R1: everything is in boxes that the pair holds until its rings are gone; no
        // register is behind the mapping.
        let (mut sends, receives) = unsafe { (SendRing::new(send), ReceiveRing::new(receive)) };
        sends.connect(input.word(), u32::from(input.byte()));
        Pair {
            sends,
            receives,
            in_flight,
            _segments: segments,
            _messages: messages,
            most,
            most_receives,
            mirror: Mirror::default(),
            is_live: true,
        }
    }

    fn check_room(&mut self) {
        // Entries are free from the poll on that reported the last of their completion, so the ring
        // may hold more than the mirror.
        let held = self.sends.outstanding();
        assert!(held as usize >= self.mirror.sends.len() && held <= self.most);
        assert!(self.sends.room() <= self.most - held);
        let held = self.receives.outstanding();
        assert_eq!(held as usize, self.mirror.receives.len());
        assert_eq!(self.receives.room(), self.most_receives - held);
    }

    /// Posts a request of some kind, and expects of it the slots that the specification gives it.
    fn send(&mut self, input: &Input) {
        let id = input.double();
        let remote = RemoteSlice::new(0x8000, u64::MAX, 3);
        let len = input.byte() % 128;
        let bytes = input.bytes(len.into());
        let pieces: Vec<LocalSlice> = bytes.iter().take(8).map(|&byte| piece(byte)).collect();
        let inline = bytes.len().div_ceil(16);
        let ring = &mut self.sends;
        let (slots, signaled, posted) = match input.byte() % 6 {
            0 => {
                let request = wr::write(Inline(bytes), remote).expect("it fits").id(id);
                (2 + inline, true, ring.post(request.signaled()))
            }
            1 => (2 + inline, false, ring.post(wr::send(Inline(bytes)).id(id))),
            2 => {
                let request = wr::write_immediate(&pieces[..], remote, 9).expect("it fits").id(id);
                (2 + pieces.len(), false, ring.post(request.solicited()))
            }
            3 => (2 + pieces.len(), true, ring.post(wr::send(&pieces[..]).id(id).signaled())),
            4 => {
                let eight = RemoteSlice::new(0x8000, 8, 3);
                let request = wr::fetch_add(piece(8), eight, 5).expect("8 bytes").id(id);
                (3, true, ring.post(request.signaled().fenced()))
            }
            _ => {
                let request = wr::read(Nothing, remote).expect("it fits").id(id);
                (2, true, ring.post(request.signaled()))
            }
        };
        match posted {
            Ok(()) => {
                let start = self.mirror.next_slot;
                self.mirror.next_slot += slots as u32;
                self.mirror.sends.push_back(Posted { id, start, signaled });
            }
            Err(PostError::Full) => {}
            Err(PostError::TooManyPieces { given, most }) => assert!(given > most),
            Err(PostError::InlineTooLong { given, most }) => assert!(given > most),
            Err(error) => panic!("{error}"),
        }
    }

    fn receive(&mut self, input: &Input) {
        let id = input.double();
        let len = input.below(6);
        let pieces: Vec<LocalSlice> = input.bytes(len).iter().map(|&byte| piece(byte)).collect();
        match self.receives.post(wr::receive(&pieces[..]).id(id)) {
            Ok(()) => self.mirror.receives.push_back(id),
            Err(PostError::Full) => assert_eq!(self.receives.room(), 0),
            Err(error) => assert!(pieces.len() > PIECES as usize, "{error}"),
        }
    }

    fn ring(&mut self) {
        self.sends.ring();
        self.receives.ring();
        (self.mirror.rung, self.mirror.rung_receives) =
            (self.mirror.sends.len(), self.mirror.receives.len());
    }
}

/// Local memory that nothing reaches.
fn piece(len: u8) -> LocalSlice {
    // SAFETY: M2: there is no NIC.
    unsafe { LocalSlice::from_parts(0x1_0000, len.into(), 1) }
}

//! A NIC made of threads: what the hardware does, in its order.
//!
//! - It knows of entries by the register alone: the last store says how far they go, in slots or in
//!   receives, with the pass over the ring. It reads an entry of the table of messages with each
//!   request.
//! - It writes a completion where the register of the completion queue says that there is room, the byte
//!   with its toggle last.

use super::memory::{CompletionQueue, INDEX, QueuePair, SLOTS, piece};
use crate::bus::{Bus, Store};
use doorbell::bnxt::abi::cqe::{
    Completion, CompletionKind, KindToggle, ReceiveCompletion, RequestCompletion,
};
use doorbell::bnxt::abi::doorbell::{DoorbellFields, DoorbellKind};
use doorbell::bnxt::abi::wqe::MessageSearch;
use doorbell::ring::segment::Segment;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// What the stores to one register have said.
struct Told {
    bus: Arc<Bus>,
    kind: DoorbellKind,
    stores: usize,
    /// How far, in places of two passes.
    place: u32,
}

impl Told {
    fn new(bus: &Arc<Bus>, kind: DoorbellKind) -> Self {
        Told { bus: bus.clone(), kind, stores: 0, place: 0 }
    }

    /// The place in a ring of `len` that the last store which has arrived says, in two passes.
    fn look(&mut self, len: usize) -> u32 {
        for store in self.bus.arrived(self.stores) {
            self.stores += 1;
            let Store::Word(0, word) = store else { panic!("{store:?} is no doorbell") };
            let doorbell = DoorbellFields::from_bits(u64::from_le(word));
            assert!(doorbell.valid() && doorbell.toggle() == 0, "{doorbell:?}");
            if doorbell.kind() == self.kind.code() {
                assert!((doorbell.index() as usize) < len, "{doorbell:?}");
                self.place = doorbell.index() + u32::from(doorbell.epoch()) * len as u32;
            }
        }
        self.place
    }
}

/// The side of a NIC that carries out a queue pair's requests.
pub struct Sender {
    queue_pair: Arc<QueuePair>,
    told: Told,
    /// Requests fetched, all of them of one piece.
    pub fetched: u32,
}

/// The first two segments of an entry are its header, and the third its piece.
fn check_piece(segment: &Segment, number: u32) {
    let piece = piece(number);
    // SAFETY: S1: the register announced the entry (and loom checks it).
    let [address, rest] = unsafe { segment.read() };
    let expected = u64::from(piece.lkey()) | u64::from(piece.len()) << 32;
    assert_eq!([address, rest], [piece.address().to_le(), expected.to_le()], "the piece");
}

impl Sender {
    pub fn new(queue_pair: &Arc<QueuePair>) -> Self {
        let told = Told::new(&queue_pair.bus, DoorbellKind::Send);
        Sender { queue_pair: queue_pair.clone(), told, fetched: 0 }
    }

    /// Looks at the register, and fetches what is new: how many requests.
    pub fn look(&mut self) -> u32 {
        let len = self.queue_pair.send_slots.len();
        let place = self.told.look(len);
        let before = self.fetched;
        while self.fetched * SLOTS as u32 % (2 * len as u32) != place {
            self.fetch();
        }
        self.fetched - before
    }

    fn fetch(&mut self) {
        let (slots, messages) = (&self.queue_pair.send_slots, &self.queue_pair.messages);
        let number = self.fetched;
        let start = number as usize * SLOTS % slots.len();
        // SAFETY: S1: the register announced the entry (and loom checks it).
        let [first, second] = unsafe { slots[start].read() };
        assert_eq!(first.to_le_bytes()[2] as usize, SLOTS, "the entry is a request's");
        assert_eq!(u64::from_le(second), u64::from(piece(number).len()), "the message's length");
        // SAFETY: S1: as above.
        assert_eq!(unsafe { slots[(start + 1) % slots.len()].read() }, [0, 0]);
        check_piece(&slots[(start + 2) % slots.len()], number);
        // SAFETY: S1: as above.
        let word = unsafe { messages[number as usize % messages.len()].read() };
        let message = MessageSearch::read_from_bytes(word.as_bytes()).unwrap();
        let found = (usize::from(message.start_idx()), message.start_psn(), message.next_psn());
        assert_eq!(found, (start, number, number + 1), "the message is the request's");
        self.fetched += 1;
    }
}

/// The side of a NIC that fills a queue pair's receives.
pub struct Receiver {
    queue_pair: Arc<QueuePair>,
    told: Told,
    pub filled: u32,
}

impl Receiver {
    pub fn new(queue_pair: &Arc<QueuePair>) -> Self {
        let told = Told::new(&queue_pair.bus, DoorbellKind::Receive);
        Receiver { queue_pair: queue_pair.clone(), told, filled: 0 }
    }

    /// Looks at the register. The next receive, if there is one: its number.
    pub fn look(&mut self) -> Option<u32> {
        let slots = &self.queue_pair.receive_slots;
        let len = slots.len() / SLOTS;
        let place = self.told.look(len);
        let number = self.filled;
        if number % (2 * len as u32) == place {
            return None;
        }
        let index = number as usize % len;
        // SAFETY: S1: the register announced the receive (and loom checks it).
        let [first, second] = unsafe { slots[index * SLOTS].read() };
        assert_eq!(first.to_le_bytes()[2] as usize, SLOTS, "the entry is a receive's");
        assert_eq!(u64::from_le(second) as usize, index, "the receive is the entry's");
        check_piece(&slots[index * SLOTS + 2], number);
        self.filled += 1;
        Some(number)
    }
}

/// The side of a NIC that reports completions.
pub struct Reporter {
    queue: Arc<CompletionQueue>,
    stores: usize,
    /// Completions consumed, in two passes.
    consumed: u32,
    /// Completions written so far.
    producer: u32,
    /// The toggle of the last notification.
    toggle: u8,
    armed: bool,
}

impl Reporter {
    pub fn new(queue: &Arc<CompletionQueue>) -> Self {
        let queue = queue.clone();
        Reporter { queue, stores: 0, consumed: 0, producer: 0, toggle: 0, armed: false }
    }

    /// Completions that were not consumed, if those before place `consumed` were.
    fn unread_after(&self, consumed: u32) -> u32 {
        self.producer.wrapping_sub(consumed) % (2 * self.queue.slots.len() as u32)
    }

    /// Takes the stores that have arrived. Arms of before the last notification, and for a place where
    /// the ring cannot be, arm nothing.
    fn look(&mut self) {
        let len = self.queue.slots.len() as u32;
        for store in self.queue.bus.arrived(self.stores) {
            self.stores += 1;
            let Store::Word(0, word) = store else { panic!("{store:?} is no doorbell") };
            let doorbell = DoorbellFields::from_bits(u64::from_le(word));
            assert!(doorbell.valid() && doorbell.index() < len, "{doorbell:?}");
            let consumed = doorbell.index() + u32::from(doorbell.epoch()) * len;
            let arms = doorbell.kind() == DoorbellKind::CompletionArm.code();
            if self.unread_after(consumed) > len {
                assert!(arms, "{consumed} completions are consumed of {}", self.producer);
                continue;
            }
            self.consumed = consumed;
            self.armed |= arms && doorbell.toggle() == self.toggle;
        }
    }

    /// Takes the stores that have arrived. The toggle of the notification that is due, if one is.
    pub fn notification(&mut self) -> Option<u8> {
        self.look();
        if !self.armed || self.unread_after(self.consumed) == 0 {
            return None;
        }
        self.armed = false;
        self.toggle = (self.toggle + 1) & 3;
        Some(self.toggle)
    }

    fn write(&mut self, bytes: [u8; 32], kind: CompletionKind) -> bool {
        let len = self.queue.slots.len() as u32;
        self.look();
        if self.unread_after(self.consumed) == len {
            return false;
        }
        let mut completion = Completion::read_from_bytes(&bytes).unwrap();
        completion.cqe_type_toggle = KindToggle::of(kind, self.producer & len == 0);
        // SAFETY: S1: the slot is consumed (and loom checks it).
        unsafe { self.queue.slots[(self.producer % len) as usize].write(completion) };
        self.producer += 1;
        true
    }

    /// Reports that `done` requests are done, in all; or that the one that starts at slot `done` has
    /// failed. False if there is no room.
    pub fn sent(&mut self, done: u32, status: u8) -> bool {
        let completion = RequestCompletion {
            qp_handle: u64::from(INDEX).into(),
            sq_cons_idx: (done as u16).into(),
            status,
            ..RequestCompletion::new_zeroed()
        };
        self.write(zerocopy::transmute!(completion), CompletionKind::Request)
    }

    /// Reports that receive `number` is filled, with so many bytes. False if there is no room.
    pub fn filled(&mut self, number: u32, bytes: u32) -> bool {
        let completion = ReceiveCompletion {
            length: bytes.into(),
            qp_handle: u64::from(INDEX).into(),
            srq_or_rq_wr_id: number.into(),
            ..ReceiveCompletion::new_zeroed()
        };
        self.write(zerocopy::transmute!(completion), CompletionKind::Receive)
    }
}

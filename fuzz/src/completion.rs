//! Bytes in a completion ring, polled by the code that ships, while queue pairs post.

use crate::input::Input;
use crate::reference::{Mirror, Owner, Seen};
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe;
use doorbell::mlx5::abi::wqe::{MAX_SEGMENTS, SLOT_SEGMENTS};
use doorbell::mlx5::ring::completion::CompletionParts;
use doorbell::mlx5::ring::entry::{LEAST_SLOTS, Limits};
use doorbell::mlx5::ring::receive::ReceiveParts;
use doorbell::mlx5::ring::segment::{CompletionSlot, Segment};
use doorbell::mlx5::ring::send::SendParts;
use doorbell::mlx5::ring::table::Table;
use doorbell::mlx5::ring::{
    CompletionRing, EventCount, InFlight, Outstanding, ReceiveRing, SendRing,
};
use doorbell::wr::{self, Inline, LocalSlice, Nothing, PostError};
use doorbell_hal::mmio::{Register, Uncached, WriteCombining};
use doorbell_hal::sync::AtomicU32;
use std::ptr::NonNull;
use zerocopy::FromBytes;

/// A register that leads nowhere.
struct Nowhere;

impl Register for Nowhere {
    unsafe fn store(&self, _: usize, _: u64) {}

    unsafe fn copy(&self, _: usize, _: &[u64; 8]) {}
}

/// The least that a queue takes, in bytes of a message.
const MAX_MESSAGE: u64 = 1 << 30;
/// Calls of one run: more are of no use.
const CALLS: usize = 4096;

/// Fills completion slots with bytes, posts, and polls. What a poll answers must be what the
/// specification says of the bytes, and no queue may ever have more room than slots.
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
    world.check_room();
}

/// A queue pair's rings, and what they hold.
struct Pair {
    // The rings are dropped before what they point to.
    sends: Sends,
    receives: ReceiveRing,
    in_flight: Box<InFlight>,
    _segments: [Box<[Segment]>; 2],
    _records: Box<[AtomicU32; 2]>,
    limits: Limits,
    pieces: usize,
    sent: Mirror,
    received: Mirror,
    is_live: bool,
}

/// A send ring, in either mapping of its register.
enum Sends {
    Plain(SendRing<Nowhere, Uncached>),
    Combining(SendRing<Nowhere, WriteCombining>),
}

/// Calls a method of a send ring, whichever it is.
macro_rules! either {
    ($sends:expr, $ring:ident => $call:expr) => {
        match $sends {
            Sends::Plain($ring) => $call,
            Sends::Combining($ring) => $call,
        }
    };
}

struct World {
    ring: CompletionRing<Nowhere>,
    slots: Box<[CompletionSlot]>,
    /// The slots' bytes.
    bytes: Vec<[u8; 64]>,
    pairs: Vec<Pair>,
    table: Box<Table>,
    /// Which slot comes next, and in which pass.
    owner: Owner,
    _words: Box<[AtomicU32; 2]>,
    _events: Box<EventCount>,
}

impl World {
    fn new(input: &Input) -> Self {
        let slots: Box<[_]> = (0..1 << input.below(6)).map(|_| CompletionSlot::fresh()).collect();
        let words = Box::new([0; 2].map(AtomicU32::new));
        let events = Box::new(EventCount::new());
        let table = Box::new(Table::new(1 << input.below(4)));
        let pairs: Vec<Pair> =
            (0..table.len().min(1 + input.below(4) as u32)).map(|_| Pair::new(input)).collect();
        for (index, pair) in (0..).zip(&pairs) {
            table.set(U24::truncate(index), &*pair.in_flight);
        }
        let [consumer_record, arm_record] = words.each_ref().map(NonNull::from);
        let parts = CompletionParts {
            slots: NonNull::from(&*slots).cast(),
            len: slots.len() as u32,
            consumer_record,
            arm_record,
            table: NonNull::from(&*table),
            events: NonNull::from(&*events),
            arm_register: Nowhere,
            number: U24::truncate(1),
        };
        // SAFETY: Q1: everything is in boxes that the world holds until the ring is gone, as are the
        // queue pairs that the table ever held.
        let ring = unsafe { CompletionRing::new(parts) };
        let bytes = vec![fresh(); slots.len()];
        let owner = Owner::new(slots.len());
        World { ring, slots, bytes, pairs, table, owner, _words: words, _events: events }
    }

    fn call(&mut self, input: &Input) {
        match input.byte() % 11 {
            0 => self.write(input.below(self.slots.len()), input.array()),
            1 => {
                // What comes next, of a queue pair that there may be.
                let mut bytes = input.array::<64>();
                bytes[63] = bytes[63] & 0xfe | self.owner.pass();
                let index = bytes[35] & 0xf;
                bytes[33..36].copy_from_slice(&[0, 0, index]);
                self.write(self.owner.next(), bytes);
            }
            2 | 3 => {
                self.poll();
            }
            4 => self.pair(input).send(input),
            5 => self.pair(input).receive(input),
            6 => {
                let at = input.below(self.pairs.len());
                let pair = &mut self.pairs[at];
                pair.is_live = !pair.is_live;
                let place = if pair.is_live { &*pair.in_flight } else { std::ptr::null() };
                self.table.set(U24::truncate(at as u32), place);
            }
            7 => self.ring.arm(input.flag()),
            8 => {
                assert_eq!(self.ring.is_empty(), !self.owner.is_next(&self.bytes));
                self.check_room();
            }
            9 => self.pair(input).fail(),
            _ => self.drain(),
        }
    }

    fn pair(&mut self, input: &Input) -> &mut Pair {
        let at = input.below(self.pairs.len());
        &mut self.pairs[at]
    }

    /// The NIC writes a slot, whoever's it is.
    fn write(&mut self, at: usize, bytes: [u8; 64]) {
        let completion = cqe::Completion::read_from_bytes(&bytes).expect("64 bytes");
        // SAFETY: S1: the ring is not polled meanwhile.
        unsafe { self.slots[at].write(completion) };
        self.bytes[at] = bytes;
    }

    fn poll(&mut self) -> bool {
        let completion = self.ring.poll();
        let expected = loop {
            let Some(bytes) = self.owner.take(&self.bytes) else { break None };
            let index = u32::from_be_bytes([0, bytes[33], bytes[34], bytes[35]]);
            // Only the table's bits count.
            let place = index & (self.table.len() - 1);
            let Some(pair) = self.pairs.get_mut(place as usize) else { continue };
            if pair.is_live
                && let seen @ Some(_) = Seen::of(&bytes, place, &mut pair.sent, &mut pair.received)
            {
                break seen;
            }
        };
        assert_eq!(completion.map(Seen::from), expected);
        completion.is_some()
    }

    /// Polls until there is nothing. Every slot comes once at most.
    fn drain(&mut self) {
        for _ in 0..self.slots.len() {
            if !self.poll() {
                return;
            }
        }
        assert!(!self.poll(), "a ring of {} slots held more completions", self.slots.len());
    }

    fn check_room(&mut self) {
        for pair in &mut self.pairs {
            pair.check_room();
        }
    }
}

impl Pair {
    fn new(input: &Input) -> Self {
        let len = |choice: usize| if choice == 0 { 0 } else { 1 << (choice - 1) };
        let (sends, receives) = (len(input.below(4)) * LEAST_SLOTS, len(input.below(6)));
        let pieces = 1 << input.below(3);
        let in_flight = Box::new(InFlight {
            send: Outstanding::new(sends as u32),
            receive: Outstanding::new(receives as u32),
        });
        let segments = [sends * SLOT_SEGMENTS, receives * pieces]
            .map(|count| (0..count).map(|_| Segment::default()).collect::<Box<[Segment]>>());
        let records = Box::new([0; 2].map(AtomicU32::new));
        let [send_segments, receive_segments] =
            segments.each_ref().map(|segments| NonNull::from(&**segments).cast());
        let [send_record, receive_record] = records.each_ref().map(NonNull::from);
        let least = LEAST_SLOTS * SLOT_SEGMENTS;
        let most = (sends * SLOT_SEGMENTS).clamp(least, MAX_SEGMENTS);
        let limits =
            Limits { segments: least + input.below(most - least + 1), max_message: MAX_MESSAGE };
        // SAFETY: Q1, R1: everything is in boxes that the pair holds until its rings are gone; no
        // register is behind either mapping.
        let (sending, receiving) = unsafe {
            let parts = SendParts {
                segments: send_segments,
                len: sends as u32,
                limits,
                queue_pair: U24::truncate(7),
                outstanding: NonNull::from(&in_flight.send),
                record: send_record,
                register: Nowhere,
            };
            let sending = match input.flag() {
                false => Sends::Plain(SendRing::new(parts)),
                true => Sends::Combining(SendRing::new(parts)),
            };
            let receiving = ReceiveRing::new(ReceiveParts {
                segments: receive_segments,
                len: receives as u32,
                pieces: pieces as u32,
                max_message: MAX_MESSAGE,
                outstanding: NonNull::from(&in_flight.receive),
                record: receive_record,
            });
            (sending, receiving)
        };
        Pair {
            sends: sending,
            receives: receiving,
            in_flight,
            _segments: segments,
            _records: records,
            limits,
            pieces,
            sent: Mirror::new(sends as u32),
            received: Mirror::new(receives as u32),
            is_live: true,
        }
    }

    fn check_room(&mut self) {
        let (room, outstanding) =
            either!(&mut self.sends, ring => (ring.room(), ring.outstanding()));
        self.sent.check(room, outstanding);
        self.received.check(self.receives.room(), self.receives.outstanding());
    }

    /// Posts a request of some kind, and expects of it the slots that the specification gives it.
    fn send(&mut self, input: &Input) {
        let id = input.double();
        let remote = wr::RemoteSlice::new(0x8000, u64::MAX, 3);
        let len = input.byte();
        let bytes = input.bytes(len.into());
        let pieces: Vec<LocalSlice> = bytes.iter().map(|&byte| piece(byte)).collect();
        let data_segments = |bytes: &[u8]| match bytes.len() {
            0 => 0,
            len => (4 + len).div_ceil(16),
        };
        let nonempty = pieces.iter().filter(|piece| piece.len() > 0).count();
        let (segments, posted) = either!(&mut self.sends, ring => match input.byte() % 6 {
            0 => {
                let request = wr::write(Inline(bytes), remote).expect("it fits").id(id);
                (2 + data_segments(bytes), ring.post(request.signaled()))
            }
            1 => (1 + data_segments(bytes), ring.post(wr::send(Inline(bytes)).id(id))),
            2 => {
                let request = wr::write_immediate(&pieces[..], remote, 9).expect("it fits").id(id);
                (2 + nonempty, ring.post(request.solicited()))
            }
            3 => (1 + nonempty, ring.post(wr::send(&pieces[..]).id(id).signaled())),
            4 => {
                let eight = wr::RemoteSlice::new(0x8000, 8, 3);
                let request = wr::fetch_add(piece(8), eight, 5).expect("8 bytes").id(id);
                (4, ring.post(request.signaled().fenced()))
            }
            _ => (2, ring.post(wr::read(Nothing, remote).expect("it fits").id(id).signaled())),
        });
        let slots = segments.div_ceil(SLOT_SEGMENTS) as u32;
        match posted {
            Ok(()) => {
                assert!(segments <= self.limits.segments);
                self.sent.post(slots, id);
            }
            Err(PostError::Full) => {
                assert!(either!(&mut self.sends, ring => ring.room()) < slots, "it was not full");
            }
            Err(PostError::TooManyPieces { given, most }) => assert!(given > most),
            Err(PostError::InlineTooLong { given, most }) => {
                assert!(given > most && segments > self.limits.segments);
            }
            Err(error) => panic!("{error}"),
        }
        if input.flag() {
            either!(&mut self.sends, ring => ring.ring());
        }
        self.check_room();
    }

    /// The queue pair was taken down: the entry that marks its end is posted, once.
    fn fail(&mut self) {
        self.check_room();
        let (room, outstanding) =
            either!(&mut self.sends, ring => (ring.room(), ring.outstanding()));
        either!(&mut self.sends, ring => ring.mark_end());
        if room > 0 && outstanding > 0 {
            self.sent.end();
        }
        self.check_room();
    }

    fn receive(&mut self, input: &Input) {
        let id = input.double();
        let len = input.below(8);
        let pieces: Vec<LocalSlice> = input.bytes(len).iter().map(|&byte| piece(byte)).collect();
        match self.receives.post(wr::receive(&pieces[..]).id(id)) {
            Ok(()) => self.received.post(1, id),
            Err(PostError::Full) => assert_eq!(self.receives.room(), 0),
            Err(error) => assert!(pieces.len() > self.pieces, "{error}"),
        }
        self.receives.ring();
        self.check_room();
    }
}

/// Local memory that nothing reaches.
fn piece(len: u8) -> LocalSlice {
    // SAFETY: M2: there is no NIC.
    unsafe { LocalSlice::from_parts(0x1_0000, len.into(), 1) }
}

/// The bytes of a fresh slot.
fn fresh() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[63] = 0xf1;
    bytes
}

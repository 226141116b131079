//! One side of a connection: an engine's objects, and what the oracle knows of them.

use crate::input::Input;
use doorbell::completion::{Arrival, Completion, Queue, QueuePairIndex, Status};
use doorbell::endpoint::{Endpoint, Mtu};
use doorbell::mlx5::ring::entry;
use doorbell::mlx5::{
    CompletionQueue, Connection, Event, EventChannel, Nic, Notified, Order, PeerRights, QueuePair,
    QueuePairBuilder, Region, SendQueue, access,
};
use doorbell::state::{Errored, Reset, Rts};
use doorbell::timer::{AckTimeout, RnrTimer};
use doorbell::wr::{self, Inline, LocalSlice, Nothing, PostError, RemoteSlice, WorkRequest};
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_model::VirtualConnectx;
use doorbell_model::kernel::Control;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// How a queue pair's register is mapped, as a builder is told.
pub(super) trait Mapping: Caching {
    fn choose(
        builder: QueuePairBuilder<VirtualConnectx>,
    ) -> QueuePairBuilder<VirtualConnectx, Self>;
}

impl Mapping for Uncached {
    fn choose(builder: QueuePairBuilder<VirtualConnectx>) -> QueuePairBuilder<VirtualConnectx> {
        builder
    }
}

impl Mapping for WriteCombining {
    fn choose(
        builder: QueuePairBuilder<VirtualConnectx>,
    ) -> QueuePairBuilder<VirtualConnectx, Self> {
        builder.write_combining()
    }
}

/// Bytes of the memory that requests take from, that they put into, and that the peer reaches.
const AREA: usize = 4096;
/// Where in a side's own memory reads and atomics put what they got, and where receives do.
const LANDING: usize = AREA;
const INBOX: usize = 2 * AREA;
/// Slots of the send queue, and receives.
const SLOTS: u32 = 32;
const RECEIVES: usize = 16;

/// One side.
pub(super) struct Side<C: Mapping> {
    pair: Option<Pair<C>>,
    queue: CompletionQueue<VirtualConnectx, Notified>,
    channel: EventChannel<VirtualConnectx>,
    /// What requests take from, landing and inbox.
    own: Region<access::Local, VirtualConnectx>,
    target: Region<access::RemoteAtomic, VirtualConnectx>,
    nic: Nic<VirtualConnectx>,

    /// What the memory must hold: `None` is anything.
    own_now: Vec<Option<u8>>,
    target_now: Vec<u8>,
    next_id: u64,
    /// Requests and receives that have not completed.
    sends: VecDeque<Posted>,
    receives: VecDeque<Waiting>,
    /// What was sent and has not arrived.
    messages: VecDeque<Message>,
    /// What requests do, since it was last checked.
    effects: Vec<Effect>,
    sends_failed: bool,
    receives_failed: bool,
    armed: Option<Armed>,
}

enum Pair<C: Mapping> {
    Reset(QueuePair<Reset, VirtualConnectx, C>),
    Works(QueuePair<Rts, VirtualConnectx, C>),
    Failed(QueuePair<Errored, VirtualConnectx, C>),
}

/// A request that was posted.
struct Posted {
    id: u64,
    slots: u32,
    is_signaled: bool,
    /// The peer must not do it.
    is_refused: bool,
}

/// A receive that was posted, whose bytes go to `at`.
struct Waiting {
    id: u64,
    at: usize,
    len: usize,
}

/// What the peer's next receive must say.
struct Message {
    bytes: Vec<u8>,
    by: Arrival,
    is_solicited: bool,
    /// It must not arrive.
    is_refused: bool,
}

/// What a request does to memory.
struct Effect {
    /// It waits for reads and atomics before it.
    is_fenced: bool,
    does: Does,
}

enum Does {
    /// Puts bytes into the peer's memory.
    Write {
        to: usize,
        bytes: Vec<u8>,
    },
    Read {
        from: Range<usize>,
        into: usize,
    },
    Add {
        at: usize,
        add: u64,
        into: usize,
    },
    Swap {
        at: usize,
        compare: u64,
        swap: u64,
        into: usize,
    },
    Nothing,
}

impl Does {
    /// The bytes of the peer's memory that it changes.
    fn changes(&self) -> Range<usize> {
        match self {
            Does::Write { to, bytes } => *to..*to + bytes.len(),
            Does::Add { at, .. } | Does::Swap { at, .. } => *at..*at + 8,
            Does::Read { .. } | Does::Nothing => 0..0,
        }
    }

    /// The bytes of this side's memory that it changes.
    fn lands(&self) -> Range<usize> {
        match self {
            Does::Read { from, into } => *into..*into + from.len(),
            Does::Add { into, .. } | Does::Swap { into, .. } => *into..*into + 8,
            Does::Write { .. } | Does::Nothing => 0..0,
        }
    }
}

/// An event that was asked for.
struct Armed {
    solicited_only: bool,
    /// A completion came that raises it.
    is_due: bool,
    /// Completions that nobody sees may have raised it.
    is_vague: bool,
}

/// How a request is to be posted.
#[derive(Clone, Copy)]
struct Flags {
    is_signaled: bool,
    is_fenced: bool,
    is_solicited: bool,
}

impl<C: Mapping> Side<C> {
    /// The most bytes of a message.
    pub(super) const LONGEST: usize = 1500;

    pub(super) fn new(nic: Nic<VirtualConnectx>) -> Self {
        let channel = nic.event_channel().expect("a channel");
        let queue = nic.completion_queue_with_events(63, &channel).expect("a completion queue");
        let own: Region<_, _> =
            nic.region(INBOX + RECEIVES * Self::LONGEST, Order::InOrder).expect("a region");
        let target = nic.region(AREA, Order::InOrder).expect("a region");
        let mut own_now = vec![Some(0); INBOX];
        for (at, byte) in own_now[..AREA].iter_mut().enumerate() {
            let content = (at as u32).wrapping_mul(0x9e37_79b9).to_le_bytes()[3];
            own.write_at(at, &[content]).expect("inside");
            *byte = Some(content);
        }
        let mut side = Side {
            pair: None,
            queue,
            channel,
            own,
            target,
            nic,
            own_now,
            target_now: vec![0; AREA],
            next_id: 1,
            sends: VecDeque::new(),
            receives: VecDeque::new(),
            messages: VecDeque::new(),
            effects: Vec::new(),
            sends_failed: false,
            receives_failed: false,
            armed: None,
        };
        side.make();
        side
    }

    pub(super) fn control(&self) -> Control {
        self.nic.verbs().control()
    }

    /// Makes a queue pair, which there is none of.
    pub(super) fn make(&mut self) {
        let builder = self.nic.queue_pair(&self.queue);
        let builder = builder.sends(SLOTS).receives(RECEIVES as u32).receive_pieces(2);
        self.pair = Some(Pair::Reset(C::choose(builder).create().expect("a queue pair")));
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        match &self.pair {
            Some(Pair::Reset(pair)) => pair.endpoint(),
            _ => panic!("only a queue pair that was reset is connected"),
        }
    }

    /// Connects the queue pair, of which nothing is outstanding.
    pub(super) fn connect(&mut self, peer: &Endpoint) {
        let connection = Connection {
            rnr_timer: RnrTimer::US_10,
            ack_timeout: AckTimeout::at_least(Duration::from_micros(8)),
            max_mtu: Some(Mtu::B256),
            ..Connection::new()
        };
        let rights = PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC;
        self.pair = match self.pair.take() {
            Some(Pair::Reset(pair)) => {
                Some(Pair::Works(pair.connect(rights, peer, &connection).expect("connected")))
            }
            _ => panic!("only a queue pair that was reset is connected"),
        };
        self.sends.clear();
        self.receives.clear();
        self.messages.clear();
        (self.sends_failed, self.receives_failed) = (false, false);
    }

    /// What every completion of this side is of.
    fn index(&self) -> Option<QueuePairIndex> {
        Some(match self.pair.as_ref()? {
            Pair::Reset(pair) => pair.index(),
            Pair::Works(pair) => pair.index(),
            Pair::Failed(pair) => pair.index(),
        })
    }

    fn works(&mut self) -> Option<&mut QueuePair<Rts, VirtualConnectx, C>> {
        match &mut self.pair {
            Some(Pair::Works(pair)) => Some(pair),
            _ => None,
        }
    }

    pub(super) fn has_failed(&self) -> bool {
        self.sends_failed || self.receives_failed || !matches!(self.pair, Some(Pair::Works(_)))
    }

    fn used(&self) -> u32 {
        self.sends.iter().map(|sent| sent.slots).sum()
    }

    fn flags(&self, input: &Input) -> Flags {
        let bits = input.byte();
        Flags {
            // Unsignaled requests free their slots only with a signaled one after them.
            is_signaled: bits & 1 != 0 || self.used() > SLOTS / 2,
            is_fenced: bits & 2 != 0,
            is_solicited: bits & 4 != 0,
        }
    }

    /// Notes a request that was posted, or why it was not.
    fn posted(
        &mut self,
        result: Result<(), PostError>,
        segments: usize,
        flags: Flags,
        is_refused: bool,
    ) -> bool {
        let (used, slots) = (self.used(), segments.div_ceil(4) as u32);
        match result {
            Ok(()) => {
                assert!(used + slots <= SLOTS, "{slots} slots were posted on top of {used}");
                let (id, is_signaled) = (self.next_id, flags.is_signaled);
                self.sends.push_back(Posted { id, slots, is_signaled, is_refused });
                self.next_id += 1;
                true
            }
            Err(PostError::Full) => {
                assert!(used + slots > SLOTS, "{slots} slots do not fit on top of {used}");
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Posts a request of some kind, and notes what it must do.
    pub(super) fn post<D: Mapping>(&mut self, peer: &mut Side<D>, input: &Input) {
        let flags = self.flags(input);
        let (kind, size) = (input.byte() % 12, usize::from(input.half()));
        let len = if size & 0x8000 == 0 { size % (Self::LONGEST + 1) } else { size % 80 };
        let from = usize::from(input.half()) % (AREA - len);
        let to = usize::from(input.half()) % (AREA - len);
        let (word, operand) = (to / 8 * 8, input.double());
        let remote = |range: Range<usize>| {
            peer.target.remote().slice(range.start as u64..range.end as u64).expect("inside")
        };
        let there = remote(to..to + len);
        let here = |range: Range<usize>| self.own.slice(range).expect("inside");
        let source = here(from..from + len);
        let into = LANDING + (AREA - len).min(from);
        let mut bytes = vec![0; len];
        self.own.read_at(from, &mut bytes).expect("inside");
        let (third, data) = (len / 3, usize::from(len > 0));
        let pieces = [here(from..from + third), here(from + third..from + len)];
        let count = pieces.iter().filter(|piece| piece.len() > 0).count();
        let inline = &bytes[..len.min(200)];
        let inline_segments = if inline.is_empty() { 0 } else { (4 + inline.len()).div_ceil(16) };
        let eight = here(LANDING + word..LANDING + word + 8);
        let compare = match operand & 1 {
            0 => u64::from_ne_bytes(peer.target_now[word..word + 8].try_into().expect("8")),
            _ => operand,
        };
        let is_message = matches!(kind, 2 | 4 | 5 | 6 | 10);
        if is_message && self.messages.len() >= RECEIVES {
            return;
        }
        let id = self.next_id;
        let Some(pair) = self.works() else { return };
        let sends = pair.sends();
        let immediate = operand as u32;
        let fits = "the request fits";
        let (result, segments) = match kind {
            0 => (post(sends, wr::write(source, there).expect(fits).id(id), flags), 2 + data),
            1 => {
                let request = wr::write(Inline(inline), there).expect(fits).id(id);
                (post(sends, request, flags), 2 + inline_segments)
            }
            2 => {
                let request = wr::write_immediate(source, there, immediate).expect(fits).id(id);
                (post_message(sends, request, flags), 2 + data)
            }
            3 => {
                let request = wr::read(self.own_slice(into, len), there).expect(fits).id(id);
                let Some(pair) = self.works() else { return };
                (post(pair.sends(), request, flags), 2 + data)
            }
            4 => (post_message(sends, wr::send(source).id(id), flags), 1 + data),
            5 => {
                let request = wr::send(Inline(inline)).id(id);
                (post_message(sends, request, flags), 1 + inline_segments)
            }
            6 => {
                let request = wr::send_immediate(&pieces[..], immediate).id(id);
                (post_message(sends, request, flags), 1 + count)
            }
            7 => {
                let request = wr::fetch_add(eight, remote(word..word + 8), operand);
                (post(sends, request.expect(fits).id(id), flags), 4)
            }
            8 => {
                let request = wr::compare_swap(eight, remote(word..word + 8), compare, operand);
                (post(sends, request.expect(fits).id(id), flags), 4)
            }
            9 => {
                let request = wr::write(&pieces[..], there).expect(fits).id(id);
                (post(sends, request, flags), 2 + count)
            }
            10 => (post_message(sends, wr::send(pieces).id(id), flags), 1 + count),
            _ => (post(sends, wr::write(Nothing, there).expect(fits).id(id), flags), 2),
        };
        if !self.posted(result, segments, flags, false) {
            return;
        }
        if matches!(kind, 1 | 5) {
            bytes.truncate(200);
        }
        if is_message {
            let by = match kind {
                2 => Arrival::WriteImmediate(immediate),
                6 => Arrival::SendImmediate(immediate),
                _ => Arrival::Send,
            };
            let is_solicited = flags.is_solicited;
            let bytes = bytes.clone();
            self.messages.push_back(Message { bytes, by, is_solicited, is_refused: false });
        }
        let does = match kind {
            0..=2 | 9 => Does::Write { to, bytes },
            3 => Does::Read { from: to..to + len, into },
            7 => Does::Add { at: word, add: operand, into: LANDING + word },
            8 => Does::Swap { at: word, compare, swap: operand, into: LANDING + word },
            _ => Does::Nothing,
        };
        self.effects.push(Effect { is_fenced: flags.is_fenced, does });
    }

    fn own_slice(&self, at: usize, len: usize) -> LocalSlice {
        self.own.slice(at..at + len).expect("inside")
    }

    /// Posts a request that the peer must not do.
    pub(super) fn post_refused<D: Mapping>(&mut self, peer: &Side<D>, input: &Input) {
        let flags = self.flags(input);
        let source = self.own_slice(0, 8);
        let target = peer.target.remote();
        let id = self.next_id;
        let what = input.byte() % 3;
        if what == 2 && self.messages.len() >= RECEIVES {
            return;
        }
        let Some(pair) = self.works() else { return };
        let sends = pair.sends();
        let (result, segments) = match what {
            0 => {
                let other = RemoteSlice::new(target.address(), 8, target.rkey() ^ 1);
                (post(sends, wr::write(source, other).expect("it fits").id(id), flags), 3)
            }
            1 => {
                let end = RemoteSlice::new(target.address() + AREA as u64 - 7, 8, target.rkey());
                (post(sends, wr::read(source, end).expect("it fits").id(id), flags), 3)
            }
            _ => {
                // The kernel makes no region that a peer may invalidate.
                let request = wr::send_invalidate(source, target.rkey()).id(id);
                (post_message(sends, request, flags), 2)
            }
        };
        if self.posted(result, segments, flags, true) && what == 2 {
            let (bytes, by) = (vec![0; 8], Arrival::SendInvalidate(target.rkey()));
            let is_solicited = flags.is_solicited;
            self.messages.push_back(Message { bytes, by, is_solicited, is_refused: true });
        }
    }

    /// Posts a receive of `len` bytes.
    pub(super) fn receive(&mut self, len: usize) {
        let id = self.next_id;
        // No two outstanding ones have the same place.
        let taken = |place: usize| self.receives.iter().any(|waiting| waiting.at == place);
        let mut places = (0..RECEIVES).map(|place| INBOX + place * Self::LONGEST);
        let place = places.find(|&place| !taken(place));
        let at = place.unwrap_or(INBOX);
        let half = len / 2;
        let into = [self.own_slice(at, half), self.own_slice(at + half, len - half)];
        let Some(pair) = self.works() else { return };
        match pair.receives().post(wr::receive(into).id(id)) {
            Ok(()) => {
                assert!(place.is_some(), "more receives were posted than there is room for");
                self.next_id += 1;
                self.receives.push_back(Waiting { id, at, len });
            }
            Err(error) => {
                assert_eq!(error, PostError::Full);
                assert!(place.is_none(), "{} receives fill the queue", self.receives.len());
            }
        }
    }

    /// Posts receives until there is one for every message of the peer.
    pub(super) fn provide<D: Mapping>(&mut self, peer: &Side<D>) {
        while self.works().is_some() && self.receives.len() < peer.messages.len() {
            self.receive(Self::LONGEST);
        }
    }

    pub(super) fn ring(&mut self) {
        if let Some(pair) = self.works() {
            pair.sends().ring();
            pair.receives().ring();
        }
    }

    /// Whether a message is longer than the receive that it finds.
    pub(super) fn has_too_long<D: Mapping>(&self, peer: &Side<D>) -> bool {
        self.messages.iter().zip(&peer.receives).any(|(message, receive)| {
            !matches!(message.by, Arrival::WriteImmediate(_)) && message.bytes.len() > receive.len
        })
    }

    /// Takes up to `most` completions, each of which must be due.
    pub(super) fn poll<D: Mapping>(&mut self, peer: &mut Side<D>, most: usize, may_fail: bool) {
        for _ in 0..most {
            let Some(completion) = self.queue.poll() else { break };
            let (queue_pair, is_announced) = match completion {
                Completion::Sent(sent) => {
                    self.sent(sent.id);
                    (sent.queue_pair, false)
                }
                Completion::Received(received) => {
                    assert!(!self.receives_failed, "a receive succeeds after one that failed");
                    let waiting = self.receives.pop_front().expect("a receive was posted");
                    assert_eq!(received.id, waiting.id);
                    let message = peer.messages.pop_front().expect("a message was sent");
                    assert!(!message.is_refused, "a message arrived that must not");
                    assert_eq!(received.by, message.by);
                    assert_eq!(received.solicited, message.is_solicited);
                    assert_eq!(received.len as usize, message.bytes.len());
                    if !matches!(message.by, Arrival::WriteImmediate(_)) {
                        let mut bytes = vec![0; message.bytes.len()];
                        self.own.read_at(waiting.at, &mut bytes).expect("inside");
                        assert_eq!(bytes, message.bytes);
                    }
                    (received.queue_pair, received.solicited)
                }
                Completion::Failed(failed) => {
                    assert!(may_fail, "{failed}, for no reason");
                    match failed.queue {
                        Queue::Send => self.send_failed(failed.id, failed.status),
                        Queue::Receive => {
                            let waiting = self.receives.pop_front().expect("one was posted");
                            assert_eq!(failed.id, waiting.id);
                            let is_flushed = failed.status == Status::WorkRequestFlushed;
                            assert!(is_flushed || !self.receives_failed, "{failed}");
                            self.receives_failed = true;
                        }
                    }
                    (failed.queue_pair, true)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(Some(queue_pair), self.index());
            if let Some(armed) = &mut self.armed {
                armed.is_due |= is_announced || !armed.solicited_only;
            }
        }
    }

    /// A request succeeded, and with it those before it, none of which can be signaled.
    fn sent(&mut self, id: u64) {
        assert!(!self.sends_failed, "a request succeeds after one that failed");
        loop {
            let posted = self.sends.pop_front().expect("a request was posted");
            assert!(!posted.is_refused, "a request succeeded that must not be done");
            assert_eq!(posted.is_signaled, posted.id == id, "request {id}, not {}", posted.id);
            if posted.id == id {
                return;
            }
        }
    }

    /// A request failed. Those before it have succeeded, if it is the first; those after it fail.
    fn send_failed(&mut self, id: u64, status: Status) {
        loop {
            let posted = self.sends.pop_front().expect("a request was posted");
            if posted.id == id {
                break;
            }
            assert!(!self.sends_failed, "request {} vanished", posted.id);
            assert!(!posted.is_signaled && !posted.is_refused, "request {} vanished", posted.id);
        }
        let is_flushed = status == Status::WorkRequestFlushed;
        assert!(is_flushed || !self.sends_failed, "request {id} after one that failed: {status}");
        self.sends_failed = true;
    }

    /// Asks for an event, unless one was asked for that has not come.
    pub(super) fn arm(&mut self, solicited_only: bool) {
        if self.armed.is_some() {
            return;
        }
        match solicited_only {
            true => self.queue.arm_solicited(),
            false => self.queue.arm(),
        }
        // What marks the end of a queue pair that was taken down completes unseen.
        let is_vague = !matches!(self.pair, Some(Pair::Works(_)));
        self.armed = Some(Armed { solicited_only, is_due: false, is_vague });
    }

    /// An event came if one is due, and only then. Everything has been polled.
    pub(super) fn check_events(&mut self) {
        let mut count = 0;
        loop {
            let events = self.channel.wait(Duration::ZERO).expect("events");
            if events.is_empty() {
                break;
            }
            for event in events {
                match event {
                    Event::Completion(id) => {
                        assert_eq!(id, self.queue.id());
                        count += 1;
                    }
                    Event::QueuePair { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        match &self.armed {
            Some(armed) if armed.is_vague => assert!(count <= 1),
            Some(armed) => assert_eq!(count == 1, armed.is_due, "{count} events"),
            None => assert_eq!(count, 0, "an event that nobody asked for"),
        }
        if count > 0 {
            self.armed = None;
        }
    }

    fn armed_vaguely(&mut self) {
        if let Some(armed) = &mut self.armed {
            armed.is_vague = true;
        }
    }

    /// Takes the queue pair down.
    pub(super) fn fail(&mut self) {
        self.pair = match self.pair.take() {
            Some(Pair::Works(pair)) => Some(Pair::Failed(pair.fail().expect("taken down"))),
            other => other,
        };
        self.armed_vaguely();
    }

    /// Resets the queue pair, which was taken down and whose completions were polled.
    pub(super) fn reset(&mut self) {
        assert!(self.sends.iter().all(|sent| !sent.is_signaled && !sent.is_refused));
        assert!(self.receives.is_empty(), "a receive never completed");
        self.pair = match self.pair.take() {
            Some(Pair::Failed(mut pair)) => {
                assert!(pair.is_drained(), "everything has completed");
                Some(Pair::Reset(pair.reset().expect("reset")))
            }
            _ => panic!("only a queue pair that was taken down is reset"),
        };
    }

    /// Drops the queue pair, whatever it has outstanding.
    pub(super) fn drop_pair(&mut self) {
        self.pair = None;
        self.armed_vaguely();
    }

    /// The queue pair was dropped, and the NIC has come to rest: nothing of it is seen any more.
    pub(super) fn check_gone(&mut self) {
        assert_eq!(self.queue.poll(), None, "a completion of a queue pair that is gone");
    }

    /// Everything has been done: the effects are what memory holds.
    pub(super) fn check_done<D: Mapping>(&mut self, peer: &mut Side<D>) {
        assert!(self.sends.iter().all(|sent| !sent.is_signaled), "a request never completed");
        assert!(self.messages.is_empty(), "a message never arrived");
        let effects = std::mem::take(&mut self.effects);
        for (place, effect) in effects.iter().enumerate() {
            // A read may come again until it has completed, and then sees what was written since.
            let later = effects[place + 1..].iter().take_while(|later| !later.is_fenced);
            self.apply(&effect.does, &mut peer.target_now, later.map(|later| &later.does));
        }
        peer.check_target(&[]);
        self.check_own(&[]);
    }

    fn apply<'a>(&mut self, does: &Does, target: &mut [u8], later: impl Iterator<Item = &'a Does>) {
        let mut atomic = |at: usize, into: usize, next: &dyn Fn(u64) -> u64| {
            let word: [u8; 8] = target[at..at + 8].try_into().expect("8 bytes");
            for (byte, was) in self.own_now[into..into + 8].iter_mut().zip(word) {
                *byte = Some(was);
            }
            let next = next(u64::from_ne_bytes(word)).to_ne_bytes();
            target[at..at + 8].copy_from_slice(&next);
        };
        match does {
            Does::Write { to, bytes } => target[*to..*to + bytes.len()].copy_from_slice(bytes),
            Does::Add { at, add, into } => atomic(*at, *into, &|was| was.wrapping_add(*add)),
            Does::Swap { at, compare, swap, into } => {
                atomic(*at, *into, &|was| if was == *compare { *swap } else { was });
            }
            Does::Read { from, into } => {
                for (at, byte) in from.clone().zip(&mut self.own_now[*into..]) {
                    *byte = Some(target[at]);
                }
                for changed in later.map(Does::changes) {
                    for at in changed.filter(|at| from.contains(at)) {
                        self.own_now[into + at - from.start] = None;
                    }
                }
            }
            Does::Nothing => {}
        }
    }

    /// Something failed: nothing was touched but what requests name, and memory is what it is.
    pub(super) fn look_again<D: Mapping>(&mut self, peer: &mut Side<D>) {
        let effects = std::mem::take(&mut self.effects);
        let ranges = |of: fn(&Does) -> Range<usize>| {
            effects.iter().map(|effect| of(&effect.does)).collect::<Vec<_>>()
        };
        peer.check_target(&ranges(Does::changes));
        self.check_own(&ranges(Does::lands));
    }

    /// Checks what peers reach, but for `touched`, and takes that as it is.
    fn check_target(&mut self, touched: &[Range<usize>]) {
        let mut bytes = vec![0; AREA];
        self.target.read_at(0, &mut bytes).expect("inside");
        for (at, (&is, &was)) in bytes.iter().zip(&self.target_now).enumerate() {
            let is_touched = touched.iter().any(|range| range.contains(&at));
            assert!(is == was || is_touched, "byte {at} of the target is {is}, not {was}");
        }
        self.target_now = bytes;
    }

    /// Checks source and landing, but for `touched`, and takes those as they are.
    fn check_own(&mut self, touched: &[Range<usize>]) {
        let mut bytes = vec![0; INBOX];
        self.own.read_at(0, &mut bytes).expect("inside");
        for (at, (&is, was)) in bytes.iter().zip(&mut self.own_now).enumerate() {
            let is_right = was.is_none_or(|was| was == is);
            let is_touched = touched.iter().any(|range| range.contains(&at));
            assert!(is_right || is_touched, "byte {at} of the side's own is {is}, not {was:?}");
            *was = Some(is);
        }
    }
}

/// Posts a request that no receive answers.
fn post<C: Caching, O: entry::Operation>(
    sends: &mut SendQueue<VirtualConnectx, C>,
    request: WorkRequest<O>,
    flags: Flags,
) -> Result<(), PostError> {
    match (flags.is_signaled, flags.is_fenced) {
        (false, false) => sends.post(request),
        (false, true) => sends.post(request.fenced()),
        (true, false) => sends.post(request.signaled()),
        (true, true) => sends.post(request.signaled().fenced()),
    }
}

/// Posts a request that a receive of the peer answers.
fn post_message<C: Caching, O: entry::Operation + wr::TakesReceive>(
    sends: &mut SendQueue<VirtualConnectx, C>,
    request: WorkRequest<O>,
    flags: Flags,
) -> Result<(), PostError> {
    if !flags.is_solicited {
        return post(sends, request, flags);
    }
    match (flags.is_signaled, flags.is_fenced) {
        (false, false) => sends.post(request.solicited()),
        (false, true) => sends.post(request.solicited().fenced()),
        (true, false) => sends.post(request.solicited().signaled()),
        (true, true) => sends.post(request.solicited().signaled().fenced()),
    }
}

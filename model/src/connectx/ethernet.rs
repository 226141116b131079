//! Queues of Ethernet frames: entries to frames, and frames to entries.

use super::completion_queue::Written;
use super::entry;
use super::nic::Connectx;
use super::{Counters, Event, Log, Refused, Ring, Steering, Store, Traffic};
use crate::fabric::frame;
use crate::fabric::{Address, Fabric, Message};
use crate::memory::{AddressSpace, Entry, List, Payload};
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::{
    Completion, CompletionOpcode, OpcodeOwner, QueueWord, UserIndexWord,
};
use doorbell::mlx5::abi::doorbell::CounterWord;
use doorbell::mlx5::abi::wqe::{
    CompletionMode, ControlSegment, DataSegment, InlineHeader, MAX_SLOTS, SEGMENT_BYTES, SLOT_BYTES,
};
use std::collections::BTreeMap;
use zerocopy::big_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// What a queue of frames is made of, in either direction.
#[derive(Clone, Debug)]
pub struct FrameQueueContext {
    /// The protection domain of its memory keys.
    pub protection_domain: u32,
    /// The completion queue.
    pub queue: u32,
    /// The ring: of send slots of 64 bytes, or of receive entries.
    pub ring: Ring,
    /// The binary logarithm of the number of slots or entries.
    pub log_entries: u8,
    /// The binary logarithm of the bytes of a slot or entry.
    pub log_stride: u8,
    /// The device address of the doorbell record.
    pub record: u64,
    /// What its completions are found by.
    pub user_index: u32,
    /// Whose frames it sends, if that is known: a transport domain.
    pub transport_domain: Option<u32>,
}

/// Whether a queue of frames works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameQueueState {
    /// Made, or taken back.
    Reset,
    /// Works.
    Ready,
    /// Failed.
    Error,
}

/// The queues of frames of a NIC.
#[derive(Default)]
pub(super) struct FrameQueues {
    sends: BTreeMap<u32, FrameQueue>,
    receives: BTreeMap<u32, FrameQueue>,
    /// Where frames that come in go to.
    steering: Steering,
    /// What is sent comes in here, too: what is for one station, and what is for groups.
    loops_back: [bool; 2],
}

struct FrameQueue {
    context: FrameQueueContext,
    state: FrameQueueState,
    /// The next slot or entry to read, modulo 2^16.
    consumer: u16,
}

/// The kinds of send entries (`MLX5_OPCODE_*`).
mod opcode {
    pub(super) const NOP: u8 = 0x00;
    pub(super) const SEND: u8 = 0x0a;
    /// A TCP segment to be cut.
    pub(super) const LARGE_SEND: u8 = 0x0e;
}

/// The segment that follows the control segment (`struct mlx5_wqe_eth_seg`).
mod segment {
    pub(super) const FLAGS: usize = 16 + 4;
    pub(super) const MOST: usize = 16 + 6;
    /// The bytes of headers that are in the entry, or a tag to insert.
    pub(super) const INLINE: usize = 16 + 12;
    pub(super) const HEADERS: usize = 16 + 14;
    pub(super) const NETWORK_CHECKSUM: u8 = 1 << 6;
    pub(super) const TRANSPORT_CHECKSUM: u8 = 1 << 7;
    pub(super) const INSERT_TAG: u16 = 1 << 15;
}

/// Network and transport headers were found, and their checksums are right (`CQE_L3_OK`,
/// `CQE_L4_OK`).
const HEADERS_CHECKED: u8 = 0x06;
/// The most bytes of a frame before it is cut.
const MOST_BYTES: usize = 1 << 18;

impl FrameQueue {
    /// Slots or entries that the record says are posted, at `offset` of it.
    fn posted(&self, space: &dyn AddressSpace, offset: u64) -> u16 {
        let Ok(word) = space.load_word(self.context.record.wrapping_add(offset)) else { return 0 };
        let posted = CounterWord::from_memory(word).counter().wrapping_sub(self.consumer);
        if u32::from(posted) > 1 << self.context.log_entries { 0 } else { posted }
    }

    /// The bytes of `count` slots or entries from the consumer on.
    fn read(&self, space: &dyn AddressSpace, count: u16) -> Option<Vec<u8>> {
        let mask = (1u64 << self.context.log_entries) - 1;
        let stride = 1usize << self.context.log_stride;
        let mut bytes = vec![0; stride * usize::from(count)];
        for (slot, to) in (0..).zip(bytes.chunks_mut(stride)) {
            let at =
                (u64::from(self.consumer.wrapping_add(slot)) & mask) << self.context.log_stride;
            self.context.ring.read(space, at, to).ok()?;
        }
        Some(bytes)
    }
}

impl Connectx {
    fn check_frame_queue(&mut self, context: &FrameQueueContext) -> Result<(), Refused> {
        self.alive()?;
        let parameter = |what, value| Err(Refused::Parameter { what, value });
        if context.log_entries > 16 {
            return parameter("log of a ring", context.log_entries.into());
        }
        if !(4..=12).contains(&context.log_stride) {
            return parameter("log of an entry", context.log_stride.into());
        }
        if context.ring.len() < 1 << (context.log_entries + context.log_stride) {
            return parameter("length of a ring", context.ring.len());
        }
        if !context.record.is_multiple_of(8) {
            return parameter("address of a doorbell record", context.record);
        }
        self.domain_users(context.protection_domain)?;
        if !self.queues.contains_key(&context.queue) {
            return Err(Refused::Unknown { what: "completion queue", number: context.queue });
        }
        Ok(())
    }

    /// Makes a queue of frames to send (`sends`) or to receive.
    pub fn create_frame_queue(
        &mut self,
        context: FrameQueueContext,
        sends: bool,
    ) -> Result<u32, Refused> {
        self.check_frame_queue(&context)?;
        if sends && context.log_stride != SLOT_BYTES.ilog2() as u8 {
            let value = context.log_stride.into();
            return Err(Refused::Parameter { what: "log of a send slot", value });
        }
        let taken = self.frames.sends.len() + self.frames.receives.len();
        let log = self.capabilities().log_max_queue_pairs;
        let number = self.number(log, "frame queue", taken)?;
        *self.domain_users(context.protection_domain)? += 1;
        if let Some(queue) = self.queues.get_mut(&context.queue) {
            queue.users += 1;
        }
        let queue = FrameQueue { context, state: FrameQueueState::Reset, consumer: 0 };
        let all = if sends { &mut self.frames.sends } else { &mut self.frames.receives };
        all.insert(number, queue);
        Ok(number)
    }

    /// Changes the state of a queue of frames.
    pub fn modify_frame_queue(
        &mut self,
        number: u32,
        sends: bool,
        state: FrameQueueState,
    ) -> Result<(), Refused> {
        let all = if sends { &mut self.frames.sends } else { &mut self.frames.receives };
        let unknown = Refused::Unknown { what: "frame queue", number };
        let queue = all.get_mut(&number).ok_or(unknown)?;
        queue.state = state;
        if state == FrameQueueState::Reset {
            queue.consumer = 0;
        }
        Ok(())
    }

    /// The state of a queue of frames.
    pub fn frame_queue_state(&self, number: u32, sends: bool) -> Option<FrameQueueState> {
        let all = if sends { &self.frames.sends } else { &self.frames.receives };
        all.get(&number).map(|queue| queue.state)
    }

    /// Destroys a queue of frames.
    pub fn destroy_frame_queue(&mut self, number: u32, sends: bool) -> Result<(), Refused> {
        let all = if sends { &mut self.frames.sends } else { &mut self.frames.receives };
        let unknown = Refused::Unknown { what: "frame queue", number };
        let queue = all.remove(&number).ok_or(unknown)?;
        *self.domain_users(queue.context.protection_domain)? -= 1;
        if let Some(completions) = self.queues.get_mut(&queue.context.queue) {
            completions.users -= 1;
        }
        Ok(())
    }

    /// Where frames that come in go to.
    pub fn steering(&mut self) -> &mut Steering {
        &mut self.frames.steering
    }

    /// Whether frames that are sent come in at this port, too: those for one station, and those for
    /// groups.
    pub fn set_frame_loopback(&mut self, stations: bool, groups: bool) {
        self.frames.loops_back = [stations, groups];
    }

    pub(super) fn is_frame_queue(&self, number: u32) -> bool {
        self.frames.sends.contains_key(&number) || self.frames.receives.contains_key(&number)
    }

    /// A doorbell of a queue of frames. Answers whether `number` is one.
    pub(super) fn ring_frames(
        &mut self,
        number: u32,
        store: &Store,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> bool {
        if !self.frames.sends.contains_key(&number) {
            return false;
        }
        self.counters.send_doorbells += 1;
        let copied = match store {
            Store::Slot { slot, .. } => Some(slot.as_bytes()),
            Store::Word { .. } => None,
        };
        while self.send_frame(number, copied, now, fabric) {}
        true
    }

    /// Sends the next entry of a queue, out of `copied` if that is the one. Answers whether there was
    /// one.
    fn send_frame(
        &mut self,
        number: u32,
        copied: Option<&[u8]>,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> bool {
        let Some(queue) = self.frames.sends.get(&number) else { return false };
        let space = self.memory.space();
        let posted = queue.posted(space, 4);
        if posted == 0 || queue.state != FrameQueueState::Ready {
            return false;
        }
        self.counters.send_entries += 1;
        let index = queue.consumer;
        let control_of = |bytes: &[u8]| {
            let control = ControlSegment::read_from_prefix(bytes);
            control.map_or_else(|_| ControlSegment::default(), |(control, _)| control)
        };
        let copied = copied.filter(|copied| {
            let control = control_of(copied);
            let segments = usize::from(control.qpn_ds.segments());
            control.opmod_idx_opcode.index() == index && entry::slots_of(segments) == 1
        });
        self.counters.blue_flame_entries += u64::from(copied.is_some());
        let first = match copied {
            Some(copied) => copied.to_vec(),
            None => queue.read(space, 1).unwrap_or_default(),
        };
        let control = control_of(&first);
        let segments = usize::from(control.qpn_ds.segments());
        let slots = entry::slots_of(segments);
        let code = control.opmod_idx_opcode.opcode();
        let fine = (1..=posted.min(MAX_SLOTS as u16)).contains(&slots);
        let bytes = match (fine, copied) {
            (false, _) => None,
            (true, Some(_)) => Some(first),
            (true, None) => queue.read(space, slots),
        };
        let (domain, context) = (queue.context.protection_domain, queue.context.clone());
        let frames = match bytes.as_deref().and_then(|bytes| bytes.get(..segments * SEGMENT_BYTES))
        {
            Some(_) if code == opcode::NOP => Some(Vec::new()),
            Some(bytes) if matches!(code, opcode::SEND | opcode::LARGE_SEND) => {
                self.frames_of(domain, bytes, code == opcode::LARGE_SEND)
            }
            _ => None,
        };
        let Some(frames) = frames else {
            self.counters.malformed_entries += 1;
            self.log.note(format_args!(
                "frame queue {number:#x}: the entry in slot {index:#x}, opcode {code:#x}, cannot be sent"
            ));
            if let Some(queue) = self.frames.sends.get_mut(&number) {
                queue.state = FrameQueueState::Error;
            }
            self.raise(Event::QueuePairFatal { pair: number });
            return false;
        };
        for bytes in frames {
            self.put_on_wire(bytes, context.transport_domain, now, fabric);
        }
        if let Some(queue) = self.frames.sends.get_mut(&number) {
            queue.consumer = index.wrapping_add(slots);
        }
        let mode = control.fm_ce_se.completion();
        if matches!(mode, CompletionMode::Always | CompletionMode::AlwaysWithEvent) {
            let mut completion = blank(CompletionOpcode::Request, &context, index, now);
            completion.sop_drop_qpn =
                QueueWord::new().with_queue_pair(U24::truncate(number)).with_opcode(code);
            self.complete(context.queue, &completion, mode == CompletionMode::AlwaysWithEvent);
        }
        true
    }

    /// The frames that an entry sends.
    fn frames_of(&self, domain: u32, bytes: &[u8], cut: bool) -> Option<Vec<Vec<u8>>> {
        let half = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        let flags = *bytes.get(segment::FLAGS)?;
        let inline = half(segment::INLINE)?;
        let tag = inline & segment::INSERT_TAG != 0;
        let headers = if tag { 0 } else { usize::from(inline) };
        let mut whole = bytes.get(segment::HEADERS..segment::HEADERS + headers)?.to_vec();
        let start = (segment::HEADERS + headers).max(32).next_multiple_of(SEGMENT_BYTES);
        let mut rest = bytes.get(start..)?;
        while !rest.is_empty() {
            let (data, after) = DataSegment::read_from_prefix(rest).ok()?;
            if data.is_inline() {
                let (header, _) = InlineHeader::read_from_prefix(rest).ok()?;
                let end = 4 + header.length() as usize;
                whole.extend_from_slice(rest.get(4..end)?);
                rest = rest.get(end.next_multiple_of(SEGMENT_BYTES)..).unwrap_or_default();
                continue;
            }
            rest = after;
            let piece =
                Entry { address: data.addr.get(), length: data.length(), lkey: data.lkey.get() };
            let length = piece.length as usize;
            if whole.len() + length > MOST_BYTES {
                return None;
            }
            self.gather(domain, piece, length, &mut whole)?;
        }
        let mut frames = match cut {
            false => vec![whole],
            true => frame::segments(&whole, headers, half(segment::MOST)?.into())
                .unwrap_or_else(|| vec![whole]),
        };
        for bytes in &mut frames {
            if tag {
                frame::insert_tag(bytes, half(segment::HEADERS)?);
            }
            let network = cut || flags & segment::NETWORK_CHECKSUM != 0;
            let transport = cut || flags & segment::TRANSPORT_CHECKSUM != 0;
            let _ = frame::fill_checksums(bytes, network, transport);
        }
        Some(frames)
    }

    fn gather(&self, domain: u32, piece: Entry, length: usize, into: &mut Vec<u8>) -> Option<()> {
        /// What one payload holds for sure.
        const PART: usize = 4096;
        let mut done = 0;
        while done < length {
            let part = PART.min(length - done);
            let payload = self.memory.gather(domain, &[piece], done as u64, part).ok()?;
            let start = into.len();
            into.resize(start + part, 0);
            payload.read(0, into.get_mut(start..)?).ok()?;
            done += part;
        }
        Some(())
    }

    fn put_on_wire(
        &mut self,
        bytes: Vec<u8>,
        sender: Option<u32>,
        now: u64,
        fabric: &mut dyn Fabric,
    ) {
        let Some((to, from)) = frame::addresses(&bytes).filter(|_| self.link_up) else {
            self.counters.packets_dropped += 1;
            return;
        };
        self.counters.packets_sent += 1;
        self.statistics.count_sent(Traffic::of_frame(&bytes), bytes.len());
        let [first, ..] = to;
        if self.frames.loops_back[usize::from(first & 1)] {
            self.steer_frame(&bytes, Some(sender.unwrap_or(0)), now);
        }
        let message = Message::Frame(bytes.into());
        fabric.send_message(now, self.port, Address::Mac(from), Address::Mac(to), message);
    }

    /// A frame came in.
    pub(super) fn take_frame(&mut self, bytes: &[u8], now: u64) {
        if !self.steer_frame(bytes, None, now) {
            self.counters.packets_dropped += 1;
        }
    }

    /// Brings a frame to the queues that it is for. Answers whether one took it.
    fn steer_frame(&mut self, bytes: &[u8], sender: Option<u32>, now: u64) -> bool {
        let queues = self.frames.steering.queues_of(bytes, sender);
        let mut taken = false;
        for number in queues {
            taken |= self.fill_entry(number, bytes, now);
        }
        taken
    }

    /// Puts a frame into a queue's next entry. Answers whether there was one.
    fn fill_entry(&mut self, number: u32, bytes: &[u8], now: u64) -> bool {
        let space = self.memory.space();
        let Some(queue) = self.frames.receives.get_mut(&number) else { return false };
        if queue.state != FrameQueueState::Ready || queue.posted(space, 0) == 0 {
            return false;
        }
        let index = queue.consumer;
        let entry = queue.read(space, 1);
        queue.consumer = index.wrapping_add(1);
        let context = queue.context.clone();
        self.counters.receive_entries += 1;
        if let Err(why) = self.scatter(context.protection_domain, entry, bytes) {
            self.counters.malformed_entries += 1;
            self.log.note(format_args!(
                "frame queue {number:#x}: {} bytes do not go into entry {index:#x}: {why}",
                bytes.len()
            ));
            return false;
        }
        self.counters.packets_received += 1;
        self.statistics.count_received(Traffic::of_frame(bytes), bytes.len());
        let mut completion = blank(CompletionOpcode::ReceiveSend, &context, index, now);
        completion.byte_cnt = U32::new(bytes.len() as u32);
        let [high, low] = frame::checksum_after_header(bytes).to_be_bytes();
        // `check_sum`, two bytes from 20 on.
        completion.reserved18[2..].copy_from_slice(&[high, low]);
        completion.hds_ip_ext = HEADERS_CHECKED;
        completion.sop_drop_qpn = QueueWord::new().with_queue_pair(U24::truncate(number));
        self.complete(context.queue, &completion, false);
        true
    }

    fn scatter(&self, domain: u32, entry: Option<Vec<u8>>, bytes: &[u8]) -> Result<(), String> {
        /// What one payload holds for sure.
        const PART: usize = 4096;
        let entry = entry.ok_or("its ring has no memory")?;
        let list = receive_list(&entry);
        (0..).step_by(PART).zip(bytes.chunks(PART)).try_for_each(|(offset, part)| {
            let scattered = self.memory.scatter(domain, &list, offset, &Payload::copy_of(part));
            scattered.map_err(|refusal| refusal.to_string())
        })
    }

    /// Writes a completion of no queue pair.
    fn complete(&mut self, number: u32, completion: &Completion, always: bool) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let (counters, log): (&mut Counters, &mut Log) = (&mut self.counters, &mut self.log);
        match queue.write(self.memory.space(), completion, false, always, counters, log) {
            Written::Quietly | Written::Nowhere => {}
            Written::WithEvent => {
                self.counters.completion_events += 1;
                self.events.completion(number);
            }
            Written::Failed => self.raise(Event::CompletionQueueError { queue: number }),
        }
    }
}

/// The memory that a receive entry names. The top bit of a length says that the device may pad the
/// start (`MLX5_HW_START_PADDING`), which this one does not.
fn receive_list(entry: &[u8]) -> List {
    let segments = entry.chunks_exact(SEGMENT_BYTES);
    segments
        .filter_map(|segment| DataSegment::read_from_bytes(segment).ok())
        .take_while(|segment| !segment.is_terminator())
        .map(|segment| Entry {
            address: segment.addr.get(),
            length: segment.length(),
            lkey: segment.lkey.get(),
        })
        .collect()
}

fn blank(
    opcode: CompletionOpcode,
    context: &FrameQueueContext,
    index: u16,
    now: u64,
) -> Completion {
    let mut completion = Completion::new_zeroed();
    completion.op_own = OpcodeOwner::new().with_kind(opcode);
    completion.srqn_uidx = UserIndexWord::new().with_user_index(U24::truncate(context.user_index));
    completion.wqe_counter = U16::new(index);
    completion.timestamp = U64::new(now);
    completion
}

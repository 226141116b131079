//! The operations of a BCM57608, and their floor: as for mlx5's in `operations` and `floor`.

use crate::operations::{BATCH, fresh, leaked, page, segments, slices, used};
use doorbell::bnxt::abi::cqe::{
    self, CompletionKind, KindToggle, ReceiveCompletion, RequestCompletion,
};
use doorbell::bnxt::abi::doorbell::QueueNumber;
use doorbell::bnxt::ring::completion::{CompletionParts, CompletionRing};
use doorbell::bnxt::ring::entry::Limits;
use doorbell::bnxt::ring::receive::{ReceiveParts, ReceiveRing};
use doorbell::bnxt::ring::send::{SendParts, SendRing};
use doorbell::bnxt::ring::slot::CompletionSlot;
use doorbell::bnxt::ring::{Failures, InFlight, LastToggle, Outstanding, PacedRegister};
use doorbell::completion::Completion;
use doorbell::ring::committed::Committed;
use doorbell::ring::table::Table;
use doorbell::wr::{self, Inline, LocalSlice, PostError, Receive, WorkRequest, Write};
use doorbell_hal::linux::MappedRegister;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::sync::DmaCell;
use std::hint::black_box;
use std::ptr::{NonNull, write_volatile};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering, compiler_fence};
use zerocopy::{FromBytes, FromZeros};

/// As queues have it.
type Register = PacedRegister<MappedRegister>;

/// Slots of the send ring, receives and completions.
const SLOTS: u32 = 1024;
const LEN: u32 = 256;
/// Slots of a receive of one piece.
const STRIDE: u32 = 3;

/// One queue pair's rings and its completion ring, as the control path puts them together.
struct Rig {
    send: SendRing<Register>,
    receive: ReceiveRing<Register>,
    completion: CompletionRing<Register>,
    committed: Committed<()>,
    completions: NonNull<CompletionSlot>,
    produced: u32,
}

impl Rig {
    fn new(queue_pairs: u32) -> Self {
        let page = page();
        let register = || PacedRegister::new(page.register(0, 8).unwrap(), None);
        let in_flight = || {
            leaked(InFlight {
                send: Outstanding::new(SLOTS / 2),
                receive: Outstanding::new(LEN),
                send_mask: SLOTS - 1,
                send_ring: 7,
                receive_ring: 7,
            })
        };
        let table = leaked(Table::new(queue_pairs));
        let ours = in_flight();
        for index in 0..queue_pairs {
            let pair = if index == 0 { ours } else { in_flight() };
            // SAFETY: Q1: leaked, and so valid for ever.
            unsafe { table.as_ref() }.set(index, pair.as_ptr());
        }
        // SAFETY: Q1: leaked, and so valid for ever.
        let ours = unsafe { ours.as_ref() };
        let number = QueueNumber::from(0x1234);
        let messages: Vec<DmaCell<u64>> = (0..SLOTS / 2).map(|_| DmaCell::new(0)).collect();
        let send = SendParts {
            slots: segments(SLOTS),
            len: SLOTS,
            messages: NonNull::from(messages.leak()).cast(),
            most: SLOTS / 3,
            limits: Limits { pieces: 13, inline: 208, max_message: 1 << 31 },
            queue_pair: number,
            outstanding: NonNull::from(&ours.send),
            register: register(),
        };
        let receive = ReceiveParts {
            slots: segments(LEN * STRIDE),
            len: LEN,
            most: LEN - 1,
            pieces: 1,
            max_message: 1 << 31,
            queue_pair: number,
            outstanding: NonNull::from(&ours.receive),
            register: register(),
        };
        let completions = fresh::<CompletionSlot>(LEN);
        let completion = CompletionParts {
            slots: completions,
            len: LEN,
            table,
            failures: leaked(Failures::new()),
            toggle: leaked(LastToggle::new()),
            register: register(),
            number: QueueNumber::from(7),
        };
        // SAFETY: Q1, R1: every part is leaked, and so valid for ever, and in one ring only; each
        // register was made with 8 bytes.
        unsafe {
            Rig {
                send: SendRing::new(send),
                receive: ReceiveRing::new(receive),
                completion: CompletionRing::new(completion),
                committed: Committed::new(LEN - 1),
                completions,
                produced: 0,
            }
        }
    }

    /// Writes a completion as the NIC does.
    fn complete(&mut self, bytes: [u8; 32], kind: CompletionKind) {
        let mut completion = cqe::Completion::read_from_bytes(&bytes).expect("32 bytes");
        completion.cqe_type_toggle = KindToggle::of(kind, self.produced & LEN == 0);
        let index = (self.produced % LEN) as usize;
        // SAFETY: S1, Q1: the slot is the NIC's, which this is: every completion before was polled.
        unsafe { self.completions.add(index).as_ref().write(completion) };
        self.produced += 1;
    }

    fn sent(&mut self, queue_pair: u32, done: u32) {
        let completion = RequestCompletion {
            qp_handle: u64::from(queue_pair).into(),
            sq_cons_idx: (done as u16).into(),
            ..RequestCompletion::new_zeroed()
        };
        self.complete(zerocopy::transmute!(completion), CompletionKind::Request);
    }

    /// Completes the `BATCH` requests that were posted in `round`, and polls them.
    fn complete_sends(&mut self, round: u32) {
        for entry in 0..BATCH as u32 {
            self.sent(0, round * BATCH as u32 + entry + 1);
            assert!(
                matches!(self.completion.poll(), Some(Completion::Sent(sent)) if sent.id == u64::from(round))
            );
        }
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_bnxt_post_write(
    send: &mut SendRing<Register>,
    requests: &[WorkRequest<Write<LocalSlice>, true>; BATCH],
) -> Result<(), PostError> {
    unrolled!(I => {
        send.post(requests[I])?;
        send.ring();
    });
    Ok(())
}

pub fn post_write(rounds: u32) {
    let mut rig = Rig::new(1);
    let mut floor = Floor::new(SLOTS, LEN);
    let (local, remote) = slices();
    for round in 0..rounds {
        let request = wr::write(local, remote).unwrap().id(round.into()).signaled();
        count_bnxt_post_write(&mut rig.send, &[request; BATCH]).unwrap();
        rig.complete_sends(round);
        let write = FloorWrite {
            address: local.address(),
            len: local.len(),
            lkey: local.lkey(),
            remote: remote.address(),
            rkey: remote.rkey(),
            id: round.into(),
            data: [0; 32],
        };
        // SAFETY: Q1: the ring's memory is leaked, and this is its one user.
        unsafe { count_bnxt_floor_post_write(&mut floor, &[write; BATCH]) };
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_bnxt_post_inline(
    send: &mut SendRing<Register>,
    requests: &[WorkRequest<Write<Inline<[u8; 32]>>, true>; BATCH],
) -> Result<(), PostError> {
    unrolled!(I => {
        send.post(requests[I])?;
        send.ring();
    });
    Ok(())
}

pub fn post_inline(rounds: u32) {
    let mut rig = Rig::new(1);
    let mut floor = Floor::new(SLOTS, LEN);
    let (_, remote) = slices();
    let data = black_box([0x5a; 32]);
    for round in 0..rounds {
        let request = wr::write(Inline(data), remote).unwrap().id(round.into()).signaled();
        count_bnxt_post_inline(&mut rig.send, &[request; BATCH]).unwrap();
        rig.complete_sends(round);
        let (remote, rkey) = (remote.address(), remote.rkey());
        let write =
            FloorWrite { address: 0, len: 0, lkey: 0, remote, rkey, id: round.into(), data };
        // SAFETY: Q1: the ring's memory is leaked, and this is its one user.
        unsafe { count_bnxt_floor_post_inline(&mut floor, &[write; BATCH]) };
    }
}

/// Polls `BATCH` completions, and uses their ids.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_bnxt_poll(
    committed: &Committed<()>,
    completion: &mut CompletionRing<Register>,
) -> Option<()> {
    unrolled!(I => match committed.poll(completion)? {
        Completion::Sent(sent) => used(sent.id),
        _ => return None,
    });
    Some(())
}

pub fn poll_one(rounds: u32) {
    let mut rig = Rig::new(1);
    let (_, remote) = slices();
    for round in 0..rounds {
        let request = wr::write(Inline([0; 4]), remote).unwrap().id(1).signaled();
        for entry in 0..BATCH as u32 {
            rig.send.post(request).unwrap();
            rig.send.ring();
            rig.sent(0, round * BATCH as u32 + entry + 1);
        }
        assert!(count_bnxt_poll(&rig.committed, &mut rig.completion).is_some());
    }
    floor_poll(rounds, true);
}

/// Polls `BATCH` times; whether nothing was there.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_bnxt_poll_empty(
    committed: &Committed<()>,
    completion: &mut CompletionRing<Register>,
) -> bool {
    unrolled!(I => if committed.poll(completion).is_some() {
        return false;
    });
    true
}

pub fn poll_empty(rounds: u32) {
    let mut rig = Rig::new(1);
    for _ in 0..rounds {
        assert!(count_bnxt_poll_empty(&rig.committed, &mut rig.completion));
    }
    floor_poll(rounds, false);
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_bnxt_post_receive(
    receive: &mut ReceiveRing<Register>,
    requests: &[Receive<LocalSlice>; BATCH],
) -> Result<(), PostError> {
    unrolled!(I => receive.post(requests[I])?);
    Ok(())
}

pub fn post_receive(rounds: u32) {
    let mut rig = Rig::new(1);
    let mut floor = Floor::new(LEN * STRIDE, LEN);
    let (local, _) = slices();
    for round in 0..rounds {
        count_bnxt_post_receive(&mut rig.receive, &[wr::receive(local).id(round.into()); BATCH])
            .unwrap();
        rig.receive.ring();
        for entry in 0..BATCH as u32 {
            let completion = ReceiveCompletion {
                srq_or_rq_wr_id: ((round * BATCH as u32 + entry) % LEN).into(),
                ..ReceiveCompletion::new_zeroed()
            };
            rig.complete(zerocopy::transmute!(completion), CompletionKind::Receive);
            assert!(
                matches!(rig.completion.poll(), Some(Completion::Received(received)) if received.id == u64::from(round))
            );
        }
        let write = FloorWrite {
            address: local.address(),
            len: local.len(),
            lkey: local.lkey(),
            remote: 0,
            rkey: 0,
            id: round.into(),
            data: [0; 32],
        };
        // SAFETY: Q1: the ring's memory is leaked, and this is its one user.
        unsafe { count_bnxt_floor_post_receive(&mut floor, &[write; BATCH]) };
    }
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Slot([u64; 2]);

/// An id, and where the entry ends.
#[repr(C)]
#[derive(Clone, Copy)]
struct Noted {
    id: u64,
    end: u32,
}

/// A ring of the floor's.
struct Floor {
    slots: *mut Slot,
    messages: *mut u64,
    noted: *mut Noted,
    mask: u32,
    noted_mask: u32,
    posted_slots: u32,
    posted: u32,
    limit: u32,
    packet_sequence: u32,
    published: *const AtomicU32,
    register: *mut u64,
    /// The doorbell's upper half.
    doorbell: u64,
}

#[derive(Clone, Copy)]
struct FloorWrite {
    address: u64,
    len: u32,
    lkey: u32,
    remote: u64,
    rkey: u32,
    id: u64,
    data: [u8; 32],
}

impl Floor {
    fn new(slots: u32, entries: u32) -> Self {
        Floor {
            slots: vec![Slot([0; 2]); slots as usize].leak().as_mut_ptr(),
            messages: vec![0; slots as usize / 2].leak().as_mut_ptr(),
            noted: vec![Noted { id: 0, end: 0 }; slots as usize].leak().as_mut_ptr(),
            mask: slots - 1,
            noted_mask: entries - 1,
            posted_slots: 0,
            posted: 0,
            limit: u32::MAX,
            packet_sequence: 0,
            published: Box::leak(Box::new(AtomicU32::new(0))),
            register: vec![0u64; 8].leak().as_mut_ptr(),
            doorbell: black_box(0x0400_1234 << 32),
        }
    }

    /// Writes the next slot of the send ring.
    #[inline(always)]
    unsafe fn write(&mut self, first: u64, second: u64) {
        // SAFETY: Q1: our caller's promise.
        unsafe {
            let slot = self.slots.add((self.posted_slots & self.mask) as usize).cast::<u64>();
            write_volatile(slot, first);
            write_volatile(slot.add(1), second);
        }
        self.posted_slots += 1;
    }

    /// The message, what is noted of it, and the doorbell of an entry that began at slot `start`.
    #[inline(always)]
    unsafe fn finish(&mut self, start: u32, len: u32, id: u64) {
        let next = self.packet_sequence + ((len - 1) >> 12) + 1;
        let message = u64::from(start & self.mask) << 48
            | u64::from(next & 0xff_ffff) << 24
            | u64::from(self.packet_sequence & 0xff_ffff);
        // SAFETY: Q1: our caller's promise.
        unsafe {
            write_volatile(self.messages.add((self.posted & (self.mask >> 1)) as usize), message);
            let noted = self.noted.add((self.posted & self.noted_mask) as usize);
            write_volatile(&raw mut (*noted).id, id);
            write_volatile(&raw mut (*noted).end, self.posted_slots << 1 | 1);
            self.packet_sequence = next;
            self.posted += 1;
            (*self.published).store(self.posted, Ordering::Release);
            let index = self.posted_slots & self.mask;
            let epoch = u32::from(self.posted_slots & (self.mask + 1) != 0) << 24;
            compiler_fence(Ordering::Release);
            write_volatile(self.register, self.doorbell | u64::from(index | epoch));
        }
    }
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn count_bnxt_floor_post_write(ring: &mut Floor, writes: &[FloorWrite; BATCH]) -> bool {
    unrolled!(I => {
        let write = &writes[I];
        if ring.posted == ring.limit {
            return false;
        }
        let start = ring.posted_slots;
        // SAFETY: Q1: our caller's promise.
        unsafe {
            ring.write(0x03_0104, write.len.into());
            ring.write(write.remote, write.rkey.into());
            ring.write(write.address, u64::from(write.lkey) | u64::from(write.len) << 32);
            ring.finish(start, write.len, write.id);
        }
    });
    true
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn count_bnxt_floor_post_inline(ring: &mut Floor, writes: &[FloorWrite; BATCH]) -> bool {
    unrolled!(I => {
        let write = &writes[I];
        if ring.posted == ring.limit {
            return false;
        }
        let start = ring.posted_slots;
        // SAFETY: Q1: our caller's promise.
        unsafe {
            let data = write.data.as_ptr().cast::<u64>();
            ring.write(0x04_1104, 32);
            ring.write(write.remote, write.rkey.into());
            ring.write(data.read_unaligned(), data.add(1).read_unaligned());
            ring.write(data.add(2).read_unaligned(), data.add(3).read_unaligned());
            ring.finish(start, 32, write.id);
        }
    });
    true
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn count_bnxt_floor_post_receive(ring: &mut Floor, receives: &[FloorWrite; BATCH]) -> bool {
    unrolled!(I => {
        let receive = &receives[I];
        if ring.posted == ring.limit {
            return false;
        }
        let index = ring.posted & ring.noted_mask;
        // SAFETY: Q1: our caller's promise.
        unsafe {
            let slot = ring.slots.add((index * STRIDE) as usize).cast::<u64>();
            write_volatile(slot, 0x03_0080);
            write_volatile(slot.add(1), index.into());
            write_volatile(slot.add(2), 0);
            write_volatile(slot.add(3), 0);
            write_volatile(slot.add(4), receive.address);
            let rest = u64::from(receive.lkey) | u64::from(receive.len) << 32;
            write_volatile(slot.add(5), rest);
            let noted = ring.noted.add(index as usize);
            write_volatile(&raw mut (*noted).id, receive.id);
            ring.posted += 1;
        }
    });
    true
}

/// A queue pair of the floor's, as a poller sees it.
struct FloorPair {
    noted: *const Noted,
    mask: u32,
    completed: AtomicU32,
    posted: AtomicU32,
}

/// A completion ring that is polled in place.
struct FloorCompletions {
    slots: *const [u8; 32],
    mask: u32,
    consumer: u32,
    told: u32,
    /// Queue pairs by index.
    table: *const *const FloorPair,
    register: *mut u64,
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn count_bnxt_floor_poll(completions: &mut FloorCompletions) -> Option<()> {
    unrolled!(I => {
        // SAFETY: Q1: our caller's promise.
        used(unsafe { floor_poll_one(completions) }?);
    });
    Some(())
}

/// # Safety
///
/// The ring's memory is valid and used by nobody else.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn count_bnxt_floor_poll_empty(completions: &mut FloorCompletions) -> bool {
    unrolled!(I => {
        // SAFETY: Q1: our caller's promise.
        if unsafe { floor_poll_one(completions) }.is_some() {
            return false;
        }
    });
    true
}

#[inline(always)]
unsafe fn floor_poll_one(completions: &mut FloorCompletions) -> Option<u64> {
    let consumer = completions.consumer;
    // SAFETY: Q1: our caller's promise.
    unsafe {
        let slot = completions.slots.add((consumer & completions.mask) as usize).cast::<u8>();
        let kind = (*slot.add(24).cast::<AtomicU8>()).load(Ordering::Relaxed);
        if kind != u8::from(consumer & (completions.mask + 1) == 0) {
            return None;
        }
        compiler_fence(Ordering::Acquire);
        let index = slot.cast::<u64>().read() as usize;
        let done = u32::from(slot.add(8).cast::<u16>().read());
        let pair = &*completions.table.add(index).read();
        // One completion may say that several requests are done.
        let completed = pair.completed.load(Ordering::Relaxed);
        if done.wrapping_sub(completed) & pair.mask != 1
            || pair.posted.load(Ordering::Acquire) == completed
        {
            return None;
        }
        let id = (*pair.noted.add((completed & pair.mask) as usize)).id;
        pair.completed.store(completed + 1, Ordering::Release);
        completions.consumer = consumer + 1;
        if completions.consumer - completions.told > completions.mask >> 1 {
            completions.told = completions.consumer;
            write_volatile(completions.register, completions.consumer.into());
        }
        Some(id)
    }
}

/// Polls `rounds` batches, finding completions or none.
fn floor_poll(rounds: u32, present: bool) {
    let pair = Box::leak(Box::new(FloorPair {
        noted: vec![Noted { id: 0, end: 0 }; LEN as usize].leak().as_ptr(),
        mask: LEN - 1,
        completed: AtomicU32::new(0),
        posted: AtomicU32::new(u32::MAX),
    }));
    let slots = vec![[0u8; 32]; LEN as usize].leak().as_mut_ptr();
    let mut completions = FloorCompletions {
        slots,
        mask: LEN - 1,
        consumer: 0,
        told: 0,
        table: vec![&raw const *pair].leak().as_ptr(),
        register: vec![0u64; 8].leak().as_mut_ptr(),
    };
    for round in 0..rounds {
        if !present {
            // SAFETY: Q1: all of the ring's memory is leaked, and this is its one user.
            assert!(unsafe { count_bnxt_floor_poll_empty(&mut completions) });
            continue;
        }
        for entry in 0..BATCH as u32 {
            let counter = round * BATCH as u32 + entry;
            let mut slot = [0u8; 32];
            slot[8..10].copy_from_slice(&((counter + 1) as u16).to_le_bytes());
            slot[24] = u8::from(counter & LEN == 0);
            // SAFETY: Q1: the slots are leaked, and this is their one user.
            unsafe { write_volatile(slots.add((counter % LEN) as usize), slot) };
        }
        // SAFETY: Q1: all of the ring's memory is leaked, and this is its one user.
        assert!(unsafe { count_bnxt_floor_poll(&mut completions) }.is_some());
    }
}

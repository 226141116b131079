//! The operations, on rings in plain memory and a register page that is plain memory, too: what the
//! code costs is not what the NIC costs.

use crate::floor;
use doorbell::completion::Completion;
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::{self, CompletionOpcode, OpcodeOwner, UserIndexWord};
use doorbell::mlx5::abi::uar::{SEND_OFFSET, SEND_REGISTER_BYTES};
use doorbell::mlx5::ring::completion::{CompletionParts, CompletionRing};
use doorbell::mlx5::ring::entry::Limits;
use doorbell::mlx5::ring::receive::{ReceiveParts, ReceiveRing};
use doorbell::mlx5::ring::segment::{CompletionSlot, Segment};
use doorbell::mlx5::ring::send::{SendParts, SendRing};
use doorbell::mlx5::ring::table::Table;
use doorbell::mlx5::ring::{Committed, EventCount, InFlight, Outstanding};
use doorbell::wr::{self, Inline, LocalSlice, PostError, Receive, RemoteSlice, WorkRequest, Write};
use doorbell_hal::linux::{Anonymous, MappedPage, MappedRegister};
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::{Caching, RegisterPage, Uncached, WriteCombining};
use doorbell_hal::sync::AtomicU32;
use std::hint::black_box;
use std::os::fd::AsFd;
use std::ptr::NonNull;

/// Slots, receives and completions of each ring.
const LEN: u32 = 256;
const QUEUE_PAIR: U24 = U24::truncate(0x1234);

/// The address of the first of `len` fresh `T`s, never freed: a count ends with its process.
pub fn fresh<T: Default>(len: u32) -> NonNull<T> {
    let things: Vec<T> = (0..len).map(|_| T::default()).collect();
    NonNull::from(Box::leak(things.into_boxed_slice())).cast()
}

pub fn leaked<T>(thing: T) -> NonNull<T> {
    NonNull::from(Box::leak(Box::new(thing)))
}

/// One queue pair's rings and its completion ring, as the control path puts them together.
struct Rig<C> {
    send: SendRing<MappedRegister, C>,
    receive: ReceiveRing,
    completion: CompletionRing<MappedRegister>,
    /// With which [`CompletionQueue::poll`](doorbell::mlx5::CompletionQueue::poll) polls.
    committed: Committed<()>,
    completions: NonNull<CompletionSlot>,
    produced: u32,
}

/// Plain memory mapped as a register page is.
pub fn page() -> MappedPage {
    let file = rustix::fs::memfd_create("page", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 4096).unwrap();
    MappedPage::map(file.as_fd(), 0, 4096).unwrap()
}

impl<C: Caching> Rig<C> {
    fn new(queue_pairs: u32) -> Self {
        let page = page();
        let in_flight =
            || leaked(InFlight { send: Outstanding::new(LEN), receive: Outstanding::new(LEN) });
        let table = leaked(Table::new(queue_pairs));
        let ours = in_flight();
        for index in 0..queue_pairs {
            let pair = if index == 0 { ours } else { in_flight() };
            // SAFETY: Q1: leaked, and so valid for ever.
            unsafe { table.as_ref() }.set(U24::truncate(index), pair.as_ptr());
        }
        // SAFETY: Q1: leaked, and so valid for ever.
        let ours = unsafe { ours.as_ref() };
        let send = SendParts {
            segments: segments(LEN * 4),
            len: LEN,
            limits: Limits { segments: 63, max_message: 1 << 31 },
            queue_pair: QUEUE_PAIR,
            outstanding: NonNull::from(&ours.send),
            record: leaked(AtomicU32::new(0)),
            register: page.register(SEND_OFFSET, SEND_REGISTER_BYTES).unwrap(),
        };
        let receive = ReceiveParts {
            segments: segments(LEN),
            len: LEN,
            pieces: 1,
            max_message: 1 << 31,
            outstanding: NonNull::from(&ours.receive),
            record: leaked(AtomicU32::new(0)),
        };
        let completions = fresh::<CompletionSlot>(LEN);
        let completion = CompletionParts {
            slots: completions,
            len: LEN,
            consumer_record: leaked(AtomicU32::new(0)),
            arm_record: leaked(AtomicU32::new(0)),
            table,
            events: leaked(EventCount::new()),
            arm_register: page.register(0x20, 8).unwrap(),
            number: U24::truncate(7),
        };
        // SAFETY: Q1, R1: every part is leaked, and so valid for ever, and in one ring only; the
        // register has the length of a send register.
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

    /// Writes the completion of slot `counter` as the NIC does.
    fn complete(&mut self, opcode: CompletionOpcode, queue_pair: u32, counter: u32) {
        let owner = self.produced & LEN != 0;
        let completion = cqe::Completion {
            srqn_uidx: UserIndexWord::from_bits(zerocopy::big_endian::U32::new(queue_pair)),
            wqe_counter: (counter as u16).into(),
            op_own: OpcodeOwner::from_bits((opcode as u8) << 4 | u8::from(owner)),
            ..cqe::Completion::fresh()
        };
        let index = (self.produced % LEN) as usize;
        // SAFETY: S1, Q1: the slot is the NIC's, which this is: every completion before was polled.
        unsafe { self.completions.add(index).as_ref().write(completion) };
        self.produced += 1;
    }
}

impl<C: Caching> Rig<C> {
    /// Completes the `BATCH` requests that were posted in `round`, of `slots` slots each, and polls
    /// them.
    fn complete_sends(&mut self, round: u32, slots: u32) {
        for entry in 0..BATCH as u32 {
            self.complete(CompletionOpcode::Request, 0, (round * BATCH as u32 + entry) * slots);
            assert!(
                matches!(self.completion.poll(), Some(Completion::Sent(sent)) if sent.id == u64::from(round))
            );
        }
    }
}

/// Memory for segments, at the start of a page as the kernel wants it.
pub fn segments(len: u32) -> NonNull<Segment> {
    let memory = Anonymous::new(len as usize * size_of::<Segment>()).unwrap();
    let start = memory.as_ptr().cast();
    std::mem::forget(memory);
    start
}

/// A slice and its remote counterpart. Nothing reaches them: no NIC is there.
pub fn slices() -> (LocalSlice, RemoteSlice) {
    // SAFETY: M2: no NIC reaches the bytes.
    let local =
        unsafe { LocalSlice::from_parts(black_box(0x7000_1234_5000), black_box(64), 0x1100) };
    (local, RemoteSlice::new(black_box(0x7fff_0000_0040), black_box(4096), black_box(0x2200)))
}

/// Operations of one call of a counted function.
pub const BATCH: usize = 64;

/// Repeats a statement `BATCH` times, with the number of each, without a loop to count.
macro_rules! unrolled {
    ($index:ident => $statement:stmt) => {
        unrolled!(@ $index, $statement; 0 16 32 48)
    };
    (@ $index:ident, $statement:stmt; $($number:literal)*) => {
        $(unrolled!(@@ $index, $statement, $number; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);)*
    };
    (@@ $index:ident, $statement:stmt, $base:literal; $($number:literal)*) => {
        $({
            #[allow(dead_code)]
            const $index: usize = $base + $number;
            $statement
        })*
    };
}

/// Uses a value at the cost of no instruction.
#[inline(always)]
pub fn used(value: u64) {
    // SAFETY: S2: no instruction touches no memory.
    unsafe {
        std::arch::asm!("/* {0} */", in(reg) value, options(nomem, nostack, preserves_flags))
    };
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_post_write(
    send: &mut SendRing<MappedRegister, Uncached>,
    requests: &[WorkRequest<Write<LocalSlice>, true>; BATCH],
) -> Result<(), PostError> {
    unrolled!(I => {
        send.post(requests[I])?;
        send.ring();
    });
    Ok(())
}

pub fn post_write(rounds: u32) {
    let mut rig = Rig::<Uncached>::new(1);
    let mut floor = floor::Ring::new(LEN, QUEUE_PAIR);
    let (local, remote) = slices();
    for round in 0..rounds {
        let request = wr::write(local, remote).unwrap().id(round.into()).signaled();
        count_post_write(&mut rig.send, &[request; BATCH]).unwrap();
        rig.complete_sends(round, 1);
        let write = floor::Write {
            address: local.address(),
            len: local.len(),
            lkey: local.lkey(),
            remote: remote.address(),
            rkey: remote.rkey(),
            id: round.into(),
        };
        // SAFETY: Q1: the ring's memory is leaked, and this is its one user.
        unsafe { floor::count_floor_post_write(&mut floor, &[write; BATCH]) };
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_post_inline(
    send: &mut SendRing<MappedRegister, WriteCombining>,
    requests: &[WorkRequest<Write<Inline<[u8; 32]>>, true>; BATCH],
) -> Result<(), PostError> {
    unrolled!(I => {
        send.post(requests[I])?;
        send.ring();
    });
    Ok(())
}

pub fn post_inline(rounds: u32) {
    let mut rig = Rig::<WriteCombining>::new(1);
    let mut floor = floor::Ring::new(LEN, QUEUE_PAIR);
    let (_, remote) = slices();
    let data = black_box([0x5a; 32]);
    for round in 0..rounds {
        let request = wr::write(Inline(data), remote).unwrap().id(round.into()).signaled();
        count_post_inline(&mut rig.send, &[request; BATCH]).unwrap();
        // 16 + 16 + 4 + 32 bytes take two slots.
        rig.complete_sends(round, 2);
        let (remote, rkey) = (remote.address(), remote.rkey());
        let write = floor::InlineWrite { data, remote, rkey, id: round.into() };
        // SAFETY: Q1: the ring's memory is leaked, and this is its one user.
        unsafe { floor::count_floor_post_inline(&mut floor, &[write; BATCH]) };
    }
}

/// Polls `BATCH` completions, and uses their ids.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_poll(
    committed: &Committed<()>,
    completion: &mut CompletionRing<MappedRegister>,
) -> Option<()> {
    unrolled!(I => match committed.poll(completion)? {
        Completion::Sent(sent) => used(sent.id),
        _ => return None,
    });
    Some(())
}

fn poll_of(rounds: u32, queue_pairs: u32) {
    let mut rig = Rig::<Uncached>::new(queue_pairs);
    for round in 0..rounds {
        for entry in 0..BATCH as u32 {
            let counter = round * BATCH as u32 + entry;
            rig.complete(CompletionOpcode::Request, counter * 37 % queue_pairs, counter);
        }
        assert!(count_poll(&rig.committed, &mut rig.completion).is_some());
    }
    floor::poll(rounds, true);
}

pub fn poll_one(rounds: u32) {
    poll_of(rounds, 1);
}

pub fn poll_many(rounds: u32) {
    poll_of(rounds, 4096);
}

/// Polls `BATCH` times; whether nothing was there.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_poll_empty(
    committed: &Committed<()>,
    completion: &mut CompletionRing<MappedRegister>,
) -> bool {
    unrolled!(I => if committed.poll(completion).is_some() {
        return false;
    });
    true
}

pub fn poll_empty(rounds: u32) {
    let mut rig = Rig::<Uncached>::new(1);
    for _ in 0..rounds {
        assert!(count_poll_empty(&rig.committed, &mut rig.completion));
    }
    floor::poll(rounds, false);
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_post_receive(
    receive: &mut ReceiveRing,
    requests: &[Receive<LocalSlice>; BATCH],
) -> Result<(), PostError> {
    unrolled!(I => receive.post(requests[I])?);
    Ok(())
}

pub fn post_receive(rounds: u32) {
    let mut rig = Rig::<Uncached>::new(1);
    let mut floor = floor::Ring::new(LEN, QUEUE_PAIR);
    let (local, _) = slices();
    for round in 0..rounds {
        count_post_receive(&mut rig.receive, &[wr::receive(local).id(round.into()); BATCH])
            .unwrap();
        rig.receive.ring();
        for entry in 0..BATCH as u32 {
            rig.complete(CompletionOpcode::ReceiveSend, 0, round * BATCH as u32 + entry);
            assert!(
                matches!(rig.completion.poll(), Some(Completion::Received(received)) if received.id == u64::from(round))
            );
        }
        let write = floor::Write {
            address: local.address(),
            len: local.len(),
            lkey: local.lkey(),
            remote: 0,
            rkey: 0,
            id: round.into(),
        };
        // SAFETY: Q1: the ring's memory is leaked, and this is its one user.
        unsafe { floor::count_floor_post_receive(&mut floor, &[write; BATCH]) };
    }
}

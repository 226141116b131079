//! The rings, with a NIC that writes anything.

use super::completion::CompletionParts;
use super::entry::Limits;
use super::receive::ReceiveParts;
use super::send::SendParts;
use super::slot::CompletionSlot;
use super::{CompletionRing, Failures, InFlight, LastToggle, Outstanding, ReceiveRing, SendRing};
use crate::bnxt::abi::cqe::{
    Completion as Bytes, CompletionKind, KindToggle, ReceiveCompletion, RequestCompletion,
};
use crate::bnxt::abi::doorbell::{DoorbellFields, DoorbellKind, QueueNumber};
use crate::bnxt::abi::wqe::{MessageSearch, RdmaHeader, ReceiveHeader, SendHeader};
use crate::completion::{Completion, Queue, Status};
use crate::ring::segment::Segment;
use crate::ring::table::Table;
use crate::wr::{self, LocalSlice, Nothing, PostError, RemoteSlice};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;
use doorbell_hal::mmio::Register;
use doorbell_hal::sync::{DmaCell, Mutex};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// A register that remembers what was stored to it.
#[derive(Clone)]
struct Remembers(Arc<Mutex<Vec<DoorbellFields>>>);

impl Register for Remembers {
    unsafe fn store(&self, at: usize, value: u64) {
        assert_eq!(at, 0);
        self.0.lock().push(DoorbellFields::from_bits(u64::from_le(value)));
    }

    unsafe fn copy(&self, _: usize, _: &[u64; 8]) {
        panic!("this family's doorbells are words");
    }
}

const SLOTS: u32 = 256;
const RECEIVES: u32 = 16;
const COMPLETIONS: u32 = 64;

/// A queue pair, its completion ring, and the NIC's side of both.
struct Rig {
    sends: SendRing<Remembers>,
    receives: ReceiveRing<Remembers>,
    completions: CompletionRing<Remembers>,
    doorbells: Remembers,
    written: u32,
    slots: &'static [CompletionSlot],
    entries: &'static [Segment],
    received: &'static [Segment],
    messages: &'static [DmaCell<u64>],
}

fn leaked<T>(values: impl Iterator<Item = T>) -> &'static [T] {
    Box::leak(values.collect::<Box<[T]>>())
}

impl Rig {
    fn new(most: u32) -> Self {
        let slots = leaked((0..COMPLETIONS).map(|_| CompletionSlot::default()));
        let entries = leaked((0..SLOTS).map(|_| Segment::default()));
        let received = leaked((0..RECEIVES * 4).map(|_| Segment::default()));
        let messages = leaked((0..SLOTS / 2).map(|_| DmaCell::new(0)));
        let table: &'static Table<InFlight> = Box::leak(Box::new(Table::new(4)));
        let failures: &'static Failures = Box::leak(Box::new(Failures::new()));
        let in_flight: &'static InFlight = Box::leak(Box::new(InFlight {
            send: Outstanding::new(SLOTS / 2),
            receive: Outstanding::new(RECEIVES),
            send_mask: SLOTS - 1,
            send_ring: 5,
            receive_ring: 5,
        }));
        table.set(1u32, in_flight);
        let doorbells = Remembers(Arc::new(Mutex::new(Vec::new())));
        let number = QueueNumber::from(9);
        let limits = Limits { pieces: 6, inline: 96, max_message: 1 << 31 };
        let send = SendParts {
            slots: NonNull::from(entries).cast(),
            len: SLOTS,
            messages: NonNull::from(messages).cast(),
            most,
            limits,
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.send),
            register: doorbells.clone(),
        };
        let receive = ReceiveParts {
            slots: NonNull::from(received).cast(),
            len: RECEIVES,
            most: RECEIVES - 1,
            pieces: 2,
            max_message: 1 << 31,
            queue_pair: number,
            outstanding: NonNull::from(&in_flight.receive),
            register: doorbells.clone(),
        };
        let parts = CompletionParts {
            slots: NonNull::from(slots).cast(),
            len: COMPLETIONS,
            table: NonNull::from(table),
            failures: NonNull::from(failures),
            toggle: NonNull::from(Box::leak(Box::new(LastToggle::new()))),
            register: doorbells.clone(),
            number: QueueNumber::from(5),
        };
        // SAFETY: Q1, R1: everything is leaked, and each ring has its own.
        let (sends, receives, completions) =
            unsafe { (SendRing::new(send), ReceiveRing::new(receive), CompletionRing::new(parts)) };
        let written = 0;
        Rig { sends, receives, completions, doorbells, written, slots, entries, received, messages }
    }

    /// Writes a completion as the NIC does.
    fn complete(&mut self, bytes: &[u8; 32], kind: u8) {
        let mut completion = Bytes::read_from_bytes(bytes).unwrap();
        let toggle = self.written & COMPLETIONS == 0;
        completion.cqe_type_toggle = KindToggle::new().with_kind(kind & 15).with_toggle(toggle);
        // SAFETY: S1: there is one thread, and the ring is polled before it is full.
        unsafe { self.slots[(self.written % COMPLETIONS) as usize].write(completion) };
        self.written += 1;
    }

    fn done(&mut self, index: u16, status: u8) {
        let completion = RequestCompletion {
            qp_handle: 1.into(),
            sq_cons_idx: index.into(),
            status,
            ..RequestCompletion::new_zeroed()
        };
        let bytes: [u8; 32] = zerocopy::transmute!(completion);
        self.complete(&bytes, CompletionKind::Request.code());
    }

    fn filled(&mut self, index: u32, status: u8) {
        let completion = ReceiveCompletion {
            length: 77.into(),
            qp_handle: 1.into(),
            srq_or_rq_wr_id: index.into(),
            status,
            ..ReceiveCompletion::new_zeroed()
        };
        let bytes: [u8; 32] = zerocopy::transmute!(completion);
        self.complete(&bytes, CompletionKind::Receive.code());
    }

    fn entry<T: FromBytes>(&self, slot: usize) -> T {
        // SAFETY: S1: there is one thread.
        let words = [0, 1].map(|next| unsafe { self.entries[(slot + next) % 256].read() });
        T::read_from_bytes(words.as_bytes()).unwrap()
    }
}

fn piece(len: u32) -> LocalSlice {
    // SAFETY: M2: no NIC ever reads it.
    unsafe { LocalSlice::from_parts(0x1000, len, 0x77) }
}

#[test]
fn entries_messages_and_doorbells_are_what_the_nic_is_told() {
    let mut rig = Rig::new(85);
    rig.sends.connect(0xff_fffe, 12);
    rig.sends.post(wr::send_immediate(piece(5), 0xabcd).id(1).signaled().solicited()).unwrap();
    let to = RemoteSlice::new(0x9999, 1 << 20, 0x55);
    rig.sends.post(wr::write([piece(4096), piece(1)], to).unwrap().id(2).fenced()).unwrap();
    rig.sends.ring();
    // The first: three slots, one packet.
    let header: SendHeader = rig.entry(0);
    assert_eq!((header.wqe_type, header.wqe_size, header.length.get()), (1, 3, 5));
    assert_eq!(header.inv_key_or_imm_data.get(), 0xabcd);
    assert!(header.flags.signal_completion() && header.flags.solicited_event());
    // The second: four slots from the third on, two packets.
    let header: RdmaHeader = rig.entry(3);
    assert_eq!((header.wqe_type, header.wqe_size, header.length.get()), (4, 4, 4097));
    assert_eq!((header.remote_va.get(), header.remote_key.get()), (0x9999, 0x55));
    assert!(header.flags.unconditional_fence() && !header.flags.signal_completion());
    let message = |index: usize| {
        // SAFETY: S1: there is one thread.
        let word = unsafe { rig.messages[index].read() };
        let message = MessageSearch::read_from_bytes(&word.to_ne_bytes()).unwrap();
        (message.start_idx(), message.start_psn(), message.next_psn())
    };
    assert_eq!([message(0), message(1)], [(0, 0xff_fffe, 0xff_ffff), (3, 0xff_ffff, 1)]);
    let doorbell = rig.doorbells.0.lock().pop().unwrap();
    assert_eq!((doorbell.index(), doorbell.epoch(), doorbell.xid()), (7, false, 9));
    assert_eq!((doorbell.kind(), doorbell.valid()), (DoorbellKind::Send.code(), true));
    // Nothing new: no doorbell.
    rig.sends.ring();
    assert!(rig.doorbells.0.lock().is_empty());
}

#[test]
fn a_receive_of_no_pieces_has_one_of_no_bytes() {
    let mut rig = Rig::new(1);
    rig.receives.post(wr::receive(Nothing)).unwrap();
    rig.receives.post(wr::receive([piece(1), piece(2)])).unwrap();
    rig.receives.ring();
    let header = |index: usize| {
        // SAFETY: S1: there is one thread.
        let words = [0, 1].map(|next| unsafe { rig.received[index * 4 + next].read() });
        let header = ReceiveHeader::read_from_bytes(words.as_bytes()).unwrap();
        (header.wqe_type, header.wqe_size, header.wr_id[0].get())
    };
    assert_eq!([header(0), header(1)], [(0x80, 3, 0), (0x80, 4, 1)]);
    let doorbell = rig.doorbells.0.lock().pop().unwrap();
    assert_eq!((doorbell.index(), doorbell.kind()), (2, DoorbellKind::Receive.code()));
}

#[test]
fn one_completion_reports_every_signaled_request_before_it() {
    let mut rig = Rig::new(85);
    for id in 0..6 {
        let request = wr::send(piece(1)).id(id);
        match id % 2 {
            0 => rig.sends.post(request).unwrap(),
            _ => rig.sends.post(request.signaled()).unwrap(),
        }
    }
    rig.sends.ring();
    rig.done(6, 0);
    for id in [1, 3, 5] {
        assert!(matches!(rig.completions.poll(), Some(Completion::Sent(sent)) if sent.id == id));
    }
    assert_eq!(rig.completions.poll(), None);
    assert_eq!((rig.sends.room(), rig.sends.outstanding()), (85, 0));
}

#[test]
fn a_failure_names_its_entry_by_its_slot_and_the_rest_is_flushed() {
    let mut rig = Rig::new(85);
    for id in 0..5 {
        rig.sends.post(wr::send(piece(1)).id(id).signaled()).unwrap();
    }
    rig.sends.ring();
    rig.receives.post(wr::receive(piece(1)).id(9)).unwrap();
    rig.receives.ring();
    // Slots 0, 3, 6: the third entry fails, and nobody said that the two before it are done.
    rig.done(6, 7);
    for id in [0, 1] {
        assert!(matches!(rig.completions.poll(), Some(Completion::Sent(sent)) if sent.id == id));
    }
    let expected = [
        (2, Queue::Send, Status::RemoteAccess),
        (3, Queue::Send, Status::WorkRequestFlushed),
        (4, Queue::Send, Status::WorkRequestFlushed),
        (9, Queue::Receive, Status::WorkRequestFlushed),
    ];
    for (id, queue, status) in expected {
        let Some(Completion::Failed(failed)) = rig.completions.poll() else { panic!("{id}") };
        assert_eq!((failed.id, failed.queue, failed.status), (id, queue, status));
    }
    assert_eq!(rig.completions.poll(), None);
}

#[test]
fn a_receive_is_filled_that_comes_after_requests_that_nobody_is_told_of() {
    let mut rig = Rig::new(85);
    rig.sends.post(wr::send(piece(1)).id(1).signaled()).unwrap();
    rig.sends.post(wr::send(piece(1)).id(2)).unwrap();
    rig.sends.ring();
    rig.receives.post(wr::receive(piece(1)).id(9)).unwrap();
    rig.receives.ring();
    rig.done(2, 0);
    rig.filled(0, 0);
    assert!(matches!(rig.completions.poll(), Some(Completion::Sent(sent)) if sent.id == 1));
    let Some(Completion::Received(received)) = rig.completions.poll() else { panic!("not filled") };
    assert_eq!((received.id, received.len), (9, 77));
    assert_eq!(rig.completions.poll(), None);
    assert_eq!((rig.sends.outstanding(), rig.receives.outstanding()), (0, 0));
}

#[test]
fn fresh_memory_and_the_other_toggle_are_no_completions() {
    let mut rig = Rig::new(85);
    assert_eq!(rig.completions.poll(), None);
    for lap in 0..5u64 {
        for id in 0..COMPLETIONS.into() {
            rig.sends.post(wr::send(Nothing).id(id).signaled()).unwrap();
            rig.sends.ring();
            rig.done((lap * u64::from(COMPLETIONS) + id + 1) as u16, 0);
            let sent = rig.completions.poll();
            assert!(matches!(sent, Some(Completion::Sent(sent)) if sent.id == id));
            assert_eq!(rig.completions.poll(), None);
        }
    }
}

#[test]
fn the_nic_is_told_of_what_was_consumed_before_its_ring_is_full() {
    let mut rig = Rig::new(85);
    let mut told = 0;
    for index in 1..=1000u32 {
        rig.sends.post(wr::send(Nothing).signaled()).unwrap();
        rig.sends.ring();
        rig.done(index as u16, 0);
        assert!(rig.completions.poll().is_some());
        for doorbell in rig.doorbells.0.lock().drain(..) {
            if doorbell.kind() == DoorbellKind::Completion.code() {
                told = index;
                let place = index % COMPLETIONS;
                let epoch = index / COMPLETIONS % 2 == 1;
                assert_eq!((doorbell.index(), doorbell.epoch()), (place, epoch));
            }
        }
        assert!(index - told < COMPLETIONS / 2);
    }
}

/// Whatever the NIC writes: each request and each receive completes at most once, in order, and only
/// after it was posted; and there is never more room than there is.
#[test]
fn any_completions_complete_only_what_was_posted_once_and_in_order() {
    for seed in 1..40u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = move |most: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % most
        };
        let mut rig = Rig::new(80);
        let (mut posted, mut received) = (0u64, 0u64);
        let (mut next_sent, mut next_received) = (0u64, 0u64);
        let (mut rung, mut rung_receives) = (0, 0);
        for _ in 0..3000 {
            match random(8) {
                0 | 1 => match rig.sends.post(wr::send(piece(1)).id(posted).signaled()) {
                    Ok(()) => posted += 1,
                    Err(error) => assert_eq!(error, PostError::Full),
                },
                2 => match rig.receives.post(wr::receive(piece(1)).id(received)) {
                    Ok(()) => received += 1,
                    Err(error) => assert_eq!(error, PostError::Full),
                },
                3 => {
                    rig.sends.ring();
                    rig.receives.ring();
                    (rung, rung_receives) = (posted, received);
                }
                4 => {
                    let mut bytes = [0; 32];
                    bytes.fill_with(|| random(256) as u8);
                    // Mostly of the queue pair that there is.
                    if random(4) != 0 {
                        bytes[..8].copy_from_slice(&1u64.to_le_bytes());
                        bytes[8..16].copy_from_slice(&(random(256) << 8 | 1).to_le_bytes());
                    }
                    if random(2) == 0 {
                        bytes[25] = 0;
                    }
                    let kind = random(16) as u8;
                    rig.complete(&bytes, kind);
                }
                5 => rig.done((next_sent + random(3)) as u16, 0),
                6 => rig.filled((next_received + random(2)) as u32 % RECEIVES, 0),
                _ => {}
            }
            while let Some(completion) = rig.completions.poll() {
                let (id, queue) = match completion {
                    Completion::Sent(sent) => (sent.id, Queue::Send),
                    Completion::Received(received) => (received.id, Queue::Receive),
                    Completion::Failed(failed) => (failed.id, failed.queue),
                    Completion::Unrecognized(_) => continue,
                };
                let (next, most) = match queue {
                    Queue::Send => (&mut next_sent, rung),
                    Queue::Receive => (&mut next_received, rung_receives),
                };
                assert!(id < most, "seed {seed}: {id} of {most} in {queue:?}");
                assert_eq!(id, *next, "seed {seed}: {queue:?}");
                *next += 1;
            }
            let outstanding = (posted - next_sent) as u32;
            assert_eq!(rig.sends.outstanding(), outstanding, "seed {seed}");
            assert!(rig.sends.room() <= 80 - outstanding, "seed {seed}");
            let outstanding = (received - next_received) as u32;
            assert_eq!(rig.receives.room(), RECEIVES - 1 - outstanding, "seed {seed}");
        }
    }
}

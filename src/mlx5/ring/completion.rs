//! Polling a completion ring, and arming it.

use super::events::EventCount;
use super::outstanding::InFlight;
use super::segment::CompletionSlot;
use super::table::Table;
use crate::completion::{
    Arrival, Completion, Failed, Queue, QueuePairIndex, Received, Sent, Status, Unrecognized,
};
use crate::mlx5::abi::U24;
use crate::mlx5::abi::cqe::{self, CompletionOpcode as Kind, OpcodeOwner, Syndrome};
use crate::mlx5::abi::doorbell::{ArmDoorbell, ArmWord, CompletionQueueWord, ConsumerWord};
use crate::ring::Completions;
use crate::ring::table::Places;
use core::ptr::NonNull;
use doorbell_hal::mmio::{Caching, Register, Uncached};
use doorbell_hal::sync::{self, AtomicU32, Ordering};

/// Where a completion ring's parts are.
pub struct CompletionParts<R> {
    /// The slots.
    pub slots: NonNull<CompletionSlot>,
    /// How many slots there are: a power of two, at most 2^23.
    pub len: u32,
    /// The consumer word of the ring's doorbell record.
    pub consumer_record: NonNull<AtomicU32>,
    /// The arm word of the ring's doorbell record.
    pub arm_record: NonNull<AtomicU32>,
    /// The queue pairs whose completions come here.
    pub table: NonNull<Table>,
    /// How many events of the ring were read; counted by whoever reads them.
    pub events: NonNull<EventCount>,
    /// The register that arms completion queues.
    pub arm_register: R,
    /// The completion queue's number.
    pub number: U24,
}

/// A completion ring. One thread at a time polls and arms it.
pub struct CompletionRing<R> {
    /// The slot that the next completion comes in.
    next: NonNull<CompletionSlot>,
    /// The slot after the last.
    end: NonNull<CompletionSlot>,
    /// The NIC's pass over the ring, modulo 2: the owner bit of the next completion.
    pass: u8,
    /// Completions consumed so far, modulo 2^32.
    consumer: u32,
    consumer_record: NonNull<AtomicU32>,
    /// The table's places.
    places: Places<InFlight>,
    first: NonNull<CompletionSlot>,
    arm_record: NonNull<AtomicU32>,
    events: NonNull<EventCount>,
    arm_register: R,
    number: U24,
    /// The last completion that was a rare one.
    rare: Completion,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl<R: Send> Send for CompletionRing<R> {}

impl<R: Register> CompletionRing<R> {
    /// A ring that nothing was polled from.
    ///
    /// # Safety
    ///
    /// All that `parts` points to is valid for as long as the ring lives, and in no other ring's
    /// parts but for the table; the slots are fresh. What the table holds stays valid until it was
    /// taken out of the table *and* this ring was then seen [empty](Self::is_empty) or is gone
    /// (SAFETY.md, Q1).
    pub unsafe fn new(parts: CompletionParts<R>) -> Self {
        CompletionRing {
            next: parts.slots,
            // SAFETY: Q1: the end of the slots.
            end: unsafe { parts.slots.add(parts.len as usize) },
            pass: 0,
            consumer: 0,
            consumer_record: parts.consumer_record,
            // SAFETY: Q1: the table outlives this value.
            places: unsafe { parts.table.as_ref() }.places(),
            first: parts.slots,
            arm_record: parts.arm_record,
            events: parts.events,
            arm_register: parts.arm_register,
            number: parts.number,
            rare: Completion::Unrecognized(Unrecognized {
                queue_pair: QueuePairIndex(0),
                opcode: 0,
            }),
        }
    }

    /// Whether no completion waits.
    pub fn is_empty(&self) -> bool {
        // SAFETY: Q1: the next slot is in the ring.
        !unsafe { self.next.as_ref() }.owner().is_new(self.pass != 0)
    }

    /// The next completion, if one has come. Frees the slots of what completed.
    ///
    /// Completions of queue pairs that are gone are passed over.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<Completion> {
        // SAFETY: Q1: the next slot is in the ring, which outlives this value.
        let slot = unsafe { self.next.as_ref() };
        let owner = slot.owner();
        // The last byte of a request's completion is its owner bit and nothing else.
        let besides = owner.into_bits() ^ self.pass;
        if besides == 0 {
            let Some((in_flight, queue_pair)) = self.look_up(slot) else {
                return self.poll_rarely().copied();
            };
            // SAFETY: S1: the slot is ours; and the completion is of the queue's entry.
            let id = unsafe { in_flight.send.complete(slot.counter()) };
            self.consume(slot);
            return Some(Completion::Sent(Sent { id, queue_pair }));
        }
        if OpcodeOwner::from_bits(besides).owner() {
            return None;
        }
        let Some((in_flight, queue_pair)) = self.look_up(slot) else {
            return self.poll_rarely().copied();
        };
        // SAFETY: S1: the slot is ours; the immediate is in every completion.
        let by = match (owner.kind(), unsafe { slot.immediate() }) {
            (Ok(Kind::ReceiveSend), _) => Arrival::Send,
            (Ok(Kind::ReceiveSendImmediate), immediate) => Arrival::SendImmediate(immediate),
            (Ok(Kind::ReceiveSendInvalidate), rkey) => Arrival::SendInvalidate(rkey),
            (Ok(Kind::ReceiveWriteImmediate), immediate) => Arrival::WriteImmediate(immediate),
            _ => return self.poll_rarely().copied(),
        };
        let solicited = owner.solicited();
        // SAFETY: S1: the slot is ours; and the completion is of the queue's entry.
        let (id, len) = unsafe { (in_flight.receive.complete(slot.counter()), slot.byte_count()) };
        self.consume(slot);
        Some(Completion::Received(Received { id, queue_pair, len, by, solicited }))
    }

    /// The queue pair of a completion that has come, unless it is gone.
    #[inline(always)]
    fn look_up<'a>(&self, slot: &CompletionSlot) -> Option<(&'a InFlight, QueuePairIndex)> {
        sync::fence_after_owner();
        #[cfg(loom)]
        if sync::mutant::is(sync::mutant::Mutant::ConsumedBeforeRead) {
            self.publish(self.consumer.wrapping_add(1));
        }
        // SAFETY: S1: the owner byte said that the slot is ours, and the fence came after it.
        let word = unsafe { slot.user_index() };
        // What the bytes name is the queue pair that is found, whatever the other bits are.
        let index = self.places.index(word);
        // SAFETY: Q1: the table outlives this value; what it holds stays valid while this ring is
        // not seen empty, which a poller that has found a completion does not see.
        let in_flight = unsafe { self.places.get(index).as_ref() }?;
        Some((in_flight, QueuePairIndex(index)))
    }

    /// As [`poll`](Self::poll), for completions that are rare.
    ///
    /// It answers a place in the ring, so that a poll that finds a common one keeps none for it.
    #[cold]
    #[inline(never)]
    fn poll_rarely(&mut self) -> Option<&Completion> {
        loop {
            // SAFETY: Q1: the next slot is in the ring, which outlives this value.
            let slot = unsafe { self.next.as_ref() };
            let owner = slot.owner();
            if !owner.is_new(self.pass != 0) {
                return None;
            }
            let Some((in_flight, queue_pair)) = self.look_up(slot) else {
                // The queue pair is gone, and nobody waits for its completions.
                self.consume(slot);
                continue;
            };
            // SAFETY: S1: the slot is ours.
            let entry = unsafe { slot.read(owner) };
            let completion = rare(&entry, in_flight, queue_pair);
            self.consume(slot);
            if let Some(completion) = completion {
                self.rare = completion;
                return Some(&self.rare);
            }
        }
    }

    /// Goes on to the next slot, and gives the NIC this one back.
    #[inline(always)]
    fn consume(&mut self, slot: &CompletionSlot) {
        self.consumer = self.consumer.wrapping_add(1);
        // SAFETY: Q1: the slot after one of the ring is in the ring, or its end.
        self.next = unsafe { NonNull::from(slot).add(1) };
        if self.next == self.end {
            self.next = self.first;
            self.pass ^= 1;
        }
        self.publish(self.consumer);
    }

    /// Tells the NIC that the slots before `consumer` may be written again.
    #[inline(always)]
    fn publish(&self, consumer: u32) {
        let word = ConsumerWord::counting(consumer);
        // SAFETY: Q1: the record outlives the ring.
        let record = unsafe { self.consumer_record.as_ref() };
        // Released: the slot was read before. Pairs with the NIC reading the record before it
        // writes the slot again.
        record.store(word.to_memory(), Ordering::Release);
    }

    /// Asks for one event, when the next completion comes after those polled so far; with
    /// `solicited_only`, when the next solicited or failed one comes.
    ///
    /// If one has come already, the event is raised at once: nothing is lost between the last poll
    /// and arming.
    #[inline]
    pub fn arm(&mut self, solicited_only: bool) {
        // SAFETY: Q1: the counter and the record outlive the ring.
        let (events, record) = unsafe { (self.events.as_ref(), self.arm_record.as_ref()) };
        #[allow(unused_mut)]
        let mut consumer = self.consumer;
        #[cfg(loom)]
        if sync::mutant::is(sync::mutant::Mutant::ArmedWithStaleIndex) {
            consumer = consumer.wrapping_add(1);
        }
        let arm = ArmWord::of(U24::truncate(consumer), solicited_only, events.sequence());
        record.store(arm.to_memory(), Ordering::Relaxed);
        let cqn = CompletionQueueWord::of(self.number);
        // Pairs with the NIC reading the record after it saw the register.
        Uncached::before_store();
        // SAFETY: R1: the register was made with 8 bytes.
        unsafe { self.arm_register.store(0, ArmDoorbell { arm, cqn }.to_memory()) };
        Uncached::after_store();
    }
}

impl<R: Register> Completions for CompletionRing<R> {
    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        CompletionRing::poll(self)
    }

    fn is_empty(&self) -> bool {
        CompletionRing::is_empty(self)
    }
}

/// A completion that is none of the common ones; none if it is that of the entry that marks the end
/// of a queue pair that was taken down.
fn rare(
    entry: &cqe::Completion,
    in_flight: &InFlight,
    queue_pair: QueuePairIndex,
) -> Option<Completion> {
    let (queue, outstanding) = match entry.op_own.kind() {
        Ok(Kind::Request | Kind::RequestError) => (Queue::Send, &in_flight.send),
        Ok(
            Kind::ReceiveSend
            | Kind::ReceiveSendImmediate
            | Kind::ReceiveSendInvalidate
            | Kind::ReceiveWriteImmediate
            | Kind::ReceiveError,
        ) => (Queue::Receive, &in_flight.receive),
        _ => {
            let opcode = entry.op_own.opcode();
            return Some(Completion::Unrecognized(Unrecognized { queue_pair, opcode }));
        }
    };
    let counter = entry.wqe_counter.get();
    // Looked at before the entry is freed: when it is, the poster may start over, without an end.
    let is_end = outstanding.is_end(counter);
    // SAFETY: S1: only the poller calls this, with a completion that it found, of the queue's entry.
    let id = unsafe { outstanding.complete(counter) };
    #[cfg(loom)]
    let is_end = match sync::mutant::is(sync::mutant::Mutant::EndSeenAfterFreed) {
        true => outstanding.is_end(counter),
        false => is_end,
    };
    let by = match entry.op_own.kind() {
        Ok(Kind::Request) => return Some(Completion::Sent(Sent { id, queue_pair })),
        Ok(Kind::ReceiveSend) => Arrival::Send,
        Ok(Kind::ReceiveSendImmediate) => Arrival::SendImmediate(entry.imm_inval_pkey.get()),
        Ok(Kind::ReceiveSendInvalidate) => Arrival::SendInvalidate(entry.imm_inval_pkey.get()),
        Ok(Kind::ReceiveWriteImmediate) => Arrival::WriteImmediate(entry.imm_inval_pkey.get()),
        _ => {
            if is_end {
                return None;
            }
            let error = entry.as_error();
            let (status, vendor) = (status(error.syndrome()), error.vendor_err_synd);
            return Some(Completion::Failed(Failed { id, queue_pair, queue, status, vendor }));
        }
    };
    let (len, solicited) = (entry.byte_cnt.get(), entry.op_own.solicited());
    Some(Completion::Received(Received { id, queue_pair, len, by, solicited }))
}

fn status(syndrome: Syndrome) -> Status {
    match syndrome {
        Syndrome::LocalLength => Status::LocalLength,
        Syndrome::LocalQueuePairOperation => Status::LocalQueuePairOperation,
        Syndrome::LocalProtection => Status::LocalProtection,
        Syndrome::Flushed => Status::WorkRequestFlushed,
        Syndrome::MemoryWindowBind => Status::MemoryWindowBind,
        Syndrome::BadResponse => Status::BadResponse,
        Syndrome::LocalAccess => Status::LocalAccess,
        Syndrome::RemoteInvalidRequest => Status::RemoteInvalidRequest,
        Syndrome::RemoteAccess => Status::RemoteAccess,
        Syndrome::RemoteOperation => Status::RemoteOperation,
        Syndrome::TransportRetryExceeded => Status::TransportRetryExceeded,
        Syndrome::ReceiverNotReadyRetryExceeded => Status::ReceiverNotReadyRetryExceeded,
        Syndrome::RemoteAborted => Status::RemoteAborted,
        Syndrome::Other(code) => Status::Other(code),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::outstanding::Outstanding;
    use super::*;
    use crate::mlx5::abi::cqe::UserIndexWord;
    use alloc::boxed::Box;
    use alloc::string::ToString;

    struct Nowhere;

    impl Register for Nowhere {
        unsafe fn store(&self, _: usize, _: u64) {}

        unsafe fn copy(&self, _: usize, _: &[u64; 8]) {}
    }

    /// Polls a ring that holds `completion` alone, with queue pair 1 in a table of 4 places.
    fn poll(completion: cqe::Completion) -> Option<Completion> {
        let slot = Box::new(CompletionSlot::fresh());
        let (words, events) = ([0; 2].map(AtomicU32::new), EventCount::new());
        let in_flight = InFlight { send: Outstanding::new(4), receive: Outstanding::new(4) };
        let table = Table::new(4);
        table.set(U24::truncate(1), &in_flight);
        let [consumer_record, arm_record] = words.each_ref().map(NonNull::from);
        let parts = CompletionParts {
            slots: NonNull::from(&*slot),
            len: 1,
            consumer_record,
            arm_record,
            table: NonNull::from(&table),
            events: NonNull::from(&events),
            arm_register: Nowhere,
            number: U24::truncate(0),
        };
        // SAFETY: Q1: everything outlives the ring, which is gone when this returns.
        let mut ring = unsafe { CompletionRing::new(parts) };
        // SAFETY: S1: there is no other thread.
        unsafe { slot.write(completion) };
        ring.poll()
    }

    #[test]
    fn a_completion_is_of_the_queue_pair_that_was_found_whatever_other_bits_its_index_has() {
        for opcode in 0..15u8 {
            for high in [0, 4, 0x80, 0xff_fffc] {
                let completion = cqe::Completion {
                    op_own: OpcodeOwner::from_bits(opcode << 4),
                    srqn_uidx: UserIndexWord::new()
                        .with_user_index(U24::truncate(high | 1))
                        .with_reserved(0xff),
                    ..cqe::Completion::fresh()
                };
                let queue_pair = match poll(completion) {
                    Some(Completion::Sent(sent)) => sent.queue_pair,
                    Some(Completion::Received(received)) => received.queue_pair,
                    Some(Completion::Failed(failed)) => failed.queue_pair,
                    Some(Completion::Unrecognized(unrecognized)) => unrecognized.queue_pair,
                    None => panic!("opcode {opcode} was not found"),
                };
                assert_eq!(queue_pair.get(), 1, "opcode {opcode}, {high:#x}");
            }
        }
    }

    /// A failure of queue pair 1, whose entry starts at slot 2.
    fn failure(opcode: u8, syndrome: u8) -> cqe::Completion {
        let error = cqe::ErrorCompletion {
            srqn: UserIndexWord::new().with_user_index(U24::truncate(1)),
            vendor_err_synd: 0x5a,
            syndrome,
            wqe_counter: 2.into(),
            op_own: OpcodeOwner::from_bits(opcode << 4),
            // What is not defined of a failure is of no use to anybody.
            ..zerocopy::FromBytes::read_from_bytes(&[0xee; 64]).unwrap()
        };
        zerocopy::transmute!(error)
    }

    #[test]
    fn every_syndrome_of_a_failure_is_a_status_and_none_is_nothing() {
        // `MLX5_CQE_SYNDROME_*`, and the specification's names of them.
        let known = [
            (0x01, Status::LocalLength),
            (0x02, Status::LocalQueuePairOperation),
            (0x04, Status::LocalProtection),
            (0x05, Status::WorkRequestFlushed),
            (0x06, Status::MemoryWindowBind),
            (0x10, Status::BadResponse),
            (0x11, Status::LocalAccess),
            (0x12, Status::RemoteInvalidRequest),
            (0x13, Status::RemoteAccess),
            (0x14, Status::RemoteOperation),
            (0x15, Status::TransportRetryExceeded),
            (0x16, Status::ReceiverNotReadyRetryExceeded),
            (0x22, Status::RemoteAborted),
        ];
        for syndrome in 0..=u8::MAX {
            for (opcode, queue) in [(13, Queue::Send), (14, Queue::Receive)] {
                let expected = known.iter().find(|(code, _)| *code == syndrome);
                let expected = expected.map_or(Status::Other(syndrome), |(_, status)| *status);
                let Some(Completion::Failed(failed)) = poll(failure(opcode, syndrome)) else {
                    panic!("syndrome {syndrome:#x} of opcode {opcode} is no failure")
                };
                assert_eq!((failed.status, failed.queue), (expected, queue));
                assert_eq!((failed.id, failed.vendor), (0, 0x5a));
                let text = failed.to_string();
                assert!(text.contains(&expected.to_string()), "{text}");
            }
        }
    }

    #[test]
    fn every_opcode_is_a_completion_but_the_one_that_says_there_is_none() {
        for bits in 0..=u8::MAX {
            let completion = cqe::Completion {
                srqn_uidx: UserIndexWord::new().with_user_index(U24::truncate(1)),
                op_own: OpcodeOwner::from_bits(bits),
                ..cqe::Completion::fresh()
            };
            // Of the first pass the owner bit is 0, and 15 is the opcode of a slot never written.
            let expected = bits & 1 == 0 && bits >> 4 != 15;
            assert_eq!(poll(completion).is_some(), expected, "{bits:#04x}");
        }
    }
}

//! Polling a completion ring, and arming it.

use super::outstanding::{InFlight, Outstanding};
use super::segment::CompletionSlot;
use super::table::Table;
use crate::completion::{
    Arrival, Completion, Failed, Queue, QueuePairIndex, Received, Sent, Status, Unrecognized,
};
use crate::mlx5::abi::U24;
use crate::mlx5::abi::cqe::{self, CompletionOpcode, Syndrome};
use crate::mlx5::abi::doorbell::{
    ArmDoorbell, ArmSequence, ArmWord, CompletionQueueWord, ConsumerWord,
};
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
    /// How many events the ring has raised; counted by whoever reads events.
    pub events: NonNull<AtomicU32>,
    /// The register that arms completion queues.
    pub arm_register: R,
    /// The completion queue's number.
    pub number: U24,
}

/// A completion ring. One thread at a time polls and arms it.
pub struct CompletionRing<R> {
    slots: NonNull<CompletionSlot>,
    /// The number of slots, a power of two.
    len: u32,
    /// Completions consumed so far, modulo 2^32.
    consumer: u32,
    consumer_record: NonNull<AtomicU32>,
    table: NonNull<Table>,
    arm_record: NonNull<AtomicU32>,
    events: NonNull<AtomicU32>,
    arm_register: R,
    number: U24,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl<R: Send> Send for CompletionRing<R> {}

/// What a slot held.
enum Taken {
    Completion(Completion),
    /// A completion of a queue pair that is gone.
    Stray,
}

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
            slots: parts.slots,
            len: parts.len,
            consumer: 0,
            consumer_record: parts.consumer_record,
            arm_record: parts.arm_record,
            table: parts.table,
            events: parts.events,
            arm_register: parts.arm_register,
            number: parts.number,
        }
    }

    /// The slot that the next completion comes in, and whether it has come.
    #[inline(always)]
    fn next(&self) -> (&CompletionSlot, Option<cqe::OpcodeOwner>) {
        let index = (self.consumer & (self.len - 1)) as usize;
        // SAFETY: Q1: the index is masked to below the number of slots, which outlive the ring.
        let slot = unsafe { self.slots.add(index).as_ref() };
        let owner = slot.owner();
        let pass = self.consumer & self.len != 0;
        (slot, owner.is_new(pass).then_some(owner))
    }

    /// Whether no completion waits.
    pub fn is_empty(&self) -> bool {
        self.next().1.is_none()
    }

    /// The next completion, if one has come. Frees the slots of what completed.
    ///
    /// Completions of queue pairs that are gone are passed over.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<Completion> {
        loop {
            let (slot, owner) = self.next();
            let owner = owner?;
            sync::fence_after_owner();
            #[cfg(loom)]
            if sync::mutant::is(sync::mutant::Mutant::ConsumedBeforeRead) {
                self.publish(self.consumer.wrapping_add(1));
            }
            // SAFETY: S1: the owner byte says that the slot is ours, and the fence came after it.
            let entry = unsafe { slot.read(owner) };
            let taken = self.take(&entry);
            self.consumer = self.consumer.wrapping_add(1);
            self.publish(self.consumer);
            if let Taken::Completion(completion) = taken {
                return Some(completion);
            }
        }
    }

    /// Tells the NIC that the slots before `consumer` may be written again.
    #[inline(always)]
    fn publish(&self, consumer: u32) {
        let word = ConsumerWord::new().with_index(U24::truncate(consumer));
        // SAFETY: Q1: the record outlives the ring.
        let record = unsafe { self.consumer_record.as_ref() };
        // Released: the slot was read before. Pairs with the NIC reading the record before it
        // writes the slot again.
        record.store(word.to_memory(), Ordering::Release);
    }

    #[inline(always)]
    fn take(&self, entry: &cqe::Completion) -> Taken {
        let index = entry.srqn_uidx.user_index();
        // SAFETY: Q1: the table outlives the ring.
        let in_flight = unsafe { self.table.as_ref() }.get(index);
        if in_flight.is_null() {
            return Taken::Stray;
        }
        // SAFETY: Q1: what the table holds stays valid while this ring is not seen empty.
        let in_flight = unsafe { &*in_flight };
        let queue_pair = QueuePairIndex(index.get());
        Taken::Completion(match entry.op_own.kind() {
            Ok(CompletionOpcode::Request) => {
                let id = complete(&in_flight.send, entry);
                Completion::Sent(Sent { id, queue_pair })
            }
            Ok(CompletionOpcode::ReceiveSend) => {
                received(in_flight, entry, queue_pair, Arrival::Send)
            }
            Ok(CompletionOpcode::ReceiveSendImmediate) => {
                let immediate = entry.imm_inval_pkey.get();
                received(in_flight, entry, queue_pair, Arrival::SendImmediate(immediate))
            }
            Ok(CompletionOpcode::ReceiveSendInvalidate) => {
                let rkey = entry.imm_inval_pkey.get();
                received(in_flight, entry, queue_pair, Arrival::SendInvalidate(rkey))
            }
            Ok(CompletionOpcode::ReceiveWriteImmediate) => {
                let immediate = entry.imm_inval_pkey.get();
                received(in_flight, entry, queue_pair, Arrival::WriteImmediate(immediate))
            }
            _ => unsuccessful(in_flight, entry, queue_pair),
        })
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
        let arm = ArmWord::new()
            .with_consumer(U24::truncate(consumer))
            .with_solicited_only(solicited_only)
            .with_sequence(ArmSequence::of(events.load(Ordering::Relaxed)));
        record.store(arm.to_memory(), Ordering::Relaxed);
        let cqn = CompletionQueueWord::new().with_number(self.number);
        // Pairs with the NIC reading the record after it saw the register.
        Uncached::before_store();
        // SAFETY: R1: the register was made with 8 bytes.
        unsafe { self.arm_register.store(0, ArmDoorbell { arm, cqn }.to_memory()) };
        Uncached::after_store();
    }
}

#[inline(always)]
fn complete(queue: &Outstanding, entry: &cqe::Completion) -> u64 {
    // SAFETY: S1: only the poller of the ring that a queue completes into calls this, with a
    // completion that it found there.
    unsafe { queue.complete(entry.wqe_counter.get()) }
}

#[inline(always)]
fn received(
    in_flight: &InFlight,
    entry: &cqe::Completion,
    queue_pair: QueuePairIndex,
    by: Arrival,
) -> Completion {
    let id = complete(&in_flight.receive, entry);
    let solicited = entry.op_own.solicited();
    Completion::Received(Received { id, queue_pair, len: entry.byte_cnt.get(), by, solicited })
}

/// A completion that reports no success.
#[cold]
fn unsuccessful(
    in_flight: &InFlight,
    entry: &cqe::Completion,
    queue_pair: QueuePairIndex,
) -> Completion {
    let (queue, outstanding) = match entry.op_own.kind() {
        Ok(CompletionOpcode::RequestError) => (Queue::Send, &in_flight.send),
        Ok(CompletionOpcode::ReceiveError) => (Queue::Receive, &in_flight.receive),
        _ => {
            let opcode = entry.op_own.opcode();
            return Completion::Unrecognized(Unrecognized { queue_pair, opcode });
        }
    };
    let id = complete(outstanding, entry);
    let error = entry.as_error();
    let status = status(error.syndrome());
    Completion::Failed(Failed { id, queue_pair, queue, status, vendor: error.vendor_err_synd })
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

//! Polling a completion ring.

use super::arming::LastToggle;
use super::failures::Failures;
use super::outstanding::{InFlight, Outstanding};
use super::slot::CompletionSlot;
use crate::bnxt::abi::cqe::{
    CompletionKind as Kind, KindToggle, ReceiveFlags, ReceiveStatus, RequestStatus,
};
use crate::bnxt::abi::doorbell::{Arms, Doorbell, Moves, Position, QueueNumber};
use crate::completion::{
    Arrival, Completion, Failed, Queue, QueuePairIndex, Received, Sent, Status, Unrecognized,
};
use crate::ring::Completions;
use crate::ring::table::{Places, Table};
use core::ptr::NonNull;
use doorbell_hal::mmio::{Caching, Register, Uncached};
use doorbell_hal::sync;

/// Where a completion ring's parts are.
pub struct CompletionParts<R> {
    /// The slots, zeroed.
    pub slots: NonNull<CompletionSlot>,
    /// How many slots there are: a power of two, from 2 to 2^23.
    pub len: u32,
    /// The queue pairs whose completions come here.
    pub table: NonNull<Table<InFlight>>,
    /// The queue pairs that have failed.
    pub failures: NonNull<Failures>,
    /// The toggle of the last notification.
    pub toggle: NonNull<LastToggle>,
    /// The register that takes doorbells, of 8 bytes.
    pub register: R,
    /// The completion queue's number.
    pub number: QueueNumber,
}

/// A completion ring. One thread at a time polls it.
pub struct CompletionRing<R> {
    /// The slot that the next completion comes in.
    next: NonNull<CompletionSlot>,
    /// The slot after the last.
    end: NonNull<CompletionSlot>,
    /// The toggle of the next completion: true in the first pass over the ring.
    pass: bool,
    /// Completions consumed, modulo 2^32.
    consumer: u32,
    /// When so many are, the NIC is told.
    tell_at: u32,
    first: NonNull<CompletionSlot>,
    /// The number of slots, less one.
    mask: u32,
    places: Places<InFlight>,
    failures: NonNull<Failures>,
    toggle: NonNull<LastToggle>,
    register: R,
    doorbell: Doorbell<Moves>,
    /// That arm for any completion, and for a solicited one.
    arms: [Doorbell<Arms>; 2],
    number: u32,
    /// Requests that a completion said are done and that were not reported yet.
    rest: Rest,
}

/// Requests of one queue pair that are done, up to a count.
struct Rest {
    /// Null if there are none.
    in_flight: *const InFlight,
    queue_pair: QueuePairIndex,
    /// The number after the last.
    until: u32,
    /// Why the last of them failed, if it did.
    status: u8,
}

// SAFETY: Q1: the pointers are to memory that outlives the ring and is shared through cells and
// atomics only; the ring itself is used by one thread at a time, as it takes `&mut`.
unsafe impl<R: Send> Send for CompletionRing<R> {}

impl<R: Register> CompletionRing<R> {
    /// A ring that nothing was polled from.
    ///
    /// # Safety
    ///
    /// All that `parts` points to is valid for as long as the ring lives, and the slots are in no
    /// other ring's parts. What the table holds stays valid until it was taken out of the table *and*
    /// this ring was then seen [empty](Completions::is_empty) or is gone (SAFETY.md, Q1).
    pub unsafe fn new(parts: CompletionParts<R>) -> Self {
        CompletionRing {
            next: parts.slots,
            // SAFETY: Q1: the ring has that many slots.
            end: unsafe { parts.slots.add(parts.len as usize) },
            pass: true,
            consumer: 0,
            tell_at: parts.len / 2,
            first: parts.slots,
            mask: parts.len - 1,
            // SAFETY: Q1: the table outlives this value.
            places: unsafe { parts.table.as_ref() }.places(),
            failures: parts.failures,
            toggle: parts.toggle,
            register: parts.register,
            doorbell: Doorbell::completion(parts.number),
            arms: [
                Doorbell::completion_arm(parts.number),
                Doorbell::completion_arm_solicited(parts.number),
            ],
            number: parts.number.get(),
            rest: Rest {
                in_flight: core::ptr::null(),
                queue_pair: QueuePairIndex(0),
                until: 0,
                status: 0,
            },
        }
    }

    /// The next completion, if one has come. Frees the entries of what completed.
    ///
    /// Completions of queue pairs that are gone are passed over.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<Completion> {
        // SAFETY: Q1: the slot is in the ring, which outlives this value.
        let slot = unsafe { self.next.as_ref() };
        let (kind, toggle) = (slot.kind(), self.pass);
        if self.rest.in_flight.is_null() {
            if kind == KindToggle::of(Kind::Request, toggle) {
                sync::fence_after_owner();
                if let Some(completion) = self.common_request(slot) {
                    return Some(completion);
                }
            } else if kind == KindToggle::of(Kind::Receive, toggle) {
                sync::fence_after_owner();
                if let Some(completion) = self.common_receive(slot) {
                    return Some(completion);
                }
            // SAFETY: Q1: it outlives this value.
            } else if kind.toggle() != toggle && !unsafe { self.failures.as_ref() }.any() {
                return None;
            }
        }
        self.poll_rarely()
    }

    /// The queue pair that a completion's handle names, unless it is gone.
    #[inline(always)]
    fn look_up<'a>(&self, handle: u64) -> Option<(&'a InFlight, QueuePairIndex)> {
        let index = self.places.index(handle as u32);
        // SAFETY: Q1: the table outlives this value; what it holds stays valid while this ring is
        // not seen empty, which a poller that has found a completion does not see.
        let in_flight = unsafe { self.places.get(index).as_ref() }?;
        Some((in_flight, QueuePairIndex(index)))
    }

    /// What the completion of a request says most of the time: that the oldest one is done, and it
    /// alone. `None`, and nothing consumed, if it says something else.
    #[inline(always)]
    fn common_request(&mut self, slot: &CompletionSlot) -> Option<Completion> {
        // SAFETY: S1: the slot is ours.
        let (handle, second, status) = unsafe { (slot.first(), slot.second(), slot.status()) };
        let (in_flight, queue_pair) = self.look_up(handle)?;
        let outstanding = &in_flight.send;
        let completed = outstanding.own_completed();
        let ahead = (second as u32).wrapping_sub(completed) & in_flight.send_mask;
        if ahead != 1 || status != RequestStatus::Ok.code() || outstanding.posted() == completed {
            return None;
        }
        // SAFETY: S1: the entry is posted.
        if !unsafe { outstanding.end(completed) }.signaled() {
            return None;
        }
        // SAFETY: S1: as above.
        let id = unsafe { outstanding.take(completed) };
        self.consume();
        Some(Completion::Sent(Sent { id, queue_pair }))
    }

    /// What the completion of a receive says most of the time: that the oldest one is filled. `None`,
    /// and nothing consumed, if it says something else.
    #[inline(always)]
    fn common_receive(&mut self, slot: &CompletionSlot) -> Option<Completion> {
        // SAFETY: S1: the slot is ours.
        let (first, handle, opaque, flags, status) =
            unsafe { (slot.first(), slot.second(), slot.opaque(), slot.flags(), slot.status()) };
        let (in_flight, queue_pair) = self.look_up(handle)?;
        let outstanding = &in_flight.receive;
        let completed = outstanding.own_completed();
        // The NIC completes receives in order.
        let is_oldest = (opaque ^ completed) & outstanding.mask() & WORK_REQUEST_ID == 0;
        if !is_oldest || status != ReceiveStatus::Ok.code() || outstanding.posted() == completed {
            return None;
        }
        const IMMEDIATE: u16 = ReceiveFlags::IMMEDIATE;
        const INVALIDATE: u16 = ReceiveFlags::INVALIDATE;
        const RDMA: u16 = ReceiveFlags::RDMA;
        let immediate = (first >> 32) as u32;
        let by = if flags & (IMMEDIATE | INVALIDATE | RDMA) == 0 {
            Arrival::Send
        } else if flags & RDMA != 0 {
            Arrival::WriteImmediate(immediate)
        } else if flags & IMMEDIATE != 0 {
            Arrival::SendImmediate(immediate)
        } else {
            Arrival::SendInvalidate(immediate)
        };
        // SAFETY: S1: the entry is posted.
        let id = unsafe { outstanding.take(completed) };
        self.consume();
        let len = first as u32;
        Some(Completion::Received(Received { id, queue_pair, len, by, solicited: false }))
    }

    /// As [`poll`](Self::poll), for everything.
    #[cold]
    #[inline(never)]
    fn poll_rarely(&mut self) -> Option<Completion> {
        loop {
            if !self.rest.in_flight.is_null() {
                if let Some(completion) = self.poll_rest() {
                    return Some(completion);
                }
                continue;
            }
            // SAFETY: Q1: the slot is in the ring, which outlives this value.
            let slot = unsafe { self.next.as_ref() };
            let kind = slot.kind();
            if kind.toggle() != self.pass {
                return self.flush();
            }
            sync::fence_after_owner();
            let completion = match Kind::from_code(kind.kind()) {
                Some(Kind::Request) => self.rare_request(slot),
                Some(Kind::Receive) => {
                    // A common one comes here after unsignaled requests that were done.
                    if let Some(completion) = self.common_receive(slot) {
                        return Some(completion);
                    }
                    self.rare_receive(slot)
                }
                Some(Kind::Terminal) => {
                    // SAFETY: S1: the slot is ours.
                    if let Some((_, queue_pair)) = self.look_up(unsafe { slot.first() }) {
                        self.failed(queue_pair);
                    }
                    None
                }
                _ => {
                    // SAFETY: S1: the slot is ours.
                    let index = self.places.index(unsafe { slot.first() } as u32);
                    let (queue_pair, opcode) = (QueuePairIndex(index), kind.kind());
                    Some(Completion::Unrecognized(Unrecognized { queue_pair, opcode }))
                }
            };
            self.consume();
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// A request's completion that is not a common one: `None` if nothing is to be reported of it, or
    /// only what [`rest`](Self::rest) says.
    fn rare_request(&mut self, slot: &CompletionSlot) -> Option<Completion> {
        // SAFETY: S1: the slot is ours.
        let (handle, second, status) = unsafe { (slot.first(), slot.second(), slot.status()) };
        let (in_flight, queue_pair) = self.look_up(handle)?;
        let outstanding = &in_flight.send;
        let (completed, posted) = (outstanding.own_completed(), outstanding.posted());
        let most = posted.wrapping_sub(completed);
        let (index, mask) = (second as u32, in_flight.send_mask);
        let ahead = if status == RequestStatus::Ok.code() {
            index.wrapping_sub(completed) & mask
        } else {
            1 + failed_ahead(outstanding, completed, most, index, mask)
        };
        if ahead > most {
            // What was never posted cannot be done, nor fail.
            return Some(unrecognized(queue_pair, Kind::Request));
        }
        let until = completed.wrapping_add(ahead);
        self.rest = Rest { in_flight, queue_pair, until, status };
        None
    }

    /// A receive's completion that is not a common one: `None` if nothing is to be reported of it.
    fn rare_receive(&mut self, slot: &CompletionSlot) -> Option<Completion> {
        // SAFETY: S1: the slot is ours.
        let (handle, opaque, status) = unsafe { (slot.second(), slot.opaque(), slot.status()) };
        let (in_flight, queue_pair) = self.look_up(handle)?;
        let outstanding = &in_flight.receive;
        let completed = outstanding.own_completed();
        if ReceiveStatus::from_code(status) == ReceiveStatus::HardwareFlushed {
            // It is flushed with all the others, once the ring is empty.
            self.failed(queue_pair);
            return None;
        }
        let is_oldest = (opaque ^ completed) & outstanding.mask() & WORK_REQUEST_ID == 0;
        if !is_oldest || outstanding.posted() == completed {
            return Some(unrecognized(queue_pair, Kind::Receive));
        }
        self.failed(queue_pair);
        // SAFETY: S1: the entry is posted.
        let id = unsafe { outstanding.take(completed) };
        Some(failed_completion(id, queue_pair, Queue::Receive, receive_status(status)))
    }

    /// The next request to report of those that are done; `None` once there is none.
    fn poll_rest(&mut self) -> Option<Completion> {
        let Rest { in_flight, queue_pair, until, status } = self.rest;
        // SAFETY: T1: the table outlives this value.
        if unsafe { self.places.get(queue_pair.get()) } != in_flight {
            // It is gone, and nobody waits for its completions.
            self.rest.in_flight = core::ptr::null();
            return None;
        }
        // SAFETY: Q1: it is in the table, and this ring is not empty while it has a rest.
        let in_flight = unsafe { &*in_flight };
        let outstanding = &in_flight.send;
        let mut completed = outstanding.own_completed();
        while completed != until {
            let number = completed;
            completed = completed.wrapping_add(1);
            let is_last = completed == until;
            if is_last {
                self.rest.in_flight = core::ptr::null();
            }
            let has_failed = is_last && status != RequestStatus::Ok.code();
            // SAFETY: S1: the entry is posted: `until` was checked to be.
            if !has_failed && !unsafe { outstanding.end(number) }.signaled() {
                continue;
            }
            // SAFETY: S1: as above.
            let id = unsafe { outstanding.take(number) };
            if has_failed {
                self.failed(queue_pair);
                return Some(failed_completion(
                    id,
                    queue_pair,
                    Queue::Send,
                    request_status(status),
                ));
            }
            return Some(Completion::Sent(Sent { id, queue_pair }));
        }
        outstanding.complete(completed);
        self.rest.in_flight = core::ptr::null();
        None
    }

    fn failed(&self, queue_pair: QueuePairIndex) {
        // SAFETY: Q1: it outlives this value.
        unsafe { self.failures.as_ref() }.add(queue_pair.get());
    }

    /// Flushes what is outstanding of queue pairs that have failed: the next such entry.
    #[cold]
    #[inline(never)]
    fn flush(&mut self) -> Option<Completion> {
        // SAFETY: Q1: it outlives this value.
        let failures = unsafe { self.failures.as_ref() };
        failures.find(|index, emptied| {
            // Looked at again under the lock: what was noted before it is in the ring by now.
            if !self.no_completion_waits() {
                return None;
            }
            // SAFETY: Q1: the table outlives this value; a queue pair that is in it under the lock
            // has been forgotten by nobody.
            let in_flight = unsafe { self.places.get(index).as_ref() }?;
            let queue_pair = QueuePairIndex(index);
            let sends = (&in_flight.send, in_flight.send_ring, Queue::Send);
            let receives = (&in_flight.receive, in_flight.receive_ring, Queue::Receive);
            for (outstanding, ring, queue) in [sends, receives] {
                if ring != self.number {
                    continue;
                }
                let completed = outstanding.own_completed();
                if outstanding.posted() != completed {
                    // SAFETY: S1: the entry is posted, and completes here and nowhere else.
                    let id = unsafe { outstanding.take(completed) };
                    let status = Status::WorkRequestFlushed;
                    return Some(failed_completion(id, queue_pair, queue, status));
                }
            }
            emptied.send |= in_flight.send_ring == self.number;
            emptied.receive |= in_flight.receive_ring == self.number;
            None
        })
    }

    /// Goes on to the next slot, and gives the NIC those back that were consumed, when they are half of
    /// the ring.
    #[inline(always)]
    fn consume(&mut self) {
        self.consumer = self.consumer.wrapping_add(1);
        // SAFETY: Q1: the slot after one of the ring is in the ring, or its end.
        self.next = unsafe { self.next.add(1) };
        if self.next == self.end {
            self.next = self.first;
            self.pass = !self.pass;
        }
        if self.consumer == self.tell_at {
            self.tell();
        }
    }

    /// Tells the NIC that the slots consumed so far may be written again.
    #[inline(never)]
    fn tell(&mut self) {
        self.store(self.doorbell.to_memory(self.position(self.consumer)));
    }

    fn position(&self, consumer: u32) -> Position {
        Position::new(consumer & self.mask, consumer & (self.mask + 1) != 0)
    }

    /// Arms the queue: the next completion raises an event, or one that has come and was not polled does
    /// at once. With `solicited_only`, only one that the peer asked for, or a failure.
    ///
    /// Needs no system call and no lock. An arm that was never followed by an event can be repeated.
    #[inline]
    pub fn arm(&mut self, solicited_only: bool) {
        // SAFETY: Q1: it outlives this value.
        let toggle = unsafe { self.toggle.as_ref() }.get();
        let consumer = self.consumer;
        #[cfg(loom)]
        let consumer = match sync::mutant::is(sync::mutant::Mutant::ArmedWithStaleIndex) {
            true => consumer.wrapping_add(1),
            false => consumer,
        };
        let arm = self.arms[usize::from(solicited_only)];
        self.store(arm.to_memory(self.position(consumer), toggle));
    }

    /// Stores a doorbell that says how far the ring was consumed.
    #[inline]
    fn store(&mut self, word: u64) {
        // Half of the ring may be consumed until the NIC has to know.
        self.tell_at = self.consumer.wrapping_add(self.mask / 2 + 1);
        // The slots were read before: a NIC writes them again after it saw the register.
        Uncached::before_store();
        // SAFETY: R1: the register was made with 8 bytes.
        unsafe { self.register.store(0, word) };
        Uncached::after_store();
    }

    fn no_completion_waits(&self) -> bool {
        // SAFETY: Q1: the slot is in the ring, which outlives this value.
        let kind = unsafe { self.next.as_ref() }.kind();
        kind.toggle() != self.pass
    }
}

impl<R: Register> Completions for CompletionRing<R> {
    #[inline(always)]
    fn poll(&mut self) -> Option<Completion> {
        CompletionRing::poll(self)
    }

    fn is_empty(&self) -> bool {
        self.rest.in_flight.is_null() && self.no_completion_waits()
    }
}

/// What of a receive's completion names the receive.
const WORK_REQUEST_ID: u32 = (1 << 20) - 1;

/// How many requests come before the one that starts at slot `slot`, of the `most` that are
/// outstanding; none if none starts there.
fn failed_ahead(outstanding: &Outstanding, completed: u32, most: u32, slot: u32, mask: u32) -> u32 {
    // SAFETY: S1: entries before `posted` are posted; that before `completed` was, and is written
    // again only once it is free, which it is not while the one after it is outstanding.
    let end = |number: u32| unsafe { outstanding.end(number) }.slot();
    (1..most).find(|ahead| (end(completed.wrapping_add(ahead - 1)) ^ slot) & mask == 0).unwrap_or(0)
}

fn failed_completion(
    id: u64,
    queue_pair: QueuePairIndex,
    queue: Queue,
    status: Status,
) -> Completion {
    Completion::Failed(Failed { id, queue_pair, queue, status, vendor: 0 })
}

fn unrecognized(queue_pair: QueuePairIndex, kind: Kind) -> Completion {
    Completion::Unrecognized(Unrecognized { queue_pair, opcode: kind.code() })
}

fn request_status(code: u8) -> Status {
    match RequestStatus::from_code(code) {
        RequestStatus::BadResponse => Status::BadResponse,
        RequestStatus::LocalLength => Status::LocalLength,
        RequestStatus::LocalQueuePairOperation => Status::LocalQueuePairOperation,
        RequestStatus::LocalProtection => Status::LocalProtection,
        RequestStatus::MemoryManagement => Status::MemoryWindowBind,
        RequestStatus::RemoteInvalidRequest => Status::RemoteInvalidRequest,
        RequestStatus::RemoteAccess => Status::RemoteAccess,
        RequestStatus::RemoteOperation => Status::RemoteOperation,
        RequestStatus::ReceiverNotReadyRetries => Status::ReceiverNotReadyRetryExceeded,
        RequestStatus::TransportRetries => Status::TransportRetryExceeded,
        RequestStatus::Flushed => Status::WorkRequestFlushed,
        RequestStatus::Ok | RequestStatus::Other(_) => Status::Other(code),
    }
}

fn receive_status(code: u8) -> Status {
    match ReceiveStatus::from_code(code) {
        ReceiveStatus::LocalAccess => Status::LocalAccess,
        ReceiveStatus::LocalLength => Status::LocalLength,
        ReceiveStatus::LocalProtection => Status::LocalProtection,
        ReceiveStatus::LocalQueuePairOperation => Status::LocalQueuePairOperation,
        ReceiveStatus::MemoryManagement => Status::MemoryWindowBind,
        ReceiveStatus::RemoteInvalidRequest => Status::RemoteInvalidRequest,
        ReceiveStatus::Flushed | ReceiveStatus::HardwareFlushed => Status::WorkRequestFlushed,
        ReceiveStatus::Ok | ReceiveStatus::Other(_) => Status::Other(code),
    }
}

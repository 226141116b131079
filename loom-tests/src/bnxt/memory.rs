//! The memory that the rings are made of.

use crate::bus::{Bus, Doorbell, Held, first};
use doorbell::bnxt::abi::doorbell::QueueNumber;
use doorbell::bnxt::ring::completion::CompletionParts;
use doorbell::bnxt::ring::entry::Limits;
use doorbell::bnxt::ring::outstanding::{End, Outstanding};
use doorbell::bnxt::ring::receive::ReceiveParts;
use doorbell::bnxt::ring::send::{SLOTS_OF_ONE_PIECE, SendParts};
use doorbell::bnxt::ring::slot::CompletionSlot;
use doorbell::bnxt::ring::{CompletionRing, Failures, InFlight, LastToggle, ReceiveRing, SendRing};
use doorbell::ring::segment::Segment;
use doorbell::ring::table::Table;
use doorbell::wr::{self, LocalSlice, Send, WorkRequest};
use doorbell_hal::sync::DmaCell;
use std::ptr::NonNull;
use std::sync::Arc;

/// Slots of every entry here.
pub const SLOTS: usize = SLOTS_OF_ONE_PIECE as usize;
/// The index of a model's only queue pair.
pub const INDEX: u32 = 0;
/// The number of a model's only completion queue.
pub const RING: QueueNumber = QueueNumber::new(5).unwrap();

/// A queue pair's memory.
pub struct QueuePair {
    pub send_slots: Vec<Segment>,
    pub messages: Vec<DmaCell<u64>>,
    pub receive_slots: Vec<Segment>,
    pub in_flight: InFlight,
    pub bus: Arc<Bus>,
    most: u32,
    most_receives: u32,
}

impl QueuePair {
    /// Of `sends` requests of one piece and `receives` receives of one piece at once.
    pub fn new(sends: u32, receives: u32) -> Arc<Self> {
        let segments = |count: usize| (0..count).map(|_| Segment::default()).collect();
        let slots = (sends * SLOTS_OF_ONE_PIECE + 1).next_power_of_two();
        let entries = (receives + 1).next_power_of_two();
        Arc::new(QueuePair {
            send_slots: segments(slots as usize),
            messages: (0..slots.div_ceil(2)).map(|_| DmaCell::new(0)).collect(),
            receive_slots: segments(entries as usize * SLOTS),
            in_flight: InFlight {
                // As few as can be, so that they go round.
                send: Outstanding::new(sends),
                receive: Outstanding::new(receives),
                send_mask: slots - 1,
                send_ring: RING.get(),
                receive_ring: RING.get(),
            },
            bus: Bus::new(),
            most: sends,
            most_receives: receives,
        })
    }

    /// Its send ring. To be called once.
    pub fn send_ring(self: &Arc<Self>) -> Held<SendRing<Doorbell>, Self> {
        let parts = SendParts {
            slots: first(&self.send_slots),
            len: self.send_slots.len() as u32,
            messages: first(&self.messages),
            most: self.most,
            limits: Limits { pieces: 1, inline: 16, max_message: 1 << 31 },
            queue_pair: QueueNumber::from(9),
            outstanding: NonNull::from(&self.in_flight.send),
            register: Doorbell(self.bus.clone()),
        };
        // SAFETY: Q1: all is in `self`, which is held with the ring. R1: the register takes any
        // offset.
        Held::new(unsafe { SendRing::new(parts) }, self)
    }

    /// Its receive ring. To be called once.
    pub fn receive_ring(self: &Arc<Self>) -> Held<ReceiveRing<Doorbell>, Self> {
        let parts = ReceiveParts {
            slots: first(&self.receive_slots),
            len: (self.receive_slots.len() / SLOTS) as u32,
            most: self.most_receives,
            pieces: 1,
            max_message: 1 << 31,
            queue_pair: QueueNumber::from(9),
            outstanding: NonNull::from(&self.in_flight.receive),
            register: Doorbell(self.bus.clone()),
        };
        // SAFETY: Q1: all is in `self`, which is held with the ring. R1: as above.
        Held::new(unsafe { ReceiveRing::new(parts) }, self)
    }
}

/// A piece of a request or receive, made of its number.
pub fn piece(number: u32) -> LocalSlice {
    // SAFETY: M2: no NIC of a model looks behind a key.
    unsafe { LocalSlice::from_parts(0x1000 * u64::from(number + 1), 100 + number, 0x80 + number) }
}

/// The request with `number`, which is its id, too.
pub fn request(number: u32) -> WorkRequest<Send<LocalSlice>, false> {
    wr::send(piece(number)).id(number.into())
}

/// Notes and announces entry `number`, as if its poster had.
///
/// # Safety
///
/// Nobody else has the entry yet (SAFETY.md, S1).
pub unsafe fn post_id(outstanding: &Outstanding, number: u32, id: u64) {
    let end = End::new((number + 1) * SLOTS_OF_ONE_PIECE, true);
    // SAFETY: S1: passed on to our caller (and checked by loom).
    unsafe { outstanding.note(number, id, end) };
    outstanding.publish(number + 1);
}

/// A completion queue's memory, and its NIC's table.
pub struct CompletionQueue {
    pub slots: Vec<CompletionSlot>,
    pub failures: Failures,
    pub toggle: LastToggle,
    pub table: Arc<Table<InFlight>>,
    pub bus: Arc<Bus>,
}

/// A completion ring in a model.
pub type PolledRing = Held<CompletionRing<Doorbell>, CompletionQueue>;

impl CompletionQueue {
    /// Of `len` slots, for the queue pairs of `table`.
    pub fn new(len: usize, table: &Arc<Table<InFlight>>) -> Arc<Self> {
        Arc::new(CompletionQueue {
            slots: (0..len).map(|_| CompletionSlot::default()).collect(),
            failures: Failures::new(),
            toggle: LastToggle::new(),
            table: table.clone(),
            bus: Bus::new(),
        })
    }

    /// Of `len` slots, for `queue_pair` at index 0, which outlives the ring.
    pub fn of(len: usize, queue_pair: &Arc<QueuePair>) -> Arc<Self> {
        let table = Arc::new(Table::new(1));
        table.set(INDEX, &queue_pair.in_flight);
        Self::new(len, &table)
    }

    /// Its ring. To be called once.
    pub fn ring(self: &Arc<Self>) -> PolledRing {
        let parts = CompletionParts {
            slots: first(&self.slots),
            len: self.slots.len() as u32,
            table: NonNull::from(&*self.table),
            failures: NonNull::from(&self.failures),
            toggle: NonNull::from(&self.toggle),
            register: Doorbell(self.bus.clone()),
            number: RING,
        };
        // SAFETY: Q1: all is in `self`, which is held with the ring; models keep what the table
        // holds until they have seen the ring empty. R1: the register takes any offset.
        Held::new(unsafe { CompletionRing::new(parts) }, self)
    }
}

//! The memory that rings are made of.

use crate::bus::{Bus, Doorbell, Held, first};
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::wqe::SLOT_SEGMENTS;
use doorbell::mlx5::ring::completion::CompletionParts;
use doorbell::mlx5::ring::entry::{LEAST_SLOTS, Limits};
use doorbell::mlx5::ring::receive::ReceiveParts;
use doorbell::mlx5::ring::segment::{CompletionSlot, Segment};
use doorbell::mlx5::ring::send::SendParts;
use doorbell::mlx5::ring::table::Table;
use doorbell::mlx5::ring::{
    CompletionRing, EventCount, InFlight, Outstanding, ReceiveRing, SendRing,
};
use doorbell_hal::mmio::Caching;
use doorbell_hal::sync::AtomicU32;
use std::ptr::NonNull;
use std::sync::Arc;

/// A queue pair's memory.
pub struct QueuePair {
    pub send_segments: Vec<Segment>,
    pub send_record: AtomicU32,
    pub receive_segments: Vec<Segment>,
    pub receive_record: AtomicU32,
    pub in_flight: InFlight,
    pub bus: Arc<Bus>,
}

/// The most pieces of a receive.
pub const PIECES: usize = 2;

impl QueuePair {
    /// Of `sends` slots and `receives` receives.
    pub fn new(sends: u32, receives: u32) -> Arc<Self> {
        let segments = |count: usize| (0..count).map(|_| Segment::default()).collect();
        Arc::new(QueuePair {
            send_segments: segments(sends as usize * SLOT_SEGMENTS),
            send_record: AtomicU32::new(0),
            receive_segments: segments(receives as usize * PIECES),
            receive_record: AtomicU32::new(0),
            in_flight: InFlight {
                send: Outstanding::new(sends),
                receive: Outstanding::new(receives),
            },
            bus: Bus::new(),
        })
    }

    /// Its send ring. To be called once.
    pub fn send_ring<C: Caching>(self: &Arc<Self>) -> Held<SendRing<Doorbell, C>, Self> {
        let parts = SendParts {
            segments: first(&self.send_segments),
            len: (self.send_segments.len() / SLOT_SEGMENTS) as u32,
            limits: Limits { segments: LEAST_SLOTS * SLOT_SEGMENTS, max_message: 1 << 30 },
            queue_pair: U24::truncate(0x77),
            outstanding: NonNull::from(&self.in_flight.send),
            record: NonNull::from(&self.send_record),
            register: Doorbell(self.bus.clone()),
        };
        // SAFETY: Q1: all is in `self`, which is held with the ring. R1: the register takes any
        // offset.
        Held::new(unsafe { SendRing::new(parts) }, self)
    }

    /// Its receive ring. To be called once.
    pub fn receive_ring(self: &Arc<Self>) -> Held<ReceiveRing, Self> {
        let parts = ReceiveParts {
            segments: first(&self.receive_segments),
            len: (self.receive_segments.len() / PIECES) as u32,
            pieces: PIECES as u32,
            max_message: 1 << 30,
            outstanding: NonNull::from(&self.in_flight.receive),
            record: NonNull::from(&self.receive_record),
        };
        // SAFETY: Q1: all is in `self`, which is held with the ring.
        Held::new(unsafe { ReceiveRing::new(parts) }, self)
    }
}

/// Notes the id of the entry that starts at slot `slot`, as if its poster had.
///
/// # Safety
///
/// The id is the caller's (SAFETY.md, S1).
pub unsafe fn write_id(outstanding: &Outstanding, slot: u32, id: u64) {
    // SAFETY: Q2: there is an id for each slot. S1: passed on to our caller (and checked by loom).
    unsafe { outstanding.id(slot).as_ref().write(id) };
}

/// A completion queue's memory, and its NIC's table.
pub struct CompletionQueue {
    pub slots: Vec<CompletionSlot>,
    pub consumer_record: AtomicU32,
    pub arm_record: AtomicU32,
    pub events: EventCount,
    pub table: Arc<Table>,
    pub bus: Arc<Bus>,
}

/// A completion ring in a model.
pub type PolledRing = Held<CompletionRing<Doorbell>, CompletionQueue>;

impl CompletionQueue {
    /// Of `len` slots, for the queue pairs of `table`.
    pub fn new(len: usize, table: &Arc<Table>) -> Arc<Self> {
        Arc::new(CompletionQueue {
            slots: (0..len).map(|_| CompletionSlot::fresh()).collect(),
            consumer_record: AtomicU32::new(0),
            arm_record: AtomicU32::new(0),
            events: EventCount::new(),
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
            consumer_record: NonNull::from(&self.consumer_record),
            arm_record: NonNull::from(&self.arm_record),
            table: NonNull::from(&*self.table),
            events: NonNull::from(&self.events),
            arm_register: Doorbell(self.bus.clone()),
            number: U24::truncate(5),
        };
        // SAFETY: Q1: all is in `self`, which is held with the ring; models keep what the table
        // holds until they have seen the ring empty. R1: the register takes any offset.
        Held::new(unsafe { CompletionRing::new(parts) }, self)
    }
}

/// The user index of a model's only queue pair.
pub const INDEX: U24 = U24::truncate(0);

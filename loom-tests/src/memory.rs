//! The memory that rings are made of, and the bus to the registers.

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
use doorbell_hal::mmio::{Caching, Register};
use doorbell_hal::sync::{AtomicU32, AtomicU64, Ordering};
use loom::thread::Thread;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// A store to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// Of 8 bytes, at this offset.
    Word(usize, u64),
    /// Of 64 bytes, at this offset.
    Slot(usize, [u64; 8]),
}

/// What carries stores to registers to the NIC: each whole, in the order in which they were made,
/// and at any time after. They order nothing else: that is the fences' before them.
pub struct Bus {
    /// How many stores there were. Their values are beside it, where loom does not look, as a value
    /// and its arrival are one.
    count: AtomicU64,
    stores: Mutex<Vec<Store>>,
    /// Woken by a store, if anybody is to be.
    nic: Mutex<Option<Thread>>,
}

impl Bus {
    fn new() -> Arc<Self> {
        let (stores, nic) = (Mutex::default(), Mutex::default());
        Arc::new(Bus { count: AtomicU64::new(0), stores, nic })
    }

    /// Has stores wake `nic`.
    pub fn wakes(&self, nic: &Thread) {
        *self.nic.lock().unwrap_or_else(PoisonError::into_inner) = Some(nic.clone());
    }

    fn carry(&self, store: Store) {
        let count = {
            let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
            stores.push(store);
            stores.len() as u64
        };
        self.count.store(count, Ordering::Relaxed);
        let nic = self.nic.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(nic) = nic {
            nic.unpark();
        }
    }

    /// The stores after the first `seen` that have arrived. What the NIC does next, it does after.
    pub fn arrived(&self, seen: usize) -> Vec<Store> {
        let count = self.count.load(Ordering::Acquire) as usize;
        let stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores[seen..count].to_vec()
    }
}

/// A register at the end of a bus.
pub struct Doorbell(Arc<Bus>);

impl Register for Doorbell {
    unsafe fn store(&self, at: usize, value: u64) {
        self.0.carry(Store::Word(at, value));
    }

    unsafe fn copy(&self, at: usize, slot: &[u64; 8]) {
        self.0.carry(Store::Slot(at, *slot));
    }
}

/// A ring, with the memory that it is in.
pub struct Held<R, M> {
    ring: R,
    _memory: Arc<M>,
}

impl<R, M> Deref for Held<R, M> {
    type Target = R;

    fn deref(&self) -> &R {
        &self.ring
    }
}

impl<R, M> DerefMut for Held<R, M> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.ring
    }
}

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
        Held { ring: unsafe { SendRing::new(parts) }, _memory: self.clone() }
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
        Held { ring: unsafe { ReceiveRing::new(parts) }, _memory: self.clone() }
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
        Held { ring: unsafe { CompletionRing::new(parts) }, _memory: self.clone() }
    }
}

/// The user index of a model's only queue pair.
pub const INDEX: U24 = U24::truncate(0);

fn first<T>(of: &[T]) -> NonNull<T> {
    NonNull::from(of).cast()
}

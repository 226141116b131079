//! The bus to the registers, and rings with what they are in.

use doorbell_hal::mmio::Register;
use doorbell_hal::sync::{AtomicU64, Ordering};
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
    pub fn new() -> Arc<Self> {
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
pub struct Doorbell(pub Arc<Bus>);

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

impl<R, M> Held<R, M> {
    pub fn new(ring: R, memory: &Arc<M>) -> Self {
        Held { ring, _memory: memory.clone() }
    }
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

/// Where the values are.
pub fn first<T>(of: &[T]) -> NonNull<T> {
    NonNull::from(of).cast()
}

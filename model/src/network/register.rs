//! The doorbell registers, as the processor sees them: stores go into a bounded queue, in order,
//! and the NIC takes them out.
//!
//! A store allocates nothing and makes no system call, but for waking a NIC thread that sleeps.

use crossbeam_queue::ArrayQueue;
use doorbell_hal::mmio::{Register, RegisterPage};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::Thread;

/// The size in bytes of one UAR page.
pub const UAR_PAGE: usize = 4096;

/// One store to a page of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// 8 bytes, stored at once.
    Word {
        /// The UAR page.
        page: u32,
        /// Where in the page, in bytes; a multiple of 8.
        offset: u32,
        /// The bytes in memory order: the lowest address is the lowest byte of a little-endian
        /// machine's number.
        value: u64,
    },
    /// 64 bytes, copied in rising order of addresses and seen by the NIC as one burst.
    Slot {
        /// The UAR page.
        page: u32,
        /// Where in the page, in bytes; a multiple of 64.
        offset: u32,
        /// The bytes in memory order.
        slot: [u64; 8],
    },
}

/// The way from the processor to the NIC: every store to every register page, in order.
pub(crate) struct Bus {
    queue: ArrayQueue<Store>,
    /// What did not fit, where the NIC takes nothing until a test tells it to.
    overflow: Mutex<VecDeque<Store>>,
    overflowed: AtomicBool,
    /// Whether a full queue stalls the processor until the NIC has taken something, as a bus does.
    stalls: bool,
    sleeping: AtomicBool,
    /// The NIC's thread, once it runs.
    thread: OnceLock<Thread>,
    /// The NIC is gone: stores go nowhere, as on a bus without a device.
    gone: AtomicBool,
    seen: AtomicU64,
    /// Stores that may wait: those that come when there are as many are lost.
    most: AtomicUsize,
    lost: AtomicU64,
}

impl Bus {
    /// A bus of `depth` stores. `stalls` says whether a thread takes them out all the time.
    pub(crate) fn new(depth: usize, stalls: bool) -> Self {
        Bus {
            queue: ArrayQueue::new(depth.max(1)),
            overflow: Mutex::default(),
            overflowed: AtomicBool::new(false),
            stalls,
            sleeping: AtomicBool::new(false),
            thread: OnceLock::new(),
            gone: AtomicBool::new(false),
            seen: AtomicU64::new(0),
            most: AtomicUsize::new(usize::MAX),
            lost: AtomicU64::new(0),
        }
    }

    /// The store that comes next, if there is one.
    pub(crate) fn take(&self) -> Option<Store> {
        let store = self.queue.pop().or_else(|| self.take_overflow())?;
        self.seen.fetch_add(1, Ordering::Relaxed);
        Some(store)
    }

    fn take_overflow(&self) -> Option<Store> {
        if !self.overflowed.load(Ordering::Acquire) {
            return None;
        }
        let mut overflow = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
        let store = overflow.pop_front();
        if overflow.is_empty() {
            self.overflowed.store(false, Ordering::Release);
        }
        store
    }

    /// How many stores the NIC has taken.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Whether a store waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && !self.overflowed.load(Ordering::Acquire)
    }

    /// How many stores wait, about.
    pub(crate) fn waiting(&self) -> usize {
        let overflow = match self.overflowed.load(Ordering::Acquire) {
            true => self.overflow.lock().unwrap_or_else(PoisonError::into_inner).len(),
            false => 0,
        };
        self.queue.len() + overflow
    }

    /// Has the NIC lose stores that come while `most` wait.
    pub(crate) fn lose_past(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// How many stores were lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether a store that comes now is lost. Counts it.
    fn loses(&self) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let loses = most != usize::MAX && self.waiting() >= most;
        if loses {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        loses
    }

    /// Names the thread that takes the stores out, to be woken by them.
    pub(crate) fn served_by(&self, thread: Thread) {
        let _ = self.thread.set(thread);
    }

    /// Says that the serving thread is about to sleep. It has to look once more after this:
    /// pairs with the fence in [`Self::wake`].
    pub(crate) fn going_to_sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the serving thread is awake again.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// From here on stores go nowhere.
    pub(crate) fn unplug(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Puts a store on the bus and wakes nobody. Answers whether there was room.
    pub(crate) fn try_put(&self, store: Store) -> bool {
        self.gone.load(Ordering::Acquire)
            || self.loses()
            || !self.overflowed.load(Ordering::Acquire) && self.queue.push(store).is_ok()
    }

    /// Puts a store on the bus.
    pub(crate) fn put(&self, store: Store) {
        if self.gone.load(Ordering::Acquire) || self.loses() {
            return;
        }
        if self.overflowed.load(Ordering::Acquire) {
            return self.put_overflow(store);
        }
        let mut store = store;
        while let Err(back) = self.queue.push(store) {
            if !self.stalls {
                return self.put_overflow(back);
            }
            store = back;
            self.wake();
            std::thread::yield_now();
            if self.gone.load(Ordering::Acquire) {
                return;
            }
        }
        self.wake();
    }

    #[cold]
    fn put_overflow(&self, store: Store) {
        let mut overflow = self.overflow.lock().unwrap_or_else(PoisonError::into_inner);
        overflow.push_back(store);
        self.overflowed.store(true, Ordering::Release);
    }

    /// Wakes the serving thread if it sleeps.
    pub(crate) fn wake(&self) {
        // Pairs with the fence in `going_to_sleep`: either that thread sees what was queued before
        // this, or this sees that it is going to sleep.
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

/// A UAR page of a virtual NIC, mapped.
pub struct VirtualPage {
    bus: Arc<Bus>,
    page: u32,
    /// Held for as long as the page is mapped or one of its registers lives.
    mapping: Arc<Mapping>,
}

/// Runs something when the last user of a mapping is gone.
pub(crate) struct Mapping(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Mapping {
    pub(crate) fn new(unmap: impl FnOnce() + Send + Sync + 'static) -> Arc<Mapping> {
        Arc::new(Mapping(Some(Box::new(unmap))))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if let Some(unmap) = self.0.take() {
            unmap();
        }
    }
}

impl VirtualPage {
    pub(crate) fn new(bus: Arc<Bus>, page: u32, mapping: Arc<Mapping>) -> Self {
        VirtualPage { bus, page, mapping }
    }
}

impl RegisterPage for VirtualPage {
    type Register = VirtualRegister;

    fn register(&self, offset: usize, len: usize) -> Option<VirtualRegister> {
        let end = offset.checked_add(len)?;
        if !offset.is_multiple_of(8) || !len.is_multiple_of(8) || len == 0 || end > UAR_PAGE {
            return None;
        }
        Some(VirtualRegister {
            bus: Arc::clone(&self.bus),
            page: self.page,
            offset: offset as u32,
            len: len as u32,
            _mapping: Arc::clone(&self.mapping),
        })
    }
}

/// A doorbell register of a virtual NIC, which sees every store to it.
pub struct VirtualRegister {
    bus: Arc<Bus>,
    page: u32,
    offset: u32,
    len: u32,
    _mapping: Arc<Mapping>,
}

impl VirtualRegister {
    /// Whether an access keeps R1. A driver that breaks it is stopped here, where hardware would
    /// let it write to its neighbour's register.
    fn inside(&self, at: usize, size: usize) -> bool {
        at.is_multiple_of(size) && at.checked_add(size).is_some_and(|end| end <= self.len as usize)
    }
}

impl Register for VirtualRegister {
    unsafe fn store(&self, at: usize, value: u64) {
        debug_assert!(self.inside(at, 8), "a store of 8 bytes at {at} leaves the register (R1)");
        self.bus.put(Store::Word { page: self.page, offset: self.offset + at as u32, value });
    }

    unsafe fn copy(&self, at: usize, slot: &[u64; 8]) {
        debug_assert!(self.inside(at, 64), "a copy of 64 bytes at {at} leaves the register (R1)");
        self.bus.put(Store::Slot { page: self.page, offset: self.offset + at as u32, slot: *slot });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(value: u64) -> Store {
        Store::Word { page: 3, offset: 0x800, value }
    }

    fn page(bus: &Arc<Bus>) -> VirtualPage {
        VirtualPage::new(Arc::clone(bus), 3, Mapping::new(|| ()))
    }

    #[test]
    fn stores_come_out_in_order_also_past_the_depth_of_the_queue() {
        let bus = Arc::new(Bus::new(4, false));
        let register = page(&bus).register(0x800, 256).unwrap();
        for value in 0..20 {
            // SAFETY: R1: offset 0 of a 256-byte register.
            unsafe { register.store(0, value) };
        }
        for value in 0..20 {
            assert_eq!(bus.take(), Some(word(value)));
        }
        assert_eq!(bus.take(), None);
        assert!(bus.is_empty());
        // SAFETY: R1: as above.
        unsafe { register.copy(64, &[9; 8]) };
        assert_eq!(bus.take(), Some(Store::Slot { page: 3, offset: 0x840, slot: [9; 8] }));
        assert_eq!(bus.seen(), 21);
    }

    #[test]
    fn a_full_bus_stalls_the_processor_and_loses_nothing() {
        let bus = Arc::new(Bus::new(2, true));
        let register = page(&bus).register(0x800, 8).unwrap();
        let storing = std::thread::spawn(move || {
            for value in 0..1000 {
                // SAFETY: R1: the register is 8 bytes.
                unsafe { register.store(0, value) };
            }
        });
        for value in 0..1000 {
            let store = loop {
                match bus.take() {
                    Some(store) => break store,
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(store, word(value));
        }
        storing.join().unwrap();
    }

    #[test]
    fn registers_lie_inside_their_page_and_are_aligned() {
        let bus = Arc::new(Bus::new(2, true));
        let page = page(&bus);
        assert!(page.register(0x20, 8).is_some());
        assert!(page.register(4096 - 8, 8).is_some());
        for (offset, len) in [(4096, 8), (4090, 8), (0x20, 4), (4, 8), (0, 4104), (0, 0)] {
            assert!(page.register(offset, len).is_none(), "{offset} {len}");
        }
        assert!(page.register(usize::MAX - 7, 8).is_none());
    }

    #[test]
    fn the_mapping_ends_with_the_last_register() {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ended);
        let bus = Arc::new(Bus::new(2, true));
        let mapping = Mapping::new(move || flag.store(true, Ordering::Relaxed));
        let page = VirtualPage::new(bus, 3, mapping);
        let register = page.register(0x800, 8).unwrap();
        drop(page);
        assert!(!ended.load(Ordering::Relaxed));
        drop(register);
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn an_unplugged_nic_swallows_stores() {
        let bus = Arc::new(Bus::new(1, true));
        let register = page(&bus).register(0x800, 8).unwrap();
        bus.unplug();
        for value in 0..10 {
            // SAFETY: R1: the register is 8 bytes.
            unsafe { register.store(0, value) };
        }
        assert_eq!(bus.take(), None);
    }
}

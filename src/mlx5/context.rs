//! What every object of a NIC shares: its verbs file, its port, and the numbers and memory that
//! objects are made of.

use super::abi::driver::{self, UarAllocType};
use super::abi::verbs::method;
use super::abi::{U24, uar};
use super::call::Call;
use super::ring::EventCount;
use super::ring::table::Table;
use crate::endpoint::{LinkLayer, Mtu};
use crate::error::Error;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::ptr::NonNull;
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::RegisterPage;
use doorbell_hal::sync::{AtomicU32, Mutex, Ordering};
use doorbell_hal::uverbs::Uverbs;

/// A register of a NIC that is reached through `V`.
pub(super) type RegisterOf<V> = <<V as Uverbs>::Page as RegisterPage>::Register;

/// An open NIC, as its objects see it.
///
/// The verbs file and the register pages, whose mappings hold it open, are dropped before the memory
/// that the kernel might hold: fields are dropped in their order.
pub(super) struct Context<V: Uverbs> {
    pub(super) verbs: V,
    pub(super) port: Port,
    pub(super) limits: DeviceLimits,
    pub(super) protection_domain: u32,
    /// The page that completion queues are armed through, and that queue pairs ring which have no
    /// write-combining register.
    pub(super) uncached: UarPage<V>,
    combining: Mutex<Combining<V>>,
    indexes: Mutex<Indexes>,
    pub(super) table: Table,
    records: Mutex<Records<V::Memory>>,
    /// The event counters of completion queues, by the number that their events carry.
    counters: Mutex<Counters>,
    /// Memory of objects that the kernel refused to destroy: it may use it until the file closes.
    kept: Mutex<Vec<V::Memory>>,
}

/// Port 1, as it was when the NIC was opened.
pub(super) struct Port {
    pub(super) link: LinkLayer,
    pub(super) mtu: Mtu,
    pub(super) lid: u16,
    pub(super) gid: [u8; 16],
    pub(super) gid_index: u8,
    /// The port's Ethernet address, where the table of identifiers says it.
    pub(super) mac: Option<[u8; 6]>,
    pub(super) max_message: u32,
}

impl Port {
    /// The port's address on its link, as endpoints have it. On Ethernet, a link-local identifier
    /// that was made from it says which it is; where there is none, it is not known.
    pub(super) fn address(&self) -> [u8; 6] {
        match self.link {
            LinkLayer::Ethernet => self.mac.unwrap_or_default(),
            LinkLayer::InfiniBand => {
                let [upper, lower] = self.lid.to_be_bytes();
                [upper, lower, 0, 0, 0, 0]
            }
        }
    }
}

/// The most that the device holds of things.
pub(super) struct DeviceLimits {
    pub(super) queue_pairs: u32,
    pub(super) completion_entries: u32,
    pub(super) send_slots: u32,
    pub(super) send_entry_bytes: u32,
    pub(super) receives: u32,
    pub(super) receive_entry_bytes: u32,
    /// Reads and atomics that a queue pair answers at once.
    pub(super) read_depth: u8,
    /// Reads and atomics that a queue pair has under way at once.
    pub(super) initiator_depth: u8,
}

/// A page of registers.
pub(super) struct UarPage<V: Uverbs> {
    pub(super) page: V::Page,
    pub(super) id: u32,
}

impl<V: Uverbs> UarPage<V> {
    /// Has the kernel make a page of registers, and maps it.
    pub(super) fn make(verbs: &V, kind: UarAllocType) -> Result<Self, Error> {
        let (mut offset, mut length, mut id) = (0u64, 0u32, 0u32);
        use driver::uar_alloc as attribute;
        let call = Call::new("UAR_OBJ_ALLOC", driver::uar::ALLOC)
            .new_handle(attribute::HANDLE)
            .constant(attribute::TYPE, kind.code())
            .output(attribute::MMAP_OFFSET, &mut offset)
            .output(attribute::MMAP_LENGTH, &mut length)
            .output(attribute::PAGE_ID, &mut id);
        // SAFETY: K2: the call hands no memory to the device.
        let answer = unsafe { call.make(verbs) }?;
        let handle = answer.handle(attribute::HANDLE);
        let mapped = if (length as usize) < uar::BYTES {
            let (device, bytes) = (verbs.device_name().into(), length.into());
            Err(Error::TooFewRegisters { device, bytes, page: uar::BYTES as u64 })
        } else {
            verbs.map(offset, length as usize).map_err(|reason| Error::Refused {
                device: verbs.device_name().into(),
                call: "mmap of a register page",
                reason,
            })
        };
        match mapped {
            Ok(page) => Ok(UarPage { page, id }),
            Err(error) => {
                let call = Call::new("UAR_OBJ_DESTROY", driver::uar::DESTROY)
                    .handle(driver::uar_destroy::HANDLE, handle);
                // A page that cannot be given back goes with the file.
                // SAFETY: K2: the call hands no memory to the device.
                let _ = unsafe { call.make(verbs) };
                Err(error)
            }
        }
    }

    /// The `len` bytes of registers at `offset`.
    pub(super) fn register(
        &self,
        verbs: &V,
        offset: usize,
        len: usize,
    ) -> Result<RegisterOf<V>, Error> {
        self.page.register(offset, len).ok_or_else(|| Error::TooFewRegisters {
            device: verbs.device_name().into(),
            bytes: 0,
            page: (offset + len) as u64,
        })
    }
}

/// A send register of a page, on loan to one queue pair until it is dropped or lost.
pub(super) struct SendRegister<V: Uverbs> {
    context: Arc<Context<V>>,
    place: Place,
    returns: bool,
}

/// Where a send register is.
#[derive(Clone, Copy)]
struct Place {
    /// The page's place among the write-combining ones; `None` for the uncached page.
    page: Option<usize>,
    /// Which of the page's registers.
    register: usize,
    /// What the kernel calls the page.
    page_id: u32,
}

impl<V: Uverbs> SendRegister<V> {
    /// What the kernel calls the register's page.
    pub(super) fn page_id(&self) -> u32 {
        self.place.page_id
    }

    /// The register, to be stored to.
    pub(super) fn open(&self) -> Result<RegisterOf<V>, Error> {
        let context = &self.context;
        let offset = uar::SEND_OFFSET + self.place.register * uar::SEND_REGISTER_BYTES;
        let open =
            |page: &UarPage<V>| page.register(&context.verbs, offset, uar::SEND_REGISTER_BYTES);
        match self.place.page {
            None => open(&context.uncached),
            Some(place) => match context.combining.lock().pages.get(place) {
                Some(page) => open(page),
                None => Err(Error::Mismatched { what: "a register and its page" }),
            },
        }
    }

    /// Never lends the register again: a queue pair that the kernel would not destroy has it.
    pub(super) fn lose(mut self) {
        self.returns = false;
    }
}

impl<V: Uverbs> Drop for SendRegister<V> {
    fn drop(&mut self) {
        if self.returns && self.place.page.is_some() {
            self.context.combining.lock().free.push(self.place);
        }
    }
}

/// The write-combining pages, and which of their registers are free.
struct Combining<V: Uverbs> {
    pages: Vec<UarPage<V>>,
    free: Vec<Place>,
}

/// User indexes, the smallest first.
struct Indexes {
    next: u32,
    free: BTreeSet<u32>,
}

/// The doorbell records of a NIC's queues, each in a cache line of its own.
struct Records<M> {
    pages: Vec<M>,
    free: Vec<Words>,
}

/// Bytes between two records, so that no two threads write to one cache line.
const RECORD_STRIDE: usize = 64;

/// The two words of a doorbell record.
#[derive(Clone, Copy)]
struct Words(NonNull<[AtomicU32; 2]>);

// SAFETY: Q1: a record is two atomics in memory of the context, which outlives its objects.
unsafe impl Send for Words {}
// SAFETY: Q1: as for `Send`.
unsafe impl Sync for Words {}

impl Words {
    /// The first and the second word.
    fn each(self) -> [NonNull<AtomicU32>; 2] {
        let first = self.0.cast::<AtomicU32>();
        // SAFETY: Q1: the record has two words.
        [first, unsafe { first.add(1) }]
    }
}

/// A doorbell record, zeroed, on loan to one queue until it is dropped or lost.
pub(super) struct Record<V: Uverbs> {
    context: Arc<Context<V>>,
    words: Words,
    returns: bool,
}

impl<V: Uverbs> Record<V> {
    /// The record's address, for the kernel.
    pub(super) fn address(&self) -> u64 {
        self.words.0.as_ptr() as u64
    }

    /// The record's first and second word.
    pub(super) fn words(&self) -> [NonNull<AtomicU32>; 2] {
        self.words.each()
    }

    /// Never lends the record again: a queue that the kernel would not destroy has it.
    pub(super) fn lose(mut self) {
        self.returns = false;
    }
}

impl<V: Uverbs> Drop for Record<V> {
    fn drop(&mut self) {
        if self.returns {
            self.context.records.lock().free.push(self.words);
        }
    }
}

/// The numbers that completion queues' events carry, and the counters that count the events.
struct Counters {
    next: u64,
    by_number: BTreeMap<u64, Weak<EventCount>>,
}

impl<V: Uverbs> Context<V> {
    pub(super) fn new(
        verbs: V,
        port: Port,
        limits: DeviceLimits,
        protection_domain: u32,
        uncached: UarPage<V>,
    ) -> Self {
        Context {
            verbs,
            port,
            protection_domain,
            uncached,
            combining: Mutex::new(Combining { pages: Vec::new(), free: Vec::new() }),
            indexes: Mutex::new(Indexes { next: 0, free: BTreeSet::new() }),
            table: Table::new(limits.queue_pairs),
            limits,
            records: Mutex::new(Records { pages: Vec::new(), free: Vec::new() }),
            counters: Mutex::new(Counters { next: 1, by_number: BTreeMap::new() }),
            kept: Mutex::new(Vec::new()),
        }
    }

    /// An error of the kernel for a call that is not an ioctl.
    pub(super) fn refused(&self, call: &'static str) -> impl FnOnce(doorbell_hal::Errno) -> Error {
        move |reason| Error::Refused { device: self.verbs.device_name().into(), call, reason }
    }

    /// Memory for a ring.
    pub(super) fn allocate(&self, len: usize) -> Result<V::Memory, Error> {
        self.verbs.allocate(len).map_err(self.refused("the allocation of memory"))
    }

    /// Keeps memory that the kernel may still use until the file is closed.
    pub(super) fn keep(&self, memory: V::Memory) {
        self.kept.lock().push(memory);
    }

    pub(super) fn take_record(self: &Arc<Self>) -> Result<Record<V>, Error> {
        let mut records = self.records.lock();
        if records.free.is_empty() {
            let page = self.allocate(self.verbs.page_size())?;
            for at in (0..page.len()).step_by(RECORD_STRIDE).rev() {
                // SAFETY: M1: `at` is inside the page, and a multiple of the stride.
                records.free.push(Words(unsafe { page.as_ptr().add(at) }.cast()));
            }
            records.pages.push(page);
        }
        // A page has room for records, so there is one.
        let none = || self.refused("the allocation of memory")(Errno::ENOMEM);
        let words = records.free.pop().ok_or_else(none)?;
        for word in words.each() {
            // SAFETY: Q1: the record's words are in memory of this context.
            unsafe { word.as_ref() }.store(0, Ordering::Relaxed);
        }
        Ok(Record { context: self.clone(), words, returns: true })
    }

    /// A user index that nothing has.
    pub(super) fn take_index(&self) -> Result<U24, Error> {
        let mut indexes = self.indexes.lock();
        if let Some(index) = indexes.free.pop_first() {
            return Ok(U24::truncate(index));
        }
        // The largest 24-bit number stands for "none" with this NIC family.
        let most = self.table.len().min(U24::MAX.get());
        if indexes.next >= most {
            return Err(Error::OutOfRange {
                what: "the number of queue pairs",
                given: u64::from(indexes.next) + 1,
                least: 0,
                most: most.into(),
            });
        }
        indexes.next += 1;
        Ok(U24::truncate(indexes.next - 1))
    }

    /// Takes back an index that no completion can carry any more.
    pub(super) fn return_index(&self, index: U24) {
        self.indexes.lock().free.insert(index.get());
    }

    /// The uncached send register. Queue pairs share it: a doorbell is one store of 8 bytes.
    pub(super) fn uncached_register(self: &Arc<Self>) -> SendRegister<V> {
        let place = Place { page: None, register: 0, page_id: self.uncached.id };
        SendRegister { context: self.clone(), place, returns: true }
    }

    /// A write-combining send register of one's own.
    pub(super) fn take_combining_register(self: &Arc<Self>) -> Result<SendRegister<V>, Error> {
        let mut combining = self.combining.lock();
        if combining.free.is_empty() {
            let page = UarPage::make(&self.verbs, UarAllocType::BlueFlame)?;
            let (place, page_id) = (combining.pages.len(), page.id);
            for register in (0..uar::SEND_REGISTERS).rev() {
                combining.free.push(Place { page: Some(place), register, page_id });
            }
            combining.pages.push(page);
        }
        // A page has registers, so there is one.
        let none = || self.refused("UAR_OBJ_ALLOC")(Errno::ENOSPC);
        let place = combining.free.pop().ok_or_else(none)?;
        Ok(SendRegister { context: self.clone(), place, returns: true })
    }

    /// A number for a completion queue's events, which `counter` will count.
    pub(super) fn add_counter(&self, counter: Weak<EventCount>) -> u64 {
        let mut counters = self.counters.lock();
        let number = counters.next;
        counters.next += 1;
        counters.by_number.insert(number, counter);
        number
    }

    pub(super) fn remove_counter(&self, number: u64) {
        self.counters.lock().by_number.remove(&number);
    }

    /// Counts an event of the completion queue with `number`; false if it is gone.
    pub(super) fn count_event(&self, number: u64) -> bool {
        let counters = self.counters.lock();
        let Some(counter) = counters.by_number.get(&number).and_then(Weak::upgrade) else {
            return false;
        };
        // One at a time, as the lock is held.
        counter.count();
        true
    }

    /// Destroys an object whose destruction takes a handle, and answers `output`.
    pub(super) fn destroy<O>(
        &self,
        name: &'static str,
        method: method::Method,
        handle: (u16, u32),
        response: (u16, &mut O),
    ) -> Result<(), Error>
    where
        O: zerocopy::IntoBytes + zerocopy::FromBytes,
    {
        let call =
            Call::new(name, method).handle(handle.0, handle.1).output(response.0, response.1);
        // SAFETY: K2: the call hands no memory to the device.
        unsafe { call.make(&self.verbs) }.map(drop)
    }
}

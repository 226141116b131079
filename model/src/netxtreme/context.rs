//! The backing store: memory that the driver lends, in which the firmware keeps its contexts.
//!
//! The contexts of this NIC's objects are elsewhere. But each object also has its entry in the memory
//! that was lent, which says what it is, and is looked at again with every command and doorbell: a
//! driver that lends too little, or takes memory back while objects are there, is found out.

use super::Bounds;
use super::page_table::{BadTable, Table, log_page};
use crate::memory::{AddressSpace, Ring};
use doorbell::bnxt::abi::firmware::context::{FuncBackingStoreCfgV2Request, context_type};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;

/// A type of context.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub(super) kind: u16,
    pub(super) entry_bytes: u16,
    pub(super) most: u32,
    pub(super) fewest: u32,
    pub(super) multiple: u8,
    /// A bit for each instance; 0 for one.
    pub(super) instances: u32,
    /// What the first byte of each entry is at first, if not 0.
    pub(super) fill: Option<u8>,
    /// Parts of the entries.
    pub(super) parts: SmallVec<[u32; 4]>,
}

/// Queue pairs of Ethernet, and of management.
const ETHERNET_PAIRS: u32 = 32;
const MANAGEMENT_PAIRS: u32 = 1;
const ETHERNET_QUEUES: u32 = 64;
const ETHERNET_SHARED: u32 = 32;
/// What an entry of a queue pair's context is at first.
const FRESH: u8 = 0xcc;
/// The first byte of an entry that is in use.
const IN_USE: u8 = 0xa5;
/// The bytes of an entry that say whose it is.
const RECORD: usize = 8;

/// The types of context that this NIC has, in the order of their numbers.
pub(super) fn types(bounds: &Bounds) -> Vec<Description> {
    let pairs = bounds.queue_pairs + ETHERNET_PAIRS + MANAGEMENT_PAIRS;
    let all_pairs = pairs + bounds.fast_queue_pairs;
    let plain = |kind, entry_bytes, most| Description {
        kind,
        entry_bytes,
        most,
        fewest: 1,
        multiple: 1,
        instances: 0,
        fill: None,
        parts: SmallVec::new(),
    };
    let queue_memory = |kind, instances| Description {
        fewest: 128,
        multiple: 32,
        instances,
        ..plain(kind, 16, (4 * all_pairs + 4096).next_multiple_of(32))
    };
    vec![
        Description {
            fill: Some(FRESH),
            parts: [ETHERNET_PAIRS, MANAGEMENT_PAIRS, bounds.fast_queue_pairs]
                .into_iter()
                .collect(),
            ..plain(context_type::QP, 448, all_pairs)
        },
        Description {
            parts: [ETHERNET_SHARED].into_iter().collect(),
            ..plain(context_type::SRQ, 64, bounds.shared_receive_queues + ETHERNET_SHARED)
        },
        Description {
            parts: [ETHERNET_QUEUES].into_iter().collect(),
            ..plain(context_type::CQ, 64, 2 * all_pairs + ETHERNET_QUEUES)
        },
        plain(context_type::VNIC, 32, 128),
        plain(context_type::STAT, 192, 256),
        queue_memory(context_type::SP_TQM_RING, 0),
        queue_memory(context_type::FP_TQM_RING, 0b101),
        Description {
            parts: [bounds.address_vectors].into_iter().collect(),
            ..plain(context_type::MRAV, 128, bounds.keys + bounds.address_vectors)
        },
        plain(context_type::TIM, 8, all_pairs),
    ]
}

/// Why memory cannot be used for contexts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unfit {
    Entries(u32),
    EntrySize(u16),
    Instance(u16),
    Table(BadTable),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unfit::Entries(entries) => {
                write!(f, "{entries} entries are not among those that it has")
            }
            Unfit::EntrySize(bytes) => write!(f, "its entries do not have {bytes} bytes"),
            Unfit::Instance(instance) => write!(f, "it has no instance {instance}"),
            Unfit::Table(why) => why.fmt(f),
        }
    }
}

/// Memory that was lent for a type of context.
struct Lent {
    memory: Ring,
    entries: u32,
    entry_bytes: u16,
    parts: SmallVec<[u32; 4]>,
}

/// All that was lent.
#[derive(Default)]
pub(super) struct BackingStore {
    lent: BTreeMap<(u16, u16), Lent>,
    sealed: bool,
}

/// An object that has a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// The type of its context.
    pub(super) kind: u16,
    /// Which entry.
    pub(super) entry: u32,
}

impl Object {
    /// What its entry begins with: whose it is.
    fn record(self) -> [u8; RECORD] {
        let [a, b, c, d] = self.entry.to_le_bytes();
        let [low, high] = self.kind.to_le_bytes();
        [IN_USE, 0, low, high, a, b, c, d]
    }
}

impl BackingStore {
    /// Memory is lent.
    pub(super) fn lend(
        &mut self,
        description: &Description,
        request: &FuncBackingStoreCfgV2Request,
        space: &dyn AddressSpace,
    ) -> Result<(), Unfit> {
        let entries = request.num_entries.get();
        let instance = request.instance.get();
        if !(description.fewest..=description.most).contains(&entries)
            || !entries.is_multiple_of(description.multiple.max(1).into())
        {
            return Err(Unfit::Entries(entries));
        }
        if request.entry_size.get() != description.entry_bytes {
            return Err(Unfit::EntrySize(request.entry_size.get()));
        }
        let there = match description.instances {
            0 => instance == 0,
            map => map.checked_shr(instance.into()).is_some_and(|map| map & 1 != 0),
        };
        if !there {
            return Err(Unfit::Instance(instance));
        }
        let shape = request.page_size_pbl_level;
        let table = Table {
            top: request.page_dir.get(),
            levels: shape & 0xf,
            log_page: log_page(shape >> 4).map_err(Unfit::Table)?,
        };
        let bytes = u64::from(entries) * u64::from(description.entry_bytes);
        let memory = table.ring(space, bytes).map_err(Unfit::Table)?;
        // All of it is there.
        let mut byte = [0];
        for at in (0..bytes).step_by(4096).chain(bytes.checked_sub(1)) {
            memory.read(space, at, &mut byte).map_err(|why| Unfit::Table(why.into()))?;
        }
        if let Some(fill) = description.fill {
            // The driver fills the first byte of each entry of each page by itself.
            let per_page = 4096 / u64::from(description.entry_bytes).max(1);
            let last = u64::from(entries - 1).min(per_page - 1);
            memory
                .read(space, last * u64::from(description.entry_bytes), &mut byte)
                .map_err(|why| Unfit::Table(why.into()))?;
            if byte != [fill] {
                return Err(Unfit::EntrySize(description.entry_bytes));
            }
        }
        let parts = request.split_entry.iter().map(|part| part.get()).collect();
        let lent = Lent { memory, entries, entry_bytes: description.entry_bytes, parts };
        self.lent.insert((description.kind, instance), lent);
        self.sealed = false;
        Ok(())
    }

    /// That was all. The error is a type that has no memory.
    pub(super) fn seal(&mut self, types: &[Description]) -> Result<(), u16> {
        for description in types {
            let map = description.instances.max(1);
            let instances = (0..32u16).filter(|instance| map >> instance & 1 != 0);
            for instance in instances {
                if !self.lent.contains_key(&(description.kind, instance)) {
                    return Err(description.kind);
                }
            }
        }
        self.sealed = true;
        Ok(())
    }

    /// Whether everything was lent.
    pub(super) fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Entries that were lent of a type.
    pub(super) fn entries(&self, kind: u16) -> u32 {
        self.lent.get(&(kind, 0)).filter(|_| self.sealed).map_or(0, |lent| lent.entries)
    }

    /// Statistics contexts that there may be.
    pub(super) fn statistics(&self) -> u32 {
        self.entries(context_type::STAT)
    }

    /// Queue pairs of RoCE that there may be, and the first entry of theirs.
    pub(super) fn queue_pairs(&self) -> u32 {
        self.entries(context_type::QP).saturating_sub(ETHERNET_PAIRS)
    }

    /// Completion queues of RoCE that there may be.
    pub(super) fn completion_queues(&self) -> u32 {
        self.entries(context_type::CQ).saturating_sub(ETHERNET_QUEUES)
    }

    /// Shared receive queues of RoCE that there may be.
    pub(super) fn shared_receive_queues(&self) -> u32 {
        self.entries(context_type::SRQ).saturating_sub(ETHERNET_SHARED)
    }

    /// Memory keys that there may be, and address vectors.
    pub(super) fn keys_and_vectors(&self) -> (u32, u32) {
        let all = self.entries(context_type::MRAV);
        let vectors = self.lent.get(&(context_type::MRAV, 0)).and_then(|lent| lent.parts.first());
        let vectors = vectors.copied().unwrap_or(0).min(all);
        (all - vectors, vectors)
    }

    fn place(&self, object: Object) -> Option<(&Lent, u64)> {
        let lent = self.lent.get(&(object.kind, 0)).filter(|_| self.sealed)?;
        let at = u64::from(object.entry) * u64::from(lent.entry_bytes);
        (object.entry < lent.entries).then_some((lent, at))
    }

    /// An object is made: its entry says so. Answers whether it has one.
    pub(super) fn put(&self, object: Object, space: &dyn AddressSpace) -> bool {
        let Some((lent, at)) = self.place(object) else { return false };
        lent.memory.write(space, at, &object.record()).is_ok()
    }

    /// Whether an object's entry still says whose it is.
    pub(super) fn has(&self, object: Object, space: &dyn AddressSpace) -> bool {
        let Some((lent, at)) = self.place(object) else { return false };
        let mut record = [0; RECORD];
        lent.memory.read(space, at, &mut record).is_ok() && record == object.record()
    }

    /// An object is gone.
    pub(super) fn remove(&self, object: Object, space: &dyn AddressSpace) {
        if let Some((lent, at)) = self.place(object) {
            let _ = lent.memory.write(space, at, &[0; RECORD]);
        }
    }
}

/// The context of a queue pair.
pub(super) fn queue_pair(number: u32) -> Object {
    Object { kind: context_type::QP, entry: number.saturating_add(ETHERNET_PAIRS) }
}

/// The context of a completion queue.
pub(super) fn completion_queue(number: u32) -> Object {
    Object { kind: context_type::CQ, entry: number.saturating_add(ETHERNET_QUEUES) }
}

/// The context of a shared receive queue.
pub(super) fn shared_receive_queue(number: u32) -> Object {
    Object { kind: context_type::SRQ, entry: number.saturating_add(ETHERNET_SHARED) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::TestMemory;
    use doorbell::bnxt::abi::firmware::Request;

    /// A table of one level at 0x1000 that leads to pages from 0x10_000 on.
    fn memory(pages: u64) -> TestMemory {
        let mut memory = TestMemory::new();
        memory.add(0x1000, 4096);
        memory.add(0x10_000, pages as usize * 4096);
        let space: &dyn AddressSpace = &memory;
        for page in 0..pages {
            let entry = (0x10_000 + page * 4096) | 1;
            space.write(0x1000 + page * 8, &entry.to_le_bytes()).unwrap();
        }
        memory
    }

    fn request(kind: &Description, entries: u32) -> FuncBackingStoreCfgV2Request {
        let mut request = FuncBackingStoreCfgV2Request::new();
        request.kind = kind.kind.into();
        request.page_dir = 0x1000.into();
        request.num_entries = entries.into();
        request.entry_size = kind.entry_bytes.into();
        request.page_size_pbl_level = 1;
        request
    }

    #[test]
    fn an_entry_is_used_until_its_memory_is_somebody_elses() {
        let types = types(&Bounds::default());
        let queues = &types[1];
        let (memory, mut store) = (memory(4), BackingStore::default());
        let space: &dyn AddressSpace = &memory;
        store.lend(queues, &request(queues, 100), space).unwrap();
        let object = shared_receive_queue(3);
        assert!(!store.put(object, space), "not everything was lent");
        assert_eq!(store.seal(&types), Err(context_type::QP));
        store.sealed = true;
        assert!(store.put(object, space) && store.has(object, space));
        assert!(!store.put(shared_receive_queue(100 - ETHERNET_SHARED), space));
        space.write(0x10_000 + u64::from(object.entry) * 64, &[0]).unwrap();
        assert!(!store.has(object, space));
    }

    #[test]
    fn memory_that_does_not_do_is_refused() {
        let types = types(&Bounds::default());
        let queues = &types[1];
        let (memory, mut store) = (memory(1), BackingStore::default());
        let space: &dyn AddressSpace = &memory;
        let mut lend = |request: &FuncBackingStoreCfgV2Request| store.lend(queues, request, space);
        assert!(lend(&request(queues, 64)).is_ok());
        // One entry more than the only page holds.
        let short = lend(&request(queues, 65));
        assert!(matches!(short, Err(Unfit::Table(BadTable::Invalid { entry: 1 }))));
        assert!(matches!(lend(&request(queues, 0)), Err(Unfit::Entries(0))));
        let many = queues.most + 1;
        assert!(matches!(lend(&request(queues, many)), Err(Unfit::Entries(_))));
        let mut other = request(queues, 64);
        other.entry_size = 63.into();
        assert!(matches!(lend(&other), Err(Unfit::EntrySize(63))));
        let mut other = request(queues, 64);
        other.instance = 1.into();
        assert!(matches!(lend(&other), Err(Unfit::Instance(1))));
        let mut other = request(queues, 64);
        other.page_dir = 0x9999_0000.into();
        assert!(matches!(lend(&other), Err(Unfit::Table(BadTable::Fault(_)))));
    }

    #[test]
    fn entries_that_have_to_be_filled_are_looked_at() {
        let types = types(&Bounds::default());
        let pairs = &types[0];
        let (memory, mut store) = (memory(1), BackingStore::default());
        let space: &dyn AddressSpace = &memory;
        assert!(store.lend(pairs, &request(pairs, 9), space).is_err());
        for entry in 0..9 {
            space.write(0x10_000 + entry * 448, &[FRESH]).unwrap();
        }
        assert!(store.lend(pairs, &request(pairs, 9), space).is_ok());
    }
}

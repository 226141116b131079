//! The objects of one open verbs file, by handle (`drivers/infiniband/core/rdma_core.c`).

use super::routes::Route;
use crate::numbers::Numbers;
use doorbell::mlx5::abi::verbs::method::object;
use doorbell::mlx5::abi::verbs::qp::QpCap;
use doorbell_hal::Errno;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// The kind of the UAR objects of the mlx5 driver (`MLX5_IB_OBJECT_UAR`).
pub(super) const UAR: u16 = doorbell::mlx5::abi::driver::object::UAR;

/// An object that the kernel made for the file.
pub(super) enum Object {
    ProtectionDomain(ProtectionDomain),
    Region(Region),
    CompletionQueue(CompletionQueue),
    QueuePair(QueuePair),
    Uar(Uar),
}

pub(super) struct ProtectionDomain {
    /// The number that the NIC knows it by.
    pub(super) number: u32,
}

pub(super) struct Region {
    pub(super) key: u32,
    pub(super) domain: u32,
    pub(super) length: u64,
    pub(super) iova: u64,
    pub(super) pinned: u64,
    /// The mapping of a dma-buf, unmapped when the region is gone.
    pub(super) _mapping: Option<super::dmabuf::Mapping>,
}

pub(super) struct CompletionQueue {
    pub(super) number: u32,
    pub(super) pinned: u64,
    pub(super) route: Route,
}

pub(super) struct QueuePair {
    pub(super) number: u32,
    pub(super) domain: u32,
    pub(super) send_queue: u32,
    pub(super) receive_queue: u32,
    pub(super) pinned: u64,
    pub(super) route: Route,
    /// How much it holds, as it was asked for.
    pub(super) cap: QpCap,
    pub(super) signal_all: bool,
    /// What the kernel remembers of its attributes.
    pub(super) known: super::modify::Known,
}

pub(super) struct Uar {
    pub(super) page: u32,
    pub(super) entry: MmapEntry,
    /// Keeps the page with the NIC for as long as it is mapped.
    pub(super) mapping: Arc<crate::network::Mapping>,
}

/// What a process may map: an entry of the file, which is free again when this is gone
/// (`rdma_user_mmap_entry`).
pub(super) struct MmapEntry {
    pub(super) index: u32,
    entries: Arc<Mutex<Numbers>>,
}

impl Drop for MmapEntry {
    fn drop(&mut self) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.give_back(self.index);
    }
}

impl Object {
    /// The kind of object, as the ioctl numbers them.
    pub(super) fn kind(&self) -> u16 {
        match self {
            Object::ProtectionDomain(_) => object::PD,
            Object::Region(_) => object::MR,
            Object::CompletionQueue(_) => object::CQ,
            Object::QueuePair(_) => object::QP,
            Object::Uar(_) => UAR,
        }
    }

    /// The handles of the objects that it stands on, which then cannot be destroyed.
    fn stands_on(&self) -> impl Iterator<Item = u32> {
        let handles = match self {
            Object::Region(region) => [Some(region.domain), None, None],
            Object::QueuePair(pair) => [pair.domain, pair.send_queue, pair.receive_queue].map(Some),
            _ => [None; 3],
        };
        handles.into_iter().flatten()
    }
}

/// Where a handle leads to.
enum Slot {
    /// Handed out in a call that has not finished.
    Taken,
    Live(Object),
}

/// The handles of a file.
#[derive(Default)]
pub(super) struct Objects {
    slots: BTreeMap<u32, Slot>,
    handles: Numbers,
    /// What may be mapped, and the handle of the register page at each entry.
    entries: Arc<Mutex<Numbers>>,
    uars: BTreeMap<u32, u32>,
    /// How often other objects stand on the object behind a handle, where they do.
    users: BTreeMap<u32, usize>,
}

impl Objects {
    /// Takes the lowest free handle (`xa_alloc`).
    pub(super) fn take_handle(&mut self) -> u32 {
        // Objects do not fit in memory as often as there are numbers.
        let handle = self.handles.take(u32::MAX).unwrap_or(u32::MAX);
        self.slots.insert(handle, Slot::Taken);
        handle
    }

    /// Puts an object behind a handle that was taken.
    pub(super) fn commit(&mut self, handle: u32, object: Object) {
        for below in object.stands_on() {
            *self.users.entry(below).or_default() += 1;
        }
        if let Object::Uar(uar) = &object {
            self.uars.insert(uar.entry.index, handle);
        }
        self.slots.insert(handle, Slot::Live(object));
    }

    /// Gives a taken handle back, if no object is behind it.
    pub(super) fn give_back(&mut self, handle: u32) {
        if matches!(self.slots.get(&handle), Some(Slot::Taken)) {
            self.slots.remove(&handle);
            self.handles.give_back(handle);
        }
    }

    /// Takes the lowest free entry that may be mapped, below `limit`.
    pub(super) fn take_entry(&mut self, limit: u32) -> Option<MmapEntry> {
        let index = self.entries.lock().unwrap_or_else(PoisonError::into_inner).take(limit)?;
        Some(MmapEntry { index, entries: Arc::clone(&self.entries) })
    }

    /// The register page at entry `index`.
    pub(super) fn uar_at(&self, index: u32) -> Option<&Uar> {
        match self.slots.get(self.uars.get(&index)?)? {
            Slot::Live(Object::Uar(uar)) => Some(uar),
            _ => None,
        }
    }

    /// The object of kind `kind` behind `handle` (`rdma_lookup_get_uobject`).
    pub(super) fn find(&self, handle: u64, kind: u16) -> Result<&Object, Errno> {
        if (handle as i64) < 0 {
            return Err(Errno::EINVAL);
        }
        let slot = u32::try_from(handle).ok().and_then(|handle| self.slots.get(&handle));
        match slot {
            Some(Slot::Live(object)) if object.kind() == kind => Ok(object),
            Some(Slot::Live(_)) => Err(Errno::EINVAL),
            Some(Slot::Taken) | None => Err(Errno::ENOENT),
        }
    }

    /// Whether another object stands on the object behind `handle`.
    pub(super) fn is_used(&self, handle: u32) -> bool {
        self.users.contains_key(&handle)
    }

    /// Takes the object behind `handle` out.
    pub(super) fn remove(&mut self, handle: u32) -> Option<Object> {
        let slot = self.slots.remove(&handle)?;
        self.handles.give_back(handle);
        let Slot::Live(object) = slot else { return None };
        if let Object::Uar(uar) = &object {
            self.uars.remove(&uar.entry.index);
        }
        for below in object.stands_on() {
            if let Entry::Occupied(mut users) = self.users.entry(below) {
                *users.get_mut() -= 1;
                if *users.get() == 0 {
                    users.remove();
                }
            }
        }
        Some(object)
    }

    /// Every object, with its handle.
    pub(super) fn live(&self) -> impl DoubleEndedIterator<Item = (u32, &Object)> {
        self.slots.iter().filter_map(|(&handle, slot)| match slot {
            Slot::Live(object) => Some((handle, object)),
            Slot::Taken => None,
        })
    }

    /// An object that no other stands on, if there is any object: a new one, if it may be, as those
    /// stand on older ones.
    pub(super) fn last_user(&self) -> Option<u32> {
        self.live().rev().map(|(handle, _)| handle).find(|&handle| !self.is_used(handle))
    }

    pub(super) fn domain(&self, handle: u64) -> Result<&ProtectionDomain, Errno> {
        match self.find(handle, object::PD)? {
            Object::ProtectionDomain(domain) => Ok(domain),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn region(&self, handle: u64) -> Result<&Region, Errno> {
        match self.find(handle, object::MR)? {
            Object::Region(region) => Ok(region),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn completion_queue(&self, handle: u64) -> Result<&CompletionQueue, Errno> {
        match self.find(handle, object::CQ)? {
            Object::CompletionQueue(queue) => Ok(queue),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn queue_pair(&self, handle: u64) -> Result<&QueuePair, Errno> {
        match self.find(handle, object::QP)? {
            Object::QueuePair(pair) => Ok(pair),
            _ => Err(Errno::EINVAL),
        }
    }

    pub(super) fn queue_pair_mut(&mut self, handle: u64) -> Option<&mut QueuePair> {
        match self.slots.get_mut(&u32::try_from(handle).ok()?)? {
            Slot::Live(Object::QueuePair(pair)) => Some(pair),
            _ => None,
        }
    }
}

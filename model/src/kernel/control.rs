//! A test's hand on a virtual NIC, while a driver owns its verbs file.

use super::device::Device;
use super::objects::Object;
use super::port::Gid;
use crate::connectx::{Counters, Death, Event, Log, Network, NicId};
use doorbell_hal::Errno;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// A test's hand on a virtual NIC. Clones are the same hand.
#[derive(Clone)]
pub struct Control {
    device: Arc<Device>,
}

/// The objects of a device that are alive, over all its open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Open verbs files that have a context.
    pub contexts: usize,
    /// Protection domains.
    pub protection_domains: usize,
    /// Regions.
    pub regions: usize,
    /// Completion queues.
    pub completion_queues: usize,
    /// Queue pairs.
    pub queue_pairs: usize,
    /// Register pages.
    pub register_pages: usize,
    /// Mappings of register pages: pages and registers that a driver still has.
    pub mappings: usize,
    /// Memory that was allocated through a file and not given back.
    pub allocations: usize,
    /// Event files that the process has not closed.
    pub event_files: usize,
    /// Bytes pinned for regions, rings and records.
    pub pinned: u64,
}

impl Objects {
    /// How many there are, of every kind but contexts.
    pub fn total(&self) -> usize {
        self.protection_domains
            + self.regions
            + self.completion_queues
            + self.queue_pairs
            + self.register_pages
            + self.mappings
            + self.allocations
            + self.event_files
    }
}

impl Control {
    pub(super) fn new(device: Arc<Device>) -> Self {
        Control { device }
    }

    /// The network that the NIC is on.
    pub fn network(&self) -> &Network {
        &self.device.network
    }

    /// The NIC, as its network knows it.
    pub fn nic(&self) -> NicId {
        self.device.nic
    }

    /// What the NIC has seen and done.
    pub fn counters(&self) -> Counters {
        let counters = self.device.network.with_nic(self.device.nic, |nic, _, _| nic.counters());
        counters.unwrap_or_default()
    }

    /// What went wrong.
    pub fn log(&self) -> Log {
        let log = self.device.network.with_nic(self.device.nic, |nic, _, _| nic.log().clone());
        log.unwrap_or_default()
    }

    /// The bytes of the entry in slot `index` of a queue pair's send ring, as the NIC would fetch
    /// them; `None` where there is no such queue pair or ring.
    pub fn send_entry(&self, queue_pair: u32, index: u16) -> Option<Vec<u8>> {
        let nic = self.device.nic;
        self.device.network.with_nic(nic, |nic, _, _| nic.send_entry(queue_pair, index)).flatten()
    }

    /// The objects that are alive.
    pub fn objects(&self) -> Objects {
        let mut objects = Objects {
            mappings: self.device.mappings.load(Ordering::Relaxed),
            allocations: self.device.allocations.load(Ordering::Relaxed),
            pinned: self.device.pinned(),
            ..Objects::default()
        };
        let files = self.device.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for file in files.iter().filter_map(std::sync::Weak::upgrade) {
            let inner = file.inner();
            objects.contexts += usize::from(inner.context.is_some());
            objects.event_files +=
                inner.event_files.iter().filter(|(_, queue)| queue.is_open()).count();
            for (_, object) in inner.objects.live() {
                *match object {
                    Object::ProtectionDomain(_) => &mut objects.protection_domains,
                    Object::Region(_) => &mut objects.regions,
                    Object::CompletionQueue(_) => &mut objects.completion_queues,
                    Object::QueuePair(_) => &mut objects.queue_pairs,
                    Object::Uar(_) => &mut objects.register_pages,
                } += 1;
            }
        }
        objects
    }

    /// The names of the kernel calls made so far, in order: methods of the ioctl and commands that
    /// it invoked, without their prefixes (`CQ_CREATE`, `ALLOC_PD`), and `mmap`, `allocate`,
    /// `event_files` and `getrandom`.
    pub fn calls(&self) -> Vec<String> {
        self.device.calls()
    }

    /// Forgets the calls made so far.
    pub fn forget_calls(&self) {
        self.device.forget_calls();
    }

    /// Refuses the `call`-th kernel call from now on, counted from 1, with `errno`. The call does
    /// nothing. Only one refusal waits at a time.
    pub fn refuse_call(&self, call: u64, errno: Errno) {
        self.device.refuse(Some((call, errno)));
    }

    /// Takes a refusal back. Answers whether it was still to come: the driver made fewer calls.
    pub fn withdraw_refusal(&self) -> bool {
        let waits = self.device.has_refusal();
        self.device.refuse(None);
        waits
    }

    /// The port comes up or goes down.
    pub fn set_port(&self, up: bool) {
        self.device.port().up = up;
        self.device.network.with_nic(self.device.nic, |nic, _, _| nic.set_link(up));
    }

    /// Changes the port's table of global identifiers.
    pub fn set_gids(&self, gids: Vec<Option<Gid>>) {
        let (old, new) = {
            let mut port = self.device.port();
            let old = port.addresses();
            port.gids = gids;
            (old, port.addresses())
        };
        self.device.network.with_nic(self.device.nic, |nic, fabric, _| {
            for address in old {
                nic.unbind(address, fabric);
            }
            for address in new {
                nic.bind(address, fabric);
            }
            nic.raise(Event::GidChange);
        });
    }

    /// The NIC's identifier (EUI-64).
    pub fn guid(&self) -> u64 {
        self.device.settings.guid
    }

    /// The local identifier of an InfiniBand port; 0 on Ethernet.
    pub fn lid(&self) -> u16 {
        self.device.port().lid
    }

    /// The port's table of global identifiers.
    pub fn gids(&self) -> Vec<Option<Gid>> {
        self.device.port().gids.clone()
    }

    /// The NIC fails: the device-fatal event, and calls that make or change objects are refused
    /// with `EIO`. Objects can still be destroyed.
    pub fn fail(&self, how: Death) {
        self.device.network.with_nic(self.device.nic, |nic, fabric, now| {
            nic.die(how, now, fabric);
        });
    }

    /// The NIC is pulled out: as [`fail`](Self::fail), silently, and the kernel takes its device
    /// away, so that every call but destroys is refused with `EIO`, completion channels read as
    /// broken, and register stores go nowhere.
    pub fn unplug(&self) {
        self.fail(Death::Silent);
        self.device.removed.store(true, Ordering::Release);
        let files = self.device.files.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for file in files.iter().filter_map(std::sync::Weak::upgrade) {
            let inner = file.inner();
            let channel = doorbell::mlx5::abi::verbs::method::object::COMP_CHANNEL;
            for (_, queue) in inner.event_files.iter().filter(|(kind, _)| *kind == channel) {
                queue.break_off();
            }
        }
    }
}

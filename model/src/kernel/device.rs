//! The device that verbs files are opened on.

use super::port::Port;
use super::routes::Routes;
use crate::connectx::{Capabilities, Connectx, Network, NicId, Refused};
use crate::fabric::Fabric;
use doorbell_hal::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How the kernel driver behaves.
#[derive(Clone, Copy)]
pub(super) struct Settings {
    pub(super) guid: u64,
    /// The most bytes that may be pinned (`RLIMIT_MEMLOCK`).
    pub(super) locked_limit: Option<u64>,
    /// Peers may invalidate regions.
    pub(super) remote_invalidate: bool,
    /// The code of the shortest acknowledgement timeout.
    pub(super) least_timeout: u8,
}

/// A virtual NIC with its kernel driver.
pub(super) struct Device {
    pub(super) name: String,
    pub(super) network: Network,
    pub(super) nic: NicId,
    pub(super) capabilities: Capabilities,
    pub(super) settings: Settings,
    pub(super) routes: Routes,
    port: Mutex<Port>,
    journal: Mutex<Journal>,
    pinned: AtomicU64,
    sources: AtomicU64,
    /// Mappings of register pages.
    pub(super) mappings: AtomicUsize,
    /// Allocations of memory for rings and regions.
    pub(super) allocations: AtomicUsize,
    /// The device was taken away (`ib_uverbs_remove_one`).
    pub(super) removed: AtomicBool,
    /// Answers for the queries of every open file: see [`super::Control::objects`].
    pub(super) files: Mutex<Vec<std::sync::Weak<super::file::File>>>,
}

/// What was called, and what is to be refused.
#[derive(Default)]
struct Journal {
    calls: Vec<String>,
    /// The number of the call to refuse, counted down, and with what.
    refuse: Option<(u64, Errno)>,
}

impl Device {
    pub(super) fn new(
        name: String,
        network: Network,
        capabilities: Capabilities,
        port: Port,
        settings: Settings,
    ) -> Self {
        let routes = Routes::default();
        // SAFETY: D1: the device addresses that this NIC is given are those that commands hand to
        // it: rings, records and regions, which their owner keeps mapped until they are taken back
        // (K2). Taking them back goes through `Network::with_nic`, which holds the lock that the
        // NIC needs to touch memory.
        let space = std::sync::Arc::new(unsafe { crate::memory::ProcessMemory::new() });
        let nic = network.add_nic(capabilities, space, Box::new(routes.clone()));
        network.with_nic(nic, |nic, fabric, _| {
            nic.set_link(port.up);
            for address in port.addresses() {
                nic.bind(address, fabric);
            }
        });
        Device {
            name,
            network,
            nic,
            capabilities,
            settings,
            routes,
            port: Mutex::new(port),
            journal: Mutex::default(),
            pinned: AtomicU64::new(0),
            sources: AtomicU64::new(1),
            mappings: AtomicUsize::new(0),
            allocations: AtomicUsize::new(0),
            removed: AtomicBool::new(false),
            files: Mutex::default(),
        }
    }

    /// Calls `with` with the NIC.
    pub(super) fn nic<R>(
        &self,
        with: impl FnOnce(&mut Connectx, &mut dyn Fabric, u64) -> Result<R, Refused>,
    ) -> Result<R, Errno> {
        let result = self.network.with_nic(self.nic, with).ok_or(Errno::EIO)?;
        result.map_err(|refused| {
            self.network.with_nic(self.nic, |nic, _, _| nic.note(refused));
            errno(refused)
        })
    }

    pub(super) fn port(&self) -> MutexGuard<'_, Port> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a call down. Refuses it if a test asked for that.
    pub(super) fn called(&self, name: &str) -> Result<(), Errno> {
        let mut journal = self.journal();
        journal.calls.push(name.to_owned());
        match &mut journal.refuse {
            Some((1, errno)) => {
                let errno = *errno;
                journal.refuse = None;
                Err(errno)
            }
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    pub(super) fn calls(&self) -> Vec<String> {
        self.journal().calls.clone()
    }

    pub(super) fn forget_calls(&self) {
        self.journal().calls.clear();
    }

    pub(super) fn refuse(&self, call: Option<(u64, Errno)>) {
        self.journal().refuse = call.filter(|&(number, _)| number > 0);
    }

    /// Whether a refusal that a test asked for is still to come.
    pub(super) fn has_refusal(&self) -> bool {
        self.journal().refuse.is_some()
    }

    /// A number that no other object of this device has.
    pub(super) fn source(&self) -> u64 {
        self.sources.fetch_add(1, Ordering::Relaxed)
    }

    /// Pins the pages that hold `length` bytes at `address` (`ib_umem_get`). Answers with the bytes
    /// to give back to [`unpin`](Self::unpin).
    pub(super) fn pin(&self, address: u64, length: u64, writable: bool) -> Result<u64, Errno> {
        let end = address.checked_add(length).ok_or(Errno::EINVAL)?;
        let page = super::user::page_size();
        let end = end.checked_next_multiple_of(page).ok_or(Errno::EINVAL)?;
        let bytes = end - (address & !(page - 1));
        if bytes == 0 {
            return Err(Errno::EINVAL);
        }
        let pinned = self.pinned.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let checked = if self.settings.locked_limit.is_some_and(|limit| pinned > limit) {
            Err(Errno::ENOMEM)
        } else {
            super::user::check_mapped(address, length, writable)
        };
        checked.inspect_err(|_| self.unpin(bytes)).map(|()| bytes)
    }

    pub(super) fn unpin(&self, bytes: u64) {
        self.pinned.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Bytes pinned now.
    pub(super) fn pinned(&self) -> u64 {
        self.pinned.load(Ordering::Relaxed)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.network.remove_nic(self.nic);
    }
}

/// What the mlx5 driver makes of a firmware status (`cmd_status_to_err`).
fn errno(refused: Refused) -> Errno {
    match refused {
        Refused::Limit { .. } => Errno::ENOMEM,
        Refused::Busy { .. } => Errno::EBUSY,
        Refused::Unknown { .. }
        | Refused::Parameter { .. }
        | Refused::State { .. }
        | Refused::Missing { .. } => Errno::EINVAL,
        Refused::Dead => Errno::EIO,
    }
}

//! Completion queues of RoCE: their rings, how they are armed, and what happens when they run over.
//!
//! Each notification carries a toggle that changes from one to the next. An arm counts only with the
//! toggle of the last notification, and only takes effect once the privileged page has enabled it.

use super::Counters;
use super::nic::Netxtreme;
use super::ring::Place;
use crate::memory::{AddressSpace, Ring};
use crate::network::Log;
use doorbell::bnxt::abi::cqe::{CompletionKind, KindToggle};
use doorbell::bnxt::abi::doorbell::{DoorbellFields, DoorbellKind};

/// Bytes of a completion.
pub(super) const ENTRY: usize = 32;
/// Where its kind and toggle are.
const TOGGLE: usize = 0x18;

/// A completion queue.
pub(super) struct CompletionQueue {
    pub(super) memory: Ring,
    pub(super) entries: u32,
    own: Place,
    driver: Place,
    /// What notifications carry.
    pub(super) handle: u64,
    /// The notification ring.
    pub(super) ring: u16,
    /// The doorbell page.
    pub(super) page: u32,
    toggle: u8,
    enabled: bool,
    armed: Option<Arm>,
    /// Notifications written, modulo 2^16.
    pub(super) notifications: u16,
    /// Queue pairs that complete here.
    pub(super) users: u32,
    /// A completion did not fit.
    failed: bool,
    resizes: u8,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    Any,
    Solicited,
}

/// What became of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Quietly,
    /// The queue was armed for it.
    Announced,
    /// There was no room, now or before.
    Nowhere,
}

impl CompletionQueue {
    pub(super) fn new(memory: Ring, entries: u32, handle: u64, ring: u16, page: u32) -> Self {
        CompletionQueue {
            memory,
            entries,
            own: Place::default(),
            driver: Place::default(),
            handle,
            ring,
            page,
            toggle: 0,
            enabled: false,
            armed: None,
            notifications: 0,
            users: 0,
            failed: false,
            resizes: 0,
        }
    }

    /// Writes a completion whose kind is set; the toggle is this queue's matter.
    pub(super) fn write(
        &mut self,
        space: &dyn AddressSpace,
        mut bytes: [u8; ENTRY],
        solicited: bool,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Written {
        let full =
            self.own.since(self.driver, self.entries).is_none_or(|held| held >= self.entries);
        if self.failed || full {
            self.failed = true;
            counters.overruns += 1;
            return Written::Nowhere;
        }
        let at = u64::from(self.own.index()) * ENTRY as u64;
        let last = bytes[TOGGLE] & !1 | u8::from(self.own.valid());
        // The toggle changes last.
        bytes[TOGGLE] = last ^ 1;
        let written = self
            .memory
            .write(space, at, &bytes)
            .and_then(|()| self.memory.publish(space, at + TOGGLE as u64, last));
        if let Err(fault) = written {
            self.failed = true;
            log.note(format_args!("lost access: a completion ring: {fault}"));
            return Written::Nowhere;
        }
        counters.completions += 1;
        self.own = self.own.after(1, self.entries);
        let wanted = match self.armed {
            Some(Arm::Any) => true,
            Some(Arm::Solicited) => solicited,
            None => false,
        };
        if wanted && self.enabled { Written::Announced } else { Written::Quietly }
    }

    fn has_unread(&self) -> bool {
        self.own != self.driver
    }

    /// Goes on in another ring, after a last completion in this one.
    pub(super) fn resize(
        &mut self,
        space: &dyn AddressSpace,
        memory: Ring,
        entries: u32,
        counters: &mut Counters,
        log: &mut Log,
    ) -> bool {
        self.resizes = (self.resizes + 1) & 3;
        let mut cut_off = [0; ENTRY];
        cut_off[TOGGLE] =
            KindToggle::of(CompletionKind::CutOff, false).with_resize_toggle(self.resizes).into();
        if self.write(space, cut_off, true, counters, log) == Written::Nowhere {
            return false;
        }
        (self.memory, self.entries) = (memory, entries);
        (self.own, self.driver) = (Place::default(), Place::default());
        true
    }
}

impl Netxtreme {
    /// Notifies a completion queue that was armed.
    pub(super) fn announce_completion(&mut self, number: u32) {
        let Some(queue) = self.engine.queues.get_mut(&number) else { return };
        if !queue.enabled || queue.armed.take().is_none() {
            return;
        }
        queue.enabled = false;
        queue.toggle = (queue.toggle + 1) & 3;
        let (ring, handle, toggle) = (queue.ring, queue.handle, queue.toggle);
        if self.notify_completion(ring, handle, toggle)
            && let Some(queue) = self.engine.queues.get_mut(&number)
        {
            queue.notifications = queue.notifications.wrapping_add(1);
        }
    }

    /// A doorbell that says how far a completion queue was read, and perhaps arms it.
    pub(super) fn ring_completions(
        &mut self,
        page: u32,
        kind: DoorbellKind,
        doorbell: DoorbellFields,
    ) -> bool {
        let number = doorbell.xid();
        let Some(queue) = self.engine.queues.get_mut(&number) else { return false };
        if page != queue.page && page != 0 {
            return false;
        }
        let place = Place::of(doorbell, queue.entries)
            .filter(|place| queue.own.since(*place, queue.entries).is_some());
        let Some(place) = place else {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "completion queue {number:#x}: {doorbell:?} is not a place that it can be at"
            ));
            return true;
        };
        queue.driver = place;
        let arm = match kind {
            DoorbellKind::CompletionArm => Arm::Any,
            DoorbellKind::CompletionArmSolicited => Arm::Solicited,
            _ => return true,
        };
        if doorbell.toggle() != queue.toggle {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "completion queue {number:#x}: an arm with toggle {}, not {}",
                doorbell.toggle(),
                queue.toggle
            ));
            return true;
        }
        queue.armed = Some(arm);
        if queue.has_unread() {
            self.announce_completion(number);
        }
        true
    }

    /// The privileged page lets a completion queue's arms take effect.
    pub(super) fn enable_completions(&mut self, doorbell: DoorbellFields) -> bool {
        let number = doorbell.xid();
        let Some(queue) = self.engine.queues.get_mut(&number) else { return false };
        if doorbell.toggle() != queue.toggle {
            self.counters.dropped_doorbells += 1;
            return true;
        }
        queue.enabled = true;
        if queue.has_unread() {
            self.announce_completion(number);
        }
        true
    }

    /// The driver has seen that a completion queue went on in another ring.
    pub(super) fn completions_cut_off(&mut self, page: u32, doorbell: DoorbellFields) -> bool {
        let queue = self.engine.queues.get(&doorbell.xid());
        queue.is_some_and(|queue| page == queue.page || page == 0)
    }

    /// Completions of a queue that were not read, and whether it failed.
    pub fn completion_queue(&self, number: u32) -> Option<(u32, bool)> {
        let queue = self.engine.queues.get(&number)?;
        Some((queue.own.since(queue.driver, queue.entries).unwrap_or(0), queue.failed))
    }
}

//! Events: that an armed completion queue has a completion.
//!
//! Armed completion queues are notified of in one ring of the NIC, whose interrupt somebody waits for. A
//! notification is of no use before the queue may be armed again, so whoever reads one enables that, and
//! notes the toggle that arms have to carry from then on.

use super::Nic;
use super::abi::doorbell::{Doorbell, Enables, Moves, Position, QueueNumber, Toggle};
use super::abi::notification::{CompletionNotification, Notification, NotificationKind};
use super::context::Context;
use super::memory::{self, PageTable};
use super::ring::LastToggle;
use crate::error::Error;
use crate::event::{CompletionQueueId, EVENTS, Event};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use doorbell_hal::mmio::{Caching, Register, RegisterPage, Uncached};
use doorbell_hal::pci::{Interrupts, PciFunction};
use doorbell_hal::sync;
use heapless::Vec;
use zerocopy::FromBytes;

/// The interrupt vectors of a NIC: that of the RoCE engine's events, which nobody waits for, and that of
/// notifications.
pub(super) const VECTORS: u16 = 2;
/// Entries of the notification ring.
pub(super) const NOTIFICATIONS: usize = 256;
/// The most completion queues with events: each is notified of once at most until it is armed again.
const MOST: usize = NOTIFICATIONS - 1;

/// The notification ring's memory, and its page table.
pub(super) type NotificationMemory<F> = Arc<(<F as PciFunction>::Memory, PageTable<F>)>;

/// The notification ring, and who is notified of.
pub(super) struct Notifier<F: PciFunction> {
    memory: NotificationMemory<F>,
    register: <F::Bar as RegisterPage>::Register,
    consume: Doorbell<Moves>,
    arm: Doorbell<Moves>,
    /// Notifications consumed, modulo 2^32.
    consumed: u32,
    /// Completion queues by their ids.
    queues: BTreeMap<u64, Queue>,
    next_id: u64,
    /// Queues that were notified of, and that no wait has answered yet.
    pending: BTreeSet<u64>,
    has_channel: bool,
}

/// A completion queue that can be armed.
struct Queue {
    enable: Doorbell<Enables>,
    toggle: Arc<LastToggle>,
}

impl<F: PciFunction> Notifier<F> {
    /// Reads the ring `number` in `memory`, and rings doorbells through `register`, of 8 bytes.
    pub(super) fn new(
        memory: NotificationMemory<F>,
        number: u16,
        register: <F::Bar as RegisterPage>::Register,
    ) -> Self {
        Notifier {
            memory,
            register,
            consume: Doorbell::notification(number.into()),
            arm: Doorbell::notification_arm(number.into()),
            consumed: 0,
            queues: BTreeMap::new(),
            // What a NIC says of its own accord is likely to be 0.
            next_id: 1,
            pending: BTreeSet::new(),
            has_channel: false,
        }
    }

    /// An id that no completion queue ever had.
    pub(super) fn take_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Whether there may be another completion queue with events.
    pub(super) fn check_room(&self) -> Result<(), Error> {
        let given = self.queues.len() as u64 + 1;
        if given > MOST as u64 {
            let what = "the number of completion queues with events";
            return Err(Error::OutOfRange { what, given, least: 0, most: MOST as u64 });
        }
        Ok(())
    }

    /// Notes that the queue `id` is known as `number`, and has it armed by `toggle` from now on.
    pub(super) fn add(&mut self, id: u64, number: QueueNumber, toggle: &Arc<LastToggle>) {
        let enable = Doorbell::completion_arm_enable(number);
        self.store(enable.to_memory(toggle.get()));
        self.queues.insert(id, Queue { enable, toggle: toggle.clone() });
    }

    /// Forgets the queue `id`, and what it was notified of.
    pub(super) fn remove(&mut self, id: u64) {
        self.read();
        self.queues.remove(&id);
        self.pending.remove(&id);
    }

    fn store(&self, word: u64) {
        // Entries of the ring were read before: a NIC writes them again after it saw the register.
        Uncached::before_store();
        // SAFETY: R1: the register was made with 8 bytes.
        unsafe { self.register.store(0, word) };
        Uncached::after_store();
    }

    fn position(&self) -> Position {
        let (place, pass) = (self.place(), self.consumed as usize / NOTIFICATIONS);
        Position::new(place as u32, !pass.is_multiple_of(2))
    }

    fn place(&self) -> usize {
        self.consumed as usize % NOTIFICATIONS
    }

    /// Has the next notification raise the interrupt; one that is there already does at once.
    fn arm(&self) {
        self.store(self.arm.to_memory(self.position()));
    }

    /// Reads what is in the ring, at most all of it.
    fn read(&mut self) {
        let before = self.consumed;
        while self.consumed.wrapping_sub(before) < NOTIFICATIONS as u32
            && let Some(notification) = self.next()
        {
            self.consumed = self.consumed.wrapping_add(1);
            self.take(&notification);
        }
        if self.consumed != before {
            self.store(self.consume.to_memory(self.position()));
        }
    }

    /// The next notification, if one has come.
    fn next(&self) -> Option<[u8; size_of::<Notification>()]> {
        let at = self.place() * size_of::<Notification>();
        let first_pass = (self.consumed as usize / NOTIFICATIONS).is_multiple_of(2);
        let upper = memory::word(&self.memory.0, at + 8)?;
        if (upper & 1 == 1) != first_pass {
            return None;
        }
        // Pairs with the NIC writing the byte with the valid bit last.
        sync::fence_after_owner();
        let lower = memory::word(&self.memory.0, at)?;
        let mut bytes = [0; size_of::<Notification>()];
        bytes[..8].copy_from_slice(&lower.to_le_bytes());
        bytes[8..].copy_from_slice(&upper.to_le_bytes());
        Some(bytes)
    }

    fn take(&mut self, bytes: &[u8]) {
        let Ok(notification) = CompletionNotification::read_from_bytes(bytes) else { return };
        let kind = notification.kind.kind();
        if NotificationKind::from_code(kind) != Some(NotificationKind::Completion) {
            return;
        }
        let (low, high) = (notification.cq_handle_low.get(), notification.cq_handle_high.get());
        let id = u64::from(high) << 32 | u64::from(low);
        // One of a queue that is gone is of no use to anybody.
        let Some(queue) = self.queues.get(&id) else { return };
        let toggle = Toggle::new(notification.kind.toggle());
        self.store(queue.enable.to_memory(toggle));
        queue.toggle.note(toggle);
        self.pending.insert(id);
    }

    /// The events that no wait has answered, as many as fit.
    fn events(&mut self) -> Vec<Event, EVENTS> {
        self.read();
        let mut events = Vec::new();
        while !events.is_full()
            && let Some(id) = self.pending.pop_first()
        {
            let _room = events.push(Event::Completion(CompletionQueueId(id)));
        }
        events
    }
}

/// Where events arrive: of the completion queues that were made with events. There is one at a time.
///
/// One thread at a time waits.
pub struct EventChannel<F: PciFunction> {
    pub(super) context: Arc<Context<F>>,
    interrupts: F::Interrupts,
}

impl<F: PciFunction> Nic<F> {
    /// Makes the NIC's channel for events, unless there is one. Enables the function's interrupts: fails
    /// where the way in which it is held has none.
    pub fn event_channel(&self) -> Result<EventChannel<F>, Error> {
        let context = &self.context;
        let mut notifier = context.notifier.lock();
        if notifier.has_channel {
            return Err(Error::InUse { objects: 1 });
        }
        let interrupts = context.function.interrupts(VECTORS);
        let interrupts = interrupts.map_err(context.refused("enabling interrupts"))?;
        notifier.has_channel = true;
        Ok(EventChannel { context: context.clone(), interrupts })
    }
}

impl<F: PciFunction> EventChannel<F> {
    /// The events since the last wait, once there is one; none if none came within `timeout`, or if a
    /// signal came first. Those past [`EVENTS`] are left for the next wait.
    ///
    /// Reads what the firmware has reported by itself, too, as [`Nic::service`] does.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<Event, EVENTS>, Error> {
        let context = &self.context;
        let mut events = context.notifier.lock().events();
        if events.is_empty() {
            context.notifier.lock().arm();
            let waited = self.interrupts.wait(timeout);
            waited.map_err(context.refused("waiting for an interrupt"))?;
            events = context.notifier.lock().events();
        }
        context.service();
        Ok(events)
    }
}

impl<F: PciFunction> Drop for EventChannel<F> {
    fn drop(&mut self) {
        self.context.notifier.lock().has_channel = false;
    }
}

impl<F: PciFunction> fmt::Debug for EventChannel<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").finish_non_exhaustive()
    }
}

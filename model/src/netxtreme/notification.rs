//! Notification rings: what they are told, and the interrupts that they raise.

use super::nic::Netxtreme;
use doorbell::bnxt::abi::doorbell::DoorbellFields;
use doorbell::bnxt::abi::notification::{CompletionNotification, KindWord, NotificationKind};
use zerocopy::{FromZeros, IntoBytes};

use super::ring::Place;

impl Netxtreme {
    /// Writes an entry of 16 bytes into a notification ring, and raises its interrupt if it is armed.
    /// Answers whether it is there.
    pub(super) fn notify(&mut self, number: u16, entry: [u8; 16]) -> bool {
        let Some(ring) = self.rings.get_mut(&number).filter(|ring| ring.is_notifications()) else {
            self.log.note(format_args!("there is no notification ring {number:#x}"));
            return false;
        };
        match ring.write(self.memory.space(), entry) {
            Ok(true) => {}
            Ok(false) => {
                self.counters.overruns += 1;
                self.log.note(format_args!("notification ring {number:#x} is full"));
                return false;
            }
            Err(fault) => {
                self.log.note(format_args!("lost access: notification ring {number:#x}: {fault}"));
                return false;
            }
        }
        self.counters.notifications += 1;
        if std::mem::take(&mut ring.armed) {
            self.counters.interrupts += 1;
            self.interrupts.raise(ring.vector);
        }
        true
    }

    /// Tells a notification ring that a completion queue has a completion.
    pub(super) fn notify_completion(&mut self, ring: u16, handle: u64, toggle: u8) -> bool {
        let entry = CompletionNotification {
            kind: KindWord::new()
                .with_kind(NotificationKind::Completion.code())
                .with_toggle(toggle & 3),
            cq_handle_low: (handle as u32).into(),
            cq_handle_high: ((handle >> 32) as u32).into(),
            ..CompletionNotification::new_zeroed()
        };
        self.notify(ring, entry.as_bytes().try_into().unwrap_or_default())
    }

    /// A doorbell of a notification ring.
    pub(super) fn ring_notifications(&mut self, doorbell: DoorbellFields, arm: bool) -> bool {
        let number = doorbell.xid() as u16;
        let Some(ring) = self.rings.get_mut(&number).filter(|ring| ring.is_notifications()) else {
            return false;
        };
        let Some(place) = Place::of(doorbell, ring.entries) else { return false };
        if ring.own.since(place, ring.entries).is_none() {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "notification ring {number:#x}: {doorbell:?} is not a place that it can be at"
            ));
            return true;
        }
        ring.driver = place;
        ring.armed = arm;
        if arm && ring.own != place {
            ring.armed = false;
            self.counters.interrupts += 1;
            self.interrupts.raise(ring.vector);
        }
        true
    }
}

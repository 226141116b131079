//! BAR 2: what stores to doorbell pages do.

use super::nic::Netxtreme;
use super::registers::FIRST_DOORBELL_PAGE;
use crate::fabric::Fabric;
use crate::network::Store;
use doorbell::bnxt::abi::doorbell::{DoorbellFields, DoorbellKind};

/// The doorbell is of Ethernet ([`DoorbellFields::path`]).
const ETHERNET: u8 = 1;

impl Netxtreme {
    /// Does what a store to a doorbell page asks for.
    pub(super) fn act_on(&mut self, store: &Store, now: u64, fabric: &mut dyn Fabric) {
        self.counters.doorbells += 1;
        let (page, offset, value) = match *store {
            Store::Word { page, offset, value } => (page, offset, value),
            Store::Slot { page, offset, .. } => {
                return self.stray(format_args!("64 bytes at {offset:#x} of page {page}"));
            }
        };
        let doorbell = DoorbellFields::from_bits(u64::from_le_bytes(value.to_ne_bytes()));
        let listens = page >= FIRST_DOORBELL_PAGE
            && offset == 0
            && doorbell.valid()
            && self.ring(page - FIRST_DOORBELL_PAGE, doorbell, now, fabric);
        if !listens {
            self.stray(format_args!("{doorbell:?} at {offset:#x} of page {page}"));
        }
    }

    fn stray(&mut self, what: impl std::fmt::Display) {
        self.counters.stray_doorbells += 1;
        self.log.note(format_args!("{what}: nothing listens there"));
    }

    /// A doorbell at a doorbell page's number. Answers whether somebody listens.
    fn ring(
        &mut self,
        page: u32,
        doorbell: DoorbellFields,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> bool {
        let Some(kind) = DoorbellKind::from_code(doorbell.kind()) else { return false };
        let privileged = page == 0;
        let ethernet = privileged && doorbell.path() == ETHERNET;
        match kind {
            DoorbellKind::Null => true,
            // Whichever path they name.
            DoorbellKind::Notification => privileged && self.ring_notifications(doorbell, false),
            DoorbellKind::NotificationArm => privileged && self.ring_notifications(doorbell, true),
            DoorbellKind::NotificationMask => {
                privileged && self.ring_notifications(doorbell, false)
            }
            DoorbellKind::Send if ethernet => self.ring_frames_out(doorbell, now, fabric),
            DoorbellKind::SharedReceive if ethernet => self.ring_buffers(doorbell),
            DoorbellKind::Completion if ethernet => self.ring_frame_completions(doorbell, false),
            DoorbellKind::CompletionArm if ethernet => self.ring_frame_completions(doorbell, true),
            DoorbellKind::Send => self.ring_sends(page, doorbell, now, fabric),
            DoorbellKind::Receive => self.ring_receives(page, doorbell),
            DoorbellKind::SharedReceive => self.ring_shared_receives(page, doorbell),
            DoorbellKind::SharedReceiveArm => self.arm_shared_receives(page, doorbell),
            DoorbellKind::SharedReceiveArmEnable => {
                privileged && self.enable_shared_receives(doorbell)
            }
            DoorbellKind::Completion
            | DoorbellKind::CompletionArm
            | DoorbellKind::CompletionArmSolicited => self.ring_completions(page, kind, doorbell),
            DoorbellKind::CompletionArmEnable => privileged && self.enable_completions(doorbell),
            DoorbellKind::CompletionCutOff => self.completions_cut_off(page, doorbell),
            DoorbellKind::PushStart | DoorbellKind::PushEnd => false,
        }
    }
}

//! BAR 0: mailboxes, and the state of the firmware. And where the other BARs' contents are.

use super::nic::Netxtreme;
use crate::fabric::Fabric;
use crate::network::Device;
use doorbell::bnxt::abi::firmware::{HEALTH, TRIGGER, WINDOW_BYTES};

/// The ranges of a function's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// BAR 0: mailboxes.
    Registers,
    /// BAR 2: doorbell pages.
    Doorbells,
    /// BAR 4: the MSI-X tables.
    Vectors,
}

/// Bytes of each [`Bar`].
pub const BAR_BYTES: [u64; 3] = [64 << 10, DOORBELL_PAGES as u64 * PAGE, 64 << 10];

pub(super) const PAGE: u64 = 4096;
/// Doorbell pages of BAR 2.
pub(super) const DOORBELL_PAGES: u32 = 1024;
/// The page of Ethernet's and notification rings' doorbells, which is also the privileged one of
/// RoCE: doorbell page number 0.
pub(super) const FIRST_DOORBELL_PAGE: u32 = 16;
/// The page from which on pages are for user programs.
pub(super) const USER_DOORBELL_PAGE: u32 = 32;

/// Where the RoCE engine's command queue is handed over, and rung, in BAR 0
/// (`RCFW_COMM_BASE_OFFSET`, `RCFW_COMM_TRIG_OFFSET`).
const COMMAND_QUEUE: u64 = 0x600;
const COMMAND_TRIGGER: u64 = 0x700;
/// Where the windows into the chip's other registers are chosen (`BNXT_GRCPF_REG_WINDOW_BASE_OUT`).
const WINDOW_BASES: u64 = 0x400;
/// The windows, of a page each, from 1 on.
const WINDOWS: usize = 15;
/// The chip's register that says how full the queue of doorbells is.
pub(super) const DOORBELL_QUEUE: u32 = 0x31_0000;
/// The firmware is well.
const WELL: u32 = 0x8000;

/// The registers that keep what is written.
pub(super) struct Registers {
    /// The request that is being written.
    pub(super) window: [u8; WINDOW_BYTES],
    /// The command queue's place and producer.
    pub(super) command_queue: [u8; 16],
    bases: [u32; WINDOWS],
}

impl Default for Registers {
    fn default() -> Self {
        Registers { window: [0; WINDOW_BYTES], command_queue: [0; 16], bases: [0; WINDOWS] }
    }
}

/// The word at `at` of `bytes`.
fn word(bytes: &mut [u8], at: u64) -> Option<&mut [u8]> {
    let at = usize::try_from(at).ok()?;
    bytes.get_mut(at..at.checked_add(4)?)
}

impl Netxtreme {
    /// The 32-bit register at `at` of BAR 0, a multiple of 4.
    pub fn read_register(&self, at: u64) -> u32 {
        let window = (at / PAGE) as usize;
        if let Some(base) =
            window.checked_sub(1).and_then(|window| self.registers.bases.get(window))
        {
            let address = u64::from(*base) + at % PAGE;
            return match address == u64::from(DOORBELL_QUEUE) {
                true => self.doorbell_queue_room(),
                false => 0,
            };
        }
        match at {
            at if at == HEALTH as u64 => WELL,
            _ => 0,
        }
    }

    /// Stores to the 32-bit register at `at` of BAR 0, a multiple of 4. Stores to doorbells that were
    /// made before are done before.
    pub fn write_register(&mut self, at: u64, value: u32, now: u64, fabric: &mut dyn Fabric) {
        let bytes = value.to_le_bytes();
        if let Some(word) = word(&mut self.registers.window, at) {
            word.copy_from_slice(&bytes);
            return;
        }
        if at == TRIGGER as u64 || at == COMMAND_TRIGGER {
            while Device::take_store(self, now, fabric) {}
            return match at == COMMAND_TRIGGER {
                true => self.take_commands(now, fabric),
                false => self.take_request(fabric),
            };
        }
        if let Some(at) = at.checked_sub(COMMAND_QUEUE)
            && let Some(word) = word(&mut self.registers.command_queue, at)
        {
            word.copy_from_slice(&bytes);
            return;
        }
        let base = at.checked_sub(WINDOW_BASES).map(|at| (at / 4) as usize);
        match base.and_then(|base| self.registers.bases.get_mut(base)) {
            Some(base) => *base = value & !(PAGE as u32 - 1),
            None => self.log.note(format_args!("{value:#x} at {at:#x} of BAR 0: nothing is there")),
        }
    }

    /// The room of the queue of doorbells, as the firmware says how to read it.
    fn doorbell_queue_room(&self) -> u32 {
        self.identity.bounds.doorbells.saturating_sub(self.bus.waiting() as u32)
    }
}

//! The BAR: the initialization segment, the MSI-X tables and the UAR pages.
//!
//! Registers are big-endian words of 32 bits (`struct mlx5_init_seg`, `linux/mlx5/device.h`).

use crate::connectx::UAR_PAGE;
use crate::connectx::firmware::{LOG_ENTRIES, LOG_ENTRY};

/// Bytes of the BAR.
pub(super) const BAR_BYTES: u64 = 32 << 20;
/// Where the MSI-X table and the pending bits are. The machine keeps the table itself.
pub(super) const MSIX_TABLE: u64 = 0x2000;
pub(super) const MSIX_PENDING: u64 = 0x3000;
/// Where UAR pages begin that are handed out.
const UAR_PAGES: u64 = 0x100 * UAR_PAGE as u64;

/// The firmware's version, and that of its command interface.
const FIRMWARE: u32 = 31 << 16 | 16;
const INTERFACE: u32 = 5 << 16 | 1006;

/// Offsets of words.
mod offset {
    pub(super) const FIRMWARE: u64 = 0x00;
    pub(super) const INTERFACE: u64 = 0x04;
    pub(super) const QUEUE_HIGH: u64 = 0x10;
    pub(super) const QUEUE_LOW: u64 = 0x14;
    pub(super) const COMMAND_DOORBELL: u64 = 0x18;
    pub(super) const INITIALIZING: u64 = 0x1fc;
    pub(super) const HEALTH_VERSION: u64 = 0x230;
    pub(super) const HEALTH_SEVERITY: u64 = 0x238;
    pub(super) const HEALTH_SYNDROME: u64 = 0x23c;
    pub(super) const TIMER_HIGH: u64 = 0x1000;
    pub(super) const TIMER_LOW: u64 = 0x1004;
    pub(super) const HEALTH_COUNTER: u64 = 0x1010;
}

/// Says that the driver may reset a device that has failed (`MLX5_FW_RESET_SUPPORTED_OFFSET`).
const RESET_SUPPORTED: u32 = 1 << 30;
/// The severity of a failure that only a reset ends (`MLX5_RFR_BIT_OFFSET`), and the syndrome of one
/// of the firmware (`MLX5_INITIAL_SEG_HEALTH_SYNDROME_FW_INTERNAL_ERR`).
const NEEDS_RESET: u32 = 0x80 << 24;
const FIRMWARE_FAILED: u32 = 1 << 16;

/// States of the device (`MLX5_INITIAL_SEG_NIC_INTERFACE_*`), in the low bits of the queue's address.
mod state {
    pub(super) const SHIFT: u32 = 8;
    pub(super) const MASK: u32 = 7 << SHIFT;
    pub(super) const DISABLED: u32 = 1 << SHIFT;
    pub(super) const RESET: u32 = 7 << SHIFT;
}

/// What a read needs to know.
pub(super) struct Now {
    /// The clock, in nanoseconds.
    pub(super) time: u64,
    /// The MSI-X vectors that are pending, a bit each.
    pub(super) pending: u64,
}

/// What a write asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written<'a> {
    Nothing,
    /// The command queue is at this device address.
    Queue(u64),
    /// The driver resets the device.
    Reset,
    /// These slots of the command queue have commands.
    Commands(u32),
    /// A store to a UAR page: which, where in it, and what.
    Uar(u32, u32, &'a [u8]),
    /// A write that nothing is there for.
    Stray,
}

/// The registers that keep what is written.
#[derive(Default)]
pub(super) struct Registers {
    queue_high: u32,
    queue_low: u32,
    /// The device's state, as the driver has set it.
    state: u32,
    /// The firmware has failed.
    failed: bool,
    /// Read to see whether the device is alive: moves at each look.
    health: u32,
}

impl Registers {
    /// Shows a driver that the firmware has failed, until the driver resets the device.
    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// Copies registers out.
    pub(super) fn read(&mut self, at: u64, into: &mut [u8], now: &Now) {
        let mut word = (u64::MAX, [0; 4]);
        for (offset, byte) in into.iter_mut().enumerate() {
            let offset = at.wrapping_add(offset as u64);
            if word.0 != offset / 4 {
                word = (offset / 4, self.word(offset & !3, now));
            }
            *byte = word.1[(offset % 4) as usize];
        }
    }

    fn word(&mut self, at: u64, now: &Now) -> [u8; 4] {
        let value = match at {
            offset::FIRMWARE => FIRMWARE,
            offset::INTERFACE => INTERFACE,
            offset::QUEUE_HIGH => self.queue_high,
            offset::QUEUE_LOW => self.queue_low | self.state | LOG_ENTRIES << 4 | LOG_ENTRY,
            offset::INITIALIZING => RESET_SUPPORTED,
            offset::HEALTH_VERSION => FIRMWARE,
            offset::HEALTH_SEVERITY if self.failed => NEEDS_RESET,
            offset::HEALTH_SYNDROME if self.failed => FIRMWARE_FAILED,
            offset::TIMER_HIGH => (now.time >> 32) as u32,
            offset::TIMER_LOW => now.time as u32,
            offset::HEALTH_COUNTER => {
                self.health = self.health.wrapping_add(1) & 0xff_ffff;
                self.health
            }
            // Pending bits are little-endian, as all of PCI.
            MSIX_PENDING => return (now.pending as u32).to_le_bytes(),
            at if at == MSIX_PENDING + 4 => return ((now.pending >> 32) as u32).to_le_bytes(),
            _ => 0,
        };
        value.to_be_bytes()
    }

    /// Writes a register.
    pub(super) fn write<'a>(&mut self, at: u64, from: &'a [u8]) -> Written<'a> {
        if at >= UAR_PAGES {
            let page = UAR_PAGE as u64;
            return match u32::try_from(at / page) {
                Ok(number) if at < BAR_BYTES => Written::Uar(number, (at % page) as u32, from),
                _ => Written::Stray,
            };
        }
        let Ok(value) = <[u8; 4]>::try_from(from).map(u32::from_be_bytes) else {
            return Written::Stray;
        };
        match at {
            offset::QUEUE_HIGH => self.queue_high = value,
            offset::QUEUE_LOW => {
                self.queue_low = value & !0xfff;
                self.state = value & state::MASK;
                if self.state == state::RESET {
                    // Done at once, and the device waits to be enabled.
                    (self.state, self.failed) = (state::DISABLED, false);
                    return Written::Reset;
                }
            }
            offset::COMMAND_DOORBELL => return Written::Commands(value),
            // The machine's own table.
            MSIX_TABLE..MSIX_PENDING => return Written::Nothing,
            _ => return Written::Stray,
        }
        Written::Queue(u64::from(self.queue_high) << 32 | u64::from(self.queue_low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Now = Now { time: 0x1_2345_6789, pending: 5 };

    fn read<const N: usize>(registers: &mut Registers, at: u64) -> [u8; N] {
        let mut bytes = [0; N];
        registers.read(at, &mut bytes, &NOW);
        bytes
    }

    #[test]
    fn the_command_queue_is_where_the_driver_said_and_as_large_as_the_device_says() {
        let mut registers = Registers::default();
        assert_eq!(read(&mut registers, 0x14), [0, 0, 0, 0x56]);
        registers.write(0x10, &[0, 0, 0, 1]);
        let written = registers.write(0x14, &[0x23, 0x45, 0x60, 0]);
        assert_eq!(written, Written::Queue(0x1_2345_6000));
        assert_eq!(read(&mut registers, 0x14), [0x23, 0x45, 0x60, 0x56]);
        assert_eq!(registers.write(0x18, &[0, 0, 0, 5]), Written::Commands(5));
    }

    #[test]
    fn reads_of_any_size_show_the_same_bytes() {
        let mut registers = Registers::default();
        assert_eq!(read(&mut registers, 0), [0, 31, 0, 16, 0, 5, 3, 0xee]);
        assert_eq!(read(&mut registers, 0x1000), 0x1_2345_6789u64.to_be_bytes());
        assert_eq!(read(&mut registers, 0x1005), [0x45]);
        assert_eq!(read(&mut registers, 0x3000), 5u64.to_le_bytes());
        assert_ne!(read::<4>(&mut registers, 0x1010), read::<4>(&mut registers, 0x1010));
    }

    #[test]
    fn a_failure_is_shown_until_the_driver_resets_the_device() {
        let mut registers = Registers::default();
        registers.fail();
        assert_eq!((read(&mut registers, 0x238), read(&mut registers, 0x23d)), ([0x80], [1]));
        assert_eq!(registers.write(0x14, &[0x23, 0x45, 0x67, 0]), Written::Reset);
        assert_eq!((read(&mut registers, 0x238), read(&mut registers, 0x23d)), ([0], [0]));
        assert_eq!(read(&mut registers, 0x14), [0x23, 0x45, 0x61, 0x56]);
        // The driver enables it again when it says where the queue is.
        assert_eq!(registers.write(0x14, &[0x23, 0x45, 0x60, 0]), Written::Queue(0x2345_6000));
        assert_eq!(read(&mut registers, 0x14), [0x23, 0x45, 0x60, 0x56]);
    }

    #[test]
    fn writes_go_to_uar_pages_and_nowhere_else() {
        let mut registers = Registers::default();
        assert_eq!(registers.write(0x100_820, &[1; 8]), Written::Uar(0x100, 0x820, &[1; 8]));
        assert_eq!(registers.write(BAR_BYTES, &[1; 8]), Written::Stray);
        assert_eq!(registers.write(u64::MAX, &[1; 4]), Written::Stray);
        assert_eq!(registers.write(0x40, &[1; 4]), Written::Stray);
        assert_eq!(registers.write(0x18, &[1; 8]), Written::Stray);
    }
}

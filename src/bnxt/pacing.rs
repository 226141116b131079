//! How fast doorbells are rung where the firmware asks for pacing.
//!
//! From Linux' `bnxt_re` (`bnxt_re_initialize_dbr_pacing`) and rdma-core's `db.c`: the firmware names
//! the register that says how much room the queue of doorbells has, its depth, and how full it may be
//! before pacing begins.

use super::abi::firmware::function::FuncDbrPacingQcfgAnswer;
use super::context::Context;
use super::ring::paced::Pace;
use core::time::Duration;
use doorbell_hal::pci::{Bar, PciFunction};
use doorbell_hal::sync::Ordering;

/// The base of the window into the chip's other registers that pacing uses, and the window, in BAR 0.
const WINDOW_BASE: u64 = 0x404;
const WINDOW: u64 = 0x2000;
/// Bytes of a window.
const WINDOW_BYTES: u32 = 0x1000;
/// The depth of a queue of doorbells whose firmware does not say it: what Linux takes.
const DEPTH: u32 = 0x8000;
/// The most doorbells that are granted at once.
const MOST: u32 = 64;
/// How long a ring waits for the NIC to catch up. It goes on then: what was dropped is made up for by
/// the next doorbell of the same ring, which says how far the ring goes.
const PATIENCE: Duration = Duration::from_millis(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_micros(1);

/// The queue of doorbells, as the firmware describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// Where in BAR 0 its register is read.
    at: u64,
    mask: u32,
    shift: u8,
    depth: u32,
    /// Doorbells that may wait.
    threshold: u32,
}

impl Pacing {
    /// What the firmware answers; or the register's address, if it is none that can be read. Opens the
    /// window through which it is read.
    pub(super) fn new(registers: &impl Bar, answer: &FuncDbrPacingQcfgAnswer) -> Result<Self, u32> {
        let register = answer.dbr_stat_db_fifo_reg.get();
        // The address space is in the lowest two bits.
        let (space, offset) = (register & 3, register & !3);
        let at = match space {
            1 => {
                let base = registers.write(WINDOW_BASE, offset & !(WINDOW_BYTES - 1));
                base.map(|()| WINDOW + u64::from(offset % WINDOW_BYTES))
            }
            2 => Some(offset.into()),
            _ => None,
        };
        let at = at.filter(|at| registers.read(*at).is_some()).ok_or(register)?;
        let depth = match answer.dbr_stat_db_max_fifo_depth.get() {
            0 => DEPTH,
            depth => depth,
        };
        Ok(Pacing {
            at,
            mask: answer.dbr_stat_db_fifo_reg_fifo_room_mask.get(),
            shift: answer.dbr_stat_db_fifo_reg_fifo_room_shift & 31,
            depth,
            threshold: answer.pacing_threshold.get().min(depth / 2),
        })
    }

    /// Doorbells that wait.
    fn waiting(&self, registers: &impl Bar) -> u32 {
        let register = registers.read(self.at).unwrap_or_default();
        self.depth.saturating_sub((register & self.mask) >> self.shift)
    }

    /// What each of `rings` may be granted, so that all of it together fills half of what is left above
    /// the threshold.
    fn share(&self, rings: u32) -> u32 {
        ((self.depth - self.threshold) / 2 / rings.max(1)).clamp(1, MOST)
    }
}

impl<F: PciFunction> Pace for Context<F> {
    fn grant(&self) -> u32 {
        let Some(pacing) = &self.facts.pacing else { return u32::MAX };
        let start = self.function.now();
        while pacing.waiting(&self.registers) > pacing.threshold {
            if self.function.now().saturating_sub(start) > PATIENCE {
                break;
            }
            self.function.pause(PAUSE);
        }
        pacing.share(self.paced.load(Ordering::Relaxed))
    }

    fn leave(&self) {
        self.paced.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_grants_together_fill_half_of_what_is_above_the_threshold() {
        let pacing = Pacing { at: 0, mask: !0, shift: 0, depth: 0x8000, threshold: 250 };
        for rings in [0, 1, 2, 100, 1000, 16_000] {
            let share = pacing.share(rings);
            assert!((1..=MOST).contains(&share));
            assert!(rings * share <= (pacing.depth - pacing.threshold) / 2, "{rings}");
        }
        // However many there are, each gets somewhere.
        assert_eq!(pacing.share(1 << 20), 1);
        assert_eq!(Pacing { depth: 0, threshold: 0, ..pacing }.share(7), 1);
    }
}

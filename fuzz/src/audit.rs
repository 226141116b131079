//! Memory that knows which of its bytes are a device's, and for what.

use doorbell_model::memory::{AddressSpace, Direction, Fault, TestMemory, Window};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Memory of which a device may reach only what it was granted, though more is there: an access to
/// anything else panics.
pub(crate) struct Audited {
    memory: TestMemory,
    grants: Mutex<Vec<Grant>>,
}

/// Bytes that a device may reach.
#[derive(Clone, Debug)]
struct Grant {
    bytes: Range<u64>,
    reads: bool,
    writes: bool,
}

impl Audited {
    /// All of `memory`, none of it granted.
    pub(crate) fn new(memory: TestMemory) -> Self {
        Audited { memory, grants: Mutex::default() }
    }

    fn grants(&self) -> std::sync::MutexGuard<'_, Vec<Grant>> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the device read or write `bytes` from now on.
    pub(crate) fn grant(&self, bytes: Range<u64>, reads: bool, writes: bool) {
        self.grants().push(Grant { bytes, reads, writes });
    }

    /// Takes back what was granted within `bytes`.
    pub(crate) fn revoke(&self, bytes: Range<u64>) {
        self.grants()
            .retain(|grant| grant.bytes.start < bytes.start || grant.bytes.end > bytes.end);
    }

    /// The memory as its owner sees it.
    pub(crate) fn owner(&self) -> &dyn AddressSpace {
        &self.memory
    }
}

// SAFETY: D1, M2: windows are those of the memory inside, which keeps the promise.
unsafe impl AddressSpace for Audited {
    fn window(&self, address: u64, len: usize, direction: Direction) -> Result<Window<'_>, Fault> {
        let window = self.memory.window(address, len, direction)?;
        let end = address + window.len() as u64;
        let is_granted = window.is_empty()
            || self.grants().iter().any(|grant| {
                let allows = match direction {
                    Direction::FromMemory => grant.reads,
                    Direction::ToMemory => grant.writes,
                };
                allows && grant.bytes.start <= address && end <= grant.bytes.end
            });
        assert!(is_granted, "the device reaches {address:#x}..{end:#x} {direction:?}");
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_device_reaches_exactly_what_it_was_granted() {
        let mut memory = TestMemory::new();
        memory.add(0x1000, 0x100);
        let audited = Audited::new(memory);
        audited.grant(0x1010..0x1020, true, false);
        audited.grant(0x1020..0x1030, true, true);
        let reaches = |address, len, direction| {
            catch_unwind(AssertUnwindSafe(|| audited.window(address, len, direction).is_ok()))
        };
        use Direction::{FromMemory, ToMemory};
        assert!(reaches(0x1010, 16, FromMemory).is_ok_and(|reached| reached));
        assert!(reaches(0x1028, 8, ToMemory).is_ok_and(|reached| reached));
        assert!(reaches(0x2000, 8, ToMemory).is_ok_and(|reached| !reached), "no memory there");
        assert!(reaches(0x1018, 8, ToMemory).is_err());
        assert!(reaches(0x100f, 1, FromMemory).is_err());
        assert!(reaches(0x1018, 16, FromMemory).is_err());
        audited.revoke(0x1020..0x1030);
        assert!(reaches(0x1028, 8, ToMemory).is_err());
    }
}

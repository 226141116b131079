//! The queue pairs of a NIC that have failed, for pollers to flush.

use alloc::vec::Vec;
use doorbell_hal::sync::{AtomicBool, Mutex, Ordering};

/// The queue pairs of a NIC that have failed, by index.
pub struct Failures {
    indexes: Mutex<Vec<u32>>,
    /// Whether there are any: all that a poll looks at.
    any: AtomicBool,
}

impl Default for Failures {
    fn default() -> Self {
        Self::new()
    }
}

impl Failures {
    /// No queue pair has failed.
    pub fn new() -> Self {
        Failures { indexes: Mutex::new(Vec::new()), any: AtomicBool::new(false) }
    }

    /// Makes room for `queue_pairs` failures, so that a poller that finds one allocates nothing.
    pub fn reserve(&self, queue_pairs: usize) {
        let mut indexes = self.indexes.lock();
        let more = queue_pairs.saturating_sub(indexes.len());
        indexes.reserve(more);
    }

    /// Notes that the queue pair with `index` has failed.
    #[cold]
    pub fn add(&self, index: u32) {
        let mut indexes = self.indexes.lock();
        if !indexes.contains(&index) {
            indexes.push(index);
        }
        // Relaxed, as the lock orders what a poller does about it.
        self.any.store(true, Ordering::Relaxed);
    }

    /// Forgets the queue pair with `index`: it is as good as new, or gone.
    pub fn remove(&self, index: u32) {
        let mut indexes = self.indexes.lock();
        indexes.retain(|failed| *failed != index);
        self.any.store(!indexes.is_empty(), Ordering::Relaxed);
    }

    /// Whether any queue pair has failed.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The first answer that `look` gives for a queue pair that has failed.
    pub fn find<T>(&self, look: impl FnMut(u32) -> Option<T>) -> Option<T> {
        self.indexes.lock().iter().copied().find_map(look)
    }
}

//! The queue pairs of a NIC that have failed, for pollers to flush.

use alloc::vec::Vec;
use doorbell_hal::sync::{AtomicBool, Mutex, Ordering};

/// The queue pairs of a NIC that have failed, by index.
pub struct Failures {
    failed: Mutex<Vec<Failure>>,
    /// Whether there are any: all that a poll looks at.
    any: AtomicBool,
}

/// A queue pair that has failed.
struct Failure {
    index: u32,
    emptied: Emptied,
}

/// Which of a queue pair's completion rings were seen empty since it was taken down, with nothing of it
/// left to flush: no completion of it can be left there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emptied {
    /// That of its requests.
    pub send: bool,
    /// That of its receives.
    pub receive: bool,
}

impl Default for Failures {
    fn default() -> Self {
        Self::new()
    }
}

impl Failures {
    /// No queue pair has failed.
    pub fn new() -> Self {
        Failures { failed: Mutex::new(Vec::new()), any: AtomicBool::new(false) }
    }

    /// Makes room for `queue_pairs` failures, so that a poller that finds one allocates nothing.
    pub fn reserve(&self, queue_pairs: usize) {
        let mut failed = self.failed.lock();
        let more = queue_pairs.saturating_sub(failed.len());
        failed.reserve(more);
    }

    /// Notes that the queue pair with `index` has failed.
    #[cold]
    pub fn add(&self, index: u32) {
        let mut failed = self.failed.lock();
        if !failed.iter().any(|failure| failure.index == index) {
            failed.push(Failure { index, emptied: Emptied::default() });
        }
        // Relaxed, as the lock orders what a poller does about it.
        self.any.store(true, Ordering::Relaxed);
    }

    /// Notes that the queue pair with `index` was taken down: from now on nothing of it completes.
    pub fn take_down(&self, index: u32) {
        self.add(index);
        let mut failed = self.failed.lock();
        if let Some(failure) = failed.iter_mut().find(|failure| failure.index == index) {
            failure.emptied = Emptied::default();
        }
    }

    /// Whether no completion can be left of the queue pair with `index`, which was taken down.
    pub fn is_emptied(&self, index: u32) -> bool {
        let failed = self.failed.lock();
        let failure = failed.iter().find(|failure| failure.index == index);
        failure.is_none_or(|failure| failure.emptied.send && failure.emptied.receive)
    }

    /// Forgets the queue pair with `index`: it is as good as new, or gone.
    pub fn remove(&self, index: u32) {
        let mut failed = self.failed.lock();
        failed.retain(|failure| failure.index != index);
        self.any.store(!failed.is_empty(), Ordering::Relaxed);
    }

    /// Whether any queue pair has failed.
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// The first answer that `look` gives for a queue pair that has failed.
    pub fn find<T>(&self, mut look: impl FnMut(u32, &mut Emptied) -> Option<T>) -> Option<T> {
        let mut failed = self.failed.lock();
        failed.iter_mut().find_map(|failure| look(failure.index, &mut failure.emptied))
    }
}

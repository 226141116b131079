//! Entries as they are fetched from rings, for whoever compares them with what others post.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An entry as it was fetched from a ring, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// From which kind of ring.
    pub ring: FetchedFrom,
    /// Its bytes: as many slots as it has, or the whole place of a receive.
    pub bytes: Vec<u8>,
}

/// A kind of ring that entries are fetched from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchedFrom {
    /// Requests.
    Sends,
    /// Receives.
    Receives,
}

/// The entries that were fetched since they were taken last. Its clones are the same record.
#[derive(Clone, Default)]
pub(super) struct Record(Arc<Mutex<Vec<Fetched>>>);

impl Record {
    /// The most entries that are kept: later ones are not.
    const MOST: usize = 1 << 12;

    fn entries(&self) -> MutexGuard<'_, Vec<Fetched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, ring: FetchedFrom, bytes: &[u8]) {
        let mut entries = self.entries();
        if entries.len() < Self::MOST {
            entries.push(Fetched { ring, bytes: bytes.to_vec() });
        }
    }

    pub(super) fn take(&self) -> Vec<Fetched> {
        std::mem::take(&mut self.entries())
    }
}

//! MSI-X vectors: event files that a machine listens to.

use crate::connectx::firmware::Interrupts;
use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of vectors.
pub(super) const VECTORS: u16 = 32;

/// The vectors of a function.
#[derive(Default)]
pub struct MsixVectors(Mutex<[Vector; VECTORS as usize]>);

#[derive(Default)]
struct Vector {
    file: Option<File>,
    /// It was raised before anybody listened.
    pending: bool,
}

impl MsixVectors {
    /// Vectors that nobody listens to yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, [Vector; VECTORS as usize]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises a vector through `file` from now on, or through nothing. Answers whether there is
    /// such a vector.
    pub fn listen(&self, vector: u32, file: Option<File>) -> bool {
        let mut vectors = self.lock();
        let Some(vector) = vectors.get_mut(vector as usize) else { return false };
        vector.file = file;
        if vector.file.is_some() && std::mem::take(&mut vector.pending) {
            vector.signal();
        }
        true
    }

    /// Nobody listens any more, and nothing is pending.
    pub fn disable(&self) {
        *self.lock() = Default::default();
    }

    /// Whether each vector is pending, a bit each, as the table of pending bits shows it.
    pub fn pending(&self) -> u64 {
        let vectors = self.lock();
        (0..)
            .zip(vectors.iter())
            .fold(0, |bits, (at, vector)| bits | u64::from(vector.pending) << at)
    }
}

impl Vector {
    fn signal(&mut self) {
        if let Some(file) = &mut self.file {
            // A counter that is full wakes its listener as well as one that is not.
            let _ = file.write(&1u64.to_ne_bytes());
        }
    }
}

impl Interrupts for MsixVectors {
    fn raise(&self, vector: u16) {
        let mut vectors = self.lock();
        let Some(vector) = vectors.get_mut(usize::from(vector)) else { return };
        match vector.file {
            Some(_) => vector.signal(),
            None => vector.pending = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn event_file() -> (File, File) {
        let file = File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        (file.try_clone().unwrap(), file)
    }

    fn count(mut file: &File) -> u64 {
        let mut bytes = [0; 8];
        match std::io::Read::read(&mut file, &mut bytes) {
            Ok(_) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }

    #[test]
    fn a_raised_vector_signals_its_file_and_no_other() {
        let vectors = MsixVectors::new();
        let ((a, a_kept), (b, b_kept)) = (event_file(), event_file());
        assert!(vectors.listen(0, Some(a)) && vectors.listen(31, Some(b)));
        assert!(!vectors.listen(32, None));
        vectors.raise(31);
        vectors.raise(31);
        vectors.raise(32);
        assert_eq!((count(&a_kept), count(&b_kept)), (0, 2));
    }

    #[test]
    fn a_vector_raised_before_anybody_listens_is_not_lost() {
        let vectors = MsixVectors::new();
        let (file, kept) = event_file();
        vectors.raise(3);
        assert_eq!(vectors.pending(), 1 << 3);
        vectors.listen(3, Some(file));
        assert_eq!((vectors.pending(), count(&kept)), (0, 1));
        vectors.raise(4);
        vectors.disable();
        vectors.raise(3);
        assert_eq!((vectors.pending(), count(&kept)), (1 << 3, 0));
    }
}

//! Event files: queues of records with a descriptor that can be polled.
//!
//! As the kernel's (`uverbs_main.c`, `ib_uverbs_event_read`): one record a read, in order, and the
//! records of an object that is destroyed vanish unread. The descriptor is an eventfd in semaphore
//! mode, whose count is the number of records, so `poll` and `epoll` see what they would see.

use doorbell_hal::Errno;
use doorbell_hal::uverbs::EventFile;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whose records: an object's number among all objects of the model.
pub(super) type Source = u64;

struct Record {
    source: Option<Source>,
    bytes: Vec<u8>,
}

#[derive(Default)]
struct State {
    records: VecDeque<Record>,
    /// Records that were read, by source.
    reported: Vec<(Source, u32)>,
    /// Records that ended with their source, for the counts of a destroy.
    closed: bool,
}

/// The kernel's side of an event file.
pub(super) struct EventQueue {
    descriptor: OwnedFd,
    record_length: usize,
    state: Mutex<State>,
}

impl EventQueue {
    /// A queue of records of `record_length` bytes.
    pub(super) fn new(record_length: usize) -> Result<Arc<EventQueue>, Errno> {
        let descriptor = eventfd(
            0,
            EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE,
        )?;
        Ok(Arc::new(EventQueue { descriptor, record_length, state: Mutex::default() }))
    }

    /// The number the kernel answers with.
    pub(super) fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record, which vanishes with `source`.
    pub(super) fn push(&self, source: Option<Source>, bytes: &[u8]) {
        let mut state = self.state();
        if state.closed {
            return;
        }
        state.records.push_back(Record { source, bytes: bytes.to_vec() });
        // The count never comes near 2^64, the one case where a write to an eventfd fails.
        let _ = rustix::io::write(&self.descriptor, &1u64.to_ne_bytes());
    }

    /// Drops the unread records of `source` and says how many of its records were read.
    pub(super) fn forget(&self, source: Source) -> u32 {
        let mut state = self.state();
        let before = state.records.len();
        state.records.retain(|record| record.source != Some(source));
        for _ in state.records.len()..before {
            self.take_one();
        }
        let read = state.reported.iter().position(|entry| entry.0 == source);
        read.map_or(0, |at| state.reported.swap_remove(at).1)
    }

    /// After the file is closed: nothing is added any more, what is there can still be read.
    pub(super) fn close(&self) {
        self.state().closed = true;
    }

    fn take_one(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
    }

    fn pop(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state();
        if state.records.is_empty() {
            return Err(if state.closed { Errno::EIO } else { Errno::EAGAIN });
        }
        let to = buffer.get_mut(..self.record_length).ok_or(Errno::EINVAL)?;
        let Some(record) = state.records.pop_front() else { return Err(Errno::EAGAIN) };
        self.take_one();
        to.copy_from_slice(&record.bytes);
        if let Some(source) = record.source {
            match state.reported.iter_mut().find(|entry| entry.0 == source) {
                Some(entry) => entry.1 += 1,
                None => state.reported.push((source, 1)),
            }
        }
        Ok(self.record_length)
    }
}

/// The process's side of an event file of a virtual NIC.
pub struct VirtualEventFile(pub(super) Arc<EventQueue>);

impl EventFile for VirtualEventFile {
    fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.0.pop(buffer)
    }

    fn wait(files: [&Self; 2], timeout: Duration) -> Result<[bool; 2], Errno> {
        let timeout = Timespec {
            tv_sec: timeout.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let mut descriptors = files.map(|file| PollFd::new(&file.0.descriptor, PollFlags::IN));
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) => Ok([0, 1].map(|at: usize| !descriptors[at].revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok([false; 2]),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for VirtualEventFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
    }
}

impl Drop for VirtualEventFile {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> VirtualEventFile {
        VirtualEventFile(EventQueue::new(8).unwrap())
    }

    #[test]
    fn a_read_returns_one_record_and_then_says_there_is_nothing() {
        let file = file();
        file.0.push(Some(1), &1u64.to_ne_bytes());
        file.0.push(Some(2), &2u64.to_ne_bytes());
        let mut buffer = [0; 64];
        assert_eq!(file.read(&mut buffer), Ok(8));
        assert_eq!(buffer[..8], 1u64.to_ne_bytes());
        assert_eq!(file.read(&mut buffer), Ok(8));
        assert_eq!(buffer[..8], 2u64.to_ne_bytes());
        assert_eq!(file.read(&mut buffer), Err(Errno::EAGAIN));
    }

    #[test]
    fn a_buffer_too_small_for_a_record_is_refused_and_loses_nothing() {
        let file = file();
        file.0.push(None, &9u64.to_ne_bytes());
        assert_eq!(file.read(&mut [0; 4]), Err(Errno::EINVAL));
        assert_eq!(file.read(&mut [0; 8]), Ok(8));
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_records_are_there() {
        let (file, other) = (file(), file());
        let ready = || VirtualEventFile::wait([&file, &other], Duration::ZERO).unwrap();
        assert_eq!(ready(), [false, false]);
        file.0.push(Some(1), &[1; 8]);
        file.0.push(Some(2), &[2; 8]);
        assert_eq!(ready(), [true, false]);
        file.read(&mut [0; 8]).unwrap();
        assert_eq!(ready(), [true, false]);
        assert_eq!(file.0.forget(2), 0);
        assert_eq!(ready(), [false, false]);
        assert_eq!(file.0.forget(1), 1);
    }
}

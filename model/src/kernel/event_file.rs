//! Event files: queues of records with a descriptor that can be polled.
//!
//! As the kernel's (`uverbs_main.c`, `ib_uverbs_event_read`): one record a read, in order, and the
//! records of an object that is destroyed vanish unread. The descriptor is an eventfd in semaphore
//! mode, whose count is the number of records, so `poll` and `epoll` see what they would see.

use doorbell_hal::Errno;
use doorbell_hal::uverbs::EventFiles;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
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
    /// The process closed it: nothing is added any more.
    closed: bool,
    /// The kernel gave it up: nothing is added any more, and a read is an error.
    broken: bool,
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
        let descriptor =
            eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK | EventfdFlags::SEMAPHORE)?;
        Ok(Arc::new(EventQueue { descriptor, record_length, state: Mutex::default() }))
    }

    /// Whether the process still has it.
    pub(super) fn is_open(&self) -> bool {
        !self.state().closed
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
        if state.closed || state.broken {
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

    /// The kernel takes its device away: nothing is added any more, and a waiter wakes to an error
    /// (`uverbs_completion_event_file_destroy_uobj`).
    pub(super) fn break_off(&self) {
        let mut state = self.state();
        state.broken = true;
        state.records.clear();
        // Readable for good.
        let _ = rustix::io::write(&self.descriptor, &u64::from(u32::MAX).to_ne_bytes());
    }

    fn take_one(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.descriptor, &mut count);
    }

    fn pop(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state();
        if state.records.is_empty() {
            return Err(if state.closed || state.broken { Errno::EIO } else { Errno::EAGAIN });
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

/// The process's side of a completion channel and a file of asynchronous events.
pub struct VirtualEventFiles {
    completion: Arc<EventQueue>,
    asynchronous: Arc<EventQueue>,
    /// Can be read when either can.
    either: OwnedFd,
}

impl VirtualEventFiles {
    pub(super) fn new(
        completion: Arc<EventQueue>,
        asynchronous: Arc<EventQueue>,
    ) -> Result<Self, Errno> {
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for file in [&completion, &asynchronous] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&either, &file.descriptor, data, epoll::EventFlags::IN)?;
        }
        Ok(VirtualEventFiles { completion, asynchronous, either })
    }
}

impl EventFiles for VirtualEventFiles {
    fn read_completion(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.completion.pop(buffer)
    }

    fn read_asynchronous(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.asynchronous.pop(buffer)
    }

    fn wait(&self, timeout: Duration) -> Result<(), Errno> {
        let mut either = [PollFd::new(&self.either, PollFlags::IN)];
        // A timeout past what the kernel counts waits for ever.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut either, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The descriptor that can be read when either file can.
impl AsFd for VirtualEventFiles {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}

impl Drop for VirtualEventFiles {
    fn drop(&mut self) {
        self.completion.close();
        self.asynchronous.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arc<EventQueue> {
        EventQueue::new(8).unwrap()
    }

    fn is_readable(queue: &EventQueue) -> bool {
        let mut file = [PollFd::new(&queue.descriptor, PollFlags::IN)];
        poll(&mut file, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn a_read_returns_one_record_and_then_says_there_is_nothing() {
        let queue = queue();
        queue.push(Some(1), &1u64.to_ne_bytes());
        queue.push(Some(2), &2u64.to_ne_bytes());
        let mut buffer = [0; 64];
        assert_eq!(queue.pop(&mut buffer), Ok(8));
        assert_eq!(buffer[..8], 1u64.to_ne_bytes());
        assert_eq!(queue.pop(&mut buffer), Ok(8));
        assert_eq!(buffer[..8], 2u64.to_ne_bytes());
        assert_eq!(queue.pop(&mut buffer), Err(Errno::EAGAIN));
    }

    #[test]
    fn a_buffer_too_small_for_a_record_is_refused_and_loses_nothing() {
        let queue = queue();
        queue.push(None, &9u64.to_ne_bytes());
        assert_eq!(queue.pop(&mut [0; 4]), Err(Errno::EINVAL));
        assert_eq!(queue.pop(&mut [0; 8]), Ok(8));
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_records_are_there() {
        let queue = queue();
        assert!(!is_readable(&queue));
        queue.push(Some(1), &[1; 8]);
        queue.push(Some(2), &[2; 8]);
        assert!(is_readable(&queue));
        queue.pop(&mut [0; 8]).unwrap();
        assert!(is_readable(&queue));
        assert_eq!(queue.forget(2), 0);
        assert!(!is_readable(&queue));
        assert_eq!(queue.forget(1), 1);
    }

    #[test]
    fn either_file_wakes_a_waiter() {
        let (completion, asynchronous) = (queue(), EventQueue::new(16).unwrap());
        let files = VirtualEventFiles::new(completion, asynchronous).unwrap();
        files.wait(Duration::ZERO).unwrap();
        files.asynchronous.push(None, &[5; 16]);
        files.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(files.read_completion(&mut [0; 8]), Err(Errno::EAGAIN));
        assert_eq!(files.read_asynchronous(&mut [0; 16]), Ok(16));
    }

    #[test]
    fn a_closed_file_takes_nothing_and_reads_as_broken() {
        let queue = queue();
        queue.push(None, &[1; 8]);
        queue.close();
        queue.push(None, &[2; 8]);
        assert_eq!(queue.pop(&mut [0; 8]), Ok(8));
        assert_eq!(queue.pop(&mut [0; 8]), Err(Errno::EIO));
    }
}

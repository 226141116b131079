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

    /// Counts one record less. A process that made the file block is not to block the NIC with it.
    fn take_one(&self) {
        let mut file = [PollFd::new(&self.descriptor, PollFlags::IN)];
        if poll(&mut file, Some(&Timespec::default())) == Ok(1) {
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.descriptor, &mut count);
        }
    }

    fn pop(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let mut state = self.state();
        Self::check_alive(&state)?;
        if state.records.is_empty() {
            return Err(Errno::EAGAIN);
        }
        self.check_room(buffer)?;
        self.take_one();
        self.pop_counted(&mut state, buffer).ok_or(Errno::EAGAIN)
    }

    fn check_alive(state: &State) -> Result<(), Errno> {
        let over = state.records.is_empty() && (state.closed || state.broken);
        if over { Err(Errno::EIO) } else { Ok(()) }
    }

    fn check_room(&self, buffer: &[u8]) -> Result<(), Errno> {
        if buffer.len() < self.record_length { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Waits for a record as the kernel does: not at all where the descriptor is made so, and until
    /// a signal comes that restarts nothing.
    fn wait_and_pop(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        loop {
            Self::check_alive(&self.state())?;
            self.check_room(buffer)?;
            // Counts one record less, which is then this reader's.
            let mut count = [0; 8];
            rustix::io::read(&self.descriptor, &mut count)?;
            let mut state = self.state();
            // Its object may have been destroyed meanwhile, and the record with it.
            if let Some(read) = self.pop_counted(&mut state, buffer) {
                return Ok(read);
            }
        }
    }

    /// Takes the first record, whose count is taken already.
    fn pop_counted(&self, state: &mut State, buffer: &mut [u8]) -> Option<usize> {
        let to = buffer.get_mut(..self.record_length)?;
        let record = state.records.pop_front()?;
        to.copy_from_slice(&record.bytes);
        if let Some(source) = record.source {
            match state.reported.iter_mut().find(|entry| entry.0 == source) {
                Some(entry) => entry.1 += 1,
                None => state.reported.push((source, 1)),
            }
        }
        Some(self.record_length)
    }
}

/// The process's side of one event file, for a program that knows it by its descriptor. The
/// descriptor can be polled, and its flags changed; reads and closes come here.
#[derive(Clone)]
pub struct VirtualEventFile(pub(super) Arc<EventQueue>);

impl VirtualEventFile {
    /// The descriptor. It stays open, whatever the process does, until the kernel has forgotten the
    /// file too.
    pub fn descriptor(&self) -> i32 {
        self.0.descriptor()
    }

    /// Makes reads wait for a record, or not ([`Errno::EAGAIN`] then says that there is none).
    pub fn set_waiting(&self, waiting: bool) -> Result<(), Errno> {
        Ok(rustix::io::ioctl_fionbio(self, !waiting)?)
    }

    /// Reads one record into `buffer` and says how many bytes it has.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.0.wait_and_pop(buffer)
    }

    /// The process closed it: nothing is added any more.
    pub fn close(&self) {
        self.0.close();
    }
}

impl AsFd for VirtualEventFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.descriptor.as_fd()
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
    fn a_program_s_read_waits_for_a_record_unless_it_asked_not_to() {
        let queue = queue();
        let file = VirtualEventFile(Arc::clone(&queue));
        assert_eq!(file.read(&mut [0; 8]), Err(Errno::EAGAIN));
        file.set_waiting(true).unwrap();
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 8];
            file.read(&mut buffer).map(|_| buffer)
        });
        queue.push(Some(1), &[7; 8]);
        assert_eq!(reader.join().unwrap(), Ok([7; 8]));
        assert!(!is_readable(&queue));
        assert_eq!(queue.forget(1), 1);
    }

    #[test]
    fn the_records_of_a_destroyed_object_block_nobody_on_a_file_that_waits() {
        let queue = queue();
        let file = VirtualEventFile(Arc::clone(&queue));
        file.set_waiting(true).unwrap();
        queue.push(Some(1), &[1; 8]);
        queue.push(Some(2), &[2; 8]);
        let mut count = [0; 8];
        // A reader that is about to take a record, whose object is destroyed under it.
        rustix::io::read(&queue.descriptor, &mut count).unwrap();
        assert_eq!(queue.forget(1), 0);
        let mut buffer = [0; 8];
        assert_eq!(queue.pop_counted(&mut queue.state(), &mut buffer), Some(8));
        assert_eq!(buffer, [2; 8]);
        queue.push(Some(3), &[3; 8]);
        assert_eq!(file.read(&mut buffer), Ok(8));
        assert_eq!(buffer, [3; 8]);
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

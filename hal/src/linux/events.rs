//! The files that a kernel reports events through.

use crate::Errno;
use crate::uverbs::EventFiles;
use core::time::Duration;
use rustix::event::epoll;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::fs::OFlags;

/// A completion channel and an asynchronous event file, both never blocking, and one descriptor
/// that can be read when either can: what an event loop waits on.
#[derive(Debug)]
pub struct EventDescriptors {
    completion: OwnedFd,
    asynchronous: OwnedFd,
    either: OwnedFd,
}

impl EventDescriptors {
    /// Takes the two descriptors.
    ///
    /// # Safety
    ///
    /// Both are open or negative, and nothing else owns them (SAFETY.md, K3).
    pub unsafe fn take(completion: i32, asynchronous: i32) -> Result<Self, Errno> {
        let own = |descriptor: i32| match descriptor {
            ..0 => None,
            // SAFETY: K3: our caller hands each descriptor over.
            0.. => Some(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        };
        // Both are owned before either is refused, so that neither leaks.
        let (completion, asynchronous) = (own(completion), own(asynchronous));
        let completion = completion.ok_or(Errno::EBADF)?;
        let asynchronous = asynchronous.ok_or(Errno::EBADF)?;
        let either = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        for file in [&completion, &asynchronous] {
            let flags = rustix::fs::fcntl_getfl(file)?;
            rustix::fs::fcntl_setfl(file, flags | OFlags::NONBLOCK)?;
            epoll::add(&either, file, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        Ok(EventDescriptors { completion, asynchronous, either })
    }
}

/// The descriptor that can be read when either event file can.
impl AsFd for EventDescriptors {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.either.as_fd()
    }
}

impl EventFiles for EventDescriptors {
    fn read_completion(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        read(&self.completion, buffer)
    }

    fn read_asynchronous(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        read(&self.asynchronous, buffer)
    }

    fn wait(&self, timeout: Duration) -> Result<(), Errno> {
        let mut either = [PollFd::new(&self.either, PollFlags::IN)];
        // A timeout past what the kernel counts (292 thousand million years) waits for ever.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut either, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn read(file: &OwnedFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::read(file, &mut *buffer) {
            Err(rustix::io::Errno::INTR) => {}
            answer => return Ok(answer?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::IntoRawFd;
    use rustix::io::write;
    use rustix::pipe::pipe;

    #[test]
    fn either_file_wakes_a_waiter_and_an_empty_one_says_try_again() {
        let (completion, completion_in) = pipe().unwrap();
        let (asynchronous, asynchronous_in) = pipe().unwrap();
        // SAFETY: K3: both descriptors were just made and are given away here.
        let files =
            unsafe { EventDescriptors::take(completion.into_raw_fd(), asynchronous.into_raw_fd()) }
                .unwrap();
        let mut buffer = [0; 16];
        files.wait(Duration::ZERO).unwrap();
        assert_eq!(files.read_completion(&mut buffer), Err(Errno::EAGAIN));
        assert_eq!(files.read_asynchronous(&mut buffer), Err(Errno::EAGAIN));

        write(&asynchronous_in, &[7; 16]).unwrap();
        files.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(files.read_completion(&mut buffer), Err(Errno::EAGAIN));
        assert_eq!(files.read_asynchronous(&mut buffer), Ok(16));

        write(&completion_in, &[9; 8]).unwrap();
        files.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(files.read_completion(&mut buffer), Ok(8));
        assert_eq!(buffer[..8], [9; 8]);
    }

    #[test]
    fn a_negative_descriptor_is_refused_and_the_other_is_closed() {
        let (read_end, write_end) = pipe().unwrap();
        // SAFETY: K3: the one real descriptor is given away here.
        let refused = unsafe { EventDescriptors::take(read_end.into_raw_fd(), -1) };
        assert_eq!(refused.unwrap_err(), Errno::EBADF);
        assert!(write(&write_end, &[0]).is_err(), "the reading end is still open");
    }
}

//! Interrupt vectors, as event files.

use super::vfio::Vfio;
use crate::Errno;
use crate::pci::Interrupts;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fd::{AsRawFd, OwnedFd};

/// Enabled vectors, each with an event file. Dropping it disables them.
#[derive(Debug)]
pub struct Vectors {
    files: Vec<OwnedFd>,
    vfio: Arc<Vfio>,
}

impl Vectors {
    pub(super) fn enable(vfio: &Arc<Vfio>, vectors: u16) -> Result<Self, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let files = (0..vectors).map(|_| eventfd(0, flags)).collect::<Result<Vec<_>, _>>()?;
        let numbers: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
        vfio.set_interrupts(&numbers)?;
        Ok(Vectors { files, vfio: vfio.clone() })
    }
}

impl Drop for Vectors {
    fn drop(&mut self) {
        // Vectors that stay enabled raise events in files that nobody reads.
        let _ = self.vfio.set_interrupts(&[]);
    }
}

impl Interrupts for Vectors {
    fn wait(&self, timeout: Duration) -> Result<Option<u16>, Errno> {
        let mut files: Vec<_> =
            self.files.iter().map(|file| PollFd::new(file, PollFlags::IN)).collect();
        // A timeout past what the kernel counts (292 thousand million years) waits for ever.
        let timeout = Timespec::try_from(timeout).ok();
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        }
        for (vector, file) in self.files.iter().enumerate() {
            let mut count = [0; 8];
            match rustix::io::read(file, &mut count) {
                Ok(_) => return Ok(Some(vector as u16)),
                Err(rustix::io::Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(None)
    }
}

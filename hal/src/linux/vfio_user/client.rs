//! The messages of the vfio-user protocol, as who drives a function sends them.
//!
//! From the specification (`vfio-user.rst` of libvfio-user and QEMU). All fields are in the byte order of
//! the machine, which both ends are on. Every answer is checked: that it is to what was asked, whether it
//! is an error, and that it is as long as it says and no longer than it may be.

use crate::Errno;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::time::Duration;
use rustix::fd::BorrowedFd;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bytes of a message's header: its number, its command, its length, flags, and an error.
const HEADER: usize = 16;
/// The longest answer that is read: more than any is.
const LONGEST: usize = 1 << 16;
/// The version of the protocol that this speaks, and what it can: one file descriptor a message is enough.
const VERSION: [u16; 2] = [0, 1];
const CAPABILITIES: &[u8] = b"{\"capabilities\":{\"max_msg_fds\":16}}\0";

/// Flags of a header: an answer, and one that is an error.
const ANSWER: u32 = 1;
const ERROR: u32 = 1 << 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
enum Command {
    Version = 1,
    DmaMap = 2,
    DmaUnmap = 3,
    GetRegionInfo = 5,
    SetIrqs = 8,
    RegionRead = 9,
    RegionWrite = 10,
    DeviceReset = 13,
}

/// A connection to whoever emulates a function. One message at a time is under way.
pub(super) struct Client(Mutex<Connection>);

struct Connection {
    stream: UnixStream,
    next: u16,
    /// Something was not answered, or answered wrongly: what comes next may be to what was asked before.
    broken: bool,
}

impl Client {
    pub(super) fn connect(path: &Path) -> Result<Self, Errno> {
        let stream = UnixStream::connect(path).map_err(errno)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(errno)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(errno)?;
        let client = Client(Mutex::new(Connection { stream, next: 0, broken: false }));
        let mut body = Vec::new();
        VERSION.iter().for_each(|part| body.extend_from_slice(&part.to_ne_bytes()));
        body.extend_from_slice(CAPABILITIES);
        let answer = client.ask(Command::Version, &body, &[])?;
        // The other end answers with the version that it speaks, of the same major.
        match answer.get(..2) {
            Some(major) if major == VERSION[0].to_ne_bytes() => Ok(client),
            _ => Err(Errno::EPROTO),
        }
    }

    /// Sends a command, and answers what follows the header of its answer.
    fn ask(
        &self,
        command: Command,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Vec<u8>, Errno> {
        let mut connection = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.broken {
            return Err(Errno::EIO);
        }
        // Whatever goes wrong before the answer is whole leaves the stream where nobody knows.
        connection.broken = true;
        let (error, answer) = connection.ask(command, body, files)?;
        connection.broken = false;
        match error {
            None => Ok(answer),
            Some(error) => Err(error),
        }
    }

    /// The size of region `number`: a BAR, or the configuration space.
    pub(super) fn region_bytes(&self, number: u32) -> Result<u64, Errno> {
        const INFO: u32 = 32;
        let mut body = [0; INFO as usize];
        body[..4].copy_from_slice(&INFO.to_ne_bytes());
        body[8..12].copy_from_slice(&number.to_ne_bytes());
        let answer = self.ask(Command::GetRegionInfo, &body, &[])?;
        let size = answer.get(16..24).and_then(|size| size.try_into().ok());
        size.map(u64::from_ne_bytes).ok_or(Errno::EPROTO)
    }

    /// Reads registers.
    pub(super) fn read(&self, region: u32, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        let body = access(region, at, into.len());
        let answer = self.ask(Command::RegionRead, &body, &[])?;
        let data = answer.get(body.len()..).filter(|data| data.len() == into.len());
        into.copy_from_slice(data.ok_or(Errno::EPROTO)?);
        Ok(())
    }

    /// Writes registers. It has happened when this returns.
    pub(super) fn write(&self, region: u32, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut body = access(region, at, bytes.len()).to_vec();
        body.extend_from_slice(bytes);
        self.ask(Command::RegionWrite, &body, &[]).map(drop)
    }

    /// Lets the function reach `len` bytes of `file`, from its start on, at a device address.
    pub(super) fn map(&self, address: u64, len: u64, file: BorrowedFd<'_>) -> Result<(), Errno> {
        const BYTES: u32 = 32;
        /// It may read and write.
        const BOTH: u32 = 3;
        let mut body = Vec::with_capacity(BYTES as usize);
        body.extend_from_slice(&BYTES.to_ne_bytes());
        body.extend_from_slice(&BOTH.to_ne_bytes());
        [0, address, len].iter().for_each(|part| body.extend_from_slice(&part.to_ne_bytes()));
        self.ask(Command::DmaMap, &body, &[file]).map(drop)
    }

    /// Takes them back. The function has let go of them when this returns.
    pub(super) fn unmap(&self, address: u64, len: u64) -> Result<(), Errno> {
        const BYTES: u32 = 24;
        let mut body = Vec::with_capacity(BYTES as usize);
        body.extend_from_slice(&BYTES.to_ne_bytes());
        body.extend_from_slice(&0u32.to_ne_bytes());
        [address, len].iter().for_each(|part| body.extend_from_slice(&part.to_ne_bytes()));
        self.ask(Command::DmaUnmap, &body, &[]).map(drop)
    }

    /// Has the MSI-X vectors from 0 on signal `files`; none, if there are none.
    pub(super) fn listen(&self, files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        const BYTES: u32 = 20;
        /// `VFIO_PCI_MSIX_IRQ_INDEX`; `VFIO_IRQ_SET_DATA_*` and `VFIO_IRQ_SET_ACTION_TRIGGER`.
        const MSIX: u32 = 2;
        const NO_DATA: u32 = 1;
        const EVENT_FILES: u32 = 4;
        const TRIGGER: u32 = 1 << 5;
        let data = if files.is_empty() { NO_DATA } else { EVENT_FILES };
        let parts = [BYTES, data | TRIGGER, MSIX, 0, files.len() as u32];
        let body: Vec<u8> = parts.iter().flat_map(|part| part.to_ne_bytes()).collect();
        self.ask(Command::SetIrqs, &body, files).map(drop)
    }

    /// Resets the function.
    pub(super) fn reset(&self) -> Result<(), Errno> {
        self.ask(Command::DeviceReset, &[], &[]).map(drop)
    }
}

/// What begins a read or write of registers.
fn access(region: u32, at: u64, len: usize) -> [u8; 16] {
    let mut body = [0; 16];
    body[..8].copy_from_slice(&at.to_ne_bytes());
    body[8..12].copy_from_slice(&region.to_ne_bytes());
    body[12..].copy_from_slice(&(len as u32).to_ne_bytes());
    body
}

fn errno(error: std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno)
}

impl Connection {
    /// What the answer says went wrong, and what follows its header.
    fn ask(
        &mut self,
        command: Command,
        body: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<(Option<Errno>, Vec<u8>), Errno> {
        self.next = self.next.wrapping_add(1);
        let mut message = vec![0; HEADER];
        message[..2].copy_from_slice(&self.next.to_ne_bytes());
        message[2..4].copy_from_slice(&(command as u16).to_ne_bytes());
        message[4..8].copy_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        message.extend_from_slice(body);
        self.send(&message, files)?;

        let mut header = [0; HEADER];
        self.stream.read_exact(&mut header).map_err(errno)?;
        let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let word = |at: usize| u32::from_ne_bytes([0, 1, 2, 3].map(|next| header[at + next]));
        let (len, flags, error) = (word(4) as usize, word(8), word(12));
        let is_answer = half(0) == self.next && flags & 0xf == ANSWER;
        if !is_answer || half(2) != command as u16 || !(HEADER..=LONGEST).contains(&len) {
            return Err(Errno::EPROTO);
        }
        let mut answer = vec![0; len - HEADER];
        self.stream.read_exact(&mut answer).map_err(errno)?;
        let error = match (flags & ERROR != 0, error) {
            (false, _) => None,
            (true, 0) => Some(Errno::EIO),
            (true, error) => Some(Errno(error as i32)),
        };
        Ok((error, answer))
    }

    /// Sends all of a message. The descriptors travel with its first bytes.
    fn send(&mut self, message: &[u8], files: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(Errno::EINVAL);
        }
        let mut rest = message;
        while !rest.is_empty() {
            let flags = SendFlags::NOSIGNAL;
            let sent = sendmsg(self.stream.as_fd(), &[IoSlice::new(rest)], &mut control, flags);
            match sent {
                Ok(0) => return Err(Errno::EIO),
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            control.clear();
        }
        Ok(())
    }
}

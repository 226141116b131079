//! Packets written down for Wireshark.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zerocopy::{Immutable, IntoBytes};

/// A file of Ethernet frames in the format of libpcap, with times in nanoseconds.
///
/// The format is two structures (pcap-savefile(5)), in this machine's byte order, which the magic
/// number tells.
pub struct Pcap {
    to: Box<dyn Write + Send>,
    /// What the fabric's clock counts from.
    start: Duration,
    failed: Option<io::Error>,
}

/// `pcap_file_header`.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct FileHeader {
    magic: u32,
    major: u16,
    minor: u16,
    reserved: [u32; 2],
    longest: u32,
    link: u32,
}

/// `pcap_pkthdr` as it is in files.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct PacketHeader {
    seconds: u32,
    nanoseconds: u32,
    captured: u32,
    length: u32,
}

const NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
/// More than any frame has.
const LONGEST: u32 = 1 << 18;

impl Pcap {
    /// A file at `path`, which is replaced. Times of packets count from now on.
    pub fn create(path: &Path) -> io::Result<Pcap> {
        let start = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Pcap::new(BufWriter::new(File::create(path)?), start)
    }

    /// Writes to `to`. A fabric's time of 0 is `start`, after 1970 began.
    pub fn new(mut to: impl Write + Send + 'static, start: Duration) -> io::Result<Pcap> {
        let header = FileHeader {
            magic: NANOSECONDS,
            major: 2,
            minor: 4,
            reserved: [0; 2],
            longest: LONGEST,
            link: ETHERNET,
        };
        to.write_all(header.as_bytes())?;
        Ok(Pcap { to: Box::new(to), start, failed: None })
    }

    /// Writes a frame down that was seen at `now`, in nanoseconds: headers and payload, without the
    /// check sequence. After a failure nothing more is written.
    pub fn write(&mut self, now: u64, frame: &[&[u8]]) {
        if self.failed.is_some() {
            return;
        }
        let time = self.start + Duration::from_nanos(now);
        let length = frame.iter().map(|part| part.len()).sum::<usize>() as u32;
        let header = PacketHeader {
            // Until 2106.
            seconds: time.as_secs() as u32,
            nanoseconds: time.subsec_nanos(),
            captured: length,
            length,
        };
        let mut parts = std::iter::once(header.as_bytes()).chain(frame.iter().copied());
        let written = parts.try_for_each(|part| self.to.write_all(part));
        self.failed = written.err();
    }

    /// Makes sure that what was written is in the file. The error is the first that there was.
    pub fn flush(&mut self) -> io::Result<()> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.to.flush(),
        }
    }
}

impl Drop for Pcap {
    fn drop(&mut self) {
        // Who wants to know has flushed before.
        let _ = self.to.flush();
    }
}

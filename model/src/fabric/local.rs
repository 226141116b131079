//! Ports of several processes of one machine, joined by datagram sockets.

use super::{Address, Arrival, Fabric, Loopback, Message, MessageArrival, Port};
use crate::rc::Packet;
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};

/// Joins the ports of every process that has the same directory. Packets arrive once, and in order
/// between two ports; a packet to a process that is gone is lost.
///
/// A port is a socket `port-…` in the directory, and each of its addresses a symbolic link to it.
/// A datagram is one packet after the other: source, destination, length, and the bytes that
/// [`Packet::encode`] writes. A socket's queue is short, in datagrams, so they are filled with what
/// is sent in one go. Packets between ports of one process never leave it: a [`Loopback`] carries
/// them.
///
/// Members have numbers, from 1 on, so that their NICs' addresses differ. A number is a lock on a
/// file, which ends with the process whatever becomes of it.
pub struct LocalFabric {
    directory: PathBuf,
    number: u16,
    /// Held for as long as the number is.
    _lock: File,
    /// For packets to ports of this process.
    within: Loopback,
    /// By port number, the loopback's, too; ports are never used again.
    ports: Vec<Option<Socket>>,
    /// Datagrams that are being filled, or whose receiver's queue was full, in order.
    waiting: VecDeque<Waiting>,
    lost: u64,
    buffer: Vec<u8>,
}

struct Socket {
    socket: UnixDatagram,
    path: PathBuf,
    addresses: Vec<Address>,
    /// What the last datagram brought.
    arrived: VecDeque<Arrival>,
}

struct Waiting {
    port: Port,
    destination: Address,
    bytes: Vec<u8>,
}

/// The bytes of an address in a datagram: which kind, and 16 bytes.
const ADDRESS: usize = 17;
/// The bytes before a packet: addresses and length.
const HEADER: usize = 2 * ADDRESS + 4;
/// A datagram with as many bytes takes no more packets.
const FULL: usize = 60_000;
/// The most bytes of a datagram: one packet more than that.
const LONGEST: usize = FULL + HEADER + 64 + 4096;
/// Datagrams that wait for full receivers before more packets are lost.
const MOST_WAITING: usize = 1 << 10;

impl LocalFabric {
    /// Becomes a member of the fabric in `directory`, which is made if it is not there.
    ///
    /// Fails where the directory cannot be written or is another user's, or where its path leaves
    /// no room for a socket's name.
    pub fn join(directory: &Path) -> io::Result<LocalFabric> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        if fs::metadata(directory)?.uid() != rustix::process::geteuid().as_raw() {
            let message = format!("{} belongs to another user", directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        // The longest name that a socket may get.
        SocketAddr::from_pathname(name_of(directory, Address::Gid([0; 16])))?;
        for number in 1..u16::MAX {
            let path = directory.join(format!("member-{number}"));
            let lock = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(Mode::RUSR.bits() | Mode::WUSR.bits())
                .open(&path)?;
            match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {
                    return Ok(LocalFabric {
                        directory: directory.to_path_buf(),
                        number,
                        _lock: lock,
                        within: Loopback::new(),
                        ports: Vec::new(),
                        waiting: VecDeque::new(),
                        lost: 0,
                        buffer: vec![0; LONGEST],
                    });
                }
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("{} has no number left", directory.display())))
    }

    /// The member's number: no other process has it.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Packets that could not be sent to anybody.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn open(&self, port: u32) -> io::Result<Socket> {
        let path = self.directory.join(format!("port-{}-{port}", self.number));
        // A process with this number that is gone may have left it.
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        socket.set_nonblocking(true)?;
        Ok(Socket { socket, path, addresses: Vec::new(), arrived: VecDeque::new() })
    }

    fn socket(&mut self, port: Port) -> Option<&mut Socket> {
        self.ports.get_mut(port.0 as usize)?.as_mut()
    }

    /// Sends what waits, as far as receivers take it. Packets to one address stay in order.
    fn push(&mut self) {
        let mut full: Vec<Address> = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(packet) = self.waiting.pop_front() else { return };
            let keep = full.contains(&packet.destination)
                || match self.try_send(packet.port, packet.destination, &packet.bytes) {
                    Sent::Done => false,
                    Sent::Lost => {
                        self.lost += packets_of(&packet.bytes);
                        false
                    }
                    Sent::Full => {
                        full.push(packet.destination);
                        true
                    }
                };
            if keep {
                self.waiting.push_back(packet);
            }
        }
    }

    fn try_send(&self, port: Port, destination: Address, bytes: &[u8]) -> Sent {
        let Some(Some(socket)) = self.ports.get(port.0 as usize) else { return Sent::Lost };
        match socket.socket.send_to(bytes, name_of(&self.directory, destination)) {
            Ok(_) => Sent::Done,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            // ENOBUFS is a full machine, not a lost peer.
            Err(error) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => Sent::Full,
            Err(_) => Sent::Lost,
        }
    }
}

/// The packets of a datagram.
fn packets_of(bytes: &[u8]) -> u64 {
    let mut arrived = VecDeque::new();
    arrivals(bytes, &mut arrived);
    arrived.len() as u64
}

enum Sent {
    Done,
    Full,
    Lost,
}

/// Where the socket of whoever has `address` is.
fn name_of(directory: &Path, address: Address) -> PathBuf {
    directory.join(match address {
        Address::Lid(lid) => format!("lid-{lid:04x}"),
        Address::Gid(gid) => format!("gid-{:032x}", u128::from_be_bytes(gid)),
        Address::Mac([a, b, c, d, e, f]) => {
            format!("mac-{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}")
        }
    })
}

fn encode(address: Address, to: &mut Vec<u8>) {
    let (kind, raw) = match address {
        Address::Lid(lid) => (0, u128::from(lid).to_be_bytes()),
        Address::Gid(gid) => (1, gid),
        Address::Mac(mac) => {
            let mut raw = [0; 16];
            raw[10..].copy_from_slice(&mac);
            (2, raw)
        }
    };
    to.push(kind);
    to.extend_from_slice(&raw);
}

fn decode(bytes: &[u8; ADDRESS]) -> Option<Address> {
    let (&kind, raw) = bytes.split_first()?;
    let raw: [u8; 16] = raw.try_into().ok()?;
    match kind {
        0 => u16::try_from(u128::from_be_bytes(raw)).ok().map(Address::Lid),
        1 => Some(Address::Gid(raw)),
        2 => Some(Address::Mac(*raw.last_chunk()?)),
        _ => None,
    }
}

/// What a datagram carries. Whatever no member sent is passed over, to its end.
fn arrivals(mut bytes: &[u8], to: &mut VecDeque<Arrival>) {
    while let Some((arrival, rest)) = arrival(bytes) {
        to.push_back(arrival);
        bytes = rest;
    }
}

fn arrival(bytes: &[u8]) -> Option<(Arrival, &[u8])> {
    let (source, rest) = bytes.split_first_chunk::<ADDRESS>()?;
    let (destination, rest) = rest.split_first_chunk::<ADDRESS>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let (packet, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let packet = Packet::decode(packet).ok()?;
    Some((Arrival { source: decode(source)?, destination: decode(destination)?, packet }, rest))
}

impl Fabric for LocalFabric {
    fn attach(&mut self) -> Port {
        let port = self.within.attach();
        // A port without a socket is one whose link is down: nothing gets through.
        self.ports.push(self.open(port.0).ok());
        port
    }

    fn detach(&mut self, port: Port) {
        // A process that has more time than that says goodbye before (`Network::say_goodbye`).
        self.push();
        if let Some(socket) = self.ports.get_mut(port.0 as usize).and_then(Option::take) {
            for &address in &socket.addresses {
                remove_link(&self.directory, address, &socket.path);
            }
            let _ = fs::remove_file(&socket.path);
        }
        self.waiting.retain(|packet| packet.port != port);
        self.within.detach(port);
    }

    fn bind(&mut self, port: Port, address: Address) {
        self.within.bind(port, address);
        let link = name_of(&self.directory, address);
        let Some(socket) = self.socket(port) else { return };
        let Some(target) = socket.path.file_name() else { return };
        let _ = fs::remove_file(&link);
        if symlink(target, &link).is_ok() {
            socket.addresses.push(address);
        }
    }

    fn unbind(&mut self, port: Port, address: Address) {
        self.within.unbind(port, address);
        let directory = self.directory.clone();
        let Some(socket) = self.socket(port) else { return };
        socket.addresses.retain(|known| *known != address);
        remove_link(&directory, address, &socket.path);
    }

    fn send(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        packet: Packet,
    ) {
        if self.within.has(destination) {
            return self.within.send(now, port, source, destination, packet);
        }
        for packet in packet.split() {
            let same = |last: &&mut Waiting| last.port == port && last.destination == destination;
            let last = self.waiting.iter_mut().rev().find(same);
            let fills = last.filter(|last| last.bytes.len() < FULL);
            let datagram = match fills {
                Some(datagram) => datagram,
                None => {
                    self.push();
                    if self.waiting.len() >= MOST_WAITING {
                        self.lost += 1;
                        continue;
                    }
                    self.waiting.push_back(Waiting { port, destination, bytes: Vec::new() });
                    let Some(datagram) = self.waiting.back_mut() else { continue };
                    datagram
                }
            };
            let start = datagram.bytes.len();
            encode(source, &mut datagram.bytes);
            encode(destination, &mut datagram.bytes);
            let length = packet.encoded_len() as u32;
            datagram.bytes.extend_from_slice(&length.to_be_bytes());
            if packet.encode(&mut datagram.bytes).is_err() {
                datagram.bytes.truncate(start);
                self.lost += 1;
            }
        }
    }

    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        if let Some(arrival) = self.within.receive(now, port) {
            return Some(arrival);
        }
        self.push();
        let LocalFabric { ports, buffer, .. } = self;
        let socket = ports.get_mut(port.0 as usize)?.as_mut()?;
        while socket.arrived.is_empty() {
            let length = socket.socket.recv(buffer).ok()?;
            arrivals(buffer.get(..length)?, &mut socket.arrived);
        }
        socket.arrived.pop_front()
    }

    /// Messages reach ports of this process only.
    fn send_message(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        message: Message,
    ) {
        self.within.send_message(now, port, source, destination, message);
    }

    fn receive_message(&mut self, now: u64, port: Port) -> Option<MessageArrival> {
        self.within.receive_message(now, port)
    }

    /// Known only for packets that are in this process: others arrive unannounced.
    fn next_arrival(&self) -> Option<u64> {
        let arrived = self.ports.iter().flatten().any(|socket| !socket.arrived.is_empty());
        let here = arrived || !self.waiting.is_empty();
        here.then_some(0).or_else(|| self.within.next_arrival())
    }

    /// Runs stay whole within the process, and are split on their way to another.
    fn longest_run(&self) -> u16 {
        self.within.longest_run()
    }

    /// While packets wait for a full receiver. They would wait longer than their senders wait for
    /// acknowledgements if everything that is posted waited here.
    fn is_congested(&mut self, port: Port) -> bool {
        self.push();
        !self.waiting.is_empty() || self.within.is_congested(port)
    }

    /// Packets to other processes are copies. They leave, for a process that lets go of memory may be
    /// about to end.
    fn settle(&mut self, port: Port) {
        self.push();
        self.within.settle(port);
    }
}

/// Takes a link away that leads to `socket`; another member may have made it its own meanwhile.
fn remove_link(directory: &Path, address: Address, socket: &Path) {
    let link = name_of(directory, address);
    if fs::read_link(&link).is_ok_and(|target| Some(target.as_os_str()) == socket.file_name()) {
        let _ = fs::remove_file(&link);
    }
}

impl Drop for LocalFabric {
    fn drop(&mut self) {
        for port in 0..self.ports.len() {
            self.detach(Port(port as u32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::testing::{numbered, numbers};

    fn join(directory: &tempfile::TempDir) -> LocalFabric {
        LocalFabric::join(&directory.path().join("fabric")).unwrap()
    }

    #[test]
    fn members_have_numbers_of_their_own_and_the_lowest_free_one_is_next() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (join(&directory), join(&directory));
        assert_eq!((a.number(), b.number()), (1, 2));
        drop(a);
        assert_eq!(join(&directory).number(), 1);
        drop(b);
    }

    #[test]
    fn packets_cross_to_the_member_that_has_the_address_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let (mut a, mut b) = (join(&directory), join(&directory));
        let (from, to) = (a.attach(), b.attach());
        let gid = Address::Gid([0xab; 16]);
        a.bind(from, Address::Lid(1));
        b.bind(to, Address::Lid(2));
        b.bind(to, gid);
        a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(0));
        a.send(0, from, Address::Lid(1), gid, numbered(1));
        a.send(0, from, Address::Lid(1), Address::Lid(3), numbered(2));
        assert!(!a.is_congested(from));
        let first = b.receive(0, to).unwrap();
        assert_eq!((first.source, first.destination), (Address::Lid(1), Address::Lid(2)));
        assert_eq!(numbers(&mut b, to, 0), [1]);
        assert_eq!(a.lost(), 1);
        b.unbind(to, gid);
        a.send(0, from, Address::Lid(1), gid, numbered(3));
        assert!(!a.is_congested(from));
        drop(b);
        a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(4));
        assert!(!a.is_congested(from));
        assert_eq!(a.lost(), 3);
    }

    #[test]
    fn packets_within_a_member_stay_there_until_another_has_the_address() {
        let directory = tempfile::tempdir().unwrap();
        let (mut a, mut b) = (join(&directory), join(&directory));
        let (from, to) = (a.attach(), a.attach());
        a.bind(to, Address::Lid(2));
        a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(0));
        assert_eq!(a.next_arrival(), Some(0));
        assert_eq!(numbers(&mut a, to, 0), [0]);
        let other = b.attach();
        a.unbind(to, Address::Lid(2));
        b.bind(other, Address::Lid(2));
        a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(1));
        assert_eq!(a.next_arrival(), Some(0));
        assert!(numbers(&mut a, to, 0).is_empty());
        assert_eq!(numbers(&mut b, other, 0), [1]);
    }

    #[test]
    fn a_receiver_that_is_slow_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (mut a, mut b) = (join(&directory), join(&directory));
        let (from, to) = (a.attach(), b.attach());
        b.bind(to, Address::Lid(2));
        // More than the kernel lets wait in a socket (net.unix.max_dgram_qlen datagrams).
        const COUNT: u32 = 500_000;
        for number in 0..COUNT {
            a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(number));
        }
        assert_eq!(a.next_arrival(), Some(0));
        assert!(a.is_congested(from));
        let mut seen = Vec::new();
        while a.next_arrival().is_some() {
            seen.extend(numbers(&mut b, to, 0));
            assert!(a.receive(0, from).is_none());
        }
        seen.extend(numbers(&mut b, to, 0));
        assert_eq!(seen, (0..COUNT).collect::<Vec<_>>());
        assert!(!a.is_congested(from));
        assert_eq!(a.lost(), 0);
    }

    #[test]
    fn what_was_sent_has_left_when_the_port_has_settled() {
        let directory = tempfile::tempdir().unwrap();
        let (mut a, mut b) = (join(&directory), join(&directory));
        let (from, to) = (a.attach(), b.attach());
        b.bind(to, Address::Lid(2));
        a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(5));
        a.settle(from);
        // As a process that ends: nothing of it runs any more.
        std::mem::forget(a);
        assert_eq!(numbers(&mut b, to, 0), [5]);
    }

    #[test]
    fn what_is_no_packet_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let (mut a, mut b) = (join(&directory), join(&directory));
        let (from, to) = (a.attach(), b.attach());
        b.bind(to, Address::Lid(2));
        let stranger = UnixDatagram::unbound().unwrap();
        let name = name_of(&directory.path().join("fabric"), Address::Lid(2));
        for bytes in [&[][..], &[1; 5], &[9; 60], &[0; 4000]] {
            stranger.send_to(bytes, &name).unwrap();
        }
        a.send(0, from, Address::Lid(1), Address::Lid(2), numbered(7));
        assert!(!a.is_congested(from));
        assert_eq!(numbers(&mut b, to, 0), [7]);
    }
}

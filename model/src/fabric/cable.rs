//! A cable to another process: Ethernet frames in datagrams of a Unix socket.

use super::frame::HEADER;
use super::wire_counters::{WireCounters, count};
use super::{Address, Arrival, Fabric, Loopback, Message, MessageArrival, Pcap, Port};
use crate::rc::Packet;
use crate::roce::{self, BadFrame, Decapsulated, Route, Transport};
use etherparse::EtherType;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Joins the ports of this process to one other process, by a cable that carries whole Ethernet frames:
/// those of drivers, and RoCE v2 in them.
///
/// A frame is a datagram of a Unix socket, without its check sequence. This is what QEMU's
/// `-netdev dgram` with `local.type=unix` and `remote.type=unix` speaks, so that the other end may be a
/// virtual machine's network card, as well as another `Cable`.
///
/// Where a packet goes to is what drivers said ([`Fabric::set_neighbor`]); they asked by ARP, over the
/// same cable. What a driver sends by RoCE's first version travels as RoCE v2. Ports of this process
/// reach each other without the cable.
pub struct Cable {
    /// For packets between the ports of this process, and what came in.
    within: Loopback,
    /// The port of `within` that stands for the other process.
    outside: Port,
    socket: UnixDatagram,
    own: PathBuf,
    peer: PathBuf,
    /// The Ethernet addresses of ports.
    macs: BTreeMap<Port, [u8; 6]>,
    neighbors: BTreeMap<Address, [u8; 6]>,
    /// Frames that the other process had no room for, in order.
    waiting: VecDeque<Vec<u8>>,
    counters: Arc<WireCounters>,
    pcap: Option<Pcap>,
    /// Numbers datagrams.
    sequence: u32,
    incoming: Box<[u8]>,
}

/// The most bytes of a frame: what QEMU's network cards can send.
const LONGEST: usize = (1 << 16) + 4096;
/// Frames that wait for room before more are lost; and frames that nobody has received yet, before no
/// more are read.
const MOST_WAITING: usize = 1 << 10;
/// Frames that are read in one go.
const BATCH: usize = 1 << 6;
/// Peers whose Ethernet addresses are known; nobody has as many.
const MOST_NEIGHBORS: usize = 1 << 12;
/// How often a NIC without work looks for frames.
const LOOK_AT_SOCKET: Duration = Duration::from_micros(100);

impl Cable {
    /// A cable from a socket at `own`, where nothing may be yet, to one at `peer`, which may come
    /// later and go again: meanwhile, frames are lost.
    pub fn between(own: &Path, peer: &Path) -> io::Result<Cable> {
        let socket = UnixDatagram::bind(own)?;
        socket.set_nonblocking(true)?;
        let mut within = Loopback::new();
        Ok(Cable {
            outside: within.attach(),
            within,
            socket,
            own: own.to_owned(),
            peer: peer.to_owned(),
            macs: BTreeMap::new(),
            neighbors: BTreeMap::new(),
            waiting: VecDeque::new(),
            counters: Arc::default(),
            pcap: None,
            sequence: 0,
            incoming: vec![0; LONGEST].into(),
        })
    }

    /// Writes every frame to `pcap`, sent and received, bad ones too.
    pub fn capture(mut self, pcap: Pcap) -> Cable {
        self.pcap = Some(pcap);
        self
    }

    /// What becomes of the frames.
    pub fn counters(&self) -> Arc<WireCounters> {
        self.counters.clone()
    }

    /// Makes a frame of a packet, and sends it.
    fn transmit(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        transport: &Transport,
    ) {
        // A group's datagrams name its Ethernet address, and its Internet address in their route.
        let (mac, to) = match (destination, transport) {
            (Address::Mac(mac), Transport::Unreliable(Message::Datagram(datagram))) => {
                (Some(mac), datagram.route.map(|route| Address::Gid(route.destination)))
            }
            _ => (self.neighbors.get(&destination).copied(), Some(destination)),
        };
        let route = to.and_then(|to| Route::between(source, to));
        let (Some(route), Some(mac), Some(own)) = (route, mac, self.macs.get(&port)) else {
            return count(&self.counters.unreachable);
        };
        let mut frame = roce::ethernet_header(*own, mac, &route).to_vec();
        self.sequence = self.sequence.wrapping_add(1);
        // A packet whose bytes are gone is one that was lost on its way.
        if roce::encapsulate(&route, transport, self.sequence, &mut frame).is_err() {
            return count(&self.counters.overrun);
        }
        self.put(now, frame);
    }

    /// Sends a frame, now or as soon as there is room.
    fn put(&mut self, now: u64, frame: Vec<u8>) {
        if let Some(pcap) = &mut self.pcap {
            pcap.write(now, &[&frame]);
        }
        // In order: nothing overtakes what waits.
        if self.waiting.is_empty() && self.send_now(&frame) {
            return;
        }
        if self.waiting.len() >= MOST_WAITING {
            return count(&self.counters.overrun);
        }
        self.waiting.push_back(frame);
    }

    /// Answers `false` if there is no room now.
    fn send_now(&self, frame: &[u8]) -> bool {
        match self.socket.send_to(frame, &self.peer) {
            Ok(_) => count(&self.counters.sent),
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) =>
            {
                return false;
            }
            // The cable is not plugged in at the other end.
            Err(_) => count(&self.counters.unreachable),
        }
        true
    }

    /// Sends what waits, as far as there is room.
    fn push(&mut self) {
        while let Some(frame) = self.waiting.front() {
            if !self.send_now(frame) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    /// Takes in what has come, a bounded number of frames.
    fn pull(&mut self, now: u64) {
        for _ in 0..BATCH {
            if self.within.waiting() >= MOST_WAITING {
                return;
            }
            let Ok(length) = self.socket.recv(&mut self.incoming) else { return };
            let Some(frame) = self.incoming.get(..length) else { return };
            if let Some(pcap) = &mut self.pcap {
                pcap.write(now, &[frame]);
            }
            let Some((header, packet)) = frame.split_first_chunk::<HEADER>() else {
                count(&self.counters.malformed);
                continue;
            };
            let [a, b, c, d, e, f, from @ .., high, low] = *header;
            let (to, kind) = ([a, b, c, d, e, f], EtherType(u16::from_be_bytes([high, low])));
            let found = match kind {
                EtherType::IPV4 | EtherType::IPV6 => roce::decapsulate(packet),
                _ => Ok(None),
            };
            match found {
                Ok(Some(found)) => {
                    count(&self.counters.received);
                    self.deliver(now, to, found);
                }
                Err(BadFrame::Crc { .. }) => count(&self.counters.corrupt),
                Err(BadFrame::Short { .. } | BadFrame::Transport(_)) => {
                    count(&self.counters.malformed);
                }
                // Not RoCE's: a driver's to judge.
                Ok(None) | Err(BadFrame::Header(_) | BadFrame::Fragment) => {
                    count(&self.counters.received);
                    let message = Message::Frame(frame.into());
                    let (from, to) = (Address::Mac(from), Address::Mac(to));
                    self.within.send_message(now, self.outside, from, to, message);
                }
            }
        }
    }

    /// Brings a packet that came to `mac` to the port that is meant.
    fn deliver(&mut self, now: u64, mac: [u8; 6], found: Decapsulated) {
        let Decapsulated { route, transport } = found;
        let [first, ..] = mac;
        let group = first & 1 != 0;
        if !group && !self.macs.values().any(|own| *own == mac) {
            return count(&self.counters.unreachable);
        }
        let source = roce::address_of(route.source);
        let destination = roce::address_of(route.destination);
        match transport {
            Transport::Reliable(packet) => {
                self.within.send(now, self.outside, source, destination, packet);
            }
            Transport::Unreliable(message) => {
                let to = if group { Address::Mac(mac) } else { destination };
                self.within.send_message(now, self.outside, source, to, message);
            }
        }
    }
}

impl Fabric for Cable {
    fn attach(&mut self) -> Port {
        self.within.attach()
    }

    fn detach(&mut self, port: Port) {
        self.push();
        self.macs.remove(&port);
        self.within.detach(port);
        if let Some(pcap) = &mut self.pcap {
            // What cannot be written is not worth a connection.
            let _ = pcap.flush();
        }
    }

    fn bind(&mut self, port: Port, address: Address) {
        if let Address::Mac(mac) = address {
            self.macs.insert(port, mac);
        }
        self.within.bind(port, address);
    }

    fn unbind(&mut self, port: Port, address: Address) {
        if self.macs.get(&port).is_some_and(|mac| Address::Mac(*mac) == address) {
            self.macs.remove(&port);
        }
        self.within.unbind(port, address);
    }

    fn set_neighbor(&mut self, address: Address, mac: [u8; 6]) {
        if self.neighbors.len() >= MOST_NEIGHBORS && !self.neighbors.contains_key(&address) {
            self.neighbors.clear();
        }
        self.neighbors.insert(address, mac);
    }

    fn send(&mut self, now: u64, port: Port, from: Address, to: Address, packet: Packet) {
        if self.within.has(to) {
            return self.within.send(now, port, from, to, packet);
        }
        for packet in packet.split() {
            self.transmit(now, port, from, to, &packet.into());
        }
    }

    fn send_message(&mut self, now: u64, port: Port, from: Address, to: Address, message: Message) {
        let group = matches!(to, Address::Mac([first, ..]) if first & 1 != 0);
        if group || self.within.has(to) {
            self.within.send_message(now, port, from, to, message.clone());
            if !group {
                return;
            }
        }
        match message {
            Message::Frame(frame) => self.put(now, frame.into()),
            message => self.transmit(now, port, from, to, &message.into()),
        }
    }

    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        if let Some(arrival) = self.within.receive(now, port) {
            return Some(arrival);
        }
        self.push();
        self.pull(now);
        self.within.receive(now, port)
    }

    fn receive_message(&mut self, now: u64, port: Port) -> Option<MessageArrival> {
        self.within.receive_message(now, port)
    }

    /// Known only for what waits here; the rest arrives unannounced.
    fn next_arrival(&self) -> Option<u64> {
        let waits = !self.waiting.is_empty();
        waits.then_some(0).or_else(|| self.within.next_arrival())
    }

    fn rests_at_most(&self) -> Option<Duration> {
        Some(LOOK_AT_SOCKET)
    }

    /// Runs stay whole within the process, and are split on their way to another.
    fn longest_run(&self) -> u16 {
        self.within.longest_run()
    }

    fn is_congested(&mut self, port: Port) -> bool {
        self.push();
        !self.waiting.is_empty() || self.within.is_congested(port)
    }

    /// Frames are copies.
    fn settle(&mut self, port: Port) {
        self.within.settle(port);
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Datagram;
    use crate::fabric::GlobalRoute;
    use crate::fabric::testing::numbered;

    const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn gid(last: u8) -> [u8; 16] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, last]
    }

    /// A cable with a port that has address `last` and a MAC, and the port.
    fn end(directory: &Path, last: u8, peer: u8, mac: [u8; 6]) -> (Cable, Port) {
        let path = |last: u8| directory.join(format!("end-{last}"));
        let mut cable = Cable::between(&path(last), &path(peer)).unwrap();
        let port = cable.attach();
        cable.bind(port, Address::Mac(mac));
        cable.bind(port, Address::Gid(gid(last)));
        (cable, port)
    }

    fn counts(cable: &Cable) -> crate::fabric::WireCounts {
        cable.counters().read()
    }

    #[test]
    fn packets_go_to_the_ethernet_address_that_the_driver_said() {
        let directory = tempfile::tempdir().unwrap();
        let (mut near, from) = end(directory.path(), 1, 2, NEAR);
        let (mut far, to) = end(directory.path(), 2, 1, FAR);
        let [a, b] = [1, 2].map(|last| Address::Gid(gid(last)));
        near.send(0, from, a, b, numbered(1));
        assert_eq!(counts(&near).unreachable, 1, "nobody knows where it is");
        near.set_neighbor(b, [2, 9, 9, 9, 9, 9]);
        near.send(0, from, a, b, numbered(2));
        assert!(far.receive(0, to).is_none());
        assert_eq!(counts(&far).unreachable, 1, "it is somebody else's");
        near.set_neighbor(b, FAR);
        near.send(0, from, a, b, numbered(3));
        let arrival = far.receive(0, to).unwrap();
        assert_eq!((arrival.source, arrival.destination), (a, b));
        assert_eq!(arrival.packet.psn.get(), 3);
        assert!(far.receive(0, to).is_none());
    }

    #[test]
    fn what_travels_is_an_ethernet_frame_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let (mut cable, port) = end(directory.path(), 1, 2, NEAR);
        let machine = UnixDatagram::bind(directory.path().join("end-2")).unwrap();
        machine.set_nonblocking(true).unwrap();
        let mut buffer = [0; 256];
        // A driver's question to all.
        let mut question = vec![0xff; 6];
        question.extend(NEAR);
        question.extend([0x08, 0x06, 1, 2, 3]);
        let message = Message::Frame(question.clone().into());
        let everybody = Address::Mac([0xff; 6]);
        cable.send_message(0, port, Address::Mac(NEAR), everybody, message);
        let length = machine.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], question[..]);
        // The answer, and a fragment that only looks like RoCE's.
        let mut fragment = [NEAR, FAR].concat();
        fragment.extend([8, 0, 0x45, 0, 0, 28, 0, 1, 0x20, 0, 64, 17, 0, 0, 10, 9, 0, 2]);
        fragment.extend([10, 9, 0, 1, 0x12, 0xb7, 0x12, 0xb7, 0, 8, 0, 0]);
        let mut answer = [NEAR, FAR].concat();
        answer.extend([0x08, 0x06, 4]);
        for frame in [&answer, &fragment] {
            machine.send_to(frame, directory.path().join("end-1")).unwrap();
            assert!(cable.receive(0, port).is_none());
            let arrival = cable.receive_message(0, port).unwrap();
            let Message::Frame(bytes) = arrival.message else { panic!("a frame") };
            assert_eq!(&*bytes, &frame[..]);
        }
        // RoCE v2: Ethernet, IPv4, UDP to 4791, and a send of three bytes.
        cable.set_neighbor(Address::Gid(gid(2)), FAR);
        cable.send(0, port, Address::Gid(gid(1)), Address::Gid(gid(2)), numbered(7));
        let length = machine.recv(&mut buffer).unwrap();
        assert_eq!(length, 14 + 20 + 8 + 12 + 4 + 4);
        assert_eq!(buffer[..14], [&FAR[..], &NEAR, &[8, 0]].concat());
        assert_eq!(buffer[36..38], [0x12, 0xb7]);
    }

    #[test]
    fn bad_packets_are_counted_by_reason_and_written_down_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("frames.pcap");
        let (cable, port) = end(directory.path(), 1, 2, NEAR);
        let mut cable = cable.capture(Pcap::create(&path).unwrap());
        let machine = UnixDatagram::bind(directory.path().join("end-2")).unwrap();
        let route = Route::between(Address::Gid(gid(2)), Address::Gid(gid(1))).unwrap();
        let mut good = roce::ethernet_header(FAR, NEAR, &route).to_vec();
        roce::encapsulate(&route, &numbered(1).into(), 0, &mut good).unwrap();
        let mut corrupt = good.clone();
        corrupt[60] ^= 1;
        let bad = [vec![], good[..13].to_vec(), corrupt];
        for frame in bad.iter().chain([&good]) {
            machine.send_to(frame, directory.path().join("end-1")).unwrap();
        }
        assert_eq!(cable.receive(0, port).unwrap().packet.psn.get(), 1);
        let read = counts(&cable);
        assert_eq!((read.malformed, read.corrupt, read.received), (2, 1, 1));
        drop(cable);
        let frames: usize = bad.iter().chain([&good]).map(|frame| frame.len() + 16).sum();
        assert_eq!(std::fs::read(&path).unwrap().len(), 24 + frames);
    }

    #[test]
    fn datagrams_to_a_group_go_to_its_ethernet_address_and_to_ports_of_this_process() {
        let directory = tempfile::tempdir().unwrap();
        let (mut near, from) = end(directory.path(), 1, 2, NEAR);
        let (mut far, to) = end(directory.path(), 2, 1, FAR);
        let beside = near.attach();
        near.bind(beside, Address::Mac([2, 0, 0, 0, 0, 3]));
        let mut group = gid(0);
        group[12..].copy_from_slice(&[239, 1, 2, 3]);
        let mac = Address::Mac([1, 0, 0x5e, 1, 2, 3]);
        let route = GlobalRoute {
            source: gid(1),
            destination: group,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 1,
            ip: true,
        };
        let datagram = Datagram {
            destination: 0xff_ffff,
            source: 6,
            queue_key: 7,
            immediate: None,
            solicited: false,
            route: Some(route),
            bytes: [1, 2, 3].into(),
        };
        let message = Message::Datagram(Box::new(datagram));
        near.send_message(0, from, Address::Gid(gid(1)), mac, message);
        assert!(near.receive_message(0, beside).is_some());
        assert!(far.receive(0, to).is_none());
        let Message::Datagram(came) = far.receive_message(0, to).unwrap().message else {
            panic!("a datagram")
        };
        assert_eq!((came.source, came.route), (6, Some(route)));
    }

    #[test]
    fn frames_wait_for_a_full_peer_in_order_and_are_lost_when_there_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let (mut near, from) = end(directory.path(), 1, 2, NEAR);
        let [a, b] = [1, 2].map(|last| Address::Gid(gid(last)));
        near.set_neighbor(b, FAR);
        near.send(0, from, a, b, numbered(0));
        assert_eq!(counts(&near).unreachable, 1, "the other end is not there yet");
        let (mut far, to) = end(directory.path(), 2, 1, FAR);
        let mut next = 1;
        while !near.is_congested(from) {
            near.send(0, from, a, b, numbered(next));
            next += 1;
            assert!(next < 1 << 20, "no socket keeps so many");
        }
        for expected in 1..next {
            near.is_congested(from);
            assert_eq!(far.receive(0, to).unwrap().packet.psn.get(), expected);
        }
        assert_eq!(counts(&near).overrun, 0);
    }
}

//! Ports joined by an IP network: RoCE v2 in UDP datagrams.

use super::wire_counters::{WireCounters, count};
use super::{Address, Arrival, Fabric, Message, MessageArrival, Pcap, Port};
use crate::rc::{Mtu, Packet};
use crate::roce::{self, BadFrame, Decapsulated, Route, Transport, UDP_PORT};
use etherparse::UdpSlice;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, socket_recv_buffer_size,
};
use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, bind, ipproto, recvfrom, socket_with,
};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Joins the ports of this process to those of others, on this machine and on any that an IP network
/// reaches. No special rights are needed, but an Internet address for each NIC: on one machine,
/// addresses of 127.0.0.0/8 will do.
///
/// Packets may be lost, doubled and reordered, as IP does that. The other end may be anybody who speaks
/// RoCE v2, if this process may open raw sockets (`CAP_NET_RAW`). Else, over IPv4, it has to send IP
/// packets that must not be fragmented with an identification of 0, as the UDP sockets of Linux do: the
/// invariant CRC covers it, and only a raw socket shows it. Over IPv6 it then has to send UDP checksums,
/// which other RoCE v2 does without.
pub struct UdpFabric {
    sockets: Vec<Socket>,
    ports: u32,
    /// Datagrams that the machine had no room for, in order.
    waiting: VecDeque<Waiting>,
    counters: Arc<WireCounters>,
    pcap: Option<Pcap>,
    /// Numbers datagrams.
    sequence: u32,
    outgoing: Vec<u8>,
    incoming: Box<[u8]>,
}

struct Socket {
    address: IpAddr,
    /// For sending; and for receiving, if there is no raw one. It holds the port in any case: the
    /// machine would refuse packets to one that nobody has.
    socket: UdpSocket,
    /// Receives the packets of every UDP port: whole ones over IPv4, from UDP's header on over IPv6.
    raw: Option<OwnedFd>,
    /// Bytes that it keeps for packets nobody has read yet.
    room: usize,
    /// The port that has the address.
    port: Option<Port>,
    messages: VecDeque<MessageArrival>,
}

struct Waiting {
    port: Port,
    socket: usize,
    to: IpAddr,
    bytes: Vec<u8>,
}

/// The most bytes of UDP payload that are read: more than any packet has.
const LONGEST: usize = 1 << 14;
/// Datagrams that wait for room before more packets are lost.
const MOST_WAITING: usize = 1 << 10;
/// Messages that wait to be received before more are lost.
const MOST_MESSAGES: usize = 1 << 12;
/// Packets of no use that are read before the NICs do something else.
const MOST_PASSED_OVER: usize = 1 << 8;
/// What a socket should keep; the machine may allow less.
const ROOM: usize = 8 << 20;
/// What a packet takes of that room at most, besides its bytes: what the kernel adds to it.
const KEPT_PER_PACKET: usize = 10 << 10;

impl UdpFabric {
    /// A fabric with a socket for each of `addresses`, which have to be this machine's. A port
    /// reaches others from the moment when it is given one of them.
    pub fn bind(addresses: &[IpAddr]) -> io::Result<UdpFabric> {
        UdpFabric::bind_with(addresses, true)
    }

    /// With raw sockets where they are allowed, or without.
    fn bind_with(addresses: &[IpAddr], raw: bool) -> io::Result<UdpFabric> {
        let sockets = addresses.iter().map(|&address| Socket::bind(address, raw));
        Ok(UdpFabric {
            sockets: sockets.collect::<io::Result<_>>()?,
            ports: 0,
            waiting: VecDeque::new(),
            counters: Arc::default(),
            pcap: None,
            sequence: 0,
            outgoing: Vec::new(),
            incoming: vec![0; LONGEST].into(),
        })
    }

    /// The path MTU of a port that has `address`, where nobody says another: what fits Ethernet's 1500
    /// bytes, and on the loopback the most there is.
    pub fn usual_mtu(address: IpAddr) -> Mtu {
        if address.is_loopback() { Mtu::B4096 } else { Mtu::B1024 }
    }

    /// What the other addresses of a NIC are made of whose port has `address`.
    pub fn number_of(address: IpAddr) -> u16 {
        match address {
            IpAddr::V4(ip) => ip.to_bits() as u16,
            IpAddr::V6(ip) => ip.to_bits() as u16,
        }
    }

    /// Writes every packet to `pcap`, sent and received, bad ones too. A socket shows neither
    /// Ethernet's addresses nor all of IP's header: those are made up.
    pub fn capture(mut self, pcap: Pcap) -> UdpFabric {
        self.pcap = Some(pcap);
        self
    }

    /// What becomes of the packets.
    pub fn counters(&self) -> Arc<WireCounters> {
        self.counters.clone()
    }

    fn of(&self, port: Port) -> Option<usize> {
        self.sockets.iter().position(|socket| socket.port == Some(port))
    }

    fn transmit(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        transport: &Transport,
    ) {
        let route = Route::between(source, destination);
        let socket = route.and_then(|route| {
            self.sockets
                .iter()
                .position(|socket| socket.port == Some(port) && socket.address == route.source)
        });
        let (Some(route), Some(socket)) = (route, socket) else {
            return count(&self.counters.unreachable);
        };
        self.outgoing.clear();
        self.sequence = self.sequence.wrapping_add(1);
        // A packet whose bytes are gone is one that was lost on its way.
        if roce::encapsulate(&route, transport, self.sequence, &mut self.outgoing).is_err() {
            return count(&self.counters.overrun);
        }
        write_down(&mut self.pcap, now, &route, &self.outgoing);
        let to = route.destination;
        let Some(bytes) = self.outgoing.get(route.header_bytes()..) else { return };
        // In order: nothing overtakes what waits.
        if self.waiting.is_empty() && self.sockets[socket].send(to, bytes, &self.counters) {
            return;
        }
        if self.waiting.len() >= MOST_WAITING {
            return count(&self.counters.overrun);
        }
        self.waiting.push_back(Waiting { port, socket, to, bytes: bytes.to_vec() });
    }

    /// Sends what waits, as far as there is room.
    fn push(&mut self) {
        while let Some(first) = self.waiting.front() {
            if !self.sockets[first.socket].send(first.to, &first.bytes, &self.counters) {
                return;
            }
            self.waiting.pop_front();
        }
    }
}

impl Socket {
    fn bind(address: IpAddr, raw: bool) -> io::Result<Socket> {
        let socket = UdpSocket::bind((address, UDP_PORT)).map_err(|error| {
            io::Error::new(error.kind(), format!("{address}, UDP port {UDP_PORT}: {error}"))
        })?;
        socket.set_nonblocking(true)?;
        // Never fragmented, with an identification of 0; how long packets may be is for the path
        // MTU of the connection to say.
        match address {
            IpAddr::V4(_) => set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::PROBE)?,
            IpAddr::V6(_) => set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::PROBE)?,
        }
        let raw = if raw { raw_socket(address).ok() } else { None };
        let room = match &raw {
            // What comes there is not looked at.
            Some(raw) => {
                set_socket_recv_buffer_size(&socket, 0)?;
                make_room(raw)?
            }
            None => make_room(&socket)?,
        };
        Ok(Socket { address, socket, raw, room, port: None, messages: VecDeque::new() })
    }

    /// The next packet that waits, and its way. `None` if nothing waits.
    fn receive(
        &self,
        now: u64,
        buffer: &mut [u8],
        pcap: &mut Option<Pcap>,
    ) -> Option<Result<Option<Decapsulated>, BadFrame>> {
        let Some(raw) = &self.raw else {
            let (length, from) = self.socket.recv_from(buffer).ok()?;
            let payload = buffer.get(..length)?;
            return self.open(now, from, payload, pcap).map(|found| found.map(Some));
        };
        let (_, length, from) = recvfrom(raw, &mut *buffer, RecvFlags::DONTWAIT).ok()?;
        let packet = buffer.get(..length)?;
        let from = SocketAddr::try_from(from?).ok()?;
        if self.address.is_ipv6() {
            // The header is not shown; all that the invariant CRC covers of it is known.
            let udp = match UdpSlice::from_slice(packet) {
                Ok(udp) if udp.destination_port() == UDP_PORT => udp,
                Ok(_) => return Some(Ok(None)),
                Err(error) => return Some(Err(BadFrame::Header(error.to_string()))),
            };
            let from = SocketAddr::new(from.ip(), udp.source_port());
            return self.open(now, from, udp.payload(), pcap).map(|found| found.map(Some));
        }
        let found = roce::decapsulate(packet);
        if !matches!(found, Ok(None))
            && let Some(route) = self.route_from(from.ip())
        {
            write_down(pcap, now, &route, packet);
        }
        Some(found)
    }

    /// Reads the payload of a UDP datagram.
    fn open(
        &self,
        now: u64,
        from: SocketAddr,
        payload: &[u8],
        pcap: &mut Option<Pcap>,
    ) -> Option<Result<Decapsulated, BadFrame>> {
        let route = Route { source_port: from.port(), ..self.route_from(from.ip())? };
        if pcap.is_some() {
            write_down(pcap, now, &route, &roce::with_headers(&route, payload));
        }
        Some(roce::decapsulate_udp(route, payload))
    }

    fn route_from(&self, source: IpAddr) -> Option<Route> {
        Route::between(roce::address_of(source), roce::address_of(self.address))
    }

    /// Sends a datagram. Answers `false` if there is no room for it now.
    fn send(&self, to: IpAddr, bytes: &[u8], counters: &WireCounters) -> bool {
        match self.socket.send_to(bytes, (to, UDP_PORT)) {
            Ok(_) => count(&counters.sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error()) =>
            {
                return false;
            }
            // No way there, or a firewall, or too long for the network: lost, as on a network.
            Err(_) => count(&counters.unreachable),
        }
        true
    }
}

/// A socket that receives the packets of UDP to `address`, headers and all.
fn raw_socket(address: IpAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::RAW, flags, Some(ipproto::UDP))?;
    bind(&socket, &SocketAddr::new(address, 0))?;
    Ok(socket)
}

/// Has a socket keep as many bytes as the machine allows. Answers how many.
fn make_room(socket: impl AsFd) -> io::Result<usize> {
    if set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
        set_socket_recv_buffer_size(&socket, ROOM)?;
    }
    Ok(socket_recv_buffer_size(&socket)?)
}

/// Ethernet addresses made of Internet ones, for those who write packets down.
fn made_up_mac(ip: IpAddr) -> [u8; 6] {
    let [a, b, c, d] = match ip {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(ip) => *ip.octets().last_chunk().unwrap_or(&[0; 4]),
    };
    [0x02, 0, a, b, c, d]
}

/// Writes an IP packet down.
fn write_down(pcap: &mut Option<Pcap>, now: u64, route: &Route, packet: &[u8]) {
    if let Some(pcap) = pcap {
        let (from, to) = (made_up_mac(route.source), made_up_mac(route.destination));
        pcap.write(now, &[&roce::ethernet_header(from, to, route), packet]);
    }
}

impl Fabric for UdpFabric {
    fn attach(&mut self) -> Port {
        self.ports += 1;
        Port(self.ports - 1)
    }

    fn detach(&mut self, port: Port) {
        self.push();
        self.waiting.retain(|waiting| waiting.port != port);
        for socket in self.sockets.iter_mut().filter(|socket| socket.port == Some(port)) {
            socket.port = None;
            socket.messages.clear();
        }
        if let Some(pcap) = &mut self.pcap {
            // What cannot be written is not worth a connection.
            let _ = pcap.flush();
        }
    }

    /// An address that the fabric has no socket for reaches nobody.
    fn bind(&mut self, port: Port, address: Address) {
        let ip = roce::ip_of(address);
        let socket = self.sockets.iter_mut().find(|socket| ip == Some(socket.address));
        if let Some(socket) = socket {
            socket.port = Some(port);
        }
    }

    fn unbind(&mut self, port: Port, address: Address) {
        let ip = roce::ip_of(address);
        for socket in &mut self.sockets {
            if socket.port == Some(port) && ip == Some(socket.address) {
                socket.port = None;
                socket.messages.clear();
            }
        }
    }

    fn send(&mut self, now: u64, port: Port, from: Address, to: Address, packet: Packet) {
        for packet in packet.split() {
            self.transmit(now, port, from, to, &packet.into());
        }
    }

    /// Frames of Ethernet are not carried.
    fn send_message(&mut self, now: u64, port: Port, from: Address, to: Address, message: Message) {
        match message {
            Message::Frame(_) => count(&self.counters.unreachable),
            _ => self.transmit(now, port, from, to, &message.into()),
        }
    }

    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        self.push();
        let at = self.of(port)?;
        let UdpFabric { sockets, counters, pcap, incoming, .. } = self;
        let socket = &mut sockets[at];
        // A packet that nobody can use is passed over; but whoever sends nothing else is not to hold
        // the NICs.
        for _ in 0..MOST_PASSED_OVER {
            let Decapsulated { route, transport } = match socket.receive(now, incoming, pcap)? {
                Ok(Some(packet)) => packet,
                // Some other program's.
                Ok(None) => continue,
                Err(bad) => {
                    count(match bad {
                        BadFrame::Crc { .. } => &counters.corrupt,
                        _ => &counters.malformed,
                    });
                    continue;
                }
            };
            let source = roce::address_of(route.source);
            let destination = roce::address_of(route.destination);
            match transport {
                Transport::Reliable(packet) => {
                    count(&counters.received);
                    return Some(Arrival { source, destination, packet });
                }
                Transport::Unreliable(_) if socket.messages.len() >= MOST_MESSAGES => {
                    count(&counters.overrun);
                }
                Transport::Unreliable(message) => {
                    count(&counters.received);
                    socket.messages.push_back(MessageArrival { source, destination, message });
                }
            }
        }
        None
    }

    fn receive_message(&mut self, _: u64, port: Port) -> Option<MessageArrival> {
        let at = self.of(port)?;
        self.sockets[at].messages.pop_front()
    }

    /// Known only for what waits here; the rest arrives unannounced.
    fn next_arrival(&self) -> Option<u64> {
        let here = !self.waiting.is_empty()
            || self.sockets.iter().any(|socket| !socket.messages.is_empty());
        here.then_some(0)
    }

    fn rests_at_most(&self) -> Option<Duration> {
        Some(LOOK_AT_SOCKETS)
    }

    /// As many as a receiver's socket keeps, if it is like the ones here: a sender that sends more at
    /// once loses them.
    fn most_outstanding(&self) -> Option<u32> {
        let room = self.sockets.iter().map(|socket| socket.room).min().unwrap_or(ROOM);
        Some(((room / KEPT_PER_PACKET) as u32).clamp(8, 1 << 10))
    }

    fn is_congested(&mut self, _: Port) -> bool {
        self.push();
        !self.waiting.is_empty()
    }

    /// Packets in sockets are copies.
    fn settle(&mut self, _: Port) {}
}

/// How often a NIC without work looks for packets.
const LOOK_AT_SOCKETS: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::testing::numbered;
    use std::net::Ipv6Addr;

    /// Addresses of this machine that no other test uses.
    fn addresses(test: u8) -> [IpAddr; 2] {
        [1, 2].map(|end| [127, 77, test, end].into())
    }

    fn gid(ip: IpAddr) -> Address {
        roce::address_of(ip)
    }

    fn with_and_without_raw_sockets(test: fn(bool)) {
        // Without the right to open them, both are the same.
        test(true);
        test(false);
    }

    fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
        for _ in 0..100_000 {
            if let Some(found) = look() {
                return found;
            }
            std::thread::yield_now();
        }
        panic!("it does not come");
    }

    #[test]
    fn packets_reach_the_port_that_has_the_address_and_no_other() {
        with_and_without_raw_sockets(packets_reach);
    }

    fn packets_reach(raw: bool) {
        let [a, b] = addresses(1);
        let bind = |address| UdpFabric::bind_with(&[address], raw).unwrap();
        let (mut near, mut far) = (bind(a), bind(b));
        let (from, to) = (near.attach(), far.attach());
        near.bind(from, gid(a));
        near.send(0, from, gid(a), gid(b), numbered(1));
        // Nobody has the address yet; the datagram waits in the socket, as on a wire.
        assert!(far.receive(0, to).is_none());
        far.bind(to, gid(b));
        let arrival = eventually(|| far.receive(0, to));
        assert_eq!((arrival.source, arrival.destination), (gid(a), gid(b)));
        assert_eq!(arrival.packet.psn.get(), 1);
        // Not from an address that the port does not have, and to nobody.
        near.send(0, from, gid(b), gid(a), numbered(2));
        near.send(0, from, gid(a), Address::Lid(7), numbered(3));
        let counts = near.counters().read();
        assert_eq!((counts.sent, counts.unreachable), (1, 2));
        assert_eq!(far.counters().read().received, 1);
    }

    #[test]
    fn datagrams_wait_for_who_asks_for_messages() {
        with_and_without_raw_sockets(datagrams_wait);
    }

    fn datagrams_wait(raw: bool) {
        let [a, b] = addresses(2);
        let mut fabric = UdpFabric::bind_with(&[a, b], raw).unwrap();
        let (from, to) = (fabric.attach(), fabric.attach());
        fabric.bind(from, gid(a));
        fabric.bind(to, gid(b));
        let datagram = crate::fabric::Datagram {
            destination: 5,
            source: 6,
            queue_key: 7,
            immediate: Some(8),
            solicited: true,
            route: None,
            bytes: [1, 2, 3].into(),
        };
        let message = Message::Datagram(Box::new(datagram));
        fabric.send_message(0, from, gid(a), gid(b), message);
        let arrival = eventually(|| {
            assert!(fabric.receive(0, to).is_none());
            fabric.receive_message(0, to)
        });
        let Message::Datagram(datagram) = arrival.message else { panic!("a datagram") };
        assert_eq!((datagram.destination, datagram.source), (5, 6));
        assert_eq!((datagram.queue_key, datagram.immediate), (7, Some(8)));
        assert_eq!(&*datagram.bytes, [1, 2, 3]);
    }

    #[test]
    fn bad_packets_from_anyone_are_counted_and_written_down_and_nothing_else() {
        with_and_without_raw_sockets(bad_packets);
    }

    fn bad_packets(raw: bool) {
        let [a, b] = addresses(3);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("packets.pcap");
        let mut fabric =
            UdpFabric::bind_with(&[a], raw).unwrap().capture(Pcap::create(&path).unwrap());
        let port = fabric.attach();
        fabric.bind(port, gid(a));
        let stranger = UdpSocket::bind((b, 0)).unwrap();
        let lengths = [0, 3, 4, 17, 40, 1500, 9000];
        for length in lengths {
            stranger.send_to(&vec![0xab; length], (a, UDP_PORT)).unwrap();
        }
        let counters = fabric.counters();
        eventually(|| {
            assert!(fabric.receive(0, port).is_none());
            let counts = counters.read();
            (counts.corrupt + counts.malformed == lengths.len() as u64).then_some(())
        });
        assert_eq!(counters.read().received, 0);
        drop(fabric);
        let file = std::fs::read(&path).unwrap();
        // A header, and each of them with 14 + 28 bytes before it.
        let kept: usize = lengths.iter().map(|&length| length + 16 + 42).sum();
        assert_eq!(file.len(), 24 + kept);
    }

    #[test]
    fn a_stranger_whose_packets_have_an_identification_is_understood_by_a_raw_socket_alone() {
        let [a, b] = addresses(5);
        let flags = SocketFlags::CLOEXEC;
        let raw = Some(ipproto::RAW);
        let Ok(stranger) = socket_with(AddressFamily::INET, SocketType::RAW, flags, raw) else {
            eprintln!("not run: this process may not open raw sockets");
            return;
        };
        for raw in [true, false] {
            let mut fabric = UdpFabric::bind_with(&[a], raw).unwrap();
            let port = fabric.attach();
            fabric.bind(port, gid(a));
            let mut packet = Vec::new();
            let route = Route::between(gid(b), gid(a)).unwrap();
            roce::encapsulate(&route, &numbered(9).into(), 0, &mut packet).unwrap();
            // Another identification, and the invariant CRC that goes with it.
            packet[4..6].copy_from_slice(&[0x12, 0x34]);
            let end = packet.len() - 4;
            let udp = packet[20..28].try_into().unwrap();
            let crc = roce::invariant_crc(&packet[..20], udp, &packet[28..end]);
            packet[end..].copy_from_slice(&crc.to_le_bytes());
            let to = SocketAddr::new(a, 0);
            rustix::net::sendto(&stranger, &packet, rustix::net::SendFlags::empty(), &to).unwrap();
            let counters = fabric.counters();
            let arrival = eventually(|| {
                let arrival = fabric.receive(0, port);
                (arrival.is_some() || counters.read().corrupt > 0).then_some(arrival)
            });
            assert_eq!(arrival.map(|arrival| arrival.packet.psn.get()), raw.then_some(9));
        }
    }

    #[test]
    fn packets_travel_over_ipv6_too() {
        // The loopback has one address: a NIC that sends to itself, through the machine.
        let ip = IpAddr::V6(Ipv6Addr::LOCALHOST);
        if UdpSocket::bind((ip, 0)).is_err() {
            eprintln!("not run: this machine has no IPv6");
            return;
        }
        for raw in [true, false] {
            let mut fabric = UdpFabric::bind_with(&[ip], raw).unwrap();
            let port = fabric.attach();
            fabric.bind(port, gid(ip));
            fabric.send(0, port, gid(ip), gid(ip), numbered(3));
            // Another program's, and one that is none.
            let stranger = UdpSocket::bind((ip, 0)).unwrap();
            stranger.send_to(&[0xab; 40], (ip, UDP_PORT)).unwrap();
            let arrival = eventually(|| fabric.receive(0, port));
            assert_eq!((arrival.source, arrival.destination), (gid(ip), gid(ip)));
            assert_eq!(arrival.packet.psn.get(), 3);
            let counters = fabric.counters();
            eventually(|| {
                assert!(fabric.receive(0, port).is_none());
                (counters.read().corrupt == 1).then_some(())
            });
        }
    }

    #[test]
    fn an_address_that_another_has_is_refused_by_name() {
        let [a, _] = addresses(4);
        let _first = UdpFabric::bind(&[a]).unwrap();
        let error = UdpFabric::bind(&[a]).err().unwrap();
        assert!(error.to_string().contains("127.77.4.1, UDP port 4791"), "{error}");
    }
}

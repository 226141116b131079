//! What is around a packet of the transport: IP and UDP, and Ethernet.

use super::{BadTransport, Transport, invariant_crc};
use crate::fabric::{Address, GlobalRoute, Message};
use crate::memory::Fault;
use etherparse::{
    EtherType, Ethernet2Header, IpNumber, IpSlice, Ipv4Header, Ipv6FlowLabel, Ipv6Header,
    UdpHeader, UdpSlice,
};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The UDP port that RoCE v2 listens at.
pub const UDP_PORT: u16 = 4791;

const CRC: usize = 4;

/// Where a packet goes, and what its headers say besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// Where it is from.
    pub source: IpAddr,
    /// Where it goes to: of the same version.
    pub destination: IpAddr,
    /// Type of service or traffic class: 8 bits.
    pub traffic_class: u8,
    /// 20 bits; nothing in IPv4.
    pub flow_label: u32,
    /// Routers that it may pass.
    pub hop_limit: u8,
    /// The UDP port that it is from.
    pub source_port: u16,
}

impl Route {
    /// The usual route between two addresses. `None` unless both are IPv4 or both IPv6 addresses.
    pub fn between(source: Address, destination: Address) -> Option<Route> {
        let (source, destination) = (ip_of(source)?, ip_of(destination)?);
        (source.is_ipv4() == destination.is_ipv4()).then_some(Route {
            source,
            destination,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            source_port: UDP_PORT,
        })
    }

    /// The same with what a datagram says of its own way.
    fn of(self, transport: &Transport) -> Route {
        match transport {
            Transport::Unreliable(Message::Datagram(datagram)) => match datagram.route {
                Some(GlobalRoute { traffic_class, flow_label, hop_limit, .. }) => {
                    Route { traffic_class, flow_label, hop_limit, ..self }
                }
                None => self,
            },
            _ => self,
        }
    }

    /// The bytes of headers before the UDP payload of a packet that [`encapsulate`] makes.
    pub(crate) fn header_bytes(&self) -> usize {
        let network = if self.source.is_ipv4() { Ipv4Header::MIN_LEN } else { Ipv6Header::LEN };
        network + UdpHeader::LEN
    }

    /// The network header before `len` bytes.
    fn network_header(&self, len: usize) -> Vec<u8> {
        // Longer packets than these lengths can say are never made: the largest MTU is 4096.
        let len = u16::try_from(len).unwrap_or(u16::MAX);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let [dscp, ecn] = [self.traffic_class >> 2, self.traffic_class & 3];
                let mut header = Ipv4Header {
                    dscp: dscp.try_into().unwrap_or_default(),
                    ecn: ecn.try_into().unwrap_or_default(),
                    total_len: len.saturating_add(Ipv4Header::MIN_LEN_U16),
                    // What Linux gives the datagrams of a socket that must not be fragmented.
                    identification: 0,
                    dont_fragment: true,
                    time_to_live: self.hop_limit,
                    protocol: IpNumber::UDP,
                    source: source.octets(),
                    destination: destination.octets(),
                    ..Ipv4Header::default()
                };
                header.header_checksum = header.calc_header_checksum();
                header.to_bytes().to_vec()
            }
            (source, destination) => {
                let octets = |ip| match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                    IpAddr::V6(ip) => ip.octets(),
                };
                let header = Ipv6Header {
                    traffic_class: self.traffic_class,
                    flow_label: Ipv6FlowLabel::try_new(self.flow_label & 0xf_ffff)
                        .unwrap_or_default(),
                    payload_length: len,
                    next_header: IpNumber::UDP,
                    hop_limit: self.hop_limit,
                    source: octets(source),
                    destination: octets(destination),
                };
                header.to_bytes().to_vec()
            }
        }
    }

    /// The UDP header before `len` bytes. There is no checksum: the invariant CRC is a better one,
    /// and IPv6 allows that for tunnels such as this (RFC 6935).
    fn udp_header(&self, len: usize) -> [u8; 8] {
        let len = u16::try_from(len + UdpHeader::LEN).unwrap_or(u16::MAX);
        let header = UdpHeader {
            source_port: self.source_port,
            destination_port: UDP_PORT,
            length: len,
            checksum: 0,
        };
        header.to_bytes()
    }
}

/// The Internet address that an address of a port is: `::ffff:a.b.c.d` is one of IPv4.
pub fn ip_of(address: Address) -> Option<IpAddr> {
    match address {
        Address::Gid(gid) => {
            let ip = Ipv6Addr::from(gid);
            Some(ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4))
        }
        Address::Lid(_) | Address::Mac(_) => None,
    }
}

/// The address of a port that an Internet address is.
pub fn address_of(ip: IpAddr) -> Address {
    Address::Gid(match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    })
}

/// A packet taken out of what was around it.
#[derive(Clone)]
pub struct Decapsulated {
    /// The way that it came.
    pub route: Route,
    /// The packet. A datagram knows its route.
    pub transport: Transport,
}

/// A packet to the UDP port of RoCE v2 that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BadFrame {
    /// IP or UDP headers that contradict themselves, or the bytes that there are.
    Header(String),
    /// A part of a packet.
    Fragment,
    /// Fewer bytes than the invariant CRC has.
    Short {
        /// The bytes of UDP payload.
        len: usize,
    },
    /// Bytes changed on the way.
    Crc {
        /// The invariant CRC that the packet ends with.
        given: u32,
        /// The one that it ought to end with.
        right: u32,
    },
    /// The packet itself.
    Transport(BadTransport),
}

impl fmt::Display for BadFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadFrame::Header(why) => f.write_str(why),
            BadFrame::Fragment => f.write_str("a fragment of an IP packet"),
            BadFrame::Short { len } => {
                write!(f, "{len} bytes in UDP, where the invariant CRC alone has {CRC}")
            }
            BadFrame::Crc { given, right } => {
                write!(f, "the invariant CRC is {given:#010x}, and {right:#010x} would be right")
            }
            BadFrame::Transport(bad) => write!(f, "{bad}"),
        }
    }
}

impl std::error::Error for BadFrame {}

/// Appends the IP packet that carries `transport` along `route`: header to invariant CRC.
/// `sequence` numbers datagrams. On failure, when the payload's memory is gone, `to` is as it
/// was.
///
/// # Panics
///
/// If it is a run of packets, as [`Packet::encode`](crate::rc::Packet::encode) does.
pub fn encapsulate(
    route: &Route,
    transport: &Transport,
    sequence: u32,
    to: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut bytes = Vec::new();
    transport.encode(sequence, &mut bytes)?;
    let route = route.of(transport);
    let udp = route.udp_header(bytes.len() + CRC);
    let network = route.network_header(udp.len() + bytes.len() + CRC);
    let crc = invariant_crc(&network, &udp, &bytes);
    to.extend_from_slice(&network);
    to.extend_from_slice(&udp);
    to.extend_from_slice(&bytes);
    to.extend_from_slice(&crc.to_le_bytes());
    Ok(())
}

/// The header of an Ethernet frame that carries IP along `route`.
pub fn ethernet_header(source: [u8; 6], destination: [u8; 6], route: &Route) -> [u8; 14] {
    let ether_type = if route.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    Ethernet2Header { source, destination, ether_type }.to_bytes()
}

/// Reads an IP packet. `None` if it is not to RoCE v2's port.
pub fn decapsulate(packet: &[u8]) -> Result<Option<Decapsulated>, BadFrame> {
    let header = |error: &dyn fmt::Display| BadFrame::Header(error.to_string());
    let ip = IpSlice::from_slice(packet).map_err(|error| header(&error))?;
    if ip.payload_ip_number() != IpNumber::UDP {
        return Ok(None);
    }
    if ip.is_fragmenting_payload() {
        return Err(BadFrame::Fragment);
    }
    let udp = UdpSlice::from_slice(ip.payload().payload).map_err(|error| header(&error))?;
    if udp.destination_port() != UDP_PORT {
        return Ok(None);
    }
    let (network, traffic_class, flow_label, hop_limit) = match &ip {
        IpSlice::Ipv4(ip) => {
            let header = ip.header();
            let class = header.dcp().value() << 2 | header.ecn().value();
            (header.slice(), class, 0, header.ttl())
        }
        IpSlice::Ipv6(ip) => {
            let header = ip.header();
            let label = header.flow_label().value();
            (header.slice(), header.traffic_class(), label, header.hop_limit())
        }
    };
    let route = Route {
        source: ip.source_addr(),
        destination: ip.destination_addr(),
        traffic_class,
        flow_label,
        hop_limit,
        source_port: udp.source_port(),
    };
    let mut header = [0; 8];
    header.copy_from_slice(udp.header_slice());
    open(route, network, &header, udp.payload()).map(Some)
}

/// Reads the payload of a UDP datagram that came along `route`. Its sender has to have sent it as
/// [`encapsulate`] does and as Linux sends what must not be fragmented, with an
/// identification of 0: the invariant CRC covers the IP header, which a socket does not show.
pub fn decapsulate_udp(route: Route, payload: &[u8]) -> Result<Decapsulated, BadFrame> {
    let udp = route.udp_header(payload.len());
    let network = route.network_header(udp.len() + payload.len());
    open(route, &network, &udp, payload)
}

/// The IP packet that a UDP datagram was part of, as far as a socket shows it.
pub(crate) fn with_headers(route: &Route, payload: &[u8]) -> Vec<u8> {
    let udp = route.udp_header(payload.len());
    [&route.network_header(udp.len() + payload.len()), &udp[..], payload].concat()
}

fn open(
    route: Route,
    network: &[u8],
    udp: &[u8; 8],
    payload: &[u8],
) -> Result<Decapsulated, BadFrame> {
    let short = BadFrame::Short { len: payload.len() };
    let (bytes, crc) = payload.split_last_chunk::<CRC>().ok_or(short)?;
    let (given, right) = (u32::from_le_bytes(*crc), invariant_crc(network, udp, bytes));
    if given != right {
        return Err(BadFrame::Crc { given, right });
    }
    let mut transport = Transport::decode(bytes).map_err(BadFrame::Transport)?;
    if let Transport::Unreliable(Message::Datagram(datagram)) = &mut transport {
        let gid = |ip| match address_of(ip) {
            Address::Gid(gid) => gid,
            Address::Lid(_) | Address::Mac(_) => [0; 16],
        };
        datagram.route = Some(GlobalRoute {
            source: gid(route.source),
            destination: gid(route.destination),
            traffic_class: route.traffic_class,
            flow_label: route.flow_label,
            hop_limit: route.hop_limit,
            ip: true,
        });
    }
    Ok(Decapsulated { route, transport })
}

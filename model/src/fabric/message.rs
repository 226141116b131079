//! What travels besides the packets of reliable connections, and may get lost.

use super::Address;
use crate::rc::Packet;

/// A message that nobody acknowledges.
#[derive(Clone)]
pub enum Message {
    /// A datagram between queue pairs.
    Datagram(Box<Datagram>),
    /// A packet of an unreliable connection: a send or a write.
    Unreliable(Packet),
    /// An Ethernet frame, without its check sequence.
    Frame(Box<[u8]>),
}

/// A datagram (IBTA vol. 1, 9.8.3).
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The queue pair that it is for.
    pub destination: u32,
    /// The queue pair that it is from, as it says.
    pub source: u32,
    /// What the receiver checks it by.
    pub queue_key: u32,
    /// Four bytes for the receiver's completion, read big-endian.
    pub immediate: Option<u32>,
    /// The receiver's completion counts as solicited.
    pub solicited: bool,
    /// The global route, if it has one.
    pub route: Option<GlobalRoute>,
    /// The payload.
    pub bytes: Box<[u8]>,
}

/// The global route of a datagram (IBTA vol. 1, 8.3; annexes A16 and A17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// Where it is from.
    pub source: [u8; 16],
    /// Where it goes to.
    pub destination: [u8; 16],
    /// 8 bits.
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Routers that it may pass.
    pub hop_limit: u8,
    /// The header that carries it: IBTA's own, or IP's.
    pub ip: bool,
}

/// A message that arrived.
pub struct MessageArrival {
    /// The address that it was sent from.
    pub source: Address,
    /// The address that it was sent to.
    pub destination: Address,
    /// The message.
    pub message: Message,
}

/// The bytes before a datagram's own in a receive: its global route.
pub const ROUTE_BYTES: usize = 40;

/// The IPv4 address of a global identifier that is one mapped.
fn mapped(gid: &[u8; 16]) -> Option<[u8; 4]> {
    std::net::Ipv6Addr::from(*gid).to_ipv4_mapped().map(|address| address.octets())
}

impl GlobalRoute {
    /// What the route's header is: IBTA's own (0), IPv6's (1), or IPv4's (2).
    pub fn kind(&self) -> u8 {
        match (self.ip, mapped(&self.destination)) {
            (false, _) => 0,
            (true, None) => 1,
            (true, Some(_)) => 2,
        }
    }

    /// The bytes that a receive begins with, of a datagram of `length` bytes: a global route header
    /// (IBTA vol. 1, 8.3), or IPv4's header at its end (annex A17).
    pub fn header(&self, length: usize) -> [u8; ROUTE_BYTES] {
        /// Base and datagram headers, and the check value behind the payload.
        const AROUND: usize = 12 + 8 + 4;
        /// UDP's header, in RoCE v2.
        const UDP: usize = 8;
        /// The next header: IBTA's transport, or UDP.
        const TRANSPORT: u8 = 0x1b;
        const UDP_PROTOCOL: u8 = 17;
        let mut bytes = [0; ROUTE_BYTES];
        if let (true, Some(from), Some(to)) =
            (self.ip, mapped(&self.source), mapped(&self.destination))
        {
            let header = &mut bytes[20..];
            header[0] = 0x45;
            header[1] = self.traffic_class;
            header[2..4].copy_from_slice(&((20 + UDP + AROUND + length) as u16).to_be_bytes());
            // Not to be fragmented.
            header[6] = 0x40;
            header[8] = self.hop_limit;
            header[9] = UDP_PROTOCOL;
            header[12..16].copy_from_slice(&from);
            header[16..20].copy_from_slice(&to);
            let sum = header
                .chunks(2)
                .fold(0u32, |sum, pair| sum + u32::from(u16::from_be_bytes([pair[0], pair[1]])));
            let sum = (sum & 0xffff) + (sum >> 16);
            header[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
            return bytes;
        }
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label;
        let udp = if self.ip { UDP } else { 0 };
        bytes[..4].copy_from_slice(&first.to_be_bytes());
        bytes[4..6].copy_from_slice(&((udp + AROUND + length) as u16).to_be_bytes());
        bytes[6] = if self.ip { UDP_PROTOCOL } else { TRANSPORT };
        bytes[7] = self.hop_limit;
        bytes[8..24].copy_from_slice(&self.source);
        bytes[24..40].copy_from_slice(&self.destination);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_over_ipv4_is_an_ipv4_header_at_the_end() {
        let gid = |last| {
            let mut gid = [0; 16];
            gid[10..].copy_from_slice(&[0xff, 0xff, 10, 9, 0, last]);
            gid
        };
        let route = GlobalRoute {
            source: gid(1),
            destination: gid(2),
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            ip: true,
        };
        let bytes = route.header(256);
        assert_eq!(bytes[..20], [0; 20]);
        assert_eq!(bytes[20..24], [0x45, 0, 1, 52]);
        assert_eq!(bytes[32..], [10, 9, 0, 1, 10, 9, 0, 2]);
        let sum: u32 = bytes[20..]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(route.kind(), 2);
        let own = GlobalRoute { ip: false, ..route };
        assert_eq!(own.header(0)[..8], [0x60, 0, 0, 0, 0, 24, 0x1b, 64]);
        assert_eq!(own.kind(), 0);
    }
}

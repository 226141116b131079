//! What a peer needs to know to connect.

use core::fmt;

/// The link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LinkLayer {
    /// Ethernet: RoCE v2. Every packet carries a global route header.
    Ethernet,
    /// InfiniBand.
    InfiniBand,
}

impl fmt::Display for LinkLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkLayer::Ethernet => "Ethernet",
            LinkLayer::InfiniBand => "InfiniBand",
        })
    }
}

/// The most bytes that a packet of a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes.
    B4096 = 5,
}

impl Mtu {
    /// The number of bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// The MTU with the specification's number `code`, from 1 to 5.
    pub const fn from_code(code: u8) -> Option<Mtu> {
        Some(match code {
            1 => Mtu::B256,
            2 => Mtu::B512,
            3 => Mtu::B1024,
            4 => Mtu::B2048,
            5 => Mtu::B4096,
            _ => return None,
        })
    }
}

/// Whether a global identifier is an IPv4 address: `::ffff:a.b.c.d`.
pub(crate) const fn is_ipv4(gid: &[u8; 16]) -> bool {
    matches!(gid, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..])
}

/// What a peer needs to know of a queue pair to connect to it. Exchanged by any means the engine
/// likes, as [bytes](Endpoint::to_bytes) or through serde.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Bytes", into = "Bytes"))]
pub struct Endpoint {
    pub(crate) link: LinkLayer,
    pub(crate) mtu: Mtu,
    pub(crate) read_depth: u8,
    /// On Ethernet the port's address, or zeroes where it is not known; on InfiniBand its local
    /// identifier, and zeroes.
    pub(crate) address: [u8; 6],
    pub(crate) queue_pair: u32,
    pub(crate) packet_sequence: u32,
    pub(crate) gid: [u8; 16],
}

/// An endpoint's bytes, as a serde value.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
struct Bytes([u8; Endpoint::BYTES]);

#[cfg(feature = "serde")]
impl TryFrom<Bytes> for Endpoint {
    type Error = EndpointError;

    fn try_from(bytes: Bytes) -> Result<Self, EndpointError> {
        Endpoint::from_bytes(&bytes.0)
    }
}

#[cfg(feature = "serde")]
impl From<Endpoint> for Bytes {
    fn from(endpoint: Endpoint) -> Self {
        Bytes(endpoint.to_bytes())
    }
}

/// What a peer has said of a queue pair in a form of its own, as a program of libibverbs would: see
/// [`Endpoint::from_parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The port's link layer.
    pub link: LinkLayer,
    /// The port's MTU, or the smaller one that was agreed on.
    pub mtu: Mtu,
    /// How many reads and atomics it answers at once. 0 for none.
    pub read_depth: u8,
    /// The port's local identifier. Of no meaning on Ethernet.
    pub lid: u16,
    /// The port's Ethernet address, if it is known. Of no meaning on InfiniBand.
    pub mac: Option<[u8; 6]>,
    /// The queue pair's number, of 24 bits.
    pub queue_pair: u32,
    /// The sequence number of the first packet that it will send, of 24 bits.
    pub packet_sequence: u32,
    /// The port's global identifier.
    pub gid: [u8; 16],
}

/// Bytes that are no endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// They are not as many as an endpoint has.
    Length {
        /// Bytes given.
        given: usize,
    },
    /// They are of another version of the format, or of something else.
    Version {
        /// The version byte.
        given: u8,
    },
    /// A field holds what it cannot.
    Field {
        /// The field.
        field: &'static str,
        /// What it holds.
        given: u32,
        /// The least it can hold.
        least: u32,
        /// The most it can hold.
        most: u32,
    },
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointError::Length { given } => {
                write!(f, "an endpoint is {} bytes, and {given} were given", Endpoint::BYTES)
            }
            EndpointError::Version { given } => write!(
                f,
                "the endpoint's version is {given:#04x}, and this library knows {:#04x}",
                Endpoint::VERSION
            ),
            EndpointError::Field { field, given, least, most } => {
                write!(f, "the endpoint's {field} is {given}, and must be from {least} to {most}")
            }
        }
    }
}

impl core::error::Error for EndpointError {}

/// Packet sequence numbers and queue pair numbers have 24 bits.
const MAX_24: u32 = (1 << 24) - 1;
/// 0 and 1 are the fabric's own management queue pairs.
const FIRST_QUEUE_PAIR: u32 = 2;

fn in_range(field: &'static str, given: u32, least: u32, most: u32) -> Result<u32, EndpointError> {
    if (least..=most).contains(&given) {
        Ok(given)
    } else {
        Err(EndpointError::Field { field, given, least, most })
    }
}

impl Endpoint {
    /// The size of [`to_bytes`](Self::to_bytes)' answer.
    pub const BYTES: usize = 32;

    /// The version of the format of those bytes.
    pub const VERSION: u8 = 0xd2;

    /// The port's link layer.
    pub const fn link(&self) -> LinkLayer {
        self.link
    }

    /// The port's MTU. A connection uses the smaller of its two ports' MTUs.
    pub const fn mtu(&self) -> Mtu {
        self.mtu
    }

    /// How many reads and atomics of the peer the queue pair answers at once. 0 for none.
    pub const fn read_depth(&self) -> u8 {
        self.read_depth
    }

    /// The port's local identifier; 0 on Ethernet.
    pub const fn lid(&self) -> u16 {
        match (self.link, self.address) {
            (LinkLayer::InfiniBand, [upper, lower, ..]) => u16::from_be_bytes([upper, lower]),
            (LinkLayer::Ethernet, _) => 0,
        }
    }

    /// The port's Ethernet address; `None` on InfiniBand, and where the peer did not know it.
    pub const fn mac(&self) -> Option<[u8; 6]> {
        match (self.link, self.address) {
            (LinkLayer::InfiniBand, _) | (_, [0, 0, 0, 0, 0, 0]) => None,
            (LinkLayer::Ethernet, address) => Some(address),
        }
    }

    /// The queue pair's number, of 24 bits.
    pub const fn queue_pair(&self) -> u32 {
        self.queue_pair
    }

    /// The sequence number of the first packet that the queue pair will send, of 24 bits.
    pub const fn packet_sequence(&self) -> u32 {
        self.packet_sequence
    }

    /// The port's global identifier.
    pub const fn gid(&self) -> [u8; 16] {
        self.gid
    }

    /// The endpoint of a peer that says who it is in another form. What it says is not trusted.
    pub fn from_parts(parts: &Parts) -> Result<Endpoint, EndpointError> {
        let Parts { link, mtu, read_depth, lid, mac, queue_pair, packet_sequence, gid } = *parts;
        let mut address = [0; 6];
        match link {
            LinkLayer::Ethernet => address = mac.unwrap_or(address),
            LinkLayer::InfiniBand => address[..2].copy_from_slice(&lid.to_be_bytes()),
        }
        let queue_pair = in_range("queue pair", queue_pair, FIRST_QUEUE_PAIR, MAX_24)?;
        let packet_sequence = in_range("packet sequence number", packet_sequence, 0, MAX_24)?;
        Ok(Endpoint { link, mtu, read_depth, address, queue_pair, packet_sequence, gid })
    }

    /// The endpoint as bytes, to be sent to the peer. Numbers are big-endian.
    ///
    /// | byte | holds |
    /// |---|---|
    /// | 0 | [`VERSION`](Self::VERSION) |
    /// | 1 | 0 for Ethernet, 1 for InfiniBand |
    /// | 2 | the MTU's number |
    /// | 3 | the read depth |
    /// | 4..10 | the Ethernet address, or the local identifier and zeroes |
    /// | 10..13 | the queue pair |
    /// | 13..16 | the packet sequence number |
    /// | 16..32 | the global identifier |
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = Self::VERSION;
        bytes[1] = match self.link {
            LinkLayer::Ethernet => 0,
            LinkLayer::InfiniBand => 1,
        };
        bytes[2] = self.mtu as u8;
        bytes[3] = self.read_depth;
        bytes[4..10].copy_from_slice(&self.address);
        bytes[10..13].copy_from_slice(&self.queue_pair.to_be_bytes()[1..]);
        bytes[13..16].copy_from_slice(&self.packet_sequence.to_be_bytes()[1..]);
        bytes[16..].copy_from_slice(&self.gid);
        bytes
    }

    /// The endpoint that a peer sent as [`to_bytes`](Self::to_bytes). The bytes are not trusted.
    pub fn from_bytes(bytes: &[u8]) -> Result<Endpoint, EndpointError> {
        let length = EndpointError::Length { given: bytes.len() };
        let bytes: &[u8; Self::BYTES] = bytes.try_into().map_err(|_| length)?;
        let [version, link, mtu, read_depth, a0, a1, a2, a3, a4, a5, rest @ ..] = bytes;
        let [q0, q1, q2, p0, p1, p2, gid @ ..] = rest;
        if *version != Self::VERSION {
            return Err(EndpointError::Version { given: *version });
        }
        let link = match in_range("link layer", (*link).into(), 0, 1)? {
            0 => LinkLayer::Ethernet,
            _ => LinkLayer::InfiniBand,
        };
        let mtu = Mtu::from_code(*mtu).ok_or(EndpointError::Field {
            field: "MTU",
            given: (*mtu).into(),
            least: Mtu::B256 as u32,
            most: Mtu::B4096 as u32,
        })?;
        let queue_pair = u32::from_be_bytes([0, *q0, *q1, *q2]);
        Ok(Endpoint {
            link,
            mtu,
            read_depth: *read_depth,
            address: [*a0, *a1, *a2, *a3, *a4, *a5],
            queue_pair: in_range("queue pair", queue_pair, FIRST_QUEUE_PAIR, MAX_24)?,
            packet_sequence: u32::from_be_bytes([0, *p0, *p1, *p2]),
            gid: *gid,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn endpoint() -> Endpoint {
        Endpoint {
            link: LinkLayer::InfiniBand,
            mtu: Mtu::B2048,
            read_depth: 16,
            address: [0x12, 0x34, 0, 0, 0, 0],
            queue_pair: 0xabcdef,
            packet_sequence: 0xffffff,
            gid: *b"sixteen bytes...",
        }
    }

    #[test]
    fn an_endpoint_comes_back_from_its_bytes() {
        let bytes = endpoint().to_bytes();
        assert_eq!(Endpoint::from_bytes(&bytes), Ok(endpoint()));
        assert_eq!(
            bytes[..16],
            [0xd2, 1, 4, 16, 0x12, 0x34, 0, 0, 0, 0, 0xab, 0xcd, 0xef, 255, 255, 255]
        );
        assert_eq!((endpoint().lid(), endpoint().mac()), (0x1234, None));
        let address = [2, 0, 0, 0xa, 0xb, 0xc];
        let ethernet = Endpoint { link: LinkLayer::Ethernet, address, ..endpoint() };
        assert_eq!(Endpoint::from_bytes(&ethernet.to_bytes()), Ok(ethernet));
        assert_eq!((ethernet.lid(), ethernet.mac()), (0, Some(address)));
        assert_eq!(Endpoint { address: [0; 6], ..ethernet }.mac(), None);
    }

    #[test]
    fn wrong_bytes_are_refused_with_the_field_and_its_bounds() {
        let refused = |at: usize, value: u8| {
            let mut bytes = Endpoint { queue_pair: 2, ..endpoint() }.to_bytes();
            bytes[at] = value;
            Endpoint::from_bytes(&bytes).unwrap_err()
        };
        assert_eq!(refused(0, 0), EndpointError::Version { given: 0 });
        let field = |field, given, least, most| EndpointError::Field { field, given, least, most };
        assert_eq!(refused(1, 2), field("link layer", 2, 0, 1));
        assert_eq!(refused(2, 0), field("MTU", 0, 1, 5));
        assert_eq!(refused(2, 6), field("MTU", 6, 1, 5));
        assert_eq!(refused(12, 1), field("queue pair", 1, 2, 0xffffff));
        for given in [0, 31, 33] {
            assert_eq!(
                Endpoint::from_bytes(&[0xd2; 33][..given]),
                Err(EndpointError::Length { given })
            );
        }
        assert_eq!(refused(2, 6).to_string(), "the endpoint's MTU is 6, and must be from 1 to 5");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn an_endpoint_is_checked_when_serde_brings_it() {
        let text = serde_json::to_string(&endpoint()).unwrap();
        assert_eq!(serde_json::from_str::<Endpoint>(&text).unwrap(), endpoint());
        let mut bytes = endpoint().to_bytes();
        bytes[2] = 6;
        let text = serde_json::to_string(&bytes).unwrap();
        let refused = serde_json::from_str::<Endpoint>(&text).unwrap_err().to_string();
        assert!(refused.contains("MTU is 6, and must be from 1 to 5"), "{refused}");
        assert!(serde_json::from_str::<Endpoint>("[1, 2, 3]").is_err());
    }

    #[test]
    fn parts_are_an_endpoint_or_an_error_that_names_the_part() {
        let parts = Parts {
            link: LinkLayer::InfiniBand,
            mtu: Mtu::B1024,
            read_depth: 1,
            lid: 0x1234,
            mac: None,
            queue_pair: 0xff_ffff,
            packet_sequence: 0xff_ffff,
            gid: [7; 16],
        };
        let endpoint = Endpoint::from_parts(&parts).unwrap();
        assert_eq!((endpoint.lid(), endpoint.mac()), (0x1234, None));
        assert_eq!(Endpoint::from_bytes(&endpoint.to_bytes()), Ok(endpoint));
        let mac = Some([2, 0, 0, 0, 0, 1]);
        let ethernet = Parts { link: LinkLayer::Ethernet, mac, ..parts };
        let endpoint = Endpoint::from_parts(&ethernet).unwrap();
        assert_eq!((endpoint.lid(), endpoint.mac()), (0, mac));
        for (wrong, field) in [
            (Parts { queue_pair: 1 << 24, ..parts }, "queue pair"),
            (Parts { queue_pair: 1, ..parts }, "queue pair"),
            (Parts { packet_sequence: 1 << 24, ..parts }, "packet sequence number"),
        ] {
            let error = Endpoint::from_parts(&wrong).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}

//! RoCE v2: the packets of InfiniBand's transport in UDP datagrams (IBTA vol. 1, annex A17).
//!
//! | file | holds |
//! |---|---|
//! | `transport` | base transport header, extension headers and payload, for every service |
//! | `frame` | Ethernet, IP and UDP around them |
//! | `invariant_crc` | the four bytes behind them |

mod frame;
mod invariant_crc;
mod transport;

pub(crate) use frame::with_headers;
pub use frame::{
    BadFrame, Decapsulated, Route, UDP_PORT, address_of, decapsulate, decapsulate_udp, encapsulate,
    ethernet_header, ip_of,
};
pub use invariant_crc::invariant_crc;
pub use transport::{BadTransport, Transport};

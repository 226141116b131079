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

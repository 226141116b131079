//! What carries packets from port to port.
//!
//! [`Loopback`] joins ports within one process, [`LocalFabric`] those of several, and [`UdpFabric`]
//! those of several machines; [`Cable`] carries Ethernet frames, to another of its kind or to QEMU.
//! [`Faulty`] and [`Tracer`] wrap any fabric and are one:
//! `Tracer::new(Faulty::new(Loopback::new(), …))`.

mod cable;
mod faulty;
pub(crate) mod frame;
mod local;
mod loopback;
mod message;
mod pcap;
mod tracer;
mod udp;
mod wire_counters;

pub use cable::Cable;
pub use faulty::{FaultCounts, Faults, Faulty};
pub use local::LocalFabric;
pub use loopback::Loopback;
pub use message::{Datagram, GlobalRoute, Message, MessageArrival, ROUTE_BYTES};
pub use pcap::Pcap;
pub use tracer::Tracer;
pub use udp::UdpFabric;
pub use wire_counters::{WireCounters, WireCounts};

use crate::rc::Packet;
use std::fmt;
use std::net::Ipv6Addr;
use std::time::Duration;

/// A port of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Port(pub u32);

/// What a packet is addressed by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// A local identifier of an InfiniBand subnet. From 0xc000 on, a group: messages to it go to every
    /// port that has a local identifier.
    Lid(u16),
    /// A global identifier, 16 bytes as on the wire. An IPv4 address is mapped: `::ffff:a.b.c.d`.
    Gid([u8; 16]),
    /// An Ethernet address. With the group bit set, every port that has an Ethernet address.
    Mac([u8; 6]),
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Lid(lid) => write!(f, "LID {lid}"),
            Address::Mac(mac) => write!(f, "MAC {mac:02x?}"),
            Address::Gid(gid) => write!(f, "GID {}", Ipv6Addr::from(*gid)),
        }
    }
}

/// A packet that arrived.
pub struct Arrival {
    /// The address that it was sent from.
    pub source: Address,
    /// The address that it was sent to.
    pub destination: Address,
    /// The packet.
    pub packet: Packet,
}

/// Carries packets between ports. Times are nanoseconds, the same clock as the connections'.
///
/// A fabric may lose packets. A packet to an address that no port has is lost.
pub trait Fabric {
    /// A new port with no addresses.
    fn attach(&mut self) -> Port;

    /// Takes a port away with its addresses and the packets that wait for it.
    fn detach(&mut self, port: Port);

    /// Gives `port` an address; packets to it arrive there from now on. An address that another
    /// port has moves.
    fn bind(&mut self, port: Port, address: Address);

    /// Takes an address away from `port`.
    fn unbind(&mut self, port: Port, address: Address);

    /// Says at which Ethernet address `address` is reached, as a driver told the device. Nothing on
    /// fabrics that have no Ethernet addresses.
    fn set_neighbor(&mut self, address: Address, mac: [u8; 6]) {
        let _ = (address, mac);
    }

    /// Sends `packet` from `port`.
    fn send(&mut self, now: u64, port: Port, source: Address, destination: Address, packet: Packet);

    /// Sends a message that nobody acknowledges. A fabric that carries none loses it.
    fn send_message(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        message: Message,
    ) {
        let _ = (now, port, source, destination, message);
    }

    /// The next message that has arrived at `port` by `now`.
    fn receive_message(&mut self, now: u64, port: Port) -> Option<MessageArrival> {
        let _ = (now, port);
        None
    }

    /// The next packet that has arrived at `port` by `now`.
    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival>;

    /// The time of the next arrival anywhere, if one is on its way and the fabric knows: a time in
    /// the past if it waits already.
    fn next_arrival(&self) -> Option<u64>;

    /// The most packets that may come in one piece, a run (see [`Packet`]): 1 where each packet is
    /// looked at by itself. Longer ones are split, which costs and gains nothing.
    fn longest_run(&self) -> u16 {
        1
    }

    /// Packets that a connection had better have on their way at most, sent and not acknowledged, where
    /// more may be lost.
    fn most_outstanding(&self) -> Option<u32> {
        None
    }

    /// How long a device may rest that has nothing to do, where packets arrive unannounced.
    fn rests_at_most(&self) -> Option<Duration> {
        None
    }

    /// Whether a device had better wait before it sends more from `port`: receivers are behind. What
    /// is sent all the same is carried, too.
    fn is_congested(&mut self, _port: Port) -> bool {
        false
    }

    /// Copies the payloads of packets on their way from `port` that still refer to its memory.
    ///
    /// A device calls it before it lets go of memory (a key taken away, a queue pair destroyed), so
    /// that nothing reads that memory later (SAFETY.md, D1).
    fn settle(&mut self, port: Port);
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::memory::Payload;
    use crate::rc::{Headers, Opcode, Psn};

    /// A packet whose PSN is `number`.
    pub fn numbered(number: u32) -> Packet {
        Packet {
            opcode: Opcode::SendOnly,
            solicited: false,
            partition_key: 0xffff,
            destination: 1,
            extended: None,
            ack_request: false,
            psn: Psn::new(number),
            headers: Headers::Plain,
            payload: Payload::copy_of(&[1, 2, 3]),
            run: 1,
        }
    }

    /// The numbers of the packets that arrived at `port` by `now`.
    pub fn numbers(fabric: &mut impl Fabric, port: Port, now: u64) -> Vec<u32> {
        std::iter::from_fn(|| fabric.receive(now, port))
            .map(|arrival| arrival.packet.psn.get())
            .collect()
    }
}

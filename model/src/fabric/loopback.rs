//! Ports of one process, joined.

use super::{Address, Arrival, Fabric, Message, MessageArrival, Port};
use crate::rc::Packet;
use std::collections::VecDeque;

/// Joins any number of ports. Packets arrive at once, each once, in order.
///
/// Payloads stay where they are until the receiver copies them: one copy from end to end. The ports'
/// owners therefore hold one lock together, and settle before they let go of memory
/// ([`Fabric::settle`]).
#[derive(Default)]
pub struct Loopback {
    /// By port number; ports are never used again.
    ports: Vec<Option<Inbox>>,
    /// Few, so that looking through them is quick.
    addresses: Vec<(Address, Port)>,
    waiting: usize,
    lost: u64,
}

/// The first local identifier of groups (IBTA vol. 1, 4.1.3).
const FIRST_GROUP: u16 = 0xc000;
/// Messages that wait at a port. More are lost.
const MOST_MESSAGES: usize = 4096;
/// Messages that wait at a port when senders had better wait, too, as links without loss hold them back.
const MANY_MESSAGES: usize = MOST_MESSAGES / 2;

#[derive(Default)]
struct Inbox {
    arrivals: VecDeque<(Port, Arrival)>,
    messages: VecDeque<(Port, MessageArrival)>,
}

impl Loopback {
    /// Packets that come in one piece: with these, a large message costs little more than its bytes
    /// do, and a port still has its turn often.
    const RUN: u16 = 16;

    /// A fabric with no ports.
    pub fn new() -> Self {
        Self::default()
    }

    /// Packets that were sent to an address that no port has.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether a port has `address`.
    pub(super) fn has(&self, address: Address) -> bool {
        self.addresses.iter().any(|(known, _)| *known == address)
    }

    /// Packets and messages that have arrived and were not received yet.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn inbox(&mut self, port: Port) -> Option<&mut Inbox> {
        self.ports.get_mut(port.0 as usize)?.as_mut()
    }
}

impl Fabric for Loopback {
    fn attach(&mut self) -> Port {
        self.ports.push(Some(Inbox::default()));
        Port(self.ports.len() as u32 - 1)
    }

    fn detach(&mut self, port: Port) {
        self.settle(port);
        self.addresses.retain(|(_, owner)| *owner != port);
        if let Some(inbox) = self.ports.get_mut(port.0 as usize).and_then(Option::take) {
            self.waiting -= inbox.arrivals.len() + inbox.messages.len();
        }
    }

    fn bind(&mut self, port: Port, address: Address) {
        self.addresses.retain(|(other, _)| *other != address);
        if self.inbox(port).is_some() {
            self.addresses.push((address, port));
        }
    }

    fn unbind(&mut self, port: Port, address: Address) {
        self.addresses.retain(|binding| *binding != (address, port));
    }

    fn send(&mut self, _: u64, port: Port, source: Address, destination: Address, packet: Packet) {
        let owner = self.addresses.iter().find(|(address, _)| *address == destination);
        let Some(&(_, owner)) = owner else {
            self.lost += 1;
            return;
        };
        if let Some(inbox) = self.inbox(owner) {
            inbox.arrivals.push_back((port, Arrival { source, destination, packet }));
            self.waiting += 1;
        }
    }

    fn send_message(
        &mut self,
        _: u64,
        port: Port,
        source: Address,
        destination: Address,
        message: Message,
    ) {
        let group = match destination {
            Address::Mac([first, ..]) => first & 1 != 0,
            Address::Lid(lid) => lid >= FIRST_GROUP,
            Address::Gid(_) => false,
        };
        // Whoever sends a frame sees to its own copy.
        let back = !matches!(message, Message::Frame(_));
        let mut owners: Vec<Port> = self
            .addresses
            .iter()
            .filter(|(address, owner)| match (group, address) {
                (true, address) => {
                    let same_kind = matches!(
                        (address, destination),
                        (Address::Mac(_), Address::Mac(_)) | (Address::Lid(_), Address::Lid(_))
                    );
                    same_kind && (back || *owner != port)
                }
                (false, address) => *address == destination,
            })
            .map(|&(_, owner)| owner)
            .collect();
        owners.dedup();
        if owners.is_empty() && !group {
            self.lost += 1;
        }
        for owner in owners {
            let Some(inbox) = self.inbox(owner) else { continue };
            if inbox.messages.len() >= MOST_MESSAGES {
                self.lost += 1;
                continue;
            }
            let message = message.clone();
            inbox.messages.push_back((port, MessageArrival { source, destination, message }));
            self.waiting += 1;
        }
    }

    fn receive_message(&mut self, _: u64, port: Port) -> Option<MessageArrival> {
        let (_, arrival) = self.inbox(port)?.messages.pop_front()?;
        self.waiting -= 1;
        Some(arrival)
    }

    fn receive(&mut self, _: u64, port: Port) -> Option<Arrival> {
        let (_, arrival) = self.inbox(port)?.arrivals.pop_front()?;
        self.waiting -= 1;
        Some(arrival)
    }

    fn next_arrival(&self) -> Option<u64> {
        (self.waiting > 0).then_some(0)
    }

    fn longest_run(&self) -> u16 {
        Self::RUN
    }

    fn is_congested(&mut self, _: Port) -> bool {
        self.ports.iter().flatten().any(|inbox| inbox.messages.len() >= MANY_MESSAGES)
    }

    fn settle(&mut self, port: Port) {
        let mut lost = 0;
        for inbox in self.ports.iter_mut().flatten() {
            inbox.arrivals.retain_mut(|(sender, arrival)| {
                // A payload whose memory is gone already is a packet lost: its sender sends again.
                let keep = *sender != port || arrival.packet.payload.settle().is_ok();
                lost += usize::from(!keep);
                keep
            });
            inbox.messages.retain_mut(|(sender, arrival)| {
                let keep = match &mut arrival.message {
                    Message::Unreliable(packet) if *sender == port => {
                        packet.payload.settle().is_ok()
                    }
                    _ => true,
                };
                lost += usize::from(!keep);
                keep
            });
        }
        self.waiting -= lost;
        self.lost += lost as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::testing::{numbered, numbers};
    use crate::memory::{AddressSpace, Payload, Segment, TestMemory};
    use std::sync::Arc;

    #[test]
    fn packets_arrive_in_order_at_the_port_that_has_the_address() {
        let mut fabric = Loopback::new();
        let (a, b) = (fabric.attach(), fabric.attach());
        let gid = Address::Gid([7; 16]);
        fabric.bind(b, Address::Lid(2));
        fabric.bind(b, gid);
        fabric.bind(a, Address::Lid(1));
        assert_eq!(fabric.next_arrival(), None);
        for (number, to) in
            [(0, Address::Lid(2)), (1, gid), (2, Address::Lid(1)), (3, Address::Lid(2))]
        {
            fabric.send(5, a, Address::Lid(1), to, numbered(number));
        }
        assert_eq!(fabric.next_arrival(), Some(0));
        assert_eq!(numbers(&mut fabric, b, 5), [0, 1, 3]);
        let own = fabric.receive(5, a).unwrap();
        assert_eq!((own.source, own.destination), (Address::Lid(1), Address::Lid(1)));
        assert_eq!(fabric.next_arrival(), None);
        assert_eq!(fabric.lost(), 0);
    }

    #[test]
    fn packets_to_no_port_are_lost() {
        let mut fabric = Loopback::new();
        let (a, b) = (fabric.attach(), fabric.attach());
        fabric.bind(b, Address::Lid(2));
        fabric.send(0, a, Address::Lid(1), Address::Lid(3), numbered(0));
        fabric.unbind(a, Address::Lid(2));
        fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(1));
        assert_eq!(numbers(&mut fabric, b, 0), [1]);
        fabric.bind(a, Address::Lid(2));
        fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(2));
        assert_eq!(numbers(&mut fabric, a, 0), [2]);
        fabric.unbind(a, Address::Lid(2));
        fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(3));
        fabric.bind(b, Address::Lid(2));
        fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(4));
        fabric.detach(b);
        assert_eq!(fabric.next_arrival(), None);
        fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(5));
        assert!(fabric.receive(0, b).is_none());
        fabric.bind(b, Address::Lid(2));
        fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(6));
        assert_eq!(fabric.lost(), 4);
    }

    #[test]
    fn a_settled_port_s_packets_refer_to_no_memory() {
        let mut memory = TestMemory::new();
        memory.add(0, 8);
        let memory: Arc<dyn AddressSpace> = Arc::new(memory);
        memory.write(0, &[1; 8]).unwrap();
        let mut fabric = Loopback::new();
        let (a, b) = (fabric.attach(), fabric.attach());
        fabric.bind(b, Address::Lid(2));
        let send = |fabric: &mut Loopback, from, address| {
            let mut packet = numbered(0);
            let mut segments = [Segment::default(); Payload::SEGMENTS];
            segments[0] = Segment { address, len: 8 };
            packet.payload = Payload::Memory { space: memory.clone(), segments };
            fabric.send(0, from, Address::Lid(1), Address::Lid(2), packet);
        };
        send(&mut fabric, a, 0);
        send(&mut fabric, a, 0x1000);
        send(&mut fabric, b, 0);
        fabric.settle(a);
        memory.write(0, &[2; 8]).unwrap();
        let mut seen = Vec::new();
        while let Some(arrival) = fabric.receive(0, b) {
            let mut bytes = [0; 8];
            arrival.packet.payload.read(0, &mut bytes).unwrap();
            seen.push(bytes);
        }
        assert_eq!(seen, [[1; 8], [2; 8]]);
        assert_eq!((fabric.lost(), fabric.next_arrival()), (1, None));
    }
}

//! A layer that writes down the packets that pass.

use super::{Address, Arrival, Fabric, Message, MessageArrival, Port};
use crate::memory::Payload;
use crate::rc::Packet;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// A fabric that remembers its last packets. `Display` prints them, a line each:
///
/// ```text
///         8192 ns  port 0 sends to LID 2: WriteOnly to QP 0x11 psn 0x000005 at 0x1000 …
///         8192 ns  port 1 gets from LID 1: WriteOnly to QP 0x11 psn 0x000005 at 0x1000 …
/// ```
pub struct Tracer<F> {
    inner: F,
    lines: VecDeque<Line>,
    capacity: usize,
}

struct Line {
    now: u64,
    port: Port,
    sent: bool,
    peer: Address,
    /// With an empty payload, and the length that it had.
    packet: Packet,
    payload: usize,
}

impl<F: Fabric> Tracer<F> {
    /// Wraps `inner`; keeps the last `lines`.
    pub fn new(inner: F, lines: usize) -> Self {
        Tracer { inner, lines: VecDeque::with_capacity(lines), capacity: lines }
    }

    /// The fabric below.
    pub fn inner(&self) -> &F {
        &self.inner
    }

    /// The fabric below.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }

    fn note(&mut self, now: u64, port: Port, sent: bool, peer: Address, packet: &Packet) {
        if self.capacity == 0 {
            return;
        }
        if self.lines.len() == self.capacity {
            self.lines.pop_front();
        }
        let payload = packet.payload.len();
        let packet = Packet { payload: Payload::Empty, ..*packet };
        self.lines.push_back(Line { now, port, sent, peer, packet, payload });
    }
}

impl<F> fmt::Display for Tracer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Line { now, port, sent, peer, packet, payload } in &self.lines {
            let verb = if *sent { "sends to" } else { "gets from" };
            writeln!(
                f,
                "{now:>12} ns  port {} {verb} {peer:?}: {packet}, {payload} bytes",
                port.0
            )?;
        }
        Ok(())
    }
}

impl<F: Fabric> Fabric for Tracer<F> {
    fn attach(&mut self) -> Port {
        self.inner.attach()
    }

    fn detach(&mut self, port: Port) {
        self.inner.detach(port);
    }

    fn bind(&mut self, port: Port, address: Address) {
        self.inner.bind(port, address);
    }

    fn unbind(&mut self, port: Port, address: Address) {
        self.inner.unbind(port, address);
    }

    fn set_neighbor(&mut self, address: Address, mac: [u8; 6]) {
        self.inner.set_neighbor(address, mac);
    }

    fn send(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        packet: Packet,
    ) {
        self.note(now, port, true, destination, &packet);
        self.inner.send(now, port, source, destination, packet);
    }

    fn send_message(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        message: Message,
    ) {
        self.inner.send_message(now, port, source, destination, message);
    }

    fn receive_message(&mut self, now: u64, port: Port) -> Option<MessageArrival> {
        self.inner.receive_message(now, port)
    }

    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        let arrival = self.inner.receive(now, port)?;
        self.note(now, port, false, arrival.source, &arrival.packet);
        Some(arrival)
    }

    fn next_arrival(&self) -> Option<u64> {
        self.inner.next_arrival()
    }

    fn longest_run(&self) -> u16 {
        self.inner.longest_run()
    }

    fn most_outstanding(&self) -> Option<u32> {
        self.inner.most_outstanding()
    }

    fn rests_at_most(&self) -> Option<Duration> {
        self.inner.rests_at_most()
    }

    fn is_congested(&mut self, port: Port) -> bool {
        self.inner.is_congested(port)
    }

    fn settle(&mut self, port: Port) {
        self.inner.settle(port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Loopback;
    use crate::fabric::testing::numbered;

    #[test]
    fn the_last_packets_are_lines_that_say_what_happened() {
        let mut fabric = Tracer::new(Loopback::new(), 3);
        let (a, b) = (fabric.attach(), fabric.attach());
        fabric.bind(b, Address::Lid(2));
        for number in 4..6 {
            fabric.send(10, a, Address::Lid(1), Address::Lid(2), numbered(number));
        }
        assert!(fabric.receive(12, b).is_some());
        assert!(fabric.receive(20, b).is_some());
        let expected = "          10 ns  port 0 sends to LID 2: SendOnly to QP 0x1 psn 0x000005, 3 bytes\n          12 ns  port 1 gets from LID 1: SendOnly to QP 0x1 psn 0x000004, 3 bytes\n          20 ns  port 1 gets from LID 1: SendOnly to QP 0x1 psn 0x000005, 3 bytes\n";
        assert_eq!(fabric.to_string(), expected);
    }
}

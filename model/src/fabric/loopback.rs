//! Ports of one process, joined.

use super::{Address, Arrival, Fabric, Port};
use crate::rc::Packet;

/// Joins any number of ports. Packets arrive at once, each once, in order.
#[derive(Default)]
pub struct Loopback {}

impl Loopback {
    /// A fabric with no ports.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Fabric for Loopback {
    fn attach(&mut self) -> Port {
        todo!()
    }
    fn detach(&mut self, port: Port) {
        todo!()
    }
    fn bind(&mut self, port: Port, address: Address) {
        todo!()
    }
    fn unbind(&mut self, port: Port, address: Address) {
        todo!()
    }
    fn send(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        packet: Packet,
    ) {
        todo!()
    }
    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        todo!()
    }
    fn next_arrival(&self) -> Option<u64> {
        todo!()
    }
    fn settle(&mut self, port: Port) {
        todo!()
    }
}

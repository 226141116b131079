//! A layer that writes down the packets that pass.

use super::{Address, Arrival, Fabric, Port};
use crate::rc::Packet;
use std::fmt;

/// A fabric that keeps its last packets as lines that a person can read. `Display` prints them.
pub struct Tracer<F> {
    inner: F,
}

impl<F: Fabric> Tracer<F> {
    /// Wraps `inner`; keeps the last `lines`.
    pub fn new(inner: F, lines: usize) -> Self {
        todo!()
    }
    /// The fabric below.
    pub fn inner(&self) -> &F {
        &self.inner
    }
    /// The fabric below.
    pub fn inner_mut(&mut self) -> &mut F {
        &mut self.inner
    }
}

impl<F> fmt::Display for Tracer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        todo!()
    }
}

impl<F: Fabric> Fabric for Tracer<F> {
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

//! A layer that loses, doubles, reorders, delays and corrupts packets, by a seed.

use super::{Address, Arrival, Fabric, Port};
use crate::rc::Packet;

/// How often what goes wrong, each in packets of a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Lost.
    pub loss: u16,
    /// Sent twice.
    pub duplication: u16,
    /// Held back so that later ones overtake it.
    pub reordering: u16,
    /// Late, and everything behind it with it.
    pub delay: u16,
    /// Changed on the way: the invariant CRC is wrong, so the receiving port drops it.
    pub corruption: u16,
    /// The longest time that a packet is held back or late, in nanoseconds.
    pub longest: u64,
}

/// What went wrong so far, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)] // Named as in `Faults`.
pub struct FaultCounts {
    pub sent: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delayed: u64,
    pub corrupted: u64,
}

/// A fabric on which things go wrong. The same seed and the same calls give the same faults.
pub struct Faulty<F> {
    inner: F,
}

impl<F: Fabric> Faulty<F> {
    /// Wraps `inner`; every draw comes from `seed`.
    pub fn new(inner: F, seed: u64, faults: Faults) -> Self {
        todo!()
    }
    /// The seed.
    pub fn seed(&self) -> u64 {
        todo!()
    }
    /// Changes what goes wrong from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        todo!()
    }
    /// What went wrong so far.
    pub fn counts(&self) -> FaultCounts {
        todo!()
    }
    /// Loses everything to and from `port` from now on, or not any more: a peer that vanished.
    pub fn isolate(&mut self, port: Port, isolated: bool) {
        todo!()
    }
}

impl<F: Fabric> Fabric for Faulty<F> {
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

//! A NIC as its network sees it.

use super::Bus;
use crate::connectx::Connectx;
use crate::fabric::{Fabric, Port};
use crate::netxtreme::Netxtreme;
use std::sync::Arc;

/// What a network asks of a NIC, of whatever family. `now` is in nanoseconds.
pub(crate) trait Device {
    /// Its port of the fabric.
    fn port(&self) -> Port;

    /// The way that stores to its registers take.
    fn bus(&self) -> &Arc<Bus>;

    /// Whether nothing happens any more.
    fn is_dead(&self) -> bool;

    /// Looks at register pages that are memory. Answers whether something was there.
    fn look(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        let _ = (now, fabric);
        false
    }

    /// Whether it has such pages.
    fn is_watching(&self) -> bool {
        false
    }

    /// Takes the next store off the bus. Answers whether there was one.
    fn take_store(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool;

    /// Takes in the next packet that has arrived. Answers whether there was one.
    fn receive(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool;

    /// Finds what has to be done because its time has come.
    fn wake(&mut self, now: u64);

    /// How many queue pairs may have something to do now.
    fn ready(&self) -> usize;

    /// Lets the ready queue pair at `place` send a burst.
    fn advance(&mut self, place: usize, now: u64, fabric: &mut dyn Fabric);

    /// When a queue pair has something to do by itself.
    fn next_deadline(&self) -> Option<u64>;

    /// Flushes what was posted to queue pairs in error since.
    fn flush_late(&mut self, now: u64, fabric: &mut dyn Fabric);

    /// Whether there are such queue pairs.
    fn has_failed_pairs(&self) -> bool;

    /// Sends every queue pair's answers ahead of its turn. Answers whether all that the NIC sent has
    /// left.
    fn answer_all(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool;

    /// The last call: gives the port back.
    fn close(&mut self, fabric: &mut dyn Fabric);
}

/// A NIC of a network.
pub(crate) enum Nic {
    Connectx(Box<Connectx>),
    Netxtreme(Box<Netxtreme>),
}

impl Nic {
    pub(super) fn device(&self) -> &dyn Device {
        match self {
            Nic::Connectx(nic) => &**nic,
            Nic::Netxtreme(nic) => &**nic,
        }
    }

    pub(super) fn device_mut(&mut self) -> &mut dyn Device {
        match self {
            Nic::Connectx(nic) => &mut **nic,
            Nic::Netxtreme(nic) => &mut **nic,
        }
    }
}

//! An open NIC.

use super::boot;
use super::context::{Context, MTU};
use crate::endpoint::{LinkLayer, Mtu};
use crate::error::{Error, Refused, destroy_alone};
use crate::wr::MAX_MESSAGE;
use alloc::sync::Arc;
use core::fmt;
use doorbell_hal::pci::PciFunction;

/// An open NIC: a PCI function that this process owns and drives alone, its RoCE engine running, and
/// one protection domain that its regions and queue pairs share.
///
/// `F` is how the function is held. Any thread may make any call. Requests to the firmware, which all
/// calls but posting and polling make, run one at a time. The objects made on a NIC keep it open;
/// [`close`](Self::close) says whether it was closed.
///
/// A firmware that does not answer a request in time may still act on it. So every later request is
/// [an error](Error::Poisoned), and memory that the firmware knew stays allocated until the NIC is
/// closed.
///
/// A child of `fork` must not use its parent's NICs or their objects: their memory is not mapped in the
/// child.
pub struct Nic<F: PciFunction> {
    pub(super) context: Arc<Context<F>>,
}

impl<F: PciFunction> Nic<F> {
    /// Boots the NIC that `function` is.
    ///
    /// Resets it, whatever ran on it before, and turns relaxed ordering off for every request that it
    /// starts, so that it writes memory in order; closing gives that back as it was. Gives the
    /// firmware the memory that its contexts take, until the NIC is closed. Needs no firmware file: the
    /// NIC boots from the firmware in its flash.
    ///
    /// The NIC then holds as many queue pairs and regions at once as that memory has room for: beyond
    /// those that the firmware keeps for itself, every queue pair that it can hold where it states
    /// limits of its own, and otherwise at most 65,536 and those that it destroys fast; and its region
    /// entries less its address vectors where it states limits and one count of address vectors, and
    /// otherwise half the entries, at most 262,144.
    ///
    /// Fails if the function is not a BCM57608, if it cannot be reset or its relaxed ordering not be
    /// turned off, if there is too little memory, or if the firmware refuses a request or does not
    /// answer in time. The function is then as after [`close`](Self::close).
    pub fn open(function: F) -> Result<Self, Error> {
        Ok(Nic { context: Arc::new(boot::boot(function)?) })
    }

    /// The function that the NIC is.
    pub fn function(&self) -> &F {
        &self.context.function
    }

    /// Where the NIC's function is, as text: what errors call it.
    pub fn name(&self) -> &str {
        &self.context.facts.device
    }

    /// The link layer of the port.
    pub fn link(&self) -> LinkLayer {
        LinkLayer::Ethernet
    }

    /// The most bytes that a packet carries.
    pub fn mtu(&self) -> Mtu {
        MTU
    }

    /// The NIC's Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        self.context.facts.mac
    }

    /// The NIC's address on the fabric, as a global identifier: the IPv4 address `10.x.y.z`, whose
    /// `x.y.z` are the last three bytes of its Ethernet address, mapped to IPv6.
    pub fn gid(&self) -> [u8; 16] {
        self.context.facts.gid
    }

    /// The most bytes that one message carries: that one write, read or send moves.
    pub fn max_message(&self) -> u32 {
        MAX_MESSAGE
    }

    /// The most entries that a completion queue holds.
    pub fn max_completions(&self) -> u32 {
        self.context.facts.limits.completion_entries
    }

    /// The most requests of one piece that a send queue holds.
    pub fn max_sends(&self) -> u32 {
        self.context.facts.limits.entries
    }

    /// The most receives that a receive queue holds.
    pub fn max_receives(&self) -> u32 {
        self.context.facts.limits.entries
    }

    /// The most queue pairs that there are at once.
    pub fn max_queue_pairs(&self) -> u32 {
        self.context.facts.limits.queue_pairs
    }

    /// The most regions that there are at once.
    pub fn max_regions(&self) -> u32 {
        self.context.facts.plan.regions
    }

    /// Whether the NIC does atomics.
    pub fn has_atomics(&self) -> bool {
        self.context.facts.limits.atomics
    }

    /// Reads what the firmware has reported by itself: queue pairs that have failed, whose outstanding
    /// entries are then flushed when their completion queues are polled.
    ///
    /// Waiting for a completion does it, too, and so does everything that asks the firmware for
    /// something.
    pub fn service(&self) {
        self.context.service();
    }

    /// Closes the NIC: unregisters from its firmware, turns its bus mastering off, frees the memory
    /// that it was given, turns its relaxed ordering back on if it was on, and lets the function go. It
    /// reads and writes no memory of this process from then on.
    ///
    /// Fails, and gives the NIC back, while objects of it, or other handles on it, exist.
    pub fn close(self) -> Result<(), Refused<Self>> {
        // Dropping the context is what closes it.
        match destroy_alone(self.context, |_| Ok(())) {
            Ok(_) => Ok(()),
            Err(Refused { object: context, error }) => {
                Err(Refused { object: Nic { context }, error })
            }
        }
    }
}

impl<F: PciFunction> Clone for Nic<F> {
    /// Another handle on the same open NIC.
    fn clone(&self) -> Self {
        Nic { context: self.context.clone() }
    }
}

impl<F: PciFunction> fmt::Debug for Nic<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nic").field("name", &self.name()).field("mac", &self.mac()).finish()
    }
}

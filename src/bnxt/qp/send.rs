//! The send queue of a queue pair.

use super::Pair;
use crate::bnxt::context::RegisterOf;
use crate::bnxt::ring::SendRing;
use crate::bnxt::ring::entry::Operation;
use crate::endpoint::Endpoint;
use crate::wr::{PostError, WorkRequest};
use alloc::sync::Arc;
use core::fmt;
use doorbell_hal::pci::PciFunction;

/// Where requests are posted. One thread at a time posts; another may poll the completions.
pub struct SendQueue<F: PciFunction> {
    pub(super) ring: SendRing<RegisterOf<F>>,
    pub(super) pair: Arc<Pair<F>>,
    /// The first packet sequence number of the next connection, or of this one.
    pub(super) packet_sequence: u32,
    /// Whom the queue pair is connected to.
    pub(super) peer: Option<Endpoint>,
}

impl<F: PciFunction> SendQueue<F> {
    /// Writes a request into the ring. The NIC knows of it after [`ring`](Self::ring), so that many
    /// posts can share one doorbell.
    ///
    /// No system call, no lock, no allocation. Fails, with the ring as it was, if there is no room
    /// or if the request does not fit an entry.
    #[inline(always)]
    pub fn post<O: Operation, const SIGNALED: bool, const FENCED: bool, const SOLICITED: bool>(
        &mut self,
        request: WorkRequest<O, SIGNALED, FENCED, SOLICITED>,
    ) -> Result<(), PostError> {
        self.ring.post(request)
    }

    /// Rings the doorbell: gives the NIC all requests posted so far. Does nothing if there are none.
    #[inline(always)]
    pub fn ring(&mut self) {
        self.ring.ring();
    }

    /// How many requests of one piece can be posted before a completion has to be polled.
    ///
    /// A request of one piece takes three slots of 16 bytes; every further piece, and every 16 inline
    /// bytes, takes one.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }
}

impl<F: PciFunction> fmt::Debug for SendQueue<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendQueue").field("queue_pair", &self.pair.number.get()).finish()
    }
}

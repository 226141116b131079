//! The receive queue of a queue pair.

use super::Pair;
use crate::bnxt::context::RegisterOf;
use crate::bnxt::ring::ReceiveRing;
use crate::bnxt::ring::entry::Pieces;
use crate::wr::{PostError, Receive};
use alloc::sync::Arc;
use core::fmt;
use doorbell_hal::pci::PciFunction;

/// Where receives are posted. One thread at a time posts; another may poll the completions.
pub struct ReceiveQueue<F: PciFunction> {
    pub(super) ring: ReceiveRing<RegisterOf<F>>,
    pub(super) pair: Arc<Pair<F>>,
}

impl<F: PciFunction> ReceiveQueue<F> {
    /// Writes a receive into the ring. The NIC knows of it after [`ring`](Self::ring), so that many
    /// posts can share one doorbell.
    ///
    /// No system call, no lock, no allocation. Fails, with the ring as it was, if there is no room
    /// or if the receive has more pieces than the queue was made for.
    #[inline(always)]
    pub fn post<P: Pieces>(&mut self, receive: Receive<P>) -> Result<(), PostError> {
        self.ring.post(receive)
    }

    /// Gives the NIC all receives posted so far.
    #[inline(always)]
    pub fn ring(&mut self) {
        self.ring.ring();
    }

    /// How many receives can be posted before a completion has to be polled.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }
}

impl<F: PciFunction> fmt::Debug for ReceiveQueue<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveQueue").field("queue_pair", &self.pair.number.get()).finish()
    }
}

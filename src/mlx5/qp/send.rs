//! The send queue of a queue pair.

use super::Pair;
use crate::endpoint::Endpoint;
use crate::mlx5::context::RegisterOf;
use crate::mlx5::ring::SendRing;
use crate::mlx5::ring::entry::Operation;
use crate::wr::{PostError, WorkRequest};
use alloc::sync::Arc;
use core::fmt;
use doorbell_hal::mmio::{Caching, Uncached};
use doorbell_hal::uverbs::Uverbs;

/// Where requests are posted. One thread at a time posts; another may poll the completions.
pub struct SendQueue<V: Uverbs, C: Caching = Uncached> {
    pub(super) ring: SendRing<RegisterOf<V>, C>,
    pub(super) pair: Arc<Pair<V>>,
    /// The first packet sequence number of the next connection, or of this one.
    pub(super) packet_sequence: u32,
    /// Whom the queue pair is connected to.
    pub(super) peer: Option<Endpoint>,
}

impl<V: Uverbs, C: Caching> SendQueue<V, C> {
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

    /// How many 64-byte slots are free.
    ///
    /// One slot holds a request of one piece: or, of three for a send and two for others; or of up
    /// to 44 inline bytes for a send and 28 for others. Every further slot holds four pieces, or 64
    /// inline bytes.
    #[inline]
    pub fn room(&mut self) -> u32 {
        self.ring.room()
    }
}

impl<V: Uverbs, C: Caching> fmt::Debug for SendQueue<V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendQueue").field("queue_pair", &self.pair.number.get()).finish()
    }
}

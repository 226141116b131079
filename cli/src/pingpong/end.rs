//! The two ends of a connection, both on one NIC.

use super::verify::GUARD;
use crate::completions::Completions;
use crate::failure::Failure;
use crate::family::{Family, Sizes};
use doorbell::connection::{Connection, PeerRights};
use doorbell::endpoint::Endpoint;
use doorbell::family::RemoteRegion;
use doorbell::wr::RemoteSlice;

/// One end: a queue pair, its completions, and its memory.
pub struct End<F: Family, W> {
    pub sends: F::Sends,
    pub receives: F::Receives,
    /// Completions of requests.
    pub sent: W,
    /// Completions of receives.
    pub received: W,
    pub memory: Buffers<F>,
    /// The other end's memory.
    pub peer: RemoteBuffers,
}

/// An end's memory, each piece with guard bytes before and after.
pub struct Buffers<F: Family> {
    /// What messages come from.
    pub source: F::Region,
    /// What messages go to.
    pub target: F::Region,
}

/// An end's memory, as the other end names it.
#[derive(Clone, Copy)]
pub struct RemoteBuffers {
    pub source: RemoteSlice,
    pub target: RemoteSlice,
}

/// For one message at a time: more slots than the largest inline request takes.
pub const ONE_AT_A_TIME: Sizes = Sizes { sends: 64, receives: 8 };

/// An end that is not connected yet.
pub struct Unconnected<F: Family, W> {
    queue_pair: F::QueuePair,
    sent: W,
    received: W,
    memory: Buffers<F>,
}

impl<F: Family, W: Completions<F>> Unconnected<F, W> {
    /// On `nic`, with room for messages of `longest` bytes.
    pub fn make(nic: &F::Nic, longest: usize, sizes: Sizes) -> Result<Self, Failure> {
        // A NIC's rings may be longer than was asked for, up to the next power of two.
        let sent = W::make(nic, sizes.sends.next_power_of_two())?;
        let received = W::make(nic, sizes.receives.next_power_of_two())?;
        let queue_pair = W::queue_pair(nic, &sent, &received, sizes)?;
        let len = longest + 2 * GUARD;
        // In order, so that the last byte of a write is the last to be seen.
        let memory = Buffers { source: F::region(nic, len)?, target: F::region(nic, len)? };
        Ok(Unconnected { queue_pair, sent, received, memory })
    }

    /// What the other end needs to know of the queue pair.
    pub fn endpoint(&self) -> Endpoint {
        F::endpoint(&self.queue_pair)
    }

    /// This end's memory, for the other end.
    pub fn remote(&self) -> RemoteBuffers {
        RemoteBuffers { source: self.memory.source.remote(), target: self.memory.target.remote() }
    }

    /// Connects it to the other end.
    pub fn connect(
        self,
        endpoint: &Endpoint,
        peer: RemoteBuffers,
        connection: &Connection,
    ) -> Result<End<F, W>, Failure> {
        let Unconnected { queue_pair, sent, received, memory } = self;
        let rights = PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC;
        let (sends, receives) = F::connect(queue_pair, rights, endpoint, connection)?;
        Ok(End { sends, receives, sent, received, memory, peer })
    }
}

/// Two ends on `nic` that are connected to each other, with room for messages of `longest` bytes.
pub fn connected<F: Family, W: Completions<F>>(
    nic: &F::Nic,
    longest: usize,
    sizes: Sizes,
    connection: &Connection,
) -> Result<[End<F, W>; 2], Failure> {
    let first = Unconnected::<F, W>::make(nic, longest, sizes)?;
    let second = Unconnected::<F, W>::make(nic, longest, sizes)?;
    let endpoints = [first.endpoint(), second.endpoint()];
    let memories = [first.remote(), second.remote()];
    Ok([
        first.connect(&endpoints[1], memories[1], connection)?,
        second.connect(&endpoints[0], memories[0], connection)?,
    ])
}

//! The two ends of a connection, both on one NIC.

use super::verify::GUARD;
use crate::completions::Completions;
use crate::failure::Failure;
use doorbell::endpoint::Endpoint;
use doorbell::mlx5::access::RemoteAtomic;
use doorbell::mlx5::{
    Connection, Nic, Order, PeerRights, QueuePair, QueuePairBuilder, ReceiveQueue, Region,
    SendQueue,
};
use doorbell::state::Reset;
use doorbell::wr::RemoteSlice;
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_hal::uverbs::Uverbs;

/// How an end's requests are announced to the NIC, as a type.
pub trait Announce: Caching {
    /// Has the queue pair announce them so.
    fn choose<V: Uverbs>(builder: QueuePairBuilder<V>) -> QueuePairBuilder<V, Self>;
}

impl Announce for Uncached {
    fn choose<V: Uverbs>(builder: QueuePairBuilder<V>) -> QueuePairBuilder<V, Self> {
        builder
    }
}

impl Announce for WriteCombining {
    fn choose<V: Uverbs>(builder: QueuePairBuilder<V>) -> QueuePairBuilder<V, Self> {
        builder.write_combining()
    }
}

/// One end: a queue pair, its completions, and its memory.
pub struct End<V: Uverbs, C: Caching, W> {
    pub sends: SendQueue<V, C>,
    pub receives: ReceiveQueue<V>,
    /// Completions of requests.
    pub sent: W,
    /// Completions of receives.
    pub received: W,
    pub memory: Buffers<V>,
    /// The other end's memory.
    pub peer: RemoteBuffers,
}

/// An end's memory, each piece with guard bytes before and after.
pub struct Buffers<V: Uverbs> {
    /// What messages come from.
    pub source: Region<RemoteAtomic, V>,
    /// What messages go to.
    pub target: Region<RemoteAtomic, V>,
}

/// An end's memory, as the other end names it.
#[derive(Clone, Copy)]
pub struct RemoteBuffers {
    pub source: RemoteSlice,
    pub target: RemoteSlice,
}

/// How much an end's rings hold.
#[derive(Clone, Copy)]
pub struct Rings {
    /// Send slots.
    pub sends: u32,
    /// Receives.
    pub receives: u32,
}

/// For one message at a time: more slots than the largest inline request takes.
pub const ONE_AT_A_TIME: Rings = Rings { sends: 64, receives: 8 };

/// An end that is not connected yet.
pub struct Unconnected<V: Uverbs, C: Caching, W> {
    queue_pair: QueuePair<Reset, V, C>,
    sent: W,
    received: W,
    memory: Buffers<V>,
}

impl<V: Uverbs, C: Announce, W: Completions<V>> Unconnected<V, C, W> {
    /// On `nic`, with room for messages of `longest` bytes.
    pub fn make(nic: &Nic<V>, longest: usize, rings: Rings) -> Result<Self, Failure> {
        let Rings { sends, receives } = rings;
        let sent = W::make(nic, sends)?;
        let received = W::make(nic, receives)?;
        let builder = nic
            .queue_pair(sent.queue())
            .receive_completions(received.queue())
            .sends(sends)
            .receives(receives);
        let queue_pair = C::choose(builder).create()?;
        let len = longest + 2 * GUARD;
        // In order, so that the last byte of a write is the last to be seen.
        let memory = Buffers {
            source: nic.region(len, Order::InOrder)?,
            target: nic.region(len, Order::InOrder)?,
        };
        Ok(Unconnected { queue_pair, sent, received, memory })
    }

    /// What the other end needs to know of the queue pair.
    pub fn endpoint(&self) -> Endpoint {
        self.queue_pair.endpoint()
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
    ) -> Result<End<V, C, W>, Failure> {
        let Unconnected { queue_pair, sent, received, memory } = self;
        let rights = PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC;
        let (sends, receives) = queue_pair.connect(rights, endpoint, connection)?.split();
        Ok(End { sends, receives, sent, received, memory, peer })
    }
}

/// Two ends on `nic` that are connected to each other, with room for messages of `longest` bytes.
pub fn connected<V: Uverbs, C: Announce, W: Completions<V>>(
    nic: &Nic<V>,
    longest: usize,
    rings: Rings,
    connection: &Connection,
) -> Result<[End<V, C, W>; 2], Failure> {
    let first = Unconnected::<V, C, W>::make(nic, longest, rings)?;
    let second = Unconnected::<V, C, W>::make(nic, longest, rings)?;
    let endpoints = [first.endpoint(), second.endpoint()];
    let memories = [first.remote(), second.remote()];
    Ok([
        first.connect(&endpoints[1], memories[1], connection)?,
        second.connect(&endpoints[0], memories[0], connection)?,
    ])
}

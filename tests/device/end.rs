//! One end of a connection: a NIC, a completion queue, a queue pair, and memory.

use super::{Device, Verbs};
use doorbell::mlx5::access::RemoteAtomic;
use doorbell::mlx5::ring::entry::Operation;
use doorbell::mlx5::{
    CompletionQueue, Connection, Nic, Order, PeerRights, QueuePair, QueuePairBuilder, Region,
};
use doorbell::state::{Reset, Rts};
use doorbell::wr::{self, LocalSlice, RemoteSlice, WorkRequest};
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_hal::uverbs::Uverbs;
use std::ops::Range;

/// One end of a connection.
pub struct End<V: Uverbs, C: Caching = Uncached> {
    pub qp: QueuePair<Rts, V, C>,
    pub cq: CompletionQueue<V>,
    pub memory: Region<RemoteAtomic, V>,
    pub nic: Nic<V>,
}

/// What an end is made of.
#[derive(Clone, Copy)]
pub struct Options {
    /// Entries of the completion queue.
    pub entries: u32,
    pub sends: u32,
    pub receives: u32,
    /// The most pieces of a receive.
    pub pieces: u32,
    pub overcommit: bool,
    /// Bytes of memory.
    pub memory: usize,
    pub rights: PeerRights,
    pub connection: Connection,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            entries: 512,
            sends: 128,
            receives: 128,
            pieces: 1,
            overcommit: false,
            memory: 1 << 16,
            rights: all_rights(),
            connection: Connection::default(),
        }
    }
}

/// Everything that a peer can be allowed.
fn all_rights() -> PeerRights {
    PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC
}

/// A way to map a doorbell register, which a builder can be told.
pub trait Register: Caching {
    fn choose<V: Uverbs>(builder: QueuePairBuilder<V>) -> QueuePairBuilder<V, Self>;
}

impl Register for Uncached {
    fn choose<V: Uverbs>(builder: QueuePairBuilder<V>) -> QueuePairBuilder<V> {
        builder
    }
}

impl Register for WriteCombining {
    fn choose<V: Uverbs>(builder: QueuePairBuilder<V>) -> QueuePairBuilder<V, Self> {
        builder.write_combining()
    }
}

/// An end that is not connected yet.
pub struct Unconnected<V: Uverbs, C: Caching> {
    pub qp: QueuePair<Reset, V, C>,
    pub cq: CompletionQueue<V>,
    pub memory: Region<RemoteAtomic, V>,
    pub nic: Nic<V>,
}

fn unconnected<V: Verbs, C: Register>(nic: Nic<V>, options: &Options) -> Unconnected<V, C> {
    let cq = nic.completion_queue(options.entries).unwrap();
    let builder = nic
        .queue_pair(&cq)
        .sends(options.sends)
        .receives(options.receives)
        .receive_pieces(options.pieces);
    let builder = if options.overcommit { builder.overcommit() } else { builder };
    let qp = C::choose(builder).create().unwrap();
    let memory = nic.region(options.memory, Order::InOrder).unwrap();
    Unconnected { qp, cq, memory, nic }
}

/// Two ends that are not connected, on two NICs.
pub fn ends<V: Verbs, C: Register>(
    device: &Device<V>,
    options: &Options,
) -> [Unconnected<V, C>; 2] {
    [0, 1].map(|place| unconnected(device.nic(place), options))
}

/// Connects two ends with each other.
pub fn connect<V: Verbs, C: Register>(
    ends: [Unconnected<V, C>; 2],
    options: &Options,
) -> [End<V, C>; 2] {
    let [a, b] = ends;
    let (to_a, to_b) = (a.qp.endpoint(), b.qp.endpoint());
    [(a, to_b), (b, to_a)].map(|(Unconnected { qp, cq, memory, nic }, peer)| {
        let qp = qp.connect(options.rights, &peer, &options.connection).unwrap();
        End { qp, cq, memory, nic }
    })
}

/// Two connected ends.
pub fn pair<V: Verbs>(device: &Device<V>) -> [End<V>; 2] {
    pair_of(device, &Options::default())
}

/// Two connected ends, made as `options` say.
pub fn pair_of<V: Verbs, C: Register>(device: &Device<V>, options: &Options) -> [End<V, C>; 2] {
    connect(ends(device, options), options)
}

impl<V: Uverbs, C: Caching> End<V, C> {
    /// A part of the memory, as this end names it.
    #[track_caller]
    pub fn piece(&self, range: Range<usize>) -> LocalSlice {
        self.memory.slice(range).unwrap()
    }

    /// A part of the memory, as the peer names it.
    #[track_caller]
    pub fn remote(&self, range: Range<u64>) -> RemoteSlice {
        self.memory.remote().slice(range).unwrap()
    }

    /// Fills the memory from `at` on with bytes that depend on `seed`, and answers them.
    pub fn fill(&self, at: usize, len: usize, seed: u64) -> Vec<u8> {
        let bytes = pattern(len, seed);
        self.memory.write_at(at, &bytes).unwrap();
        bytes
    }

    /// The bytes of the memory.
    pub fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.memory.read_at(range.start, &mut bytes).unwrap();
        bytes
    }
}

/// `len` bytes that depend on `seed`, no two runs of which are alike.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}

impl<V: Uverbs, C: Caching> End<V, C> {
    /// Posts a receive into a part of the memory, and tells the NIC.
    #[track_caller]
    pub fn receive(&mut self, range: Range<usize>, id: u64) {
        let receive = wr::receive(self.piece(range)).id(id);
        self.qp.receives().post(receive).unwrap();
        self.qp.receives().ring();
    }

    /// Posts a request, and rings.
    #[track_caller]
    pub fn post<O: Operation, const S: bool, const F: bool, const E: bool>(
        &mut self,
        request: WorkRequest<O, S, F, E>,
    ) {
        self.qp.sends().post(request).unwrap();
        self.qp.sends().ring();
    }
}

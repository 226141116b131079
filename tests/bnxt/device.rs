//! Virtual BCM57608s, and pairs of queue pairs on them.

use doorbell::access::RemoteAtomic;
use doorbell::bnxt::{
    CompletionQueue, Connection, Nic, PeerRights, QueuePair, QueuePairBuilder, Region,
};
use doorbell::completion::{Completion, Failed, Received, Sent};
use doorbell::state::Rts;
use doorbell::wr::{LocalSlice, RemoteSlice};
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use doorbell_model::pci::WatchedNetxtreme;
use std::ops::Range;
use std::time::Duration;

pub type VirtualNic = Nic<VirtualNetxtreme>;

/// How long a test waits for something that comes: only a test that fails waits so long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Opens a NIC of `network`.
pub fn open(network: &Network) -> (VirtualNic, WatchedNetxtreme) {
    let function = VirtualNetxtreme::builder().network(network).open();
    let control = function.watch();
    (Nic::open(function).unwrap_or_else(|error| panic!("{error}")), control)
}

/// One end of a connection.
pub struct End {
    pub nic: VirtualNic,
    pub control: WatchedNetxtreme,
    pub memory: Region<RemoteAtomic, VirtualNetxtreme>,
    pub cq: CompletionQueue<VirtualNetxtreme>,
    pub qp: QueuePair<Rts, VirtualNetxtreme>,
}

/// What a pair of ends is made like.
pub struct Options {
    pub bytes: usize,
    pub completions: u32,
    pub rights: PeerRights,
    pub connection: Connection,
    pub build: fn(QueuePairBuilder<VirtualNetxtreme>) -> QueuePairBuilder<VirtualNetxtreme>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            bytes: 1 << 16,
            completions: 256,
            rights: PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC,
            connection: Connection::default(),
            build: |builder| builder.sends(64).receives(64),
        }
    }
}

/// Two ends on two NICs of one network.
pub fn pair_on(network: &Network, options: &Options) -> [End; 2] {
    let ends = [0, 1].map(|_| {
        let (nic, control) = open(network);
        let memory = nic.region::<RemoteAtomic>(options.bytes).unwrap();
        let cq = nic.completion_queue(options.completions).unwrap();
        let qp = (options.build)(nic.queue_pair(&cq)).create().unwrap();
        (nic, control, memory, cq, qp)
    });
    let [to_second, to_first] = [ends[1].4.endpoint(), ends[0].4.endpoint()];
    let mut peers = [to_second, to_first].into_iter();
    ends.map(|(nic, control, memory, cq, qp)| {
        let peer = peers.next().unwrap();
        let qp = qp.connect(options.rights, &peer, &options.connection).unwrap();
        End { nic, control, memory, cq, qp }
    })
}

/// Two ends on NICs that run by themselves.
pub fn pair() -> [End; 2] {
    pair_on(&Network::free(), &Options::default())
}

impl End {
    pub fn piece(&self, range: Range<usize>) -> LocalSlice {
        self.memory.slice(range).unwrap()
    }

    pub fn remote(&self, range: Range<u64>) -> RemoteSlice {
        self.memory.remote().slice(range).unwrap()
    }

    /// Fills bytes with what `seed` says, and answers them.
    pub fn fill(&self, at: usize, len: usize, seed: u64) -> Vec<u8> {
        let bytes = pattern(len, seed);
        self.memory.write_at(at, &bytes).unwrap();
        bytes
    }

    pub fn bytes(&self, range: Range<usize>) -> Vec<u8> {
        let mut bytes = vec![0; range.len()];
        self.memory.read_at(range.start, &mut bytes).unwrap();
        bytes
    }

    pub fn next(&mut self) -> Completion {
        let completion = self.cq.wait(PATIENCE);
        completion.unwrap_or_else(|| {
            panic!("no completion; {:?}", (self.control.take_log(), self.control.counters()))
        })
    }

    pub fn sent(&mut self) -> Sent {
        match self.next() {
            Completion::Sent(sent) => sent,
            other => panic!("{other:?}"),
        }
    }

    pub fn received(&mut self) -> Received {
        match self.next() {
            Completion::Received(received) => received,
            other => panic!("{other:?}"),
        }
    }

    pub fn failed(&mut self) -> Failed {
        match self.next() {
            Completion::Failed(failed) => failed,
            other => panic!("{other:?}"),
        }
    }
}

/// Bytes that look like no others.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(next).collect()
}

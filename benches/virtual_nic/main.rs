//! How fast the virtual ConnectX is, as ratios to what the machine can do at all, measured in one run.
//!
//! `cargo bench --bench virtual_nic` prints three of them, each beside its goal:
//!
//! - half of the round trip of an 8-byte write, in half round trips of a cache line between two
//!   processors: the NIC's thread is a third party, so it is two ways at least;
//! - the bandwidth of writes of 1 MiB, in that of `memcpy` of as many bytes;
//! - the rate of 8-byte writes, in that of a queue between two threads in memory.
//!
//! Each is measured in turns with what it is compared with, in many short bursts. The median of the bursts
//! is shown, and the best tenth: on a machine that does something else, too, that says more.

mod machine;

use doorbell::completion::Completion;
use doorbell::mlx5::{
    CompletionQueue, Connection, Nic, Order, PeerRights, QueuePair, Region, access,
};
use doorbell::state::Rts;
use doorbell::wr::{self, LocalSlice, RemoteSlice};
use doorbell_model::VirtualConnectx;
use std::time::Instant;

/// Measurements of each.
const TURNS: usize = 20;
/// Bursts of a measurement.
const BURSTS: usize = 10;
/// The length of a long write.
const LONG: usize = 1 << 20;
/// Writes under way at once, where it is not latency that is measured.
const DEPTH: u32 = 128;
/// Writes to a doorbell and to a completion.
const BATCH: u32 = 16;

type Memory = Region<access::RemoteWrite, VirtualConnectx>;

/// Two queue pairs, connected to each other, and memory of both.
struct Rig {
    pairs: [QueuePair<Rts, VirtualConnectx>; 2],
    completions: CompletionQueue<VirtualConnectx>,
    memories: [Memory; 2],
    /// Round trips so far; what they write.
    count: u64,
}

impl Rig {
    fn new() -> Result<Self, doorbell::error::Error> {
        let nic = Nic::open(VirtualConnectx::builder().open())?;
        let completions = nic.completion_queue(4 * DEPTH)?;
        let make = || nic.queue_pair(&completions).sends(DEPTH).create();
        let (first, second) = (make()?, make()?);
        let ends = [first.endpoint(), second.endpoint()];
        let connection = Connection::default();
        let pairs = [
            first.connect(PeerRights::WRITE, &ends[1], &connection)?,
            second.connect(PeerRights::WRITE, &ends[0], &connection)?,
        ];
        let memory = || nic.region(2 * LONG, Order::InOrder);
        Ok(Rig { pairs, completions, memories: [memory()?, memory()?], count: 0 })
    }

    /// Where the first of `from` and `to`'s memories sends from, and the second receives.
    fn slices(&self, from: usize, len: usize) -> (LocalSlice, RemoteSlice) {
        let local = self.memories[from].slice(0..len);
        let remote = self.memories[1 - from].remote();
        let remote = remote.slice(LONG as u64..LONG as u64 + len as u64);
        (local.expect("inside the region"), remote.expect("inside the region"))
    }

    /// One write from `from`, until its bytes are seen at the other end.
    fn pass(&mut self, from: usize) {
        self.count += 1;
        let bytes = self.count.to_ne_bytes();
        self.memories[from].write_at(0, &bytes).expect("inside the region");
        let (local, remote) = self.slices(from, 8);
        // Now and then a completion, so that the rings have room; after an odd number, so that both ends
        // have one.
        let write = wr::write(local, remote).expect("as long").id(self.count);
        let signaled = self.count.is_multiple_of(33);
        let sends = self.pairs[from].sends();
        let posted = if signaled { sends.post(write.signaled()) } else { sends.post(write) };
        posted.expect("the ring has room");
        sends.ring();
        let mut seen = [0; 8];
        let target = &self.memories[1 - from];
        machine::wait(|| {
            target.read_at(LONG, &mut seen).expect("inside the region");
            seen == bytes
        });
        if signaled {
            self.complete(1);
        }
    }

    /// Waits for `count` completions.
    fn complete(&mut self, count: u64) {
        for _ in 0..count {
            let mut completion = None;
            machine::wait(|| {
                completion = self.completions.poll();
                completion.is_some()
            });
            assert!(matches!(completion, Some(Completion::Sent(_))), "{completion:?}");
        }
    }

    /// Nanoseconds of half a round trip of 8 bytes.
    fn latency(&mut self) -> f64 {
        const ROUNDS: u32 = 20;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            self.pass(0);
            self.pass(1);
        }
        start.elapsed().as_nanos() as f64 / f64::from(2 * ROUNDS)
    }

    /// Nanoseconds of a write of `len` bytes, many under way.
    fn stream(&mut self, len: usize, writes: u32, depth: u32, batch: u32) -> f64 {
        let (local, remote) = self.slices(0, len);
        let write = wr::write(local, remote).expect("as long");
        let batches = writes / batch;
        let mut under_way = 0;
        let start = Instant::now();
        for _ in 0..batches {
            if (under_way + 1) * batch > depth {
                self.complete(1);
                under_way -= 1;
            }
            let sends = self.pairs[0].sends();
            for _ in 1..batch {
                sends.post(write.id(0)).expect("the ring has room");
            }
            sends.post(write.id(0).signaled()).expect("the ring has room");
            sends.ring();
            under_way += 1;
        }
        self.complete(under_way.into());
        start.elapsed().as_nanos() as f64 / f64::from(batches * batch)
    }
}

/// What is compared, in nanoseconds an operation.
struct Compared {
    name: &'static str,
    goal: &'static str,
    ours: Vec<f64>,
    floor: Vec<f64>,
    /// How to put the two: how many times slower, or how many times as fast.
    slower: bool,
}

impl Compared {
    fn print(mut self) {
        let at = |times: &mut Vec<f64>, part: usize| {
            times.sort_by(f64::total_cmp);
            times[(times.len() - 1) * part / 10]
        };
        let mut ratio = |part| {
            let (ours, floor) = (at(&mut self.ours, part), at(&mut self.floor, part));
            (ours, floor, if self.slower { ours / floor } else { floor / ours })
        };
        let ((ours, floor, median), (least, least_floor, best)) = (ratio(5), ratio(1));
        println!(
            "{:<44} {ours:>10.0} {floor:>10.0} {median:>7.2}x   {least:>10.0} {least_floor:>10.0} \
             {best:>7.2}x   {}",
            self.name, self.goal
        );
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut rig = Rig::new()?;
    let mut copies = machine::Copies::new(LONG);
    let [mut latency, mut bandwidth, mut rate] = [
        ("half a round trip of an 8-byte write", "at most 6x a cache line's", true),
        ("a write of 1 MiB", "at least 0.7x memcpy's speed", false),
        ("an 8-byte write of many", "at least 0.1x a queue's rate", false),
    ]
    .map(|(name, goal, slower)| Compared {
        name,
        goal,
        ours: Vec::new(),
        floor: Vec::new(),
        slower,
    });
    for _ in 0..TURNS {
        latency.ours.extend((0..BURSTS).map(|_| rig.latency()));
        latency.floor.extend(machine::cache_line());
        bandwidth.ours.extend((0..BURSTS).map(|_| rig.stream(LONG, 8, 4, 1)));
        bandwidth.floor.extend((0..BURSTS).map(|_| copies.copy()));
        rate.ours.extend((0..BURSTS).map(|_| rig.stream(8, 2048, DEPTH, BATCH)));
        rate.floor.extend(machine::queue());
    }
    println!(
        "{:<44} {:>10} {:>10} {:>8}   {:>10} {:>10} {:>8}",
        "nanoseconds an operation: median, best tenth",
        "NIC",
        "machine",
        "ratio",
        "NIC",
        "machine",
        "ratio"
    );
    for compared in [latency, bandwidth, rate] {
        compared.print();
    }
    Ok(())
}

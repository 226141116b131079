//! Firmware answers and events of a BCM57608, under everything that an engine calls.

use crate::bnxt_meddler::{Hand, Meddler, small_nic};
use crate::input::Input;
use doorbell::access::RemoteAtomic;
use doorbell::bnxt::{CompletionQueue, Connection, Nic, PeerRights, QueuePair, Region};
use doorbell::error::{Error, Refused};
use doorbell::state::{Errored, Reset, Rts};
use doorbell::wr::{self, Inline, PostError};
use doorbell_model::connectx::Network;
use std::time::Duration;

/// Calls of one run.
const CALLS: usize = 64;
/// Steps of the network in one call.
const STEPS: u64 = 200;

/// Opens a NIC whose firmware answers as the bytes say, and calls everything. Each call answers with an
/// error or an object that can be used, within its time, and nothing is left at the end.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let network = Network::stepped(input.byte().into());
    let function = small_nic(&network);
    let control = function.watch();
    let (function, hand) = Meddler::new(function, &input);
    let from_the_start = input.flag();
    hand.meddle(from_the_start);
    if let Some(nic) = checked(Nic::open(function)) {
        hand.meddle(true);
        let mut world = World::new(nic, network);
        for _ in 0..CALLS {
            if input.is_empty() {
                break;
            }
            world.call(&input);
        }
        world.end(&input, &hand);
    }
    drop(hand);
    assert!(!control.is_bus_master(), "the function was left able to reach memory");
    assert_eq!(control.lent(), 0, "memory was left behind");
}

/// What a call made, if it was not refused. An error says something.
fn checked<T>(result: Result<T, Error>) -> Option<T> {
    result.map_err(|error| assert!(!error.to_string().is_empty())).ok()
}

/// What a call made, or what it gave back.
fn kept<T, S>(result: Result<T, Refused<S>>) -> Result<T, S> {
    result.map_err(|refused| {
        assert!(!refused.to_string().is_empty());
        refused.object
    })
}

/// A queue pair in the state that it was last put in.
enum Pair {
    Reset(QueuePair<Reset, Meddler>),
    Works(QueuePair<Rts, Meddler>),
    Failed(QueuePair<Errored, Meddler>),
}

struct World {
    nic: Nic<Meddler>,
    queues: Vec<CompletionQueue<Meddler>>,
    pairs: Vec<Pair>,
    regions: Vec<Region<RemoteAtomic, Meddler>>,
    network: Network,
}

impl World {
    fn new(nic: Nic<Meddler>, network: Network) -> Self {
        assert!(nic.max_sends() <= 4095 && nic.max_receives() <= 4095);
        let (queues, pairs, regions) = (Vec::new(), Vec::new(), Vec::new());
        World { nic, queues, pairs, regions, network }
    }

    fn call(&mut self, input: &Input) {
        match input.byte() % 12 {
            0 => {
                let entries = number(input, self.nic.max_completions());
                self.queues.extend(checked(self.nic.completion_queue(entries)));
            }
            1 => self.regions.extend(checked(self.nic.region(usize::from(input.half())))),
            2 => self.make_pair(input),
            3 => self.connect(input),
            4 | 5 => self.post(input),
            6 => self.poll(),
            7 => {
                if let Some(queue) = input.pick(&mut self.queues) {
                    queue.wait(Duration::from_secs(input.byte().into()));
                }
            }
            8 => self.nic.service(),
            9 => self.fail(input),
            10 => self.destroy(input),
            _ => {
                self.network.run_until_idle(STEPS);
            }
        }
    }

    fn make_pair(&mut self, input: &Input) {
        let (sends, receives) =
            (number(input, self.nic.max_sends()), number(input, self.nic.max_receives()));
        let (pieces, depth, with) = (input.byte().into(), input.byte(), input.byte());
        let Some(queue) = input.pick(&mut self.queues) else { return };
        let builder = self.nic.queue_pair(queue).sends(sends).receives(receives);
        let builder = builder.receive_pieces(pieces);
        let builder = if with & 1 != 0 { builder.read_depth(depth) } else { builder };
        let builder = if with & 2 != 0 { builder.overcommit() } else { builder };
        let builder = match input.pick(&mut self.queues) {
            Some(queue) if with & 4 != 0 => builder.receive_completions(queue),
            _ => builder,
        };
        self.pairs.extend(checked(builder.create()).map(Pair::Reset));
    }

    /// Connects a queue pair to itself.
    fn connect(&mut self, input: &Input) {
        let rights = PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC;
        let connection = Connection { retries: 1, rnr_retries: 1, ..Connection::new() };
        let Some(pair) = input.take(&mut self.pairs) else { return };
        self.pairs.push(match pair {
            Pair::Reset(pair) => {
                let endpoint = pair.endpoint();
                match kept(pair.connect(rights, &endpoint, &connection)) {
                    Ok(pair) => Pair::Works(pair),
                    Err(pair) => Pair::Reset(pair),
                }
            }
            other => other,
        });
    }

    fn post(&mut self, input: &Input) {
        let Some(region) = input.pick(&mut self.regions) else { return };
        let Some(Pair::Works(pair)) = input.pick(&mut self.pairs) else { return };
        let (start, len) = (usize::from(input.half()), usize::from(input.half()));
        let slice = match region.slice(start..start + len) {
            Ok(slice) => slice,
            Err(error) => return assert!(!error.to_string().is_empty()),
        };
        for _ in 0..=input.byte() % 32 {
            let posted = match input.byte() % 4 {
                0 => match wr::write(slice, region.remote()) {
                    Ok(request) => pair.sends().post(request.signaled()),
                    Err(error) => return assert!(!error.to_string().is_empty()),
                },
                1 => pair.sends().post(wr::send(Inline(&[7u8; 64][..len.min(64)])).signaled()),
                2 => pair.sends().post(wr::send(&[slice; 3][..])),
                _ => pair.receives().post(wr::receive(slice)),
            };
            match posted {
                Ok(()) => {}
                Err(PostError::Full) => break,
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
        pair.sends().ring();
        pair.receives().ring();
    }

    fn poll(&mut self) {
        for queue in &mut self.queues {
            for _ in 0..=queue.entries() {
                if queue.poll().is_none() {
                    break;
                }
            }
        }
    }

    /// Takes a queue pair down, or resets one that was.
    fn fail(&mut self, input: &Input) {
        let Some(pair) = input.take(&mut self.pairs) else { return };
        self.pairs.push(match pair {
            Pair::Reset(pair) => Pair::Reset(pair),
            Pair::Works(pair) => match kept(pair.fail()) {
                Ok(pair) => Pair::Failed(pair),
                Err(pair) => Pair::Works(pair),
            },
            Pair::Failed(mut pair) => {
                let drained = pair.is_drained();
                match kept(pair.reset()) {
                    Ok(pair) => {
                        assert!(drained, "a queue pair was reset with entries outstanding");
                        Pair::Reset(pair)
                    }
                    Err(pair) => Pair::Failed(pair),
                }
            }
        });
    }

    fn destroy(&mut self, input: &Input) {
        match input.byte() % 3 {
            0 => {
                let Some(pair) = input.take(&mut self.pairs) else { return };
                self.pairs.extend(match pair {
                    Pair::Reset(pair) => kept(pair.destroy()).err().map(Pair::Reset),
                    Pair::Works(pair) => kept(pair.destroy()).err().map(Pair::Works),
                    Pair::Failed(pair) => kept(pair.destroy()).err().map(Pair::Failed),
                });
            }
            1 => {
                let queue = input.take(&mut self.queues);
                self.queues.extend(queue.and_then(|queue| kept(queue.destroy()).err()));
            }
            _ => {
                let region = input.take(&mut self.regions);
                self.regions.extend(region.and_then(|region| kept(region.deregister()).err()));
            }
        }
    }

    /// Lets go of everything, in an order that the input says. The last requests may be refused, too.
    fn end(mut self, input: &Input, hand: &Hand) {
        hand.meddle(input.flag());
        for _ in 0..3 {
            match input.byte() % 3 {
                0 => self.queues.clear(),
                1 => self.pairs.clear(),
                _ => self.regions.clear(),
            }
        }
        let World { nic, queues, pairs, regions, .. } = self;
        drop((queues, pairs, regions));
        assert!(kept(nic.close()).is_ok(), "objects keep the NIC open that are gone");
    }
}

/// A number up to `most`, or near it, or anything.
fn number(input: &Input, most: u32) -> u32 {
    match input.byte() {
        250 => most,
        251 => most.saturating_add(1),
        252 => input.word(),
        small => u32::from(small),
    }
}

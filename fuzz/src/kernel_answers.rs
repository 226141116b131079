//! Errors and answers of the verbs calls, under everything that an engine calls.

use crate::input::Input;
use crate::meddler::{Hand, Meddler, small_nic};
use doorbell::error::{Error, Refused};
use doorbell::mlx5::{
    CompletionQueue, Connection, EVENTS, EventChannel, Nic, Notified, Order, PeerRights, Polled,
    QueuePair, QueuePairBuilder, Region, access,
};
use doorbell::state::{Errored, Reset, Rts};
use doorbell::wr::{self, Inline, PostError};
use doorbell_hal::mmio::{Caching, Uncached, WriteCombining};
use doorbell_model::connectx::Network;
use std::time::Duration;

/// Calls of one run.
const CALLS: usize = 64;
/// Steps of the network in one call.
const STEPS: u64 = 200;
/// Completion queues and queue pairs have at most so many entries where the kernel sets no bound
/// that matters: making more takes time and shows nothing.
const MANY: u32 = 1 << 12;

/// Opens a NIC whose kernel answers as the bytes say, and calls everything. Each call answers with
/// an error or an object that can be used, and nothing is left at the end.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let network = Network::stepped(input.byte().into());
    let file = small_nic(&network);
    let control = file.control();
    let (kernel, hand) = Meddler::new(file, &input);
    hand.meddle(true);
    if let Some(nic) = checked(Nic::open(kernel)) {
        let mut world = World::new(nic, network);
        for _ in 0..CALLS {
            if input.is_empty() {
                break;
            }
            world.call(&input);
        }
        world.end(&input, &hand);
    }
    hand.free();
    assert_eq!(control.objects(), Default::default(), "something was left behind");
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
enum Pair<C: Caching> {
    Reset(QueuePair<Reset, Meddler, C>),
    Works(QueuePair<Rts, Meddler, C>),
    Failed(QueuePair<Errored, Meddler, C>),
}

struct World {
    nic: Nic<Meddler>,
    polled: Vec<CompletionQueue<Meddler, Polled>>,
    notified: Vec<CompletionQueue<Meddler, Notified>>,
    plain: Vec<Pair<Uncached>>,
    combining: Vec<Pair<WriteCombining>>,
    regions: Vec<Region<access::RemoteAtomic, Meddler>>,
    channels: Vec<EventChannel<Meddler>>,
    network: Network,
}

impl World {
    fn new(nic: Nic<Meddler>, network: Network) -> Self {
        assert!(nic.max_message() <= wr::MAX_MESSAGE && nic.mtu().bytes() <= 4096);
        assert!(nic.max_sends() <= 1 << 15 && nic.max_receives() <= 1 << 15);
        World {
            nic,
            polled: Vec::new(),
            notified: Vec::new(),
            plain: Vec::new(),
            combining: Vec::new(),
            regions: Vec::new(),
            channels: Vec::new(),
            network,
        }
    }

    fn call(&mut self, input: &Input) {
        match input.byte() % 16 {
            0 => {
                let entries = number(input, self.nic.max_completions());
                self.polled.extend(checked(self.nic.completion_queue(entries)));
            }
            1 => {
                if let Some(channel) = input.pick(&mut self.channels) {
                    let made = self.nic.completion_queue_with_events(16, channel);
                    self.notified.extend(checked(made));
                }
            }
            2 => self.channels.extend(checked(self.nic.event_channel())),
            3 => {
                let len = usize::from(input.half());
                self.regions.extend(checked(self.nic.region(len, Order::InOrder)));
            }
            4 => self.make_pair(input),
            5 => self.connect(input),
            6 | 7 => self.post(input),
            8 => self.poll(),
            9 => self.wait(input),
            10 => fail(&mut self.plain, input),
            11 => fail(&mut self.combining, input),
            12 => self.destroy(input),
            13 => {
                if let Some(region) = input.take(&mut self.regions)
                    && let Err(region) = kept(region.deregister())
                {
                    self.regions.push(region);
                }
            }
            14 => {
                self.network.run_until_idle(STEPS);
            }
            _ => {
                let another = self.nic.clone();
                assert!(another.close().is_err(), "the NIC was closed while it was in use");
            }
        }
    }

    fn make_pair(&mut self, input: &Input) {
        let (sends, receives) =
            (number(input, self.nic.max_sends()), number(input, self.nic.max_receives()));
        let (pieces, depth, with) = (input.byte().into(), input.byte(), input.byte());
        let ask = |builder: QueuePairBuilder<Meddler>| {
            let builder = builder.sends(sends).receives(receives).receive_pieces(pieces);
            let builder = if with & 2 != 0 { builder.read_depth(depth) } else { builder };
            if with & 4 != 0 { builder.overcommit() } else { builder }
        };
        let builder = match (with & 8 != 0, input.pick(&mut self.polled)) {
            (false, Some(queue)) => self.nic.queue_pair(queue),
            (_, other) => {
                let other = other.map(|queue| &*queue);
                let Some(queue) = input.pick(&mut self.notified) else { return };
                let builder = self.nic.queue_pair(queue);
                match other {
                    Some(other) => builder.receive_completions(other),
                    None => builder,
                }
            }
        };
        if with & 1 == 0 {
            self.plain.extend(checked(ask(builder).create()).map(Pair::Reset));
        } else {
            let made = checked(ask(builder).write_combining().create());
            self.combining.extend(made.map(Pair::Reset));
        }
    }

    /// Connects a queue pair to itself.
    fn connect(&mut self, input: &Input) {
        fn connect<C: Caching>(pairs: &mut Vec<Pair<C>>, input: &Input) {
            let rights = PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC;
            let connection = Connection { retries: 1, rnr_retries: 1, ..Connection::new() };
            let Some(pair) = input.take(pairs) else { return };
            pairs.push(match pair {
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
        match input.flag() {
            false => connect(&mut self.plain, input),
            true => connect(&mut self.combining, input),
        }
    }

    fn post(&mut self, input: &Input) {
        let Some(region) = input.pick(&mut self.regions) else { return };
        let region = &*region;
        match input.flag() {
            false => post(&mut self.plain, region, input),
            true => post(&mut self.combining, region, input),
        }
    }

    fn poll(&mut self) {
        for queue in &mut self.polled {
            for _ in 0..=queue.entries() {
                if queue.poll().is_none() {
                    break;
                }
            }
        }
        for queue in &mut self.notified {
            while queue.poll().is_some() {}
            queue.arm();
        }
    }

    fn wait(&mut self, input: &Input) {
        if let Some(channel) = input.pick(&mut self.channels)
            && let Some(events) = checked(channel.wait(Duration::ZERO))
        {
            assert!(events.len() <= EVENTS);
        }
    }

    fn destroy(&mut self, input: &Input) {
        match input.byte() % 4 {
            0 => destroy(&mut self.plain, input),
            1 => destroy(&mut self.combining, input),
            2 => {
                if let Some(queue) = input.take(&mut self.polled)
                    && let Err(queue) = kept(queue.destroy())
                {
                    self.polled.push(queue);
                }
            }
            _ => {
                if let Some(queue) = input.take(&mut self.notified)
                    && let Err(queue) = kept(queue.destroy())
                {
                    self.notified.push(queue);
                }
            }
        }
    }

    /// Lets go of everything, in an order that the input says. The last calls may be refused, too.
    fn end(mut self, input: &Input, hand: &Hand) {
        hand.meddle(input.flag());
        for _ in 0..6 {
            match input.byte() % 6 {
                0 => self.polled.clear(),
                1 => self.notified.clear(),
                2 => self.plain.clear(),
                3 => self.combining.clear(),
                4 => self.regions.clear(),
                _ => self.channels.clear(),
            }
        }
        let World { nic, polled, notified, plain, combining, regions, channels, .. } = self;
        drop((polled, notified, plain, combining, regions, channels));
        assert!(kept(nic.close()).is_ok(), "objects keep the NIC open that are gone");
    }
}

/// A number up to `most`, or near it, or anything.
fn number(input: &Input, most: u32) -> u32 {
    match input.byte() {
        250 => most.min(MANY),
        251 if most < MANY => most.saturating_add(1),
        252 => input.word(),
        253 if most > MANY => most,
        small => u32::from(small),
    }
}

fn post<C: Caching>(
    pairs: &mut [Pair<C>],
    region: &Region<access::RemoteAtomic, Meddler>,
    input: &Input,
) {
    let Some(Pair::Works(pair)) = input.pick(pairs) else { return };
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

/// Takes a queue pair down, or resets one that was.
fn fail<C: Caching>(pairs: &mut Vec<Pair<C>>, input: &Input) {
    let Some(pair) = input.take(pairs) else { return };
    pairs.push(match pair {
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

fn destroy<C: Caching>(pairs: &mut Vec<Pair<C>>, input: &Input) {
    let Some(pair) = input.take(pairs) else { return };
    pairs.extend(match pair {
        Pair::Reset(pair) => kept(pair.destroy()).err().map(Pair::Reset),
        Pair::Works(pair) => kept(pair.destroy()).err().map(Pair::Works),
        Pair::Failed(pair) => kept(pair.destroy()).err().map(Pair::Failed),
    });
}

//! A layer that loses, doubles, reorders, delays and corrupts packets, by a seed.

use super::{Address, Arrival, Fabric, Message, MessageArrival, Port};
use crate::rc::{Packet, Psn};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::time::Duration;

/// How often what goes wrong, each in packets of a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Faults {
    /// Lost.
    pub loss: u16,
    /// Sent twice.
    pub duplication: u16,
    /// Held back so that later ones overtake it.
    pub reordering: u16,
    /// Late, and everything behind it from the same port with it.
    pub delay: u16,
    /// Changed on the way: the invariant CRC is wrong, so the receiving port drops it.
    pub corruption: u16,
    /// The longest time that a packet is held back or late, in nanoseconds.
    pub longest: u64,
}

/// What went wrong so far, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)] // Named as in `Faults`.
pub struct FaultCounts {
    pub sent: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    pub delayed: u64,
    pub corrupted: u64,
}

/// A fabric on which things go wrong. The same seed and the same calls give the same faults.
///
/// `Display` prints the seed, the counts and the last faults.
pub struct Faulty<F> {
    inner: F,
    seed: u64,
    random: fastrand::Rng,
    faults: Faults,
    counts: FaultCounts,
    isolated: HashSet<Port>,
    /// Packets under way, by the time at which they go on and the order in which they came.
    held: BTreeMap<(u64, u64), Held>,
    order: u64,
    /// By sender, the time before which its packets do not go on.
    late_until: HashMap<Port, u64>,
    log: VecDeque<(u64, Fault, Psn)>,
}

struct Held {
    port: Port,
    source: Address,
    destination: Address,
    packet: Packet,
}

/// What happened to a packet.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Lost,
    Duplicated,
    Reordered,
    Delayed,
    Corrupted,
}

/// Faults that are remembered.
const LOG: usize = 64;

impl<F: Fabric> Faulty<F> {
    /// Wraps `inner`; every draw comes from `seed`.
    pub fn new(inner: F, seed: u64, faults: Faults) -> Self {
        Faulty {
            inner,
            seed,
            random: fastrand::Rng::with_seed(seed),
            faults,
            counts: FaultCounts::default(),
            isolated: HashSet::new(),
            held: BTreeMap::new(),
            order: 0,
            late_until: HashMap::new(),
            log: VecDeque::new(),
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Changes what goes wrong from now on.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// What went wrong so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Loses everything to and from `port` from now on, or not any more: a peer that vanished.
    pub fn isolate(&mut self, port: Port, isolated: bool) {
        if isolated {
            self.isolated.insert(port);
        } else {
            self.isolated.remove(&port);
        }
    }

    fn draw(&mut self, per_mille: u16) -> bool {
        self.random.u16(..1000) < per_mille
    }

    fn note(&mut self, now: u64, fault: Fault, packet: &Packet) {
        *match fault {
            Fault::Lost => &mut self.counts.lost,
            Fault::Duplicated => &mut self.counts.duplicated,
            Fault::Reordered => &mut self.counts.reordered,
            Fault::Delayed => &mut self.counts.delayed,
            Fault::Corrupted => &mut self.counts.corrupted,
        } += 1;
        if self.log.len() == LOG {
            self.log.pop_front();
        }
        self.log.push_back((now, fault, packet.psn));
    }

    /// Decides what happens to one packet.
    fn send_one(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        packet: Packet,
    ) {
        self.counts.sent += u64::from(packet.run.max(1));
        if self.isolated.contains(&port) || self.draw(self.faults.loss) {
            self.note(now, Fault::Lost, &packet);
            return;
        }
        if self.draw(self.faults.corruption) {
            self.note(now, Fault::Corrupted, &packet);
            return;
        }
        if self.draw(self.faults.duplication) {
            self.note(now, Fault::Duplicated, &packet);
            let packet = packet.clone();
            self.pass(now, Held { port, source, destination, packet });
        }
        self.pass(now, Held { port, source, destination, packet });
    }

    /// Sends one packet on, now or later.
    fn pass(&mut self, now: u64, held: Held) {
        let longest = self.faults.longest.max(1);
        let late_until = self.late_until.get(&held.port).copied().unwrap_or(0);
        let due = if self.draw(self.faults.reordering) {
            self.note(now, Fault::Reordered, &held.packet);
            now.saturating_add(self.random.u64(1..=longest))
        } else if self.draw(self.faults.delay) {
            self.note(now, Fault::Delayed, &held.packet);
            let due = late_until.max(now.saturating_add(self.random.u64(1..=longest)));
            self.late_until.insert(held.port, due);
            due
        } else {
            late_until
        };
        if due <= now {
            let Held { port, source, destination, packet } = held;
            self.inner.send(now, port, source, destination, packet);
            return;
        }
        let mut held = held;
        if held.packet.payload.settle().is_ok() {
            self.order += 1;
            self.held.insert((due, self.order), held);
        }
    }

    /// Sends on what was held until `now`.
    fn release(&mut self, now: u64) {
        while let Some(first) = self.held.first_entry()
            && first.key().0 <= now
        {
            let Held { port, source, destination, packet } = first.remove();
            self.inner.send(now, port, source, destination, packet);
        }
    }
}

impl<F> fmt::Display for Faulty<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {:?}, {:?}", self.seed, self.faults, self.counts)?;
        for (now, fault, psn) in &self.log {
            writeln!(f, "{now:>12} ns  {fault:?} psn {psn}")?;
        }
        Ok(())
    }
}

impl<F: Fabric> Fabric for Faulty<F> {
    fn attach(&mut self) -> Port {
        self.inner.attach()
    }

    fn detach(&mut self, port: Port) {
        self.inner.detach(port);
    }

    fn bind(&mut self, port: Port, address: Address) {
        self.inner.bind(port, address);
    }

    fn unbind(&mut self, port: Port, address: Address) {
        self.inner.unbind(port, address);
    }

    fn set_neighbor(&mut self, address: Address, mac: [u8; 6]) {
        self.inner.set_neighbor(address, mac);
    }

    fn send(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        packet: Packet,
    ) {
        // What was held until now was sent before.
        self.release(now);
        if self.faults == Faults::default() {
            // A run stays one.
            self.send_one(now, port, source, destination, packet);
            return;
        }
        // Each packet of a run has its own fate.
        for packet in packet.split() {
            self.send_one(now, port, source, destination, packet);
        }
    }

    fn send_message(
        &mut self,
        now: u64,
        port: Port,
        source: Address,
        destination: Address,
        message: Message,
    ) {
        self.inner.send_message(now, port, source, destination, message);
    }

    fn receive_message(&mut self, now: u64, port: Port) -> Option<MessageArrival> {
        self.inner.receive_message(now, port)
    }

    fn receive(&mut self, now: u64, port: Port) -> Option<Arrival> {
        self.release(now);
        if self.isolated.contains(&port) {
            while let Some(arrival) = self.inner.receive(now, port) {
                self.note(now, Fault::Lost, &arrival.packet);
            }
            return None;
        }
        self.inner.receive(now, port)
    }

    fn next_arrival(&self) -> Option<u64> {
        let held = self.held.first_key_value().map(|(key, _)| key.0);
        [held, self.inner.next_arrival()].into_iter().flatten().min()
    }

    fn most_outstanding(&self) -> Option<u32> {
        self.inner.most_outstanding()
    }

    fn rests_at_most(&self) -> Option<Duration> {
        self.inner.rests_at_most()
    }

    fn is_congested(&mut self, port: Port) -> bool {
        self.inner.is_congested(port)
    }

    fn settle(&mut self, port: Port) {
        // What is held was settled when it was.
        self.inner.settle(port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Loopback;
    use crate::fabric::testing::{numbered, numbers};

    const COUNT: u32 = 10_000;

    /// Sends numbered packets, one each 10 ns, and answers the numbers in the order of arrival.
    fn run(seed: u64, faults: Faults) -> (Vec<u32>, FaultCounts) {
        let mut fabric = Faulty::new(Loopback::new(), seed, faults);
        let (a, b) = (fabric.attach(), fabric.attach());
        fabric.bind(b, Address::Lid(2));
        let mut arrived = Vec::new();
        for number in 0..COUNT {
            let now = u64::from(number) * 10;
            fabric.send(now, a, Address::Lid(1), Address::Lid(2), numbered(number));
            arrived.extend(numbers(&mut fabric, b, now));
        }
        while let Some(time) = fabric.next_arrival() {
            arrived.extend(numbers(&mut fabric, b, time));
        }
        (arrived, fabric.counts())
    }

    fn sorted(mut numbers: Vec<u32>) -> Vec<u32> {
        numbers.sort();
        numbers
    }

    #[test]
    fn without_faults_everything_arrives_once_and_in_order() {
        let (arrived, counts) = run(1, Faults::default());
        assert_eq!(arrived, (0..COUNT).collect::<Vec<_>>());
        assert_eq!(counts, FaultCounts { sent: COUNT.into(), ..FaultCounts::default() });
    }

    #[test]
    fn each_fault_does_what_it_says_and_is_counted() {
        let few = 100..2000;
        let all = 0..COUNT;

        for faults in [
            Faults { loss: 50, ..Faults::default() },
            Faults { corruption: 50, ..Faults::default() },
        ] {
            let (arrived, counts) = run(2, faults);
            let gone = counts.lost + counts.corrupted;
            assert!(few.contains(&gone));
            assert_eq!(counts.lost == 0, faults.loss == 0);
            assert_eq!(arrived.len() as u64, u64::from(COUNT) - gone);
            assert!(arrived.is_sorted_by(|a, b| a < b));
        }

        let (arrived, counts) = run(3, Faults { duplication: 50, ..Faults::default() });
        assert!(few.contains(&counts.duplicated));
        assert_eq!(arrived.len() as u64, u64::from(COUNT) + counts.duplicated);
        let mut once = arrived.clone();
        once.dedup();
        assert_eq!(once, all.clone().collect::<Vec<_>>());

        let (arrived, counts) =
            run(4, Faults { reordering: 50, longest: 100, ..Faults::default() });
        assert!(few.contains(&counts.reordered));
        assert!(!arrived.is_sorted());
        assert_eq!(sorted(arrived), all.clone().collect::<Vec<_>>());

        let (arrived, counts) = run(5, Faults { delay: 50, longest: 100, ..Faults::default() });
        assert!(few.contains(&counts.delayed));
        assert_eq!(arrived, all.collect::<Vec<_>>());
    }

    #[test]
    fn a_late_packet_arrives_when_it_is_due_and_not_before() {
        let faults = Faults { delay: 1000, longest: 100, ..Faults::default() };
        let mut fabric = Faulty::new(Loopback::new(), 1, faults);
        let (a, b) = (fabric.attach(), fabric.attach());
        fabric.bind(b, Address::Lid(2));
        fabric.send(1000, a, Address::Lid(1), Address::Lid(2), numbered(7));
        let due = fabric.next_arrival().unwrap();
        assert!((1001..=1100).contains(&due));
        assert!(fabric.receive(due - 1, b).is_none());
        assert!(fabric.receive(due, b).is_some());
        assert_eq!(fabric.next_arrival(), None);
    }

    #[test]
    fn a_seed_gives_the_same_faults_again() {
        let faults = Faults {
            loss: 30,
            duplication: 30,
            reordering: 30,
            delay: 30,
            corruption: 30,
            longest: 500,
        };
        assert_eq!(run(6, faults), run(6, faults));
        assert_ne!(run(6, faults).0, run(7, faults).0);
    }

    #[test]
    fn nothing_reaches_or_leaves_an_isolated_port() {
        let mut fabric = Faulty::new(Loopback::new(), 1, Faults::default());
        let (a, b) = (fabric.attach(), fabric.attach());
        fabric.bind(a, Address::Lid(1));
        fabric.bind(b, Address::Lid(2));
        let both = |fabric: &mut Faulty<Loopback>| {
            fabric.send(0, a, Address::Lid(1), Address::Lid(2), numbered(1));
            fabric.send(0, b, Address::Lid(2), Address::Lid(1), numbered(2));
            (numbers(fabric, b, 0), numbers(fabric, a, 0))
        };
        fabric.isolate(b, true);
        assert_eq!(both(&mut fabric), (vec![], vec![]));
        assert_eq!(fabric.counts().lost, 2);
        fabric.isolate(b, false);
        assert_eq!(both(&mut fabric), (vec![1], vec![2]));
    }
}

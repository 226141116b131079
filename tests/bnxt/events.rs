//! Completion queues that are armed, and who waits for their events.

use crate::device::{PATIENCE, VirtualNic, open};
use doorbell::access::RemoteAtomic;
use doorbell::bnxt::{
    CompletionQueue, Connection, Event, EventChannel, Notified, PeerRights, QueuePair, Region,
};
use doorbell::completion::Completion;
use doorbell::error::Error;
use doorbell::state::Rts;
use doorbell::wr;
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use doorbell_model::pci::WatchedNetxtreme;
use std::time::Duration;

type Virtual = VirtualNetxtreme;

/// Two connected queue pairs of one NIC. Sends of the first complete in one queue, receives of the second
/// in another.
struct Rig {
    nic: VirtualNic,
    control: WatchedNetxtreme,
    channel: EventChannel<Virtual>,
    memory: Region<RemoteAtomic, Virtual>,
    sent: CompletionQueue<Virtual, Notified>,
    received: CompletionQueue<Virtual, Notified>,
    first: QueuePair<Rts, Virtual>,
    second: QueuePair<Rts, Virtual>,
}

impl Rig {
    fn new(network: &Network) -> Self {
        let (nic, control) = open(network);
        let channel = nic.event_channel().unwrap();
        let memory = nic.region::<RemoteAtomic>(4096).unwrap();
        let queue = || nic.completion_queue_with_events(64, &channel).unwrap();
        let (sent, received) = (queue(), queue());
        let first = nic.queue_pair(&sent).sends(16).receives(0).create().unwrap();
        let second = nic.queue_pair(&received).sends(0).receives(16).create().unwrap();
        let peers = [first.endpoint(), second.endpoint()];
        let connection = Connection::default();
        let first = first.connect(PeerRights::NONE, &peers[1], &connection).unwrap();
        let second = second.connect(PeerRights::NONE, &peers[0], &connection).unwrap();
        Rig { nic, control, channel, memory, sent, received, first, second }
    }

    fn receive(&mut self) {
        let into = self.memory.slice(64..128).unwrap();
        self.second.receives().post(wr::receive(into)).unwrap();
        self.second.receives().ring();
    }

    fn send(&mut self, solicited: bool) {
        let request = wr::send(self.memory.slice(0..8).unwrap()).signaled();
        match solicited {
            true => self.first.sends().post(request.solicited()).unwrap(),
            false => self.first.sends().post(request).unwrap(),
        }
        self.first.sends().ring();
    }

    /// The completion queues that have an event, within `timeout`.
    fn wait(&mut self, timeout: Duration) -> Vec<&'static str> {
        let events = self.channel.wait(timeout).unwrap();
        let name = |event: &Event| match event {
            Event::Completion(id) if *id == self.sent.id() => "sent",
            Event::Completion(id) if *id == self.received.id() => "received",
            other => panic!("{other:?}"),
        };
        let mut names: Vec<_> = events.iter().map(name).collect();
        names.sort_unstable();
        names
    }
}

/// Polls until there is nothing: how many there were.
fn drain<N>(queue: &mut CompletionQueue<Virtual, N>) -> usize {
    let mut count = 0;
    while let Some(completion) = queue.poll() {
        assert!(matches!(completion, Completion::Sent(_) | Completion::Received(_)));
        count += 1;
    }
    count
}

const NONE: [&str; 0] = [];

#[test]
fn an_armed_bcm57608_queue_raises_one_event_for_each_arm() {
    let network = Network::stepped(0);
    let mut rig = Rig::new(&network);
    for round in 0..20 {
        rig.received.arm();
        for _ in 0..3 {
            rig.receive();
            rig.send(false);
        }
        assert_eq!(rig.wait(PATIENCE), ["received"], "round {round}");
        network.run_until_idle(100_000);
        assert_eq!(rig.wait(Duration::ZERO), NONE, "round {round}");
        assert_eq!((drain(&mut rig.received), drain(&mut rig.sent)), (3, 3));
    }
    assert_eq!(rig.control.counters().dropped_doorbells, 0, "{:?}", rig.control.take_log());
}

#[test]
fn arming_a_bcm57608_queue_after_a_completion_has_come_raises_the_event_at_once() {
    let network = Network::stepped(0);
    let mut rig = Rig::new(&network);
    rig.receive();
    rig.send(false);
    network.run_until_idle(100_000);
    // A queue that is not armed raises nothing.
    assert_eq!(rig.wait(Duration::ZERO), NONE);
    rig.received.arm();
    rig.sent.arm();
    network.run_until_idle(100_000);
    assert_eq!(rig.wait(Duration::ZERO), ["received", "sent"]);
}

#[test]
fn a_bcm57608_queue_can_be_armed_for_what_the_peer_solicited() {
    let network = Network::stepped(0);
    let mut rig = Rig::new(&network);
    rig.received.arm_solicited();
    rig.receive();
    rig.send(false);
    network.run_until_idle(100_000);
    assert_eq!(rig.wait(Duration::ZERO), NONE);
    rig.receive();
    rig.send(true);
    assert_eq!(rig.wait(PATIENCE), ["received"]);
    assert_eq!(drain(&mut rig.received), 2);
}

#[test]
fn nothing_is_slept_through_on_a_bcm57608_that_runs_by_itself() {
    let mut rig = Rig::new(&Network::free());
    let (mut sent, mut received) = (0, 0);
    for round in 0..300 {
        rig.receive();
        rig.send(false);
        while received == round || sent == round {
            // Poll until there is nothing, arm, and wait.
            sent += drain(&mut rig.sent);
            received += drain(&mut rig.received);
            rig.sent.arm();
            rig.received.arm();
            if received == round || sent == round {
                assert_ne!(rig.wait(PATIENCE), NONE, "round {round}");
            }
        }
    }
}

#[test]
fn a_bcm57608_has_one_event_channel_at_a_time_and_queues_of_its_own() {
    let network = Network::stepped(0);
    let (nic, _) = open(&network);
    let channel = nic.event_channel().unwrap();
    assert!(matches!(nic.event_channel(), Err(Error::InUse { objects: 1 })));
    drop(channel);
    let channel = nic.event_channel().unwrap();
    let (other, _) = open(&network);
    let refused = other.completion_queue_with_events(8, &channel).unwrap_err();
    assert!(matches!(refused, Error::Mismatched { .. }), "{refused}");
}

#[test]
fn events_of_a_bcm57608_queue_that_is_gone_are_passed_over() {
    let network = Network::stepped(0);
    let mut rig = Rig::new(&network);
    for _ in 0..600 {
        // More than the notification ring holds.
        let mut queue = rig.nic.completion_queue_with_events(8, &rig.channel).unwrap();
        let pair = rig.nic.queue_pair(&queue).sends(1).receives(0).create().unwrap();
        let itself = pair.endpoint();
        let mut pair = pair.connect(PeerRights::WRITE, &itself, &Connection::default()).unwrap();
        let piece = rig.memory.slice(0..8).unwrap();
        let request = wr::write(piece, rig.memory.remote().slice(8..16).unwrap()).unwrap();
        pair.sends().post(request.signaled()).unwrap();
        pair.sends().ring();
        queue.arm();
        network.run_until_idle(100_000);
        pair.destroy().unwrap();
        queue.destroy().unwrap();
    }
    assert_eq!(rig.wait(Duration::ZERO), NONE);
    rig.received.arm();
    rig.receive();
    rig.send(false);
    assert_eq!(rig.wait(PATIENCE), ["received"]);
    assert_eq!(rig.control.counters().overruns, 0, "{:?}", rig.control.take_log());
}

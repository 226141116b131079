//! The driver's events on the virtual NIC: no wake-up is lost, free or stepped.

use doorbell::completion::Completion;
use doorbell::mlx5::{Connection, Event, Nic, Notified, Order, PeerRights, access};
use doorbell::wr;
use doorbell_hal::uverbs::Uverbs;
use doorbell_model::connectx::Network;
use doorbell_model::{VirtualConnectx, WatchedConnectx};
use std::time::Duration;

/// Sends messages one by one; each is waited for by arming, polling, and waiting for the event.
fn exchange<V: Uverbs>(network: &Network, open: impl Fn() -> V, rounds: u64) {
    let (nic_a, nic_b) = (Nic::open(open()).unwrap(), Nic::open(open()).unwrap());
    let cq_a = nic_a.completion_queue(64).unwrap();
    let mut channel = nic_b.event_channel().unwrap();
    let mut cq_b: doorbell::mlx5::CompletionQueue<V, Notified> =
        nic_b.completion_queue_with_events(64, &channel).unwrap();
    let a = nic_a.queue_pair(&cq_a).sends(32).receives(4).create().unwrap();
    let b = nic_b.queue_pair(&cq_b).sends(4).receives(32).create().unwrap();
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let connection = Connection::default();
    let mut a = a.connect(PeerRights::NONE, &to_b, &connection).unwrap();
    let mut b = b.connect(PeerRights::NONE, &to_a, &connection).unwrap();
    let source = nic_a.region::<access::Local>(64, Order::InOrder).unwrap();
    let target = nic_b.region::<access::Local>(64, Order::InOrder).unwrap();
    let mut cq_a = cq_a;
    for round in 0..rounds {
        b.receives().post(wr::receive(target.slice(0..64).unwrap()).id(round)).unwrap();
        b.receives().ring();
        cq_b.arm();
        a.sends().post(wr::send(source.slice(0..64).unwrap()).signaled()).unwrap();
        a.sends().ring();
        if !network.is_free() {
            assert!(network.run_until_idle(100_000));
        }
        let events = channel.wait(Duration::from_secs(60)).unwrap();
        assert_eq!(events.len(), 1, "round {round}: {events:?}");
        assert!(matches!(events[0], Event::Completion(id) if id == cq_b.id()), "{events:?}");
        match cq_b.poll() {
            Some(Completion::Received(received)) => assert_eq!(received.id, round),
            other => panic!("round {round}: {other:?}"),
        }
        while cq_a.poll().is_none() {
            std::thread::yield_now();
        }
    }
}

#[test]
fn no_wake_up_is_lost_on_a_free_network() {
    let network = Network::free();
    exchange(&network, || VirtualConnectx::builder().network(&network).open(), 2000);
}

#[test]
fn no_wake_up_is_lost_on_a_stepped_network() {
    for seed in 0..10 {
        let network = Network::stepped(seed);
        exchange(&network, || VirtualConnectx::builder().network(&network).open(), 50);
    }
}

#[test]
fn no_wake_up_is_lost_through_register_pages_that_are_memory() {
    let network = Network::free();
    let open = || WatchedConnectx::new(VirtualConnectx::builder().network(&network).open());
    exchange(&network, open, 200);
}

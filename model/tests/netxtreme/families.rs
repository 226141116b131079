//! A queue pair of the virtual BCM57608 connected to one of the virtual ConnectX.

use doorbell::completion::{Arrival, Completion};
use doorbell::connection::{Connection, PeerRights};
use doorbell::mlx5::Order;
use doorbell::{access, bnxt, mlx5, wr};
use doorbell_model::network::Network;
use doorbell_model::{VirtualConnectx, VirtualNetxtreme};

/// Steps, and polls after each few of them, until there is a completion.
fn next(network: &Network, mut poll: impl FnMut() -> Option<Completion>) -> Completion {
    for _ in 0..100_000 {
        if let Some(completion) = poll() {
            return completion;
        }
        network.run_until_idle(10);
    }
    panic!("nothing completes: {}", network.trace());
}

#[test]
fn families_send_write_and_read_both_ways() {
    let network = Network::stepped(5);
    let function = VirtualNetxtreme::builder().network(&network).open();
    let watch = function.watch();
    let broadcom = bnxt::Nic::open(function).unwrap();
    let file = VirtualConnectx::builder().network(&network).open();
    let mellanox = mlx5::Nic::open(file).unwrap();

    const LEN: usize = 3 * 4096 + 77;
    let ours = broadcom.region::<access::RemoteReadWrite>(LEN).unwrap();
    let theirs = mellanox.region::<access::RemoteReadWrite>(LEN, Order::InOrder).unwrap();
    let mut our_completions = broadcom.completion_queue(256).unwrap();
    let mut their_completions = mellanox.completion_queue(256).unwrap();
    let here = broadcom.queue_pair(&our_completions).receives(16).create().unwrap();
    let there = mellanox.queue_pair(&their_completions).receives(16).create().unwrap();
    let (to_here, to_there) = (here.endpoint(), there.endpoint());
    let rights = PeerRights::WRITE | PeerRights::READ;
    let mut here = here.connect(rights, &to_there, &Connection::default()).unwrap();
    let mut there = there.connect(rights, &to_here, &Connection::default()).unwrap();

    // Sends.
    let bytes: Vec<u8> = (0..LEN).map(|at| (at * 7) as u8).collect();
    ours.write_at(0, &bytes).unwrap();
    there.receives().post(wr::receive(theirs.slice(0..LEN).unwrap()).id(1)).unwrap();
    there.receives().ring();
    here.sends().post(wr::send(ours.slice(0..LEN).unwrap()).id(2).signaled()).unwrap();
    here.sends().ring();
    let received = next(&network, || their_completions.poll());
    assert!(
        matches!(received, Completion::Received(r) if r.id == 1 && r.len == LEN as u32 && r.by == Arrival::Send),
        "{received:?}"
    );
    let sent = next(&network, || our_completions.poll());
    assert!(matches!(sent, Completion::Sent(sent) if sent.id == 2), "{sent:?}");
    let mut arrived = vec![0; LEN];
    theirs.read_at(0, &mut arrived).unwrap();
    assert_eq!(arrived, bytes);

    here.receives().post(wr::receive(ours.slice(0..100).unwrap()).id(3)).unwrap();
    here.receives().ring();
    let request = wr::send_immediate(theirs.slice(50..150).unwrap(), 0x1234_5678);
    there.sends().post(request.id(4).signaled()).unwrap();
    there.sends().ring();
    let received = next(&network, || our_completions.poll());
    assert!(
        matches!(received, Completion::Received(r) if r.id == 3 && r.len == 100
            && r.by == Arrival::SendImmediate(0x1234_5678)),
        "{received:?}"
    );
    let sent = next(&network, || their_completions.poll());
    assert!(matches!(sent, Completion::Sent(sent) if sent.id == 4), "{sent:?}");
    ours.read_at(0, &mut arrived[..100]).unwrap();
    assert_eq!(arrived[..100], bytes[50..150]);

    // Writes: ours to theirs, then theirs to ours.
    let fresh: Vec<u8> = (0..LEN).map(|at| (at * 13 + 1) as u8).collect();
    ours.write_at(0, &fresh).unwrap();
    let request = wr::write(ours.slice(0..LEN).unwrap(), theirs.remote()).unwrap();
    here.sends().post(request.id(5).signaled()).unwrap();
    here.sends().ring();
    let sent = next(&network, || our_completions.poll());
    assert!(matches!(sent, Completion::Sent(sent) if sent.id == 5), "{sent:?}");
    theirs.read_at(0, &mut arrived).unwrap();
    assert_eq!(arrived, fresh);
    theirs.write_at(0, &bytes).unwrap();
    let request = wr::write(theirs.slice(0..LEN).unwrap(), ours.remote()).unwrap();
    there.sends().post(request.id(6).signaled()).unwrap();
    there.sends().ring();
    let sent = next(&network, || their_completions.poll());
    assert!(matches!(sent, Completion::Sent(sent) if sent.id == 6), "{sent:?}");
    ours.read_at(0, &mut arrived).unwrap();
    assert_eq!(arrived, bytes);

    // Reads.
    theirs.write_at(0, &fresh).unwrap();
    let request = wr::read(ours.slice(0..LEN).unwrap(), theirs.remote()).unwrap();
    here.sends().post(request.id(7).signaled()).unwrap();
    here.sends().ring();
    let sent = next(&network, || our_completions.poll());
    assert!(matches!(sent, Completion::Sent(sent) if sent.id == 7), "{sent:?}");
    ours.read_at(0, &mut arrived).unwrap();
    assert_eq!(arrived, fresh);
    ours.write_at(0, &bytes).unwrap();
    let request = wr::read(theirs.slice(0..LEN).unwrap(), ours.remote()).unwrap();
    there.sends().post(request.id(8).signaled()).unwrap();
    there.sends().ring();
    let sent = next(&network, || their_completions.poll());
    assert!(matches!(sent, Completion::Sent(sent) if sent.id == 8), "{sent:?}");
    theirs.read_at(0, &mut arrived).unwrap();
    assert_eq!(arrived, bytes);

    let counters = watch.counters();
    assert_eq!((counters.wrong_message_table, counters.stray_doorbells), (0, 0));
}

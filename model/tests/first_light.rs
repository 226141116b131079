//! The driver on the virtual NIC: two queue pairs exchange work requests.

use doorbell::completion::{Arrival, Completion, Status};
use doorbell::endpoint::Endpoint;
use doorbell::mlx5::{Connection, Nic, Order, PeerRights, access};
use doorbell::wr;
use doorbell_hal::Errno;
use doorbell_model::connectx::Network;
use doorbell_model::{VirtualConnectx, WatchedConnectx};

type Cq = doorbell::mlx5::CompletionQueue<VirtualConnectx>;
type Qp = doorbell::mlx5::QueuePair<doorbell::state::Rts, VirtualConnectx>;

struct End {
    nic: Nic<VirtualConnectx>,
    cq: Cq,
    qp: Qp,
}

/// Two connected queue pairs, each on a NIC of its own.
fn pair(network: &Network) -> [End; 2] {
    let make = || {
        let nic = Nic::open(VirtualConnectx::builder().network(network).open()).unwrap();
        let cq = nic.completion_queue(64).unwrap();
        let qp = nic.queue_pair(&cq).sends(32).receives(16).create().unwrap();
        (nic, cq, qp)
    };
    let (a, b) = (make(), make());
    let (to_a, to_b) = (a.2.endpoint(), b.2.endpoint());
    let rights = PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC;
    let connection = Connection::default();
    let connect = |(nic, cq, qp): (_, _, doorbell::mlx5::QueuePair<_, _>), peer| End {
        nic,
        cq,
        qp: qp.connect(rights, peer, &connection).unwrap(),
    };
    [connect(a, &to_b), connect(b, &to_a)]
}

/// The next completion, on a network that runs by itself.
fn wait(cq: &mut Cq) -> Completion {
    loop {
        if let Some(completion) = cq.poll() {
            return completion;
        }
        std::hint::spin_loop();
    }
}

#[test]
fn a_write_moves_its_bytes_on_a_free_network() {
    let [mut a, b] = pair(&Network::free());
    let source = a.nic.region::<access::Local>(4096, Order::InOrder).unwrap();
    let target = b.nic.region::<access::RemoteAtomic>(4096, Order::InOrder).unwrap();
    source.write_at(0, b"first light").unwrap();
    let request = wr::write(source.slice(0..11).unwrap(), target.remote()).unwrap();
    a.qp.sends().post(request.id(7).signaled()).unwrap();
    a.qp.sends().ring();
    let Completion::Sent(sent) = wait(&mut a.cq) else { panic!("the write failed") };
    assert_eq!(sent.id, 7);
    let mut bytes = [0; 11];
    target.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"first light");
}

#[test]
fn every_operation_works_on_a_stepped_network() {
    for seed in 0..20 {
        let network = Network::stepped(seed);
        let [mut a, mut b] = pair(&network);
        let source = a.nic.region::<access::Local>(8192, Order::InOrder).unwrap();
        let target = b.nic.region::<access::RemoteAtomic>(8192, Order::InOrder).unwrap();
        let text: Vec<u8> = (0..6000).map(|at| (at * 7) as u8).collect();
        source.write_at(0, &text).unwrap();
        let remote = target.remote();
        let piece = |range| source.slice(range).unwrap();

        b.qp.receives().post(wr::receive(target.slice(6000..8000).unwrap()).id(100)).unwrap();
        b.qp.receives().post(wr::receive(target.slice(0..0).unwrap()).id(101)).unwrap();
        b.qp.receives().ring();

        let sends = a.qp.sends();
        sends.post(wr::write(piece(0..6000), remote).unwrap().id(1).signaled()).unwrap();
        sends.post(wr::send(piece(0..1000)).id(2).signaled()).unwrap();
        sends.post(wr::write_immediate(piece(0..8), remote, 0xfeed).unwrap().id(3)).unwrap();
        let at = remote.slice(4096..4104).unwrap();
        sends.post(wr::fetch_add(piece(8000..8008), at, 5).unwrap().id(4).signaled()).unwrap();
        sends
            .post(
                wr::read(piece(7000..7100), remote.slice(0..100).unwrap())
                    .unwrap()
                    .id(5)
                    .signaled(),
            )
            .unwrap();
        sends.ring();
        assert!(network.run_until_idle(100_000), "seed {seed}");

        for id in [1, 2, 4, 5] {
            match a.cq.poll() {
                Some(Completion::Sent(sent)) => assert_eq!(sent.id, id, "seed {seed}"),
                other => panic!("seed {seed}: {other:?}\n{}", network.trace()),
            }
        }
        assert_eq!(a.cq.poll(), None);
        let Some(Completion::Received(first)) = b.cq.poll() else { panic!("seed {seed}") };
        assert_eq!((first.id, first.len), (100, 1000));
        let Some(Completion::Received(second)) = b.cq.poll() else { panic!("seed {seed}") };
        assert_eq!(second.by, Arrival::WriteImmediate(0xfeed));
        let mut bytes = vec![0; 6000];
        target.read_at(0, &mut bytes).unwrap();
        let mut number = [0; 8];
        source.read_at(8000, &mut number).unwrap();
        assert_eq!(number[..], text[4096..4104]);
        let sum = u64::from_ne_bytes(number).wrapping_add(5).to_ne_bytes();
        assert_eq!(bytes[4096..4104], sum);
        let mut read = [0; 100];
        source.read_at(7000, &mut read).unwrap();
        assert_eq!(read[..], text[..100]);
    }
}

#[test]
fn a_write_that_the_peer_does_not_allow_fails_with_remote_access_and_the_rest_is_flushed() {
    let network = Network::stepped(1);
    let [mut a, b] = pair(&network);
    let source = a.nic.region::<access::Local>(4096, Order::InOrder).unwrap();
    let target = b.nic.region::<access::RemoteRead>(4096, Order::InOrder).unwrap();
    for id in 0..3 {
        let request = wr::write(source.slice(0..8).unwrap(), target.remote()).unwrap();
        a.qp.sends().post(request.id(id)).unwrap();
    }
    a.qp.sends().ring();
    assert!(network.run_until_idle(10_000));
    let statuses: Vec<_> = std::iter::from_fn(|| a.cq.poll())
        .map(|completion| match completion {
            Completion::Failed(failed) => (failed.id, failed.status),
            other => panic!("{other:?}"),
        })
        .collect();
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(statuses, [(0, Status::RemoteAccess), (1, flushed), (2, flushed)]);
}

#[test]
fn register_pages_that_are_memory_work_free_and_stepped() {
    for network in [Network::free(), Network::stepped(5)] {
        let make = || {
            let file = VirtualConnectx::builder().network(&network).open();
            let nic = Nic::open(WatchedConnectx::new(file)).unwrap();
            let cq = nic.completion_queue(64).unwrap();
            let qp = nic.queue_pair(&cq).sends(32).receives(16).create().unwrap();
            (nic, cq, qp)
        };
        let ((nic_a, mut cq, a), (nic_b, _cq_b, b)) = (make(), make());
        let (to_a, to_b) = (a.endpoint(), b.endpoint());
        let connection = Connection::default();
        let mut a = a.connect(PeerRights::WRITE, &to_b, &connection).unwrap();
        let _b = b.connect(PeerRights::WRITE, &to_a, &connection).unwrap();
        let source = nic_a.region::<access::Local>(4096, Order::InOrder).unwrap();
        let target = nic_b.region::<access::RemoteWrite>(4096, Order::InOrder).unwrap();
        for round in 0..100 {
            source.write_at(0, &[round as u8; 64]).unwrap();
            let request = wr::write(source.slice(0..64).unwrap(), target.remote()).unwrap();
            a.sends().post(request.id(round).signaled()).unwrap();
            a.sends().ring();
            let completion = loop {
                if !network.is_free() {
                    network.step();
                }
                if let Some(completion) = cq.poll() {
                    break completion;
                }
                std::thread::yield_now();
            };
            assert!(matches!(completion, Completion::Sent(sent) if sent.id == round));
            let mut bytes = [0; 64];
            target.read_at(0, &mut bytes).unwrap();
            assert_eq!(bytes, [round as u8; 64]);
        }
    }
}

#[test]
fn a_shortest_timeout_is_waited_for_whatever_a_queue_pair_asks() {
    let given_up_after = |least| {
        let network = Network::stepped(1);
        let open = || {
            let file = VirtualConnectx::builder().network(&network).least_timeout(least).open();
            let control = file.control();
            (Nic::open(file).unwrap(), control)
        };
        let ((a, _), (b, lost)) = (open(), open());
        let mut cq = a.completion_queue(16).unwrap();
        let far_cq = b.completion_queue(16).unwrap();
        let near = a.queue_pair(&cq).sends(16).create().unwrap();
        let far = b.queue_pair(&far_cq).sends(16).create().unwrap();
        let connection = Connection::default();
        let mut near = near.connect(PeerRights::NONE, &far.endpoint(), &connection).unwrap();
        assert!(network.isolate(lost.nic(), true));
        near.sends().post(wr::send(wr::Nothing)).unwrap();
        near.sends().ring();
        assert!(network.run_until_idle(100_000));
        let Some(Completion::Failed(failed)) = cq.poll() else { panic!("nobody answered") };
        assert_eq!(failed.status, Status::TransportRetryExceeded);
        network.now()
    };
    // Eight waits of 4.096 us * 2^18 at least.
    assert!(given_up_after(18) >= 8 * (4096 << 18));
    assert!(given_up_after(0) < 8 * (4096 << 18));
}

/// Everything that a driver does with the kernel.
fn whole_life(file: VirtualConnectx, peer: &Endpoint) -> Result<(), doorbell::error::Error> {
    let nic = Nic::open(file)?;
    let channel = nic.event_channel()?;
    let cq = nic.completion_queue_with_events(16, &channel)?;
    let region = nic.region::<access::RemoteReadWrite>(8192, Order::InOrder)?;
    let pair = nic.queue_pair(&cq).sends(16).receives(8).write_combining().create()?;
    let connection = Connection::default();
    let pair = pair.connect(PeerRights::WRITE, peer, &connection).map_err(|r| r.error)?;
    let pair = pair.fail().map_err(|r| r.error)?;
    pair.destroy().map_err(|r| r.error)?;
    region.deregister().map_err(|r| r.error)?;
    cq.destroy().map_err(|r| r.error)?;
    drop(channel);
    nic.close().map_err(|r| r.error)
}

#[test]
fn whichever_call_the_kernel_refuses_nothing_is_left_behind() {
    let network = Network::stepped(3);
    let peer = {
        let nic = Nic::open(VirtualConnectx::builder().network(&network).open()).unwrap();
        let cq = nic.completion_queue(16).unwrap();
        nic.queue_pair(&cq).sends(16).create().unwrap().endpoint()
    };
    for call in 1.. {
        let file = VirtualConnectx::builder().network(&network).open();
        let control = file.control();
        control.refuse_call(call, Errno::ENOMEM);
        let result = whole_life(file, &peer);
        let objects = control.objects();
        assert_eq!(objects.total(), 0, "call {call}, {:?}: {objects:?}", control.calls().last());
        control.network().with_nic(control.nic(), |nic, _, _| {
            assert_eq!(nic.objects(), [0; 5], "call {call}");
        });
        if control.withdraw_refusal() {
            result.unwrap();
            assert!(call > 20, "only {call} calls were made: {:?}", control.calls());
            break;
        }
    }
}

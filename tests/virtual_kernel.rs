//! What a kernel and a port can be like: ports that are down or have no address, limits, kernels that
//! will not give things back. On virtual NICs, which can be made so.

mod device;

use device::{End, Options, failed, next, sent};
use doorbell::completion::{Completion, Status};
use doorbell::endpoint::{Endpoint, LinkLayer, Mtu};
use doorbell::error::Error;
use doorbell::mlx5::access::{Local, RemoteReadWrite};
use doorbell::mlx5::{Connection, Nic, Order, PeerRights, Region};
use doorbell::wr::{self, Inline};
use doorbell_hal::Errno;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_model::VirtualConnectx;
use doorbell_model::connectx::{Capabilities, Network};
use doorbell_model::kernel::{Builder, Control, Gid, GidKind, LinkLayer as Layer, Objects};

fn builder(network: &Network) -> Builder {
    VirtualConnectx::builder().network(network)
}

/// Opens a NIC that must not open.
fn refusal(builder: Builder) -> Error {
    let file = builder.open();
    let control = file.control();
    let error = Nic::open(file).expect_err("it was opened");
    assert_eq!(control.objects(), Objects::default(), "left behind by {error}");
    error
}

fn v2(raw: [u8; 16]) -> Option<Gid> {
    Some(Gid { raw, kind: GidKind::RoceV2 })
}

const LINK_LOCAL: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 9];
const GLOBAL: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
const IPV4: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 9, 0, 77];

#[test]
fn a_port_that_is_down_is_not_opened() {
    let error = refusal(builder(&Network::stepped(1)).down());
    assert!(matches!(&error, Error::PortNotActive { state: "Down", .. }), "{error}");
    assert_eq!(error.to_string(), "virtual-connectx: port 1 is not active but Down");
}

#[test]
fn an_ethernet_port_without_a_roce_v2_identifier_is_not_opened() {
    let v1_only = vec![Some(Gid { raw: IPV4, kind: GidKind::RoceV1 }), None];
    for gids in [vec![], vec![None, None], v1_only] {
        let error = refusal(builder(&Network::stepped(1)).gids(gids));
        assert!(matches!(&error, Error::NoRoceV2Identifier { .. }), "{error}");
        assert!(error.to_string().contains("no RoCE v2 global identifier"), "{error}");
    }
}

#[test]
fn connections_use_an_ipv4_identifier_else_a_global_one_else_a_link_local_one() {
    let v1 = |raw| Some(Gid { raw, kind: GidKind::RoceV1 });
    let tables = [
        (vec![v1(IPV4), v2(LINK_LOCAL), v1(GLOBAL), v2(GLOBAL), None, v2(IPV4)], IPV4),
        (vec![v1(IPV4), v2(LINK_LOCAL), None, v2(GLOBAL)], GLOBAL),
        (vec![v1(IPV4), None, v2(LINK_LOCAL)], LINK_LOCAL),
    ];
    for (gids, expected) in tables {
        let network = Network::free();
        let nic = Nic::open(builder(&network).gids(gids).open()).unwrap();
        assert_eq!(nic.gid(), expected);
        // And they work with it, as its own peer.
        let mut cq = nic.completion_queue(8).unwrap();
        let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        let peer = qp.endpoint();
        assert_eq!(peer.gid(), expected);
        let mut qp = qp.connect(PeerRights::WRITE, &peer, &Connection::default()).unwrap();
        let region: Region<RemoteReadWrite, _> = nic.region(64, Order::InOrder).unwrap();
        qp.sends().post(wr::write(Inline([1]), region.remote()).unwrap().signaled()).unwrap();
        qp.sends().ring();
        sent(&mut cq);
    }
}

#[test]
fn an_ipv6_port_is_opened_and_does_not_reach_an_ipv4_one() {
    let network = Network::stepped(1);
    let six = Nic::open(builder(&network).gids(vec![v2(GLOBAL)]).open()).unwrap();
    let four = Nic::open(builder(&network).address(Some([10, 1, 1, 1].into())).open());
    let ends = [six, four.unwrap()].map(|nic| {
        let cq = nic.completion_queue(8).unwrap();
        let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        (nic, cq, qp)
    });
    let peer = ends[1].2.endpoint();
    let [(_, _cq, qp), _] = ends;
    let refused = qp.connect(PeerRights::NONE, &peer, &Connection::default()).err().unwrap();
    assert!(matches!(refused.error, Error::Unreachable { .. }), "{}", refused.error);
}

#[test]
fn an_infiniband_port_is_reached_by_its_local_identifier() {
    let network = Network::free();
    let ends = [7, 9].map(|lid| {
        let file = builder(&network).link_layer(Layer::InfiniBand).lid(lid).open();
        let nic = Nic::open(file).unwrap();
        assert_eq!(nic.link(), LinkLayer::InfiniBand);
        let cq = nic.completion_queue(16).unwrap();
        let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        assert_eq!(qp.endpoint().lid(), lid);
        (nic, cq, qp)
    });
    let peers = [ends[1].2.endpoint(), ends[0].2.endpoint()];
    let [mut a, b] = {
        let mut peers = peers.iter();
        ends.map(|(nic, cq, qp)| {
            let peer = peers.next().unwrap();
            (nic, cq, qp.connect(PeerRights::WRITE, peer, &Connection::default()).unwrap())
        })
    };
    let region: Region<RemoteReadWrite, _> = b.0.region(64, Order::InOrder).unwrap();
    a.2.sends().post(wr::write(Inline(*b"lid"), region.remote()).unwrap().signaled()).unwrap();
    a.2.sends().ring();
    sent(&mut a.1);
    let mut bytes = [0; 3];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"lid");
}

#[test]
fn two_ports_of_different_mtu_talk_in_packets_of_the_smaller() {
    let network = Network::free();
    let open = |mtu| Nic::open(builder(&network).mtu(mtu).open()).unwrap();
    let (small, large) =
        (open(doorbell_model::rc::Mtu::B512), open(doorbell_model::rc::Mtu::B4096));
    assert_eq!((small.mtu(), large.mtu()), (Mtu::B512, Mtu::B4096));
    let control = large.verbs().control();
    let mut cq = large.completion_queue(8).unwrap();
    let far = small.completion_queue(8).unwrap();
    let a = large.queue_pair(&cq).sends(4).create().unwrap();
    let b = small.queue_pair(&far).sends(4).create().unwrap();
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let mut a = a.connect(PeerRights::WRITE, &to_b, &Connection::default()).unwrap();
    let _b = b.connect(PeerRights::WRITE, &to_a, &Connection::default()).unwrap();
    let from: Region<Local, _> = large.region(5120, Order::InOrder).unwrap();
    let to: Region<RemoteReadWrite, _> = small.region(5120, Order::InOrder).unwrap();
    let before = control.counters().packets_sent;
    let request = wr::write(from.slice(0..5120).unwrap(), to.remote()).unwrap();
    a.sends().post(request.signaled()).unwrap();
    a.sends().ring();
    sent(&mut cq);
    assert_eq!(control.counters().packets_sent - before, 10);
}

#[test]
fn memory_past_what_may_be_locked_is_refused_with_the_reason() {
    let file = builder(&Network::stepped(1)).locked_memory(64 << 10).open();
    let nic = Nic::open(file).unwrap();
    let error = nic.region::<Local>(1 << 20, Order::InOrder).unwrap_err();
    assert!(error.to_string().contains("refused REG_MR"), "{error}");
    assert!(error.to_string().contains("RLIMIT_MEMLOCK"), "{error}");
    nic.region::<Local>(4096, Order::InOrder).unwrap();
}

#[test]
fn a_small_nics_bounds_are_the_bounds() {
    let capabilities = Capabilities {
        log_max_ring: 6,
        log_max_completion_ring: 5,
        log_max_message: 20,
        ..Capabilities::default()
    };
    let nic = Nic::open(builder(&Network::stepped(1)).capabilities(capabilities).open()).unwrap();
    assert_eq!((nic.max_sends(), nic.max_receives()), (64, 64));
    assert_eq!(nic.max_message(), 1 << 20);
    let most = nic.max_completions();
    assert!((16..=32).contains(&most), "{most}");
    assert!(nic.completion_queue(most + 1).is_err());
    let cq = nic.completion_queue(most).unwrap();
    let error = nic.queue_pair(&cq).sends(65).create().err().unwrap();
    assert_eq!(error.to_string(), "the number of send slots is 65, and must be from 0 to 64");
    nic.queue_pair(&cq).sends(64).receives(64).overcommit().create().unwrap();
    let region: Region<Local, _> = nic.region(2 << 20, Order::InOrder).unwrap();
    assert!(region.slice(0..(1 << 20) + 1).is_err());
    assert_eq!(region.slice(7..(1 << 20) + 7).unwrap().len(), 1 << 20);
}

#[test]
fn a_machine_that_combines_no_writes_refuses_only_such_registers() {
    let capabilities = Capabilities { blue_flame: false, ..Capabilities::default() };
    let nic = Nic::open(builder(&Network::stepped(1)).capabilities(capabilities).open()).unwrap();
    let cq = nic.completion_queue(64).unwrap();
    let error = nic.queue_pair(&cq).sends(4).write_combining().create().err().unwrap();
    assert!(matches!(error, Error::Refused { call: "UAR_OBJ_ALLOC", .. }), "{error}");
    nic.queue_pair(&cq).sends(4).create().unwrap();
}

/// An end of a connection whose objects its kernel refuses to give back.
fn stubborn() -> (Control, [End<VirtualConnectx>; 2]) {
    let device = device::free();
    let ends = device::pair_of(&device, &Options::default());
    (ends[0].nic.verbs().control(), ends)
}

#[test]
fn a_queue_pair_that_the_kernel_keeps_keeps_its_memory_until_the_file_closes() {
    let (control, [a, _b]) = stubborn();
    let before = control.objects();
    control.refuse_call(1, Errno::EBUSY);
    drop(a.qp);
    assert!(!control.withdraw_refusal());
    let after = control.objects();
    assert_eq!(after.queue_pairs, 1);
    assert_eq!(after.allocations, before.allocations, "its rings are still the NIC's");
    // Its register, record and index are not given to others.
    let others: Vec<_> =
        (0..80).map(|_| a.nic.queue_pair(&a.cq).sends(4).overcommit().create().unwrap()).collect();
    assert!(others.iter().all(|other| other.index().get() != 0));
    drop(others);
    // The completion queue is still in use by it, to the kernel.
    drop(a.cq);
    let kept = control.objects();
    assert_eq!((kept.queue_pairs, kept.completion_queues), (1, 1));
    drop((a.memory, a.nic));
    assert_eq!(control.objects(), Objects::default());
}

#[test]
fn a_write_combining_register_that_the_kernel_keeps_is_not_lent_again() {
    let device = device::free();
    let [a, _b] = device::pair_of::<_, WriteCombining>(&device, &Options::default());
    let control = a.nic.verbs().control();
    let make = || a.nic.queue_pair(&a.cq).sends(4).overcommit().write_combining().create();
    let second = make().unwrap();
    let pages = control.objects().register_pages;
    control.refuse_call(1, Errno::EBUSY);
    drop(a.qp);
    assert!(!control.withdraw_refusal());
    drop(second);
    // A page has two: one is free again, and the kept one makes a third need another page.
    let third = make().unwrap();
    assert_eq!(control.objects().register_pages, pages);
    let fourth = make().unwrap();
    assert_eq!(control.objects().register_pages, pages + 1);
    drop((third, fourth));
}

#[test]
fn a_completion_queue_that_the_kernel_keeps_keeps_its_memory_until_the_file_closes() {
    let network = Network::stepped(1);
    let nic = Nic::open(builder(&network).open()).unwrap();
    let control = nic.verbs().control();
    let cq = nic.completion_queue(64).unwrap();
    let before = control.objects();
    control.refuse_call(1, Errno::EIO);
    drop(cq);
    assert_eq!(control.objects(), before);
    nic.close().unwrap();
    assert_eq!(control.objects(), Objects::default());
}

#[test]
fn a_region_that_the_kernel_keeps_keeps_its_memory_until_the_file_closes() {
    let (control, [mut a, b]) = stubborn();
    let there = b.nic.verbs().control();
    let region: Region<RemoteReadWrite, _> = b.nic.region(4096, Order::InOrder).unwrap();
    let remote = region.remote();
    let before = there.objects();
    there.refuse_call(1, Errno::EIO);
    drop(region);
    assert_eq!(there.objects(), before);
    // A peer may still write it, as the key is still good: into memory that is nobody else's.
    a.post(wr::write(Inline([1; 64]), remote).unwrap().signaled());
    sent(&mut a.cq);
    drop((b.qp, b.cq, b.memory, b.nic));
    assert_eq!(there.objects(), Objects::default());
    drop(a);
    assert_eq!(control.objects(), Objects::default());
}

#[test]
fn an_object_that_was_given_back_once_is_destroyed_at_the_next_try() {
    let (control, [a, _b]) = stubborn();
    control.refuse_call(1, Errno::EBUSY);
    let refused = a.qp.destroy().err().unwrap();
    assert!(refused.error.to_string().contains("refused DESTROY_QP"), "{}", refused.error);
    let mut qp = refused.object;
    // It works as before.
    let mut cq = a.cq;
    let request = wr::write(Inline([1; 8]), _b.memory.remote()).unwrap();
    qp.sends().post(request.signaled()).unwrap();
    qp.sends().ring();
    sent(&mut cq);
    qp.destroy().unwrap();
    control.refuse_call(1, Errno::EBUSY);
    cq.destroy().err().unwrap().object.destroy().unwrap();
    control.refuse_call(1, Errno::EBUSY);
    a.memory.deregister().err().unwrap().object.deregister().unwrap();
}

#[test]
fn a_queue_pair_that_cannot_even_be_reset_is_destroyed() {
    let device = device::free();
    let [a, b] = device::ends::<_, Uncached>(&device, &Options::default());
    let control = a.nic.verbs().control();
    let peer: Endpoint = b.qp.endpoint();
    // The second call is to Rtr; then the NIC dies, and refuses the reset as well.
    control.refuse_call(2, Errno::EIO);
    let refused = a.qp.connect(PeerRights::NONE, &peer, &Connection::default()).err().unwrap();
    control.fail(doorbell_model::connectx::Death::Silent);
    let refused = refused.object.connect(PeerRights::NONE, &peer, &Connection::default());
    refused.err().unwrap().object.destroy().unwrap();
}

#[test]
fn a_send_that_invalidates_takes_the_key_away_where_the_nic_lets_it() {
    let network = Network::free();
    let open = || Nic::open(builder(&network).remote_invalidate().open()).unwrap();
    let (nic_a, nic_b) = (open(), open());
    let (mut cq_a, mut cq_b) =
        (nic_a.completion_queue(32).unwrap(), nic_b.completion_queue(32).unwrap());
    let a = nic_a.queue_pair(&cq_a).sends(4).receives(4).create().unwrap();
    let b = nic_b.queue_pair(&cq_b).sends(4).receives(4).create().unwrap();
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let rights = PeerRights::WRITE;
    let mut a = a.connect(rights, &to_b, &Connection::default()).unwrap();
    let mut b = b.connect(rights, &to_a, &Connection::default()).unwrap();
    let region: Region<RemoteReadWrite, _> = nic_b.region(4096, Order::InOrder).unwrap();
    let into: Region<Local, _> = nic_b.region(64, Order::InOrder).unwrap();
    b.receives().post(wr::receive(into.slice(0..64).unwrap()).id(8)).unwrap();
    b.receives().ring();
    let remote = region.remote();
    a.sends().post(wr::write(Inline([1; 8]), remote).unwrap()).unwrap();
    let request = wr::send_invalidate(Inline(*b"take it away"), remote.rkey());
    a.sends().post(request.solicited().fenced().id(3).signaled()).unwrap();
    a.sends().ring();
    assert_eq!(sent(&mut cq_a), 3);
    match next(&mut cq_b) {
        Completion::Received(received) => {
            let by = doorbell::completion::Arrival::SendInvalidate(remote.rkey());
            assert_eq!((received.id, received.len, received.by), (8, 12, by));
            assert!(received.solicited);
        }
        other => panic!("{other:?}"),
    }
    a.sends().post(wr::write(Inline([2; 8]), remote).unwrap().id(4)).unwrap();
    a.sends().ring();
    assert_eq!(failed(&mut cq_a).status, Status::RemoteAccess);
    let mut bytes = [0; 8];
    region.read_at(0, &mut bytes).unwrap();
    assert_eq!(bytes, [1; 8]);
    region.deregister().unwrap();
}

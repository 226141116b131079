//! What requests do.

use crate::device::{Options, PATIENCE, open, pair, pair_on, pattern};
use doorbell::access::{Local, RemoteRead};
use doorbell::bnxt::{Connection, Nic, PeerRights};
use doorbell::completion::{Arrival, Completion};
use doorbell::endpoint::{Endpoint, Mtu};
use doorbell::wr::{self, Inline, Nothing, PostError};
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;

#[test]
fn a_send_lands_in_the_next_receive() {
    let [mut a, mut b] = pair();
    let bytes = a.fill(100, 1000, 1);
    b.qp.receives().post(wr::receive(b.memory.slice(5..2000).unwrap()).id(7)).unwrap();
    b.qp.receives().ring();
    a.qp.sends().post(wr::send(a.memory.slice(100..1100).unwrap()).id(8).signaled()).unwrap();
    a.qp.sends().ring();
    let received = b.received();
    assert_eq!((received.id, received.len, received.by), (7, 1000, Arrival::Send));
    assert_eq!(a.sent().id, 8);
    assert_eq!(b.bytes(5..1005), bytes);
    assert_eq!(b.bytes(1005..2000), [0; 995]);
}

#[test]
fn endpoints_travel_as_bytes_and_carry_the_ethernet_address() {
    let [a, b] = pair();
    for end in [&a, &b] {
        let endpoint = Endpoint::from_bytes(&end.qp.endpoint().to_bytes()).unwrap();
        assert_eq!(endpoint, end.qp.endpoint());
        assert_eq!((endpoint.mac(), endpoint.gid()), (Some(end.nic.mac()), end.nic.gid()));
        assert_eq!(endpoint.queue_pair(), end.qp.number());
    }
    assert_ne!(a.nic.mac(), b.nic.mac());
}

#[test]
fn bytes_move_between_a_nics_own_regions_by_reads() {
    let (nic, _control) = open(&Network::free());
    let from = nic.region::<RemoteRead>(8192).unwrap();
    let to = nic.region::<Local>(8192).unwrap();
    let mut cq = nic.completion_queue(16).unwrap();
    let (a, b) = {
        let build = || nic.queue_pair(&cq).sends(8).create().unwrap();
        (build(), build())
    };
    let (to_a, to_b) = (a.endpoint(), b.endpoint());
    let connection = Connection::default();
    let mut a = a.connect(PeerRights::NONE, &to_b, &connection).unwrap();
    let _b = b.connect(PeerRights::READ, &to_a, &connection).unwrap();
    let bytes = pattern(8192, 3);
    from.write_at(0, &bytes).unwrap();
    let request = wr::read(to.slice(10..5010).unwrap(), from.remote().slice(1..5001).unwrap());
    a.sends().post(request.unwrap().id(1).signaled()).unwrap();
    a.sends().ring();
    assert!(matches!(cq.wait(PATIENCE), Some(Completion::Sent(sent)) if sent.id == 1));
    let mut read = vec![0; 5000];
    to.read_at(10, &mut read).unwrap();
    assert_eq!(read, bytes[1..5001]);
}

#[test]
fn writes_reads_and_atomics_do_what_they_say() {
    let [mut a, b] = pair();
    let bytes = a.fill(0, 5000, 2);
    let write = wr::write(a.piece(0..5000), b.remote(3..5003)).unwrap();
    a.qp.sends().post(write.id(1).signaled()).unwrap();
    a.qp.sends().ring();
    assert_eq!(a.sent().id, 1);
    assert_eq!(b.bytes(3..5003), bytes);

    let read = wr::read(a.piece(10_000..15_000), b.remote(3..5003)).unwrap();
    a.qp.sends().post(read.id(2).fenced().signaled()).unwrap();
    a.qp.sends().ring();
    assert_eq!(a.sent().id, 2);
    assert_eq!(a.bytes(10_000..15_000), bytes);

    assert!(a.nic.has_atomics());
    b.memory.write_at(64, &5u64.to_ne_bytes()).unwrap();
    let add = wr::fetch_add(a.piece(64..72), b.remote(64..72), 7).unwrap();
    a.qp.sends().post(add.id(3).signaled()).unwrap();
    a.qp.sends().ring();
    assert_eq!(a.sent().id, 3);
    assert_eq!(a.bytes(64..72), 5u64.to_ne_bytes());
    assert_eq!(b.bytes(64..72), 12u64.to_ne_bytes());
    for (compare, swap, before, after) in [(1, 100, 12u64, 12u64), (12, 100, 12, 100)] {
        let swap = wr::compare_swap(a.piece(64..72), b.remote(64..72), compare, swap).unwrap();
        a.qp.sends().post(swap.id(4).signaled()).unwrap();
        a.qp.sends().ring();
        assert_eq!(a.sent().id, 4);
        assert_eq!(a.bytes(64..72), before.to_ne_bytes());
        assert_eq!(b.bytes(64..72), after.to_ne_bytes());
    }
}

#[test]
fn immediates_arrive_as_they_were_sent() {
    let [mut a, mut b] = pair();
    for (number, immediate) in [0, 1, 0x0102_0304, u32::MAX].into_iter().enumerate() {
        for is_write in [false, true] {
            b.qp.receives().post(wr::receive(b.memory.slice(0..64).unwrap())).unwrap();
            b.qp.receives().ring();
            let len = 16 * number;
            if is_write {
                let to = b.memory.remote().slice(1000..1064).unwrap();
                let from = a.memory.slice(0..len).unwrap();
                let request = wr::write_immediate(from, to, immediate).unwrap();
                a.qp.sends().post(request.signaled()).unwrap();
            } else {
                let request = wr::send_immediate(a.memory.slice(0..len).unwrap(), immediate);
                a.qp.sends().post(request.solicited().signaled()).unwrap();
            }
            a.qp.sends().ring();
            let received = b.received();
            let by = match is_write {
                true => Arrival::WriteImmediate(immediate),
                false => Arrival::SendImmediate(immediate),
            };
            assert_eq!((received.by, received.len), (by, len as u32));
            a.sent();
        }
    }
}

#[test]
fn inline_bytes_can_be_reused_at_once_and_arrive_to_the_exact_capacity() {
    let [mut a, mut b] = pair();
    let mut bytes = pattern(4096, 5);
    let too_long = a.qp.sends().post(wr::send(Inline(&bytes[..]))).unwrap_err();
    let PostError::InlineTooLong { most, .. } = too_long else { panic!("{too_long}") };
    assert!(most >= 64, "{most}");
    for len in [0, 1, 15, 16, 17, 31, 32, 33, most as usize] {
        b.qp.receives().post(wr::receive(b.memory.slice(0..4096).unwrap())).unwrap();
        b.qp.receives().ring();
        let expected = bytes[..len].to_vec();
        a.qp.sends().post(wr::send(Inline(&bytes[..len])).signaled()).unwrap();
        bytes.rotate_left(7);
        a.qp.sends().ring();
        assert_eq!(b.received().len, len as u32);
        assert_eq!(b.bytes(0..len), expected);
        a.sent();
    }
    let longer = wr::write(Inline(&bytes[..most as usize + 1]), b.remote(0..4096)).unwrap();
    assert!(matches!(a.qp.sends().post(longer), Err(PostError::InlineTooLong { .. })));
}

#[test]
fn requests_gather_and_receives_scatter_any_number_of_pieces() {
    let options = Options {
        build: |builder| builder.sends(64).receives(16).receive_pieces(5),
        ..Options::default()
    };
    let [mut a, mut b] = pair_on(&Network::free(), &options);
    let bytes = a.fill(0, 4096, 6);
    for pieces in 0..=13 {
        let from: Vec<_> = (0..pieces).map(|k| a.piece(k * 100..k * 100 + 37)).collect();
        let expected: Vec<u8> =
            (0..pieces).flat_map(|k| bytes[k * 100..k * 100 + 37].to_vec()).collect();
        let into: Vec<_> = (0..5).map(|k| b.piece(k * 1000..k * 1000 + 100)).collect();
        b.qp.receives().post(wr::receive(&into[..])).unwrap();
        b.qp.receives().ring();
        a.qp.sends().post(wr::send(&from[..]).signaled()).unwrap();
        a.qp.sends().ring();
        assert_eq!(b.received().len as usize, expected.len());
        a.sent();
        let arrived: Vec<u8> = (0..5).flat_map(|k| b.bytes(k * 1000..k * 1000 + 100)).collect();
        assert_eq!(arrived[..expected.len()], expected, "{pieces} pieces");
    }
    let from = vec![a.piece(0..1); 14];
    let refused = a.qp.sends().post(wr::send(&from[..])).unwrap_err();
    assert_eq!(refused, PostError::TooManyPieces { given: 14, most: 13 });
    let into = [b.piece(0..1); 6];
    let refused = b.qp.receives().post(wr::receive(&into[..])).unwrap_err();
    assert_eq!(refused, PostError::TooManyPieces { given: 6, most: 5 });
}

#[test]
fn messages_of_no_bytes_arrive_in_receives_of_no_bytes() {
    let [mut a, mut b] = pair();
    b.qp.receives().post(wr::receive(Nothing).id(1)).unwrap();
    b.qp.receives().post(wr::receive(b.memory.slice(0..0).unwrap()).id(2)).unwrap();
    b.qp.receives().ring();
    a.qp.sends().post(wr::send(Nothing).signaled()).unwrap();
    a.qp.sends().post(wr::send(a.memory.slice(7..7).unwrap()).signaled()).unwrap();
    a.qp.sends().ring();
    for id in [1, 2] {
        let received = b.received();
        assert_eq!((received.id, received.len), (id, 0));
        a.sent();
    }
}

#[test]
fn messages_travel_in_packets_of_4096_bytes_or_of_as_many_as_the_connection_says() {
    for (max_mtu, bytes) in [(None, 4096), (Some(Mtu::B1024), 1024), (Some(Mtu::B256), 256)] {
        let connection = Connection { max_mtu, ..Connection::default() };
        let options = Options { connection, ..Options::default() };
        let [mut a, b] = pair_on(&Network::free(), &options);
        let packets =
            |control: &doorbell_model::pci::WatchedNetxtreme| control.counters().packets_sent;
        let before = packets(&a.control);
        let write = wr::write(a.piece(0..40_000), b.remote(0..40_000)).unwrap();
        a.qp.sends().post(write.signaled()).unwrap();
        a.qp.sends().ring();
        a.sent();
        assert_eq!(packets(&a.control) - before, 40_000u64.div_ceil(bytes), "{max_mtu:?}");
    }
}

#[test]
fn a_message_has_at_most_2_to_the_31_bytes() {
    // Pages of a table of small pages need a directory of more than one.
    let function = VirtualNetxtreme::builder().granule(2 << 20).open();
    let nic = Nic::open(function).unwrap();
    // Untouched memory takes none.
    let region = nic.region::<Local>((1 << 31) + 4096).unwrap();
    assert_eq!(region.slice(0..1 << 31).unwrap().len(), 1 << 31);
    assert!(region.slice(0..(1 << 31) + 1).is_err());
    let whole = region.slice(0..1 << 31).unwrap();
    let cq = nic.completion_queue(16).unwrap();
    let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
    let peer = qp.endpoint();
    let mut qp = qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap();
    let refused = qp.sends().post(wr::send([whole, region.slice(0..1).unwrap()])).unwrap_err();
    assert_eq!(refused, PostError::MessageTooLong { most: 1 << 31 });
}

#[test]
fn a_message_of_many_megabytes_arrives_whole() {
    const BYTES: usize = 48 << 20;
    let options = Options { bytes: BYTES + 1, ..Options::default() };
    let [mut a, b] = pair_on(&Network::free(), &options);
    let bytes = a.fill(1, BYTES, 8);
    let write = wr::write(a.piece(1..BYTES + 1), b.remote(0..BYTES as u64)).unwrap();
    a.qp.sends().post(write.signaled()).unwrap();
    a.qp.sends().ring();
    a.sent();
    assert!(b.bytes(0..BYTES) == bytes);
}

//! Endpoints: how two processes come to know of each other, and what each allows the other.

use crate::device::{
    End, Options, Verbs, connect, drain, ends, failed, next, on_any_device, pair_of, sent,
};
use doorbell::completion::{Completion, Status};
use doorbell::endpoint::{Endpoint, LinkLayer};
use doorbell::error::Error;
use doorbell::mlx5::{Connection, PeerRights};
use doorbell::wr;
use doorbell_hal::mmio::Uncached;
use std::collections::HashSet;

/// What becomes of a write, a read and an atomic by a peer that was given `rights`.
fn allowed<V: Verbs>(mut make: impl FnMut() -> [End<V>; 2]) -> [bool; 3] {
    [0, 1, 2].map(|what| {
        let [mut a, b] = make();
        let (piece, remote) = (a.piece(0..8), b.remote(0..8));
        match what {
            0 => a.post(wr::write(piece, remote).unwrap().signaled()),
            1 => a.post(wr::read(piece, remote).unwrap().signaled()),
            _ => a.post(wr::compare_swap(piece, remote, 0, 1).unwrap().signaled()),
        }
        match next(&mut a.cq) {
            Completion::Sent(_) => true,
            Completion::Failed(failed) => {
                // The specification lets a responder choose between the two.
                let refused = [Status::RemoteAccess, Status::RemoteInvalidRequest];
                assert!(refused.contains(&failed.status), "{failed}");
                false
            }
            other => panic!("{other:?}"),
        }
    })
}

on_any_device! {
    fn an_endpoint_travels_as_bytes<V>(device) {
        // Both ends know each other by nothing but 32 bytes.
        let options = Options::default();
        let [a, b] = ends::<V, Uncached>(device, &options);
        let (to_a, to_b) = (a.qp.endpoint().to_bytes(), b.qp.endpoint().to_bytes());
        let [to_a, to_b] = [to_a, to_b].map(|bytes| Endpoint::from_bytes(&bytes).unwrap());
        assert_eq!((to_a, to_b), (a.qp.endpoint(), b.qp.endpoint()));
        assert_eq!(to_a.queue_pair(), a.qp.number());
        assert_eq!((to_a.link(), to_a.mtu()), (a.nic.link(), a.nic.mtu()));
        assert_eq!(to_a.gid(), a.nic.gid());
        assert!(to_a.packet_sequence() < 1 << 24 && to_a.read_depth() > 0);
        let mut qp = a.qp.connect(options.rights, &to_b, &options.connection).unwrap();
        let _peer = b.qp.connect(options.rights, &to_a, &options.connection).unwrap();
        let remote = wr::RemoteSlice::from_bytes(b.memory.remote().to_bytes());
        qp.sends().post(wr::write(wr::Inline(*b"hello"), remote).unwrap().signaled()).unwrap();
        qp.sends().ring();
        let mut cq = a.cq;
        sent(&mut cq);
        let mut bytes = [0; 5];
        b.memory.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"hello");
    }

    fn packet_sequence_numbers_are_random_for_each_connection<V>(device) {
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(8).unwrap();
        let mut seen = HashSet::new();
        let mut qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        for _ in 0..50 {
            seen.insert(qp.endpoint().packet_sequence());
            let peer = qp.endpoint();
            let rts = qp.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap();
            qp = rts.fail().unwrap().reset().unwrap();
            assert_eq!(cq.poll(), None);
        }
        for _ in 0..50 {
            let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
            seen.insert(qp.endpoint().packet_sequence());
            drop(qp);
            assert_eq!(cq.poll(), None);
        }
        // Of 2^24 numbers, 100 random ones meet with a chance of 1 to 3000; 3 of them, never.
        assert!(seen.len() >= 98, "{} numbers", seen.len());
    }

    fn a_peer_may_do_through_a_queue_pair_what_it_was_given_at_connect<V>(device) {
        let none = PeerRights::NONE;
        for (rights, expected) in [
            (none, [false, false, false]),
            (PeerRights::WRITE, [true, false, false]),
            (PeerRights::READ, [false, true, false]),
            (PeerRights::ATOMIC, [false, false, true]),
            (PeerRights::WRITE | PeerRights::ATOMIC, [true, false, true]),
            (PeerRights::WRITE | PeerRights::READ | PeerRights::ATOMIC, [true, true, true]),
        ] {
            let options = Options { rights, ..Options::default() };
            let make = || pair_of::<V, Uncached>(device, &options);
            assert_eq!(allowed(make), expected, "{rights:?}");
        }
    }

    fn a_peer_without_rights_can_still_send<V>(device) {
        let options = Options { rights: PeerRights::NONE, ..Options::default() };
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
        b.receive(0..64, 1);
        a.post(wr::send(a.piece(0..64)).signaled());
        sent(&mut a.cq);
        assert_eq!(crate::device::received(&mut b.cq).len, 64);
    }

    fn each_side_chooses_its_own_peers_rights<V>(device) {
        let options = Options::default();
        let [a, b] = ends::<V, Uncached>(device, &options);
        let (to_a, to_b) = (a.qp.endpoint(), b.qp.endpoint());
        let mut write_only =
            a.qp.connect(PeerRights::NONE, &to_b, &options.connection).unwrap();
        let mut all = b.qp.connect(PeerRights::WRITE, &to_a, &options.connection).unwrap();
        let (mut cq_a, mut cq_b) = (a.cq, b.cq);
        let one = wr::Inline([1; 8]);
        write_only.sends().post(wr::write(one, b.memory.remote()).unwrap().signaled()).unwrap();
        write_only.sends().ring();
        sent(&mut cq_a);
        all.sends().post(wr::write(one, a.memory.remote()).unwrap().signaled()).unwrap();
        all.sends().ring();
        assert_ne!(failed(&mut cq_b).status, Status::WorkRequestFlushed);
    }

    fn more_reads_than_the_peer_answers_at_once_all_complete<V>(device) {
        let options = Options::default();
        for depth in [1, 2, 5] {
            let [mut a, mut b] = ends::<V, Uncached>(device, &options);
            for end in [&mut a, &mut b] {
                let builder = end.nic.queue_pair(&end.cq).sends(128).overcommit();
                end.qp = builder.read_depth(depth).create().unwrap();
            }
            assert_eq!(b.qp.endpoint().read_depth(), depth);
            let [mut a, b] = connect([a, b], &options);
            let bytes = b.fill(0, 64 * 256, depth.into());
            for k in 0..64 {
                let (from, to) = (k * 256, k * 256 + 256);
                let read = wr::read(a.piece(from..to), b.remote(from as u64..to as u64)).unwrap();
                a.qp.sends().post(read.id(k as u64).signaled()).unwrap();
            }
            a.qp.sends().ring();
            for (k, completion) in drain(&mut a.cq, 64).into_iter().enumerate() {
                assert!(matches!(completion, Completion::Sent(it) if it.id == k as u64));
            }
            assert_eq!(a.bytes(0..64 * 256), bytes);
        }
    }

    fn a_peer_of_another_link_layer_cannot_be_reached<V>(device) {
        let nic = device.nic(0);
        let cq = nic.completion_queue(8).unwrap();
        let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        let mut bytes = qp.endpoint().to_bytes();
        bytes[1] ^= 1;
        let peer = Endpoint::from_bytes(&bytes).unwrap();
        assert_ne!(peer.link(), nic.link());
        let refused = qp.connect(PeerRights::NONE, &peer, &Connection::default()).err().unwrap();
        assert!(matches!(refused.error, Error::Unreachable { .. }), "{}", refused.error);
        assert!(refused.error.to_string().contains("Ethernet"), "{}", refused.error);
        // The queue pair is as it was.
        let peer = refused.object.endpoint();
        refused.object.connect(PeerRights::NONE, &peer, &Connection::default()).unwrap();
    }

    fn a_peer_of_another_kind_of_address_cannot_be_reached<V>(device) {
        let nic = device.nic(0);
        if nic.link() != LinkLayer::Ethernet {
            eprintln!("skipped: the port is not an Ethernet port");
            return;
        }
        let cq = nic.completion_queue(8).unwrap();
        let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        let mut bytes = qp.endpoint().to_bytes();
        bytes[16 + 10] ^= 0xff;
        let peer = Endpoint::from_bytes(&bytes).unwrap();
        let refused = qp.connect(PeerRights::NONE, &peer, &Connection::default()).err().unwrap();
        assert!(refused.error.to_string().contains("IPv4"), "{}", refused.error);
    }
}

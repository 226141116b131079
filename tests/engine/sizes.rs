//! Messages of every size: from no bytes to 1 MiB, around the MTU, inline to the exact capacity, and
//! gathered or scattered to the exact limit.

use crate::device::{End, Options, on_any_device, pair, pair_of, pattern, received, sent};
use doorbell::endpoint::Mtu;
use doorbell::mlx5::Connection;
use doorbell::wr::{self, Inline, LocalSlice, Nothing, PostError};
use doorbell_hal::mmio::Uncached;
use doorbell_hal::uverbs::Uverbs;

/// The sizes around the MTU, around what 16 bits count, and a far one.
fn sizes(mtu: Mtu) -> [usize; 11] {
    let mtu = mtu.bytes() as usize;
    let (around, far) = (1 << 16, 1 << 20);
    [0, 1, mtu - 1, mtu, mtu + 1, 2 * mtu, 3 * mtu + 7, around - 1, around, around + 1, far]
}

fn with_mtu(mtu: Mtu) -> Options {
    let connection = Connection { max_mtu: Some(mtu), ..Connection::default() };
    Options { connection, memory: (1 << 20) + 8192, ..Options::default() }
}

/// The most segments of 16 bytes in an entry of this family (`struct mlx5_wqe_ctrl_seg`, the 6 bits
/// of `ds`), of which one is the control segment: what a message of no other segments has for data.
fn most_pieces<V: Uverbs>(end: &mut End<V>) -> usize {
    let pieces = vec![end.piece(0..1); 64];
    match end.qp.sends().post(wr::send(&pieces[..])) {
        Err(PostError::TooManyPieces { given: 64, most }) => most as usize,
        other => panic!("64 pieces: {other:?}"),
    }
}

/// The most inline bytes of a send, as the refusal of too many names it.
fn most_inline<V: Uverbs>(end: &mut End<V>) -> usize {
    match end.qp.sends().post(wr::send(Inline(&[0; 4096][..]))) {
        Err(PostError::InlineTooLong { given: 4096, most }) => most as usize,
        other => panic!("4096 inline bytes: {other:?}"),
    }
}

/// Cuts the bytes from `at` on into `count` pieces of rising length, in turns far and near.
fn cut<V: Uverbs>(end: &End<V>, at: usize, count: usize) -> Vec<LocalSlice> {
    (0..count).map(|k| end.piece(at + k * 64..at + k * 64 + 1 + k % 64)).collect()
}

/// The bytes of those pieces.
fn gathered(bytes: &[u8], count: usize) -> Vec<u8> {
    (0..count).flat_map(|k| bytes[k * 64..k * 64 + 1 + k % 64].to_vec()).collect()
}

on_any_device! {
    fn a_write_of_any_size_arrives_whole_at_every_mtu<V>(device) {
        for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
            let [mut a, b] = pair_of::<V, Uncached>(device, &with_mtu(mtu));
            for (round, len) in sizes(mtu).into_iter().enumerate() {
                let bytes = a.fill(0, len, round as u64);
                let before = b.fill(0, len + 4096, 1000 + round as u64);
                let request = wr::write(a.piece(0..len), b.remote(64..64 + len as u64)).unwrap();
                a.post(request.id(len as u64).signaled());
                assert_eq!(sent(&mut a.cq), len as u64);
                assert_eq!(b.bytes(64..64 + len), bytes, "{len} bytes, {mtu:?}");
                assert_eq!(b.bytes(0..64), before[..64], "{len} bytes, {mtu:?}");
                assert_eq!(b.bytes(64 + len..len + 4096), before[64 + len..]);
            }
        }
    }

    fn a_read_of_any_size_arrives_whole_at_every_mtu<V>(device) {
        for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
            let [mut a, b] = pair_of::<V, Uncached>(device, &with_mtu(mtu));
            for (round, len) in sizes(mtu).into_iter().enumerate() {
                let bytes = b.fill(3, len, round as u64);
                let before = a.fill(0, len + 4096, 1000 + round as u64);
                let request = wr::read(a.piece(64..64 + len), b.remote(3..3 + len as u64)).unwrap();
                a.post(request.id(len as u64).signaled());
                assert_eq!(sent(&mut a.cq), len as u64);
                assert_eq!(a.bytes(64..64 + len), bytes, "{len} bytes, {mtu:?}");
                assert_eq!(a.bytes(0..64), before[..64], "{len} bytes, {mtu:?}");
                assert_eq!(a.bytes(64 + len..len + 4096), before[64 + len..]);
            }
        }
    }

    fn a_send_of_any_size_fills_a_receive_of_exactly_that_size_at_every_mtu<V>(device) {
        for mtu in [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096] {
            let [mut a, mut b] = pair_of::<V, Uncached>(device, &with_mtu(mtu));
            for (round, len) in sizes(mtu).into_iter().enumerate() {
                let bytes = a.fill(0, len, round as u64);
                b.receive(64..64 + len, len as u64);
                a.post(wr::send(a.piece(0..len)).id(len as u64).signaled());
                assert_eq!(sent(&mut a.cq), len as u64);
                let received = received(&mut b.cq);
                assert_eq!((received.id, received.len), (len as u64, len as u32));
                assert_eq!(b.bytes(64..64 + len), bytes, "{len} bytes, {mtu:?}");
            }
        }
    }

    fn a_message_shorter_than_its_receive_leaves_the_rest_alone<V>(device) {
        let [mut a, mut b] = pair(device);
        let before = b.fill(0, 1000, 1);
        b.receive(0..1000, 1);
        let bytes = a.fill(0, 300, 2);
        a.post(wr::send(a.piece(0..300)));
        assert_eq!(received(&mut b.cq).len, 300);
        assert_eq!(b.bytes(0..300), bytes);
        assert_eq!(b.bytes(300..1000), before[300..]);
    }

    fn a_message_of_no_bytes_is_said_in_four_ways<V>(device) {
        let [mut a, mut b] = pair(device);
        let before = b.fill(0, 4096, 1);
        let empty = a.piece(10..10);
        for id in 0..8 {
            b.receive(0..64, id);
        }
        let to = b.remote(0..64);
        let none: [LocalSlice; 0] = [];
        a.post(wr::send(Nothing));
        a.post(wr::send(empty));
        a.post(wr::send([empty, empty]));
        a.post(wr::send(Inline([0; 0])));
        a.post(wr::send_immediate(&none[..], 1));
        a.post(wr::write_immediate(Nothing, to, 2).unwrap());
        a.post(wr::write_immediate(empty, to, 3).unwrap());
        a.post(wr::write_immediate(Inline(&[][..]), to, 4).unwrap());
        for id in 0..8 {
            let received = received(&mut b.cq);
            assert_eq!((received.id, received.len), (id, 0));
        }
        a.qp.sends().post(wr::write(Nothing, to).unwrap()).unwrap();
        a.qp.sends().post(wr::write(empty, to).unwrap()).unwrap();
        a.qp.sends().post(wr::read(Nothing, to).unwrap()).unwrap();
        a.qp.sends().post(wr::read([empty], to).unwrap()).unwrap();
        a.post(wr::read(empty, to).unwrap().id(5).signaled());
        assert_eq!(sent(&mut a.cq), 5);
        assert_eq!(b.bytes(0..4096), before);
    }

    fn pieces_of_no_bytes_among_others_are_passed_over<V>(device) {
        let [mut a, mut b] = pair_of::<V, Uncached>(
            device, &Options { pieces: 4, ..Options::default() });
        let bytes = a.fill(0, 100, 1);
        let empty = b.piece(0..0);
        let receive = wr::receive([empty, b.piece(0..40), empty, b.piece(200..260)]).id(1);
        b.qp.receives().post(receive).unwrap();
        b.qp.receives().ring();
        let pieces = [a.piece(0..0), a.piece(0..30), a.piece(50..50), a.piece(30..100)];
        a.post(wr::send(pieces).signaled());
        sent(&mut a.cq);
        assert_eq!(received(&mut b.cq).len, 100);
        assert_eq!(b.bytes(0..40), bytes[..40]);
        assert_eq!(b.bytes(200..260), bytes[40..]);
    }

    fn inline_bytes_to_the_exact_capacity_arrive_and_one_more_is_refused<V>(device) {
        let [mut a, mut b] = pair(device);
        let most = most_inline(&mut a);
        // 4 bytes of header and the data fill the entry's last segment.
        assert_eq!((most + 4) % 16, 0);
        // One byte on each side of where an entry takes another segment, and another slot.
        let edges = (1..=most / 16).flat_map(|segment| {
            let edge = segment * 16 - 4;
            [edge - 1, edge, edge + 1]
        });
        for len in edges.chain([0, 1, 2, most - 1, most]).filter(|len| *len <= most) {
            let bytes = pattern(len, len as u64);
            b.receive(0..most, len as u64);
            a.post(wr::send(Inline(&bytes[..])).id(1).signaled());
            let received = received(&mut b.cq);
            assert_eq!((received.id, received.len), (len as u64, len as u32));
            assert_eq!(b.bytes(0..len), bytes, "{len} bytes");
            assert_eq!(sent(&mut a.cq), 1);
        }
        let refused = a.qp.sends().post(wr::send(Inline(&vec![0; most + 1][..])));
        let (given, most) = (most as u32 + 1, most as u32);
        assert_eq!(refused, Err(PostError::InlineTooLong { given, most }));
    }

    fn the_inline_capacity_of_a_write_is_a_segment_less<V>(device) {
        let [mut a, b] = pair(device);
        let of_send = most_inline(&mut a);
        let most = of_send - 16;
        let bytes = pattern(most + 1, 5);
        let to = b.remote(0..4096);
        let refused = a.qp.sends().post(wr::write(Inline(&bytes[..]), to).unwrap());
        let (given, at_most) = (most as u32 + 1, most as u32);
        assert_eq!(refused, Err(PostError::InlineTooLong { given, most: at_most }));
        let refused = a.qp.sends().post(wr::write_immediate(Inline(&bytes[..]), to, 1).unwrap());
        assert_eq!(refused, Err(PostError::InlineTooLong { given, most: at_most }));
        a.post(wr::write(Inline(&bytes[..most]), to).unwrap().id(1).signaled());
        assert_eq!(sent(&mut a.cq), 1);
        assert_eq!(b.bytes(0..most), bytes[..most]);
        assert_eq!(b.bytes(most..most + 64), [0; 64]);
    }

    fn inline_arrays_are_as_slices<V>(device) {
        let [mut a, b] = pair(device);
        a.post(wr::write(Inline(*b"a"), b.remote(0..1)).unwrap());
        a.post(wr::write(Inline([0x5a; 28]), b.remote(100..128)).unwrap());
        a.post(wr::write(Inline([0xa5; 100]), b.remote(200..300)).unwrap().id(1).signaled());
        sent(&mut a.cq);
        assert_eq!(b.bytes(0..2), *b"a\0");
        assert_eq!(b.bytes(99..129), [&[0][..], &[0x5a; 28], &[0]].concat());
        assert_eq!(b.bytes(200..301), [&[0xa5; 100][..], &[0]].concat());
    }

    fn a_send_gathers_any_number_of_pieces_to_the_exact_limit<V>(device) {
        let [mut a, mut b] = pair(device);
        let most = most_pieces(&mut a);
        assert!(most >= 15, "{most}");
        let bytes = a.fill(0, most * 64, 1);
        for count in 1..=most {
            let expected = gathered(&bytes, count);
            b.receive(0..8192, count as u64);
            let pieces = cut(&a, 0, count);
            a.post(wr::send(&pieces[..]).signaled());
            sent(&mut a.cq);
            assert_eq!(received(&mut b.cq).len, expected.len() as u32, "{count} pieces");
            assert_eq!(b.bytes(0..expected.len()), expected, "{count} pieces");
        }
        let pieces = cut(&a, 0, most + 1);
        let refused = a.qp.sends().post(wr::send(&pieces[..]));
        let (given, most) = (most as u32 + 1, most as u32);
        assert_eq!(refused, Err(PostError::TooManyPieces { given, most }));
    }

    fn a_write_gathers_and_a_read_scatters_to_one_piece_less<V>(device) {
        let [mut a, b] = pair(device);
        let most = most_pieces(&mut a) - 1;
        let bytes = a.fill(0, (most + 1) * 64, 1);
        let expected = gathered(&bytes, most);
        let pieces = cut(&a, 0, most);
        a.post(wr::write(&pieces[..], b.remote(100..4096)).unwrap().signaled());
        sent(&mut a.cq);
        assert_eq!(b.bytes(100..100 + expected.len()), expected);

        a.memory.write_at(0, &vec![0; (most + 1) * 64]).unwrap();
        a.post(wr::read(&pieces[..], b.remote(100..4096)).unwrap().signaled());
        sent(&mut a.cq);
        assert_eq!(gathered(&a.bytes(0..(most + 1) * 64), most), expected);
        // Between the pieces nothing changed.
        assert_eq!(a.bytes(1..64), [0; 63]);

        let pieces = cut(&a, 0, most + 1);
        let (given, most) = (most as u32 + 1, most as u32);
        let refused = Err(PostError::TooManyPieces { given, most });
        let to = b.remote(0..16384);
        assert_eq!(a.qp.sends().post(wr::write(&pieces[..], to).unwrap()), refused);
        assert_eq!(a.qp.sends().post(wr::write_immediate(&pieces[..], to, 0).unwrap()), refused);
        assert_eq!(a.qp.sends().post(wr::read(&pieces[..], to).unwrap()), refused);
        // A refused request left the ring as it was.
        a.post(wr::write(Inline(*b"still"), to).unwrap().id(3).signaled());
        assert_eq!(sent(&mut a.cq), 3);
    }

    fn arrays_of_pieces_are_as_slices_of_them<V>(device) {
        let [mut a, mut b] = pair_of::<V, Uncached>(
            device, &Options { pieces: 3, ..Options::default() });
        let bytes = a.fill(0, 600, 1);
        let receive = wr::receive([b.piece(0..10), b.piece(100..200), b.piece(300..800)]).id(4);
        b.qp.receives().post(receive).unwrap();
        b.qp.receives().ring();
        a.post(wr::send([a.piece(0..300), a.piece(400..600)]));
        assert_eq!(received(&mut b.cq).len, 500);
        let expected = [&bytes[..300], &bytes[400..600]].concat();
        assert_eq!(b.bytes(0..10), expected[..10]);
        assert_eq!(b.bytes(100..200), expected[10..110]);
        assert_eq!(b.bytes(300..690), expected[110..]);
        assert_eq!(b.bytes(690..800), [0; 110]);
    }

    fn pieces_that_are_longer_than_a_message_together_are_refused<V>(device) {
        let [mut a, mut b] = pair_of::<V, Uncached>(
            device, &Options { pieces: 4, ..Options::default() });
        let most = a.nic.max_message();
        // SAFETY: M2: the slices are never read: their requests are refused.
        let long = unsafe { LocalSlice::from_parts(0x1000, most, 1) };
        let refused = Err(PostError::MessageTooLong { most });
        let (one, other) = (a.piece(0..1), b.piece(0..1));
        assert_eq!(a.qp.sends().post(wr::send([long, one])), refused);
        let remote = wr::RemoteSlice::new(0, u64::MAX, 1);
        let write = wr::write([long, long], remote).unwrap();
        assert_eq!(a.qp.sends().post(write), refused);
        assert_eq!(b.qp.receives().post(wr::receive([long, other])), refused);
    }
}

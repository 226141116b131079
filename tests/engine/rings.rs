//! Rings: their ends, their indexes' ends, their room.

use crate::device::{
    Device, End, Options, Register, Verbs, drain, next, on_any_device, pair_of, pattern, received,
    sent, until,
};
use doorbell::completion::Completion;
use doorbell::wr::{self, Inline, Nothing, PostError};
use doorbell_hal::mmio::{Uncached, WriteCombining};

fn ring_of(sends: u32) -> Options {
    Options { sends, receives: sends, ..Options::default() }
}

/// How an entry of `slots` slots is made: an inline write of so many bytes.
fn inline_of(slots: usize) -> usize {
    // The largest entry has 63 segments of 16 bytes: control, address, and the data's.
    (slots * 64).min(63 * 16) - 16 - 16 - 4
}

/// Posts entries of each size that fits, with each number of slots before them: each size starts at
/// each of the last slots, and goes on at the ring's start.
fn every_size_starts_at_every_slot<V: Verbs, C: Register>(device: &Device<V>) {
    const SLOTS: u32 = 32;
    for slots in 1..=16 {
        let [mut a, b] = pair_of::<V, C>(device, &ring_of(SLOTS));
        let len = inline_of(slots);
        let mut start = 0;
        for round in 0..SLOTS as u64 {
            let bytes = pattern(len, round);
            let to = b.remote(0..len as u64);
            a.post(wr::write(Inline(&bytes[..]), to).unwrap().id(round).signaled());
            assert_eq!(sent(&mut a.cq), round);
            assert_eq!(b.bytes(0..len), bytes, "{slots} slots, starting at slot {start}");
            start = (start + slots) % SLOTS as usize;
            if slots.is_multiple_of(2) {
                // An even size would only ever start at even slots.
                a.post(wr::write(Nothing, to).unwrap().id(99).signaled());
                assert_eq!(sent(&mut a.cq), 99);
                start = (start + 1) % SLOTS as usize;
            }
        }
    }
}

/// Posts and completes `count` small writes, `batch` at a time, the last of each batch signaled.
fn laps<V: Verbs, C: Register>(a: &mut End<V, C>, b: &End<V, C>, count: u32, batch: u32) {
    let mut posted = 0;
    while posted < count {
        let this = batch.min(count - posted);
        for k in 0..this {
            let value = (posted + k).to_ne_bytes();
            let at = u64::from((posted + k) % 1024 * 4);
            let request = wr::write(Inline(value), b.remote(at..at + 4)).unwrap();
            if k + 1 == this {
                a.qp.sends().post(request.id((posted + k).into()).signaled()).unwrap();
            } else {
                a.qp.sends().post(request).unwrap();
            }
        }
        a.qp.sends().ring();
        posted += this;
        assert_eq!(sent(&mut a.cq), u64::from(posted - 1));
        let at = ((posted - 1) % 1024 * 4) as usize;
        assert_eq!(b.bytes(at..at + 4), (posted - 1).to_ne_bytes());
    }
}

on_any_device! {
    fn an_entry_of_any_size_starts_at_any_slot_and_wraps<V>(device) {
        every_size_starts_at_every_slot::<V, Uncached>(device);
    }

    fn an_entry_that_the_doorbell_carries_starts_at_any_slot_and_wraps<V>(device) {
        every_size_starts_at_every_slot::<V, WriteCombining>(device);
    }

    fn the_smallest_rings_work_lap_after_lap<V>(device) {
        for depth in 1..=8 {
            let options = Options { sends: depth, receives: depth, ..Options::default() };
            let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
            assert!(a.qp.sends().room() >= depth && b.qp.receives().room() >= depth);
            for round in 0..40u64 {
                for k in 0..u64::from(depth) {
                    let at = k as usize * 8;
                    let receive = wr::receive(b.piece(at..at + 8)).id(round << 8 | k);
                    b.qp.receives().post(receive).unwrap();
                }
                b.qp.receives().ring();
                for k in 0..u64::from(depth) {
                    let bytes = (round << 8 | k).to_ne_bytes();
                    let request = wr::send(Inline(bytes)).id(round << 8 | k).signaled();
                    a.qp.sends().post(request).unwrap();
                }
                a.qp.sends().ring();
                for k in 0..u64::from(depth) {
                    assert_eq!(sent(&mut a.cq), round << 8 | k);
                    assert_eq!(received(&mut b.cq).id, round << 8 | k);
                    let at = k as usize * 8;
                    assert_eq!(b.bytes(at..at + 8), (round << 8 | k).to_ne_bytes());
                }
            }
        }
    }

    fn the_indexes_of_16_bits_wrap<V>(device) {
        let [mut a, b] = pair_of::<V, Uncached>(device, &ring_of(128));
        laps(&mut a, &b, 2 * 65536 + 17, 100);
    }

    fn the_indexes_of_16_bits_wrap_where_doorbells_carry_entries<V>(device) {
        let [mut a, b] = pair_of::<V, WriteCombining>(device, &ring_of(128));
        laps(&mut a, &b, 65536 + 17, 3);
    }

    fn the_largest_ring_holds_32768_unsignaled_entries_and_wraps<V>(device) {
        let most = device.nic(0).max_sends();
        let options = Options {
            sends: most, receives: 0, overcommit: true, entries: 64, ..Options::default()
        };
        let [mut a, b] = pair_of::<V, Uncached>(device, &options);
        assert_eq!(a.qp.sends().room(), most);
        for lap in 0..3u32 {
            // Full to the last slot, with one completion for all of it.
            for k in 0..most - 1 {
                let request = wr::write(Inline((lap ^ k).to_ne_bytes()), b.remote(0..4)).unwrap();
                a.qp.sends().post(request).unwrap();
            }
            let request = wr::write(Inline(lap.to_ne_bytes()), b.remote(4..8)).unwrap();
            a.qp.sends().post(request.id(lap.into()).signaled()).unwrap();
            assert_eq!(a.qp.sends().room(), 0);
            let one_more = wr::write(Nothing, b.remote(0..0)).unwrap();
            assert_eq!(a.qp.sends().post(one_more), Err(PostError::Full));
            a.qp.sends().ring();
            assert_eq!(sent(&mut a.cq), u64::from(lap));
            assert_eq!(b.bytes(0..4), (lap ^ (most - 2)).to_ne_bytes());
            assert_eq!(b.bytes(4..8), lap.to_ne_bytes());
            assert_eq!(a.qp.sends().room(), most);
        }
    }

    fn the_largest_receive_ring_is_filled_to_the_last_receive<V>(device) {
        let most = device.nic(0).max_receives();
        let options = Options {
            sends: 128, receives: most, entries: 128 + most, ..Options::default()
        };
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
        for lap in 0..2 {
            for k in 0..u64::from(most) {
                b.qp.receives().post(wr::receive(b.memory.slice(0..4).unwrap()).id(k)).unwrap();
            }
            let one_more = wr::receive(Nothing);
            assert_eq!(b.qp.receives().post(one_more), Err(PostError::Full));
            b.qp.receives().ring();
            for k in 0..most {
                let request = wr::send(Inline(k.to_ne_bytes())).id(k.into());
                if k % 64 == 63 {
                    a.qp.sends().post(request.signaled()).unwrap();
                    a.qp.sends().ring();
                    assert_eq!(sent(&mut a.cq), u64::from(k));
                } else {
                    a.qp.sends().post(request).unwrap();
                }
            }
            for k in 0..u64::from(most) {
                assert_eq!(received(&mut b.cq).id, k, "lap {lap}");
            }
            assert_eq!(b.qp.receives().room(), most);
        }
    }

    fn completion_queues_of_every_small_size_wrap<V>(device) {
        for entries in 1..=8 {
            let nic = device.nic(0);
            let mut cq = nic.completion_queue(entries).unwrap();
            assert!(cq.entries() >= entries);
            let options = Options::default();
            let build = || nic.queue_pair(&cq).sends(cq.entries()).overcommit().create().unwrap();
            let qp = build();
            let to_itself = qp.endpoint();
            let mut qp = qp.connect(options.rights, &to_itself, &options.connection).unwrap();
            let target = nic.region::<doorbell::mlx5::access::RemoteWrite>(
                64, doorbell::mlx5::Order::InOrder).unwrap();
            let mut id = 0;
            for _ in 0..40 {
                let batch = cq.entries().min(qp.sends().room());
                for k in 0..u64::from(batch) {
                    let request = wr::write(Inline([k as u8; 4]), target.remote()).unwrap();
                    qp.sends().post(request.id(id + k).signaled()).unwrap();
                }
                qp.sends().ring();
                for _ in 0..batch {
                    assert_eq!(sent(&mut cq), id);
                    id += 1;
                }
            }
        }
    }

    fn unsignaled_requests_free_their_slots_with_the_next_signaled_one<V>(device) {
        let [mut a, b] = pair_of::<V, Uncached>(device, &ring_of(64));
        // Chains of every length that is no divisor of the ring's, so that they wrap in flight.
        for chain in [1, 3, 5, 7, 11, 63] {
            for round in 0..20 {
                for k in 0..chain {
                    let request = wr::write(Inline([k as u8; 8]), b.remote(0..8)).unwrap();
                    if k + 1 == chain {
                        a.qp.sends().post(request.id(round).signaled()).unwrap();
                    } else {
                        a.qp.sends().post(request).unwrap();
                    }
                }
                assert_eq!(a.qp.sends().room(), 64 - chain);
                a.qp.sends().ring();
                assert_eq!(sent(&mut a.cq), round);
                assert_eq!(a.qp.sends().room(), 64);
            }
        }
    }

    fn a_full_ring_is_a_value_until_completions_are_polled<V>(device) {
        let [mut a, b] = pair_of::<V, Uncached>(device, &ring_of(8));
        let to = b.remote(0..4096);
        let len = inline_of(2);
        // Three entries of two slots and one of one leave one slot, where two do not fit.
        for id in 0..3 {
            a.qp.sends().post(wr::write(Inline(&vec![id; len][..]), to).unwrap().signaled())
                .unwrap();
        }
        a.qp.sends().post(wr::write(Nothing, to).unwrap().signaled()).unwrap();
        assert_eq!(a.qp.sends().room(), 1);
        let nines = vec![9; len];
        let two = wr::write(Inline(&nines[..]), to).unwrap();
        for _ in 0..3 {
            assert_eq!(a.qp.sends().post(two), Err(PostError::Full));
        }
        a.fill(0, 8, 1);
        let rest = a.piece(0..8);
        a.qp.sends().post(wr::write(rest, to).unwrap().signaled()).unwrap();
        assert_eq!(a.qp.sends().room(), 0);
        assert_eq!(a.qp.sends().post(wr::write(rest, to).unwrap()), Err(PostError::Full));
        // The NIC may be done by now, but nothing was polled.
        a.qp.sends().ring();
        until(|| b.bytes(0..8) == a.bytes(0..8));
        assert_eq!(a.qp.sends().post(wr::write(rest, to).unwrap()), Err(PostError::Full));
        drain(&mut a.cq, 1);
        assert_eq!(a.qp.sends().room(), 2);
        a.qp.sends().post(two.id(4).signaled()).unwrap();
        assert_eq!(a.qp.sends().post(wr::write(rest, to).unwrap()), Err(PostError::Full));
        a.qp.sends().ring();
        drain(&mut a.cq, 4);
        assert_eq!(sent(&mut a.cq), 4);
        assert_eq!(b.bytes(0..len), vec![9; len]);
    }

    fn what_was_not_rung_is_not_sent_and_one_ring_sends_it_all<V>(device) {
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &ring_of(64));
        for id in 0..60 {
            b.receive(0..8, id);
        }
        for round in 0..4u64 {
            for k in 0..15u64 {
                let id = round * 15 + k;
                a.qp.sends().post(wr::send(Inline(id.to_ne_bytes())).id(id).signaled()).unwrap();
            }
            assert_eq!((a.cq.poll(), b.cq.poll()), (None, None), "nothing was rung");
            a.qp.sends().ring();
            // Ringing again is nothing new.
            a.qp.sends().ring();
            for k in 0..15 {
                assert_eq!(sent(&mut a.cq), round * 15 + k);
                assert_eq!(received(&mut b.cq).id, round * 15 + k);
            }
        }
        assert_eq!((a.cq.poll(), b.cq.poll()), (None, None));
    }

    fn receives_of_any_number_of_pieces_are_cut_where_they_end<V>(device) {
        const PIECES: usize = 8;
        let options = Options { pieces: PIECES as u32, ..Options::default() };
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
        let bytes = a.fill(0, PIECES * 32, 1);
        // Twice round the ring, so that what an earlier receive left in an entry is there again:
        // long ones first, then shorter ones in the same places.
        for round in 0..4 {
            for k in 0..128usize {
                let count = if round % 2 == 0 { PIECES } else { k % (PIECES + 1) };
                let pieces: Vec<_> = (0..count).map(|at| b.piece(at * 64..at * 64 + 32)).collect();
                b.memory.write_at(0, &[0; PIECES * 64]).unwrap();
                b.qp.receives().post(wr::receive(&pieces[..]).id(k as u64)).unwrap();
                b.qp.receives().ring();
                let len = count * 32;
                let request = wr::send(a.piece(0..len)).signaled();
                a.post(request);
                assert_eq!(received(&mut b.cq).len, len as u32);
                sent(&mut a.cq);
                for at in 0..PIECES {
                    let expected = if at < count {
                        [&bytes[at * 32..at * 32 + 32], &[0; 32]].concat()
                    } else {
                        vec![0; 64]
                    };
                    assert_eq!(b.bytes(at * 64..at * 64 + 64), expected, "{count} pieces");
                }
            }
        }
        let pieces = [b.piece(0..1); PIECES + 1];
        let (given, most) = (PIECES as u32 + 1, PIECES as u32);
        let refused = b.qp.receives().post(wr::receive(&pieces[..]));
        assert_eq!(refused, Err(PostError::TooManyPieces { given, most }));
    }

    fn a_receive_shorter_than_its_pieces_hold_does_not_reach_into_the_next<V>(device) {
        // One piece fewer than the maximum: without a terminator the NIC would take the message on
        // into what an earlier receive left there.
        let options = Options { pieces: 2, receives: 2, ..Options::default() };
        let [mut a, mut b] = pair_of::<V, Uncached>(device, &options);
        for round in 0..4 {
            let receive = wr::receive([b.piece(0..8), b.piece(64..72)]).id(round);
            b.qp.receives().post(receive).unwrap();
            b.qp.receives().ring();
            a.post(wr::send(Inline([1; 16])).signaled());
            received(&mut b.cq);
            sent(&mut a.cq);
        }
        b.memory.write_at(0, &[0; 128]).unwrap();
        b.receive(0..8, 1);
        a.post(wr::send(Inline([2; 9])).signaled());
        assert!(matches!(next(&mut b.cq), Completion::Failed(_)), "9 bytes into 8");
        assert!(matches!(next(&mut a.cq), Completion::Failed(_)));
        assert_eq!(b.bytes(64..72), [0; 8]);
    }
}

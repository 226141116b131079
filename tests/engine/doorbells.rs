//! Doorbells: registers of both kinds, one each where they are written in parts, batches, and who
//! rings what.

use crate::device::{
    End, Options, Register, Verbs, connect, ends, on_any_device, pair_of, pattern, received, sent,
};
use doorbell::error::Error;
use doorbell::wr::{self, Inline, LocalSlice};
use doorbell_hal::mmio::{Uncached, WriteCombining};

/// Requests of every number of slots, each with a doorbell of its own, then in batches.
fn every_size_alone_and_in_batches<V: Verbs, C: Register>(ends: &mut [End<V, C>; 2]) {
    let [a, b] = ends;
    let sizes = [0, 1, 28, 29, 44, 92, 93, 156, 157, 220, 221, 284, 500, 900];
    for (round, len) in sizes.into_iter().enumerate() {
        let bytes = pattern(len, round as u64);
        let to = b.remote(0..len as u64);
        a.post(wr::write(Inline(&bytes[..]), to).unwrap().id(len as u64).signaled());
        assert_eq!(sent(&mut a.cq), len as u64);
        assert_eq!(b.bytes(0..len), bytes, "{len} bytes");
    }
    for batch in 1..=8 {
        for round in 0..20u64 {
            for k in 0..batch {
                let bytes = [(round ^ k) as u8; 16];
                let to = b.remote(k * 16..k * 16 + 16);
                let request = wr::write(Inline(bytes), to).unwrap().id(k);
                a.qp.sends().post(request.signaled()).unwrap();
            }
            a.qp.sends().ring();
            for k in 0..batch {
                assert_eq!(sent(&mut a.cq), k);
                let at = k as usize * 16;
                assert_eq!(b.bytes(at..at + 16), [(round ^ k) as u8; 16]);
            }
        }
    }
    // A small one in a batch after a long one, and the other way round.
    for (first, second) in [(900, 8), (8, 900), (8, 8), (900, 900)] {
        let (one, two) = (pattern(first, 1), pattern(second, 2));
        let (to_one, to_two) = (b.remote(0..1000), b.remote(1000..2000));
        a.qp.sends().post(wr::write(Inline(&one[..]), to_one).unwrap()).unwrap();
        a.qp.sends().post(wr::write(Inline(&two[..]), to_two).unwrap().signaled()).unwrap();
        a.qp.sends().ring();
        sent(&mut a.cq);
        assert_eq!((b.bytes(0..first), b.bytes(1000..1000 + second)), (one, two));
    }
}

/// Two connected ends with write-combining registers; none where the machine cannot combine writes.
fn combining<V: Verbs>(device: &crate::device::Device<V>) -> Option<[End<V, WriteCombining>; 2]> {
    let nic = device.nic(0);
    let cq = nic.completion_queue(8).unwrap();
    match nic.queue_pair(&cq).sends(4).write_combining().create() {
        Ok(_) => Some(pair_of(device, &Options::default())),
        Err(Error::Refused { call, reason, .. }) if crate::device::named().is_some() => {
            eprintln!("skipped: this machine combines no writes: {call}: {reason}");
            None
        }
        Err(other) => panic!("{other}"),
    }
}

on_any_device! {
    fn requests_of_every_size_ring_an_uncached_register<V>(device) {
        let mut ends = pair_of::<V, Uncached>(device, &Options::default());
        every_size_alone_and_in_batches(&mut ends);
    }

    fn requests_of_every_size_ring_a_write_combining_register<V>(device) {
        let Some(mut ends) = combining(device) else { return };
        every_size_alone_and_in_batches(&mut ends);
    }

    fn requests_that_gather_and_read_and_add_ring_a_write_combining_register<V>(device) {
        let Some([mut a, mut b]) = combining(device) else { return };
        for round in 0..100u64 {
            let bytes = a.fill(0, 4096, round);
            for count in [1, 2, 3, 6, 7, 20] {
                let pieces: Vec<LocalSlice> =
                    (0..count).map(|k| a.piece(k * 100..k * 100 + 50)).collect();
                b.receive(0..4096, count as u64);
                a.post(wr::send(&pieces[..]).id(1).signaled());
                assert_eq!(sent(&mut a.cq), 1);
                assert_eq!(received(&mut b.cq).len, count as u32 * 50);
                let last = (count - 1) * 100;
                assert_eq!(b.bytes((count - 1) * 50..count * 50), bytes[last..last + 50]);
            }
            b.memory.write_at(4096, &round.to_ne_bytes()).unwrap();
            let request = wr::fetch_add(a.piece(8192..8200), b.remote(4096..4104), 5).unwrap();
            a.post(request.signaled());
            sent(&mut a.cq);
            a.post(wr::read(a.piece(8200..8208), b.remote(4096..4104)).unwrap().signaled());
            sent(&mut a.cq);
            let expected = [round.to_ne_bytes(), (round + 5).to_ne_bytes()].concat();
            assert_eq!(a.bytes(8192..8208), expected);
        }
    }

    fn every_queue_pair_has_a_write_combining_register_of_its_own<V>(device) {
        if combining(device).is_none() {
            return;
        }
        // More queue pairs than a page, or sixteen pages, has registers; all ring at once.
        let options = Options { sends: 8, receives: 0, entries: 64, ..Options::default() };
        let (nic_a, nic_b) = (device.nic(0), device.nic(1));
        let target = nic_b.region::<doorbell::mlx5::access::RemoteWrite>(
            4096, doorbell::mlx5::Order::InOrder).unwrap();
        let mut pairs: Vec<_> = (0..40)
            .map(|_| {
                let cq = nic_a.completion_queue(8).unwrap();
                let far = nic_b.completion_queue(8).unwrap();
                let a = nic_a.queue_pair(&cq).sends(8).write_combining().create().unwrap();
                let b = nic_b.queue_pair(&far).sends(4).create().unwrap();
                let (to_a, to_b) = (a.endpoint(), b.endpoint());
                let a = a.connect(options.rights, &to_b, &options.connection).unwrap();
                let b = b.connect(options.rights, &to_a, &options.connection).unwrap();
                (a, cq, b)
            })
            .collect();
        let (first, second) = pairs.split_at_mut(20);
        std::thread::scope(|scope| {
            for (half, half_of_pairs) in [first, second].into_iter().enumerate() {
                let target = &target;
                scope.spawn(move || {
                    for round in 0..20u64 {
                        for (k, (a, ..)) in half_of_pairs.iter_mut().enumerate() {
                            let place = (half * 20 + k) as u64;
                            let to = target.remote().slice(place * 64..place * 64 + 64).unwrap();
                            let bytes = [(round ^ place) as u8; 64];
                            let request = wr::write(Inline(bytes), to).unwrap().id(round);
                            a.sends().post(request.signaled()).unwrap();
                            a.sends().ring();
                        }
                        for (k, (_, cq, _)) in half_of_pairs.iter_mut().enumerate() {
                            assert_eq!(sent(cq), round);
                            let place = half * 20 + k;
                            let mut bytes = [0; 64];
                            target.read_at(place * 64, &mut bytes).unwrap();
                            assert_eq!(bytes, [(round ^ place as u64) as u8; 64]);
                        }
                    }
                });
            }
        });
        // A register that is given back is lent again.
        pairs.truncate(1);
        let (_, cq, _) = &pairs[0];
        nic_a.queue_pair(cq).sends(4).overcommit().write_combining().create().unwrap();
    }

    fn both_kinds_of_register_work_side_by_side<V>(device) {
        let Some(mut combining) = combining(device) else { return };
        let options = Options::default();
        let mut uncached = connect(ends::<V, Uncached>(device, &options), &options);
        for _ in 0..3 {
            every_size_alone_and_in_batches(&mut combining);
            every_size_alone_and_in_batches(&mut uncached);
        }
    }
}

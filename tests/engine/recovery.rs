//! A queue pair that failed is taken down, drained, reset, and connected again.

use crate::device::{
    End, Options, Unconnected, Verbs, failed, on_any_device, pair, pair_of, received, sent, until,
};
use doorbell::completion::{Completion, Status};
use doorbell::error::Error;
use doorbell::mlx5::QueuePair;
use doorbell::state::{Errored, Reset};
use doorbell::wr::{self, Inline, Nothing, RemoteSlice};
use doorbell_hal::mmio::{Uncached, WriteCombining};

/// Polls until the queue pair is drained: how many completions came.
fn drained<V: Verbs, C: crate::device::Register>(
    qp: &mut QueuePair<Errored, V, C>,
    cq: &mut doorbell::mlx5::CompletionQueue<V>,
) -> usize {
    let mut count = 0;
    until(|| {
        while let Some(completion) = cq.poll() {
            assert!(matches!(completion, Completion::Failed(_) | Completion::Sent(_)));
            count += 1;
        }
        qp.is_drained()
    });
    count
}

/// Takes both ends of a connection down, and connects them again.
fn again<V: Verbs, C: crate::device::Register>(ends: [End<V, C>; 2]) -> [End<V, C>; 2] {
    let ends = ends.map(|End { qp, mut cq, memory, nic }| {
        let mut qp = qp.fail().unwrap();
        drained(&mut qp, &mut cq);
        let qp: QueuePair<Reset, V, C> = qp.reset().unwrap();
        Unconnected { qp, cq, memory, nic }
    });
    crate::device::connect(ends, &Options::default())
}

/// Moves bytes both ways.
fn works<V: Verbs, C: crate::device::Register>(ends: &mut [End<V, C>; 2], seed: u64) {
    let [a, b] = ends;
    let bytes = a.fill(0, 5000, seed);
    b.receive(8192..16384, seed);
    a.post(wr::write(a.piece(0..5000), b.remote(0..5000)).unwrap().id(1).signaled());
    a.post(wr::send(a.piece(100..400)).id(2).signaled());
    assert_eq!((sent(&mut a.cq), sent(&mut a.cq)), (1, 2));
    assert_eq!(received(&mut b.cq).id, seed);
    assert_eq!(b.bytes(0..5000), bytes);
    assert_eq!(b.bytes(8192..8492), bytes[100..400]);
    b.post(wr::read(b.piece(16384..16484), a.remote(0..100)).unwrap().id(3).signaled());
    assert_eq!(sent(&mut b.cq), 3);
    assert_eq!(b.bytes(16384..16484), bytes[..100]);
}

/// Breaks a connection in one of several ways.
fn break_it<V: Verbs, C: crate::device::Register>(ends: &mut [End<V, C>; 2], how: u64) {
    let [a, b] = ends;
    let nowhere = RemoteSlice::new(0, 64, !b.remote(0..8).rkey());
    match how {
        // The peer refuses.
        0 => a.post(wr::write(a.piece(0..8), nowhere).unwrap()),
        // A receive is too short.
        1 => {
            b.receive(0..4, 1);
            b.receive(0..4, 2);
            a.post(wr::send(a.piece(0..5)));
        }
        // With a ring full of work behind it.
        _ => {
            a.post(wr::write(a.piece(0..8), nowhere).unwrap());
            while a.qp.sends().room() > 0 {
                a.post(wr::write(Inline([1; 8]), b.remote(0..8)).unwrap());
            }
            b.receive(0..64, 3);
        }
    }
    assert_ne!(failed(&mut a.cq).status, Status::WorkRequestFlushed);
}

on_any_device! {
    fn a_broken_connection_is_made_again_on_the_same_queue_pairs<V>(device) {
        let mut ends = pair(device);
        for round in 0..9 {
            works(&mut ends, round);
            break_it(&mut ends, round % 3);
            ends = again(ends);
        }
        works(&mut ends, 100);
    }

    fn a_broken_connection_with_write_combining_registers_is_made_again<V>(device) {
        let mut ends = pair_of::<V, WriteCombining>(device, &Options::default());
        for round in 0..6 {
            works(&mut ends, round);
            break_it(&mut ends, round % 3);
            ends = again(ends);
        }
        works(&mut ends, 100);
    }

    fn a_connection_that_is_well_is_taken_down_and_made_again<V>(device) {
        let mut ends = pair(device);
        for round in 0..20 {
            works(&mut ends, round);
            ends = again(ends);
        }
    }

    fn rings_that_had_wrapped_start_over<V>(device) {
        let options = Options { sends: 8, receives: 4, ..Options::default() };
        let mut ends = pair_of::<V, Uncached>(device, &options);
        for round in 0..5 {
            for _ in 0..10 + 3 * round {
                works(&mut ends, round);
            }
            let [a, b] = &mut ends;
            a.qp.sends().post(wr::write(Nothing, b.remote(0..0)).unwrap()).unwrap();
            ends = again(ends);
            let [a, b] = &mut ends;
            assert_eq!((a.qp.sends().room(), b.qp.receives().room()), (8, 4));
        }
        works(&mut ends, 9);
    }

    fn a_queue_pair_that_is_not_drained_is_not_reset_and_says_what_is_left<V>(device) {
        let [mut a, _b] = pair(device);
        for id in 0..3 {
            a.receive(0..8, id);
        }
        for id in 0..4 {
            a.qp.sends().post(wr::send(Nothing).id(id)).unwrap();
        }
        let errored = a.qp.fail().unwrap();
        let refused = errored.reset().err().unwrap();
        assert!(matches!(refused.error, Error::NotDrained { sends: 5, receives: 3 }));
        assert!(refused.error.to_string().contains("5 send slots and 3 receives"));
        let mut errored = refused.object;
        assert_eq!(drained(&mut errored, &mut a.cq), 7);
        errored.reset().unwrap();
    }

    fn requests_that_were_done_unsignaled_do_not_keep_a_queue_pair_from_its_reset<V>(device) {
        let options = Options { sends: 8, receives: 0, ..Options::default() };
        let [a, b] = pair_of::<V, Uncached>(device, &options);
        let mut ends = [a, b];
        // Of eight slots: all but one unsignaled; or one signaled among them, and none free.
        for (round, (count, signaled)) in [(1, 9), (7, 9), (8, 3), (8, 0), (8, 6)]
            .into_iter()
            .cycle()
            .take(20)
            .enumerate()
        {
            let [a, b] = &mut ends;
            for k in 0..count {
                let bytes = [round as u8 + 1; 8];
                let request = wr::write(Inline(bytes), b.remote(k * 8..k * 8 + 8)).unwrap().id(k);
                if k == signaled {
                    a.qp.sends().post(request.signaled()).unwrap();
                } else {
                    a.qp.sends().post(request).unwrap();
                }
            }
            a.qp.sends().ring();
            let last = (count as usize - 1) * 8..count as usize * 8;
            until(|| b.bytes(last.clone()) == [round as u8 + 1; 8]);
            if round % 2 == 0 {
                // The acknowledgement has come, too, in all likelihood.
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            ends = again(ends);
        }
    }

    fn a_ring_filled_to_the_last_slot_with_unsignaled_requests_can_be_destroyed<V>(device) {
        let options = Options { sends: 4, receives: 0, ..Options::default() };
        let [mut a, b] = pair_of::<V, Uncached>(device, &options);
        for _ in 0..4 {
            let request = wr::write(Inline([1; 8]), b.remote(0..8)).unwrap();
            a.qp.sends().post(request).unwrap();
        }
        a.qp.sends().ring();
        a.qp.fail().unwrap().destroy().unwrap();
        assert_eq!(a.cq.poll(), None);
        a.cq.destroy().unwrap();
    }

    fn a_queue_pair_goes_down_from_any_state_but_reset<V>(device) {
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(64).unwrap();
        let options = Options::default();
        let make = || nic.queue_pair(&cq).sends(8).receives(8).create().unwrap();
        let (reset, init, rtr) = (make(), make(), make());
        let peer = reset.endpoint();
        let mut init = init.init(options.rights).unwrap();
        init.receives().post(wr::receive(Nothing).id(1)).unwrap();
        init.receives().ring();
        let rtr = rtr.init(options.rights).unwrap();
        let rtr = rtr.ready_to_receive(&peer, &options.connection).unwrap();
        let mut init = init.fail().unwrap();
        let flushed = failed(&mut cq);
        assert_eq!((flushed.id, flushed.status), (1, Status::WorkRequestFlushed));
        assert!(init.is_drained());
        init.reset().unwrap().init(options.rights).unwrap();
        rtr.fail().unwrap().reset().unwrap();
        let rts = reset.connect(options.rights, &peer, &options.connection).unwrap();
        rts.fail().unwrap().reset().unwrap();
    }

    fn an_errored_queue_pair_can_be_destroyed_undrained<V>(device) {
        let [mut a, mut b] = pair(device);
        for id in 0..5 {
            a.receive(0..8, id);
            b.receive(0..8, id);
        }
        a.qp.fail().unwrap().destroy().unwrap();
        assert_eq!(a.cq.poll(), None);
        drop(b.qp.fail().unwrap());
        assert_eq!(b.cq.poll(), None);
        a.cq.destroy().unwrap();
        b.cq.destroy().unwrap();
    }

    fn packets_of_the_connection_before_are_not_taken_for_ones_of_this<V>(device) {
        // The peer's old writes must not land after the reset: its queue pair is left as it is.
        let [mut a, b] = pair(device);
        let [c, d] = pair(device);
        drop(d);
        for _ in 0..100 {
            a.qp.sends().post(wr::write(a.memory.slice(0..32768).unwrap(), b.remote(0..32768))
                .unwrap()).unwrap();
        }
        a.qp.sends().ring();
        let mut cq = b.cq;
        let mut errored = b.qp.fail().unwrap();
        drained(&mut errored, &mut cq);
        let reset = errored.reset().unwrap();
        // Somebody else connects to it.
        let other = c.nic.queue_pair(&c.cq).sends(8).create().unwrap();
        let (to_reset, to_other) = (reset.endpoint(), other.endpoint());
        let options = Options::default();
        let _reset = reset.connect(options.rights, &to_other, &options.connection).unwrap();
        let mut other = other.connect(options.rights, &to_reset, &options.connection).unwrap();
        let bytes = vec![9; 64];
        b.memory.write_at(0, &vec![0; 32768]).unwrap();
        other.sends().post(wr::write(Inline(&bytes[..]), b.memory.remote()).unwrap().signaled())
            .unwrap();
        other.sends().ring();
        let mut cq = c.cq;
        sent(&mut cq);
        let mut there = vec![0; 64];
        b.memory.read_at(0, &mut there).unwrap();
        assert_eq!(there, bytes);
    }
}

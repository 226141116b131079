//! The life of objects: who outlives whom, what is refused, what can be given up at any time.

use crate::device::{
    Options, connect, ends, next, on_any_device, pair, pair_of, received, sent, until,
};
use doorbell::completion::Completion;
use doorbell::error::{Error, Refused};
use doorbell::mlx5::access::Local;
use doorbell::mlx5::{Connection, Order, PeerRights, QueuePair, Region};
use doorbell::wr::{self, Inline, Nothing};
use doorbell_hal::mmio::Uncached;

on_any_device! {
    fn a_nic_is_closed_only_without_objects_and_given_back_otherwise<V>(device) {
        let nic = device.nic(0);
        let region: Region<Local, V> = nic.region(64, Order::InOrder).unwrap();
        let cq = nic.completion_queue(8).unwrap();
        let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        let channel = nic.event_channel().unwrap();
        let other = nic.clone();
        let Refused { object: nic, error } = nic.close().err().unwrap();
        assert!(matches!(error, Error::InUse { objects } if objects >= 5), "{error}");
        assert!(error.to_string().contains("in use"), "{error}");
        // It is as it was.
        drop(nic.completion_queue(8).unwrap());
        qp.destroy().unwrap();
        let nic = nic.close().err().unwrap().object;
        cq.destroy().unwrap();
        let nic = nic.close().err().unwrap().object;
        region.deregister().unwrap();
        let nic = nic.close().err().unwrap().object;
        drop(channel);
        let nic = nic.close().err().unwrap().object;
        drop(other);
        nic.close().unwrap();
    }

    fn objects_keep_their_nic_open<V>(device) {
        let options = Options::default();
        let [a, b] = ends::<V, Uncached>(device, &options);
        let [a, b] = connect([a, b], &options);
        let (mut qp, mut cq, memory) = (a.qp, a.cq, a.memory);
        drop((a.nic, b.nic));
        memory.write_at(0, b"open").unwrap();
        let request = wr::write(memory.slice(0..4).unwrap(), b.memory.remote()).unwrap();
        qp.sends().post(request.signaled()).unwrap();
        qp.sends().ring();
        sent(&mut cq);
        let mut bytes = [0; 4];
        b.memory.read_at(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"open");
    }

    fn objects_can_be_dropped_in_any_order_with_work_under_way<V>(device) {
        for order in 0..6 {
            let [mut a, b] = pair(device);
            for id in 0..64 {
                let request = wr::write(a.piece(0..32768), b.remote(0..32768)).unwrap();
                a.qp.sends().post(request.id(id).signaled()).unwrap();
            }
            a.qp.sends().ring();
            next(&mut a.cq);
            let (nic, cq, qp, memory) = (a.nic, a.cq, a.qp, a.memory);
            match order {
                0 => { drop(nic); drop(cq); drop(qp); drop(memory) }
                1 => { drop(memory); drop(qp); drop(cq); drop(nic) }
                2 => { drop(cq); drop(memory); drop(nic); drop(qp) }
                3 => { drop(qp); drop(nic); drop(memory); drop(cq) }
                // The peer's side goes first.
                4 => { drop(b); drop(qp); drop(cq); drop(memory) }
                _ => { drop(b.memory); drop(memory); drop(cq); drop(qp) }
            }
        }
    }

    fn a_completion_queue_is_destroyed_only_after_its_queue_pairs<V>(device) {
        let nic = device.nic(0);
        let (sends, receives) =
            (nic.completion_queue(8).unwrap(), nic.completion_queue(8).unwrap());
        let builder = nic.queue_pair(&sends).sends(4).receives(4);
        let qp = builder.receive_completions(&receives).create().unwrap();
        let sends = sends.destroy().err().unwrap();
        assert!(matches!(sends.error, Error::InUse { .. }), "{}", sends.error);
        let receives = receives.destroy().err().unwrap().object;
        qp.destroy().unwrap();
        sends.object.destroy().unwrap();
        receives.destroy().unwrap();
    }

    fn a_dropped_completion_queue_leaves_its_queue_pairs_at_work<V>(device) {
        let [mut a, mut b] = pair(device);
        drop(a.cq);
        for _ in 0..100 {
            let request = wr::write(Inline([7; 8]), b.remote(0..8)).unwrap();
            a.qp.sends().post(request.signaled()).unwrap();
        }
        a.qp.sends().ring();
        until(|| b.bytes(0..8) == [7; 8]);
        b.receive(0..8, 1);
        a.qp.sends().post(wr::send(Nothing)).unwrap();
        a.qp.sends().ring();
        assert_eq!(received(&mut b.cq).id, 1);
        a.qp.destroy().unwrap();
    }

    fn completions_of_a_queue_pair_that_is_gone_are_passed_over<V>(device) {
        let options = Options::default();
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(512).unwrap();
        let make = || {
            let qp = nic.queue_pair(&cq).sends(64).create().unwrap();
            let peer = qp.endpoint();
            qp.connect(options.rights, &peer, &options.connection).unwrap()
        };
        let (mut gone, mut stays) = (make(), make());
        let target = nic.region::<doorbell::mlx5::access::RemoteWrite>(64, Order::InOrder).unwrap();
        for id in 0..20 {
            let request = wr::write(Inline([1; 8]), target.remote()).unwrap().id(1000 + id);
            gone.sends().post(request.signaled()).unwrap();
        }
        gone.sends().ring();
        // All of them are in the completion queue once the last has landed and the first is polled.
        assert_eq!(sent(&mut cq), 1000);
        let index = gone.index();
        gone.destroy().unwrap();
        for id in 0..20 {
            let request = wr::write(Inline([2; 8]), target.remote()).unwrap().id(id);
            stays.sends().post(request.signaled()).unwrap();
        }
        stays.sends().ring();
        for id in 0..20 {
            match next(&mut cq) {
                Completion::Sent(sent) => {
                    assert_eq!((sent.id, sent.queue_pair), (id, stays.index()));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(cq.poll(), None);
        // The index is used again, now that no completion can carry it.
        let again = nic.queue_pair(&cq).sends(4).create().unwrap();
        assert_eq!(again.index(), index);
    }

    fn queue_pairs_made_and_destroyed_again_and_again_run_out_of_nothing<V>(device) {
        let options = Options { sends: 16, receives: 16, ..Options::default() };
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(64).unwrap();
        for round in 0..300u64 {
            let make = |k: u64| {
                let builder = nic.queue_pair(&cq).sends(options.sends).receives(options.receives);
                let qp = builder.create().unwrap();
                // Small numbers are used first.
                assert_eq!(u64::from(qp.index().get()), k, "round {round}");
                let peer = qp.endpoint();
                qp.connect(options.rights, &peer, &options.connection).unwrap()
            };
            let (mut first, second) = (make(0), make(1));
            first.sends().post(wr::write(Nothing, wr::RemoteSlice::new(0, 0, 0)).unwrap()
                .id(round).signaled()).unwrap();
            first.sends().ring();
            assert_eq!(sent(&mut cq), round);
            first.destroy().unwrap();
            drop(second);
            assert_eq!(cq.poll(), None);
        }
    }

    fn queues_are_split_and_joined<V>(device) {
        let [a, mut b] = pair(device);
        let [c, _d] = pair(device);
        let mut cq = a.cq;
        b.receive(0..8, 1);
        let (mut sends, receives) = a.qp.split();
        sends.post(wr::send(Inline([5; 8])).id(9).signaled()).unwrap();
        sends.ring();
        assert_eq!(sent(&mut cq), 9);
        let (other_sends, other_receives) = c.qp.split();
        let refused = QueuePair::join(sends, other_receives).err().unwrap();
        assert!(matches!(refused.error, Error::Mismatched { .. }), "{}", refused.error);
        let (sends, other_receives) = refused.object;
        let qp = QueuePair::join(sends, receives).unwrap();
        let other = QueuePair::join(other_sends, other_receives).unwrap();
        qp.destroy().unwrap();
        other.destroy().unwrap();
    }

    fn a_split_queue_pair_lives_until_both_queues_are_dropped<V>(device) {
        let [a, mut b] = pair(device);
        let (mut sends, receives) = a.qp.split();
        drop(receives);
        let mut cq = a.cq;
        b.receive(0..8, 1);
        sends.post(wr::send(Inline([5; 8])).signaled()).unwrap();
        sends.ring();
        sent(&mut cq);
        let cq = cq.destroy().err().unwrap().object;
        drop(sends);
        cq.destroy().unwrap();
    }

    fn receives_posted_before_the_connection_are_filled_after_it<V>(device) {
        let options = Options::default();
        let [a, b] = ends::<V, Uncached>(device, &options);
        let (to_a, to_b) = (a.qp.endpoint(), b.qp.endpoint());
        let connection = Connection::default();
        let (mut cq_a, mut cq_b) = (a.cq, b.cq);
        let post = |id| wr::receive(b.memory.slice(0..64).unwrap()).id(id);
        let mut init = b.qp.init(PeerRights::NONE).unwrap();
        init.receives().post(post(1)).unwrap();
        init.receives().ring();
        let mut rtr = init.ready_to_receive(&to_a, &connection).unwrap();
        rtr.receives().post(post(2)).unwrap();
        rtr.receives().ring();
        let a = a.qp.init(PeerRights::NONE).unwrap();
        let a = a.ready_to_receive(&to_b, &connection).unwrap();
        let mut a = a.ready_to_send(&connection).unwrap();
        for k in 0..3 {
            a.sends().post(wr::send_immediate(Nothing, k).signaled()).unwrap();
        }
        a.sends().ring();
        // Ready to receive is enough to receive.
        assert_eq!((received(&mut cq_b).id, received(&mut cq_b).id), (1, 2));
        let mut rts = rtr.ready_to_send(&connection).unwrap();
        rts.receives().post(post(3)).unwrap();
        rts.receives().ring();
        assert_eq!(received(&mut cq_b).id, 3);
        for _ in 0..3 {
            sent(&mut cq_a);
        }
    }

    fn objects_describe_themselves<V>(device) {
        let [a, _b] = pair_of::<V, Uncached>(device, &Options::default());
        let number = a.qp.number().to_string();
        assert!(format!("{:?}", a.qp).contains("Rts") && format!("{:?}", a.qp).contains(&number));
        assert!(format!("{:?}", a.cq).contains("entries"));
        assert!(format!("{:?}", a.memory).contains("len: 65536"));
        let (sends, receives) = a.qp.split();
        assert!(format!("{sends:?} {receives:?}").matches(&number).count() >= 2);
    }
}

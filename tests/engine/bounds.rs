//! The bounds of what can be made, and what is made of numbers between them.

use crate::device::{Options, on_any_device, sent};
use doorbell::error::Error;
use doorbell::mlx5::{Connection, PeerRights};
use doorbell::timer::{AckTimeout, RnrTimer};
use doorbell::wr::{self, Nothing, PostError};

/// The error is that `what` is `given` and must be from `least` to `most`.
#[track_caller]
fn out_of_range<T: std::fmt::Debug>(
    result: Result<T, impl Into<Error>>,
    name: &str,
    [given, least, most]: [u64; 3],
) {
    let error: Error = result.err().unwrap().into();
    let text = format!("{name} is {given}, and must be from {least} to {most}");
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, Error::OutOfRange { .. }));
}

on_any_device! {
    fn a_completion_queue_holds_from_1_to_the_nics_bound<V>(device) {
        let nic = device.nic(0);
        let most = nic.max_completions();
        let name = "a completion queue's number of entries";
        for given in [0, most + 1, u32::MAX] {
            let bounds = [given.into(), 1, most.into()];
            out_of_range(nic.completion_queue(given), name, bounds);
        }
        let channel = nic.event_channel().unwrap();
        let refused = nic.completion_queue_with_events(0, &channel);
        out_of_range(refused, name, [0, 1, most.into()]);
        for given in [1, 2, 3, 4, 7, 8, 255, 256] {
            let entries = nic.completion_queue(given).unwrap().entries();
            assert!(entries >= given && entries < 2 * given + 2, "{entries} for {given}");
        }
    }

    fn the_largest_completion_queue_can_be_made<V>(device) {
        let nic = device.nic(0);
        let most = nic.max_completions();
        match nic.completion_queue(most) {
            Ok(queue) => {
                assert!(queue.entries() >= most);
                queue.destroy().unwrap();
            }
            // A NIC of this machine can want more memory than may be locked.
            Err(Error::Refused { call: "CREATE_CQ", reason, .. }) => {
                assert!(crate::device::named().is_some(), "{reason}");
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn a_queue_pair_holds_from_0_to_the_nics_bounds<V>(device) {
        let nic = device.nic(0);
        let cq = nic.completion_queue(16).unwrap();
        let build = || nic.queue_pair(&cq);
        let (sends, receives) = (nic.max_sends(), nic.max_receives());
        let bounds = [u64::from(sends) + 1, 0, sends.into()];
        out_of_range(build().sends(sends + 1).create(), "the number of send slots", bounds);
        let bounds = [u32::MAX.into(), 0, sends.into()];
        out_of_range(build().sends(u32::MAX).create(), "the number of send slots", bounds);
        let bounds = [u64::from(receives) + 1, 0, receives.into()];
        out_of_range(build().receives(receives + 1).create(), "the number of receives", bounds);
        let error = build().receive_pieces(0).create().err().unwrap().to_string();
        assert!(error.starts_with("the number of pieces of a receive is 0, and must be from 1"));
        let error = build().receive_pieces(u32::MAX).create().err().unwrap();
        assert!(matches!(error, Error::OutOfRange { what: "the number of pieces of a receive", .. }));
        match build().read_depth(u8::MAX).create() {
            Err(error) => assert!(matches!(error, Error::OutOfRange { what: "the read depth", .. })),
            Ok(_) => panic!("no NIC answers 255 reads at once"),
        }
    }

    fn depths_are_rounded_up_and_never_down<V>(device) {
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(4096).unwrap();
        for depth in [1, 2, 3, 4, 5, 7, 8, 9, 100, 127, 128, 129, 1000] {
            for pieces in [1, 2, 3, 4, 5, 8] {
                let builder = nic.queue_pair(&cq).sends(depth).receives(depth);
                let qp = builder.receive_pieces(pieces).create().unwrap();
                let mut qp = qp.init(PeerRights::NONE).unwrap();
                let room = qp.receives().room();
                assert!(room >= depth && room.is_power_of_two(), "{room} for {depth}");
                for _ in 0..room {
                    qp.receives().post(wr::receive(Nothing)).unwrap();
                }
                assert_eq!(qp.receives().post(wr::receive(Nothing)), Err(PostError::Full));
                drop(qp);
                // Its share of the completion queue comes back with this.
                assert_eq!(cq.poll(), None);
            }
        }
    }

    fn a_queue_pair_without_a_send_ring_or_a_receive_ring_can_be_made<V>(device) {
        let options = Options::default();
        let (nic_a, nic_b) = (device.nic(0), device.nic(1));
        let mut cq_a = nic_a.completion_queue(8).unwrap();
        let mut cq_b = nic_b.completion_queue(8).unwrap();
        let a = nic_a.queue_pair(&cq_a).sends(4).receives(0).create().unwrap();
        let b = nic_b.queue_pair(&cq_b).sends(0).receives(4).create().unwrap();
        let (to_a, to_b) = (a.endpoint(), b.endpoint());
        let mut a = a.connect(options.rights, &to_b, &options.connection).unwrap();
        let mut b = b.connect(options.rights, &to_a, &options.connection).unwrap();
        assert_eq!((a.receives().room(), b.sends().room()), (0, 0));
        assert_eq!(a.receives().post(wr::receive(Nothing)), Err(PostError::Full));
        assert_eq!(b.sends().post(wr::send(Nothing)), Err(PostError::Full));
        b.sends().ring();
        b.receives().post(wr::receive(Nothing).id(1)).unwrap();
        b.receives().ring();
        a.sends().post(wr::send_immediate(Nothing, 3).id(2).signaled()).unwrap();
        a.sends().ring();
        assert_eq!(sent(&mut cq_a), 2);
        assert_eq!(crate::device::received(&mut cq_b).id, 1);
        // One of none at all is of use to nobody, and harmless.
        let none = nic_a.queue_pair(&cq_a).sends(0).create().unwrap();
        none.destroy().unwrap();
    }

    fn more_than_a_completion_queue_holds_is_refused_unless_it_is_meant<V>(device) {
        let nic = device.nic(0);
        let mut cq = nic.completion_queue(31).unwrap();
        assert_eq!(cq.entries(), 31);
        let first = nic.queue_pair(&cq).sends(16).receives(8).create().unwrap();
        let refused = nic.queue_pair(&cq).sends(8).create().err().unwrap();
        assert!(matches!(refused, Error::Overcommitted { needed: 32, holds: 31 }), "{refused}");
        assert!(refused.to_string().contains("32 entries"), "{refused}");
        let other = nic.completion_queue(3).unwrap();
        let build = || nic.queue_pair(&cq).sends(4).receives(4).receive_completions(&other);
        let refused = build().create().err().unwrap();
        assert!(matches!(refused, Error::Overcommitted { needed: 4, holds: 3 }), "{refused}");
        // What was refused took no room.
        let fits = nic.queue_pair(&cq).sends(4).create().unwrap();
        let meant = nic.queue_pair(&cq).sends(64).overcommit().create().unwrap();
        drop((first, fits, meant));
        // Room comes back once the queue was found empty.
        assert_eq!(cq.poll(), None);
        nic.queue_pair(&cq).sends(16).receives(8).create().unwrap();
    }

    fn objects_of_two_nics_do_not_belong_together<V>(device) {
        let (nic, other) = (device.nic(0), device.nic(1));
        let cq = nic.completion_queue(64).unwrap();
        let foreign = other.completion_queue(64).unwrap();
        let channel = other.event_channel().unwrap();
        let mismatched = |error: Error, what: &str| {
            assert_eq!(error.to_string(), format!("{what} do not belong together"));
        };
        let refused = nic.queue_pair(&foreign).sends(4).create().err().unwrap();
        mismatched(refused, "the completion queue and the NIC");
        let builder = nic.queue_pair(&cq).sends(4).receives(4);
        let refused = builder.receive_completions(&foreign).create().err().unwrap();
        mismatched(refused, "the completion queue and the NIC");
        let refused = nic.completion_queue_with_events(4, &channel).err().unwrap();
        mismatched(refused, "the event channel and the NIC");
    }

    fn a_connections_numbers_are_checked_before_the_kernel_sees_them<V>(device) {
        let nic = device.nic(0);
        let cq = nic.completion_queue(64).unwrap();
        let mut qp = nic.queue_pair(&cq).sends(4).create().unwrap();
        let peer = qp.endpoint();
        let default = Connection::default();
        let wrong = [
            ("the number of retries", 8, 7, Connection { retries: 8, ..default }),
            ("the number of receiver-not-ready retries", 255, 7,
             Connection { rnr_retries: 255, ..default }),
            ("the service level", 16, 15, Connection { service_level: 16, ..default }),
        ];
        for (name, given, most, connection) in wrong {
            let refused = qp.connect(PeerRights::NONE, &peer, &connection).err().unwrap();
            qp = refused.object;
            out_of_range::<()>(Err(refused.error), name, [given, 0, most]);
        }
        // What was given back connects.
        let extreme = Connection {
            retries: 0,
            rnr_retries: 0,
            rnr_timer: RnrTimer::US_10,
            ack_timeout: AckTimeout::S_8796,
            hop_limit: 255,
            traffic_class: 255,
            service_level: 0,
            max_mtu: Some(doorbell::endpoint::Mtu::B256),
        };
        qp.connect(PeerRights::NONE, &peer, &extreme).unwrap();
    }

    fn a_nic_says_what_it_can<V>(device) {
        let nic = device.nic(0);
        assert!(!nic.name().is_empty());
        assert!(nic.max_message() >= 1 << 30 && nic.max_message() <= 1 << 31);
        assert!(nic.max_sends() >= 8192 && nic.max_sends() <= 32768);
        assert!(nic.max_receives() >= 8192 && nic.max_receives() <= 32768);
        assert!(nic.max_completions() >= 65535);
        let link = nic.link();
        assert_eq!(nic.queue_pair(&nic.completion_queue(1).unwrap()).sends(0).create().unwrap()
            .endpoint().link(), link);
        assert!(format!("{nic:?}").contains(nic.name()));
    }
}

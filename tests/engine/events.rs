//! Events: what an armed completion queue raises, what failures raise, and how they are waited for.

use crate::device::{Device, Options, Verbs, next, on_any_device, patience, received, sent};
use doorbell::completion::{Completion, Status};
use doorbell::mlx5::access::{RemoteAtomic, RemoteRead};
use doorbell::mlx5::{
    CompletionQueue, EVENTS, Event, EventChannel, Nic, Notified, Order, QueuePair, QueuePairEvent,
    Region,
};
use doorbell::state::Rts;
use doorbell::wr::{self, Inline, Nothing};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::time::Duration;

/// One end whose completions raise events.
struct Heard<V: Verbs> {
    qp: QueuePair<Rts, V>,
    cq: CompletionQueue<V, Notified>,
    channel: EventChannel<V>,
    memory: Region<RemoteAtomic, V>,
    nic: Nic<V>,
}

fn heard<V: Verbs>(device: &Device<V>) -> [Heard<V>; 2] {
    let options = Options::default();
    let ends = [0, 1].map(|place| {
        let nic = device.nic(place);
        let channel = nic.event_channel().unwrap();
        let cq = nic.completion_queue_with_events(256, &channel).unwrap();
        let qp = nic.queue_pair(&cq).sends(64).receives(64).create().unwrap();
        (nic, channel, cq, qp)
    });
    let endpoints = [ends[1].3.endpoint(), ends[0].3.endpoint()];
    let mut endpoints = endpoints.iter();
    ends.map(|(nic, channel, cq, qp)| {
        let peer = endpoints.next().unwrap();
        let qp = qp.connect(options.rights, peer, &options.connection).unwrap();
        let memory = nic.region(4096, Order::InOrder).unwrap();
        Heard { qp, cq, channel, memory, nic }
    })
}

impl<V: Verbs> Heard<V> {
    fn receive(&mut self, id: u64) {
        self.qp.receives().post(wr::receive(self.memory.slice(0..64).unwrap()).id(id)).unwrap();
        self.qp.receives().ring();
    }

    fn send(&mut self) {
        self.qp.sends().post(wr::send(Inline([1; 4]))).unwrap();
        self.qp.sends().ring();
    }

    fn send_solicited(&mut self) {
        self.qp.sends().post(wr::send(Inline([1; 4])).solicited()).unwrap();
        self.qp.sends().ring();
    }

    /// The events that are there already.
    fn no_wait(&mut self) -> Vec<Event> {
        self.channel.wait(Duration::ZERO).unwrap().to_vec()
    }

    /// The next events.
    #[track_caller]
    fn wait(&mut self) -> Vec<Event> {
        let events = self.channel.wait(patience()).unwrap();
        assert!(!events.is_empty(), "no event came");
        events.to_vec()
    }

    fn completion(&self) -> Event {
        Event::Completion(self.cq.id())
    }
}

fn is_readable(file: &impl AsFd) -> bool {
    let mut files = [PollFd::new(file, PollFlags::IN)];
    poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

on_any_device! {
    fn waiting_ends_with_no_events_when_the_time_is_over<V>(device) {
        let mut channel = device.nic(0).event_channel().unwrap();
        for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(20)] {
            assert!(channel.wait(timeout).unwrap().is_empty());
        }
    }

    fn an_armed_queue_raises_one_event_for_each_arm<V>(device) {
        let [mut a, mut b] = heard(device);
        for round in 0..20 {
            b.receive(2 * round);
            b.receive(2 * round + 1);
            b.cq.arm();
            a.send();
            a.send();
            assert_eq!(b.wait(), [b.completion()], "round {round}");
            assert_eq!(received(&mut b.cq).id, 2 * round);
            assert_eq!(received(&mut b.cq).id, 2 * round + 1);
            // It has to be armed again for another.
            assert_eq!(b.no_wait(), []);
        }
    }

    fn a_queue_that_is_not_armed_raises_nothing<V>(device) {
        let [mut a, mut b] = heard(device);
        for id in 0..4 {
            b.receive(id);
            a.send();
            assert_eq!(received(&mut b.cq).id, id);
        }
        assert_eq!(b.no_wait(), []);
        // Sends are not armed for either.
        a.qp.sends().post(wr::write(Nothing, b.memory.remote()).unwrap().signaled()).unwrap();
        a.qp.sends().ring();
        sent(&mut a.cq);
        assert_eq!(a.no_wait(), []);
    }

    fn arming_after_a_completion_has_come_raises_the_event_at_once<V>(device) {
        let [mut a, mut b] = heard(device);
        for round in 0..20 {
            b.receive(round);
            a.qp.sends().post(wr::send(Inline([1; 4])).signaled()).unwrap();
            a.qp.sends().ring();
            // The send is done, so its receive has completed; nobody has polled it.
            sent(&mut a.cq);
            b.cq.arm();
            assert_eq!(b.wait(), [b.completion()], "round {round}");
            assert_eq!(received(&mut b.cq).id, round);
        }
    }

    fn poll_arm_poll_wait_sleeps_through_nothing<V>(device) {
        let [mut a, mut b] = heard(device);
        let mut got = 0;
        for _ in 0..32 {
            b.receive(0);
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for k in 0..2000u64 {
                    a.qp.sends().post(wr::send(Inline([1; 4])).id(k).signaled()).unwrap();
                    a.qp.sends().ring();
                    sent(&mut a.cq);
                }
            });
            while got < 2000 {
                while let Some(completion) = b.cq.poll() {
                    assert!(matches!(completion, Completion::Received(_)), "{completion:?}");
                    got += 1;
                    b.receive(0);
                }
                b.cq.arm();
                match b.cq.poll() {
                    Some(Completion::Received(_)) => {
                        got += 1;
                        b.receive(0);
                    }
                    Some(other) => panic!("{other:?}"),
                    None if got < 2000 => {
                        b.wait();
                    }
                    None => {}
                }
            }
        });
    }

    fn a_queue_armed_for_solicited_completions_sleeps_through_the_others<V>(device) {
        let [mut a, mut b] = heard(device);
        for round in 0..10 {
            for id in 0..3 {
                b.receive(round * 3 + id);
            }
            b.cq.arm_solicited();
            a.send();
            a.send();
            assert_eq!(received(&mut b.cq).id, round * 3);
            assert_eq!(received(&mut b.cq).id, round * 3 + 1);
            assert_eq!(b.no_wait(), [], "round {round}");
            a.send_solicited();
            assert_eq!(b.wait(), [b.completion()], "round {round}");
            let solicited = received(&mut b.cq);
            assert!(solicited.solicited && solicited.id == round * 3 + 2);
        }
    }

    fn arming_for_all_after_arming_for_solicited_ones_is_heard<V>(device) {
        let [mut a, mut b] = heard(device);
        b.receive(1);
        b.cq.arm_solicited();
        b.cq.arm();
        a.send();
        assert_eq!(b.wait(), [b.completion()]);
        received(&mut b.cq);
    }

    fn a_failure_wakes_a_queue_armed_for_solicited_completions<V>(device) {
        let [a, mut b] = heard(device);
        b.receive(1);
        b.cq.arm_solicited();
        let _errored = b.qp.fail().unwrap();
        let events = b.channel.wait(patience()).unwrap();
        assert!(events.contains(&Event::Completion(b.cq.id())), "{events:?}");
        match next(&mut b.cq) {
            Completion::Failed(failed) => assert_eq!(failed.status, Status::WorkRequestFlushed),
            other => panic!("{other:?}"),
        }
        drop(a);
    }

    fn a_channel_can_be_read_when_and_only_when_there_is_an_event<V>(device) {
        let [mut a, mut b] = heard(device);
        assert!(!is_readable(&b.channel));
        for round in 0..5 {
            b.receive(round);
            b.cq.arm();
            assert!(!is_readable(&b.channel), "round {round}");
            a.send();
            let mut files = [PollFd::new(&b.channel, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 30, tv_nsec: 0 };
            assert_eq!(poll(&mut files, Some(&timeout)).unwrap(), 1);
            assert_eq!(b.no_wait(), [b.completion()], "round {round}");
            assert!(!is_readable(&b.channel), "round {round}");
            received(&mut b.cq);
        }
    }

    fn more_events_than_one_wait_answers_are_left_for_the_next<V>(device) {
        let nic = device.nic(0);
        let options = Options::default();
        let mut channel = nic.event_channel().unwrap();
        let count = EVENTS + 5;
        let mut ends: Vec<_> = (0..count)
            .map(|_| {
                let mut cq = nic.completion_queue_with_events(8, &channel).unwrap();
                let qp = nic.queue_pair(&cq).sends(4).create().unwrap();
                let peer = qp.endpoint();
                let qp = qp.connect(options.rights, &peer, &options.connection).unwrap();
                cq.arm();
                (cq, qp)
            })
            .collect();
        let target: Region<RemoteAtomic, V> = nic.region(64, Order::InOrder).unwrap();
        for (_, qp) in &mut ends {
            qp.sends().post(wr::write(Inline([1]), target.remote()).unwrap().signaled()).unwrap();
            qp.sends().ring();
        }
        // They have all completed, and all are armed.
        for (cq, _) in &mut ends {
            sent(cq);
        }
        let mut seen = Vec::new();
        while seen.len() < count {
            let events = channel.wait(patience()).unwrap();
            assert!(!events.is_empty() && events.len() <= EVENTS, "{} of {count}", seen.len());
            seen.extend(events);
        }
        for (cq, _) in &ends {
            let named = seen.iter().filter(|event| **event == Event::Completion(cq.id())).count();
            assert_eq!(named, 1);
        }
        assert!(channel.wait(Duration::ZERO).unwrap().is_empty());
    }

    fn events_of_a_queue_that_is_gone_are_not_heard<V>(device) {
        let [mut a, mut b] = heard(device);
        let mut other = b.nic.completion_queue_with_events(8, &b.channel).unwrap();
        b.receive(1);
        b.cq.arm();
        a.send();
        // The event is there, unread.
        let mut files = [PollFd::new(&b.channel, PollFlags::IN)];
        let timeout = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_eq!(poll(&mut files, Some(&timeout)).unwrap(), 1);
        b.qp.destroy().unwrap();
        b.cq.destroy().unwrap();
        other.arm();
        assert!(b.channel.wait(Duration::ZERO).unwrap().is_empty());
    }

    fn a_queue_pair_that_refuses_its_peer_says_so_in_an_event<V>(device) {
        let [mut a, mut b] = heard(device);
        let closed: Region<RemoteRead, V> = b.nic.region(64, Order::InOrder).unwrap();
        a.qp.sends().post(wr::write(Inline([1]), closed.remote()).unwrap().id(4)).unwrap();
        a.qp.sends().ring();
        match next(&mut a.cq) {
            Completion::Failed(failed) => {
                assert_eq!((failed.id, failed.status), (4, Status::RemoteAccess));
            }
            other => panic!("{other:?}"),
        }
        let event = QueuePairEvent::AccessError;
        let queue_pair = b.qp.index();
        assert_eq!(b.wait(), [Event::QueuePair { queue_pair, event }]);
        // The requester's completion says enough.
        assert_eq!(a.no_wait(), []);
    }

    fn two_channels_hear_their_own_queues<V>(device) {
        let [mut a, mut b] = heard(device);
        let mut other = b.nic.event_channel().unwrap();
        let mut silent = b.nic.completion_queue_with_events(8, &other).unwrap();
        assert_ne!(silent.id(), b.cq.id());
        silent.arm();
        b.receive(1);
        b.cq.arm();
        a.send();
        assert_eq!(b.wait(), [b.completion()]);
        assert!(other.wait(Duration::ZERO).unwrap().is_empty());
    }
}

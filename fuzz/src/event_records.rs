//! Records of the kernel's event files.

use crate::input::Input;
use crate::meddler::{Meddler, small_nic};
use doorbell::mlx5::{CompletionQueueId, EVENTS, Event, Nic};
use doorbell_model::connectx::Network;
use std::time::Duration;

/// Waits of one run.
const WAITS: usize = 256;

/// Waits for events on a channel whose files hold what the bytes say.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let file = small_nic(&Network::stepped(0));
    let (kernel, hand) = Meddler::new(file, &input);
    let nic = Nic::open(kernel).expect("the kernel answers as it should");
    let mut channel = nic.event_channel().expect("the kernel answers as it should");
    let mut queue = nic.completion_queue_with_events(16, &channel).expect("likewise");
    hand.meddle(true);
    for _ in 0..WAITS {
        if input.is_empty() {
            break;
        }
        let before = hand.reads();
        match channel.wait(Duration::ZERO) {
            Ok(events) => {
                assert!(events.len() <= EVENTS);
                events.iter().for_each(|event| check(event, queue.id()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        // Each event takes a read, and each file one more that finds none, before and after waiting.
        assert!(hand.reads() - before <= EVENTS as u64 + 4);
        queue.arm();
    }
    hand.meddle(false);
    drop((queue, channel, nic));
    hand.free();
}

fn check(event: &Event, queue: CompletionQueueId) {
    match event {
        Event::Completion(id) => assert_eq!(*id, queue, "an event of a queue that never was"),
        Event::QueuePair { queue_pair, .. } => {
            assert!(queue_pair.get() < 1 << 24, "{event:?} is of no queue pair");
        }
        _ => {}
    }
}

//! Fast senders and a slow receiver: packets of several connections come through one short queue, which
//! drops what it has no room for, as a socket's does.

mod rig;

use doorbell_model::rc::{Operation, Packet, Status};
use rig::*;
use std::collections::VecDeque;

/// Connections that share the queue, and messages of each.
const CONNECTIONS: usize = 8;
const MESSAGES: u64 = 1000;
/// A message: 16 packets.
const LENGTH: u32 = 16 * 256;
/// Packets that the queue holds, and how long the receiver takes for each.
const ROOM: usize = 96;
const EACH: u64 = 1000;

#[derive(Debug)]
struct Outcome {
    /// Packets sent that had been sent before, and packets that the queue dropped.
    again: u64,
    dropped: u64,
    /// When everything was done, in nanoseconds.
    time: u64,
}

/// Writes all messages. A window that follows what arrives begins with `limit`; without, it is always
/// the same.
fn run(limit: Option<u32>) -> Outcome {
    // 4.2 ms.
    let setup = Setup { timeout: 10, retry_count: 7, ..Setup::default() };
    let mut pairs: Vec<(End, End)> = (0..CONNECTIONS).map(|_| setup.pair()).collect();
    for (sender, receiver) in &mut pairs {
        if let Some(limit) = limit {
            sender.connection.limit_window(limit);
        }
        for _ in 0..MESSAGES {
            let list = sender.device.list(0, LENGTH);
            sender.device.post(Operation::Write(receiver.device.remote(0)), list);
        }
    }
    let mut queue: VecDeque<(usize, Packet)> = VecDeque::new();
    let (mut now, mut dropped, mut served) = (0, 0, 0);
    loop {
        for (number, (sender, _)) in pairs.iter_mut().enumerate() {
            // Each has its turn, and none sends all at once.
            let _ = sender.connection.advance(now, &mut sender.device);
            for packet in sender.device.out.drain(..) {
                match queue.len() < ROOM {
                    true => queue.push_back((number, packet)),
                    false => dropped += 1,
                }
            }
        }
        if let Some((number, packet)) = queue.pop_front() {
            served += 1;
            now += EACH;
            let (sender, receiver) = &mut pairs[number];
            let answers = receiver.answer(now, [&packet]);
            sender.take(now, &answers);
            assert!(served < 100_000_000, "it never ends");
            continue;
        }
        let deadlines = pairs.iter().filter_map(|(sender, _)| sender.connection.next_deadline());
        match deadlines.min() {
            Some(deadline) => now = now.max(deadline),
            None => break,
        }
    }
    let mut again = 0;
    for (sender, _) in &pairs {
        let statuses = sender.device.statuses();
        assert_eq!(statuses.len() as u64, MESSAGES);
        assert!(statuses.iter().all(|status| *status == Status::Success));
        again += sender.device.sent_again;
    }
    Outcome { again, dropped, time: now }
}

#[test]
fn senders_do_not_drown_a_slow_receiver() {
    let (fixed, following) = (run(None), run(Some(128)));
    let messages = CONNECTIONS as u64 * MESSAGES;
    for (name, outcome) in [("fixed window", &fixed), ("window that follows", &following)] {
        let per = |count: u64| count * 100_000 / messages;
        println!(
            "{name}: {} packets sent again and {} dropped per 100000 messages, {} ms",
            per(outcome.again),
            per(outcome.dropped),
            outcome.time / 1_000_000
        );
    }
    assert!(following.again * 4 < fixed.again, "{following:?}, {fixed:?}");
    assert!(following.time <= fixed.time, "{following:?}, {fixed:?}");
}

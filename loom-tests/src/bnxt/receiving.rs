//! Receives: the poster, the NIC that fills them, and the poller.

use super::memory::{CompletionQueue, PolledRing, QueuePair, piece};
use super::nic::{Receiver, Reporter};
use crate::check::{Failure, Reached, catches, holds};
use doorbell::completion::{Arrival, Completion, Received};
use doorbell::wr;
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;

/// A NIC that fills what it is given, and reports it.
struct Nic {
    receiver: Receiver,
    reporter: Reporter,
}

impl Nic {
    fn look(&mut self) {
        if let Some(number) = self.receiver.look() {
            assert!(self.reporter.filled(number, 50 + number));
        }
    }
}

fn poll(ring: &mut PolledRing, filled: &mut Vec<(u64, u32)>) {
    match ring.poll() {
        None => {}
        Some(Completion::Received(Received { id, len, by: Arrival::Send, .. })) => {
            filled.push((id, len));
        }
        Some(other) => panic!("{other:?}"),
    }
}

const RECEIVES: u32 = 3;

/// Three receives through a ring of `most` at once.
fn receives(most: u32, reused: Reached) -> impl Fn() {
    move || {
        let queue_pair = QueuePair::new(0, most);
        let completions = CompletionQueue::of(4, &queue_pair);
        let mut completion_ring = completions.ring();
        let (receiver, reporter) = (Receiver::new(&queue_pair), Reporter::new(&completions));
        let mut nic = Nic { receiver, reporter };
        let mut ring = queue_pair.receive_ring();
        let post = |number: u32| wr::receive(piece(number)).id(u64::from(number) + 7);
        let reused = reused.clone();
        let poster = thread::spawn(move || {
            let mut posted = 0;
            for _ in 0..RECEIVES {
                if ring.post(post(posted)).is_ok() {
                    ring.ring();
                    posted += 1;
                }
            }
            if posted > most {
                reused.note();
            }
            (ring, posted)
        });
        let filler = thread::spawn(move || {
            nic.look();
            nic.look();
            nic
        });
        let mut filled = Vec::new();
        poll(&mut completion_ring, &mut filled);
        poll(&mut completion_ring, &mut filled);
        let ((mut ring, posted), mut nic) = (poster.join().unwrap(), filler.join().unwrap());
        for next in posted..=RECEIVES {
            for _ in 0..RECEIVES {
                nic.look();
                poll(&mut completion_ring, &mut filled);
            }
            if next < RECEIVES {
                ring.post(post(next)).unwrap();
                ring.ring();
            }
        }
        assert_eq!((filled, ring.room()), (vec![(7, 50), (8, 51), (9, 52)], most));
    }
}

#[test]
fn the_nic_reads_receives_that_were_written_before_the_register() {
    holds(receives(2, Reached::default()));
}

#[test]
fn a_register_that_is_stored_to_before_the_receive_is_caught() {
    let model = receives(2, Reached::default());
    catches(Mutant::NoFenceBeforeRegister, Failure::Race, model);
}

#[test]
fn receives_are_written_again_only_after_they_were_read() {
    let reused = Reached::default();
    holds(receives(1, reused.clone()));
    reused.check();
}

#[test]
fn receives_that_are_freed_before_they_were_read_are_caught() {
    catches(Mutant::FreedBeforeRead, Failure::Race, receives(1, Reached::default()));
}

#[test]
fn a_poster_that_does_not_acquire_freed_receives_is_caught() {
    catches(Mutant::NoAcquireOfFreed, Failure::Race, receives(1, Reached::default()));
}

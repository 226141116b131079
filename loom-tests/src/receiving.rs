//! Receives: the poster, the NIC that fills them, and the poller.

use crate::check::{Failure, Reached, catches, holds};
use crate::memory::{CompletionQueue, INDEX, PolledRing, QueuePair};
use crate::nic::{Receiver, Report, Reporter};
use doorbell::completion::{Arrival, Completion, Received};
use doorbell::mlx5::abi::cqe::CompletionOpcode;
use doorbell::wr::{self, LocalSlice, Receive};
use doorbell_hal::sync::mutant::Mutant;
use loom::thread;

/// The receive with `number`: pieces of as many bytes as its number and 100 or 200, at an address
/// and with a key made of its number. An odd one has one piece, an even one two.
fn pieces(number: u32) -> Vec<LocalSlice> {
    let address = 0x1000 * u64::from(number + 1);
    // SAFETY: M2: no NIC of a model looks behind a key.
    let piece = |of: u32| unsafe { LocalSlice::from_parts(address, of + number, 0x80 + number) };
    if number % 2 == 1 { vec![piece(100)] } else { vec![piece(100), piece(200)] }
}

fn receive(pieces: &[LocalSlice], number: u32) -> Receive<&[LocalSlice]> {
    wr::receive(pieces).id(u64::from(number) + 7)
}

/// A NIC that fills what it is given, and reports it.
struct Nic {
    receiver: Receiver,
    reporter: Reporter,
}

impl Nic {
    fn look(&mut self) {
        let Some((number, found)) = self.receiver.look() else { return };
        let posted = pieces(number.into());
        assert_eq!(found.len(), posted.len(), "the pieces are the receive's");
        for (found, posted) in found.iter().zip(posted) {
            let found = (found.addr.get(), found.length(), found.lkey.get());
            assert_eq!(found, (posted.address(), posted.len(), posted.lkey()));
        }
        let kind = CompletionOpcode::ReceiveSend;
        let bytes = 50 + u32::from(number);
        let report = Report { kind, index: INDEX, counter: number, bytes, solicited: false };
        assert!(self.reporter.report(report));
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

/// Three receives through a ring of `len`.
fn receives(len: u32, reused: Reached) -> impl Fn() {
    move || {
        let queue_pair = QueuePair::new(0, len);
        let completions = CompletionQueue::of(4, &queue_pair);
        let mut completion_ring = completions.ring();
        let (receiver, reporter) = (Receiver::new(&queue_pair), Reporter::new(&completions));
        let mut nic = Nic { receiver, reporter };
        let mut ring = queue_pair.receive_ring();
        let reused = reused.clone();
        let poster = thread::spawn(move || {
            let mut posted = 0;
            for _ in 0..RECEIVES {
                if ring.post(receive(&pieces(posted), posted)).is_ok() {
                    ring.ring();
                    posted += 1;
                }
            }
            if posted > len {
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
                ring.post(receive(&pieces(next), next)).unwrap();
                ring.ring();
            }
        }
        assert_eq!((filled, ring.room()), (vec![(7, 50), (8, 51), (9, 52)], len));
    }
}

#[test]
fn the_nic_reads_receives_that_were_written_before_the_record() {
    holds(receives(2, Reached::default()));
}

#[test]
fn a_record_that_is_published_before_the_receive_is_caught() {
    let model = receives(2, Reached::default());
    catches(Mutant::NoFenceBeforePublish, Failure::Race, model);
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

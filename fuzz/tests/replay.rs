//! The fuzz targets under plain `cargo test`: the corpus, then a fixed number of random inputs.
//!
//! Half of the random inputs are made of the corpus by changing, cutting and joining; the others are
//! random bytes.

use doorbell_fuzz::{Target, replay};
use std::path::Path;

/// The most bytes of a random input.
const LONGEST: usize = 2048;

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let files = replay::files(&directory).expect("a target has a corpus");
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// Changes a few bytes or bits, or cuts pieces out, or doubles them.
fn change(random: &mut fastrand::Rng, bytes: &mut Vec<u8>) {
    for _ in 0..random.usize(1..6) {
        if bytes.is_empty() {
            return;
        }
        let at = random.usize(..bytes.len());
        let end = (at + random.usize(1..32)).min(bytes.len());
        match random.u8(..6) {
            0 => bytes[at] = random.u8(..),
            1 => bytes[at] ^= 1 << random.u8(..8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.usize(..5)],
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => bytes[at..end].fill_with(|| random.u8(..)),
        }
    }
}

fn replay_and_try(name: &str, inputs: usize) {
    let target: Target =
        doorbell_fuzz::TARGETS.into_iter().find(|known| known.0 == name).expect("a target").1;
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "the corpus of {name} is empty");
    for (number, bytes) in corpus.iter().enumerate() {
        replay::input(target, bytes, &format_args!("number {number} of the corpus of {name}"));
    }
    let mut random = fastrand::Rng::with_seed(0);
    for number in 0..inputs {
        let mut bytes = if number % 2 == 0 {
            let mut bytes = corpus[random.usize(..corpus.len())].clone();
            let other = &corpus[random.usize(..corpus.len())];
            if random.u8(..4) == 0 {
                bytes.truncate(random.usize(..=bytes.len()));
                bytes.extend_from_slice(&other[random.usize(..=other.len())..]);
            }
            change(&mut random, &mut bytes);
            bytes
        } else {
            (0..random.usize(..256)).map(|_| random.u8(..)).collect()
        };
        bytes.truncate(LONGEST);
        replay::input(target, &bytes, &format_args!("random input {number} for {name}"));
    }
}

#[test]
fn any_bytes_of_a_completion_ring_are_completions_none_or_errors() {
    replay_and_try("completion", 20_000);
}

#[test]
fn any_bytes_of_a_bcm57608s_completion_ring_are_completions_none_or_errors() {
    replay_and_try("bnxt_completion", 20_000);
}

#[test]
fn any_answers_of_a_bcm57608s_firmware_give_an_error_or_an_object_and_leave_nothing_behind() {
    replay_and_try("bnxt_answers", 500);
}

#[test]
fn any_answers_of_the_kernel_give_an_error_or_an_object_and_leave_nothing_behind() {
    replay_and_try("kernel_answers", 300);
}

#[test]
fn any_event_records_give_events_or_an_error() {
    replay_and_try("event_records", 500);
}

#[test]
fn any_bytes_are_an_endpoint_that_round_trips_or_an_error_that_names_the_field() {
    replay_and_try("endpoint", 100_000);
}

#[test]
fn any_work_entries_leave_alone_the_memory_that_keys_and_rights_do_not_allow() {
    replay_and_try("work_entries", 3_000);
}

#[test]
fn any_verbs_command_is_refused_and_changes_nothing_or_makes_what_can_be_destroyed() {
    replay_and_try("verbs_ioctl", 1_000);
}

#[test]
fn any_firmware_command_is_answered_and_a_driver_that_lets_go_leaves_nothing() {
    replay_and_try("firmware", 500);
}

#[test]
fn any_request_to_a_bcm57608_is_answered_and_a_reset_leaves_nothing() {
    replay_and_try("netxtreme_firmware", 500);
}

#[test]
fn any_bytes_are_a_packet_that_round_trips_or_an_error() {
    replay_and_try("packet_bytes", 100_000);
}

#[test]
fn any_packets_leave_alone_the_memory_that_keys_and_rights_do_not_allow() {
    replay_and_try("packets", 3_000);
}

#[test]
fn any_ip_packets_leave_alone_the_memory_that_keys_and_rights_do_not_allow() {
    replay_and_try("frames", 3_000);
}

#[test]
fn every_request_completes_once_and_in_order_having_moved_its_bytes() {
    replay_and_try("operations", 300);
}

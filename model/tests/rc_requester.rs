//! What a requester sends, and how it takes each answer: exact scenarios.

mod rig;

use doorbell_model::memory::{Access, Buffer, Entry, List};
use doorbell_model::rc::{
    Aeth, Data, Failure, Headers, Mtu, NakCode, Opcode, Operation, Packet, Psn, Remote, Request,
    Reth, Status, Syndrome, rnr_timer,
};
use rig::*;

const REMOTE: Remote = Remote { address: 0x7000, rkey: 0x77 };

/// Opcodes, PSNs after the first, and whether an acknowledgement is asked for.
fn summary(packets: &[Packet]) -> Vec<(Opcode, u32, bool)> {
    let first = Psn::new(Setup::default().first_psn);
    packets.iter().map(|p| (p.opcode, p.psn.since(first), p.ack_request)).collect()
}

fn psns(packets: &[Packet]) -> Vec<u32> {
    summary(packets).iter().map(|packet| packet.1).collect()
}

/// An answer with PSN `psn` after the first.
fn answer(opcode: Opcode, psn: u32, headers: Headers) -> Packet {
    Packet {
        opcode,
        solicited: false,
        partition_key: 0xffff,
        destination: 0,
        extended: None,
        ack_request: false,
        psn: Psn::new(Setup::default().first_psn + psn),
        headers,
        payload: Default::default(),
        run: 1,
    }
}

fn syndrome(psn: u32, syndrome: Syndrome) -> Packet {
    answer(Opcode::Acknowledge, psn, Headers::Ack(Aeth { syndrome, message_sequence: 0 }))
}

fn ack(psn: u32) -> Packet {
    syndrome(psn, Syndrome::Ack { credits: 31 })
}

fn nak(psn: u32, code: NakCode) -> Packet {
    syndrome(psn, Syndrome::Nak(code))
}

fn rnr(psn: u32, timer: u8) -> Packet {
    syndrome(psn, Syndrome::RnrNak { timer })
}

fn positive() -> Aeth {
    Aeth { syndrome: Syndrome::Ack { credits: 31 }, message_sequence: 0 }
}

fn read_answer(opcode: Opcode, psn: u32, bytes: &[u8]) -> Packet {
    let headers = match opcode {
        Opcode::ReadResponseMiddle => Headers::Plain,
        _ => Headers::Ack(positive()),
    };
    Packet {
        payload: doorbell_model::memory::Payload::copy_of(bytes),
        ..answer(opcode, psn, headers)
    }
}

#[test]
fn messages_are_cut_at_every_mtu() {
    for mtu in Mtu::ALL {
        let size = mtu.bytes();
        let setup = Setup { mtu, memory: 0x2_0000, ..Setup::default() };
        let data = pattern(0x8000, 1);
        for length in [0, 1, size - 1, size, size + 1, 2 * size, 3 * size + 7] {
            let mut end = setup.end(1);
            end.device.write(0, &data);
            let list = end.device.list(0, length);
            end.device.post(Operation::Write(REMOTE), list.clone());
            end.device.post(Operation::SendImmediate(0xabcd), list.clone());
            end.device.post(Operation::WriteImmediate(REMOTE, 0xef01), list.clone());
            end.device.post(Operation::SendInvalidate(0x123), list);
            let packets = end.packets(0);
            let each = length.div_ceil(size).max(1) as usize;
            assert_eq!(packets.len(), 4 * each);
            use Opcode::*;
            let kinds = [
                [WriteOnly, WriteFirst, WriteMiddle, WriteLast],
                [SendOnlyImmediate, SendFirst, SendMiddle, SendLastImmediate],
                [WriteOnlyImmediate, WriteFirst, WriteMiddle, WriteLastImmediate],
                [SendOnlyInvalidate, SendFirst, SendMiddle, SendLastInvalidate],
            ];
            for (kind, message) in kinds.iter().zip(packets.chunks(each)) {
                let mut sent = Vec::new();
                for (at, packet) in message.iter().enumerate() {
                    let (first, last) = (at == 0, at + 1 == each);
                    let opcode = match (first, last) {
                        (true, true) => kind[0],
                        (true, false) => kind[1],
                        (false, false) => kind[2],
                        (false, true) => kind[3],
                    };
                    assert_eq!(packet.opcode, opcode);
                    assert_eq!(packet.headers.layout(), opcode.layout());
                    assert_eq!(packet.ack_request, last);
                    assert_eq!(packet.destination, 1);
                    let reth = Reth { address: 0x7000, rkey: 0x77, length };
                    match packet.headers {
                        Headers::Remote(got) => assert_eq!(got, reth),
                        Headers::RemoteImmediate(got, word) => {
                            assert_eq!((got, word), (reth, 0xef01));
                        }
                        Headers::Immediate(word) if opcode == WriteLastImmediate => {
                            assert_eq!(word, 0xef01);
                        }
                        Headers::Immediate(word) => assert_eq!(word, 0xabcd),
                        Headers::Invalidate(key) => assert_eq!(key, 0x123),
                        _ => {}
                    }
                    sent.extend(payload(packet));
                }
                assert_eq!(sent, data[..length as usize]);
            }
            let numbers = psns(&packets);
            assert_eq!(numbers, (0..packets.len() as u32).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_read_consumes_the_psns_of_its_answer() {
    let mut end = Setup::default().end(1);
    for (length, _) in [(0, 1), (256, 1), (257, 2), (1000, 4)] {
        let list = end.device.list(0, length);
        end.device.post(Operation::Read(REMOTE), list);
    }
    let packets = end.packets(0);
    assert_eq!(psns(&packets), [0, 1, 2, 4]);
    for (packet, length) in packets.iter().zip([0, 256, 257, 1000]) {
        assert_eq!(packet.opcode, Opcode::ReadRequest);
        assert_eq!(packet.headers, Headers::Remote(Reth { address: 0x7000, rkey: 0x77, length }));
        assert!(packet.ack_request && packet.payload.is_empty());
    }
    end.take(0, [&read_answer(Opcode::ReadResponseOnly, 0, &[])]);
    let list = end.device.list(0, 1);
    end.device.post(Operation::Send, list);
    assert_eq!(psns(&end.packets(0)), [8]);
}

#[test]
fn psns_count_around_after_24_bits() {
    let setup = Setup { first_psn: 0xff_fffe, ..Setup::default() };
    let (mut a, mut b) = setup.pair();
    a.device.write(0, &pattern(1500, 2));
    let (from, to) = (a.device.list(0, 1500), b.device.remote(0x4000));
    a.device.post(Operation::Write(to), from);
    let back = a.device.list(0x2000, 1500);
    a.device.post(Operation::Read(to), back);
    let to_b = a.packets(0);
    let numbers: Vec<u32> = to_b.iter().map(|packet| packet.psn.get()).collect();
    assert_eq!(numbers, [0xff_fffe, 0xff_ffff, 0, 1, 2, 3, 4]);
    let answers = b.answer(0, &to_b);
    a.take(0, &answers);
    assert_eq!(a.device.statuses(), [Status::Success; 2]);
    assert_eq!(a.device.read(0x2000, 1500), pattern(1500, 2));
}

#[test]
fn reads_and_atomics_outstanding_are_limited() {
    let mut end = Setup { reads: 2, ..Setup::default() }.end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Read(REMOTE), word.clone());
    end.device.post(Operation::FetchAdd { remote: REMOTE, add: 3 }, word.clone());
    end.device.post(Operation::Read(REMOTE), word.clone());
    end.device.post(Operation::Send, word);
    assert_eq!(psns(&end.packets(0)), [0, 1]);
    end.take(0, [&read_answer(Opcode::ReadResponseOnly, 0, &[1; 8])]);
    let next = end.packets(0);
    assert_eq!(summary(&next), [(Opcode::ReadRequest, 2, true), (Opcode::SendOnly, 3, true)]);
}

#[test]
fn without_outstanding_reads_a_read_is_a_local_error() {
    let mut end = Setup { reads: 0, ..Setup::default() }.end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Read(REMOTE), word);
    assert!(end.packets(0).is_empty());
    assert_eq!(end.device.statuses(), [Status::LocalQpOperation]);
}

#[test]
fn a_fenced_request_waits_for_reads_and_atomics_before_it() {
    let mut end = Setup::default().end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Write(REMOTE), word.clone());
    end.device.post(Operation::Read(REMOTE), word.clone());
    let swap = Operation::CompareSwap { remote: REMOTE, compare: 1, swap: 2 };
    end.device.post(swap, word.clone());
    end.device.post_request(Request { fenced: true, ..request(Operation::Send, word.clone()) });
    end.device.post(Operation::Send, word);
    assert_eq!(psns(&end.packets(0)), [0, 1, 2]);
    end.take(0, [&read_answer(Opcode::ReadResponseOnly, 1, &[1; 8])]);
    assert_eq!(end.device.sent.len(), 2, "a read's answer acknowledges what is before it");
    assert!(end.packets(0).is_empty());
    let headers = Headers::AtomicAck(positive(), 9);
    end.take(0, [&answer(Opcode::AtomicAcknowledge, 2, headers)]);
    assert_eq!(psns(&end.packets(0)), [3, 4]);
}

#[test]
fn a_fence_does_not_wait_for_writes() {
    let mut end = Setup::default().end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Write(REMOTE), word.clone());
    end.device.post_request(Request { fenced: true, ..request(Operation::Send, word) });
    assert_eq!(psns(&end.packets(0)), [0, 1]);
}

#[test]
fn one_acknowledgement_completes_everything_before_it_in_order() {
    let mut end = Setup::default().end(1);
    for _ in 0..5 {
        let list = end.device.list(0, 300);
        end.device.post(Operation::Write(REMOTE), list);
    }
    assert_eq!(end.packets(0).len(), 10);
    end.take(0, [&ack(4)]);
    assert_eq!(end.device.sent, [(0, Status::Success), (1, Status::Success)]);
    end.take(0, [&ack(9)]);
    assert_eq!(end.device.sent.iter().map(|sent| sent.0).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(end.connection.next_deadline(), None);
}

#[test]
fn ghosts_change_nothing() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 300);
    end.device.post(Operation::Write(REMOTE), list.clone());
    end.packets(0);
    let never = [0x80_0000 - 100, 2, 3, 0xff_ffff].map(ack);
    end.take(5, &never);
    end.take(
        5,
        &[nak(2, NakCode::RemoteAccess), rnr(5, 1), nak(0xff_fff0, NakCode::SequenceError)],
    );
    assert!(end.device.sent.is_empty() && end.packets(5).is_empty());
    end.take(6, &[ack(1), ack(1), ack(0), nak(0, NakCode::InvalidRequest)]);
    assert_eq!(end.device.sent, [(0, Status::Success)]);
    assert!(end.packets(6).is_empty());
}

#[test]
fn a_timeout_sends_again_from_the_oldest_unacknowledged() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 1000);
    end.device.post(Operation::Write(REMOTE), list.clone());
    end.device.post(Operation::Send, list);
    let first = end.packets(10);
    assert_eq!(first.len(), 8);
    assert_eq!(end.connection.next_deadline(), Some(10 + TIMEOUT));
    end.take(500, [&ack(1)]);
    assert_eq!(
        end.connection.next_deadline(),
        Some(500 + TIMEOUT),
        "progress starts the time again"
    );
    assert!(end.packets(500 + TIMEOUT - 1).is_empty());
    let again = end.packets(500 + TIMEOUT);
    assert_eq!(summary(&again), summary(&first)[2..]);
    for (one, other) in again.iter().zip(&first[2..]) {
        assert_eq!(one.headers, other.headers);
        assert_eq!(payload(one), payload(other));
    }
}

#[test]
fn the_retry_count_says_how_often_it_is_sent_again() {
    for retry_count in 0..=7 {
        let mut end = Setup { retry_count, ..Setup::default() }.end(1);
        let list = end.device.list(0, 8);
        end.device.post(Operation::Send, list.clone());
        end.device.post(Operation::Send, list);
        let mut now = 0;
        let mut transmissions = 0;
        while !end.connection.is_failed() {
            transmissions += end.packets(now).len();
            now = end.connection.next_deadline().unwrap_or(now);
        }
        assert_eq!(transmissions, 2 * (1 + usize::from(retry_count)));
        assert_eq!(now, TIMEOUT * (1 + u64::from(retry_count)));
        let failed = Status::TransportRetryExceeded;
        assert_eq!(end.device.sent, [(0, failed), (1, Status::WrFlushed)]);
        assert_eq!(end.device.failures, [Failure::Request(failed)]);
        assert_eq!(end.connection.next_deadline(), None);
    }
}

#[test]
fn progress_gives_the_retries_back() {
    let mut end = Setup { retry_count: 1, ..Setup::default() }.end(1);
    let list = end.device.list(0, 1280);
    end.device.post(Operation::Send, list);
    let mut now = 0;
    for acknowledged in 0..4 {
        end.packets(now);
        now += TIMEOUT;
        assert_eq!(end.packets(now).len(), 5 - acknowledged);
        end.take(now, [&ack(acknowledged as u32)]);
    }
    assert!(!end.connection.is_failed());
    end.packets(now + TIMEOUT);
    end.packets(now + 2 * TIMEOUT);
    assert_eq!(end.device.statuses(), [Status::TransportRetryExceeded]);
}

#[test]
fn timeout_code_0_waits_for_ever() {
    let mut end = Setup { timeout: 0, ..Setup::default() }.end(1);
    let list = end.device.list(0, 8);
    end.device.post(Operation::Send, list);
    assert_eq!(end.packets(0).len(), 1);
    assert_eq!(end.connection.next_deadline(), None);
    assert!(end.packets(u64::MAX).is_empty());
}

#[test]
fn a_sequence_nak_acknowledges_what_is_before_it_and_goes_back_once() {
    let mut end = Setup::default().end(1);
    for _ in 0..4 {
        let list = end.device.list(0, 500);
        end.device.post(Operation::Write(REMOTE), list);
    }
    let first = end.packets(0);
    end.take(1, &[nak(3, NakCode::SequenceError), nak(3, NakCode::SequenceError)]);
    assert_eq!(end.device.sent, [(0, Status::Success)]);
    let again = end.packets(1);
    assert_eq!(summary(&again), summary(&first)[3..]);
    end.take(2, [&nak(3, NakCode::SequenceError)]);
    assert!(end.packets(2).is_empty(), "the same NAK says nothing new");
    // It counts as one retry of three.
    for retry in 1..=2 {
        assert_eq!(end.packets(1 + retry * TIMEOUT).len(), 5);
    }
    end.packets(1 + 3 * TIMEOUT);
    assert_eq!(end.device.sent[1], (1, Status::TransportRetryExceeded));
}

#[test]
fn after_a_timeout_the_same_sequence_nak_is_news() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 500);
    end.device.post(Operation::Write(REMOTE), list);
    end.packets(0);
    end.take(0, [&nak(0, NakCode::SequenceError)]);
    assert_eq!(end.packets(0).len(), 2);
    assert_eq!(end.packets(TIMEOUT).len(), 2);
    end.take(TIMEOUT, [&nak(0, NakCode::SequenceError)]);
    assert_eq!(end.packets(TIMEOUT).len(), 2);
}

#[test]
fn an_acknowledgement_for_what_was_sent_before_going_back_counts() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 256 * 40);
    end.device.post(Operation::Write(REMOTE), list);
    assert_eq!(end.packets(0).len(), 40);
    let _ = end.connection.advance(TIMEOUT, &mut end.device);
    let again = end.device.out.drain(..).count();
    assert!(0 < again && again < 40, "one call sends a bounded number of packets");
    end.take(TIMEOUT, [&ack(39)]);
    assert_eq!(end.device.statuses(), [Status::Success]);
    assert!(end.packets(TIMEOUT).is_empty());
}

#[test]
fn the_peer_s_refusals_fail_the_request_that_they_are_about() {
    for (code, status) in [
        (NakCode::InvalidRequest, Status::RemoteInvalidRequest),
        (NakCode::RemoteAccess, Status::RemoteAccess),
        (NakCode::RemoteOperational, Status::RemoteOperational),
    ] {
        let mut end = Setup::default().end(1);
        for _ in 0..4 {
            let list = end.device.list(0, 500);
            end.device.post(Operation::Write(REMOTE), list);
        }
        end.packets(0);
        let list = end.device.list(0, 500);
        end.device.post(Operation::Write(REMOTE), list);
        end.take(1, [&nak(3, code)]);
        let flushed = Status::WrFlushed;
        assert_eq!(end.device.statuses(), [Status::Success, status, flushed, flushed]);
        assert_eq!(end.device.failures, [Failure::Request(status)]);
        assert_eq!(end.device.requests.len(), 1, "what was never taken is the owner's to flush");
        assert!(end.packets(1).is_empty());
        end.take(2, [&ack(7)]);
        assert_eq!(end.device.sent.len(), 4);
    }
}

#[test]
fn a_reserved_syndrome_is_a_bad_response() {
    for byte in [0x40, 0x5f, 0x64, 0x7f, 0x80, 0xff] {
        let mut end = Setup::default().end(1);
        let list = end.device.list(0, 8);
        end.device.post(Operation::Send, list);
        end.packets(0);
        end.take(1, [&syndrome(0, Syndrome::Reserved(byte))]);
        assert_eq!(end.device.statuses(), [Status::BadResponse]);
    }
}

#[test]
fn after_an_rnr_nak_nothing_is_sent_for_the_time_of_its_code() {
    for code in 0..32 {
        let mut end = Setup::default().end(1);
        for _ in 0..3 {
            let list = end.device.list(0, 8);
            end.device.post(Operation::Send, list);
        }
        assert_eq!(end.packets(0).len(), 3);
        end.take(1000, &[rnr(1, code), rnr(1, code)]);
        assert_eq!(end.device.sent, [(0, Status::Success)]);
        let list = end.device.list(0, 8);
        end.device.post(Operation::Send, list);
        let until = 1000 + rnr_timer(code);
        assert_eq!(end.connection.next_deadline(), Some(until));
        assert!(end.packets(until - 1).is_empty());
        assert_eq!(psns(&end.packets(until)), [1, 2, 3]);
        assert_eq!(end.connection.next_deadline(), Some(until + TIMEOUT));
    }
}

#[test]
fn the_rnr_retry_count_says_how_often_it_is_sent_again() {
    for rnr_retry in 0..7 {
        let mut end = Setup { rnr_retry, retry_count: 0, ..Setup::default() }.end(1);
        for _ in 0..2 {
            let list = end.device.list(0, 8);
            end.device.post(Operation::Send, list);
        }
        let mut now = 0;
        for _ in 0..rnr_retry {
            assert_eq!(end.packets(now).len(), 2);
            end.take(now, [&rnr(0, 3)]);
            now += rnr_timer(3);
        }
        assert_eq!(end.packets(now).len(), 2);
        assert!(end.device.sent.is_empty());
        end.take(now, [&rnr(0, 3)]);
        assert_eq!(end.device.statuses(), [Status::RnrRetryExceeded, Status::WrFlushed]);
    }
}

#[test]
fn an_rnr_nak_during_the_wait_does_not_count() {
    let mut end = Setup { rnr_retry: 1, ..Setup::default() }.end(1);
    let list = end.device.list(0, 8);
    end.device.post(Operation::Send, list);
    end.packets(0);
    end.take(0, &[rnr(0, 3), rnr(0, 3), rnr(0, 4)]);
    assert_eq!(end.connection.next_deadline(), Some(rnr_timer(3)));
    assert_eq!(end.packets(rnr_timer(3)).len(), 1);
}

#[test]
fn rnr_retry_7_has_no_end_and_progress_gives_the_retries_back() {
    let mut patient = Setup { rnr_retry: 7, ..Setup::default() }.end(1);
    let mut other = Setup { rnr_retry: 1, ..Setup::default() }.end(1);
    for end in [&mut patient, &mut other] {
        for _ in 0..40 {
            let list = end.device.list(0, 8);
            end.device.post(Operation::Send, list);
        }
    }
    let mut now = 0;
    for round in 0..1000 {
        assert!(!patient.packets(now).is_empty());
        patient.take(now, [&rnr(0, 1)]);
        if round < 40 {
            assert!(!other.packets(now).is_empty());
            other.take(now, [&rnr(round, 1)]);
        }
        now += rnr_timer(1);
    }
    assert!(patient.device.sent.is_empty() && !patient.connection.is_failed());
    assert_eq!(other.device.statuses(), [Status::Success; 39]);
}

#[test]
fn an_acknowledgement_during_the_rnr_wait_ends_it_only_if_it_is_for_what_waits() {
    let mut end = Setup::default().end(1);
    for _ in 0..3 {
        let list = end.device.list(0, 8);
        end.device.post(Operation::Send, list);
    }
    end.packets(0);
    end.take(0, &[rnr(1, 0), ack(0)]);
    assert!(end.packets(10).is_empty());
    end.take(10, [&ack(1)]);
    assert_eq!(psns(&end.packets(10)), [2]);
}

#[test]
fn a_gap_in_a_read_s_answer_asks_again_for_the_rest_once() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0x100, 1024);
    end.device.post(Operation::Read(REMOTE), list);
    let list = end.device.list(0, 8);
    end.device.post(Operation::Write(REMOTE), list);
    end.packets(0);
    let data = pattern(1024, 3);
    let part = |at: usize| &data[at * 256..][..256];
    end.take(
        0,
        &[
            read_answer(Opcode::ReadResponseFirst, 0, part(0)),
            read_answer(Opcode::ReadResponseMiddle, 2, part(2)),
            read_answer(Opcode::ReadResponseLast, 3, part(3)),
            ack(4),
        ],
    );
    assert!(end.device.sent.is_empty());
    let again = end.packets(0);
    assert_eq!(summary(&again), [(Opcode::ReadRequest, 1, true), (Opcode::WriteOnly, 4, true)]);
    let rest = Reth { address: 0x7000 + 256, rkey: 0x77, length: 768 };
    assert_eq!(again[0].headers, Headers::Remote(rest));
    end.take(
        0,
        &[
            read_answer(Opcode::ReadResponseFirst, 1, part(1)),
            read_answer(Opcode::ReadResponseMiddle, 2, part(2)),
            read_answer(Opcode::ReadResponseLast, 3, part(3)),
        ],
    );
    assert_eq!(end.device.sent, [(0, Status::Success)]);
    assert_eq!(end.device.read(0x100, 1024), data);
    end.take(0, [&ack(4)]);
    assert_eq!(end.device.sent.len(), 2);
}

#[test]
fn an_acknowledgement_does_not_complete_a_read_before_it() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 8);
    end.device.post(Operation::Write(REMOTE), list.clone());
    end.device.post(Operation::FetchAdd { remote: REMOTE, add: 1 }, list.clone());
    end.device.post(Operation::Write(REMOTE), list);
    end.packets(0);
    end.take(0, [&ack(2)]);
    assert_eq!(end.device.sent, [(0, Status::Success)]);
    assert_eq!(psns(&end.packets(0)), [1, 2], "the atomic is asked for again");
    end.take(0, [&answer(Opcode::AtomicAcknowledge, 1, Headers::AtomicAck(positive(), 0x0102))]);
    assert_eq!(end.device.sent.len(), 2);
    assert_eq!(end.device.read(0, 8), 0x0102u64.to_ne_bytes());
}

#[test]
fn late_answers_to_the_first_request_count_after_going_back() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 512);
    end.device.post(Operation::Write(REMOTE), list.clone());
    end.device.post(Operation::Read(REMOTE), list.clone());
    end.device.post(Operation::Write(REMOTE), list);
    end.packets(0);
    // Time runs out, but before anything is sent again, the answers come.
    end.take(TIMEOUT, [&nak(0, NakCode::SequenceError)]);
    end.take(TIMEOUT, [&ack(1), &read_answer(Opcode::ReadResponseFirst, 2, &[7; 256])]);
    assert_eq!(end.device.sent, [(0, Status::Success)]);
    let again = end.packets(TIMEOUT);
    assert_eq!(psns(&again), [3, 4, 5]);
    let rest = Reth { address: 0x7000 + 256, rkey: 0x77, length: 256 };
    assert_eq!(again[0].headers, Headers::Remote(rest));
}

#[test]
fn answers_that_do_not_fit_the_request_are_bad_responses() {
    use Opcode::*;
    let full = [1; 256];
    // To a read of 300 bytes: two packets of 256 and 44 bytes.
    let first = |bytes: &[u8]| vec![read_answer(ReadResponseFirst, 0, bytes)];
    let second = |opcode, bytes: &[u8]| {
        vec![read_answer(ReadResponseFirst, 0, &full), read_answer(opcode, 1, bytes)]
    };
    let cases = [
        first(&full[..255]),
        first(&[]),
        vec![read_answer(ReadResponseOnly, 0, &full)],
        vec![read_answer(ReadResponseLast, 0, &full[..44])],
        second(ReadResponseMiddle, &full[..44]),
        second(ReadResponseMiddle, &full),
        second(ReadResponseLast, &full[..43]),
        second(ReadResponseLast, &full[..45]),
        second(ReadResponseLast, &[]),
        vec![answer(AtomicAcknowledge, 0, Headers::AtomicAck(positive(), 1))],
    ];
    for (case, packets) in cases.iter().enumerate() {
        let mut end = Setup::default().end(1);
        let list = end.device.list(0, 300);
        end.device.post(Operation::Read(REMOTE), list);
        end.packets(0);
        end.take(0, packets);
        assert_eq!(end.device.statuses(), [Status::BadResponse], "case {case}");
    }
    // Read and atomic answers to other requests.
    for (operation, packet) in [
        (Operation::Send, read_answer(ReadResponseOnly, 0, &[1; 8])),
        (Operation::Send, answer(AtomicAcknowledge, 0, Headers::AtomicAck(positive(), 1))),
        (Operation::FetchAdd { remote: REMOTE, add: 1 }, read_answer(ReadResponseOnly, 0, &[1; 8])),
    ] {
        let mut end = Setup::default().end(1);
        let list = end.device.list(0, 8);
        end.device.post(operation, list);
        end.packets(0);
        end.take(0, [&packet]);
        assert_eq!(end.device.statuses(), [Status::BadResponse], "{operation:?}");
    }
}

#[test]
fn a_list_that_may_not_be_read_fails_in_its_turn() {
    let mut end = Setup::default().end(1);
    let good = end.device.list(0, 300);
    let bad = List::from_iter([
        Entry { address: BASE, length: 300, lkey: end.device.key },
        Entry { address: BASE, length: 1, lkey: 0xbad },
    ]);
    end.device.post(Operation::Write(REMOTE), good.clone());
    end.device.post(Operation::Write(REMOTE), bad);
    end.device.post(Operation::Write(REMOTE), good);
    let packets = end.packets(0);
    // The first packet of the bad one is all right.
    assert_eq!(psns(&packets), [0, 1, 2]);
    assert!(end.device.sent.is_empty());
    end.take(1, [&ack(1)]);
    end.advance(1);
    assert_eq!(end.device.sent, [(0, Status::Success), (1, Status::LocalProtection)]);
    assert_eq!(end.device.failures, [Failure::Request(Status::LocalProtection)]);
    assert_eq!(end.device.requests.len(), 1);
}

#[test]
fn an_answer_to_memory_that_may_not_be_written_is_a_local_protection_error() {
    for read in [true, false] {
        let mut end = Setup::default().end(1);
        let key = end.device.register(0, 8, Access { local_write: false, ..Access::ALL });
        let list = List::from_iter([Entry { address: BASE, length: 8, lkey: key }]);
        let (operation, packet) = if read {
            (Operation::Read(REMOTE), read_answer(Opcode::ReadResponseOnly, 0, &[1; 8]))
        } else {
            let headers = Headers::AtomicAck(positive(), 1);
            (
                Operation::FetchAdd { remote: REMOTE, add: 1 },
                answer(Opcode::AtomicAcknowledge, 0, headers),
            )
        };
        end.device.post(operation, list);
        end.packets(0);
        end.take(0, [&packet]);
        assert_eq!(end.device.statuses(), [Status::LocalProtection]);
        assert_eq!(end.device.read(0, 8), [0; 8]);
    }
}

#[test]
fn lengths_that_no_message_has_are_local_length_errors() {
    let huge = |length| Entry { address: BASE, length, lkey: 1 };
    let add = Operation::FetchAdd { remote: REMOTE, add: 1 };
    let swap = Operation::CompareSwap { remote: REMOTE, compare: 1, swap: 1 };
    let over = List::from_iter([huge(1 << 31), huge(1)]);
    for (operation, list) in [
        (Operation::Send, over.clone()),
        (Operation::Write(REMOTE), over.clone()),
        (Operation::Read(REMOTE), over),
        (add, List::from_iter([huge(7)])),
        (add, List::from_iter([huge(8), huge(1)])),
        (swap, List::new()),
    ] {
        let mut end = Setup::default().end(1);
        let word = end.device.list(0, 8);
        end.device.post(Operation::Send, word);
        end.device.post(operation, list);
        assert_eq!(end.packets(0).len(), 1);
        end.take(0, [&ack(0)]);
        end.advance(0);
        assert_eq!(end.device.statuses(), [Status::Success, Status::LocalLength], "{operation:?}");
    }
}

#[test]
fn a_refused_entry_completes_with_its_status_in_its_turn() {
    let mut end = Setup::default().end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Send, word.clone());
    end.device.post(Operation::Refused(Status::MemoryWindowBind), List::new());
    end.device.post(Operation::Send, word);
    assert_eq!(psns(&end.packets(0)), [0]);
    assert!(end.device.sent.is_empty());
    end.take(0, [&ack(0)]);
    end.advance(0);
    assert_eq!(end.device.statuses(), [Status::Success, Status::MemoryWindowBind]);
}

#[test]
fn local_work_is_done_between_the_requests_around_it() {
    let mut end = Setup::default().end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Local, List::new());
    end.device.post(Operation::Send, word.clone());
    let second = end.device.post(Operation::Local, List::new());
    end.device.post(Operation::Send, word.clone());
    assert_eq!(psns(&end.packets(0)), [0]);
    assert_eq!(end.device.local_done, [0]);
    end.take(0, [&ack(0)]);
    assert_eq!(psns(&end.packets(0)), [1], "local work consumes no PSN");
    assert_eq!(end.device.local_done, [0, second]);
    end.take(0, [&ack(1)]);
    assert_eq!(end.device.statuses(), [Status::Success; 4]);
    let failing = end.device.post(Operation::Local, List::new());
    end.device.local.insert(failing, Status::MemoryWindowBind);
    end.advance(0);
    assert_eq!(end.device.sent.last(), Some(&(failing, Status::MemoryWindowBind)));
    assert!(end.connection.is_failed());
}

#[test]
fn inline_bytes_are_cut_and_sent_again_like_others() {
    let mut end = Setup::default().end(1);
    let data = pattern(600, 4);
    end.device.post_request(Request {
        data: Data::Inline(Buffer::copy_of(&data)),
        ..request(Operation::Write(REMOTE), List::new())
    });
    let sent: Vec<u8> = end.packets(0).iter().flat_map(payload).collect();
    assert_eq!(sent, data);
    let again: Vec<u8> = end.packets(TIMEOUT).iter().flat_map(payload).collect();
    assert_eq!(again, data);
    // What is answered needs a place in memory.
    let mut end = Setup::default().end(1);
    end.device.post_request(Request {
        data: Data::Inline(Buffer::copy_of(&data[..8])),
        ..request(Operation::FetchAdd { remote: REMOTE, add: 1 }, List::new())
    });
    end.advance(0);
    assert_eq!(end.device.statuses(), [Status::LocalQpOperation]);
}

#[test]
fn only_the_last_packet_is_solicited() {
    let mut end = Setup::default().end(1);
    let list = end.device.list(0, 600);
    end.device.post_request(Request { solicited: true, ..request(Operation::Send, list) });
    let solicited: Vec<bool> = end.packets(0).iter().map(|packet| packet.solicited).collect();
    assert_eq!(solicited, [false, false, true]);
}

#[test]
fn the_window_bounds_what_is_unacknowledged_and_keeps_asking() {
    let mut end = Setup { window: 8, ..Setup::default() }.end(1);
    let list = end.device.list(0, 256 * 20);
    end.device.post(Operation::Write(REMOTE), list);
    let packets = end.packets(0);
    let asked: Vec<u32> = summary(&packets).iter().filter(|p| p.2).map(|p| p.1).collect();
    assert_eq!(packets.len(), 8);
    assert_eq!(asked, [1, 3, 5, 7]);
    end.take(0, [&ack(3)]);
    assert_eq!(psns(&end.packets(0)), [8, 9, 10, 11]);
}

#[test]
fn half_of_all_psns_may_be_outstanding_and_no_more() {
    let setup = Setup { window: u32::MAX, ..Setup::default() };
    let mut end = setup.end(1);
    let list = List::from_iter([Entry { address: BASE, length: 1 << 31, lkey: end.device.key }]);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Read(REMOTE), list.clone());
    end.device.post(Operation::Send, word.clone());
    assert_eq!(psns(&end.packets(0)), [0], "a read of 2^31 bytes takes 2^23 PSNs of 256 bytes");
    end.take(0, [&read_answer(Opcode::ReadResponseFirst, 0, &[1; 256])]);
    assert_eq!(psns(&end.packets(0)), [1 << 23]);
    // A gap far ahead is still one.
    let far = read_answer(Opcode::ReadResponseLast, (1 << 23) - 1, &[1; 256]);
    end.take(0, [&far, &far]);
    let again = end.packets(0);
    assert_eq!(psns(&again), [1, 1 << 23]);
    let rest = Reth { address: 0x7000 + 256, rkey: 0x77, length: (1 << 31) - 256 };
    assert_eq!(again[0].headers, Headers::Remote(rest));

    let mut end = setup.end(1);
    end.device.post(Operation::Send, word);
    end.device.post(Operation::Read(REMOTE), list);
    assert_eq!(psns(&end.packets(0)), [0]);
    end.take(0, [&ack(0)]);
    assert_eq!(psns(&end.packets(0)), [1]);
}

#[test]
fn a_drained_queue_takes_nothing_more() {
    let mut end = Setup::default().end(1);
    let word = end.device.list(0, 8);
    end.device.post(Operation::Send, word.clone());
    assert_eq!(end.packets(0).len(), 1);
    end.connection.set_draining(true);
    end.device.post(Operation::Send, word);
    assert!(end.packets(0).is_empty() && !end.connection.is_drained());
    end.take(0, [&ack(0)]);
    assert!(end.packets(0).is_empty() && end.connection.is_drained());
    end.connection.set_draining(false);
    assert_eq!(psns(&end.packets(0)), [1]);
}

#[test]
fn the_owner_s_error_flushes_what_was_taken_once() {
    let mut end = Setup::default().end(1);
    let word = end.device.list(0, 8);
    for _ in 0..3 {
        end.device.post(Operation::Read(REMOTE), word.clone());
    }
    end.packets(0);
    end.device.post(Operation::Send, word);
    end.connection.fail(&mut end.device);
    end.connection.fail(&mut end.device);
    assert_eq!(end.device.statuses(), [Status::WrFlushed; 3]);
    assert_eq!(end.device.failures, [Failure::Owner]);
    assert_eq!(end.device.requests.len(), 1);
    assert!(end.connection.is_failed() && end.packets(TIMEOUT).is_empty());
}

#[test]
fn before_ready_to_send_nothing_is_taken() {
    let mut connection = doorbell_model::rc::Connection::new(Setup::default().attributes(1));
    let mut device = Device::new(16);
    let word = device.list(0, 8);
    device.post(Operation::Send, word);
    assert_eq!(connection.advance(0, &mut device), doorbell_model::rc::Progress::Idle);
    assert_eq!((device.requests.len(), device.out.len()), (1, 0));
    connection.receive(0, &ack(0), &mut device);
    assert_eq!(connection.next_deadline(), None);
    connection.start_sending(Setup::default().send_attributes());
    assert_eq!(connection.advance(0, &mut device), doorbell_model::rc::Progress::Idle);
    assert_eq!((device.requests.len(), device.out.len()), (0, 1));
}

#[test]
fn middle_packets_go_in_runs_where_that_is_allowed_and_come_apart_again() {
    for (list_of_pieces, longest, runs) in [(false, 1, 18), (false, 6, 6), (true, 6, 18)] {
        let mut end = Setup::default().end(1);
        end.connection.set_longest_run(longest);
        let data = pattern(0x4000, 9);
        end.device.write(0, &data);
        let length = 17 * 256 + 5;
        // Pieces of half a packet that do not touch: a run of them would be too many.
        let pieces: Vec<(u64, u32)> = if list_of_pieces {
            (0..35).map(|at| (at * 200, if at < 34 { 128 } else { 5 })).collect()
        } else {
            vec![(0, length)]
        };
        let list: List = pieces.iter().map(|&(at, len)| end.device.list(at, len)[0]).collect();
        let expected: Vec<u8> =
            pieces.iter().flat_map(|&(at, len)| end.device.read(at, len as usize)).collect();
        end.device.post(Operation::Write(REMOTE), list);
        let packets = end.packets(0);
        if list_of_pieces {
            assert!(packets.iter().all(|packet| packet.run == 1));
        } else {
            assert_eq!(packets.len(), runs);
            assert!(packets.iter().all(|packet| packet.run <= longest));
        }
        let single: Vec<Packet> = packets.into_iter().flat_map(Packet::split).collect();
        assert_eq!(psns(&single), (0..length.div_ceil(256)).collect::<Vec<_>>());
        let opcodes: Vec<Opcode> = single.iter().map(|packet| packet.opcode).collect();
        assert_eq!(opcodes[0], Opcode::WriteFirst);
        assert_eq!(opcodes.last(), Some(&Opcode::WriteLast));
        assert!(opcodes[1..opcodes.len() - 1].iter().all(|code| *code == Opcode::WriteMiddle));
        assert!(single.iter().all(|packet| packet.run == 1 && packet.payload.len() <= 256));
        let sent: Vec<u8> = single.iter().flat_map(payload).collect();
        assert_eq!(sent, expected);
    }
}

#[test]
fn a_run_keeps_to_the_window_and_asks_for_acknowledgements() {
    let mut end = Setup { window: 8, ..Setup::default() }.end(1);
    end.connection.set_longest_run(100);
    let list = end.device.list(0, 256 * 30);
    end.device.post(Operation::Write(REMOTE), list);
    let packets = end.packets(0);
    let runs: Vec<_> = packets.iter().map(|p| (p.run, p.ack_request)).collect();
    assert_eq!(runs, [(1, false), (7, true)]);
    end.take(0, [&ack(7)]);
    let runs: Vec<_> = end.packets(0).iter().map(|p| (p.run, p.ack_request)).collect();
    assert_eq!(runs, [(8, true)]);
    // A window of nothing is taken as one of one packet.
    let mut end = Setup { window: 0, ..Setup::default() }.end(1);
    end.connection.set_longest_run(100);
    let list = end.device.list(0, 256 * 30);
    end.device.post(Operation::Write(REMOTE), list);
    assert_eq!(psns(&end.packets(0)), [0]);
    end.take(0, [&ack(0)]);
    assert_eq!(psns(&end.packets(0)), [1]);
}

#[test]
fn a_read_s_answer_comes_in_runs_and_is_asked_for_again_from_within_one() {
    let (mut a, mut b) = Setup::default().pair();
    b.connection.set_longest_run(6);
    let data = pattern(0x2000, 10);
    b.device.write(0, &data);
    let (into, from) = (a.device.list(0x4000, 0x2000), b.device.remote(0));
    a.device.post(Operation::Read(from), into);
    let to_b = a.packets(0);
    let answers = b.answer(0, &to_b);
    let runs: Vec<u16> = answers.iter().map(|packet| packet.run).collect();
    assert_eq!(runs, [1, 6, 6, 3, 6, 6, 3, 1]);
    // The fabric splits one, and loses a packet of it.
    let split: Vec<Packet> = answers[1].clone().split().collect();
    a.take(0, answers[..1].iter().chain(&split[..2]).chain(&split[3..]).chain(&answers[2..]));
    let again = a.packets(0);
    assert_eq!(psns(&again), [3]);
    let answers = b.answer(0, &again);
    a.take(0, &answers);
    assert_eq!(a.device.statuses(), [Status::Success]);
    assert_eq!(a.device.read(0x4000, 0x2000), data);
    // Runs of what does not run, or of the wrong length, are bad answers.
    for change in [
        |packet: &mut Packet| packet.opcode = Opcode::ReadResponseFirst,
        |packet: &mut Packet| {
            (packet.opcode, packet.payload) =
                (Opcode::ReadResponseFirst, packet.payload.part(0, 256));
        },
        // All of what is left: the last packet does not run.
        |packet: &mut Packet| {
            (packet.run, packet.payload) =
                (31, doorbell_model::memory::Payload::copy_of(&[1; 31 * 256]));
        },
        |packet: &mut Packet| packet.run = 5,
        |packet: &mut Packet| packet.run = 7,
    ] {
        let (mut a, mut b) = Setup::default().pair();
        b.connection.set_longest_run(6);
        let into = a.device.list(0x4000, 0x2000);
        a.device.post(Operation::Read(b.device.remote(0)), into);
        let mut answers = b.answer(0, &a.packets(0));
        change(&mut answers[1]);
        a.take(0, &answers[..2]);
        assert_eq!(a.device.statuses(), [Status::BadResponse]);
    }
}

#[test]
fn one_call_sends_a_bounded_number_of_packets_also_in_runs() {
    let burst = doorbell_model::rc::Connection::BURST;
    let count = |end: &mut End| -> u32 {
        let _ = end.connection.advance(0, &mut end.device);
        end.device.out.drain(..).map(|packet| u32::from(packet.run)).sum()
    };
    for run in [1, 5, 16, 1000] {
        let (mut a, mut b) = Setup::default().pair();
        a.connection.set_longest_run(run);
        b.connection.set_longest_run(run);
        let list = a.device.list(0, 256 * 100);
        a.device.post(Operation::Write(REMOTE), list.clone());
        assert_eq!(count(&mut a), burst);
        b.device.post(Operation::Read(a.device.remote(0)), list);
        let request = b.packets(0);
        a.take(0, &request);
        assert_eq!(count(&mut a), 2 * burst, "each half has its own bound");
    }
}

//! How a responder executes and answers each request: exact scenarios.

mod rig;

use doorbell_model::memory::{Access, Entry, List, Pages, Payload, Refusal};
use doorbell_model::rc::{
    Aeth, AtomicEth, Failure, Headers, Mtu, NakCode, Opcode, Packet, Psn, ReceiveCompletion,
    ReceiveKind, Reth, Status, Syndrome,
};
use rig::*;

/// A request with PSN `psn` after the first that asks for an acknowledgement.
fn request(opcode: Opcode, psn: u32, headers: Headers, bytes: &[u8]) -> Packet {
    Packet {
        opcode,
        solicited: false,
        partition_key: 0xffff,
        destination: 1,
        extended: None,
        ack_request: true,
        psn: Psn::new(Setup::default().first_psn).add(psn),
        headers,
        payload: Payload::copy_of(bytes),
        run: 1,
    }
}

fn send(opcode: Opcode, psn: u32, bytes: &[u8]) -> Packet {
    request(opcode, psn, Headers::Plain, bytes)
}

fn reth(end: &End, at: u64, length: u32) -> Reth {
    Reth { address: BASE + at, rkey: end.device.key, length }
}

fn write(end: &End, psn: u32, at: u64, bytes: &[u8]) -> Packet {
    let reth = reth(end, at, bytes.len() as u32);
    request(Opcode::WriteOnly, psn, Headers::Remote(reth), bytes)
}

fn read(end: &End, psn: u32, at: u64, length: u32) -> Packet {
    request(Opcode::ReadRequest, psn, Headers::Remote(reth(end, at, length)), &[])
}

fn add(end: &End, psn: u32, at: u64, add: u64) -> Packet {
    let atomic = AtomicEth { address: BASE + at, rkey: end.device.key, swap_add: add, compare: 0 };
    request(Opcode::FetchAdd, psn, Headers::Atomic(atomic), &[])
}

/// Opcode, PSN after the first, syndrome and message sequence number of an answer.
type Summary = (Opcode, u32, Option<(Syndrome, u32)>);

fn summary(packets: &[Packet]) -> Vec<Summary> {
    let first = Psn::new(Setup::default().first_psn);
    packets
        .iter()
        .map(|packet| {
            assert!(!packet.ack_request && !packet.solicited);
            assert_eq!(packet.destination, 0);
            let aeth = match packet.headers {
                Headers::Ack(aeth) | Headers::AtomicAck(aeth, _) => Some(aeth),
                _ => None,
            };
            let aeth = aeth.map(|Aeth { syndrome, message_sequence }| (syndrome, message_sequence));
            (packet.opcode, packet.psn.since(first), aeth)
        })
        .collect()
}

const POSITIVE: Syndrome = Syndrome::Ack { credits: 31 };

fn ack(psn: u32, message_sequence: u32) -> Summary {
    (Opcode::Acknowledge, psn, Some((POSITIVE, message_sequence)))
}

fn nak(psn: u32, message_sequence: u32, code: NakCode) -> Summary {
    (Opcode::Acknowledge, psn, Some((Syndrome::Nak(code), message_sequence)))
}

/// The peer's request `packets` get NAK `code` for the last, fail the connection, and leave memory as
/// it was but for `touched` bytes at its start.
#[track_caller]
fn refused(mut end: End, packets: &[Packet], code: NakCode) -> End {
    let answers = end.answer(0, packets);
    let (last, before) = summary(&answers).split_last().map(|(l, b)| (*l, b.to_vec())).unwrap();
    let wrong = packets.last().unwrap().psn.since(Psn::new(Setup::default().first_psn));
    let Some((_, message_sequence)) = last.2 else { panic!("no AETH") };
    assert_eq!(last, nak(wrong, message_sequence, code));
    assert!(before.iter().all(|packet| packet.2.is_none_or(|aeth| aeth.0 == POSITIVE)));
    let [Failure::Peer { nak, .. }] = end.device.failures[..] else {
        panic!("{:?}", end.device.failures)
    };
    assert_eq!(nak, code);
    assert!(end.connection.is_failed());
    // It is in Error: nothing is executed or answered any more.
    let after = request(Opcode::WriteOnly, wrong, Headers::Remote(reth(&end, 0, 1)), &[9]);
    assert!(end.answer(0, [&after]).is_empty());
    assert_eq!(end.device.failures.len(), 1);
    end
}

#[test]
fn a_write_lands_and_is_acknowledged_when_asked() {
    let mut end = Setup::default().end(0);
    let data = pattern(600, 1);
    let first = Headers::Remote(reth(&end, 0x100, 600));
    let mut packets = [
        request(Opcode::WriteFirst, 0, first, &data[..256]),
        send(Opcode::WriteMiddle, 1, &data[256..512]),
        send(Opcode::WriteLast, 2, &data[512..]),
    ];
    for packet in &mut packets[..2] {
        packet.ack_request = false;
    }
    assert!(end.answer(0, &packets[..2]).is_empty());
    assert_eq!(summary(&end.answer(0, &packets[2..])), [ack(2, 1)]);
    assert_eq!(end.device.read(0x100, 600), data);
    let around = [end.device.read(0xf0, 16), end.device.read(0x100 + 600, 16)];
    assert_eq!(around, [[0; 16], [0; 16]]);
    packets[2].psn = packets[2].psn.add(1);
    packets[2].opcode = Opcode::WriteOnly;
    packets[2].headers = Headers::Remote(reth(&end, 0, 88));
    packets[2].ack_request = false;
    assert!(end.answer(0, &packets[2..]).is_empty());
    assert_eq!(end.device.read(0, 88), data[512..]);
}

#[test]
fn one_acknowledgement_answers_a_batch() {
    let mut end = Setup::default().end(0);
    let packets: Vec<Packet> = (0..5).map(|n| write(&end, n, u64::from(n) * 8, &[1; 8])).collect();
    assert_eq!(summary(&end.answer(0, &packets)), [ack(4, 5)]);
}

#[test]
fn a_send_fills_the_next_receive() {
    let mut end = Setup::default().end(0);
    let data = pattern(300, 2);
    let list = List::from_iter([
        Entry { address: BASE + 0x10, length: 100, lkey: end.device.key },
        Entry { address: BASE + 0x400, length: 250, lkey: end.device.key },
    ]);
    let first = end.device.post_receive(list);
    let word = end.device.list(0x800, 4);
    let second = end.device.post_receive(word);
    let mut last = request(Opcode::SendLastImmediate, 1, Headers::Immediate(77), &data[256..]);
    last.solicited = true;
    let packets =
        [send(Opcode::SendFirst, 0, &data[..256]), last, send(Opcode::SendOnly, 2, &[1, 2, 3, 4])];
    assert_eq!(summary(&end.answer(0, &packets)), [ack(2, 2)]);
    assert_eq!(end.device.read(0x10, 100), data[..100]);
    assert_eq!(end.device.read(0x400, 201), [&data[100..], &[0]].concat());
    assert_eq!(end.device.read(0x800, 4), [1, 2, 3, 4]);
    let done = ReceiveCompletion {
        entry: first,
        status: Status::Success,
        kind: ReceiveKind::Send,
        length: 300,
        immediate: Some(77),
        invalidated: None,
        solicited: true,
    };
    let other =
        ReceiveCompletion { entry: second, length: 4, immediate: None, solicited: false, ..done };
    assert_eq!(end.device.received, [done, other]);
    assert_eq!(end.device.established, 1);
}

#[test]
fn a_write_with_immediate_consumes_a_receive_but_not_its_memory() {
    for length in [0u32, 5, 256, 300] {
        let mut end = Setup::default().end(0);
        let list = end.device.list(0x800, 4);
        let entry = end.device.post_receive(list);
        let data = vec![7; length as usize];
        let to = reth(&end, 0, length);
        let packets = if length <= 256 {
            let headers = Headers::RemoteImmediate(to, 99);
            vec![request(Opcode::WriteOnlyImmediate, 0, headers, &data)]
        } else {
            vec![
                request(Opcode::WriteFirst, 0, Headers::Remote(to), &data[..256]),
                request(Opcode::WriteLastImmediate, 1, Headers::Immediate(99), &data[256..]),
            ]
        };
        let answers = end.answer(0, &packets);
        assert_eq!(summary(&answers), [ack(packets.len() as u32 - 1, 1)]);
        assert_eq!(
            end.device.received,
            [ReceiveCompletion {
                entry,
                status: Status::Success,
                kind: ReceiveKind::WriteImmediate,
                length,
                immediate: Some(99),
                invalidated: None,
                solicited: false,
            }]
        );
        assert_eq!(end.device.read(0, 400)[..length as usize], data);
        assert_eq!(end.device.read(0x800, 4), [0; 4]);
    }
}

#[test]
fn a_read_is_answered_in_packets_of_the_mtu() {
    for mtu in Mtu::ALL {
        let size = mtu.bytes();
        for length in [0, 1, size, size + 1, 2 * size, 3 * size + 9] {
            let mut end = Setup { mtu, memory: 0x8000, ..Setup::default() }.end(0);
            let data = pattern(0x8000, 3);
            end.device.write(0, &data);
            let packets = [
                read(&end, 0, 0x30, length),
                write(&end, length.div_ceil(size).max(1), 0x7000, &[1]),
            ];
            let answers = end.answer(0, &packets);
            let (acknowledgement, answers) = answers.split_last().unwrap();
            assert_eq!(
                summary(std::slice::from_ref(acknowledgement)),
                [ack(packets[1].psn.since(packets[0].psn), 2)]
            );
            let count = length.div_ceil(size).max(1);
            assert_eq!(answers.len() as u32, count);
            for (at, packet) in (0..count).zip(answers) {
                let opcode = match (at == 0, at + 1 == count) {
                    (true, true) => Opcode::ReadResponseOnly,
                    (true, false) => Opcode::ReadResponseFirst,
                    (false, false) => Opcode::ReadResponseMiddle,
                    (false, true) => Opcode::ReadResponseLast,
                };
                let aeth = (opcode != Opcode::ReadResponseMiddle).then_some((POSITIVE, 1));
                assert_eq!(summary(std::slice::from_ref(packet)), [(opcode, at, aeth)]);
            }
            let got: Vec<u8> = answers.iter().flat_map(payload).collect();
            assert_eq!(got, data[0x30..0x30 + length as usize]);
        }
    }
}

#[test]
fn atomics_change_eight_bytes_and_answer_what_they_were() {
    let mut end = Setup::default().end(0);
    end.device.write(0x40, &10u64.to_ne_bytes());
    let swap = |psn, compare, swap_add| {
        let atomic = AtomicEth { address: BASE + 0x40, rkey: end.device.key, swap_add, compare };
        request(Opcode::CompareSwap, psn, Headers::Atomic(atomic), &[])
    };
    let packets = [add(&end, 0, 0x40, 5), swap(1, 15, 100), swap(2, 15, 200)];
    let answers = end.answer(0, &packets);
    let was: Vec<_> = answers.iter().map(|packet| packet.headers).collect();
    let expected = |message_sequence, was| {
        Headers::AtomicAck(Aeth { syndrome: POSITIVE, message_sequence }, was)
    };
    assert_eq!(was, [expected(1, 10), expected(2, 15), expected(3, 100)]);
    assert!(answers.iter().all(|packet| packet.opcode == Opcode::AtomicAcknowledge));
    assert_eq!(end.device.read(0x40, 8), 100u64.to_ne_bytes());
}

#[test]
fn one_nak_answers_a_gap() {
    let mut end = Setup::default().end(0);
    let packets: Vec<Packet> =
        (0..6).map(|n| write(&end, n, u64::from(n), &[n as u8 + 1])).collect();
    assert_eq!(summary(&end.answer(0, &packets[..1])), [ack(0, 1)]);
    let gap = NakCode::SequenceError;
    assert_eq!(summary(&end.answer(0, &packets[2..4])), [nak(1, 1, gap)]);
    assert!(end.answer(0, &packets[4..5]).is_empty());
    // Duplicates are answered meanwhile, and do not bring the NAK back.
    assert_eq!(summary(&end.answer(0, &packets[..1])), [ack(0, 1)]);
    assert!(end.answer(0, &packets[3..5]).is_empty());
    assert_eq!(end.device.read(0, 6), [1, 0, 0, 0, 0, 0]);
    // The missing one ends it; the next gap gets its own.
    assert_eq!(summary(&end.answer(0, &packets[1..2])), [ack(1, 2)]);
    assert_eq!(summary(&end.answer(0, &packets[3..])), [nak(2, 2, gap)]);
    assert_eq!(summary(&end.answer(0, &packets[2..])), [ack(5, 6)]);
    assert_eq!(end.device.read(0, 6), [1, 2, 3, 4, 5, 6]);
    assert!(end.device.failures.is_empty());
}

#[test]
fn the_gap_may_be_across_the_end_of_the_psns() {
    let mut end = Setup { first_psn: 0xff_ffff, ..Setup::default() }.end(0);
    let base = Psn::new(0xff_ffff);
    let at = |packet: Packet, psn: u32| Packet { psn: base.add(psn), ..packet };
    let late = at(write(&end, 0, 1, &[2]), 1);
    let answers = end.answer(0, [&late]);
    assert_eq!((answers[0].psn, answers.len()), (base, 1));
    let first = at(write(&end, 0, 0, &[1]), 0);
    let answers = end.answer(0, [&first, &late]);
    assert_eq!((answers[0].psn.get(), answers.len()), (0, 1));
    assert_eq!(end.device.read(0, 2), [1, 2]);
}

#[test]
fn without_a_receive_a_message_gets_an_rnr_nak_until_there_is_one() {
    for timer in [0, 1, 31] {
        let mut end = Setup { rnr_timer: timer, ..Setup::default() }.end(0);
        let to = reth(&end, 0, 256 + 4);
        let messages = [
            vec![send(Opcode::SendOnly, 0, &[1; 4])],
            vec![send(Opcode::SendFirst, 1, &[2; 256]), send(Opcode::SendLast, 2, &[2; 4])],
            vec![
                request(Opcode::WriteFirst, 3, Headers::Remote(to), &[3; 256]),
                request(Opcode::WriteLastImmediate, 4, Headers::Immediate(9), &[3; 4]),
            ],
            vec![request(
                Opcode::WriteOnlyImmediate,
                5,
                Headers::RemoteImmediate(to_small(&end), 9),
                &[4; 4],
            )],
        ];
        let rnr = Syndrome::RnrNak { timer };
        for (done, message) in messages.iter().enumerate() {
            let done = done as u32;
            // The packet that needs the receive: a write needs it at its end.
            let needs = if message[0].opcode == Opcode::WriteFirst { 1 } else { 0 };
            let psn = message[needs].psn.since(Psn::new(100));
            let nak = (Opcode::Acknowledge, psn, Some((rnr, done)));
            let mut answers = summary(&end.answer(0, message));
            answers.retain(|answer| answer.2 != Some((POSITIVE, done)));
            assert_eq!(answers, [nak]);
            // Again without a receive: again a NAK, for it is the expected packet that comes.
            assert_eq!(summary(&end.answer(0, &message[needs..])), [nak]);
            let list = end.device.list(0x800, 300);
            end.device.post_receive(list);
            let last = message.last().unwrap().psn.since(Psn::new(100));
            assert_eq!(summary(&end.answer(0, &message[needs..])), [ack(last, done + 1)]);
            assert_eq!(end.device.received.len() as u32, done + 1);
        }
    }
}

fn to_small(end: &End) -> Reth {
    reth(end, 0, 4)
}

#[test]
fn a_repeated_write_or_send_is_acknowledged_and_not_executed() {
    let mut end = Setup::default().end(0);
    for _ in 0..3 {
        let list = end.device.list(0x800, 300);
        end.device.post_receive(list);
    }
    let packets = [
        write(&end, 0, 0, &[1; 4]),
        send(Opcode::SendFirst, 1, &[2; 256]),
        send(Opcode::SendLast, 2, &[2; 9]),
        request(
            Opcode::WriteOnlyImmediate,
            3,
            Headers::RemoteImmediate(reth(&end, 8, 4), 9),
            &[3; 4],
        ),
    ];
    assert_eq!(summary(&end.answer(0, &packets)), [ack(3, 3)]);
    end.device.write(0, &[9; 16]);
    end.device.write(0x800, &[9; 300]);
    for packet in &packets {
        assert_eq!(summary(&end.answer(0, [packet])), [ack(3, 3)]);
    }
    assert_eq!(summary(&end.answer(0, &packets)), [ack(3, 3)]);
    assert_eq!(end.device.read(0, 16), [9; 16]);
    assert_eq!(end.device.read(0x800, 300), [9; 300]);
    assert_eq!((end.device.receives.len(), end.device.received.len()), (1, 2));
}

#[test]
fn a_repeated_read_is_read_again_from_any_of_its_packets() {
    let mut end = Setup::default().end(0);
    let data = pattern(1000, 4);
    end.device.write(0, &data);
    let whole = read(&end, 0, 0, 1000);
    assert_eq!(end.answer(0, [&whole, &write(&end, 4, 0x2000, &[1])]).len(), 5);
    let changed = pattern(1000, 5);
    end.device.write(0, &changed);
    for skip in 0..4u32 {
        let done = skip * 256;
        let rest = read(&end, skip, done.into(), 1000 - done);
        let answers = end.answer(0, [&rest]);
        let numbers: Vec<u32> = summary(&answers).iter().map(|answer| answer.1).collect();
        assert_eq!(numbers, (skip..4).collect::<Vec<_>>());
        let bytes: Vec<u8> = answers.iter().flat_map(payload).collect();
        assert_eq!(bytes, changed[done as usize..]);
    }
    // What reaches past what was asked for, or may not be read, is not answered.
    let beyond = read(&end, 3, 0, 1000);
    let mut elsewhere = whole.clone();
    elsewhere.headers = Headers::Remote(Reth { address: 0, rkey: 0xbad, length: 1000 });
    let mut long = whole.clone();
    long.headers = Headers::Remote(Reth { length: u32::MAX, ..reth(&end, 0, 0) });
    assert!(end.answer(0, [&beyond, &elsewhere, &long]).is_empty());
    assert!(end.device.failures.is_empty());
}

#[test]
fn a_read_repeated_while_its_answer_waits_is_answered_once() {
    let mut end = Setup::default().end(0);
    end.device.write(0, &pattern(1000, 6));
    let first = read(&end, 0, 0, 600);
    let second = read(&end, 3, 0, 600);
    let after = write(&end, 6, 0x2000, &[1]);
    let all = [&first, &second, &after, &first, &second, &after, &first, &second];
    let answers = end.answer(0, all);
    let numbers: Vec<u32> = summary(&answers).iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    // Repeated in the wrong order: answered in order.
    let answers = end.answer(0, [&second, &first, &after]);
    let numbers: Vec<u32> = summary(&answers).iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn more_repeated_reads_than_resources_wait_for_no_answer() {
    let mut end = Setup { resources: 2, ..Setup::default() }.end(0);
    let reads: Vec<Packet> = (0..4).map(|psn| read(&end, psn, 0, 8)).collect();
    for read in &reads {
        assert_eq!(end.answer(0, [read]).len(), 1);
    }
    let numbers: Vec<u32> = summary(&end.answer(0, &reads)).iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn a_read_that_is_answered_again_takes_no_resource_from_the_next_one() {
    // The requester asks again, then finds the answer that was only late, and goes on.
    let mut end = Setup { resources: 1, ..Setup::default() }.end(0);
    let [late, next] = [0, 1].map(|psn| read(&end, psn, 0, 8));
    assert_eq!(end.answer(0, [&late]).len(), 1);
    let answers = summary(&end.answer(0, [&late, &next]));
    let numbers: Vec<u32> = answers.iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn a_read_repeated_in_the_middle_of_its_answer_starts_over() {
    let mut end = Setup { memory: 0x4000, ..Setup::default() }.end(0);
    end.device.write(0, &pattern(0x4000, 7));
    let whole = read(&end, 0, 0, 0x2000);
    end.take(0, [&whole]);
    let _ = end.connection.advance(0, &mut end.device);
    let burst = doorbell_model::rc::Connection::BURST;
    assert_eq!(end.device.out.len() as u32, burst);
    end.device.out.clear();
    end.take(0, [&whole]);
    let numbers: Vec<u32> = summary(&end.packets(0)).iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, (0..32).collect::<Vec<_>>());
}

#[test]
fn a_repeated_atomic_gets_the_first_answer_and_is_not_executed() {
    let mut end = Setup { resources: 3, ..Setup::default() }.end(0);
    end.device.write(0, &10u64.to_ne_bytes());
    let packets: Vec<Packet> = (0..5).map(|n| add(&end, n, 0, 1)).collect();
    let first = end.answer(0, &packets);
    end.device.write(0, &99u64.to_ne_bytes());
    let again = end.answer(0, &packets);
    // Three are remembered; the peer never has more outstanding. The others are not answered.
    assert_eq!(again.len(), 3);
    for (one, other) in again.iter().zip(&first[2..]) {
        let Headers::AtomicAck(aeth, was) = one.headers else { panic!("not an atomic's answer") };
        let Headers::AtomicAck(_, first) = other.headers else { panic!("not an atomic's answer") };
        assert_eq!((was, one.psn, aeth.syndrome), (first, other.psn, POSITIVE));
    }
    assert_eq!(end.device.read(0, 8), 99u64.to_ne_bytes());
    // Twice while its answer waits: once.
    assert_eq!(end.answer(0, [&packets[4], &packets[4]]).len(), 1);
}

#[test]
fn a_repeated_atomic_is_answered_before_what_waits_and_comes_later() {
    let mut end = Setup::default().end(0);
    let atomic = add(&end, 0, 0, 1);
    assert_eq!(end.answer(0, [&atomic]).len(), 1);
    let answers = end.answer(0, [&read(&end, 1, 0, 300), &atomic, &write(&end, 3, 0, &[1])]);
    let numbers: Vec<u32> = summary(&answers).iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, [0, 1, 2, 3]);
}

#[test]
fn no_acknowledgement_overtakes_a_read_s_answer() {
    let mut end = Setup::default().end(0);
    let packets = [
        write(&end, 0, 0, &[1]),
        read(&end, 1, 0, 600),
        add(&end, 4, 0x100, 1),
        write(&end, 5, 0, &[2]),
        write(&end, 7, 0, &[3]),
        write(&end, 0, 0, &[1]),
    ];
    let answers = summary(&end.answer(0, &packets));
    let order: Vec<_> = answers.iter().map(|answer| (answer.1, answer.0)).collect();
    use Opcode::*;
    assert_eq!(
        order,
        [
            (0, Acknowledge),
            (1, ReadResponseFirst),
            (2, ReadResponseMiddle),
            (3, ReadResponseLast),
            (4, AtomicAcknowledge),
            (5, Acknowledge),
            (6, Acknowledge),
        ]
    );
    assert_eq!(answers[6].2, Some((Syndrome::Nak(NakCode::SequenceError), 4)));
}

#[test]
fn packets_that_do_not_continue_the_message_are_invalid() {
    use Opcode::*;
    let fresh = || {
        let mut end = Setup::default().end(0);
        for _ in 0..2 {
            let list = end.device.list(0x800, 1000);
            end.device.post_receive(list);
        }
        end
    };
    let any = |end: &End, opcode: Opcode, psn| {
        let to = reth(end, 0, 256);
        let full = [1; 256];
        match opcode {
            WriteFirst => request(opcode, psn, Headers::Remote(Reth { length: 512, ..to }), &full),
            WriteOnly => request(opcode, psn, Headers::Remote(to), &full),
            WriteOnlyImmediate => request(opcode, psn, Headers::RemoteImmediate(to, 1), &full),
            ReadRequest => request(opcode, psn, Headers::Remote(to), &[]),
            FetchAdd | CompareSwap => {
                let Packet { headers, .. } = add(end, 0, 0, 1);
                request(opcode, psn, headers, &[])
            }
            SendLastImmediate | SendOnlyImmediate | WriteLastImmediate => {
                request(opcode, psn, Headers::Immediate(1), &full)
            }
            SendLastInvalidate | SendOnlyInvalidate => {
                request(opcode, psn, Headers::Invalidate(end.device.key), &full)
            }
            _ => send(opcode, psn, &full),
        }
    };
    let begin = [
        SendFirst,
        SendOnly,
        SendOnlyImmediate,
        SendOnlyInvalidate,
        WriteFirst,
        WriteOnly,
        WriteOnlyImmediate,
        ReadRequest,
        FetchAdd,
        CompareSwap,
    ];
    let continue_send = [SendMiddle, SendLast, SendLastImmediate, SendLastInvalidate];
    let continue_write = [WriteMiddle, WriteLast, WriteLastImmediate];
    for opcode in begin {
        let mut end = fresh();
        let packet = any(&end, opcode, 0);
        end.answer(0, [&packet]);
        assert!(end.device.failures.is_empty(), "{opcode:?} begins a message");
        for started in [SendFirst, WriteFirst] {
            let end = fresh();
            let packets = [any(&end, started, 0), any(&end, opcode, 1)];
            let end = refused(end, &packets, NakCode::InvalidRequest);
            // The receive of the send that was begun says what happened.
            let status = Status::RemoteInvalidRequest;
            let [Failure::Peer { receive, .. }] = end.device.failures[..] else { panic!() };
            if started == SendFirst {
                assert_eq!(receive, Some(status));
                assert_eq!(end.device.received[0].status, status);
                assert_eq!(end.device.received.len(), 1);
            } else {
                assert_eq!((receive, end.device.received.len()), (None, 0));
            }
        }
    }
    for (opcodes, right, wrong) in
        [(&continue_send[..], SendFirst, WriteFirst), (&continue_write[..], WriteFirst, SendFirst)]
    {
        for &opcode in opcodes {
            let mut end = fresh();
            let packets = [any(&end, right, 0), any(&end, opcode, 1)];
            if opcode == WriteMiddle {
                continue; // Its message is 512 bytes, so a second full packet must be the last.
            }
            end.answer(0, &packets);
            assert!(end.device.failures.is_empty(), "{opcode:?} continues {right:?}");
            let end = fresh();
            let packets = [any(&end, wrong, 0), any(&end, opcode, 1)];
            refused(end, &packets, NakCode::InvalidRequest);
            let end = fresh();
            let packets = [any(&end, opcode, 0)];
            refused(end, &packets, NakCode::InvalidRequest);
        }
    }
}

#[test]
fn packets_of_the_wrong_length_are_invalid() {
    use Opcode::*;
    let case = |build: &dyn Fn(&End) -> Vec<Packet>| {
        let mut end = Setup::default().end(0);
        for _ in 0..2 {
            let list = end.device.list(0x800, 1000);
            end.device.post_receive(list);
        }
        let packets = build(&end);
        refused(end, &packets, NakCode::InvalidRequest);
    };
    let full = [1; 256];
    let long = [1; 257];
    for bytes in [&full[..255], &long[..], &[]] {
        case(&|_| vec![send(SendFirst, 0, bytes)]);
        case(&|_| vec![send(SendFirst, 0, &full), send(SendMiddle, 1, bytes)]);
        case(&|end| vec![request(WriteFirst, 0, Headers::Remote(reth(end, 0, 600)), bytes)]);
    }
    for bytes in [&long[..], &[]] {
        case(&|_| vec![send(SendFirst, 0, &full), send(SendLast, 1, bytes)]);
    }
    case(&|_| vec![send(SendOnly, 0, &long)]);
    case(&|end| vec![request(ReadRequest, 0, Headers::Remote(reth(end, 0, 4)), &[1; 4])]);
    case(&|end| vec![Packet { payload: Payload::copy_of(&[1; 4]), ..add(end, 0, 0, 1) }]);
    // A write's packets must add up to what its header says.
    let write = |end: &End, length| Headers::Remote(reth(end, 0, length));
    for length in [0, 3, 5, 257, u32::MAX] {
        case(&|end| vec![request(WriteOnly, 0, write(end, length), &[1; 4])]);
    }
    for length in [0, 255, 256, (1 << 31) + 1] {
        case(&|end| vec![request(WriteFirst, 0, write(end, length), &full)]);
    }
    for (length, last) in [(300, 43), (300, 45), (300, 256), (512, 255)] {
        case(&|end| {
            vec![
                request(WriteFirst, 0, write(end, length), &full),
                send(WriteLast, 1, &vec![1; last]),
            ]
        });
    }
    for length in [257, 511, 512] {
        case(&|end| {
            vec![request(WriteFirst, 0, write(end, length), &full), send(WriteMiddle, 1, &full)]
        });
    }
    case(&|end| vec![read(end, 0, 0, (1 << 31) + 1)]);
}

#[test]
fn what_the_queue_pair_does_not_let_its_peer_do_is_an_invalid_request() {
    type Request = fn(&End) -> Packet;
    let cases: [(Access, Request); 3] = [
        (Access { remote_write: false, ..Access::ALL }, |end| write(end, 0, 0, &[1])),
        (Access { remote_read: false, ..Access::ALL }, |end| read(end, 0, 0, 1)),
        (Access { remote_atomic: false, ..Access::ALL }, |end| add(end, 0, 0, 1)),
    ];
    for (at, (access, _)) in cases.iter().enumerate() {
        for (other, (_, packet)) in cases.iter().enumerate() {
            let mut end = Setup { access: *access, ..Setup::default() }.end(0);
            let packet = packet(&end);
            if at == other {
                let end = refused(end, &[packet], NakCode::InvalidRequest);
                assert_eq!(end.device.read(0, 8), [0; 8]);
            } else {
                end.answer(0, [&packet]);
                assert!(end.device.failures.is_empty());
            }
        }
    }
    // Even for no bytes, and also when the right is taken away later.
    let mut end = Setup::default().end(0);
    let zero = write(&end, 0, 0, &[]);
    end.connection.set_peer_access(Access { remote_write: false, ..Access::ALL });
    refused(end, &[zero], NakCode::InvalidRequest);
}

#[test]
fn accesses_that_the_key_does_not_allow_are_remote_access_errors() {
    let access = NakCode::RemoteAccess;
    type Change = fn(&mut End) -> (u32, u64, Refusal);
    // Each gives the key and address to use for 8 bytes, and the refusal that must come.
    let cases: [Change; 4] = [
        |_| (0xbad, 0, Refusal::UnknownKey { key: 0xbad }),
        |end| {
            let mut other = registration(BASE, 64, Access::ALL);
            other.protection_domain = DOMAIN + 1;
            let key = end.device.memory.keys.insert(other, None).unwrap();
            let refusal =
                Refusal::ProtectionDomain { key, queue_pair: DOMAIN, registration: DOMAIN + 1 };
            (key, BASE, refusal)
        },
        |end| {
            let key = end.device.register(0x100, 16, Access::ALL);
            let address = BASE + 0x110;
            (key, address, Refusal::Bounds { key, address, length: 8 })
        },
        |end| {
            let key = end.device.register(u64::MAX - 7 - BASE, 8, Access::ALL);
            (key, u64::MAX - 15, Refusal::Bounds { key, address: u64::MAX - 15, length: 8 })
        },
    ];
    for change in cases {
        for kind in 0..3 {
            let mut end = Setup::default().end(0);
            let (rkey, address, expected) = change(&mut end);
            let reth = Reth { address, rkey, length: 8 };
            let atomic = AtomicEth { address, rkey, swap_add: 1, compare: 0 };
            let packet = match kind {
                0 => request(Opcode::WriteOnly, 0, Headers::Remote(reth), &[1; 8]),
                1 => request(Opcode::ReadRequest, 0, Headers::Remote(reth), &[]),
                _ => request(Opcode::FetchAdd, 0, Headers::Atomic(atomic), &[]),
            };
            let end = refused(end, &[packet], access);
            let [Failure::Peer { refusal, receive, .. }] = end.device.failures[..] else {
                panic!()
            };
            assert_eq!((refusal, receive), (Some(expected), None));
            assert_eq!(end.device.read(0, 0x200), [0; 0x200]);
        }
    }
    let none = Access { local_write: true, ..Access::default() };
    for kind in 0..3 {
        let mut end = Setup::default().end(0);
        let all = match kind {
            0 => Access { remote_read: true, remote_atomic: true, ..none },
            1 => Access { remote_write: true, remote_atomic: true, ..none },
            _ => Access { remote_write: true, remote_read: true, ..none },
        };
        let rkey = end.device.register(0, 64, all);
        let reth = Reth { address: BASE, rkey, length: 8 };
        let atomic = AtomicEth { address: BASE, rkey, swap_add: 1, compare: 0 };
        let packet = match kind {
            0 => request(Opcode::WriteOnly, 0, Headers::Remote(reth), &[1; 8]),
            1 => request(Opcode::ReadRequest, 0, Headers::Remote(reth), &[]),
            _ => request(Opcode::CompareSwap, 0, Headers::Atomic(atomic), &[]),
        };
        let end = refused(end, &[packet], access);
        let [Failure::Peer { refusal, .. }] = end.device.failures[..] else { panic!() };
        assert!(matches!(refusal, Some(Refusal::Right { .. })));
    }
}

#[test]
fn a_write_s_whole_range_is_checked_before_its_first_byte_lands() {
    let mut end = Setup::default().end(0);
    let rkey = end.device.register(0, 600, Access::ALL);
    let headers = Headers::Remote(Reth { address: BASE, rkey, length: 601 });
    let packet = request(Opcode::WriteFirst, 0, headers, &[1; 256]);
    let end = refused(end, &[packet], NakCode::RemoteAccess);
    assert_eq!(end.device.read(0, 256), [0; 256]);
}

#[test]
fn a_key_taken_away_in_the_middle_refuses_the_rest() {
    // Of a write.
    let mut end = Setup::default().end(0);
    let rkey = end.device.register(0, 600, Access::ALL);
    let to = Headers::Remote(Reth { address: BASE, rkey, length: 512 });
    end.answer(0, [&request(Opcode::WriteFirst, 0, to, &[1; 256])]);
    end.device.memory.keys.remove(rkey);
    let end = refused(end, &[send(Opcode::WriteLast, 1, &[1; 256])], NakCode::RemoteAccess);
    assert_eq!(end.device.read(256, 256), [0; 256]);

    // Of a read: the NAK takes the place of the packet that cannot be read.
    let mut end = Setup { memory: 0x4000, ..Setup::default() }.end(0);
    let rkey = end.device.register(0, 0x2000, Access::ALL);
    let from = Headers::Remote(Reth { address: BASE, rkey, length: 0x2000 });
    end.take(0, [&request(Opcode::ReadRequest, 0, from, &[])]);
    let _ = end.connection.advance(0, &mut end.device);
    let sent = end.device.out.drain(..).count() as u32;
    assert!(0 < sent && sent < 32);
    end.device.memory.keys.remove(rkey);
    assert_eq!(summary(&end.packets(0)), [nak(sent, 1, NakCode::RemoteAccess)]);
    assert!(end.connection.is_failed());
}

#[test]
fn no_bytes_check_no_key() {
    let mut end = Setup::default().end(0);
    let nowhere = Headers::Remote(Reth { address: 5, rkey: 0xbad, length: 0 });
    let packets = [
        request(Opcode::WriteOnly, 0, nowhere, &[]),
        request(Opcode::ReadRequest, 1, nowhere, &[]),
    ];
    let answers = end.answer(0, &packets);
    let read = (Opcode::ReadResponseOnly, 1, Some((POSITIVE, 2)));
    assert_eq!(summary(&answers), [ack(0, 1), read]);
    assert!(answers[1].payload.is_empty());
}

#[test]
fn a_misaligned_atomic_is_an_invalid_request() {
    for at in 1..8 {
        let end = Setup::default().end(0);
        let packet = add(&end, 0, at, 1);
        let end = refused(end, &[packet], NakCode::InvalidRequest);
        assert_eq!(end.device.read(0, 16), [0; 16]);
    }
}

#[test]
fn more_reads_than_resources_are_an_invalid_request() {
    for resources in 0..4u8 {
        let end = Setup { resources, ..Setup::default() }.end(0);
        let packets: Vec<Packet> =
            (0..=resources.into()).map(|psn| read(&end, psn, 0, 8)).collect();
        let end = refused(end, &packets, NakCode::InvalidRequest);
        assert!(end.device.out.is_empty());
    }
    let end = Setup { resources: 0, ..Setup::default() }.end(0);
    let packet = add(&end, 0, 0, 1);
    refused(end, &[packet], NakCode::InvalidRequest);
    // Answered ones do not count.
    let mut end = Setup { resources: 1, ..Setup::default() }.end(0);
    for psn in 0..10 {
        let packet = read(&end, psn, 0, 8);
        assert_eq!(end.answer(0, [&packet]).len(), 1);
    }
}

#[test]
fn answers_before_a_refused_request_still_go_out() {
    let end = Setup::default().end(0);
    let mut bad = write(&end, 4, 0, &[1]);
    bad.headers = Headers::Remote(Reth { address: 0, rkey: 0xbad, length: 1 });
    let packets = [write(&end, 0, 0, &[5]), read(&end, 1, 0, 600), bad];
    let mut end = end;
    let answers = summary(&end.answer(0, &packets));
    let numbers: Vec<u32> = answers.iter().map(|answer| answer.1).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
    assert_eq!(answers[4], nak(4, 2, NakCode::RemoteAccess));
}

#[test]
fn a_refused_request_waits_for_a_long_answer_before_it_and_nothing_is_executed_meanwhile() {
    let mut end = Setup::default().end(0);
    let mut bad = write(&end, 40, 0, &[1]);
    bad.headers = Headers::Remote(Reth { address: 0, rkey: 0xbad, length: 1 });
    let good = [write(&end, 40, 0, &[2]), write(&end, 41, 0, &[3])];
    end.take(0, [&read(&end, 0, 0x1000, 40 * 256), &bad, &good[0], &good[1]]);
    let _ = end.connection.advance(0, &mut end.device);
    assert!(!end.connection.is_failed() && end.device.out.len() < 40);
    end.take(0, &good);
    let answers = summary(&end.packets(0));
    assert_eq!(answers.len(), 41);
    assert_eq!(answers[40], nak(40, 1, NakCode::RemoteAccess));
    assert!(end.connection.is_failed());
    assert_eq!(end.device.read(0, 1), [0]);
}

#[test]
fn a_message_longer_than_its_receive_fails_both_sides() {
    for (capacity, packets) in [
        (3, vec![send(Opcode::SendOnly, 0, &[1; 4])]),
        (0, vec![send(Opcode::SendOnly, 0, &[1])]),
        (300, vec![send(Opcode::SendFirst, 0, &[1; 256]), send(Opcode::SendLast, 1, &[1; 45])]),
    ] {
        let mut end = Setup::default().end(0);
        let list = end.device.list(0x800, capacity);
        let entry = end.device.post_receive(list.clone());
        end.device.post_receive(list);
        let end = refused(end, &packets, NakCode::InvalidRequest);
        assert_eq!(end.device.received.len(), 1);
        let completion = end.device.received[0];
        assert_eq!((completion.entry, completion.status), (entry, Status::LocalLength));
        let [Failure::Peer { receive, .. }] = end.device.failures[..] else { panic!() };
        assert_eq!(receive, Some(Status::LocalLength));
        assert_eq!(end.device.read(0x800 + u64::from(capacity), 300), [0; 300]);
    }
}

#[test]
fn a_message_may_fill_its_receive_and_an_empty_one_needs_one_too() {
    let mut end = Setup::default().end(0);
    let list = end.device.list(0x800, 4);
    end.device.post_receive(list);
    end.device.post_receive(List::new());
    let packets = [send(Opcode::SendOnly, 0, &[1; 4]), send(Opcode::SendOnly, 1, &[])];
    assert_eq!(summary(&end.answer(0, &packets)), [ack(1, 2)]);
    let lengths: Vec<u32> = end.device.received.iter().map(|done| done.length).collect();
    assert_eq!(lengths, [4, 0]);
}

#[test]
fn a_receive_into_memory_that_may_not_be_written_is_a_remote_operational_error() {
    let none = Access::default();
    for kind in 0..3 {
        let mut end = Setup::default().end(0);
        let lkey = match kind {
            0 => 0xbad,
            1 => end.device.register(0, 64, none),
            _ => end.device.register(0, 3, Access::ALL),
        };
        end.device.post_receive(List::from_iter([Entry { address: BASE, length: 64, lkey }]));
        let end = refused(end, &[send(Opcode::SendOnly, 0, &[1; 4])], NakCode::RemoteOperational);
        assert_eq!(end.device.received[0].status, Status::LocalProtection);
    }
}

#[test]
fn pages_without_memory_are_a_remote_operational_error() {
    for kind in 0..3 {
        let mut end = Setup::default().end(0);
        let mut region = registration(0, 0x1000, Access::ALL);
        region.pages = Pages::Flat { device_start: 0xdead_0000 };
        let rkey = end.device.memory.keys.insert(region, None).unwrap();
        let reth = Reth { address: 0, rkey, length: 8 };
        let atomic = AtomicEth { address: 0, rkey, swap_add: 1, compare: 0 };
        let packet = match kind {
            0 => request(Opcode::WriteOnly, 0, Headers::Remote(reth), &[1; 8]),
            1 => request(Opcode::ReadRequest, 0, Headers::Remote(reth), &[]),
            _ => request(Opcode::FetchAdd, 0, Headers::Atomic(atomic), &[]),
        };
        refused(end, &[packet], NakCode::RemoteOperational);
    }
}

#[test]
fn a_send_with_invalidate_takes_the_key_away() {
    let mut end = Setup::default().end(0);
    let key = end.device.register(0, 64, Access::ALL);
    let list = end.device.list(0x800, 1000);
    end.device.post_receive(list.clone());
    end.device.post_receive(list);
    let packets = [
        send(Opcode::SendFirst, 0, &[1; 256]),
        request(Opcode::SendLastInvalidate, 1, Headers::Invalidate(key), &[1; 4]),
    ];
    assert_eq!(summary(&end.answer(0, &packets)), [ack(1, 1)]);
    assert_eq!(end.device.received[0].invalidated, Some(key));
    assert_eq!(end.device.received[0].length, 260);
    // The same message again is only acknowledged; another one finds no key.
    assert_eq!(summary(&end.answer(0, &packets[1..])), [ack(1, 1)]);
    let again = request(Opcode::SendOnlyInvalidate, 2, Headers::Invalidate(key), &[]);
    let end = refused(end, &[again], NakCode::RemoteAccess);
    assert_eq!(end.device.received[1].status, Status::MemoryWindowBind);
}

#[test]
fn a_key_that_peers_may_not_invalidate_stays() {
    let mut end = Setup::default().end(0);
    let mut region = registration(BASE, 64, Access::ALL);
    region.remote_invalidate = false;
    let key = end.device.memory.keys.insert(region, None).unwrap();
    let list = end.device.list(0x800, 8);
    end.device.post_receive(list);
    let packet = request(Opcode::SendOnlyInvalidate, 0, Headers::Invalidate(key), &[]);
    let end = refused(end, &[packet], NakCode::RemoteAccess);
    assert!(end.device.memory.keys.get(key).is_some());
}

#[test]
fn the_owner_s_error_flushes_the_receive_of_a_message_in_progress() {
    let mut end = Setup::default().end(0);
    let list = end.device.list(0x800, 1000);
    let entry = end.device.post_receive(list.clone());
    end.device.post_receive(list);
    end.answer(0, [&send(Opcode::SendFirst, 0, &[1; 256])]);
    end.connection.fail(&mut end.device);
    let flushed: Vec<_> = end.device.received.iter().map(|r| (r.entry, r.status)).collect();
    assert_eq!(flushed, [(entry, Status::WrFlushed)]);
    assert_eq!((end.device.receives.len(), &end.device.failures[..]), (1, &[Failure::Owner][..]));
}

#[test]
fn packets_of_another_partition_are_not_for_us() {
    let mut end = Setup::default().end(0);
    let mut packet = write(&end, 0, 0, &[1]);
    packet.partition_key = 0x8001;
    assert!(end.answer(0, [&packet]).is_empty());
    assert_eq!((end.device.established, end.device.read(0, 1)), (0, vec![0]));
    packet.partition_key = 0x7fff;
    assert_eq!(end.answer(0, [&packet]).len(), 1, "a limited member's packet");
}

#[test]
fn headers_that_do_not_belong_to_the_opcode_are_invalid() {
    for opcode in [Opcode::WriteFirst, Opcode::WriteOnly, Opcode::WriteOnlyImmediate] {
        let end = Setup::default().end(0);
        refused(end, &[send(opcode, 0, &[1; 256])], NakCode::InvalidRequest);
    }
    for opcode in [Opcode::ReadRequest, Opcode::FetchAdd, Opcode::CompareSwap] {
        let end = Setup::default().end(0);
        refused(end, &[send(opcode, 0, &[])], NakCode::InvalidRequest);
    }
}

#[test]
fn a_run_is_executed_as_its_packets() {
    let data = pattern(5 * 256, 11);
    for single in [false, true] {
        let mut end = Setup::default().end(0);
        let to = Headers::Remote(reth(&end, 0x100, 5 * 256));
        let middle = Packet { run: 3, ..send(Opcode::WriteMiddle, 1, &data[256..1024]) };
        let mut packets = vec![request(Opcode::WriteFirst, 0, to, &data[..256])];
        if single {
            packets.extend(middle.split());
            let asks: Vec<bool> = packets.iter().map(|packet| packet.ack_request).collect();
            assert_eq!(asks, [true, false, false, true]);
        } else {
            packets.push(middle);
        }
        packets.push(send(Opcode::WriteLast, 4, &data[1024..]));
        assert_eq!(summary(&end.answer(0, &packets)), [ack(4, 1)]);
        assert_eq!(end.device.read(0x100, 5 * 256), data);
        // The run again is an old one, also when it reaches what is new.
        let old = Packet { run: 3, ..send(Opcode::WriteMiddle, 3, &data[..768]) };
        assert_eq!(summary(&end.answer(0, [&old])), [ack(4, 1)]);
        assert_eq!(end.device.read(0x100, 5 * 256), data);
    }
}

#[test]
fn runs_of_what_does_not_run_are_invalid() {
    for (opcode, len) in [
        (Opcode::SendFirst, 512),
        (Opcode::SendOnly, 2),
        (Opcode::SendMiddle, 256),
        (Opcode::SendMiddle, 511),
        (Opcode::SendMiddle, 768),
        (Opcode::SendLast, 512),
    ] {
        let mut end = Setup::default().end(0);
        let list = end.device.list(0, 0x1000);
        end.device.post_receive(list);
        let begins = matches!(opcode, Opcode::SendFirst | Opcode::SendOnly);
        let mut packets = vec![send(Opcode::SendFirst, 0, &[1; 256])];
        if begins {
            packets.clear();
        }
        let psn = packets.len() as u32;
        packets.push(Packet { run: 2, ..send(opcode, psn, &vec![1; len]) });
        refused(end, &packets, NakCode::InvalidRequest);
    }
}

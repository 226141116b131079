//! A peer that sends anything at all: no packet makes an end panic, grow without bound, or touch
//! memory that the peer has no key to.

mod rig;

use doorbell_model::memory::{Access, Payload};
use doorbell_model::rc::{
    Aeth, AtomicEth, Headers, Layout, Opcode, Operation, Packet, Psn, Reth, Status, Syndrome,
};
use fastrand::Rng;
use rig::*;

/// Peers have a key to the first bytes, work requests and receives use the next, nobody the rest.
const SHARED: u64 = 0x1000;
const OWN: u64 = 0x2000;

/// Whether to do something wrong this time.
fn wrong(random: &mut Rng) -> bool {
    random.u8(..100) == 0
}

/// A packet that is likely to be nearly right after one with opcode `last`.
fn packet(random: &mut Rng, mtu: u32, psn: Psn, key: u32, last: Option<Opcode>) -> Packet {
    use Opcode::*;
    let any = |random: &mut Rng| loop {
        if let Some(opcode) = Opcode::from_byte(random.u8(..0x18)) {
            break opcode;
        }
    };
    let one_of = |random: &mut Rng, opcodes: &[Opcode]| opcodes[random.usize(..opcodes.len())];
    let opcode = match last {
        _ if wrong(random) => any(random),
        Some(SendFirst | SendMiddle) => one_of(random, &[SendMiddle, SendLast, SendLastImmediate]),
        Some(WriteFirst | WriteMiddle) => one_of(random, &[WriteLast, WriteLastImmediate]),
        _ => one_of(
            random,
            &[
                SendFirst,
                SendOnly,
                SendOnlyImmediate,
                WriteFirst,
                WriteOnly,
                WriteOnlyImmediate,
                ReadRequest,
                CompareSwap,
                FetchAdd,
                Acknowledge,
                AtomicAcknowledge,
                ReadResponseOnly,
                Acknowledge,
            ],
        ),
    };
    let len = match opcode {
        _ if wrong(random) => random.u32(..=mtu + 1),
        SendFirst | SendMiddle | WriteFirst | WriteMiddle | SendLast | WriteLast
        | ReadResponseFirst | ReadResponseMiddle => mtu,
        ReadRequest | Acknowledge | AtomicAcknowledge | CompareSwap | FetchAdd => 0,
        _ => random.u32(1..=mtu),
    };
    let length = match opcode {
        _ if wrong(random) => random.u32(..),
        WriteFirst => 2 * mtu,
        ReadRequest => random.u32(..=3 * mtu),
        _ => len,
    };
    let address = match random.u8(..40) {
        0 => random.u64(..),
        1 => BASE + SHARED - u64::from(length.min(0x1000)) + random.u64(0..2),
        _ => BASE + random.u64(0..SHARED / 16) * 8,
    };
    let rkey = if wrong(random) { random.u32(..0x400) } else { key };
    let reth = Reth { address, rkey, length };
    let syndrome = match random.u8(..20) {
        0 => Syndrome::from_byte(random.u8(..)),
        1 => Syndrome::RnrNak { timer: random.u8(..) },
        2 => Syndrome::from_byte(0x60 | random.u8(..4)),
        _ => Syndrome::Ack { credits: 31 },
    };
    let aeth = Aeth { syndrome, message_sequence: random.u32(..) };
    let layout = if wrong(random) { any(random).layout() } else { opcode.layout() };
    let headers = match layout {
        Layout::Plain => Headers::Plain,
        Layout::Immediate => Headers::Immediate(random.u32(..)),
        Layout::Invalidate => Headers::Invalidate(random.u32(..0x400)),
        Layout::Remote => Headers::Remote(reth),
        Layout::RemoteImmediate => Headers::RemoteImmediate(reth, random.u32(..)),
        Layout::Ack => Headers::Ack(aeth),
        Layout::AtomicAck => Headers::AtomicAck(aeth, random.u64(..)),
        Layout::Atomic => Headers::Atomic(AtomicEth {
            address,
            rkey,
            swap_add: random.u64(..),
            compare: random.u64(..),
        }),
    };
    let psn = match random.u8(..20) {
        0 => random.u32(..),
        1..4 => psn.get().wrapping_sub(random.u32(..20)),
        4 => psn.get() + random.u32(..20),
        _ => psn.get(),
    };
    Packet {
        opcode,
        solicited: random.bool(),
        partition_key: 0xffff,
        destination: 1,
        extended: psn.is_multiple_of(61).then_some(3),
        ack_request: !wrong(random),
        psn: Psn::new(psn),
        headers,
        payload: Payload::copy_of(&pattern(len as usize, random.u64(..4))),
        run: if wrong(random) { random.u16(..4) } else { 1 },
    }
}

fn run(seed: u64) -> (u64, Vec<Status>) {
    let mut random = Rng::with_seed(seed);
    let setup = Setup { rnr_retry: 7, retry_count: 7, resources: 2, ..Setup::default() };
    let mut end = setup.end(1);
    let mtu = setup.mtu.bytes();
    let key = end.device.register(0, SHARED, Access::ALL);
    let rest = pattern(setup.memory - OWN as usize, seed);
    end.device.write(OWN, &rest);
    // The PSNs that the end expects and has sent so far, roughly.
    let (mut expected, mut sent) = (Psn::new(setup.first_psn), Psn::new(setup.first_psn));
    let (mut executed, mut now, mut last) = (0, 0, None);
    for _ in 0..200 {
        for _ in 0..random.usize(..3) {
            let len = random.u32(..=3 * mtu);
            let list = end.device.list(SHARED, len);
            let remote = end.device.remote(0);
            let operation = match random.u8(..4) {
                0 => Operation::Read(remote),
                1 => Operation::Send,
                2 => Operation::Write(remote),
                _ => Operation::FetchAdd { remote, add: 1 },
            };
            let add = matches!(operation, Operation::FetchAdd { .. });
            let list = if add { end.device.list(SHARED, 8) } else { list };
            end.device.post(operation, list);
        }
        if random.bool() {
            let len = random.u32(..=3 * mtu);
            let list = end.device.list(SHARED, len);
            end.device.post_receive(list);
        }
        let received = packet(&mut random, mtu, expected, key, last);
        let received = if received.opcode.is_response() {
            // One answer that does not fit ends a run; half of the runs are about requests.
            if seed.is_multiple_of(2) {
                continue;
            }
            Packet { psn: sent.add(random.u32(..3)).add(Psn::COUNT - 2), ..received }
        } else {
            received
        };
        let before = end.device.failures.len();
        let answers = end.answer(now, [&received]);
        assert!(answers.len() < 1000, "one packet asked for {}", answers.len());
        for answer in &answers {
            if !answer.opcode.is_response() {
                sent = answer.psn.add(1);
            } else if let Headers::Ack(aeth) | Headers::AtomicAck(aeth, _) = answer.headers
                && matches!(aeth.syndrome, Syndrome::Ack { .. })
                && answer.psn.add(1).since(expected) < 0x1000
            {
                (expected, last) = (answer.psn.add(1), Some(received.opcode));
                executed += 1;
            }
        }
        now += random.u64(..20_000);
        if end.connection.is_failed() && before == end.device.failures.len() {
            break;
        }
    }
    assert!(end.device.read(OWN, rest.len()) == rest, "memory that nobody has a key to");
    assert!(end.device.failures.len() <= 1);
    (executed, end.device.statuses())
}

#[test]
fn whatever_a_peer_sends_an_end_keeps_its_head_and_its_memory() {
    let mut executed = 0;
    let mut statuses = std::collections::HashSet::new();
    for seed in 0..1500 {
        let result = std::panic::catch_unwind(|| run(seed));
        let (more, ended) = result.unwrap_or_else(|_| panic!("seed {seed}"));
        executed += more;
        statuses.extend(ended);
    }
    // The packets were nearly right: much was executed, and requests ended in many ways.
    assert!(executed > 5_000, "{executed} executed");
    for status in [
        Status::Success,
        Status::WrFlushed,
        Status::BadResponse,
        Status::RemoteAccess,
        Status::RemoteInvalidRequest,
        Status::RemoteOperational,
    ] {
        assert!(statuses.contains(&status), "no request ended with {status}");
    }
}

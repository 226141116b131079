//! Ring memory and register stores of a virtual ConnectX.

use crate::bench::{Bench, ENTRIES, KINDS, Kind, RECEIVES, SENDS, SLOTS, control, piece};
use crate::input::Input;
use doorbell::mlx5::abi::uar::{CQ_ARM_OFFSET, SEND_HALF_BYTES, SEND_OFFSET};
use doorbell_model::connectx::Store;

/// Calls of one run.
const CALLS: usize = 128;
/// Steps that the NICs may take to come to rest.
const STEPS: u64 = 1 << 20;

/// The side whose rings and registers the bytes write, and its peer.
const THIS: usize = 0;
const PEER: usize = 1;

/// Writes entries, records and registers of one side. Its NIC touches no memory but what its keys,
/// and its peer's rights, allow, and comes to rest.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let mut bench = Bench::new(&input);
    bench.grant_own(THIS);
    bench.grant_peer(THIS);
    bench.grant_peer(PEER);
    // Where the peer's own requests and receives are.
    bench.sides[PEER].space.grant(Kind::Local.bytes(), true, true);
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        call(&mut bench, &input);
    }
    bench.rest(STEPS);
    bench.sides.iter_mut().for_each(|side| side.poll());
    bench.end();
}

fn call(bench: &mut Bench, input: &Input) {
    let side = &mut bench.sides[THIS];
    match input.byte() % 16 {
        // An entry whose control segment names its place, its queue pair and its size.
        0..=2 => {
            let (opcode, flags, segments) = (input.byte(), input.byte(), input.byte() % 64);
            let rest = usize::from(segments.max(1) - 1) * 16;
            let mut rest = input.bytes(rest).to_vec();
            rest.resize(rest.len().next_multiple_of(16), 0);
            bench.post(THIS, opcode, flags, &rest);
        }
        3 => {
            let slot = u64::from(input.byte()) % u64::from(SLOTS);
            side.write(SENDS.start + slot * 64, &input.array::<64>());
        }
        4 => {
            let (slot, at) = (u64::from(input.byte()) % u64::from(SLOTS), input.byte() % 64);
            side.write(SENDS.start + slot * 64 + u64::from(at), &[input.byte()]);
        }
        5 => {
            side.sent = side.sent.wrapping_add(input.byte().into());
            side.announce_sends(side.sent);
            ring(bench, input, SEND_OFFSET as u32);
        }
        6 => side.announce_sends(input.half()),
        7 => {
            let entry = u64::from(input.byte()) % u64::from(ENTRIES);
            side.write(RECEIVES.start + entry * 64, &input.array::<64>());
            side.received = side.received.wrapping_add(1);
            side.announce_receives(side.received);
        }
        8 => side.announce_receives(input.half()),
        9 => {
            let offset = u32::from(input.half()) % 4096 / 8 * 8;
            let page = side.page.wrapping_add(u32::from(input.byte()) / 0xfe);
            bench.store(THIS, Store::Word { page, offset, value: input.double() });
        }
        10 => blue_flame(bench, input),
        11 => match input.byte() {
            consumed @ 0..=127 => side.consume(consumed.into()),
            _ => side.poll(),
        },
        12 => {
            let (page, value) = (side.page, input.double());
            bench.store(THIS, Store::Word { page, offset: CQ_ARM_OFFSET as u32, value });
        }
        13 => peer(bench, input),
        14 => match input.byte() {
            0 => bench.fail(THIS),
            1 => bench.connect(),
            2 => bench.fail(PEER),
            kind => bench.take_key(THIS, KINDS[usize::from(kind) % KINDS.len()]),
        },
        _ => {
            bench.network.run_until_idle(input.byte().into());
        }
    }
}

/// Rings with the first bytes of the slot before what was announced.
fn ring(bench: &Bench, input: &Input, offset: u32) {
    let side = &bench.sides[THIS];
    let (opcode, segments) = (input.byte(), input.byte());
    let bytes = control(side.pair, side.sent.wrapping_sub(1), opcode, segments);
    let value = u64::from_ne_bytes(bytes[..].try_into().expect("8 bytes"));
    bench.store(THIS, Store::Word { page: side.page, offset, value });
}

/// Copies slots of the ring, or others, to a send register.
fn blue_flame(bench: &Bench, input: &Input) {
    let side = &bench.sides[THIS];
    let (from, count, how) = (input.byte(), input.byte() % 5, input.byte());
    let mut offset = SEND_OFFSET as u32 + u32::from(how & 3) * SEND_HALF_BYTES as u32;
    for slot in 0..count {
        let place = u64::from(from.wrapping_add(slot)) % u64::from(SLOTS);
        let mut bytes = side.read::<64>(SENDS.start + place * 64);
        if how & 4 != 0 {
            bytes.rotate_left(usize::from(how % 64));
        }
        let slot = std::array::from_fn(|word| {
            u64::from_ne_bytes(bytes[word * 8..word * 8 + 8].try_into().expect("8 bytes"))
        });
        bench.store(THIS, Store::Slot { page: side.page, offset, slot });
        offset += if how & 8 != 0 { 128 } else { 64 };
    }
}

/// The peer posts something as it should.
fn peer(bench: &mut Bench, input: &Input) {
    let (what, length) = (input.byte(), input.half());
    let local = Kind::Local;
    let data = piece(local, bench.sides[PEER].key(local), 0, u32::from(length % 0x800).max(1));
    let target = KINDS[usize::from(what >> 4) % KINDS.len()];
    let remote = crate::bench::remote(target, bench.sides[THIS].key(target), 0);
    match what % 4 {
        // MLX5_OPCODE_SEND, _RDMA_WRITE, _RDMA_READ; MLX5_WQE_CTRL_CQ_UPDATE.
        0 => bench.post(PEER, 0x0a, 8, &data),
        1 => bench.post(PEER, 0x08, 8, &[remote, data].concat()),
        2 => bench.post(PEER, 0x10, 8, &[remote, data].concat()),
        _ => bench.receive(PEER, &data),
    }
}

//! Packets to a connected queue pair, from somebody who says that it is the peer.

use crate::bench::{Bench, FIRST_PSN, KINDS, Kind, piece, remote};
use crate::input::Input;
use doorbell_model::rc::{Packet, Psn};

/// Calls of one run.
const CALLS: usize = 128;
/// Steps that the NICs may take to come to rest.
const STEPS: u64 = 1 << 20;
/// The most bytes of a packet: one of 1024 bytes, and its headers.
const PACKET: usize = 1024 + 64;

/// Sends packets to both sides while they work. No memory is touched but what keys, rights, requests
/// and receives allow, and the NICs come to rest.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let mut bench = Bench::new(&input);
    for side in [0, 1] {
        bench.grant_peer(side);
        // Where requests take from, and where they and receives put.
        let space = &bench.sides[side].space;
        space.grant(Kind::Constant.bytes(), true, false);
        space.grant(Kind::Local.bytes(), true, true);
    }
    let mut next = [FIRST_PSN; 2];
    for _ in 0..CALLS {
        if input.is_empty() {
            break;
        }
        call(&mut bench, &input, &mut next);
    }
    bench.mute(0);
    bench.rest(STEPS);
    bench.sides.iter_mut().for_each(|side| side.poll());
    bench.end();
}

/// `next` is the sequence number that each side is taken to expect.
fn call(bench: &mut Bench, input: &Input, next: &mut [u32; 2]) {
    let what = input.byte();
    let side = usize::from(what >> 7);
    match what % 16 {
        0..=5 => {
            let from_peer = input.byte() != 0xff;
            let ahead = input.byte() as i8;
            let len = usize::from(input.half()) % PACKET;
            let Ok(mut packet) = Packet::decode(input.bytes(len)) else { return };
            packet.destination = bench.sides[side].pair;
            packet.partition_key |= 0x7fff;
            packet.psn = Psn::new(next[side]).add(ahead as u32);
            if ahead == 0 && !packet.opcode.is_response() {
                next[side] = next[side].wrapping_add(1);
            }
            bench.inject(side, packet, from_peer);
        }
        6 => {
            let len = usize::from(input.half()) % PACKET;
            if let Ok(packet) = Packet::decode(input.bytes(len)) {
                bench.inject(side, packet, true);
            }
        }
        7 => next[side] = next[side].wrapping_add(input.byte() as i8 as u32),
        8 | 9 => request(bench, side, input),
        10 => {
            let mut pieces = Vec::new();
            for _ in 0..input.below(4) {
                let length = u32::from(input.half() % 0x800);
                let (local, key) = (Kind::Local, bench.sides[side].key(Kind::Local));
                pieces.extend_from_slice(&piece(local, key, 0, length.max(1)));
            }
            bench.receive(side, &pieces);
        }
        11 => bench.mute(input.byte() & 3),
        12 => match input.byte() {
            0 => bench.fail(side),
            1 => {
                bench.connect();
                *next = [FIRST_PSN; 2];
            }
            kind => bench.take_key(side, KINDS[usize::from(kind) % KINDS.len()]),
        },
        13 => bench.sides[side].poll(),
        _ => {
            bench.network.run_until_idle(input.byte().into());
        }
    }
}

/// Posts a request that is as it should be.
fn request(bench: &mut Bench, side: usize, input: &Input) {
    let (what, length) = (input.byte(), u32::from(input.half() % 0x800).max(1));
    let key = |kind| bench.sides[side].key(kind);
    let target = KINDS[usize::from(what >> 4) % KINDS.len()];
    let there = remote(target, bench.sides[1 - side].key(target), input.byte().into());
    let source = piece(Kind::Constant, key(Kind::Constant), 0, length);
    let into = piece(Kind::Local, key(Kind::Local), 0, length);
    let eight = piece(Kind::Local, key(Kind::Local), 0, 8);
    let operands = input.array::<16>();
    match what % 8 {
        0 => bench.post(side, 0x0a, 8, &source),
        1 => bench.post(side, 0x0b, 8, &source),
        2 => bench.post(side, 0x08, 8, &[there, source].concat()),
        3 => bench.post(side, 0x09, 8, &[there, source].concat()),
        4 => bench.post(side, 0x10, 8, &[there, into].concat()),
        5 => bench.post(side, 0x11, 8, &[there, operands, eight].concat()),
        6 => bench.post(side, 0x12, 8, &[there, operands, eight].concat()),
        _ => bench.post(side, 0x01, 8, &source),
    }
}

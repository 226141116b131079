//! IP packets from anybody, to a NIC that speaks RoCE v2 and is in the middle of something.

use crate::bench::{Bench, Kind, piece};
use crate::input::Input;
use doorbell_model::roce::{
    Decapsulated, Transport, decapsulate, decapsulate_udp, encapsulate, invariant_crc,
};
use std::net::IpAddr;

/// Packets of one run.
const PACKETS: usize = 32;
/// Steps that the NICs may take between packets, and until they come to rest.
const STEPS: u64 = 64;
const STEPS_TO_REST: u64 = 1 << 20;
/// Where an IP packet has its length.
const IPV4_LENGTH: usize = 2;
const IPV6_LENGTH: usize = 4;

/// Any bytes as IP packets, one after the other, give an error each, nothing for a NIC, or a packet that
/// round-trips. Few have the right invariant CRC, so that they are given one, too.
///
/// What is a packet comes to one of two NICs with a connected queue pair, requests under way and
/// receives posted. No memory is touched but what keys, rights and receives allow, and the NICs come to
/// rest.
pub fn run(bytes: &[u8]) {
    let mut bench = Bench::new(&Input::new(&[]));
    for side in [0, 1] {
        bench.grant_peer(side);
        // Where requests take from, and where they and receives put.
        let space = &bench.sides[side].space;
        space.grant(Kind::Constant.bytes(), true, false);
        space.grant(Kind::Local.bytes(), true, true);
        let key = bench.sides[side].key(Kind::Local);
        for _ in 0..4 {
            bench.receive(side, &piece(Kind::Local, key, 0, 0x400));
        }
        let source = piece(Kind::Constant, bench.sides[side].key(Kind::Constant), 0, 0x300);
        bench.post(side, 0x0a, 8, &source);
    }
    // What each has sent does not arrive: the packets are answers to it, or anything else.
    bench.mute(3);
    bench.network.run_until_idle(STEPS);
    for packet in packets(bytes).take(PACKETS) {
        let mut found = look(packet);
        if found.is_none() {
            found = with_right_crc(packet).and_then(|packet| look(&packet));
        }
        if let Some(found) = found {
            deliver(&bench, found);
            bench.network.run_until_idle(STEPS);
        }
    }
    bench.mute(0);
    bench.rest(STEPS_TO_REST);
    bench.sides.iter_mut().for_each(|side| side.poll());
    bench.end();
}

/// Cuts bytes into IP packets, of the lengths that they say.
fn packets(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (at, more) =
            if bytes.first()? >> 4 == 6 { (IPV6_LENGTH, 40) } else { (IPV4_LENGTH, 0) };
        let length = bytes.get(at..at + 2).and_then(|length| length.first_chunk());
        let length = length.map_or(0, |length| usize::from(u16::from_be_bytes(*length)));
        let length = if length == 0 { bytes.len() } else { (length + more).min(bytes.len()) };
        let (packet, rest) = bytes.split_at(length);
        bytes = rest;
        Some(packet)
    })
}

fn with_right_crc(packet: &[u8]) -> Option<Vec<u8>> {
    let network = if packet.first().is_some_and(|first| first >> 4 == 6) { 40 } else { 20 };
    let (head, transport) = packet.split_at_checked(network + 8)?;
    let (transport, _) = transport.split_last_chunk::<4>()?;
    let (network, udp) = head.split_at(network);
    let crc = invariant_crc(network, udp.first_chunk()?, transport);
    Some([head, transport, &crc.to_le_bytes()].concat())
}

fn look(packet: &[u8]) -> Option<Decapsulated> {
    match decapsulate(packet) {
        Ok(found) => {
            found.as_ref().inspect(|found| round_trip(found));
            found
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

fn round_trip(found: &Decapsulated) {
    let Decapsulated { route, transport } = found;
    let mut packet = Vec::new();
    encapsulate(route, transport, 7, &mut packet).expect("its payload is a copy");
    let again = decapsulate(&packet).expect("it is one of ours").expect("it is to the port");
    assert_eq!(again.route, *route);
    let mut twice = Vec::new();
    encapsulate(&again.route, &again.transport, 7, &mut twice).expect("its payload is a copy");
    assert_eq!(packet, twice);
    let headers = if route.source.is_ipv4() { 28 } else { 48 };
    let payload = packet.get(headers..).expect("headers");
    assert!(decapsulate_udp(*route, payload).is_ok(), "a socket finds the same");
}

/// Brings a packet to the side that the last byte of its destination says, from the other side if the
/// last byte of its source says so.
fn deliver(bench: &Bench, found: Decapsulated) {
    let side = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => usize::from(ip.octets()[3]),
        IpAddr::V6(ip) => usize::from(ip.octets()[15]),
    };
    let (from, to) = (side(found.route.source), side(found.route.destination) & 1);
    let from_peer = from == 1 - to;
    match found.transport {
        Transport::Reliable(packet) => bench.inject(to, packet, from_peer),
        Transport::Unreliable(message) => bench.inject_message(to, message, from_peer),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::bench::{FIRST_PSN, REGION};
    use doorbell_model::fabric::Address;
    use doorbell_model::memory::Payload;
    use doorbell_model::rc::{Headers, Opcode, Packet, Psn, Reth};
    use doorbell_model::roce::Route;

    /// The IP packet that carries a packet to a side, from the other.
    pub(crate) fn frame(to: usize, packet: Packet) -> Vec<u8> {
        let gid = |side: usize| {
            let mut gid = [0; 16];
            gid[10..].copy_from_slice(&[0xff, 0xff, 10, 9, 0, side as u8]);
            Address::Gid(gid)
        };
        let mut bytes = Vec::new();
        let route = Route::between(gid(1 - to), gid(to)).unwrap();
        encapsulate(&route, &packet.into(), 7, &mut bytes).unwrap();
        bytes
    }

    fn write(bench: &Bench, kind: Kind, rkey: u32) -> Packet {
        Packet {
            opcode: Opcode::WriteOnly,
            solicited: false,
            partition_key: 0xffff,
            destination: bench.sides[1].pair,
            extended: None,
            ack_request: true,
            psn: Psn::new(FIRST_PSN),
            headers: Headers::Remote(Reth { address: kind.address(), rkey, length: 4 }),
            payload: Payload::copy_of(&[1, 2, 3, 4]),
            run: 1,
        }
    }

    #[test]
    fn a_whole_packet_writes_what_its_key_allows_and_nothing_else() {
        for (kind, allowed) in [
            (Kind::RemoteWrite, true),
            (Kind::Paged, true),
            (Kind::RemoteRead, false),
            (Kind::Local, false),
            (Kind::Foreign, false),
        ] {
            let bench = Bench::new(&Input::new(&[]));
            bench.grant_peer(1);
            let packet = write(&bench, kind, bench.sides[1].key(kind));
            deliver(&bench, look(&frame(1, packet)).unwrap());
            bench.rest(STEPS_TO_REST);
            let bytes = bench.sides[1].read::<{ REGION as usize }>(kind.bytes().start);
            let found = bytes.windows(4).any(|bytes| bytes == [1, 2, 3, 4]);
            assert_eq!(found, allowed, "{kind:?}");
            bench.end();
        }
    }

    #[test]
    fn packets_are_cut_at_the_lengths_that_they_say() {
        let bench = Bench::new(&Input::new(&[]));
        let one = frame(1, write(&bench, Kind::RemoteWrite, 7));
        let both = [&one[..], &one[..], &[0x45, 0, 0, 0, 9]].concat();
        assert_eq!(packets(&both).collect::<Vec<_>>(), [&one[..], &one[..], &[0x45, 0, 0, 0, 9]]);
    }
}

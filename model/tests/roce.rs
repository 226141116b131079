//! RoCE v2 packets against scapy's (`golden/roce.py`), and any bytes at all.

use doorbell_model::fabric::{Address, Message};
use doorbell_model::rc::{Headers, Opcode, Packet, Syndrome};
use doorbell_model::roce::{
    BadFrame, BadTransport, Decapsulated, Route, Transport, decapsulate, decapsulate_udp,
    encapsulate,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn golden() -> BTreeMap<&'static str, Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let lines = include_str!("golden/roce.txt").lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, hex)| (name, hex.as_bytes().chunks(2).map(byte).collect()))
        .collect()
}

fn read(name: &str) -> Decapsulated {
    decapsulate(&golden()[name]).unwrap().expect("to the port of RoCE")
}

fn reliable(name: &str) -> Packet {
    match read(name).transport {
        Transport::Reliable(packet) => packet,
        Transport::Unreliable(_) => panic!("{name} is of a connection"),
    }
}

fn bytes(packet: &Packet) -> Vec<u8> {
    let mut bytes = vec![0; packet.payload.len()];
    packet.payload.read(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn packets_that_scapy_built_are_understood() {
    for version in ["4", "6"] {
        let name = |kind: &str| format!("{kind}{version}");
        let send = reliable(&name("send"));
        assert_eq!((send.opcode, send.destination), (Opcode::SendOnly, 0x42));
        assert_eq!((send.psn.get(), send.ack_request), (0x123456, true));
        assert_eq!(bytes(&send), b"abc");
        let ack = reliable(&name("ack"));
        let Headers::Ack(aeth) = ack.headers else { panic!("no AETH") };
        assert_eq!(aeth.syndrome, Syndrome::Ack { credits: 31 });
        assert_eq!(aeth.message_sequence, 9);
        let write = reliable(&name("write"));
        let Headers::Remote(reth) = write.headers else { panic!("no RETH") };
        assert_eq!((reth.address, reth.rkey), (0x0001020304050607, 0x08090a0b));
        assert_eq!((reth.length, bytes(&write)), (0x0c0d0e0f, vec![0x11; 64]));
        match read(&name("unreliable")).transport {
            Transport::Unreliable(Message::Unreliable(packet)) => {
                assert_eq!((packet.opcode, packet.psn.get()), (Opcode::SendOnly, 9));
                assert_eq!(bytes(&packet), b"12345678");
            }
            _ => panic!("a send of an unreliable connection"),
        }
        match read(&name("datagram")).transport {
            Transport::Unreliable(Message::Datagram(datagram)) => {
                assert_eq!((datagram.destination, datagram.source), (0x42, 0x55));
                assert_eq!(datagram.queue_key, 0x11223344);
                assert_eq!(&*datagram.bytes, b"datagram\x01\x02");
                let route = datagram.route.unwrap();
                assert_eq!((route.hop_limit, route.ip), (64, true));
            }
            _ => panic!("a datagram"),
        }
    }
    let route = read("send4").route;
    assert_eq!(route.source, IpAddr::from(Ipv4Addr::new(10, 9, 0, 1)));
    assert_eq!((route.source_port, route.hop_limit), (0xc001, 64));
    let routed = read("routed6").route;
    assert_eq!((routed.traffic_class, routed.flow_label, routed.hop_limit), (0x44, 0x12345, 2));
}

#[test]
fn packets_are_written_as_scapy_writes_them() {
    for (name, expected) in golden() {
        // Routers have changed those.
        if name.starts_with("routed") {
            continue;
        }
        let Decapsulated { route, transport } = decapsulate(&expected).unwrap().unwrap();
        let mut written = Vec::new();
        encapsulate(&route, &transport, 10, &mut written).unwrap();
        assert_eq!(written, expected, "{name}");
    }
}

#[test]
fn a_socket_that_shows_no_ip_header_finds_the_same_packet() {
    for name in ["send4", "ack4", "write4", "datagram4", "routed4"] {
        let packet = &golden()[name];
        let route = read(name).route;
        // What a socket does not show is not covered by the invariant CRC.
        let route = Route { traffic_class: 1, hop_limit: 7, ..route };
        assert!(decapsulate_udp(route, &packet[28..]).is_ok(), "{name}");
        let elsewhere = Route { source_port: 1, ..route };
        let found = decapsulate_udp(elsewhere, &packet[28..]);
        assert!(matches!(found, Err(BadFrame::Crc { .. })), "{name}");
    }
}

#[test]
fn a_bit_that_changed_on_the_way_is_noticed_wherever_no_router_changes_it() {
    for name in ["write4", "write6", "datagram4"] {
        let packet = &golden()[name];
        let four = packet[0] >> 4 == 4;
        // Type of service, time to live, checksum; traffic class, flow label, hop limit. And the
        // UDP checksum, and the congestion marks.
        let network: &[usize] = if four { &[1, 8, 10, 11] } else { &[0, 1, 2, 3, 7] };
        let udp = if four { 20 } else { 40 };
        for at in 0..packet.len() {
            for bit in 0..8 {
                let mut changed = packet.clone();
                changed[at] ^= 1 << bit;
                let free = network.contains(&at) || [udp + 6, udp + 7, udp + 12].contains(&at);
                let found = decapsulate(&changed);
                if free && !(at == 0 && bit > 3) {
                    assert!(matches!(found, Ok(Some(_))), "{name}: byte {at} bit {bit}");
                } else {
                    assert!(!matches!(found, Ok(Some(_))), "{name}: byte {at} bit {bit}");
                }
            }
        }
    }
}

#[test]
fn what_is_no_packet_of_roce_is_passed_over_and_what_is_a_bad_one_says_why() {
    let packet = golden()["send4"].clone();
    let with = |at: usize, bytes: &[u8]| {
        let mut packet = packet.clone();
        packet[at..at + bytes.len()].copy_from_slice(bytes);
        decapsulate(&packet)
    };
    // TCP; another port.
    assert!(matches!(with(9, &[6]), Ok(None)));
    assert!(matches!(with(22, &[0, 53]), Ok(None)));
    // More fragments.
    assert_eq!(with(6, &[0x20]).err(), Some(BadFrame::Fragment));
    assert!(matches!(with(2, &[0xff, 0xff]), Err(BadFrame::Header(_))));
    let error = with(36, &[0xee]).err().unwrap().to_string();
    assert!(error.contains("the invariant CRC is 0x55654826"), "{error}");
    for cut in 0..packet.len() {
        assert!(!matches!(decapsulate(&packet[..cut]), Ok(Some(_))), "cut to {cut}");
    }
    let route = Route::between(
        Address::Gid(Ipv4Addr::new(10, 9, 0, 1).to_ipv6_mapped().octets()),
        Address::Gid(Ipv4Addr::new(10, 9, 0, 2).to_ipv6_mapped().octets()),
    );
    let short = decapsulate_udp(route.unwrap(), &[1, 2, 3]).err();
    assert_eq!(short, Some(BadFrame::Short { len: 3 }));
    let mixed = Route::between(
        Address::Gid(Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets()),
        Address::Gid(Ipv6Addr::LOCALHOST.octets()),
    );
    assert_eq!(mixed, None);
}

#[test]
fn any_bytes_are_a_packet_of_the_transport_or_an_error() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut packets = 0;
    for _ in 0..50_000 {
        let mut bytes: Vec<u8> = (0..random.usize(0..100)).map(|_| random.u8(..)).collect();
        if let [opcode, flags, ..] = &mut bytes[..] {
            // Often one of a service that is spoken here.
            *opcode = *random.choice(&[*opcode, 0x04, 0x0a, 0x11, 0x24, 0x2a, 0x64, 0x65]).unwrap();
            *flags &= if random.bool() { 0xf0 } else { 0xff };
        }
        match Transport::decode(&bytes) {
            Ok(transport) => {
                packets += 1;
                let mut again = Vec::new();
                transport.encode(0, &mut again).unwrap();
                let pad = usize::from(bytes[1] >> 4 & 3);
                assert_eq!(again.len(), bytes.len());
                // Behind the base transport header, nothing is changed but padding.
                let end = bytes.len() - pad;
                let from = if bytes[0] & 0xe0 == 0x60 { 20 } else { 12 };
                assert_eq!(again[from..end], bytes[from..end]);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(packets > 1000, "only {packets} were packets");
    let none = Transport::decode(&[]).err();
    assert_eq!(none, Some(BadTransport::Short { len: 0, needed: 12 }));
    let read_of_an_unreliable_connection = [0x2c; 40];
    assert!(Transport::decode(&read_of_an_unreliable_connection).is_err());
}

//! IP packets from anybody, to a NIC that speaks RoCE v2.

use doorbell_model::roce::{
    Decapsulated, decapsulate, decapsulate_udp, encapsulate, invariant_crc,
};

/// Any bytes as an IP packet give an error, nothing for a NIC, or a packet that round-trips. Few have
/// the right invariant CRC, so that they are given one, too.
pub fn run(bytes: &[u8]) {
    look(bytes);
    let network = if bytes.first().is_some_and(|first| first >> 4 == 6) { 40 } else { 20 };
    let Some((head, transport)) = bytes.split_at_checked(network + 8) else { return };
    let Some((transport, _)) = transport.split_last_chunk::<4>() else { return };
    let (network, udp) = head.split_at(network);
    let Some(udp) = udp.first_chunk() else { return };
    let crc = invariant_crc(network, udp, transport);
    look(&[head, transport, &crc.to_le_bytes()].concat());
}

fn look(packet: &[u8]) {
    match decapsulate(packet) {
        Ok(Some(found)) => round_trip(&found),
        Ok(None) => {}
        Err(error) => assert!(!error.to_string().is_empty()),
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
    if route.source.is_ipv4() {
        let payload = packet.get(28..).expect("headers");
        assert!(decapsulate_udp(*route, payload).is_ok(), "a socket finds the same");
    }
}

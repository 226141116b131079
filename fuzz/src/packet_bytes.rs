//! Bytes as a packet of the reliable-connected transport.

use doorbell_model::rc::{MAX_PACKET, Packet};

/// Bytes of a base transport header.
const HEADER: usize = 12;

/// Reads `bytes` as a packet. One that is read comes back as the bytes that it was read from, but
/// for what the transport does not look at.
pub fn run(bytes: &[u8]) {
    let packet = match Packet::decode(bytes) {
        Ok(packet) => packet,
        Err(malformed) => return assert!(!malformed.to_string().is_empty()),
    };
    assert!(bytes.len() >= HEADER && bytes.len() <= MAX_PACKET);
    // The top bits say the service: 0, or an extended connection's.
    assert_eq!(packet.opcode as u8, bytes[0] & 0x1f);
    assert_eq!(bytes[0] & 0xe0, if packet.extended.is_some() { 0xa0 } else { 0 });
    assert_eq!(packet.headers.layout(), packet.opcode.layout());
    assert!(packet.to_string().contains("psn"));
    let encoded = encode(&packet);
    assert_eq!(encoded.len(), bytes.len());
    assert_eq!(encoded.len(), packet.encoded_len());
    let pad = usize::from(bytes[1] >> 4 & 3);
    // A header that names a shared receive queue begins with 8 bits of nothing.
    let names = packet.extended.is_some() && !packet.opcode.is_response();
    assert_eq!(looked_at(&encoded, pad, names), looked_at(bytes, pad, names));
    let again = Packet::decode(&encoded).expect("an encoded packet is a packet");
    assert_eq!(encode(&again), encoded);
}

fn encode(packet: &Packet) -> Vec<u8> {
    let mut bytes = vec![0xee];
    packet.encode(&mut bytes).expect("the payload is in the packet");
    assert_eq!(bytes.remove(0), 0xee, "encoding appends");
    bytes
}

/// A packet's bytes without the migration bit, the reserved ones, congestion marks and padding.
fn looked_at(bytes: &[u8], pad: usize, names_queue: bool) -> Vec<u8> {
    let mut bytes = bytes[..bytes.len() - pad].to_vec();
    bytes[1] &= 0xbf;
    bytes[4] = 0;
    bytes[8] &= 0x80;
    if names_queue {
        bytes[HEADER] = 0;
    }
    bytes
}

//! The headers of a frame as flow tables match them (`struct mlx5_ifc_fte_match_set_lyr_2_4_bits`).

use super::firmware::headers as field;
use crate::fabric::frame;

/// The set of a frame's headers; what the frame has not is zero.
pub(super) fn of(frame: &[u8]) -> [u8; field::BYTES] {
    let mut set = [0; field::BYTES];
    // Whatever the frame is too short for stays zero.
    let _ = fill(frame, &mut set);
    set
}

fn word(frame: &[u8], at: usize) -> Option<u64> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]).into())
}

fn fill(bytes: &[u8], set: &mut [u8]) -> Option<()> {
    let byte = |at: usize| bytes.get(at).copied().map(u64::from);
    let number = |at: usize, length: usize| {
        let bytes = bytes.get(at..at + length)?;
        Some(bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    let mut put = |field: super::firmware::Field, value: u64| field.set(set, value);
    put(field::DMAC_47_16, number(0, 4)?);
    put(field::DMAC_15_0, number(4, 2)?);
    put(field::SMAC_47_16, number(6, 4)?);
    put(field::SMAC_15_0, number(10, 2)?);
    let mut kind = word(bytes, 12)?;
    let mut network = frame::HEADER;
    if kind == u64::from(frame::VLAN) {
        let tag = word(bytes, 14)?;
        put(field::CVLAN_TAG, 1);
        put(field::FIRST_PRIO, tag >> 13);
        put(field::FIRST_CFI, tag >> 12);
        put(field::FIRST_VID, tag);
        kind = word(bytes, 16)?;
        network += 4;
    }
    put(field::ETHERTYPE, kind);
    let (protocol, transport, is_first) = if kind == u64::from(frame::IPV4) {
        let ihl = byte(network)? & 0xf;
        put(field::IP_VERSION, 4);
        put(field::IPV4_IHL, ihl);
        put(field::IP_DSCP, byte(network + 1)? >> 2);
        put(field::IP_ECN, byte(network + 1)?);
        put(field::TTL_HOPLIMIT, byte(network + 8)?);
        // More fragments, or an offset.
        let fragment = word(bytes, network + 6)? & 0x3fff;
        put(field::FRAG, (fragment != 0).into());
        put(field::SOURCE_IP_LOW, number(network + 12, 4)?);
        put(field::DESTINATION_IP_LOW, number(network + 16, 4)?);
        (byte(network + 9)?, network + ihl as usize * 4, fragment & 0x1fff == 0)
    } else if kind == u64::from(frame::IPV6) {
        put(field::IP_VERSION, 6);
        put(field::IP_DSCP, word(bytes, network)? >> 6);
        put(field::IP_ECN, word(bytes, network)? >> 4);
        put(field::TTL_HOPLIMIT, byte(network + 7)?);
        put(field::SOURCE_IP_HIGH, number(network + 8, 8)?);
        put(field::SOURCE_IP_LOW, number(network + 16, 8)?);
        put(field::DESTINATION_IP_HIGH, number(network + 24, 8)?);
        put(field::DESTINATION_IP_LOW, number(network + 32, 8)?);
        (byte(network + 6)?, network + 40, true)
    } else {
        return None;
    };
    put(field::IP_PROTOCOL, protocol);
    if !is_first {
        return None;
    }
    let (source, destination) = (word(bytes, transport)?, word(bytes, transport + 2)?);
    if protocol == u64::from(frame::TCP) {
        put(field::L4_TYPE, 1);
        put(field::TCP_SPORT, source);
        put(field::TCP_DPORT, destination);
        put(field::TCP_FLAGS, word(bytes, transport + 12)?);
    } else if protocol == u64::from(frame::UDP) {
        put(field::L4_TYPE, 2);
        put(field::UDP_SPORT, source);
        put(field::UDP_DPORT, destination);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_udp_in_ipv4_under_a_tag() {
        let mut frame = vec![1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x81, 0, 0x60, 5, 8, 0];
        frame.extend([0x45, 0xb9, 0, 30, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x12, 0x34, 0x56, 0x78, 0, 10, 0, 0, 1, 2]);
        let set = of(&frame);
        assert_eq!(
            field::DMAC_47_16.get(&set) << 16 | field::DMAC_15_0.get(&set),
            0x0102_0304_0506
        );
        assert_eq!(
            field::SMAC_47_16.get(&set) << 16 | field::SMAC_15_0.get(&set),
            0x0708_090a_0b0c
        );
        let tag = [field::CVLAN_TAG, field::FIRST_PRIO, field::FIRST_VID, field::ETHERTYPE];
        assert_eq!(tag.map(|field| field.get(&set)), [1, 3, 5, 0x800]);
        let network = [field::IP_VERSION, field::IP_DSCP, field::IP_ECN, field::IP_PROTOCOL];
        assert_eq!(network.map(|field| field.get(&set)), [4, 0x2e, 1, 17]);
        assert_eq!(field::SOURCE_IP_LOW.get(&set), 0x0a00_0001);
        assert_eq!(field::DESTINATION_IP_LOW.get(&set), 0x0a00_0002);
        let ports = [field::UDP_SPORT, field::UDP_DPORT, field::TCP_SPORT, field::FRAG];
        assert_eq!(ports.map(|field| field.get(&set)), [0x1234, 0x5678, 0, 0]);
        for length in 0..frame.len() {
            of(&frame[..length]);
        }
    }
}

//! Ethernet frames on their way out: checksums filled in, segments cut, tags inserted.
//!
//! IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293), UDP (RFC 768). Frames come from a guest: one that is
//! not what its entry says is sent as it is.

/// Bytes of an Ethernet header.
pub(crate) const HEADER: usize = 14;
/// What follows a header.
pub(crate) const IPV4: u16 = 0x0800;
pub(crate) const IPV6: u16 = 0x86dd;
pub(crate) const VLAN: u16 = 0x8100;
pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;

/// Where the parts of a frame are.
struct Parts {
    network: usize,
    transport: usize,
    protocol: u8,
    version_4: bool,
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    if let Some(bytes) = frame.get_mut(at..at + 2) {
        bytes.copy_from_slice(&value.to_be_bytes());
    }
}

fn parts(frame: &[u8]) -> Option<Parts> {
    let mut network = HEADER;
    let mut kind = word(frame, network - 2)?;
    while kind == VLAN {
        network += 4;
        kind = word(frame, network - 2)?;
    }
    match kind {
        IPV4 => {
            let header = usize::from(frame.get(network)? & 0xf) * 4;
            let protocol = *frame.get(network + 9)?;
            Some(Parts { network, transport: network + header, protocol, version_4: true })
        }
        IPV6 => {
            let protocol = *frame.get(network + 6)?;
            Some(Parts { network, transport: network + 40, protocol, version_4: false })
        }
        _ => None,
    }
}

/// The ones'-complement sum of `bytes`, added to `sum`.
fn sum(bytes: &[u8], sum: u32) -> u32 {
    bytes.chunks(2).fold(sum, |sum, pair| {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        let sum = sum + u32::from(word);
        (sum & 0xffff) + (sum >> 16)
    })
}

/// The ones'-complement sum of what follows the Ethernet header, as a receive completion says it.
pub(crate) fn checksum_after_header(frame: &[u8]) -> u16 {
    sum(frame.get(HEADER..).unwrap_or_default(), 0) as u16
}

/// Fills in the checksums of the IPv4 header, and of TCP or UDP.
pub(crate) fn fill_checksums(frame: &mut [u8], network: bool, transport: bool) -> Option<()> {
    let parts = parts(frame)?;
    if network && parts.version_4 {
        put(frame, parts.network + 10, 0);
        let value = !(sum(frame.get(parts.network..parts.transport)?, 0) as u16);
        put(frame, parts.network + 10, value);
    }
    if !transport {
        return Some(());
    }
    let at = match parts.protocol {
        TCP => parts.transport + 16,
        UDP => parts.transport + 6,
        _ => return None,
    };
    // Padding behind the packet does not count.
    let end = match parts.version_4 {
        true => parts.network + usize::from(word(frame, parts.network + 2)?),
        false => parts.network + 40 + usize::from(word(frame, parts.network + 4)?),
    };
    let end = end.min(frame.len());
    put(frame, at, 0);
    let segment = frame.get(parts.transport..end)?;
    let addresses = match parts.version_4 {
        true => frame.get(parts.network + 12..parts.network + 20)?,
        false => frame.get(parts.network + 8..parts.network + 40)?,
    };
    let pseudo = sum(addresses, u32::from(parts.protocol) + segment.len() as u32);
    let value = !(sum(segment, (pseudo & 0xffff) + (pseudo >> 16)) as u16);
    // In UDP, no checksum is zero.
    let value = if value == 0 && parts.protocol == UDP { 0xffff } else { value };
    put(frame, at, value);
    Some(())
}

/// Cuts a TCP segment into frames of `most` bytes of payload, its headers being the first `headers`
/// bytes.
pub(crate) fn segments(frame: &[u8], headers: usize, most: usize) -> Option<Vec<Vec<u8>>> {
    let parts = parts(frame)?;
    let payload = frame.get(headers..)?;
    if parts.protocol != TCP || most == 0 || headers < parts.transport + 20 {
        return None;
    }
    let sequence = parts.transport + 4;
    let first = u32::from_be_bytes(frame.get(sequence..sequence + 4)?.try_into().ok()?);
    let identification = word(frame, parts.network + 4)?;
    let flags = *frame.get(parts.transport + 13)?;
    /// FIN and PSH belong to the last segment only.
    const LAST_ONLY: u8 = 0x09;
    let count = payload.len().div_ceil(most).max(1);
    let mut all = Vec::with_capacity(count);
    for (number, part) in payload.chunks(most).enumerate() {
        let mut segment = frame.get(..headers)?.to_vec();
        segment.extend_from_slice(part);
        let length = (segment.len() - parts.network) as u16;
        match parts.version_4 {
            true => {
                put(&mut segment, parts.network + 2, length);
                put(&mut segment, parts.network + 4, identification.wrapping_add(number as u16));
            }
            false => put(&mut segment, parts.network + 4, length.wrapping_sub(40)),
        }
        let here = first.wrapping_add((number * most) as u32);
        segment.get_mut(sequence..sequence + 4)?.copy_from_slice(&here.to_be_bytes());
        if number + 1 < count {
            *segment.get_mut(parts.transport + 13)? = flags & !LAST_ONLY;
        }
        all.push(segment);
    }
    Some(all)
}

/// Inserts a VLAN tag behind the addresses.
pub(crate) fn insert_tag(frame: &mut Vec<u8>, tag: u16) {
    if frame.len() >= 12 {
        let [a, b] = VLAN.to_be_bytes();
        let [c, d] = tag.to_be_bytes();
        frame.splice(12..12, [a, b, c, d]);
    }
}

/// The address that a frame goes to, and the one that it is from.
pub(crate) fn addresses(frame: &[u8]) -> Option<([u8; 6], [u8; 6])> {
    Some((frame.get(..6)?.try_into().ok()?, frame.get(6..12)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A TCP segment over IPv4 with `payload` bytes.
    fn tcp(payload: usize) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 0, 0, 7, 0, 0, 64, TCP, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        frame.extend([0, 80, 1, 0, 0, 0, 0, 100, 0, 0, 0, 0, 0x50, 0x19, 0, 0, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|at| at as u8));
        let length = (frame.len() - HEADER) as u16;
        put(&mut frame, HEADER + 2, length);
        frame
    }

    /// Whether a frame's checksums are right: the sum over what each covers is all ones.
    fn is_right(frame: &[u8]) -> bool {
        let segment = &frame[34..];
        let pseudo = sum(&frame[26..34], u32::from(TCP) + segment.len() as u32);
        sum(&frame[14..34], 0) == 0xffff && sum(segment, pseudo) == 0xffff
    }

    #[test]
    fn checksums_are_what_receivers_check() {
        for payload in [0, 1, 2, 99, 1400] {
            let mut frame = tcp(payload);
            fill_checksums(&mut frame, true, true).unwrap();
            assert!(is_right(&frame), "{payload}");
        }
    }

    #[test]
    fn a_segment_is_cut_into_ones_that_follow_each_other() {
        let whole = tcp(2500);
        let parts = segments(&whole, 54, 1000).unwrap();
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [1054, 1054, 554]);
        let mut payload = Vec::new();
        for (number, part) in (0u32..).zip(&parts) {
            let mut part = part.clone();
            fill_checksums(&mut part, true, true).unwrap();
            assert!(is_right(&part));
            assert_eq!(part[38..42], (100 + number * 1000).to_be_bytes());
            assert_eq!(word(&part, 18), Some(7 + number as u16));
            assert_eq!(part[47], if number == 2 { 0x19 } else { 0x10 });
            payload.extend_from_slice(&part[54..]);
        }
        assert_eq!(payload, whole[54..]);
    }

    #[test]
    fn frames_that_end_early_are_left_alone() {
        let whole = tcp(20);
        for length in 0..54 {
            let mut frame = whole[..length].to_vec();
            let _ = fill_checksums(&mut frame, true, true);
            let _ = segments(&frame, 54, 10);
            let _ = checksum_after_header(&frame);
            insert_tag(&mut frame, 5);
        }
    }
}

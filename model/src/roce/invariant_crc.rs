//! The invariant CRC: what a packet ends with, over all that no router changes.

use crc32fast::Hasher;

/// The longest network header there is: IPv4 with all the options it has room for.
const LONGEST: usize = 60;

/// The bytes of IPv4 that routers change: type of service, time to live, header checksum.
const IPV4_CHANGES: [usize; 4] = [1, 8, 10, 11];

/// The invariant CRC of a packet (annex A17.3.3): network header, UDP header, and the transport's
/// bytes without the CRC. It is written little-endian, as the CRC of Ethernet is, whose polynomial
/// it has.
///
/// What routers may change counts as ones, and so does a local route header that is not there.
/// `network` is a whole IPv4 or IPv6 header; anything else has some number, too.
pub fn invariant_crc(network: &[u8], udp: &[u8; 8], transport: &[u8]) -> u32 {
    let mut masked = [0; LONGEST];
    let network = &network[..network.len().min(LONGEST)];
    let masked = &mut masked[..network.len()];
    masked.copy_from_slice(network);
    if network.first().is_some_and(|first| first >> 4 == 6) {
        // Traffic class and flow label; hop limit.
        let changes = masked.iter_mut().zip([0x0f, 0xff, 0xff, 0xff, 0, 0, 0, 0xff]);
        changes.for_each(|(byte, ones)| *byte |= ones);
    } else {
        for at in IPV4_CHANGES {
            if let Some(byte) = masked.get_mut(at) {
                *byte = 0xff;
            }
        }
    }
    let mut crc = Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(masked);
    // The UDP checksum.
    let [ports_and_length @ .., _, _] = udp;
    crc.update(ports_and_length);
    crc.update(&[0xff; 2]);
    // The byte of the congestion marks, before the queue pair's number.
    match transport {
        [start @ .., _] if start.len() < 5 => crc.update(transport),
        [a, b, c, d, _, rest @ ..] => {
            crc.update(&[*a, *b, *c, *d, 0xff]);
            crc.update(rest);
        }
        _ => crc.update(transport),
    }
    crc.finalize()
}

//! Bytes from a peer: its endpoint, and slices of its memory.

use crate::input::Input;
use doorbell::endpoint::{Endpoint, EndpointError, LinkLayer, Mtu};
use doorbell::wr::{self, LocalSlice, Nothing, RemoteSlice};

/// Bytes that a peer sent, as an endpoint and as a slice, and what is done with those.
pub fn run(bytes: &[u8]) {
    endpoint(bytes);
    if let Some(first) = bytes.first_chunk::<{ Endpoint::BYTES }>() {
        endpoint(first);
    }
    let input = Input::new(bytes);
    slice(&input);
}

fn endpoint(bytes: &[u8]) {
    match Endpoint::from_bytes(bytes) {
        Ok(endpoint) => {
            assert!(is_endpoint(bytes), "taken for an endpoint: {bytes:?}");
            assert_eq!(endpoint.to_bytes(), bytes);
            assert_eq!(endpoint.mtu() as u8, bytes[2]);
            assert_eq!(endpoint.read_depth(), bytes[3]);
            match endpoint.link() {
                LinkLayer::InfiniBand => {
                    assert_eq!(endpoint.lid().to_be_bytes(), bytes[4..6]);
                    assert_eq!(endpoint.mac(), None);
                }
                LinkLayer::Ethernet => {
                    assert_eq!(endpoint.lid(), 0);
                    assert_eq!(endpoint.mac().unwrap_or_default(), bytes[4..10]);
                }
            }
            assert_eq!(endpoint.queue_pair().to_be_bytes()[1..], bytes[10..13]);
            assert_eq!(endpoint.packet_sequence().to_be_bytes()[1..], bytes[13..16]);
            assert_eq!(endpoint.gid(), bytes[16..]);
        }
        Err(error) => {
            assert!(!is_endpoint(bytes), "not taken for an endpoint: {error}");
            assert!(error.to_string().contains("endpoint"));
            match error {
                EndpointError::Length { given } => {
                    assert_eq!(given, bytes.len());
                    assert_ne!(given, Endpoint::BYTES);
                }
                EndpointError::Version { given } => assert_ne!(given, Endpoint::VERSION),
                EndpointError::Field { field, given, least, most } => {
                    assert!(!(least..=most).contains(&given), "{field} {given} is in its bounds");
                }
                other => panic!("a new kind of error, which this does not check: {other}"),
            }
        }
    }
}

/// Whether bytes are an endpoint by the table in `Endpoint::to_bytes`.
fn is_endpoint(bytes: &[u8]) -> bool {
    bytes.len() == 32
        && bytes[0] == 0xd2
        && bytes[1] < 2
        && Mtu::from_code(bytes[2]).is_some()
        && (bytes[10..12] != [0; 2] || bytes[12] > 1)
}

fn slice(input: &Input) {
    let bytes = input.array();
    let remote = RemoteSlice::from_bytes(bytes);
    assert_eq!(remote.to_bytes(), bytes);
    assert_eq!(RemoteSlice::new(remote.address(), remote.len(), remote.rkey()), remote);

    let (start, end) = (input.double(), input.double());
    match remote.slice(start..end) {
        Ok(part) => {
            assert!(start <= end && end <= remote.len());
            assert_eq!(part.len(), end - start);
            assert_eq!(part.address().wrapping_sub(remote.address()), start);
            assert_eq!(part.rkey(), remote.rkey());
        }
        Err(error) => {
            assert!(start > end || end > remote.len(), "{error}");
            assert_eq!((error.start, error.end, error.len), (start, end, remote.len()));
            assert!(error.to_string().contains(&remote.len().to_string()));
        }
    }

    // SAFETY: M2: there is no NIC, and nothing is posted.
    let local = unsafe { LocalSlice::from_parts(0x1_0000, input.word(), 1) };
    let fits = u64::from(local.len()) <= remote.len();
    assert_eq!(wr::write(local, remote).is_ok(), fits);
    assert_eq!(wr::write_immediate(&[local][..], remote, 0).is_ok(), fits);
    assert_eq!(wr::read([local], remote).is_ok(), fits);
    assert!(wr::write(Nothing, remote).is_ok());
    let eight = local.len() == 8 && remote.len() == 8 && remote.address().is_multiple_of(8);
    assert_eq!(wr::fetch_add(local, remote, 1).is_ok(), eight);
    if let Err(error) = wr::compare_swap(local, remote, 0, 1) {
        assert!(!eight && !error.to_string().is_empty());
    }
}

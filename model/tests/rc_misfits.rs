//! Ends that do not fit each other: of different path MTUs, or of different connections.

mod rig;

use doorbell_model::rc::{Failure, Mtu, NakCode, Operation, Status};
use rig::*;

/// An end whose packets have up to `mtu` bytes, and which begins with `first_psn`.
fn end(mtu: Mtu, first_psn: u32) -> End {
    Setup { mtu, first_psn, ..Setup::default() }.end(1)
}

/// Lets `a` write `length` bytes to `b`; how that ends, and whether a byte has arrived.
fn write(a: &mut End, b: &mut End, length: u32) -> (Vec<Status>, bool) {
    a.device.write(0, &pattern(length as usize, 1));
    let list = a.device.list(0, length);
    a.device.post(Operation::Write(b.device.remote(0)), list);
    exchange(0, a, b);
    (a.device.statuses(), b.device.read(0, length as usize).iter().any(|byte| *byte != 0))
}

#[test]
fn packets_of_another_path_mtu_are_invalid_and_change_nothing() {
    // Longer ones than this end takes, and shorter ones before the last.
    for (from, to, length) in [
        (Mtu::B1024, Mtu::B256, 600),
        (Mtu::B1024, Mtu::B256, 5000),
        (Mtu::B4096, Mtu::B2048, 4096),
        (Mtu::B256, Mtu::B1024, 600),
    ] {
        let (mut a, mut b) = (end(from, 100), end(to, 100));
        let (statuses, arrived) = write(&mut a, &mut b, length);
        assert_eq!(statuses, [Status::RemoteInvalidRequest], "{from:?} to {to:?}, {length}");
        assert!(!arrived, "{from:?} to {to:?}, {length}");
        let cause = &b.device.failures[..];
        assert!(matches!(cause, [Failure::Peer { nak: NakCode::InvalidRequest, .. }]), "{cause:?}");
    }
    // What fits both is no matter.
    let (mut a, mut b) = (end(Mtu::B1024, 100), end(Mtu::B256, 100));
    assert_eq!(write(&mut a, &mut b, 256).0, [Status::Success]);
}

#[test]
fn answers_of_another_path_mtu_are_bad_responses() {
    for (from, to) in [(Mtu::B256, Mtu::B1024), (Mtu::B1024, Mtu::B256)] {
        let (mut a, mut b) = (end(from, 100), end(to, 100));
        b.device.write(0, &pattern(600, 1));
        let list = a.device.list(0x1000, 600);
        a.device.post(Operation::Read(b.device.remote(0)), list);
        exchange(0, &mut a, &mut b);
        assert_eq!(a.device.statuses(), [Status::BadResponse], "{from:?} to {to:?}");
        assert_eq!(a.device.read(0x1000, 600), [0; 600]);
    }
}

#[test]
fn a_peer_that_comes_back_with_psns_of_before_is_answered_and_not_obeyed() {
    let (mut a, mut b) = (end(Mtu::B256, 1000), end(Mtu::B256, 1000));
    assert_eq!(write(&mut a, &mut b, 256 * 10).0, [Status::Success]);
    let before = b.device.read(0, 256 * 10);
    // It has forgotten everything, and writes other bytes with the same numbers.
    let mut again = end(Mtu::B256, 1000);
    again.device.write(0, &pattern(256 * 10, 2));
    let list = again.device.list(0, 256 * 10);
    again.device.post(Operation::Write(b.device.remote(0)), list);
    exchange(0, &mut again, &mut b);
    assert!(b.device.read(0, 256 * 10) == before, "they are duplicates");
    assert!(b.device.failures.is_empty());
    // The true peer goes on as if nothing had been.
    assert_eq!(write(&mut a, &mut b, 16).0, [Status::Success; 2]);
    assert_eq!(b.device.read(0, 16), pattern(16, 1));
}

#[test]
fn a_peer_that_begins_with_psns_to_come_is_told_so_until_it_gives_up() {
    let (mut a, mut b) = (end(Mtu::B256, 1500), end(Mtu::B256, 1000));
    let list = a.device.list(0, 16);
    a.device.post(Operation::Write(b.device.remote(0)), list);
    let mut now = 0;
    for _ in 0..100 {
        exchange(now, &mut a, &mut b);
        let Some(deadline) = a.connection.next_deadline() else { break };
        now = deadline;
    }
    assert_eq!(a.device.statuses(), [Status::TransportRetryExceeded]);
    assert_eq!(b.device.read(0, 16), [0; 16]);
    assert!(b.device.failures.is_empty());
}

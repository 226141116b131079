//! The longest messages: 2^31 bytes.

mod rig;

use doorbell_model::memory::{Access, Entry, List, Pages};
use doorbell_model::rc::{
    Failure, Headers, Mtu, NakCode, Opcode, Operation, Packet, Psn, Remote, Status,
};
use rig::*;

const LONGEST: u32 = 1 << 31;
const PAGE: u64 = 1 << 20;

/// A key to 2^31 bytes and more which are the same few pages again and again, shifted so that the
/// pages of `a` and `b` meet in every combination.
fn folded(end: &mut End, pages: u64) -> u32 {
    let addresses: Vec<u64> =
        (0..=u64::from(LONGEST) / PAGE).map(|at| BASE + at % pages * PAGE).collect();
    let mut region = registration(0, u64::from(LONGEST) + PAGE, Access::ALL);
    region.pages = Pages::List { log_size: 20, addresses: addresses.into() };
    end.device.memory.keys.insert(region, None).unwrap()
}

fn pair() -> (End, End, u32, u32) {
    let setup =
        Setup { mtu: Mtu::B4096, memory: 4 << 20, first_psn: 0xff_ff00, ..Setup::default() };
    let (mut a, mut b) = setup.pair();
    a.device.write(0, &pattern(2 << 20, 1));
    let (from, to) = (folded(&mut a, 2), folded(&mut b, 3));
    (a, b, from, to)
}

/// After 2048 pages from two to three in turn, page `n` has what was last written to it.
fn expected() -> Vec<u8> {
    let page = |n: usize| pattern(2 << 20, 1)[n % 2 * PAGE as usize..][..PAGE as usize].to_vec();
    (0..3).flat_map(|n| page((0..2048).rev().find(|at| at % 3 == n).unwrap())).collect()
}

#[test]
fn a_write_and_a_read_of_2_to_the_31_bytes() {
    for read in [false, true] {
        let (mut a, mut b, from, to) = pair();
        if read {
            // The peer reads what the other test writes.
            let list = List::from_iter([Entry { address: 0, length: LONGEST, lkey: to }]);
            b.device.post(Operation::Read(Remote { address: 0, rkey: from }), list);
        } else {
            let list = List::from_iter([Entry { address: 0, length: LONGEST, lkey: from }]);
            a.device.post(Operation::Write(Remote { address: 0, rkey: to }), list);
        }
        exchange(0, &mut a, &mut b);
        let requester = if read { &b } else { &a };
        assert_eq!(requester.device.statuses(), [Status::Success]);
        assert!(b.device.read(0, 3 << 20) == expected());
        assert_eq!(b.device.read(3 << 20, 1 << 20), vec![0; 1 << 20]);
    }
}

#[test]
fn a_send_longer_than_2_to_the_31_bytes_is_invalid_even_if_the_receive_is_longer() {
    let (_, mut b, _, to) = pair();
    let list = List::from_iter([
        Entry { address: 0, length: LONGEST, lkey: to },
        Entry { address: 0, length: 4096, lkey: to },
    ]);
    b.device.post_receive(list);
    let mut packet = Packet {
        opcode: Opcode::SendFirst,
        solicited: false,
        partition_key: 0xffff,
        destination: 1,
        extended: None,
        ack_request: false,
        psn: Psn::new(0xff_ff00),
        headers: Headers::Plain,
        payload: doorbell_model::memory::Payload::copy_of(&[1; 4096]),
        run: 1,
    };
    for _ in 0..LONGEST / 4096 {
        b.take(0, [&packet]);
        packet.psn = packet.psn.add(1);
        packet.opcode = Opcode::SendMiddle;
    }
    assert!(b.packets(0).is_empty());
    assert_eq!(b.answer(0, [&packet]).len(), 1);
    assert_eq!(b.device.received[0].status, Status::RemoteInvalidRequest);
    let nak = NakCode::InvalidRequest;
    assert!(matches!(b.device.failures[..], [Failure::Peer { nak: got, .. }] if got == nak));
}

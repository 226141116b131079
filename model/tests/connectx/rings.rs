//! Rings and registers, by hand: what the NIC reads, when it reads it, and what it answers.

use crate::client::*;
use crate::side::*;
use doorbell::mlx5::abi::U24;
use doorbell::mlx5::abi::cqe::CompletionOpcode;
use doorbell::mlx5::abi::verbs::qp::QpState;
use doorbell::mlx5::abi::wqe::{
    AtomicSegment, CompletionMode, ControlFlags, ControlSegment, DataSegment, FenceMode,
    InlineHeader, Opcode, RemoteAddressSegment,
};
use doorbell_hal::mmio::Register;
use doorbell_model::connectx::Network;
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// The syndrome of a malformed entry, and of one that was flushed.
const OPERATION: u8 = 0x02;
const FLUSHED: u8 = 0x05;

#[test]
fn a_write_lands_and_completes_with_its_index_and_user_index() {
    let (network, mut a, b) = connected(1);
    store(&a.memory, 100, b"written by hand");
    let entry = a.pair.write_entry(a.piece(100, 15), b.address(200), b.key);
    let index = a.pair.post(&entry);
    settle(&network);
    assert_eq!(load(&b.memory, 200, 15), b"written by hand");
    let completion = a.queue.poll().unwrap();
    assert_eq!(completion.op_own.opcode(), CompletionOpcode::Request.code());
    assert_eq!(completion.wqe_counter.get(), index);
    assert_eq!(completion.srqn_uidx.user_index().get(), 0x123);
    assert_eq!(completion.sop_drop_qpn.queue_pair().get(), a.pair.number);
    assert_eq!(completion.sop_drop_qpn.opcode(), Opcode::Write.code());
    assert!(a.queue.poll().is_none());
    let counters = a.client.control.counters();
    assert_eq!((counters.register_stores, counters.send_doorbells), (1, 1));
    assert_eq!((counters.send_entries, counters.completions), (1, 1));
    assert!(a.client.control.log().is_empty(), "{}", a.client.control.log());
}

#[test]
fn two_queue_pairs_of_one_nic_talk_to_each_other() {
    let network = Network::stepped(2);
    let mut side = Side::new(&network, &QueueOptions::default(), &PairOptions::default());
    let options = PairOptions { user_index: 0x456, ..PairOptions::default() };
    let other = side.client.pair(side.domain, side.page, side.queue.handle, &options);
    for (pair, peer) in [(&side.pair, &other), (&other, &side.pair)] {
        side.client.to_init(pair.handle, peer_rights()).unwrap();
        side.client.to_rtr(pair.handle, peer.number, side.client.gid()).unwrap();
        side.client.to_rts(pair.handle).unwrap();
    }
    store(&side.memory, 0, &[7; 64]);
    let entry = side.pair.write_entry(side.piece(0, 64), side.address(4096), side.key);
    side.pair.post(&entry);
    settle(&network);
    assert_eq!(side.queue.drain(), [(0, 0)]);
    assert_eq!(load(&side.memory, 4096, 64), [7; 64]);
}

#[test]
fn without_the_register_or_without_the_record_nothing_happens() {
    let (network, mut a, b) = connected(3);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    // Record, no register.
    let first = a.pair.write(&entry);
    a.pair.publish();
    settle(&network);
    assert!(a.queue.poll().is_none(), "the NIC looked without being told");
    a.pair.ring(first);
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, first)]);
    // Register, no record.
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    let second = a.pair.write(&entry);
    a.pair.ring(second);
    settle(&network);
    assert!(a.queue.poll().is_none(), "the NIC went past its record");
    assert_eq!(a.client.control.counters().record_behind_register, 1);
    a.pair.publish();
    a.pair.ring(second);
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, second)]);
}

#[test]
fn one_doorbell_is_enough_for_a_batch() {
    let (network, mut a, b) = connected(4);
    let mut last = 0;
    for at in 0..10 {
        store(&a.memory, at, &[at as u8]);
        let entry = a.pair.write_entry(a.piece(at, 1), b.address(at), b.key);
        last = a.pair.write(&entry);
    }
    a.pair.publish();
    a.pair.ring(last);
    settle(&network);
    assert_eq!(a.queue.drain(), (0..10).map(|index| (0, index)).collect::<Vec<_>>());
    assert_eq!(load(&b.memory, 0, 10), (0..10).collect::<Vec<u8>>());
}

#[test]
fn entries_of_every_size_cross_the_rings_end_from_every_slot() {
    let (network, mut a, b) = connected(5);
    // 16 slots; inline entries of up to 8 slots; over 16-bit wraps of the index, too.
    let mut total = 0u32;
    for round in 0..400u32 {
        let length = 1 + (round * 37) % 470;
        let bytes: Vec<u8> = (0..length).map(|at| (at + round) as u8).collect();
        let segments = (16 + 16 + 4 + length as usize).div_ceil(16);
        let mut entry = a.pair.control(Opcode::Write, segments as u8).as_bytes().to_vec();
        entry.extend_from_slice(RemoteAddressSegment::new(b.address(0), b.key).as_bytes());
        entry.extend_from_slice(InlineHeader::of(length as u16).as_bytes());
        entry.extend_from_slice(&bytes);
        let index = a.pair.post(&entry);
        settle(&network);
        assert_eq!(a.queue.drain(), [(0, index)], "{length} bytes from slot {}", index % 16);
        assert_eq!(load(&b.memory, 0, length as usize), bytes);
        total += entry.len().div_ceil(64) as u32;
    }
    assert_eq!(a.pair.posted, total as u16);
}

#[test]
fn the_16_bit_index_wraps_on_a_small_ring() {
    let (network, mut a, b) = connected(6);
    let mut expected = Vec::new();
    for _ in 0..(1 << 16) / 16 + 2 {
        let mut last = 0;
        for _ in 0..16 {
            let flags = ControlFlags::of(CompletionMode::OnError, false, FenceMode::None);
            let mut entry = a.pair.control_with(Opcode::Write, 3, flags, 0).as_bytes().to_vec();
            entry.extend_from_slice(RemoteAddressSegment::new(b.address(0), b.key).as_bytes());
            entry.extend_from_slice(a.piece(0, 8).as_bytes());
            last = a.pair.write(&entry);
        }
        a.pair.publish();
        a.pair.ring(last);
        settle(&network);
    }
    // Only the last one asks for a completion.
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    let index = a.pair.post(&entry);
    expected.push((0, index));
    settle(&network);
    assert_eq!(a.queue.drain(), expected);
    assert!(index < 64, "the index did not wrap: {index}");
}

#[test]
fn a_blue_flame_copy_brings_the_entry_itself() {
    let (network, mut a, b) = connected(7);
    store(&a.memory, 0, &[0x11; 64]);
    // The ring holds an entry that writes elsewhere: the copy counts.
    let ring_entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    let copy_entry = a.pair.write_entry(a.piece(0, 8), b.address(512), b.key);
    let index = a.pair.write(&ring_entry);
    a.pair.publish();
    let mut slot = [0u64; 8];
    slot.as_mut_bytes()[..48].copy_from_slice(&copy_entry);
    // SAFETY: R1: the register is a whole send register.
    unsafe { a.pair.register.copy(256, &slot) };
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, index)]);
    assert_eq!(load(&b.memory, 512, 8), [0x11; 8]);
    assert_eq!(load(&b.memory, 0, 8), [0; 8]);
    assert_eq!(a.client.control.counters().blue_flame_entries, 1);
}

#[test]
fn a_blue_flame_copy_of_several_slots_is_one_entry() {
    for seed in 0..30 {
        let (network, mut a, b) = connected(seed);
        let bytes: Vec<u8> = (0..150).collect();
        let segments = (16 + 16 + 4 + bytes.len()).div_ceil(16);
        let mut entry = a.pair.control(Opcode::Write, segments as u8).as_bytes().to_vec();
        entry.extend_from_slice(RemoteAddressSegment::new(b.address(0), b.key).as_bytes());
        entry.extend_from_slice(InlineHeader::of(150).as_bytes());
        entry.extend_from_slice(&bytes);
        entry.resize(192, 0);
        let index = a.pair.write(&entry);
        a.pair.publish();
        for (at, bytes) in entry.chunks(64).enumerate() {
            let mut slot = [0u64; 8];
            slot.as_mut_bytes().copy_from_slice(bytes);
            // SAFETY: R1: inside the first half of the register.
            unsafe { a.pair.register.copy(at * 64, &slot) };
        }
        settle(&network);
        assert_eq!(a.queue.drain(), [(0, index)]);
        assert_eq!(load(&b.memory, 0, 150), bytes);
        let counters = a.client.control.counters();
        assert_eq!((counters.blue_flame_entries, counters.stray_doorbells), (1, 0));
        assert!(a.client.control.log().is_empty(), "{}", a.client.control.log());
    }
}

#[test]
fn a_send_fills_the_receives_pieces_in_order() {
    let (network, mut a, mut b) = connected(8);
    let pieces = [b.piece(0, 10), b.piece(1000, 20), b.piece(2000, 100)];
    b.pair.receive(&pieces);
    store(&a.memory, 0, &(0..60).collect::<Vec<u8>>());
    let entry = a.pair.send_entry(a.piece(0, 60));
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, 0)]);
    let completion = b.queue.poll().unwrap();
    assert_eq!(completion.op_own.opcode(), CompletionOpcode::ReceiveSend.code());
    assert_eq!(completion.byte_cnt.get(), 60);
    assert_eq!(completion.srqn_uidx.user_index().get(), 0x123);
    assert_eq!(load(&b.memory, 0, 10), (0..10).collect::<Vec<u8>>());
    assert_eq!(load(&b.memory, 1000, 20), (10..30).collect::<Vec<u8>>());
    assert_eq!(load(&b.memory, 2000, 30), (30..60).collect::<Vec<u8>>());
}

#[test]
fn immediates_and_reads_and_atomics_complete_as_their_kind() {
    let (network, mut a, mut b) = connected(9);
    b.pair.receive(&[b.piece(0, 64)]);
    b.pair.receive(&[]);
    number(&b.memory, 4096).store(40, Ordering::Relaxed);
    let flags = ControlFlags::of(CompletionMode::Always, true, FenceMode::SmallAndFence);
    let mut send = a.pair.control_with(Opcode::SendImmediate, 1, flags, 0xaabb_ccdd);
    a.pair.post(send.as_bytes());
    send = a.pair.control_with(Opcode::WriteImmediate, 2, flags, 0x1020_3040);
    let mut entry = send.as_bytes().to_vec();
    entry.extend_from_slice(RemoteAddressSegment::new(0, 0).as_bytes());
    a.pair.post(&entry);
    for opcode in [Opcode::FetchAdd, Opcode::CompareSwap] {
        let mut entry = a.pair.control(opcode, 4).as_bytes().to_vec();
        entry.extend_from_slice(RemoteAddressSegment::new(b.address(4096), b.key).as_bytes());
        let operands = match opcode {
            Opcode::FetchAdd => AtomicSegment::fetch_add(2),
            _ => AtomicSegment::compare_swap(42, 1000),
        };
        entry.extend_from_slice(operands.as_bytes());
        entry.extend_from_slice(
            a.piece(if opcode == Opcode::FetchAdd { 0 } else { 8 }, 8).as_bytes(),
        );
        a.pair.post(&entry);
    }
    let mut entry = a.pair.control(Opcode::Read, 3).as_bytes().to_vec();
    entry.extend_from_slice(RemoteAddressSegment::new(b.address(4096), b.key).as_bytes());
    entry.extend_from_slice(a.piece(16, 8).as_bytes());
    a.pair.post(&entry);
    a.pair.post(a.pair.control(Opcode::Nop, 1).as_bytes().to_vec().as_slice());
    settle(&network);
    let bytes: Vec<_> = std::iter::from_fn(|| a.queue.poll())
        .map(|completion| (completion.sop_drop_qpn.opcode(), completion.byte_cnt.get()))
        .collect();
    let expected = [
        (Opcode::SendImmediate, 0),
        (Opcode::WriteImmediate, 0),
        (Opcode::FetchAdd, 8),
        (Opcode::CompareSwap, 8),
        (Opcode::Read, 8),
        (Opcode::Nop, 0),
    ];
    assert_eq!(bytes, expected.map(|(opcode, bytes)| (opcode.code(), bytes)));
    let answers = [0, 8, 16].map(|at| number(&a.memory, at).load(Ordering::Relaxed));
    assert_eq!(answers, [40, 42, 1000], "in this machine's byte order");
    let first = b.queue.poll().unwrap();
    assert_eq!(first.op_own.opcode(), CompletionOpcode::ReceiveSendImmediate.code());
    assert_eq!((first.imm_inval_pkey.get(), first.byte_cnt.get()), (0xaabb_ccdd, 0));
    assert!(first.op_own.solicited());
    let second = b.queue.poll().unwrap();
    assert_eq!(second.op_own.opcode(), CompletionOpcode::ReceiveWriteImmediate.code());
    assert_eq!(second.imm_inval_pkey.get(), 0x1020_3040);
}

#[test]
fn completions_of_128_bytes_are_in_the_second_half_of_their_entry() {
    let network = Network::stepped(10);
    let wide = QueueOptions { size: 128, entries: 3, ..QueueOptions::default() };
    let [mut a, b] = [(); 2].map(|()| Side::new(&network, &wide, &PairOptions::default()));
    connect(&a, &b);
    for _ in 0..10 {
        let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
        let index = a.pair.post(&entry);
        settle(&network);
        assert_eq!(a.queue.drain(), [(0, index)]);
    }
}

/// Posts an entry that is malformed, and one behind it; answers with what they complete with.
fn malformed(change: impl Fn(&Side, &mut Vec<u8>)) -> Vec<(u8, u16)> {
    let (network, mut a, b) = connected(11);
    let mut entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    entry.resize(64, 0);
    change(&a, &mut entry);
    a.pair.write(&entry);
    let mut good = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    good.resize(64, 0);
    a.pair.write(&good);
    a.pair.publish();
    a.pair.ring(1);
    settle(&network);
    assert_eq!(load(&b.memory, 0, 8), [0; 8]);
    assert!(a.client.control.counters().malformed_entries >= 1);
    assert!(!a.client.control.log().is_empty());
    a.queue.drain()
}

#[test]
fn malformed_entries_fail_their_queue_pair_and_what_follows_is_flushed() {
    let both = [(OPERATION, 0), (FLUSHED, 1)];
    let control = |side: &Side, opcode, index, segments| {
        let flags = ControlFlags::of(CompletionMode::Always, false, FenceMode::None);
        let number = U24::truncate(side.pair.number);
        ControlSegment::new(opcode, index, number, segments, flags, 0)
    };
    let opcode = malformed(|_, entry| entry[3] = 0x3f);
    assert_eq!(opcode, both, "an unknown operation");
    let pair = malformed(|_, entry| entry[6] ^= 1);
    assert_eq!(pair, both, "another queue pair's number");
    let index = malformed(|side, entry| {
        entry[..16].copy_from_slice(control(side, Opcode::Write, 9, 3).as_bytes());
    });
    assert_eq!(index, both, "another slot's index");
    let short = malformed(|side, entry| {
        entry[..16].copy_from_slice(control(side, Opcode::Write, 0, 1).as_bytes());
    });
    assert_eq!(short, both, "no remote address");
    let inline = malformed(|_, entry| {
        entry[32..36].copy_from_slice(InlineHeader::of(29).as_bytes());
    });
    assert_eq!(inline, both, "more inline bytes than the entry has");
    let read = malformed(|side, entry| {
        entry[..16].copy_from_slice(control(side, Opcode::Read, 0, 3).as_bytes());
        entry[32..36].copy_from_slice(InlineHeader::of(8).as_bytes());
    });
    assert_eq!(read, both, "a read into the entry");
    let modifier = malformed(|_, entry| entry[0] = 1);
    assert_eq!(modifier, both, "a modifier");
    let none = malformed(|side, entry| {
        entry[..16].copy_from_slice(control(side, Opcode::Write, 0, 0).as_bytes());
    });
    assert_eq!(none, both, "no segments at all");
    let unposted = malformed(|side, entry| {
        entry[..16].copy_from_slice(control(side, Opcode::Write, 0, 63).as_bytes());
    });
    // It claims both slots.
    assert_eq!(unposted, [(OPERATION, 0)], "more slots than are posted");
}

#[test]
fn doorbells_that_nobody_listens_to_are_counted() {
    let (network, mut a, b) = connected(12);
    let control =
        ControlSegment::new(Opcode::Nop, 0, U24::truncate(0xabcd), 1, ControlFlags::new(), 0);
    // SAFETY: R1: inside the send register.
    unsafe {
        a.pair.register.store(0, control.doorbell());
        a.pair.register.store(8, control.doorbell());
    }
    // A queue pair of another page.
    let (_, _, offset) = a.client.uar();
    let other = {
        use doorbell_hal::mmio::RegisterPage;
        use doorbell_hal::uverbs::Uverbs;
        a.client.file.map(offset, 4096).unwrap().register(0x800, 512).unwrap()
    };
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    a.pair.write(&entry);
    a.pair.publish();
    let value = u64::from_ne_bytes(entry[..8].try_into().unwrap());
    // SAFETY: R1: inside the send register.
    unsafe { other.store(0, value) };
    settle(&network);
    assert!(a.queue.poll().is_none());
    assert_eq!(a.client.control.counters().stray_doorbells, 3);
    a.client.to_state(a.pair.handle, QpState::Reset).unwrap();
    a.pair.ring(0);
    settle(&network);
    assert_eq!(a.client.control.counters().stray_doorbells, 4, "a queue pair in Reset");
}

#[test]
fn a_record_that_announces_more_than_the_ring_holds_is_not_believed() {
    let (network, mut a, b) = connected(13);
    let entry = a.pair.write_entry(a.piece(0, 8), b.address(0), b.key);
    let index = a.pair.write(&entry);
    a.pair.posted = 40;
    a.pair.publish();
    a.pair.ring(index);
    settle(&network);
    assert!(a.queue.poll().is_none());
    assert!(a.client.control.log().to_string().contains("40 slots of a ring of 16"));
}

#[test]
fn receives_are_posted_by_their_record_alone() {
    let (network, mut a, mut b) = connected(14);
    let entry = a.pair.send_entry(a.piece(0, 8));
    a.pair.post(&entry);
    // The sender waits for a receive: it asks again and again.
    for _ in 0..200 {
        network.step();
    }
    assert!(a.queue.poll().is_none());
    b.pair.receive(&[b.piece(0, 8)]);
    assert!(network.run_until(100_000, || a.client.control.counters().completions == 1));
    assert_eq!(a.queue.drain(), [(0, 0)]);
    assert_eq!(b.client.control.counters().register_stores, 0);
    assert!(b.queue.poll().is_some());
}

#[test]
fn a_reset_queue_pair_starts_over_at_index_0() {
    let (network, mut a, mut b) = connected(15);
    for _ in 0..5 {
        b.pair.receive(&[b.piece(0, 8)]);
        let entry = a.pair.send_entry(a.piece(0, 8));
        a.pair.post(&entry);
    }
    settle(&network);
    assert_eq!((a.queue.drain().len(), b.queue.drain().len()), (5, 5));
    for side in [&mut a, &mut b] {
        side.client.to_state(side.pair.handle, QpState::Reset).unwrap();
        (side.pair.posted, side.pair.received) = (0, 0);
        side.pair.publish();
    }
    b.pair.receive(&[b.piece(0, 8)]);
    connect(&a, &b);
    let entry = a.pair.send_entry(a.piece(0, 8));
    a.pair.post(&entry);
    settle(&network);
    assert_eq!((a.queue.drain(), b.queue.drain()), (vec![(0, 0)], vec![(0, 0)]));
}

#[test]
fn a_receive_of_zero_bytes_in_a_segment_means_2_to_the_31() {
    let (network, mut a, mut b) = connected(16);
    // Longer than the region: the key's bounds refuse what goes past it, and no more.
    b.pair.receive(&[DataSegment::new(b.address(65536 - 16), b.key, 1 << 31)]);
    let entry = a.pair.send_entry(a.piece(0, 16));
    a.pair.post(&entry);
    settle(&network);
    assert_eq!(a.queue.drain(), [(0, 0)]);
    assert_eq!(b.queue.poll().unwrap().byte_cnt.get(), 16);
}

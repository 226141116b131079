//! Entries that change memory keys, as Linux's `mlx5_ib` and libmlx5 write them: fast registration,
//! windows, invalidation.

use crate::driver::{Driver, PAGE, get, put};
use crate::pair::Pair;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;
use doorbell_model::pci::Function;

/// The opcode of such entries.
const CHANGE: u8 = 0x25;
const INLINE: u8 = 1 << 7;
const IF_FREE: u8 = 1 << 5;
/// What changes.
const LENGTH: u64 = 1;
const PAGE_SIZE: u64 = 1 << 1;
const START: u64 = 1 << 6;
const REMOTE_INVALIDATE: u64 = 1 << 8;
const VARIANT: u64 = 1 << 13;
const RIGHTS: u64 = 0b11111 << 17;
const FREE: u64 = 1 << 29;
/// Syndromes of completions.
const BIND_ERROR: u8 = 0x06;
const REMOTE_ACCESS: u8 = 0x13;

/// A key that is free, and to be changed by entries: of pages, or of parts of other keys.
fn free_key(driver: &mut Driver, domain: u32, parts: bool) -> u32 {
    let mut input = Driver::with_pages(0x200, &[]);
    let context = 16 * 8;
    put(&mut input, context + 0x1, 1, 1);
    put(&mut input, context + 0x10, 1, 1);
    put(&mut input, context + 0x16, 2, if parts { 2 } else { 1 });
    put(&mut input, context + 0x38, 8, 0x10);
    put(&mut input, context + 0x68, 24, domain.into());
    put(&mut input, context + 0x1a0, 32, 4);
    (get(&driver.run(&input, 16), 0x48, 24) as u32) << 8 | 0x10
}

/// The segments of an entry: how, what changes, to which context, with which list.
fn change(flags: u8, mask: u64, context: &[u8; 64], list: &[u8]) -> Vec<[u8; 16]> {
    let mut bytes = vec![0; 48];
    bytes[0] = flags;
    bytes[4..6].copy_from_slice(&((list.len().next_multiple_of(64) / 16) as u16).to_be_bytes());
    bytes[8..16].copy_from_slice(&mask.to_be_bytes());
    bytes.extend_from_slice(context);
    bytes.extend_from_slice(list);
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes.chunks_exact(16).map(|segment| segment.try_into().unwrap()).collect()
}

/// A context: all rights, the low byte of the key, where it starts, its length.
fn context(variant: u8, start: u64, length: u64) -> [u8; 64] {
    let mut context = [0; 64];
    put(&mut context, 0x11, 5, 0b11111);
    put(&mut context, 0x38, 8, variant.into());
    put(&mut context, 0x67, 1, 1);
    put(&mut context, 0x80, 64, start);
    put(&mut context, 0xc0, 64, length);
    put(&mut context, 0x1da, 6, 12);
    context
}

fn freed() -> [u8; 64] {
    let mut context = [0; 64];
    put(&mut context, 1, 1, 1);
    context
}

fn remote(key: u32, address: u64) -> [u8; 16] {
    let mut segment = [0; 16];
    segment[..8].copy_from_slice(&address.to_be_bytes());
    segment[8..12].copy_from_slice(&key.to_be_bytes());
    segment
}

/// Two connected queue pairs of two functions.
fn connected() -> (Driver, Driver, Pair, Pair) {
    let network = Network::free();
    let mut left = Driver::new(&network, LinkLayer::InfiniBand, 1);
    let mut right = Driver::new(&network, LinkLayer::InfiniBand, 2);
    left.start();
    right.start();
    let (left_events, _) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let (a, b) = (Pair::new(&mut left, left_events), Pair::new(&mut right, right_events));
    a.connect(&mut left, 2, b.number);
    b.connect(&mut right, 1, a.number);
    (left, right, a, b)
}

/// Gives an entry that has to complete with this syndrome; 0 is success.
fn expect(driver: &mut Driver, pair: &mut Pair, key: u32, segments: &[[u8; 16]], syndrome: u8) {
    pair.send_with(driver, CHANGE, key, segments);
    let entry = pair.completion(driver);
    let found = if entry[63] >> 4 == 0 { 0 } else { entry[55] };
    assert_eq!(found, syndrome, "{:?}", driver.function.take_log());
}

#[test]
fn pages_are_registered_written_and_invalidated_by_entries() {
    let (mut left, mut right, mut a, mut b) = connected();
    let key = free_key(&mut right, b.domain, false);
    let pages = right.pages(2);
    let list = right.page();
    right.write(list, &(pages + PAGE).to_be_bytes());
    right.write(list + 8, &(pages | 3).to_be_bytes());
    // The key of its list is any that the queue pair may read; here a list in the pair's buffer.
    right.write(b.place(64), &right.read(list, 16));
    let now = key & !0xff | 0x77;
    let mask = LENGTH
        | PAGE_SIZE
        | START
        | REMOTE_INVALIDATE
        | VARIANT
        | RIGHTS
        | FREE
        | 1 << 23
        | 1 << 12;
    let segments = change(0, mask, &context(0x77, 0x5000_0010, 2 * PAGE - 16), &[]);
    let mut segments = segments;
    // 4 units of a list in memory.
    segments[0][4..6].copy_from_slice(&4u16.to_be_bytes());
    segments.push(b.data(64, 64));
    expect(&mut right, &mut b, now, &segments, 0);

    left.write(a.place(0), b"fast");
    a.send(&mut left, 0x08, &[remote(now, 0x5000_0010), a.data(0, 4)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(right.read(pages + PAGE + 16, 4), b"fast");
    a.send(&mut left, 0x08, &[remote(now, 0x5000_0000 + PAGE), a.data(0, 4)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(right.read(pages, 4), b"fast");

    // A SEND takes the key away.
    b.receive(&mut right, 0, 100);
    a.send_with(&mut left, 0x01, now, &[a.data(0, 4)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    let received = b.completion(&right);
    assert_eq!((received[63] >> 4, get(&received, 36 * 8, 32)), (4, now.into()));
    // What is free can be registered again, and taken away by its own side.
    expect(&mut right, &mut b, now, &change(IF_FREE, mask, &context(0x78, 0, 64), &[]), 0);
    let again = key & !0xff | 0x78;
    expect(&mut right, &mut b, again, &change(INLINE, FREE, &freed(), &[]), 0);
    a.send(&mut left, 0x08, &[remote(again, 0), a.data(0, 4)]);
    assert_eq!(a.completion(&left)[55], REMOTE_ACCESS);
    assert_eq!(right.about(0x202, key >> 8), 0);
}

#[test]
fn a_window_opens_a_part_of_a_region_until_it_is_closed() {
    let (mut left, mut right, mut a, mut b) = connected();
    let window = free_key(&mut right, b.domain, true);
    let now = window & !0xff | 0x11;
    let mut part = 100u32.to_be_bytes().to_vec();
    part.extend(b.key.to_be_bytes());
    part.extend(0x10_0040u64.to_be_bytes());
    let mask = LENGTH | START | VARIANT | RIGHTS & !(1 << 17) | FREE;
    let bind = change(INLINE | IF_FREE, mask, &context(0x11, 0x10_0040, 100), &part);
    expect(&mut right, &mut b, window, &bind, 0);
    left.write(a.place(0), b"through");
    a.send(&mut left, 0x08, &[remote(now, 0x10_0040), a.data(0, 7)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(right.read(b.place(0x40), 7), b"through");
    // One byte past its end.
    a.send(&mut left, 0x08, &[remote(now, 0x10_0040 + 94), a.data(0, 7)]);
    assert_eq!(a.completion(&left)[55], REMOTE_ACCESS);
}

#[test]
fn what_is_bound_is_not_bound_again() {
    let (_, mut right, _, mut b) = connected();
    let key = free_key(&mut right, b.domain, false);
    let bind = change(INLINE | IF_FREE, FREE, &context(0x10, 0, 0), &[]);
    expect(&mut right, &mut b, key, &bind, 0);
    expect(&mut right, &mut b, key, &bind, BIND_ERROR);
}

#[test]
fn keys_of_others_and_keys_that_were_not_made_for_it_are_not_changed() {
    for place in 0..3 {
        let (_, mut right, _, mut b) = connected();
        let other = right.allocate(0x800);
        let foreign = free_key(&mut right, other, false);
        let own = free_key(&mut right, b.domain, false);
        let (key, units) = match place {
            0 => (foreign, 0),
            // A key that a command made, once and for all.
            1 => (b.key, 0),
            // More pages than it has room for.
            _ => (own, 8),
        };
        let mut segments = change(INLINE, VARIANT | RIGHTS, &context(0x10, 0, 64), &[]);
        segments[0][4..6].copy_from_slice(&(units as u16).to_be_bytes());
        segments.extend(vec![[0; 16]; units]);
        expect(&mut right, &mut b, key, &segments, BIND_ERROR);
    }
}

//! The numbers that drivers ask for.

use crate::driver::{Driver, command, get, put};
use crate::pair::Pair;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;

/// The numbers of a set of counters: writes, reads, atomics, requests without a receive.
fn queues(driver: &mut Driver, set: u32, clear: bool) -> [u64; 4] {
    let mut input = command(0x773, 32);
    put(&mut input, 0xc0, 1, clear.into());
    put(&mut input, 0xf8, 8, set.into());
    let answer = driver.run(&input, 256);
    [0x80, 0xc0, 0x100, 0x180].map(|bit| get(&answer, bit, 32))
}

/// Packets and bytes to one queue pair that the port received, then sent.
fn port(driver: &mut Driver) -> [u64; 4] {
    let answer = driver.run(&command(0x770, 32), 256);
    [0x180, 0x1c0, 0x200, 0x240].map(|bit| get(&answer, bit, 64))
}

/// The first numbers of a group of the port's, by the register PPCNT.
fn group(driver: &mut Driver, number: u64) -> [u64; 7] {
    let mut input = command(0x805, 272);
    put(&mut input, 0x30, 16, 1);
    put(&mut input, 0x50, 16, 0x5008);
    put(&mut input, 0x88, 8, 1);
    put(&mut input, 0x9a, 6, number);
    let answer = driver.run(&input, 272);
    std::array::from_fn(|place| get(&answer, 0xc0 + place * 64, 64))
}

#[test]
fn requests_and_packets_are_counted_where_they_arrive() {
    let network = Network::free();
    let mut left = Driver::new(&network, LinkLayer::InfiniBand, 1);
    let mut right = Driver::new(&network, LinkLayer::InfiniBand, 2);
    left.start();
    right.start();
    let (left_events, _) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let (mut a, mut b) = (Pair::new(&mut left, left_events), Pair::new(&mut right, right_events));
    let answer = right.simple(0x771);
    b.counter = get(&answer, 0x58, 8) as u32;
    a.connect(&mut left, 2, b.number);
    b.connect(&mut right, 1, a.number);
    assert_eq!((queues(&mut right, b.counter, false), port(&mut right)), ([0; 4], [0; 4]));

    for _ in 0..2 {
        a.send(&mut left, 0x08, &[b.remote(0), a.data(0, 100)]);
        assert_eq!(a.completion(&left)[63] >> 4, 0);
    }
    a.send(&mut left, 0x10, &[b.remote(0), a.data(0, 100)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    a.send(&mut left, 0x12, &[b.remote(0), [0; 16], a.data(0, 8)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(queues(&mut right, b.counter, false), [2, 1, 1, 0]);
    // Two writes: headers of 12 and 16 bytes, and the payload. A read of 12 and 16. An atomic of 12 and
    // 28. Back come four answers: three with 12 and 4 bytes, one of which has 100 more, and one with 8.
    assert_eq!(port(&mut right), [4, 2 * 128 + 28 + 40, 4, 4 * 16 + 100 + 8]);
    assert_eq!(port(&mut left), [4, 4 * 16 + 100 + 8, 4, 2 * 128 + 28 + 40]);

    // The same, as a port's own counters have it: packets sent and received, and then their bytes.
    assert_eq!(group(&mut left, 0), [4, 4, 0, 0, 2 * 128 + 28 + 40, 4 * 16 + 100 + 8, 0]);
    assert_eq!(group(&mut left, 1), [4 * 16 + 100 + 8, 4, 0, 0, 0, 2 * 128 + 28 + 40, 4]);
    assert_eq!(group(&mut left, 0x10), [0; 7]);

    // A send that finds no receive at first.
    a.send(&mut left, 0x0a, &[a.data(0, 5)]);
    while queues(&mut right, b.counter, false)[3] == 0 {
        std::thread::yield_now();
    }
    b.receive(&mut right, 0, 100);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(queues(&mut right, b.counter, true)[..3], [2, 1, 1]);
    assert_eq!(queues(&mut right, b.counter, false), [0; 4]);
    let mut input = command(0x773, 32);
    put(&mut input, 0xf8, 8, 0x77);
    assert_ne!(right.status(&input), 0);
}

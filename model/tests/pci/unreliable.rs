//! Unreliable connections: nobody asks again for a packet that is lost.

use crate::driver::{Driver, PAGE, command, get, put};
use crate::pair::Pair;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;

/// The pages of a message: in packets of 1024 bytes, more than can wait at a port.
const PAGES: usize = 1100;
const LENGTH: u64 = PAGES as u64 * PAGE;
/// The kind of service.
const UNRELIABLE: u64 = 1;

/// A queue pair whose key names one page again and again, and that page.
fn unreliable(driver: &mut Driver) -> (Pair, u64) {
    let (events, _) = driver.event_queue(0);
    let mut pair = Pair::with(driver, events, |context| put(context, 0x8, 8, UNRELIABLE));
    let page = driver.page();
    pair.key = driver.key(pair.domain, &[page; PAGES], 0x10_0000, LENGTH);
    (pair, page)
}

#[test]
fn a_message_of_more_packets_than_can_wait_arrives_whole() {
    let network = Network::free();
    let mut left = Driver::new(&network, LinkLayer::InfiniBand, 1);
    let mut right = Driver::new(&network, LinkLayer::InfiniBand, 2);
    left.start();
    right.start();
    let ((mut a, from), (mut b, to)) = (unreliable(&mut left), unreliable(&mut right));
    a.connect(&mut left, 2, b.number);
    b.connect(&mut right, 1, a.number);
    let bytes: Vec<u8> = (0..PAGE).map(|at| (at % 251) as u8).collect();
    left.write(from, &bytes);
    for _ in 0..3 {
        b.receive(&mut right, 0, LENGTH as u32);
        a.send(&mut left, 0x0a, &[a.data(0, LENGTH as u32)]);
    }
    for _ in 0..3 {
        assert_eq!(a.completion(&left)[63] >> 4, 0);
        let received = b.completion(&right);
        assert_eq!((received[63] >> 4, get(&received, 0x160, 32)), (2, LENGTH));
    }
    assert_eq!(right.read(to, PAGE as usize), bytes);
}

#[test]
fn a_message_that_is_going_out_when_its_queue_pair_fails_completes_once() {
    let network = Network::free();
    let mut driver = Driver::new(&network, LinkLayer::InfiniBand, 1);
    driver.start();
    let ((mut a, _), (b, _)) = (unreliable(&mut driver), unreliable(&mut driver));
    a.connect(&mut driver, 1, b.number);
    for _ in 0..2 {
        a.send(&mut driver, 0x0a, &[a.data(0, LENGTH as u32)]);
    }
    let mut input = command(0x507, 32);
    put(&mut input, 0x48, 24, a.number.into());
    driver.run(&input, 16);
    // Sent, or flushed: each entry by its number.
    for number in 0..2 {
        let completion = a.completion(&driver);
        assert!(matches!(completion[63] >> 4, 0 | 13), "{completion:?}");
        assert_eq!(get(&completion, 0x1e0, 16), number);
    }
    assert!(!a.has_completed(&driver));
}

//! Extended connections (XRC): whose receives come from the shared queue that a message names.

use crate::driver::{Driver, command, get, put};
use crate::pair::Pair;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;

const EXTENDED: u64 = 3;
/// Places in a queue pair's context, in bits.
const SERVICE: usize = 0x8;
const NO_SENDS: usize = 0x50;
const DOMAIN: usize = 0x4c8;
const RECEIVES: usize = 0x565;
const SHARED: u64 = 1;
const NONE: u64 = 3;
const FROM_SHARED: usize = 0x568;

/// A shared receive queue of 16 entries of 64 bytes.
struct Shared {
    number: u32,
    ring: u64,
    record: u64,
    posted: u16,
}

impl Shared {
    fn new(driver: &mut Driver, domain: u32, protection: u32, completions: u32, user: u32) -> Self {
        let (ring, record) = (driver.page(), driver.page());
        for entry in 0..16u16 {
            let next = (entry + 1) % 16;
            driver.write(ring + u64::from(entry) * 64 + 2, &next.to_be_bytes());
        }
        let mut input = Driver::with_pages(0x705, &[ring]);
        let context = 16 * 8;
        put(&mut input, context + 0x4, 4, 4);
        put(&mut input, context + 0x25, 3, 2);
        put(&mut input, context + 0x28, 24, domain.into());
        put(&mut input, context + 0x48, 24, completions.into());
        put(&mut input, context + 0x88, 24, user.into());
        put(&mut input, context + 0xc8, 24, protection.into());
        put(&mut input, context + 0x140, 64, record);
        let number = get(&driver.run(&input, 16), 0x48, 24) as u32;
        Shared { number, ring, record, posted: 0 }
    }

    /// Posts a receive of one segment.
    fn receive(&mut self, driver: &mut Driver, segment: [u8; 16]) {
        let entry = self.ring + u64::from(self.posted % 16) * 64;
        driver.write(entry + 16, &segment);
        let end = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        driver.write(entry + 32, &end);
        self.posted += 1;
        driver.write(self.record, &u32::from(self.posted).to_be_bytes());
    }

    /// Asks for an event when fewer than `mark` receives are left.
    fn limit(&self, driver: &mut Driver, mark: u16) {
        let mut input = command(0x708, 16);
        put(&mut input, 0x30, 16, 1);
        put(&mut input, 0x48, 24, self.number.into());
        put(&mut input, 0x70, 16, mark.into());
        driver.run(&input, 16);
    }

    fn segment(&self) -> [u8; 16] {
        let mut segment = [0; 16];
        segment[..4].copy_from_slice(&self.number.to_be_bytes());
        segment
    }
}

/// The number of a new domain of extended connections.
fn domain(driver: &mut Driver) -> u32 {
    driver.allocate(0x80e)
}

fn initiator(driver: &mut Driver, events: u32) -> Pair {
    let mut pair = Pair::with(driver, events, |context| {
        put(context, SERVICE, 8, EXTENDED);
        put(context, RECEIVES, 3, NONE);
    });
    pair.sends_at = 0;
    pair
}

/// A queue pair that only answers, and takes from shared queues of `domain`; its context names one.
fn target(driver: &mut Driver, events: u32, domain: u32, named: u32) -> Pair {
    Pair::with(driver, events, |context| {
        put(context, SERVICE, 8, EXTENDED);
        put(context, NO_SENDS, 1, 1);
        put(context, RECEIVES, 3, SHARED);
        put(context, FROM_SHARED, 24, named.into());
        put(context, DOMAIN, 24, domain.into());
        // It rings no doorbell.
        put(context, 0x68, 24, 0);
    })
}

fn functions() -> (Driver, Driver) {
    let network = Network::free();
    let mut left = Driver::new(&network, LinkLayer::InfiniBand, 1);
    let mut right = Driver::new(&network, LinkLayer::InfiniBand, 2);
    left.start();
    right.start();
    (left, right)
}

#[test]
fn a_message_goes_to_the_shared_queue_that_it_names_and_completes_there() {
    let (mut left, mut right) = functions();
    let (events, _) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let domain = domain(&mut right);
    let mut keeper = Pair::new(&mut right, right_events);
    let completions = keeper.completions.0;
    let mut first = Shared::new(&mut right, domain, keeper.domain, completions, 0x11);
    let mut second = Shared::new(&mut right, domain, keeper.domain, completions, 0x22);
    let mut a = initiator(&mut left, events);
    let b = target(&mut right, right_events, domain, first.number);
    a.connect(&mut left, 2, b.number);
    b.answer(&mut right, 1, a.number);

    first.receive(&mut right, keeper.data(0, 64));
    second.receive(&mut right, keeper.data(100, 64));
    left.write(a.place(0), b"to the second");
    a.send(&mut left, 0x0a, &[second.segment(), a.data(0, 13)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    let received = keeper.completion(&right);
    assert_eq!((received[63] >> 4, get(&received, 32 * 8 + 8, 24)), (2, 0x22));
    assert_eq!(get(&received, 56 * 8 + 8, 24), u64::from(b.number));
    assert_eq!(right.read(keeper.place(100), 13), b"to the second");

    // Keys are of the shared queue's protection domain, not the queue pair's.
    a.send(&mut left, 0x08, &[first.segment(), keeper.remote(300), a.data(0, 13)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(right.read(keeper.place(300), 13), b"to the second");
    a.send(&mut left, 0x10, &[first.segment(), keeper.remote(300), a.data(500, 13)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(left.read(a.place(500), 13), b"to the second");
    a.send(&mut left, 0x08, &[first.segment(), b.remote(300), a.data(0, 13)]);
    let refused = a.completion(&left);
    // Remote access error.
    assert_eq!((refused[63] >> 4, refused[55]), (13, 0x13));
}

#[test]
fn a_queue_of_another_domain_is_not_to_be_named() {
    let (mut left, mut right) = functions();
    let (events, _) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let (own, other) = (domain(&mut right), domain(&mut right));
    let keeper = Pair::new(&mut right, right_events);
    let completions = keeper.completions.0;
    let mut shared = Shared::new(&mut right, other, keeper.domain, completions, 0x11);
    let stand_in = Shared::new(&mut right, own, keeper.domain, completions, 0x12);
    let mut a = initiator(&mut left, events);
    let b = target(&mut right, right_events, own, stand_in.number);
    a.connect(&mut left, 2, b.number);
    b.answer(&mut right, 1, a.number);
    shared.receive(&mut right, keeper.data(0, 64));
    a.send(&mut left, 0x0a, &[shared.segment(), a.data(0, 13)]);
    let refused = a.completion(&left);
    // Remote invalid request.
    assert_eq!((refused[63] >> 4, refused[55]), (13, 0x12));
}

#[test]
fn few_receives_are_an_event_and_so_is_a_queue_pair_that_takes_no_more() {
    const LIMIT: u8 = 0x14;
    const LAST: u8 = 0x13;
    let (mut left, mut right) = functions();
    let (events, _) = left.event_queue(0);
    let (right_events, ring) = right.event_queue(1 << LIMIT | 1 << LAST);
    let domain = domain(&mut right);
    let mut keeper = Pair::new(&mut right, right_events);
    let completions = keeper.completions.0;
    let mut shared = Shared::new(&mut right, domain, keeper.domain, completions, 0x11);
    let mut a = initiator(&mut left, events);
    let b = target(&mut right, right_events, domain, shared.number);
    a.connect(&mut left, 2, b.number);
    b.answer(&mut right, 1, a.number);
    for _ in 0..3 {
        shared.receive(&mut right, keeper.data(0, 64));
    }
    shared.limit(&mut right, 2);
    let event = |driver: &Driver, number: u64| {
        let entry = driver.read(ring + number * 64, 64);
        (entry[1], entry[63], get(&entry, 56 * 8, 32) as u32)
    };
    assert_eq!(event(&right, 0).1, 1);
    for _ in 0..2 {
        a.send(&mut left, 0x0a, &[shared.segment(), a.data(0, 13)]);
        assert_eq!(a.completion(&left)[63] >> 4, 0);
        keeper.completion(&right);
    }
    assert_eq!(event(&right, 0), (LIMIT, 0, shared.number));
    // Once only, until it is asked for again: at once then, for it is so already.
    assert_eq!(event(&right, 1).1, 1);
    shared.limit(&mut right, 2);
    assert_eq!(event(&right, 1), (LIMIT, 0, shared.number));
    let mut input = command(0x507, 272);
    put(&mut input, 0x48, 24, b.number.into());
    right.run(&input, 16);
    assert_eq!(event(&right, 2), (LAST, 0, b.number));
}

#[test]
fn messages_are_sent_once() {
    let (mut left, mut right) = functions();
    let (events, _) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let domain = domain(&mut right);
    let mut keeper = Pair::new(&mut right, right_events);
    let completions = keeper.completions.0;
    let mut shared = Shared::new(&mut right, domain, keeper.domain, completions, 0x11);
    let mut a = initiator(&mut left, events);
    let b = target(&mut right, right_events, domain, shared.number);
    a.connect(&mut left, 2, b.number);
    b.answer(&mut right, 1, a.number);
    for _ in 0..50 {
        shared.receive(&mut right, keeper.data(0, 64));
        a.send(&mut left, 0x0a, &[shared.segment(), a.data(0, 13)]);
        assert_eq!(a.completion(&left)[63] >> 4, 0);
        assert_eq!(keeper.completion(&right)[63] >> 4, 2);
    }
    assert_eq!(left.function.counters().packets_sent, 50);
    assert_eq!(right.function.counters().packets_sent, 50);
}

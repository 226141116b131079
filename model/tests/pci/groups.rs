//! Multicast groups of datagrams, and the device's own memory.

use crate::driver::{Driver, command, get, put};
use crate::pair::Pair;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;
use doorbell_model::pci::Function;

const DATAGRAMS: u64 = 2;
const QUEUE_KEY: u32 = 0x1122;
const MEMBERS: u32 = 0xff_ffff;
const GROUP: [u8; 16] = [0xff, 0x12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

fn datagrams(driver: &mut Driver, events: u32) -> Pair {
    let pair = Pair::with(driver, events, |context| put(context, 0x8, 8, DATAGRAMS));
    for opcode in [0x502u16, 0x503, 0x504] {
        let mut input = command(opcode, 272);
        put(&mut input, 0x48, 24, pair.number.into());
        put(&mut input, 24 * 8 + 0x540, 32, QUEUE_KEY.into());
        driver.run(&input, 16);
    }
    pair
}

/// ATTACH_TO_MCG or DETACH_FROM_MCG: its status.
fn member(driver: &mut Driver, opcode: u16, number: u32) -> u8 {
    let mut input = command(opcode, 32);
    put(&mut input, 0x48, 24, number.into());
    input[16..].copy_from_slice(&GROUP);
    driver.status(&input)
}

/// The segments that say to whom a datagram goes.
fn to_group() -> [[u8; 16]; 3] {
    let mut vector = [0; 48];
    vector[..4].copy_from_slice(&QUEUE_KEY.to_be_bytes());
    vector[8..12].copy_from_slice(&(1 << 31 | MEMBERS).to_be_bytes());
    vector[14..16].copy_from_slice(&0xc001u16.to_be_bytes());
    vector[28..32].copy_from_slice(&(1u32 << 30).to_be_bytes());
    vector[32..].copy_from_slice(&GROUP);
    [0, 1, 2].map(|at| vector[at * 16..][..16].try_into().unwrap())
}

#[test]
fn a_datagram_to_a_group_reaches_its_members_on_every_port() {
    let network = Network::free();
    let mut left = Driver::new(&network, LinkLayer::InfiniBand, 1);
    let mut right = Driver::new(&network, LinkLayer::InfiniBand, 2);
    left.start();
    right.start();
    let (left_events, _) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let mut a = datagrams(&mut left, left_events);
    let mut b = datagrams(&mut left, left_events);
    let mut c = datagrams(&mut right, right_events);
    let mut d = datagrams(&mut right, right_events);
    assert_eq!(member(&mut left, 0x806, b.number), 0);
    for pair in [c.number, d.number] {
        assert_eq!(member(&mut right, 0x806, pair), 0);
    }
    assert_eq!(member(&mut right, 0x807, d.number), 0);
    assert_ne!(member(&mut right, 0x807, d.number), 0);
    assert_ne!(member(&mut right, 0x806, 0x7777), 0);
    b.receive(&mut left, 0, 100);
    c.receive(&mut right, 0, 100);
    d.receive(&mut right, 0, 100);
    left.write(a.place(200), b"all");
    let [first, second, third] = to_group();
    a.send(&mut left, 0x0a, &[first, second, third, a.data(200, 3)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    for (pair, driver) in [(&mut b, &left), (&mut c, &right)] {
        let received = pair.completion(driver);
        assert_eq!((received[63] >> 4, get(&received, 44 * 8, 32)), (2, 43));
        assert_eq!(driver.read(pair.place(40), 3), b"all");
        assert_eq!(driver.read(pair.place(24), 16), GROUP);
    }
    assert_eq!(right.read(d.place(0), 43), [0; 43]);
    // A member that goes away leaves.
    assert_eq!(left.about(0x501, b.number), 0);
    assert_ne!(member(&mut left, 0x807, b.number), 0);
}

#[test]
fn device_memory_is_in_the_bar_and_under_keys() {
    const START: u64 = 31 << 20;
    let network = Network::free();
    let mut driver = Driver::new(&network, LinkLayer::InfiniBand, 1);
    driver.start();
    let (events, _) = driver.event_queue(0);
    let mut a = Pair::new(&mut driver, events);
    let b = Pair::new(&mut driver, events);
    a.connect(&mut driver, 1, b.number);
    b.connect(&mut driver, 1, a.number);
    let allocate = |start: u64, length: u64| {
        let mut input = command(0x205, 32);
        put(&mut input, 0x80, 64, start);
        put(&mut input, 0xc0, 32, 8192);
        put(&mut input, 0xe0, 32, length);
        input
    };
    let start = get(&driver.run(&allocate(START + 4096, 256), 16), 0x40, 64);
    assert_eq!(start, START + 4096);
    for wrong in [(START + 4096, 64), (START, 8192), (START, 65), (START - 4096, 64), (!63, 64)] {
        assert_ne!(driver.status(&allocate(wrong.0, wrong.1)), 0, "{wrong:x?}");
    }
    let mut input = Driver::with_pages(0x200, &[]);
    let context = 16 * 8;
    put(&mut input, context + 0x3, 3, 1);
    put(&mut input, context + 0x11, 5, 0b11111);
    put(&mut input, context + 0x16, 2, 1);
    put(&mut input, context + 0x68, 24, b.domain.into());
    put(&mut input, context + 0x80, 64, start);
    put(&mut input, context + 0xc0, 64, 256);
    let key = (get(&driver.run(&input, 16), 0x48, 24) as u32) << 8;
    driver.write(a.place(0), b"device");
    let mut remote = [0; 16];
    remote[7] = 8;
    remote[8..12].copy_from_slice(&key.to_be_bytes());
    a.send(&mut driver, 0x08, &[remote, a.data(0, 6)]);
    assert_eq!(a.completion(&driver)[63] >> 4, 0);
    let mut bytes = [0; 6];
    driver.function.read_bar(0, start + 8, &mut bytes);
    assert_eq!(&bytes, b"device");
    driver.function.write_bar(0, start + 8, b"memory!!");
    a.send(&mut driver, 0x10, &[remote, a.data(100, 8)]);
    assert_eq!(a.completion(&driver)[63] >> 4, 0);
    assert_eq!(driver.read(a.place(100), 8), b"memory!!");
    // The machine's memory goes and comes; the device's own stays.
    driver.function.unmap(1 << 40, Some(u64::MAX >> 1));
    driver.function.unmap(0xfff0_0000_0000_0000, Some(1 << 20));
    a.send(&mut driver, 0x10, &[remote, a.data(200, 8)]);
    assert_eq!(a.completion(&driver)[63] >> 4, 0);
    assert_eq!(driver.read(a.place(200), 8), b"memory!!");
    let mut input = command(0x206, 32);
    put(&mut input, 0x80, 64, start);
    assert_eq!(driver.status(&input), 0);
    assert_ne!(driver.status(&input), 0);
}

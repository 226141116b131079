//! A ConnectX function as its driver sees it: without a machine around it.

mod driver;
mod extended;
mod frames;
mod groups;
mod keys;
mod pair;
mod statistics;
mod unreliable;

use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;
use doorbell_model::pci::Function;
use driver::{Driver, PAGE, command, get, put};
use pair::Pair;
use proptest::prelude::*;

const BAD_OPERATION: u8 = 0x2;
const BAD_PARAMETER: u8 = 0x3;
const BAD_RESOURCE: u8 = 0x5;
const BUSY: u8 = 0x6;
const BAD_INPUT_LENGTH: u8 = 0x50;
/// Event types: a port's, a command's.
const PORT: u8 = 9;
const COMMAND: u8 = 10;

fn driver(network: &Network, number: u16) -> Driver {
    let mut driver = Driver::new(network, LinkLayer::InfiniBand, number);
    driver.start();
    driver
}

#[test]
fn commands_of_every_length_come_back_through_blocks() {
    let mut driver = driver(&Network::free(), 1);
    let mut input = command(0x100, 16);
    put(&mut input, 0x30, 16, 1);
    let general = driver.run(&input, 16 + 4096);
    // log_max_qp, num_ports, port_type, xrc, log_bf_reg_size.
    let field = |bit: usize, width| get(&general, 128 + bit, width);
    assert_eq!([field(0x9b, 5), field(0x1b8, 8), field(0x1b6, 2), field(0x23c, 1)], [17, 1, 0, 1]);
    assert_eq!(field(0x26b, 5), 9);
    let short = driver.run(&input, 100);
    assert_eq!(short[..], general[..100]);
    // What the driver writes back changes nothing.
    let mut input = command(0x109, 16 + 4096);
    input[16..].copy_from_slice(&general[16..]);
    driver.run(&input, 16);
}

#[test]
fn two_functions_on_one_network_exchange_messages() {
    let network = Network::free();
    let (mut left, mut right) = (driver(&network, 1), driver(&network, 2));
    let (events, ring) = left.event_queue(0);
    let (right_events, _) = right.event_queue(0);
    let (mut a, mut b) = (Pair::new(&mut left, events), Pair::new(&mut right, right_events));
    a.connect(&mut left, 2, b.number);
    b.connect(&mut right, 1, a.number);

    // A send over the end of a page, into a receive over the end of another.
    a.arm(&mut left);
    let text = b"over the end of a page";
    let (from, to) = (PAGE - 5, 2 * PAGE - 10);
    left.write(a.place(from), &text[..5]);
    left.write(a.place(PAGE), &text[5..]);
    b.receive(&mut right, to, 100);
    a.send(&mut left, 0x0a, &[a.data(from, text.len() as u32)]);
    let sent = a.completion(&left);
    assert_eq!((sent[63] >> 4, get(&sent, 32 * 8 + 8, 24)), (0, 0x777));
    let received = b.completion(&right);
    assert_eq!((received[63] >> 4, get(&received, 44 * 8, 32)), (2, text.len() as u64));
    let mut there = right.read(b.place(to), 10);
    there.extend(right.read(b.place(2 * PAGE), text.len() - 10));
    assert_eq!(there, text);

    // The arm raised an event: its queue's entry names the completion queue.
    let entry = left.read(ring, 64);
    assert_eq!((entry[1], entry[63]), (0, 0));
    assert!(left.interrupts() > 0);

    // A write, a read back, and an atomic.
    left.write(a.place(0), &[7; 64]);
    a.send(&mut left, 0x08, &[b.remote(200), a.data(0, 64)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(right.read(b.place(200), 64), [7; 64]);
    a.send(&mut left, 0x10, &[b.remote(200), a.data(500, 64)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(left.read(a.place(500), 64), [7; 64]);
    let mut add = [0; 16];
    add[7] = 1;
    a.send(&mut left, 0x12, &[b.remote(200), add, a.data(800, 8)]);
    assert_eq!(a.completion(&left)[63] >> 4, 0);
    assert_eq!(left.read(a.place(800), 8), [7; 8]);
    let counters = [left.function.counters(), right.function.counters()];
    for counters in counters {
        assert_eq!((counters.refused_accesses, counters.stray_doorbells), (0, 0));
    }
}

#[test]
fn events_of_commands_and_ports_go_to_the_queues_that_ask_for_them() {
    let mut driver = driver(&Network::free(), 1);
    let (commands, ring) = driver.event_queue(1 << COMMAND);
    let (_, ports) = driver.event_queue(1 << PORT);
    // The command that makes the queue does not raise an event; the next one does.
    let entry = driver.read(ring, 64);
    assert_eq!((entry[1], entry[63], get(&entry, 32 * 8, 32)), (COMMAND, 0, 1));
    driver.function.set_link(false);
    driver.function.set_link(true);
    let seen = [0, 64].map(|at| {
        let entry = driver.read(ports + at, 64);
        (entry[1], entry[3], entry[40] >> 4)
    });
    assert_eq!(seen, [(PORT, 1, 1), (PORT, 4, 1)]);
    // An armed queue with entries that were not consumed raises its interrupt at once.
    driver.interrupts();
    let word = commands << 24;
    driver.doorbell(0x40, &word.to_be_bytes());
    assert_eq!(driver.interrupts(), 1);
}

#[test]
fn objects_that_others_stand_on_are_busy_and_those_that_are_gone_are_unknown() {
    let mut driver = driver(&Network::free(), 1);
    let (events, _) = driver.event_queue(0);
    let pair = Pair::new(&mut driver, events);
    assert_eq!(driver.about(0x801, pair.domain), BUSY);
    let mut input = command(0x302, 16);
    put(&mut input, 0x58, 8, events.into());
    assert_eq!(driver.status(&input), BUSY);
    assert_eq!(driver.about(0x501, pair.number), 0);
    assert_eq!(driver.about(0x501, pair.number), BAD_RESOURCE);
    assert_eq!(driver.about(0x202, pair.key >> 8), 0);
    assert_eq!(driver.about(0x202, pair.key >> 8), BAD_RESOURCE);
    assert_eq!(driver.about(0x801, pair.domain), 0);
    // Whatever is left goes when the driver lets go of the device.
    driver.simple(0x103);
    driver.simple(0x105);
    driver.simple(0x104);
    assert_eq!(driver.about(0x802, 0), 0);
}

#[test]
fn commands_that_make_no_sense_are_refused() {
    let mut driver = driver(&Network::free(), 1);
    assert_eq!(driver.status(&command(0xfff, 16)), BAD_OPERATION);
    assert_eq!(driver.status(&command(0x400, 16)), BAD_INPUT_LENGTH);
    let (events, _) = driver.event_queue(0);
    // A completion ring of 2^31 entries in one page.
    let mut input = Driver::with_pages(0x400, &[PAGE]);
    put(&mut input, 16 * 8 + 0x63, 5, 31);
    put(&mut input, 16 * 8 + 0xa0, 32, events.into());
    assert_eq!(driver.status(&input), BAD_INPUT_LENGTH);
    // A key of more bytes than its pages.
    let domain = driver.allocate(0x800);
    let mut input = Driver::with_pages(0x200, &[PAGE, 2 * PAGE]);
    put(&mut input, 16 * 8 + 0x16, 2, 1);
    put(&mut input, 16 * 8 + 0x68, 24, domain.into());
    put(&mut input, 16 * 8 + 0xc0, 64, 3 * PAGE);
    put(&mut input, 16 * 8 + 0x1da, 6, 12);
    put(&mut input, 0x300, 32, 1);
    assert_eq!(driver.status(&input), BAD_PARAMETER);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any bytes of any length, under every known opcode and others.
    #[test]
    fn any_command_is_answered(
        commands in prop::collection::vec(
            (0u16..0x1000, prop::collection::vec(any::<u8>(), 8..600), 8usize..600),
            1..40,
        ),
        ethernet: bool,
    ) {
        let link = if ethernet { LinkLayer::Ethernet } else { LinkLayer::InfiniBand };
        let mut driver = Driver::new(&Network::free(), link, 1);
        driver.start();
        driver.event_queue(u64::MAX);
        for (opcode, mut input, output) in commands {
            put(&mut input, 0, 16, opcode.into());
            let (answer, delivery) = driver.deliver(&input, output);
            prop_assert_eq!(delivery, 0);
            prop_assert!(answer.len() >= 8);
        }
    }

    /// Small values in most fields: what is nearly right reaches further in.
    #[test]
    fn any_context_is_answered(
        opcodes in prop::collection::vec(prop::sample::select(MAKERS), 1..20),
        words in prop::collection::vec(
            prop_oneof![Just(0u32), 0u32..70, any::<u32>(), Just(0x100)],
            160..200,
        ),
    ) {
        let mut driver = driver(&Network::free(), 1);
        driver.event_queue(u64::MAX);
        driver.allocate(0x800);
        for opcode in opcodes {
            let mut input: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            put(&mut input, 0, 16, opcode.into());
            let (_, delivery) = driver.deliver(&input, 300);
            prop_assert_eq!(delivery, 0);
        }
    }

    /// Anything in an entry of the command queue.
    #[test]
    fn any_entry_of_the_command_queue_is_given_back(entry in prop::array::uniform32(any::<u8>())) {
        let mut driver = driver(&Network::free(), 1);
        let at = driver.page();
        driver.function.write_bar(0, 0x14, &(at as u32).to_be_bytes());
        let mut bytes = [0; 64];
        bytes[..32].copy_from_slice(&entry);
        bytes[32..].copy_from_slice(&entry);
        bytes[63] |= 1;
        driver.write(at, &bytes);
        driver.function.write_bar(0, 0x18, &1u32.to_be_bytes());
        prop_assert_eq!(driver.read(at + 63, 1)[0] & 1, 0);
    }

    /// Any stores and loads, anywhere.
    #[test]
    fn any_access_is_survived(
        accesses in prop::collection::vec(
            (prop_oneof![0u64..0x2000, 0x100_000u64..0x102_000, any::<u64>()],
             prop::collection::vec(any::<u8>(), 1..16)),
            1..50,
        ),
    ) {
        let mut driver = driver(&Network::free(), 1);
        for (at, bytes) in accesses {
            driver.function.write_bar(0, at, &bytes);
            driver.function.write_configuration(at, &bytes);
            let mut back = bytes;
            driver.function.read_bar(0, at, &mut back);
            driver.function.read_configuration(at, &mut back);
        }
    }
}

/// Commands that make or change objects.
const MAKERS: &[u16] = &[
    0x200, 0x301, 0x400, 0x403, 0x500, 0x502, 0x503, 0x504, 0x505, 0x507, 0x50a, 0x700, 0x703,
    0x705, 0x755, 0x761, 0x805, 0x900, 0x904, 0x905, 0x908, 0x909, 0x90c, 0x90d, 0x912, 0x916,
    0x917, 0x930,
];

//! Ethernet frames: flow tables decide which queues they reach.

use crate::driver::{Driver, PAGE, command, get, put};
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;

const ENTRY: usize = 64 * 8;
const VALUE: usize = ENTRY + 64 * 8;
const DESTINATIONS: usize = ENTRY + 0x1800;
/// Fields of the headers that are matched: the receiver's address, and UDP's port.
const TO: usize = 0x40;
const UDP_TO: usize = 0xf0;
const DROP: u64 = 2;
const FORWARD: u64 = 4;
const COUNT: u64 = 8;

/// A function with a ring of sends, and rings of receives.
struct Station {
    driver: Driver,
    domain: u32,
    key: u32,
    buffer: u64,
    completions: (u32, u64, u64),
    seen: u32,
    sends: (u32, u64, u64),
    sent: u16,
}

impl Station {
    fn new() -> Station {
        let mut driver = Driver::new(&Network::free(), LinkLayer::Ethernet, 1);
        driver.start();
        let (events, _) = driver.event_queue(0);
        let domain = driver.allocate(0x800);
        let completions = driver.completion_queue(events);
        let buffer = driver.page();
        let key = driver.key(domain, &[buffer], 0, PAGE);
        let mut station = Station {
            driver,
            domain,
            key,
            buffer,
            completions,
            seen: 0,
            sends: (0, 0, 0),
            sent: 0,
        };
        let mut input = command(0x912, 32 + 160);
        put(&mut input, 32 * 8 + 0x128, 24, 0x51);
        let interface = get(&station.driver.run(&input, 16), 0x48, 24);
        station.sends = station.queue(0x904, 6, |input| {
            put(input, 32 * 8 + 0x100, 16, 1);
            put(input, 32 * 8 + 0x168, 24, interface);
        });
        station
    }

    /// Makes a queue of 16 entries and makes it ready: its number, ring and record.
    fn queue(&mut self, opcode: u16, log: u64, more: impl Fn(&mut [u8])) -> (u32, u64, u64) {
        let (ring, record) = (self.driver.page(), self.driver.page());
        let mut input = Driver::with_pages(opcode, &[ring]);
        let (context, queue) = (32 * 8, 80 * 8);
        put(&mut input, context + 0x48, 24, self.completions.0.into());
        put(&mut input, context + 0x28, 24, opcode.into());
        put(&mut input, queue + 0x48, 24, self.domain.into());
        put(&mut input, queue + 0x68, 24, self.driver.uar.into());
        put(&mut input, queue + 0x80, 64, record);
        put(&mut input, queue + 0x10c, 4, log);
        put(&mut input, queue + 0x11b, 5, 4);
        more(&mut input);
        let number = get(&self.driver.run(&input, 16), 0x48, 24) as u32;
        let mut ready = command(opcode + 1, 272);
        put(&mut ready, 0x48, 24, number.into());
        put(&mut ready, context + 0x8, 4, 1);
        self.driver.run(&ready, 16);
        (number, ring, record)
    }

    /// A ring of receives with one entry of 256 bytes at `offset` of the buffer, and its interface.
    fn receiver(&mut self, offset: u32, domain: u64, loopback: u64) -> (u32, u32) {
        let (number, ring, record) = self.queue(0x908, 4, |_| ());
        let mut entry = [0; 16];
        entry[..4].copy_from_slice(&256u32.to_be_bytes());
        entry[4..8].copy_from_slice(&self.key.to_be_bytes());
        entry[12..].copy_from_slice(&offset.to_be_bytes());
        self.driver.write(ring, &entry);
        self.driver.write(record, &1u32.to_be_bytes());
        let mut input = command(0x900, 32 + 240);
        let context = 32 * 8;
        put(&mut input, context + 0xe8, 24, number.into());
        put(&mut input, context + 0x126, 2, loopback);
        put(&mut input, context + 0x128, 24, domain);
        (number, get(&self.driver.run(&input, 16), 0x48, 24) as u32)
    }

    fn table(&mut self, miss: Option<u32>) -> u32 {
        let mut input = command(0x930, 64);
        if let Some(miss) = miss {
            put(&mut input, 0xc0 + 0x4, 4, 1);
            put(&mut input, 0xc0 + 0x28, 24, miss.into());
        }
        get(&self.driver.run(&input, 16), 0x48, 24) as u32
    }

    fn root(&mut self, table: u32) {
        let mut input = command(0x92f, 64);
        put(&mut input, 0xa8, 24, table.into());
        self.driver.run(&input, 16);
    }

    /// A group of a table that looks at 16 bits of the outer headers.
    fn group(&mut self, table: u32, bit: usize) -> u32 {
        let mut input = command(0x933, 1024);
        put(&mut input, 0xa8, 24, table.into());
        put(&mut input, 0x1f8, 8, 1);
        put(&mut input, 0x200 + bit, 16, 0xffff);
        get(&self.driver.run(&input, 16), 0x48, 24) as u32
    }

    fn entry(&mut self, place: (u32, u32, u32), bit: usize, value: u64, action: u64, to: &[u64]) {
        let mut input = command(0x936, DESTINATIONS / 8 + to.len() * 8);
        put(&mut input, 0xa8, 24, place.0.into());
        put(&mut input, 0x100, 32, place.2.into());
        put(&mut input, ENTRY + 0x20, 32, place.1.into());
        put(&mut input, ENTRY + 0x70, 16, action);
        let counters = u64::from(action & COUNT != 0);
        put(&mut input, ENTRY + 0x88, 24, to.len() as u64 - counters);
        put(&mut input, ENTRY + 0xa8, 24, counters);
        put(&mut input, VALUE + bit, 16, value);
        for (number, to) in to.iter().enumerate() {
            put(&mut input, DESTINATIONS + number * 64, 32, *to);
        }
        self.driver.run(&input, 16);
    }

    /// Sends a frame, and waits until that is done.
    fn send(&mut self, frame: &[u8]) {
        self.driver.write(self.buffer, frame);
        let (number, ring, record) = self.sends;
        let mut entry = [0; 64];
        entry[..4].copy_from_slice(&(u32::from(self.sent) << 8 | 0x0a).to_be_bytes());
        entry[4..8].copy_from_slice(&(number << 8 | 3).to_be_bytes());
        entry[11] = 2 << 2;
        entry[32..36].copy_from_slice(&(frame.len() as u32).to_be_bytes());
        entry[36..40].copy_from_slice(&self.key.to_be_bytes());
        self.driver.write(ring + u64::from(self.sent % 16) * 64, &entry);
        self.sent += 1;
        self.driver.write(record + 4, &u32::from(self.sent).to_be_bytes());
        self.driver.doorbell(0x800, &entry[..8]);
    }

    /// The next completion, if it is there already: of a receive or not, which queue, how many bytes.
    fn completion(&mut self) -> Option<(bool, u32, u64)> {
        let (_, ring, record) = self.completions;
        let entry = self.driver.read(ring + u64::from(self.seen % 64) * 64, 64);
        if entry[63] & 1 != (self.seen / 64 % 2) as u8 || entry[63] >> 4 == 0xf {
            return None;
        }
        self.seen += 1;
        self.driver.write(record, &self.seen.to_be_bytes());
        let queue = get(&entry, 56 * 8 + 8, 24) as u32;
        Some((entry[63] >> 4 == 2, queue, get(&entry, 44 * 8, 32)))
    }

    /// The queues that the last frame of `bytes` bytes reached, in the order of completions.
    fn reached(&mut self, bytes: usize) -> Vec<u32> {
        let mut queues = Vec::new();
        for _ in 0..100_000 {
            match self.completion() {
                // The sender's own comes last.
                Some((false, ..)) => return queues,
                Some((true, queue, length)) => {
                    assert_eq!(length, bytes as u64);
                    queues.push(queue);
                }
                None => std::thread::yield_now(),
            }
        }
        panic!("no completion came");
    }
}

/// A frame of UDP to `port`.
fn udp(port: u16) -> Vec<u8> {
    let mut frame = vec![0x24, 0x8a, 7, 0xa5, 0x28, 0xc8, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend([0, 7]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 20, 0, 0]);
    frame.extend([0x5a; 12]);
    frame
}

#[test]
fn frames_reach_the_queues_that_flow_tables_lead_to() {
    let mut station = Station::new();
    let (first, one) = station.receiver(1024, 0x52, 0);
    let (second, two) = station.receiver(2048, 0x52, 0);
    let (_, deaf) = station.receiver(3072, 0x51, 0);
    let counter = get(&station.driver.run(&command(0x939, 16), 16), 0x40, 32);
    let later = station.table(None);
    let table = station.table(Some(later));
    station.root(table);
    let frame = udp(80);
    station.send(&frame);
    assert!(station.reached(frame.len()).is_empty(), "nothing leads anywhere yet");

    let ports = station.group(table, UDP_TO);
    let addresses = station.group(later, TO);
    let to = |interface: u32| 2 << 24 | u64::from(interface);
    let both = [to(one), to(two), to(deaf), counter];
    station.entry((later, addresses, 0), TO, 0x248a, FORWARD | COUNT, &both);
    station.entry((table, ports, 1), UDP_TO, 7, DROP, &[]);
    station.send(&frame);
    assert_eq!(station.reached(frame.len()), [first, second]);
    assert_eq!(station.driver.read(station.buffer + 2048, frame.len()), frame);
    // Its sender's own interface hears nothing of it.
    assert_eq!(station.driver.read(station.buffer + 3072, 4), [0; 4]);

    let dropped = udp(7);
    station.send(&dropped);
    assert!(station.reached(dropped.len()).is_empty());
    let mut input = command(0x93b, 32);
    put(&mut input, 0xe0, 32, counter);
    let counted = station.driver.run(&input, 32);
    assert_eq!((get(&counted, 128, 64), get(&counted, 192, 64)), (1, frame.len() as u64));

    // Its entry used up, a queue has no place; and what was made can be taken apart again.
    station.send(&frame);
    assert!(station.reached(frame.len()).is_empty());
    let mut input = command(0x938, 64);
    put(&mut input, 0xa8, 24, table.into());
    put(&mut input, 0x100, 32, 1);
    assert_eq!(station.driver.status(&input), 0);
    assert_ne!(station.driver.status(&input), 0);
    assert_eq!(station.driver.about(0x902, one), 0);
    assert_ne!(station.driver.about(0x902, one), 0);
}

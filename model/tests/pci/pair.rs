//! A reliable-connected queue pair that a test drives by hand.

use crate::driver::{Driver, PAGE, get, put};
use std::time::{Duration, Instant};

/// How long a completion may take, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue pair with a ring of 4 receives of 16 bytes and one of 64 send slots, in two pages.
pub struct Pair {
    pub number: u32,
    rings: u64,
    /// Where the ring of sends begins behind that.
    pub sends_at: u64,
    /// The set of counters that it counts in.
    pub counter: u32,
    record: u64,
    sends: u16,
    receives: u16,
    pub completions: (u32, u64, u64),
    seen: u32,
    pub domain: u32,
    pub key: u32,
    pub buffer: u64,
}

/// Bits from a command's start to its context.
const CONTEXT: usize = 24 * 8;
const PATH: usize = CONTEXT + 0xc0;
/// Bytes of the ring of receives: sends follow it.
const RECEIVES: u64 = 64;

impl Pair {
    pub fn new(driver: &mut Driver, events: u32) -> Pair {
        Pair::with(driver, events, |_| ())
    }

    /// One whose context `more` has changed.
    pub fn with(driver: &mut Driver, events: u32, more: impl FnOnce(&mut [u8])) -> Pair {
        let domain = driver.allocate(0x800);
        let completions = driver.completion_queue(events);
        let (rings, record) = (driver.pages(2), driver.page());
        let mut input = Driver::with_pages(0x500, &[rings, rings + PAGE]);
        put(&mut input, CONTEXT + 0x28, 24, domain.into());
        put(&mut input, CONTEXT + 0x49, 4, 2);
        put(&mut input, CONTEXT + 0x51, 4, 5);
        put(&mut input, CONTEXT + 0x68, 24, driver.uar.into());
        put(&mut input, CONTEXT + 0x88, 24, 0x777);
        put(&mut input, CONTEXT + 0x3e8, 24, completions.0.into());
        put(&mut input, CONTEXT + 0x4e8, 24, completions.0.into());
        put(&mut input, CONTEXT + 0x500, 64, record);
        more(&mut input[CONTEXT / 8..]);
        let number = get(&driver.run(&input, 16), 0x48, 24) as u32;
        let buffer = driver.pages(3);
        // The pages in another order than their addresses.
        let pages = [buffer + 2 * PAGE, buffer, buffer + PAGE];
        let key = driver.key(domain, &pages, 0x10_0000, 3 * PAGE);
        let (sends, receives, seen) = (0, 0, 0);
        Pair {
            number,
            rings,
            sends_at: RECEIVES,
            counter: 0,
            record,
            sends,
            receives,
            completions,
            seen,
            domain,
            key,
            buffer,
        }
    }

    fn change(&self, opcode: u16) -> Vec<u8> {
        let mut input = crate::driver::command(opcode, 272);
        put(&mut input, 0x48, 24, self.number.into());
        input
    }

    /// Reset to Ready to Send, towards `peer` at local identifier `lid`.
    pub fn connect(&self, driver: &mut Driver, lid: u16, peer: u32) {
        self.answer(driver, lid, peer);
        let mut input = self.change(0x504);
        put(&mut input, CONTEXT + 0x3c8, 24, 0xff_fffe);
        put(&mut input, CONTEXT + 0x388, 3, 2);
        put(&mut input, CONTEXT + 0x38d, 3, 7);
        put(&mut input, CONTEXT + 0x390, 3, 7);
        put(&mut input, PATH + 0x40, 5, 14);
        driver.run(&input, 16);
    }

    /// Reset to Ready to Receive, towards `peer` at local identifier `lid`.
    pub fn answer(&self, driver: &mut Driver, lid: u16, peer: u32) {
        let mut input = self.change(0x502);
        put(&mut input, CONTEXT + 0x60, 8, self.counter.into());
        put(&mut input, CONTEXT + 0x490, 3, 0b111);
        driver.run(&input, 16);
        let mut input = self.change(0x503);
        put(&mut input, CONTEXT + 0x40, 3, 3);
        put(&mut input, CONTEXT + 0xa8, 24, peer.into());
        put(&mut input, CONTEXT + 0x488, 3, 2);
        put(&mut input, CONTEXT + 0x4a3, 5, 1);
        put(&mut input, CONTEXT + 0x4a8, 24, 0xff_fffe);
        put(&mut input, PATH + 0x30, 16, lid.into());
        driver.run(&input, 16);
    }

    /// Posts a receive of `length` bytes at `offset` of the buffer's addresses.
    pub fn receive(&mut self, driver: &mut Driver, offset: u64, length: u32) {
        let mut entry = [0; 16];
        entry[..4].copy_from_slice(&length.to_be_bytes());
        entry[4..8].copy_from_slice(&self.key.to_be_bytes());
        entry[8..].copy_from_slice(&(0x10_0000 + offset).to_be_bytes());
        driver.write(self.rings + u64::from(self.receives % 4) * 16, &entry);
        self.receives += 1;
        driver.write(self.record, &u32::from(self.receives).to_be_bytes());
    }

    /// Posts an entry of 16-byte segments after the control segment, and rings.
    pub fn send(&mut self, driver: &mut Driver, opcode: u8, segments: &[[u8; 16]]) {
        self.send_with(driver, opcode, 0, segments);
    }

    /// The same, with the word at the control segment's end: immediate data, or a key.
    pub fn send_with(&mut self, driver: &mut Driver, opcode: u8, word: u32, segments: &[[u8; 16]]) {
        let slots = (segments.len() + 1).div_ceil(4) as u16;
        let mut entry = vec![0; 64 * usize::from(slots)];
        let first = u32::from(self.sends) << 8 | u32::from(opcode);
        entry[..4].copy_from_slice(&first.to_be_bytes());
        let second = self.number << 8 | (segments.len() + 1) as u32;
        entry[4..8].copy_from_slice(&second.to_be_bytes());
        entry[11] = 2 << 2;
        entry[12..16].copy_from_slice(&word.to_be_bytes());
        for (number, segment) in segments.iter().enumerate() {
            entry[16 + number * 16..][..16].copy_from_slice(segment);
        }
        for (slot, bytes) in (self.sends..).zip(entry.chunks(64)) {
            driver.write(self.rings + self.sends_at + u64::from(slot % 32) * 64, bytes);
        }
        self.sends += slots;
        driver.write(self.record + 4, &u32::from(self.sends).to_be_bytes());
        driver.doorbell(0x800, &entry[..8]);
    }

    /// A segment that names `length` bytes at `offset` of the buffer's addresses.
    pub fn data(&self, offset: u64, length: u32) -> [u8; 16] {
        let mut segment = [0; 16];
        segment[..4].copy_from_slice(&length.to_be_bytes());
        segment[4..8].copy_from_slice(&self.key.to_be_bytes());
        segment[8..].copy_from_slice(&(0x10_0000 + offset).to_be_bytes());
        segment
    }

    /// A segment that names the peer's bytes.
    pub fn remote(&self, offset: u64) -> [u8; 16] {
        let mut segment = [0; 16];
        segment[..8].copy_from_slice(&(0x10_0000 + offset).to_be_bytes());
        segment[8..12].copy_from_slice(&self.key.to_be_bytes());
        segment
    }

    /// The next completion, waited for.
    pub fn completion(&mut self, driver: &Driver) -> Vec<u8> {
        let end = Instant::now() + PATIENCE;
        while !self.has_completed(driver) {
            assert!(Instant::now() < end, "no completion came");
            std::thread::yield_now();
        }
        let (_, ring, record) = self.completions;
        let entry = driver.read(ring + u64::from(self.seen % 64) * 64, 64);
        self.seen += 1;
        driver.write(record, &self.seen.to_be_bytes());
        entry
    }

    /// Whether there is a completion.
    pub fn has_completed(&self, driver: &Driver) -> bool {
        let (_, ring, _) = self.completions;
        let last = driver.read(ring + u64::from(self.seen % 64) * 64 + 63, 1)[0];
        let owner = (self.seen / 64 % 2) as u8;
        last & 1 == owner && last >> 4 != 0xf
    }

    /// Arms the completion queue for the next completion.
    pub fn arm(&self, driver: &mut Driver) {
        let word = self.seen.to_be_bytes();
        let (number, _, record) = self.completions;
        driver.write(record + 4, &word);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&word);
        bytes[4..].copy_from_slice(&number.to_be_bytes());
        driver.doorbell(0x20, &bytes);
    }

    /// The buffer's bytes at `offset` of its addresses.
    pub fn place(&self, offset: u64) -> u64 {
        self.buffer + [2 * PAGE, 0, PAGE][(offset / PAGE) as usize] + offset % PAGE
    }
}

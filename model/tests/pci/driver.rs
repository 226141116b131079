//! A driver of a ConnectX function, as small as a test needs it: memory, commands, rings.
//!
//! Offsets and widths are written down here once more, from Linux's `mlx5_ifc.h` and `device.h`, in bits
//! from the structure's start: what the firmware reads is not taken from its own tables.

use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;
use doorbell_model::pci::{ConnectxFunction, Function, Identity};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

pub const PAGE: u64 = 4096;
const PAGES: u64 = 1024;
/// Where the list of pages is in commands.
const LIST: usize = 272;

/// Writes `width` bits at bit `bit`.
pub fn put(bytes: &mut [u8], bit: usize, width: usize, value: u64) {
    for at in 0..width {
        let mask = 0x80 >> ((bit + at) % 8);
        let byte = &mut bytes[(bit + at) / 8];
        *byte &= !mask;
        if value >> (width - 1 - at) & 1 != 0 {
            *byte |= mask;
        }
    }
}

/// Reads `width` bits at bit `bit`.
pub fn get(bytes: &[u8], bit: usize, width: usize) -> u64 {
    (0..width).fold(0, |value, at| {
        value << 1 | u64::from(bytes[(bit + at) / 8] >> (7 - (bit + at) % 8) & 1)
    })
}

/// A command of `length` bytes.
pub fn command(opcode: u16, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    put(&mut bytes, 0, 16, opcode.into());
    bytes
}

pub struct Driver {
    pub function: ConnectxFunction,
    file: File,
    next_page: u64,
    queue: u64,
    interrupt: File,
    pub uar: u32,
}

impl Driver {
    /// A driver of a function that was just switched on. Device addresses are offsets in its
    /// memory, each page mapped by itself, the last first.
    pub fn new(network: &Network, link: LinkLayer, number: u16) -> Driver {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, PAGES * PAGE).unwrap();
        let file = File::from(file);
        let mut function = ConnectxFunction::new(network, Identity::new(link, number));
        for page in (0..PAGES).rev() {
            function.map(page * PAGE, PAGE, &file, page * PAGE, true).unwrap();
        }
        let interrupt = File::from(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        for vector in 0..32 {
            let listener = Some(interrupt.try_clone().unwrap());
            assert!(function.interrupts().listen(vector, listener));
        }
        let mut driver = Driver { function, file, next_page: 1, queue: 0, interrupt, uar: 0 };
        driver.queue = driver.page();
        let [high, low] = [(driver.queue >> 32) as u32, driver.queue as u32];
        driver.function.write_bar(0, 0x10, &high.to_be_bytes());
        driver.function.write_bar(0, 0x14, &low.to_be_bytes());
        driver
    }

    pub fn page(&mut self) -> u64 {
        self.pages(1)
    }

    /// Pages that follow each other, zeroed.
    pub fn pages(&mut self, count: u64) -> u64 {
        let page = self.next_page;
        self.next_page += count;
        assert!(self.next_page <= PAGES, "the guest has no more memory");
        page * PAGE
    }

    pub fn write(&self, address: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, address).unwrap();
    }

    pub fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, address).unwrap();
        bytes
    }

    /// Interrupts since the last look.
    pub fn interrupts(&mut self) -> u64 {
        let mut bytes = [0; 8];
        match self.interrupt.read(&mut bytes) {
            Ok(8) => u64::from_ne_bytes(bytes),
            Ok(_) | Err(_) => 0,
        }
    }

    /// Gives a command, in slot 0, and answers with what came back and its delivery status.
    pub fn deliver(&mut self, input: &[u8], output: usize) -> (Vec<u8>, u8) {
        let kept = self.next_page;
        let mut entry = [0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        entry[56..60].copy_from_slice(&(output as u32).to_be_bytes());
        entry[60] = 0x5a;
        entry[63] = 1;
        let inline = input.len().min(16);
        entry[16..16 + inline].copy_from_slice(&input[..inline]);
        let blocks = self.blocks(&input[inline..]);
        entry[8..16].copy_from_slice(&blocks.to_be_bytes());
        let room = vec![0; output.saturating_sub(16)];
        let answer = self.blocks(&room);
        entry[48..56].copy_from_slice(&answer.to_be_bytes());
        self.write(self.queue, &entry);
        self.function.write_bar(0, 0x18, &1u32.to_be_bytes());
        let entry = self.read(self.queue, 64);
        let mut bytes = entry[32..48].to_vec();
        let mut next = answer;
        while bytes.len() < output {
            let block = self.read(next, 576);
            bytes.extend_from_slice(&block[..512.min(output - bytes.len())]);
            next = u64::from_be_bytes(block[560..568].try_into().unwrap());
        }
        self.next_page = kept;
        (bytes, entry[63])
    }

    /// Puts bytes into blocks; answers where the first one is.
    fn blocks(&mut self, bytes: &[u8]) -> u64 {
        let parts: Vec<&[u8]> = bytes.chunks(512).collect();
        let places: Vec<u64> = parts.iter().map(|_| self.page()).collect();
        for (number, part) in parts.iter().enumerate() {
            let mut block = [0; 576];
            block[..part.len()].copy_from_slice(part);
            let next = places.get(number + 1).copied().unwrap_or(0);
            block[560..568].copy_from_slice(&next.to_be_bytes());
            block[568..572].copy_from_slice(&(number as u32).to_be_bytes());
            block[573] = 0x5a;
            self.write(places[number], &block);
        }
        places.first().copied().unwrap_or(0)
    }

    /// Gives a command that has to succeed.
    pub fn run(&mut self, input: &[u8], output: usize) -> Vec<u8> {
        let (answer, delivery) = self.deliver(input, output);
        let log = self.function.take_log();
        assert_eq!(delivery, 0, "{log:?}");
        assert_eq!(answer[0], 0, "command {:#x}: {log:?}", get(input, 0, 16));
        answer
    }

    /// The status of a command.
    pub fn status(&mut self, input: &[u8]) -> u8 {
        let (answer, delivery) = self.deliver(input, 16);
        assert_eq!(delivery, 0);
        answer[0]
    }

    /// A command of an opcode and nothing else.
    pub fn simple(&mut self, opcode: u16) -> Vec<u8> {
        self.run(&command(opcode, 16), 16)
    }

    /// A command that makes an object and needs to be told nothing: its number.
    pub fn allocate(&mut self, opcode: u16) -> u32 {
        get(&self.simple(opcode), 0x48, 24) as u32
    }

    /// A command about the object `number`.
    pub fn about(&mut self, opcode: u16, number: u32) -> u8 {
        let mut input = command(opcode, 16);
        put(&mut input, 0x48, 24, number.into());
        self.status(&input)
    }

    /// What `mlx5_core` does before anything else: enable, interfaces, pages, capabilities, init.
    pub fn start(&mut self) {
        self.simple(0x104);
        assert_eq!(get(&self.run(&command(0x10a, 16), 112), 0x360, 32), 3);
        let mut input = command(0x10b, 16);
        put(&mut input, 0x50, 16, 1);
        self.run(&input, 16);
        assert_eq!(get(&self.simple(0x107), 0x60, 32), 0);
        self.simple(0x102);
        self.uar = self.allocate(0x802);
    }

    /// A command that makes an object in these pages.
    pub fn with_pages(opcode: u16, pages: &[u64]) -> Vec<u8> {
        let mut input = command(opcode, LIST + pages.len() * 8);
        for (number, page) in pages.iter().enumerate() {
            put(&mut input, (LIST + number * 8) * 8, 64, *page);
        }
        input
    }

    /// Makes an event queue of 64 entries for events of `mask`: its number, and its ring.
    pub fn event_queue(&mut self, mask: u64) -> (u32, u64) {
        let ring = self.page();
        // Software gives every entry to the device's second pass.
        for entry in 0..64 {
            self.write(ring + entry * 64 + 63, &[1]);
        }
        let mut input = Self::with_pages(0x301, &[ring]);
        let context = 16 * 8;
        put(&mut input, context + 0x63, 5, 6);
        put(&mut input, context + 0x68, 24, self.uar.into());
        put(&mut input, 0x2c0, 64, mask);
        (get(&self.run(&input, 16), 0x58, 8) as u32, ring)
    }

    /// Makes a completion queue of 64 entries: its number, its ring and its record.
    pub fn completion_queue(&mut self, events: u32) -> (u32, u64, u64) {
        let (ring, record) = (self.page(), self.page());
        for entry in 0..64 {
            self.write(ring + entry * 64 + 63, &[0xf1]);
        }
        let mut input = Self::with_pages(0x400, &[ring]);
        let context = 16 * 8;
        put(&mut input, context + 0x63, 5, 6);
        put(&mut input, context + 0x68, 24, self.uar.into());
        put(&mut input, context + 0xa0, 32, events.into());
        put(&mut input, context + 0x1c0, 64, record);
        (get(&self.run(&input, 16), 0x48, 24) as u32, ring, record)
    }

    /// Makes a memory key for these pages, all rights, from address `start` on: the key.
    pub fn key(&mut self, domain: u32, pages: &[u64], start: u64, length: u64) -> u32 {
        let mut input = Self::with_pages(0x200, pages);
        let context = 16 * 8;
        put(&mut input, context + 0x11, 5, 0b11111);
        put(&mut input, context + 0x16, 2, 1);
        put(&mut input, context + 0x38, 8, 0x42);
        put(&mut input, context + 0x68, 24, domain.into());
        put(&mut input, context + 0x80, 64, start);
        put(&mut input, context + 0xc0, 64, length);
        put(&mut input, context + 0x1da, 6, 12);
        put(&mut input, 0x300, 32, pages.len().div_ceil(2) as u64);
        (get(&self.run(&input, 16), 0x48, 24) as u32) << 8 | 0x42
    }

    /// A store of 8 bytes to the UAR page.
    pub fn doorbell(&mut self, offset: u64, bytes: &[u8]) {
        let at = u64::from(self.uar) * PAGE + offset;
        self.function.write_bar(0, at, bytes);
    }
}

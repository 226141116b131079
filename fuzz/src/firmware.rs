//! A ConnectX function as a machine reaches it: firmware commands, registers, memory.

use crate::input::Input;
use doorbell_model::connectx::Network;
use doorbell_model::kernel::LinkLayer;
use doorbell_model::pci::{ConnectxFunction, Function, Identity};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// The machine's memory, as much as the one had that the corpus was recorded on.
const MEMORY: u64 = 2 << 30;
const PAGE: u64 = 4096;
/// The command queue, and the blocks of a command and of its answer behind it.
const QUEUE: u64 = MEMORY - 64 * PAGE;
const BLOCKS: u64 = QUEUE + PAGE;
const ANSWER_BLOCKS: u64 = BLOCKS + 32 * PAGE;
/// Bytes of a command or answer in the queue's entry, and in each block.
const INLINE: usize = 16;
const BLOCK: usize = 512;
/// The longest command and answer: what the blocks hold.
const LONGEST: usize = INLINE + 28 * BLOCK;
/// What a driver gives last.
const DISABLE_HCA: u16 = 0x105;
/// What is left then.
const NOTHING: &str = "pd=0 mkey=0 cq=0 qp=0 uar=0";
/// Things that happen in the network at once.
const STEPS: u64 = 200;

/// What a record of the input does.
mod kind {
    pub(super) const COMMAND: std::ops::RangeInclusive<u8> = 0..=9;
    pub(super) const STORE: u8 = 10;
    pub(super) const LOAD: u8 = 11;
    pub(super) const MEMORY: u8 = 12;
    pub(super) const LINK: u8 = 13;
    pub(super) const UNMAP: u8 = 14;
    /// One more than the last.
    pub(super) const KINDS: usize = 16;
}

struct Machine {
    network: Network,
    function: ConnectxFunction,
    memory: File,
}

impl Machine {
    fn new(link: LinkLayer) -> Self {
        let memory = memfd_create("machine", MemfdFlags::CLOEXEC).expect("memory for a machine");
        ftruncate(&memory, MEMORY).expect("memory for a machine");
        let memory = File::from(memory);
        let network = Network::stepped(1);
        let mut function = ConnectxFunction::new(&network, Identity::new(link, 1));
        function.map(0, MEMORY, &memory, 0, true).expect("the machine's memory can be mapped");
        let mut machine = Machine { network, function, memory };
        machine.function.write_bar(0, 0x10, &0u32.to_be_bytes());
        machine.function.write_bar(0, 0x14, &(QUEUE as u32).to_be_bytes());
        machine
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("an address of the machine's memory");
    }

    fn read(&self, at: u64, bytes: &mut [u8]) {
        self.memory.read_exact_at(bytes, at).expect("an address of the machine's memory");
    }

    /// Puts bytes into the blocks from `first` on.
    fn fill(&self, first: u64, bytes: &[u8]) {
        for (number, part) in (0..).zip(bytes.chunks(BLOCK)) {
            let at = first + number * PAGE;
            let mut block = [0; 576];
            block[..part.len()].copy_from_slice(part);
            block[560..568].copy_from_slice(&(at + PAGE).to_be_bytes());
            block[573] = 0x5a;
            self.write(at, &block);
        }
    }

    /// Gives a command. It has to be given back, with an answer that says how it ended.
    fn command(&mut self, input: &[u8], output: usize) {
        let mut entry = [0; 64];
        entry[0] = 7;
        entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
        entry[8..16].copy_from_slice(&BLOCKS.to_be_bytes());
        let inline = input.len().min(INLINE);
        entry[16..16 + inline].copy_from_slice(&input[..inline]);
        entry[48..56].copy_from_slice(&ANSWER_BLOCKS.to_be_bytes());
        entry[56..60].copy_from_slice(&(output as u32).to_be_bytes());
        entry[60] = 0x5a;
        entry[63] = 1;
        self.fill(BLOCKS, &input[inline..]);
        self.fill(ANSWER_BLOCKS, &vec![0; output.saturating_sub(INLINE)]);
        self.write(QUEUE, &entry);
        self.function.write_bar(0, 0x18, &1u32.to_be_bytes());
        self.read(QUEUE, &mut entry);
        assert_eq!(entry[63] & 1, 0, "a command was not given back");
        let opcode = u16::from_be_bytes([entry[16], entry[17]]);
        if entry[63] == 0 {
            let refused = entry[32] != 0;
            let syndrome = u32::from_be_bytes([entry[36], entry[37], entry[38], entry[39]]);
            assert_eq!(refused, syndrome != 0 || refused && opcode == 0, "a status says why");
            if opcode == DISABLE_HCA && !refused {
                let left = self.function.objects();
                assert_eq!(left, NOTHING, "something outlived the driver");
            }
        }
    }
}

/// Does what the records of `bytes` say to a function of a machine. Whatever they are, every command is
/// given back, and nothing is left when the driver lets go of the device.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let link = if input.flag() { LinkLayer::InfiniBand } else { LinkLayer::Ethernet };
    let mut machine = Machine::new(link);
    while !input.is_empty() {
        let kind = input.below(kind::KINDS) as u8;
        match kind {
            _ if kind::COMMAND.contains(&kind) => {
                let length = usize::from(input.half());
                let output = usize::from(input.half()).clamp(8, LONGEST);
                let mut command = input.bytes(usize::from(input.half())).to_vec();
                // Its end is zeroes, which need not be said.
                command.resize(length.clamp(8, LONGEST), 0);
                machine.command(&command, output);
            }
            kind::STORE => {
                let at = input.word().into();
                let length = [4, 8, 8, 1, 2, 16][input.below(6)];
                let mut bytes = input.bytes(length).to_vec();
                bytes.resize(length, 0);
                // The command queue stays where it is, and its slots are rung by `command`.
                if !(0x10..0x1c).contains(&at) {
                    machine.function.write_bar(0, at, &bytes);
                }
            }
            kind::LOAD => {
                let mut bytes = [0; 8];
                let length = input.below(9);
                machine.function.read_bar(0, input.word().into(), &mut bytes[..length]);
            }
            kind::MEMORY => {
                let at = u64::from(input.word()) % (QUEUE - 256);
                let length = input.below(256);
                machine.write(at, input.bytes(length));
            }
            kind::LINK => machine.function.set_link(input.flag()),
            kind::UNMAP => {
                // What the device uses may be gone at any time; the queue stays, for this test.
                let at = (u64::from(input.word()) % QUEUE) & !(PAGE - 1);
                machine.function.unmap(at, Some(PAGE.min(QUEUE - at)));
            }
            _ => {
                machine.network.run_until_idle(STEPS);
            }
        }
    }
    machine.network.run_until_idle(STEPS);
    let mut last = vec![0; INLINE];
    last[..2].copy_from_slice(&DISABLE_HCA.to_be_bytes());
    machine.command(&last, INLINE);
    assert!(machine.function.take_log().iter().all(|line| !line.is_empty()));
}

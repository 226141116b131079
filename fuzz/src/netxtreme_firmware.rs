//! A BCM57608 as a machine's software reaches it: requests, commands of its RoCE engine, doorbells,
//! memory.

use crate::input::Input;
use doorbell::bnxt::Nic;
use doorbell::bnxt::abi::command::CommandQueueInit;
use doorbell::bnxt::abi::firmware::function::FuncResetRequest;
use doorbell::bnxt::abi::firmware::ring::{INT_MODE_MSIX, RingAllocRequest, ring_type};
use doorbell::bnxt::abi::firmware::{Request, RequestHeader, SHORT_SIGNATURE, TRIGGER};
use doorbell_hal::Errno;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::mmio::{Register, RegisterPage};
use doorbell_hal::pci::{Bar, BusAddress, DeviceAddresses, PciFunction};
use doorbell_model::VirtualNetxtreme;
use doorbell_model::connectx::Network;
use doorbell_model::netxtreme::Bounds;
use doorbell_model::pci::WatchedNetxtreme;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Memory, registers and interrupts of the virtual function.
type LentAnonymous = <VirtualNetxtreme as PciFunction>::Memory;
type Lent = <VirtualNetxtreme as PciFunction>::Pinned;
type VirtualBar = <VirtualNetxtreme as PciFunction>::Bar;
type VirtualInterrupts = <VirtualNetxtreme as PciFunction>::Interrupts;

/// Bytes of memory that the machine's software puts things into, in one piece for the function.
pub(crate) const ARENA: usize = 1 << 20;
/// What is in it: the answers of requests, the command queue, its event ring; the rest is free.
const ANSWER: usize = 0;
const COMMANDS: usize = 0x1000;
const EVENTS: usize = 0x2000;
/// Where the rest begins.
pub(crate) const FREE: usize = 0x4000;
/// Slots and entries of 16 bytes.
const SLOT: usize = 16;
const SLOTS: usize = 256;
const EVENT_ENTRIES: u32 = 512;
/// Registers, in BAR 0.
const MAILBOX: u64 = 0x600;
const PRODUCER: u64 = MAILBOX + 0xc;
const COMMAND_TRIGGER: u64 = 0x700;
/// In the first producer index: the queue starts over.
const FIRST: u32 = 1 << 31;
/// The longest request, and the longest command.
const LONGEST_REQUEST: usize = 128;
const LONGEST_COMMAND: usize = 255 * SLOT;
/// Things that happen in the network at once.
const STEPS: u64 = 200;

/// What a record of the input does.
pub(crate) mod kind {
    pub(crate) const REQUEST: u8 = 0;
    pub(crate) const COMMAND: u8 = 1;
    pub(crate) const DOORBELL: u8 = 2;
    pub(crate) const MEMORY: u8 = 3;
    pub(super) const STORE: u8 = 4;
    pub(super) const LOAD: u8 = 5;
    pub(super) const LINK: u8 = 6;
    pub(super) const HAND_OVER: u8 = 7;
    pub(super) const BUS_MASTER: u8 = 8;
    #[cfg_attr(not(test), allow(dead_code))]
    pub(crate) const STEP: u8 = 9;
    /// One more than the last.
    pub(super) const KINDS: usize = 10;
}

/// A function that its driver shares with the machine's other software.
struct Held(Arc<VirtualNetxtreme>);

// SAFETY: M1, P1: it is the virtual function, under the same promises.
unsafe impl PciFunction for Held {
    type Memory = LentAnonymous;
    type Pinned = Lent;
    type Bar = VirtualBar;
    type Interrupts = VirtualInterrupts;

    fn bus_address(&self) -> BusAddress {
        self.0.bus_address()
    }

    fn read_configuration(&self, at: u16, into: &mut [u8]) -> Result<(), Errno> {
        self.0.read_configuration(at, into)
    }

    fn write_configuration(&self, at: u16, bytes: &[u8]) -> Result<(), Errno> {
        self.0.write_configuration(at, bytes)
    }

    fn bar(&self, number: u8) -> Result<VirtualBar, Errno> {
        self.0.bar(number)
    }

    fn allocate(&self, len: usize) -> Result<LentAnonymous, Errno> {
        self.0.allocate(len)
    }

    unsafe fn pin(&self, start: NonNull<u8>, len: usize) -> Result<Lent, Errno> {
        // SAFETY: M1, M2: our caller promises it.
        unsafe { self.0.pin(start, len) }
    }

    fn pin_device(
        &self,
        owner: BusAddress,
        bar: u8,
        offset: u64,
        len: usize,
    ) -> Result<Lent, Errno> {
        self.0.pin_device(owner, bar, offset, len)
    }

    fn interrupts(&self, vectors: u16) -> Result<VirtualInterrupts, Errno> {
        self.0.interrupts(vectors)
    }

    fn reset(&self) -> Result<(), Errno> {
        self.0.reset()
    }

    fn page_size(&self) -> usize {
        self.0.page_size()
    }

    fn random(&self) -> Result<u32, Errno> {
        self.0.random()
    }

    fn now(&self) -> Duration {
        self.0.now()
    }

    fn pause(&self, time: Duration) {
        // What is not answered at once is not answered at all here, and nobody waits for it.
        self.0.pause(time.max(Duration::from_secs(1)));
    }
}

pub(crate) struct Machine {
    registers: VirtualBar,
    doorbells: VirtualBar,
    arena: LentAnonymous,
    control: WatchedNetxtreme,
    network: Network,
    addresses: ([u8; 16], [u8; 6]),
    /// Slots of the command queue written, modulo 2^16.
    produced: u16,
}

impl Machine {
    fn new(function: &VirtualNetxtreme) -> Self {
        let bar = |number| function.bar(number).expect("it has these BARs");
        Machine {
            registers: bar(0),
            doorbells: bar(2),
            arena: function.allocate(ARENA).expect("there is memory"),
            control: function.watch(),
            network: function.network().clone(),
            addresses: Default::default(),
            produced: 0,
        }
    }

    fn address(&self, at: usize) -> u64 {
        self.arena.device_address(at).expect("it is in the arena")
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        for (at, byte) in (at..ARENA).zip(bytes) {
            // SAFETY: M1, M2: in the arena; copied raw.
            unsafe { self.arena.as_ptr().add(at).write_volatile(*byte) };
        }
    }

    fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        // SAFETY: M1, M2: in the arena, whose end no caller is near; copied raw.
        std::array::from_fn(|place| unsafe { self.arena.as_ptr().add(at + place).read_volatile() })
    }

    /// Makes a request, whose answer comes to the arena. It has to come, with the number of its request,
    /// if the function may write memory at all. Answers its first bytes.
    pub(crate) fn request(&mut self, bytes: &[u8]) -> [u8; 16] {
        let mut window = [0; LONGEST_REQUEST];
        let length = bytes.len().min(LONGEST_REQUEST);
        window[..length].copy_from_slice(&bytes[..length]);
        let (header, _) = RequestHeader::mut_from_prefix(&mut window).expect("it fits");
        header.resp_addr = self.address(ANSWER).into();
        let (kind, sequence) = (header.req_type, header.seq_id);
        let in_memory = header.cmpl_ring.get() == SHORT_SIGNATURE;
        self.write(ANSWER, &[0; 16]);
        for (at, word) in (0..).step_by(4).zip(window.as_chunks::<4>().0) {
            self.registers.write(at, u32::from_le_bytes(*word)).expect("the window is there");
        }
        self.registers.write(TRIGGER as u64, 1).expect("the trigger is there");
        let answer = self.read::<16>(ANSWER);
        if self.control.is_bus_master() && !in_memory {
            let half = |at: usize| u16::from_le_bytes([answer[at], answer[at + 1]]);
            assert_eq!((half(2), half(4)), (kind.get(), sequence.get()), "whose answer is it");
            let length = usize::from(half(6));
            assert!((16..EVENTS).contains(&length), "an answer of {length} bytes");
            assert_eq!(self.read::<1>(ANSWER + length - 1), [1], "the answer is not whole");
        }
        answer
    }

    /// Gives the RoCE engine a command queue of the machine's own, and a ring for its events.
    fn hand_over(&mut self) {
        let mut ring = RingAllocRequest::new();
        ring.ring_type = ring_type::NQ;
        ring.page_tbl_addr = self.address(EVENTS).into();
        ring.page_size = 12;
        ring.length = EVENT_ENTRIES.into();
        ring.int_mode = INT_MODE_MSIX;
        let answer = self.request(ring.as_bytes());
        let init = CommandQueueInit {
            cmdq_pbl: self.address(COMMANDS).into(),
            cmdq_size_cmdq_lvl: ((SLOTS as u16) << 2).into(),
            creq_ring_id: u16::from_le_bytes([answer[8], answer[9]]).into(),
            prod_idx: FIRST.into(),
        };
        for (at, word) in (MAILBOX..).step_by(4).zip(init.as_bytes().as_chunks::<4>().0) {
            self.registers.write(at, u32::from_le_bytes(*word)).expect("the mailbox is there");
        }
        self.produced = 0;
        self.registers.write(COMMAND_TRIGGER, 1).expect("the trigger is there");
    }

    /// Makes a command of the RoCE engine. If there is a queue, it is taken out of it.
    pub(crate) fn command(&mut self, bytes: &[u8]) {
        let slots = bytes.len().div_ceil(SLOT).max(1);
        let mut bytes = bytes.to_vec();
        bytes.resize(slots * SLOT, 0);
        // Wrapped commands have their own length.
        if bytes[..2] != [0, 0x80] {
            bytes[1] = slots as u8;
        }
        for (number, slot) in bytes.chunks(SLOT).enumerate() {
            let place = (usize::from(self.produced) + number) % SLOTS;
            self.write(COMMANDS + place * SLOT, slot);
        }
        self.produced = self.produced.wrapping_add(slots as u16);
        self.registers.write(PRODUCER, self.produced.into()).expect("the mailbox is there");
        self.registers.write(COMMAND_TRIGGER, 1).expect("the trigger is there");
    }

    /// A store to a doorbell page: 8 bytes at an offset below 32.
    pub(crate) fn doorbell(&self, page: usize, offset: u8, value: u64) {
        let register = self.doorbells.register(page * 4096, 256).expect("a page");
        // SAFETY: R1: the register was made with 256 bytes.
        unsafe { register.store(offset.into(), value) };
    }

    /// Lets things happen.
    pub(crate) fn step(&self) {
        self.network.run_until_idle(STEPS);
    }

    /// Bytes with addresses in them: of each word of 8 bytes that a bit of `which` names, the low bits
    /// are taken for a place in the arena.
    pub(crate) fn placed(&self, mut bytes: Vec<u8>, which: u32) -> Vec<u8> {
        for (number, word) in (0..32).zip(bytes.as_chunks_mut::<8>().0) {
            if which >> number & 1 == 1 {
                let at = u64::from_le_bytes(*word) as usize;
                // The low bits stay: entries of tables have flags there.
                let place = self.address((at % ARENA) & !7) | (at as u64 & 7);
                *word = place.to_le_bytes();
            }
        }
        bytes
    }
}

/// A function that its driver has started, the machine around it, and the driver's NIC.
pub(crate) struct Started {
    // Before the function.
    nic: Nic<Held>,
    function: Arc<VirtualNetxtreme>,
}

/// A machine with a NIC that is quick to make: with room for few objects.
pub(crate) fn small_machine() -> (Started, Machine) {
    let bounds = Bounds {
        queue_pairs: 64,
        fast_queue_pairs: 2,
        shared_receive_queues: 8,
        keys: 64,
        address_vectors: 8,
        completions: 1 << 12,
        ..Bounds::default()
    };
    let network = Network::stepped(1);
    let function = VirtualNetxtreme::builder().network(&network).bounds(bounds).granule(ARENA);
    let function = Arc::new(function.open());
    let mut machine = Machine::new(&function);
    let nic = Nic::open(Held(Arc::clone(&function))).expect("nobody meddles yet");
    machine.addresses = (nic.gid(), nic.mac());
    machine.hand_over();
    (Started { nic, function }, machine)
}

/// What whoever writes the corpus asks of a machine.
#[cfg(test)]
impl Machine {
    /// The last event: its status, and the number of its object.
    pub(crate) fn last_event(&self) -> (u8, u32) {
        let events = (0..EVENT_ENTRIES as usize).map(|place| self.read::<16>(EVENTS + place * 16));
        let last = events.take_while(|event| event[8] & 1 == 1).last();
        let last = last.unwrap_or_else(|| panic!("there is one: {:?}", self.log()));
        (last[1], u32::from_le_bytes([last[4], last[5], last[6], last[7]]))
    }

    /// The identifier and the address of its NIC.
    pub(crate) fn own_addresses(&self) -> ([u8; 16], [u8; 6]) {
        self.addresses
    }

    pub(crate) fn log(&self) -> Vec<String> {
        self.control.take_log()
    }
}

/// Does what the records of `bytes` say to a function that its driver has started. Whatever they are,
/// every request is answered, the function touches no memory but what it was given, it comes to rest,
/// and nothing is left when it is reset.
pub fn run(bytes: &[u8]) {
    let input = Input::new(bytes);
    let (started, mut machine) = small_machine();
    while !input.is_empty() {
        match input.below(kind::KINDS) as u8 {
            kind::REQUEST => {
                let which = input.word();
                let length = usize::from(input.byte()).min(LONGEST_REQUEST);
                let request = machine.placed(input.bytes(length).to_vec(), which);
                machine.request(&request);
            }
            kind::COMMAND => {
                let which = input.word();
                let length = usize::from(input.half()).min(LONGEST_COMMAND);
                let command = machine.placed(input.bytes(length).to_vec(), which);
                machine.command(&command);
            }
            kind::DOORBELL => {
                let (page, offset) = (usize::from(input.half()) % 64, input.byte() & 0x18);
                let value = input.double();
                machine.doorbell(page, offset, value);
            }
            kind::MEMORY => {
                let (at, which) = (input.word() as usize % (ARENA - FREE), input.word());
                let length = usize::from(input.byte());
                machine.write(FREE + at, &machine.placed(input.bytes(length).to_vec(), which));
            }
            kind::STORE => {
                let at = u64::from(input.half()) & !3;
                machine.registers.write(at, input.word());
            }
            kind::LOAD => {
                machine.registers.read(u64::from(input.half()) & !3);
            }
            kind::LINK => machine.control.with(|nic| nic.set_link(input.flag())),
            kind::HAND_OVER => machine.hand_over(),
            kind::BUS_MASTER => {
                let command = [if input.byte() == 0 { 0x02 } else { 0x06 }, 0];
                started.function.write_configuration(4, &command).expect("it is there");
            }
            _ => machine.step(),
        }
    }
    machine.step();
    started.function.write_configuration(4, &[6, 0]).expect("it is there");
    machine.request(FuncResetRequest::new().as_bytes());
    machine.control.with(|nic| assert_eq!(nic.objects(), [0; 5], "something outlived a reset"));
    assert!(machine.control.take_log().iter().all(|line| !line.is_empty()));
    let control = machine.control.clone();
    // Its driver finds nothing as it was, which it gets over.
    let Started { nic, function } = started;
    drop((nic, machine, function));
    assert_eq!(control.lent(), 0, "memory was left behind");
}

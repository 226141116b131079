//! The command queue of the RoCE engine's firmware, and its event ring: one command at a time.

use super::abi::command::{Command, CommandQueueInit};
use super::abi::doorbell::{Doorbell, Moves, Position, QueueNumber};
use super::abi::event::{
    COMPLETION_QUEUE_ERROR, CommandEvent, CommandStatus, EventKind, QUEUE_PAIR_ERROR,
    QueuePairError,
};
use super::abi::opcode::Opcode;
use super::abi::page::PAGE_BYTES;
use super::abi::wqe::SLOT_BYTES;
use super::memory::{self, PageTable, Purpose};
use crate::error::Error;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;
use doorbell_hal::Errno;
use doorbell_hal::mmio::{Caching, Register, Uncached};
use doorbell_hal::pci::{Bar, DeviceAddresses, PciFunction};
use doorbell_hal::sync;
use zerocopy::{FromBytes, IntoBytes};

/// Where the command queue is handed over, in BAR 0.
const MAILBOX: u64 = 0x600;
/// Where its producer index is written, in BAR 0.
const PRODUCER: u64 = MAILBOX + core::mem::offset_of!(CommandQueueInit, prod_idx) as u64;
/// Where a command is announced, in BAR 0.
const TRIGGER: u64 = 0x700;
/// In the first producer index that is written: the firmware starts over.
const FIRST: u32 = 1 << 31;
/// Slots of the command queue: a page of them. One command is under way at a time.
const SLOTS: usize = PAGE_BYTES / SLOT_BYTES;
/// Entries of the event ring: room for the failures of as many queue pairs between two commands.
pub(super) const EVENTS: usize = 4096;
/// A command's cookie: the low bits count, and this says that its answer is waited for.
const WAITED_FOR: u16 = 1 << 15;
const COOKIES: u16 = 0x1fff;
/// Between two looks at memory.
const PAUSE: Duration = Duration::from_micros(10);

/// The event ring's memory, before the firmware knows it.
pub(super) struct EventMemory<F: PciFunction> {
    entries: F::Memory,
    pub(super) table: PageTable<F>,
}

impl<F: PciFunction> EventMemory<F> {
    pub(super) fn new(function: &F) -> Result<Self, Error> {
        let len = EVENTS * size_of::<CommandEvent>();
        let entries = memory::allocate(function, len)?;
        let table = PageTable::new(function, &entries, len, PAGE_BYTES, Purpose::Ring)?;
        Ok(EventMemory { entries, table })
    }
}

/// The command queue of a function.
pub(super) struct Commands<F: PciFunction> {
    slots: F::Memory,
    events: EventMemory<F>,
    /// Where answers go that do not fit an event.
    answer: F::Memory,
    register: <F::Bar as doorbell_hal::mmio::RegisterPage>::Register,
    doorbell: Doorbell<Moves>,
    ring: u16,
    started: bool,
    /// Slots written, modulo 2^16.
    produced: u16,
    /// Events consumed, modulo 2^32.
    consumed: u32,
    cookie: u16,
    /// Queue pairs that have failed, by number, since they were last taken.
    failed: Vec<u32>,
}

impl<F: PciFunction> Commands<F> {
    /// A command queue whose answers come to `events`, which are consumed through `register`, of 8
    /// bytes.
    pub(super) fn new(
        function: &F,
        events: EventMemory<F>,
        register: <F::Bar as doorbell_hal::mmio::RegisterPage>::Register,
    ) -> Result<Self, Error> {
        Ok(Commands {
            slots: memory::allocate(function, SLOTS * SLOT_BYTES)?,
            events,
            answer: memory::allocate(function, PAGE_BYTES)?,
            register,
            doorbell: Doorbell::notification(QueueNumber::from(0)),
            ring: 0,
            started: false,
            produced: 0,
            consumed: 0,
            cookie: 0,
            failed: Vec::new(),
        })
    }

    /// Says which ring the events are: before the first command.
    pub(super) fn report_to(&mut self, ring: u16) {
        (self.ring, self.doorbell) = (ring, Doorbell::notification(ring.into()));
    }

    /// Makes a command, and waits for its event until `timeout` has passed. Where the command is
    /// answered in memory, the answer comes to `answer`.
    pub(super) fn execute<C: Command>(
        &mut self,
        function: &F,
        bar: &F::Bar,
        mut command: C,
        answer: &mut [u8],
        timeout: Duration,
    ) -> Result<CommandEvent, Error> {
        let missing = || memory::refused(function, "the command queue's registers", Errno::ENXIO);
        let address = |memory: &F::Memory| {
            let address = memory.device_address(0);
            address.ok_or_else(|| memory::refused(function, "a device address", Errno::EFAULT))
        };
        self.cookie = (self.cookie + 1) & COOKIES;
        let cookie = self.cookie | WAITED_FOR;
        let units = size_of::<C>().div_ceil(SLOT_BYTES);
        let header = command.header();
        header.opcode = C::OPCODE.code();
        header.cmd_size = units as u8;
        header.cookie = cookie.into();
        if !answer.is_empty() {
            memory::write(&self.answer, 0, &[0; PAGE_BYTES]);
            header.resp_size = answer.len().div_ceil(SLOT_BYTES) as u8;
            header.resp_addr = address(&self.answer)?.into();
        }
        for slot in 0..units {
            let mut bytes = [0; SLOT_BYTES];
            let rest = &command.as_bytes()[slot * SLOT_BYTES..];
            let len = rest.len().min(SLOT_BYTES);
            bytes[..len].copy_from_slice(&rest[..len]);
            let place = (usize::from(self.produced) + slot) % SLOTS;
            memory::write(&self.slots, place * SLOT_BYTES, &bytes);
        }
        self.produced = self.produced.wrapping_add(units as u16);
        // Pairs with the firmware reading the slots after it saw the register.
        Uncached::before_store();
        let mut producer = u32::from(self.produced);
        if !self.started {
            let init = CommandQueueInit {
                cmdq_pbl: address(&self.slots)?.into(),
                cmdq_size_cmdq_lvl: ((SLOTS as u16) << 2).into(),
                creq_ring_id: self.ring.into(),
                prod_idx: 0.into(),
            };
            for (at, word) in init.as_bytes().as_chunks::<4>().0.iter().enumerate() {
                let at = MAILBOX + 4 * at as u64;
                bar.write(at, u32::from_le_bytes(*word)).ok_or_else(missing)?;
            }
            producer |= FIRST;
            self.started = true;
        }
        bar.write(PRODUCER, producer).ok_or_else(missing)?;
        Uncached::before_store();
        bar.write(TRIGGER, 1).ok_or_else(missing)?;
        let event = self.wait(function, C::OPCODE, cookie, timeout)?;
        match CommandStatus::from_code(event.status) {
            CommandStatus::Success => {
                // The answer was written before the event.
                memory::read(&self.answer, 0, answer);
                Ok(event)
            }
            status => Err(Error::Firmware {
                device: function.bus_address().to_string(),
                call: symbol(C::OPCODE),
                reason: reason(status),
                code: event.status.into(),
            }),
        }
    }

    fn wait(
        &mut self,
        function: &F,
        opcode: Opcode,
        cookie: u16,
        timeout: Duration,
    ) -> Result<CommandEvent, Error> {
        let start = function.now();
        loop {
            while let Some(event) = self.next_event() {
                if self.is_answer(&event) && event.cookie.get() == cookie {
                    return Ok(event);
                }
            }
            if function.now().saturating_sub(start) > timeout {
                return Err(Error::NoAnswer {
                    device: function.bus_address().to_string(),
                    call: symbol(opcode),
                    within: timeout,
                });
            }
            function.pause(PAUSE);
        }
    }

    /// Reads the events that have come by themselves, at most a ring of them.
    pub(super) fn service(&mut self) {
        for _ in 0..EVENTS {
            let Some(event) = self.next_event() else { return };
            // An answer that nobody waits for is to a command that was given up.
            self.is_answer(&event);
        }
    }

    /// The numbers of queue pairs that have failed since this was last asked.
    pub(super) fn take_failed(&mut self) -> Vec<u32> {
        core::mem::take(&mut self.failed)
    }

    /// Whether the event answers a command. If it says that a queue pair has failed, notes it.
    fn is_answer(&mut self, event: &CommandEvent) -> bool {
        if EventKind::from_code(event.kind & 0x3f) != Some(EventKind::QueuePair) {
            return false;
        }
        match event.event {
            QUEUE_PAIR_ERROR => {
                if let Ok(error) = QueuePairError::read_from_bytes(event.as_bytes()) {
                    self.failed.push(error.xid.get());
                }
                false
            }
            // Its queue pairs' completions are lost, and waits for them end with their bounds.
            COMPLETION_QUEUE_ERROR => false,
            _ => true,
        }
    }

    /// The next event, if one has come. Gives its place back.
    fn next_event(&mut self) -> Option<CommandEvent> {
        let place = self.consumed as usize % EVENTS;
        let first_pass = (self.consumed as usize / EVENTS).is_multiple_of(2);
        let at = place * size_of::<CommandEvent>();
        let upper = memory::word(&self.events.entries, at + 8)?;
        if (upper & 1 == 1) != first_pass {
            return None;
        }
        // Pairs with the firmware writing the byte with the valid bit last.
        sync::fence_after_owner();
        let lower = memory::word(&self.events.entries, at)?;
        let mut bytes = [0; size_of::<CommandEvent>()];
        bytes[..8].copy_from_slice(&lower.to_le_bytes());
        bytes[8..].copy_from_slice(&upper.to_le_bytes());
        self.consumed = self.consumed.wrapping_add(1);
        let place = self.consumed as usize % EVENTS;
        let epoch = !(self.consumed as usize / EVENTS).is_multiple_of(2);
        let word = self.doorbell.to_memory(Position::new(place as u32, epoch));
        Uncached::before_store();
        // SAFETY: R1: the register was made with 8 bytes.
        unsafe { self.register.store(0, word) };
        CommandEvent::read_from_bytes(&bytes).ok()
    }
}

/// A command's C symbol, without what all of them begin with.
pub(super) fn symbol(opcode: Opcode) -> &'static str {
    let named = Opcode::SYMBOLS.iter().find(|(code, _)| *code == opcode);
    named.map_or("a command", |(_, symbol)| symbol.trim_start_matches("CMDQ_BASE_OPCODE_"))
}

fn reason(status: CommandStatus) -> &'static str {
    let named = CommandStatus::SYMBOLS.iter().find(|(code, _)| *code == status);
    named.map_or("an unknown status", |(_, symbol)| {
        symbol.trim_start_matches("CREQ_QP_EVENT_STATUS_")
    })
}

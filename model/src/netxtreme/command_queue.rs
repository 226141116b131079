//! The RoCE engine's commands: out of the command queue, and their events into its event ring.

use super::nic::Netxtreme;
use super::page_table::Table;
use super::registers::Registers;
use super::ring::ChannelRing;
use crate::fabric::Fabric;
use crate::memory::Ring;
use doorbell::bnxt::abi::command::{CommandHeader, CommandQueueInit};
use doorbell::bnxt::abi::event::{CommandEvent, CommandStatus, EventKind};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Bytes of a slot.
const SLOT: usize = 16;
/// The producer that comes with this bit is the first: the queue starts anew
/// (`FIRMWARE_FIRST_FLAG`).
const FIRST: u32 = 1 << 31;
/// What begins a command that is wrapped (`CMD_DISCR_TLV_ENCAP`).
const WRAPPED: u16 = 0x8000;
/// The most commands of one turn of the trigger: what 16 bits count.
const MOST: usize = 1 << 16;

/// The command queue.
pub(super) struct CommandQueue {
    memory: Ring,
    slots: u16,
    /// Slots read so far, modulo 2^16.
    consumer: u16,
    /// The ring that events go to.
    pub(super) events: u16,
}

/// What a command's event says.
#[derive(Default)]
pub(super) struct Finished {
    /// The object.
    pub(super) xid: u32,
    /// The last 6 bytes.
    pub(super) rest: [u8; 6],
    /// What goes to memory.
    pub(super) side: Vec<u8>,
}

/// How a command ended.
pub(super) type Outcome = Result<Finished, CommandStatus>;

impl From<u32> for Finished {
    fn from(xid: u32) -> Self {
        Finished { xid, ..Finished::default() }
    }
}

impl Netxtreme {
    /// The command queue's trigger was written.
    pub(super) fn take_commands(&mut self, now: u64, fabric: &mut dyn Fabric) {
        if !self.works() {
            return;
        }
        let Registers { command_queue, .. } = &self.registers;
        let Ok(init) = CommandQueueInit::read_from_bytes(command_queue) else { return };
        let producer = init.prod_idx.get();
        if producer & FIRST != 0 {
            self.commands = self.hand_over(&init);
        }
        for _ in 0..MOST {
            let Some(queue) = &mut self.commands else {
                return self.log.note("commands without a command queue");
            };
            let waiting = (producer as u16).wrapping_sub(queue.consumer);
            if waiting == 0 {
                return;
            }
            match queue.next(self.memory.space(), waiting) {
                Ok(bytes) => self.run_command(&bytes, now, fabric),
                Err(why) => {
                    queue.consumer = producer as u16;
                    return self.log.note(format_args!("the command queue: {why}"));
                }
            }
        }
    }

    fn hand_over(&mut self, init: &CommandQueueInit) -> Option<CommandQueue> {
        let shape = init.cmdq_size_cmdq_lvl.get();
        let (levels, slots) = ((shape & 3) as u8, shape >> 2);
        let events = init.creq_ring_id.get();
        let bytes = u64::from(slots) * SLOT as u64;
        let top = init.cmdq_pbl.get();
        let has_events = self.rings.get(&events).is_some_and(ChannelRing::is_notifications);
        if !slots.is_power_of_two() || !has_events {
            self.log.note(format_args!("a command queue of {slots} slots, events to {events:#x}"));
            return None;
        }
        let memory = match levels {
            0 => Ok(Ring::flat(top, bytes)),
            _ => Table { top, levels, log_page: 12 }.ring(self.memory.space(), bytes),
        };
        match memory {
            Ok(memory) => Some(CommandQueue { memory, slots, consumer: 0, events }),
            Err(why) => {
                self.log.note(format_args!("the command queue: {why}"));
                None
            }
        }
    }

    fn run_command(&mut self, bytes: &[u8], now: u64, fabric: &mut dyn Fabric) {
        self.counters.commands += 1;
        let Ok((header, _)) = CommandHeader::read_from_prefix(bytes) else { return };
        let outcome = self.act_on_command(&header, bytes, now, fabric);
        let mut event = CommandEvent::new_zeroed();
        event.kind = EventKind::QueuePair.code();
        event.cookie = header.cookie;
        event.event = header.opcode;
        match outcome {
            Ok(finished) => {
                event.xid = finished.xid.into();
                event.reserved48 = finished.rest;
                if let Err(why) = self.answer_beside(&header, finished.side) {
                    event.status = why.code();
                }
            }
            Err(why) => {
                self.counters.commands_refused += 1;
                self.log.note(format_args!("command {:#x} is refused: {why}", header.opcode));
                event.status = why.code();
            }
        }
        self.tell(event.as_bytes().try_into().unwrap_or_default());
    }

    /// Writes what a command answers in memory.
    fn answer_beside(
        &mut self,
        header: &CommandHeader,
        mut side: Vec<u8>,
    ) -> Result<(), CommandStatus> {
        let room = usize::from(header.resp_size) * SLOT;
        if side.is_empty() {
            return Ok(());
        }
        if room < 8 {
            return Err(CommandStatus::InvalidParameter);
        }
        let length = side.len().min(room);
        side[0] = header.opcode;
        side[2..4].copy_from_slice(header.cookie.as_bytes());
        side[6] = (length / SLOT) as u8;
        let written = self.memory.space().write(header.resp_addr.get(), &side[..length]);
        written.map_err(|fault| {
            self.log.note(format_args!("lost access: a command's answer: {fault}"));
            CommandStatus::InvalidParameter
        })
    }

    /// Writes an event of the RoCE engine.
    pub(super) fn tell(&mut self, event: [u8; 16]) {
        if let Some(ring) = self.commands.as_ref().map(|queue| queue.events) {
            self.notify(ring, event);
        }
    }
}

impl CommandQueue {
    /// The bytes of the next command, if it is one of at most `waiting` slots.
    fn next(
        &mut self,
        space: &dyn crate::memory::AddressSpace,
        waiting: u16,
    ) -> Result<Vec<u8>, String> {
        if waiting > self.slots {
            return Err(format!("{waiting} slots are announced of {}", self.slots));
        }
        let mut first = [0; SLOT];
        self.read(space, self.consumer, &mut first)?;
        let [low, high, ..] = first;
        let wrapped = u16::from_le_bytes([low, high]) == WRAPPED;
        let size = u16::from(if wrapped { first[8] } else { first[1] });
        if size == 0 || size > waiting {
            return Err(format!("a command of {size} slots where {waiting} wait"));
        }
        let mut bytes = vec![0; usize::from(size) * SLOT];
        for (slot, to) in (0..).zip(bytes.chunks_exact_mut(SLOT)) {
            self.read(space, self.consumer.wrapping_add(slot), to)?;
        }
        self.consumer = self.consumer.wrapping_add(size);
        // What is inside of a wrapped command follows in the next slot.
        Ok(if wrapped { bytes.split_off(SLOT) } else { bytes })
    }

    fn read(
        &self,
        space: &dyn crate::memory::AddressSpace,
        slot: u16,
        into: &mut [u8],
    ) -> Result<(), String> {
        let at = u64::from(slot % self.slots) * SLOT as u64;
        self.memory.read(space, at, into).map_err(|fault| format!("lost access: {fault}"))
    }
}

//! The firmware of a virtual ConnectX: what a driver asks for through the command queue, and the
//! events that it is told of.
//!
//! The commands, and the order that Linux's `mlx5_core` gives them in, are those of Linux 6.12.
//! Objects are the NIC's own ([`Connectx`]); the firmware decodes commands into contexts and
//! remembers what the NIC does not need to know. Every byte of a command comes from a guest: what
//! makes no sense is answered with a [`Status`] and written to the log.
//!
//! | file | holds |
//! |---|---|
//! | `command_queue` | commands in, answers out |
//! | `dispatch` | which command does what |
//! | `opcode`, `status` | numbers of commands, and how they end |
//! | `field`, `layout` | the structures that commands are made of |
//! | `capabilities` | what the device says it can |
//! | `event_queue` | event queues and interrupts |
//! | `page_list` | where rings and registrations lie |
//! | `key`, `completion_queue`, `queue_pair`, `shared_receive`, `ethernet` | a kind of object each |
//! | `flow` | flow tables, and the interfaces and tables of queues that they lead to |
//! | `device_memory` | the device's own memory |
//! | `device`, `port`, `register` | the device, its port, and the registers of ports |
//! | `statistics` | what the port carried, and what happened to queue pairs |
//! | `numbers` | objects that are only numbers here |
//! | `planned` | failures that a test asks for |

mod capabilities;
mod command_queue;
mod completion_queue;
mod device;
pub(crate) mod device_memory;
mod dispatch;
mod ethernet;
mod event_queue;
#[macro_use]
mod field;
mod flow;
mod key;
mod layout;
mod numbers;
mod opcode;
mod page_list;
mod planned;
mod port;
mod queue_pair;
mod register;
mod shared_receive;
mod statistics;
mod status;

pub(crate) use command_queue::{LOG_ENTRIES, LOG_ENTRY};
pub(crate) use event_queue::Doorbell;
pub use event_queue::Interrupts;
pub(super) use field::Field;
pub(super) use layout::flow::{hash_fields, headers};
pub(super) use layout::key::mkc;
/// Bytes of what groups and entries of flow tables match (`struct mlx5_ifc_fte_match_param_bits`).
pub(super) const MATCHED: usize = 512;
pub use port::Port;
pub use status::{Refusal, Status};

use super::{Capabilities, Connectx, Network, NicId, Store};
use crate::fabric::Fabric;
use crate::memory::AddressSpace;
use crate::network::Device;
use event_queue::EventQueues;
use numbers::Numbers;
use status::Done;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A virtual ConnectX as its firmware shows it. Its NIC leaves the network when it is dropped.
pub struct Firmware {
    network: Network,
    nic: NicId,
    capabilities: Capabilities,
    space: Arc<dyn AddressSpace>,
    events: EventQueues,
    port: Port,
    /// The device address of the command queue.
    queue: u64,
    numbers: Numbers,
    /// Memory keys, by their index.
    keys: BTreeMap<u32, key::Key>,
    completion_queues: BTreeMap<u32, completion_queue::Context>,
    queue_pairs: BTreeMap<u32, queue_pair::Context>,
    shared_receives: BTreeMap<u32, Vec<u8>>,
    frame_queues: BTreeMap<u32, ethernet::FrameQueue>,
    /// The transport domains of interfaces that send.
    send_interfaces: BTreeMap<u32, u32>,
    /// Device memory that is in use: where it begins in the BAR, and its bytes.
    device_memory: BTreeMap<u64, u64>,
    /// Which interface the driver speaks (SET_ISSI).
    interface: u16,
    /// The byte order that the driver chose for atomics.
    big_endian_atomics: bool,
    planned: planned::Planned,
    log: VecDeque<String>,
}

impl Firmware {
    /// The lines of the log that are kept until somebody takes them.
    const LOG_LINES: usize = 1024;

    /// A device that was just switched on, with its NIC on `network`. Device addresses lead to
    /// `space`.
    pub fn new(
        network: &Network,
        capabilities: Capabilities,
        space: Arc<dyn AddressSpace>,
        interrupts: Arc<dyn Interrupts>,
        port: Port,
    ) -> Self {
        let events = EventQueues::new(Arc::clone(&space), interrupts);
        let nic = network.add_nic(capabilities, Arc::clone(&space), Box::new(events.clone()));
        let mut firmware = Firmware {
            network: network.clone(),
            nic,
            capabilities,
            space,
            events,
            port,
            queue: 0,
            numbers: Numbers::default(),
            keys: BTreeMap::new(),
            completion_queues: BTreeMap::new(),
            queue_pairs: BTreeMap::new(),
            shared_receives: BTreeMap::new(),
            frame_queues: BTreeMap::new(),
            send_interfaces: BTreeMap::new(),
            device_memory: BTreeMap::new(),
            interface: 0,
            big_endian_atomics: false,
            planned: planned::Planned::default(),
            log: VecDeque::new(),
        };
        firmware.bind_addresses();
        firmware
    }

    /// Says where the command queue is.
    pub fn set_command_queue(&mut self, address: u64) {
        self.queue = address;
    }

    /// The command doorbell: a bit for each slot that has a command.
    pub fn ring(&mut self, slots: u32) {
        for slot in 0..1 << LOG_ENTRIES {
            if slots >> slot & 1 != 0 {
                self.run(slot);
            }
        }
    }

    fn run(&mut self, slot: u32) {
        let Some(at) = self.queue.checked_add(u64::from(slot) << LOG_ENTRY) else { return };
        let space = Arc::clone(&self.space);
        let mut command = match command_queue::fetch(&*space, at) {
            Ok(Some(command)) => command,
            Ok(None) => {
                self.note(format_args!("command slot {slot} was announced, but holds no command"));
                return;
            }
            Err(why) => {
                self.note(format_args!("command slot {slot}: {why}"));
                command_queue::give_back(&*space, at, why);
                return;
            }
        };
        // The answer to the command that makes the queue for such events is polled for.
        let told = self.events.takes_commands();
        self.catch_up();
        let mut output = std::mem::take(&mut command.output);
        self.execute(&command.input, &mut output);
        command.output = output;
        if let Err(why) = command_queue::answer(&*space, &command) {
            self.note(format_args!("the answer in command slot {slot}: {why}"));
            command_queue::give_back(&*space, at, why);
        }
        if told && self.events.takes_commands() {
            self.events.commands_done(1 << slot);
        }
    }

    /// Takes the stores that came before a command, as a bus keeps their order.
    fn catch_up(&mut self) {
        self.network.with_nic(
            self.nic,
            |nic, fabric, now| {
                while Device::take_store(nic, now, fabric) {}
            },
        );
    }

    /// The driver lets go of the device: what it left behind is gone. Event queues stay until they
    /// are destroyed, for the driver still waits for the end of this.
    fn forget_all(&mut self) {
        let left = self.network.with_nic(self.nic, |nic, _, _| nic.objects());
        if left.is_none_or(|left| left == [0; 5]) {
            return;
        }
        self.note("the driver left objects behind");
        self.network.remove_nic(self.nic);
        self.nic = self.network.add_nic(
            self.capabilities,
            Arc::clone(&self.space),
            Box::new(self.events.clone()),
        );
        self.keys.clear();
        self.completion_queues.clear();
        self.queue_pairs.clear();
        self.shared_receives.clear();
        self.frame_queues.clear();
        self.send_interfaces.clear();
        self.device_memory.clear();
        self.numbers = Numbers::default();
        self.bind_addresses();
    }

    /// A store to a doorbell of event queues.
    pub(crate) fn ring_event_queue(&self, doorbell: Doorbell, value: u32) {
        self.events.ring(doorbell, value);
    }

    /// A store to a UAR page, but for those of event queues.
    pub(crate) fn store(&self, store: Store) {
        self.network.store_and_serve(self.nic, store);
    }

    /// The NIC.
    pub fn nic(&self) -> NicId {
        self.nic
    }

    /// What went wrong since it was asked last, oldest first.
    pub fn take_log(&mut self) -> Vec<String> {
        let mut lines: Vec<String> = self.log.drain(..).collect();
        lines.extend(self.events.take_log());
        lines
    }

    pub(crate) fn note(&mut self, line: impl std::fmt::Display) {
        if self.log.len() == Self::LOG_LINES {
            self.log.pop_front();
        }
        self.log.push_back(line.to_string());
    }

    /// Calls `with` with the NIC.
    fn with_nic<R, E>(
        &self,
        with: impl FnOnce(&mut Connectx, &mut dyn Fabric, u64) -> Result<R, E>,
    ) -> Done<R>
    where
        Refusal: From<E>,
    {
        let result = self.network.with_nic(self.nic, with);
        Ok(result.ok_or_else(|| Refusal::new(Status::Internal, "the NIC is gone"))??)
    }
}

impl Drop for Firmware {
    fn drop(&mut self) {
        self.network.remove_nic(self.nic);
    }
}

/// The `length` bytes from `at` on of a command.
fn part(input: &[u8], at: usize, length: usize) -> Done<&[u8]> {
    at.checked_add(length)
        .and_then(|end| input.get(at..end))
        .ok_or_else(|| Refusal::new(Status::BadInputLength, format_args!("{} bytes", input.len())))
}

/// Writes `bytes` to `at` of an answer, as far as there is room.
fn answer(output: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in output.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

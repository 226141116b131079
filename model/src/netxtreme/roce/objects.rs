//! Identifiers, completion queues, shared receive queues, address vectors and queue pairs.

use super::{Outcome, done};
use crate::fabric::{Address, Fabric};
use crate::memory::Access;
use crate::netxtreme::completion_queue::{self, CompletionQueue};
use crate::netxtreme::context::{self, Object};
use crate::netxtreme::datagram::GENERAL_SERVICES;
use crate::netxtreme::page_table::{BadTable, Table, log_page};
use crate::netxtreme::queue_pair::{Attributes, Core, QueuePair, Receives};
use crate::netxtreme::record::Record;
use crate::netxtreme::ring::{ChannelRing, Place};
use crate::netxtreme::{Netxtreme, entry};
use crate::rc::Psn;
use doorbell::bnxt::abi::command::{
    AddGid, CreateAddressHandle, CreateCompletionQueue, CreateQueuePair, CreateSharedReceiveQueue,
    DeleteGid, DestroyAddressHandle, DestroyCompletionQueue, DestroyQueuePair,
    DestroySharedReceiveQueue, ModifyGid, ResizeCompletionQueue,
};
use doorbell::bnxt::abi::doorbell::DoorbellFields;
use doorbell::bnxt::abi::event::CommandStatus;
use doorbell::bnxt::abi::field::{NetworkKind, QueuePairKind, QueuePairState};
use doorbell::bnxt::abi::notification::{NotificationKind, SharedReceiveNotification};
use doorbell::bnxt::abi::wqe::SLOT_BYTES;
use std::collections::VecDeque;
use zerocopy::{FromZeros, IntoBytes};

use super::super::command_queue::Finished;

/// Global identifiers.
pub(super) const MOST_GIDS: u16 = 256;
/// Slots of a send ring.
pub(super) const MOST_SEND_SLOTS: u32 = 1 << 16;
/// Entries of a receive ring.
pub(super) const MOST_RECEIVES: u32 = 1 << 16;
/// Pieces of a receive of a shared queue, and the bytes that each of its receives has for them.
pub(super) const SHARED_PIECES: u8 = 6;
const SHARED_STRIDE: u32 = 32 + 16 * SHARED_PIECES as u32;
/// Rings of notifications have 12 bits in commands.
const RING: u32 = 0xfff;
/// Queue pairs have 16 bits where stock drivers keep them in a table.
const MOST_PAIR_NUMBER: u32 = 0xffff;

/// A global identifier.
#[derive(Clone, Copy, Debug)]
pub(in crate::netxtreme) struct Gid {
    pub(in crate::netxtreme) gid: [u8; 16],
    pub(super) mac: [u8; 6],
    pub(super) vlan: u16,
}

/// Where datagrams go.
#[derive(Clone, Copy, Debug)]
pub(in crate::netxtreme) struct Vector {
    pub(in crate::netxtreme) domain: u32,
    pub(in crate::netxtreme) gid: [u8; 16],
    pub(in crate::netxtreme) mac: [u8; 6],
    pub(in crate::netxtreme) gid_index: u16,
    pub(in crate::netxtreme) network: NetworkKind,
    pub(in crate::netxtreme) hop_limit: u8,
    pub(in crate::netxtreme) traffic_class: u8,
    pub(in crate::netxtreme) flow_label: u32,
}

/// A queue of receives that queue pairs share.
pub(in crate::netxtreme) struct SharedReceives {
    pub(in crate::netxtreme) receives: Receives,
    domain: u32,
    page: u32,
    handle: u64,
    ring: u16,
    toggle: u8,
    enabled: bool,
    /// Fewer receives than this raise an event, once.
    limit: Option<u32>,
    users: u32,
}

impl SharedReceives {
    /// Whether there are fewer receives than the limit asks for.
    pub(in crate::netxtreme) fn runs_low(&self) -> bool {
        self.enabled && self.limit.is_some_and(|limit| self.receives.posted() < limit)
    }

    /// The limit that is armed, or 0.
    pub(super) fn limit(&self) -> u32 {
        self.limit.unwrap_or(0)
    }
}

impl Netxtreme {
    fn bad_table(&mut self, what: &str, why: BadTable) -> CommandStatus {
        self.log.note(format_args!("{what}: {why}"));
        CommandStatus::InvalidParameter
    }

    /// A number below `most` that `taken` does not have, from the last one on.
    fn free_number(
        &mut self,
        most: u32,
        taken: impl Fn(&Self, u32) -> bool,
    ) -> Result<u32, CommandStatus> {
        for _ in 0..most {
            let number = self.next_number % most;
            self.next_number = number + 1;
            if !taken(self, number) {
                return Ok(number);
            }
        }
        Err(CommandStatus::Resources)
    }

    /// Puts an object's context into the backing store.
    fn put_context(&mut self, object: Object) -> Result<(), CommandStatus> {
        if self.contexts.put(object, self.memory.space()) {
            return Ok(());
        }
        self.counters.lost_contexts += 1;
        self.log.note(format_args!("no memory was lent for {object:?}"));
        Err(CommandStatus::Resources)
    }

    /// An object is about to go: its context has to be there still.
    fn take_context(&mut self, object: Object) {
        if !self.contexts.has(object, self.memory.space()) {
            self.counters.lost_contexts += 1;
            self.log.note(format_args!("{object:?} is not in the backing store any more"));
        }
        self.contexts.remove(object, self.memory.space());
    }

    pub(super) fn add_gid(&mut self, command: &AddGid, fabric: &mut dyn Fabric) -> Outcome {
        let free = (0..MOST_GIDS).find(|index| !self.engine.gids.contains_key(index));
        let index = free.ok_or(CommandStatus::Resources)?;
        let gid = command.gid.get();
        let entry = Gid { gid, mac: command.src_mac.get(), vlan: command.vlan.get() };
        self.engine.gids.insert(index, entry);
        fabric.bind(self.port, Address::Gid(gid));
        Ok(u32::from(index).into())
    }

    pub(super) fn modify_gid(&mut self, command: &ModifyGid, fabric: &mut dyn Fabric) -> Outcome {
        let index = command.gid_index.get();
        let old = self.engine.gids.get(&index).ok_or(CommandStatus::InvalidParameter)?.gid;
        let gid = command.gid.get();
        let entry = Gid { gid, mac: command.src_mac.get(), vlan: command.vlan.get() };
        self.engine.gids.insert(index, entry);
        self.unbind(old, fabric);
        fabric.bind(self.port, Address::Gid(gid));
        Ok(u32::from(index).into())
    }

    pub(super) fn delete_gid(&mut self, command: &DeleteGid, fabric: &mut dyn Fabric) -> Outcome {
        let removed = self.engine.gids.remove(&command.gid_index.get());
        let gid = removed.ok_or(CommandStatus::InvalidParameter)?.gid;
        self.unbind(gid, fabric);
        done()
    }

    /// The port does not have `gid` any more, unless another entry of the table has it, too.
    fn unbind(&self, gid: [u8; 16], fabric: &mut dyn Fabric) {
        if !self.engine.gids.values().any(|other| other.gid == gid) {
            fabric.unbind(self.port, Address::Gid(gid));
        }
    }

    fn notification_ring(&self, number: u32) -> Result<u16, CommandStatus> {
        let number = (number & RING) as u16;
        match self.rings.get(&number).is_some_and(ChannelRing::is_notifications) {
            true => Ok(number),
            false => Err(CommandStatus::InvalidParameter),
        }
    }

    pub(super) fn create_completion_queue(&mut self, command: &CreateCompletionQueue) -> Outcome {
        let entries = command.cq_size.get();
        if entries == 0 || entries > self.identity.bounds.completions + 1 {
            return Err(CommandStatus::InvalidParameter);
        }
        let ring = self.notification_ring(command.cq_fco_cnq_id.get())?;
        let shape = command.pg_size_lvl;
        let bytes = u64::from(entries) * completion_queue::ENTRY as u64;
        let memory =
            self.queue_memory(command.pbl.get(), shape.levels(), shape.page_size(), bytes)?;
        let most = self.contexts.completion_queues();
        let number =
            self.free_number(most, |nic, number| nic.engine.queues.contains_key(&number))?;
        self.put_context(context::completion_queue(number))?;
        let (handle, page) = (command.cq_handle.get(), command.dpi.get());
        let queue = CompletionQueue::new(memory, entries, handle, ring, page);
        self.engine.queues.insert(number, queue);
        Ok(number.into())
    }

    /// The memory of a ring of `bytes` bytes.
    fn queue_memory(
        &mut self,
        top: u64,
        levels: u8,
        page: u8,
        bytes: u64,
    ) -> Result<crate::memory::Ring, CommandStatus> {
        let table = log_page(page).map(|log_page| Table { top, levels, log_page });
        let ring = table.and_then(|table| table.ring(self.memory.space(), bytes));
        ring.map_err(|why| self.bad_table("a ring", why))
    }

    pub(super) fn destroy_completion_queue(&mut self, command: &DestroyCompletionQueue) -> Outcome {
        let number = command.cq_cid.get();
        let queue = self.engine.queues.get(&number).ok_or(CommandStatus::InvalidParameter)?;
        if queue.users > 0 {
            return Err(CommandStatus::Failed);
        }
        let notifications = queue.notifications;
        self.take_context(context::completion_queue(number));
        self.engine.queues.remove(&number);
        let [low, high] = notifications.to_le_bytes();
        Ok(Finished { xid: number, rest: [0, 0, low, high, 0, 0], side: Vec::new() })
    }

    pub(super) fn resize_completion_queue(&mut self, command: &ResizeCompletionQueue) -> Outcome {
        let number = command.cq_cid.get();
        let shape = command.new_cq_size_pg_size_lvl.get();
        let (levels, page, entries) = ((shape & 3) as u8, (shape >> 2 & 7) as u8, shape >> 5);
        if entries == 0 || entries > self.identity.bounds.completions + 1 {
            return Err(CommandStatus::InvalidParameter);
        }
        let bytes = u64::from(entries) * completion_queue::ENTRY as u64;
        let memory = self.queue_memory(command.new_pbl.get(), levels, page, bytes)?;
        let queue = self.engine.queues.get_mut(&number).ok_or(CommandStatus::InvalidParameter)?;
        let space = self.memory.space();
        match queue.resize(space, memory, entries, &mut self.counters, &mut self.log) {
            true => Ok(number.into()),
            false => Err(CommandStatus::Failed),
        }
    }

    pub(super) fn create_shared_receives(&mut self, command: &CreateSharedReceiveQueue) -> Outcome {
        let entries = u32::from(command.srq_size.get());
        if entries == 0 {
            return Err(CommandStatus::InvalidParameter);
        }
        let ring = self.notification_ring(command.eventq_id.get().into())?;
        let shape = command.pg_size_lvl.get();
        let (levels, page) = ((shape & 3) as u8, (shape >> 2 & 7) as u8);
        let bytes = u64::from(entries) * u64::from(SHARED_STRIDE);
        let memory = self.queue_memory(command.pbl.get(), levels, page, bytes)?;
        let most = self.contexts.shared_receive_queues();
        let number =
            self.free_number(most, |nic, number| nic.engine.shared.contains_key(&number))?;
        self.put_context(context::shared_receive_queue(number))?;
        let shared = SharedReceives {
            receives: receives(memory, entries, SHARED_STRIDE, self.record.clone()),
            domain: command.pd_id.get(),
            page: command.dpi.get(),
            handle: command.srq_handle.get(),
            ring,
            toggle: 0,
            enabled: false,
            limit: None,
            users: 0,
        };
        self.engine.shared.insert(number, shared);
        Ok(number.into())
    }

    pub(super) fn destroy_shared_receives(
        &mut self,
        command: &DestroySharedReceiveQueue,
    ) -> Outcome {
        let number = command.srq_cid.get();
        let shared = self.engine.shared.get(&number).ok_or(CommandStatus::InvalidParameter)?;
        if shared.users > 0 {
            return Err(CommandStatus::Failed);
        }
        self.take_context(context::shared_receive_queue(number));
        self.engine.shared.remove(&number);
        done()
    }

    /// Receives were posted to a shared queue.
    pub(in crate::netxtreme) fn ring_shared_receives(
        &mut self,
        page: u32,
        doorbell: DoorbellFields,
    ) -> bool {
        let number = doorbell.xid();
        let Some(shared) = self.engine.shared.get_mut(&number) else { return false };
        if page != shared.page && page != 0 {
            return false;
        }
        if !shared.receives.moved(doorbell) {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!("shared receive queue {number:#x}: {doorbell:?}"));
        }
        true
    }

    /// A shared queue is to raise an event when it runs low.
    pub(in crate::netxtreme) fn arm_shared_receives(
        &mut self,
        page: u32,
        doorbell: DoorbellFields,
    ) -> bool {
        let number = doorbell.xid();
        let Some(shared) = self.engine.shared.get_mut(&number) else { return false };
        if page != shared.page && page != 0 {
            return false;
        }
        shared.limit = Some(doorbell.index());
        if shared.runs_low() {
            self.announce_shared_receives(number);
        }
        true
    }

    pub(in crate::netxtreme) fn enable_shared_receives(
        &mut self,
        doorbell: DoorbellFields,
    ) -> bool {
        let number = doorbell.xid();
        let Some(shared) = self.engine.shared.get_mut(&number) else { return false };
        shared.enabled = true;
        if shared.runs_low() {
            self.announce_shared_receives(number);
        }
        true
    }

    /// Tells that a shared queue runs low.
    pub(in crate::netxtreme) fn announce_shared_receives(&mut self, number: u32) {
        const LIMIT_REACHED: u8 = 1;
        let Some(shared) = self.engine.shared.get_mut(&number) else { return };
        if shared.limit.take().is_none() {
            return;
        }
        shared.enabled = false;
        shared.toggle = (shared.toggle + 1) & 3;
        let entry = SharedReceiveNotification {
            kind: NotificationKind::SharedReceive.code() | shared.toggle << 6,
            event: LIMIT_REACHED,
            srq_handle_low: (shared.handle as u32).into(),
            srq_handle_high: ((shared.handle >> 32) as u32).into(),
            ..SharedReceiveNotification::new_zeroed()
        };
        let ring = shared.ring;
        self.notify(ring, entry.as_bytes().try_into().unwrap_or_default());
    }

    pub(super) fn create_vector(&mut self, command: &CreateAddressHandle) -> Outcome {
        let network =
            NetworkKind::from_code(command.kind).ok_or(CommandStatus::InvalidParameter)?;
        let gid_index = command.sgid_index.get();
        if !self.engine.gids.contains_key(&gid_index) {
            return Err(CommandStatus::InvalidParameter);
        }
        let (_, most) = self.contexts.keys_and_vectors();
        let number =
            self.free_number(most, |nic, number| nic.engine.vectors.contains_key(&number))?;
        let vector = Vector {
            domain: command.pd_id.get(),
            gid: command.dgid,
            mac: command.dest_mac,
            gid_index,
            network,
            hop_limit: command.hop_limit,
            traffic_class: command.traffic_class,
            flow_label: command.dest_vlan_id_flow_label.get() & 0xf_ffff,
        };
        self.engine.vectors.insert(number, vector);
        Ok(number.into())
    }

    pub(super) fn destroy_vector(&mut self, command: &DestroyAddressHandle) -> Outcome {
        match self.engine.vectors.remove(&command.ah_cid.get()) {
            Some(_) => done(),
            None => Err(CommandStatus::InvalidParameter),
        }
    }

    pub(super) fn create_queue_pair(&mut self, command: &CreateQueuePair) -> Outcome {
        let bad = CommandStatus::InvalidParameter;
        let kind = QueuePairKind::from_code(command.kind).ok_or(bad)?;
        let flags = command.qp_flags;
        let slots = command.sq_size.get();
        if kind == QueuePairKind::RawEthernet || !flags.variable_sized_wqe_enabled() {
            return Err(CommandStatus::NotImplemented);
        }
        if slots == 0 || slots > MOST_SEND_SLOTS {
            return Err(bad);
        }
        let (send_queue, receive_queue) = (command.scq_cid.get(), command.rcq_cid.get());
        let queues = &self.engine.queues;
        if !queues.contains_key(&send_queue) || !queues.contains_key(&receive_queue) {
            return Err(bad);
        }
        let domain = command.pd_id.get();
        let shared = flags.srq_used().then(|| command.srq_cid.get());
        if let Some(number) = shared {
            let known = self.engine.shared.get(&number).ok_or(bad)?;
            if known.domain != domain {
                return Err(bad);
            }
        }
        let shape = command.sq_pg_size_sq_lvl;
        let table = match kind {
            QueuePairKind::ReliableConnected => u64::from(slots.next_power_of_two() / 2) * 8,
            _ => 0,
        };
        let bytes = u64::from(slots) * SLOT_BYTES as u64 + table;
        let sends =
            self.queue_memory(command.sq_pbl.get(), shape.levels(), shape.page_size(), bytes)?;
        let own_receives = match (shared, command.rq_size.get()) {
            (Some(_), _) | (None, 0) => None,
            (None, entries) if entries > MOST_RECEIVES => return Err(bad),
            (None, entries) => {
                let pieces = u32::from(command.rq_fwo_rq_sge.get() & 0xf).max(1);
                if pieces as usize > entry::MOST_PIECES {
                    return Err(bad);
                }
                let stride = 32 + 16 * pieces;
                let shape = command.rq_pg_size_rq_lvl;
                let bytes = u64::from(entries) * u64::from(stride);
                let (top, levels) = (command.rq_pbl.get(), shape.levels());
                let memory = self.queue_memory(top, levels, shape.page_size(), bytes)?;
                Some(receives(memory, entries, stride, self.record.clone()))
            }
        };
        if kind == QueuePairKind::ReliableConnected {
            // The tables of reads are there.
            for table in [command.irrq_addr.get(), command.orrq_addr.get()] {
                if let Err(fault) = self.memory.space().probe(table, 64) {
                    return Err(self.bad_table("a table of reads", fault.into()));
                }
            }
        }
        let number = match kind {
            QueuePairKind::GeneralServices => GENERAL_SERVICES,
            _ => {
                let most = self.contexts.queue_pairs().min(MOST_PAIR_NUMBER);
                self.free_number(most, |nic, number| {
                    number <= GENERAL_SERVICES || nic.engine.pairs.contains_key(&number)
                })?
            }
        };
        if self.engine.pairs.contains_key(&number) {
            return Err(CommandStatus::Failed);
        }
        self.put_context(context::queue_pair(number))?;
        let all_of_memory = match flags.reserved_lkey_enable() {
            true => Some(self.use_all_of_memory(domain)?),
            false => None,
        };
        for queue in [send_queue, receive_queue] {
            if let Some(queue) = self.engine.queues.get_mut(&queue) {
                queue.users += 1;
            }
        }
        if let Some(shared) = shared.and_then(|number| self.engine.shared.get_mut(&number)) {
            shared.users += 1;
        }
        let core = Core {
            number,
            kind,
            handle: command.qp_handle.get(),
            domain,
            page: command.dpi.get(),
            send_queue,
            receive_queue,
            all_of_memory,
            complete_all: flags.force_completion(),
            sends,
            slots,
            own: Place::default(),
            driver: Place::default(),
            receives: own_receives,
            shared,
            state: QueuePairState::Reset,
            access: Access::default(),
            path: None,
            attributes: Attributes::default(),
            in_flight: VecDeque::new(),
            done: 0,
            untold: false,
            message: 0,
            psn: Psn::new(0),
            lost_completion: false,
            failed: false,
            record: self.record.clone(),
        };
        self.engine.pairs.insert(number, QueuePair { connection: None, core });
        Ok(number.into())
    }

    pub(super) fn destroy_queue_pair(
        &mut self,
        command: &DestroyQueuePair,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> Outcome {
        let number = command.qp_cid.get();
        self.answer(number, now, fabric);
        let pair = self.engine.pairs.remove(&number).ok_or(CommandStatus::InvalidParameter)?;
        fabric.settle(self.port);
        self.schedule.forget(number);
        self.take_context(context::queue_pair(number));
        let core = pair.core;
        for queue in [core.send_queue, core.receive_queue] {
            if let Some(queue) = self.engine.queues.get_mut(&queue) {
                queue.users -= 1;
            }
        }
        if let Some(shared) = core.shared.and_then(|number| self.engine.shared.get_mut(&number)) {
            shared.users -= 1;
        }
        if core.all_of_memory.is_some() {
            self.leave_all_of_memory(core.domain);
        }
        Ok(number.into())
    }

    /// Requests were posted.
    pub(in crate::netxtreme) fn ring_sends(
        &mut self,
        page: u32,
        doorbell: DoorbellFields,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> bool {
        let number = doorbell.xid();
        let Some(pair) = self.engine.pairs.get_mut(&number) else { return false };
        let core = &mut pair.core;
        if page != core.page && page != 0 {
            return false;
        }
        let place = Place::of(doorbell, core.slots)
            .filter(|place| place.since(core.own, core.slots).is_some());
        let Some(place) = place else {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "queue pair {number:#x}: {doorbell:?} is not a place that its send ring can be at"
            ));
            return true;
        };
        core.driver = place;
        if core.state == QueuePairState::Error {
            core.own = place;
            return true;
        }
        if self.has_context(number, now, fabric) {
            self.schedule.make_ready(number);
        }
        true
    }

    /// Receives were posted.
    pub(in crate::netxtreme) fn ring_receives(
        &mut self,
        page: u32,
        doorbell: DoorbellFields,
    ) -> bool {
        let number = doorbell.xid();
        let Some(pair) = self.engine.pairs.get_mut(&number) else { return false };
        let core = &mut pair.core;
        if page != core.page && page != 0 {
            return false;
        }
        let Some(receives) = &mut core.receives else { return false };
        if !receives.moved(doorbell) {
            self.counters.dropped_doorbells += 1;
            self.log.note(format_args!(
                "queue pair {number:#x}: {doorbell:?} is not a place that its receive ring can be at"
            ));
        } else if core.state == QueuePairState::Error {
            receives.own = receives.driver;
        }
        true
    }
}

fn receives(
    memory: crate::memory::Ring,
    entries: u32,
    stride: u32,
    record: Option<Record>,
) -> Receives {
    let (own, driver) = (Place::default(), Place::default());
    Receives { memory, entries, stride, own, driver, record }
}

impl Receives {
    /// The driver has posted up to where a doorbell says. Answers whether that can be.
    fn moved(&mut self, doorbell: DoorbellFields) -> bool {
        let place = Place::of(doorbell, self.entries)
            .filter(|place| place.since(self.own, self.entries).is_some());
        if let Some(place) = place {
            self.driver = place;
        }
        place.is_some()
    }
}

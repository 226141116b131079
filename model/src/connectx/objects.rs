//! Objects, made, changed and destroyed: UAR pages, protection domains, memory keys, completion queues
//! and queue pairs. One that others stand on stays until they are gone.

use super::completion_queue::CompletionQueue;
use super::nic::{Connectx, Uar};
use super::queue_pair::QueuePair;
use super::registration::Changeable;
use super::{
    CompletionQueueContext, QueuePairAttributes, QueuePairContext, Refused, Ring, State, Transition,
};
use crate::fabric::Fabric;
use crate::memory::Registration;

/// The first UAR page: pages below hold other registers.
const FIRST_UAR: u32 = 0x100;

impl Connectx {
    /// Hands out a UAR page.
    pub fn allocate_uar(&mut self) -> Result<u32, Refused> {
        self.alive()?;
        let limit = self.capabilities.max_uars;
        let number = self.uar_numbers.take(limit.saturating_sub(FIRST_UAR));
        let number = number.ok_or(Refused::Limit { what: "UAR page", limit: limit.into() })?;
        self.uars.insert(FIRST_UAR + number, Uar::default());
        Ok(FIRST_UAR + number)
    }

    /// Takes a UAR page back. One that objects still use goes back with the last of them.
    pub fn free_uar(&mut self, page: u32) -> Result<(), Refused> {
        match self.uars.get_mut(&page) {
            Some(uar) if !uar.given_back => uar.given_back = true,
            Some(_) | None => return Err(Refused::Unknown { what: "UAR page", number: page }),
        }
        self.sweep_uar(page);
        Ok(())
    }

    /// An object uses a UAR page.
    fn use_uar(&mut self, page: u32) {
        if let Some(uar) = self.uars.get_mut(&page) {
            uar.users += 1;
        }
    }

    /// An object that used a UAR page is gone.
    fn leave_uar(&mut self, page: u32) {
        if let Some(uar) = self.uars.get_mut(&page) {
            uar.users -= 1;
        }
        self.sweep_uar(page);
    }

    /// Forgets a UAR page that was given back and that nothing uses.
    fn sweep_uar(&mut self, page: u32) {
        if matches!(self.uars.get(&page), Some(Uar { users: 0, given_back: true })) {
            self.uars.remove(&page);
            self.uar_numbers.give_back(page - FIRST_UAR);
            self.watched.remove(&page);
        }
    }

    pub(super) fn has_uar(&self, page: u32) -> bool {
        self.uars.get(&page).is_some_and(|uar| !uar.given_back)
    }

    /// Makes a protection domain.
    pub fn create_domain(&mut self) -> Result<u32, Refused> {
        self.alive()?;
        let log = self.capabilities.log_max_protection_domains;
        let number = self.number(log, "protection domain", self.domains.len())?;
        self.domains.insert(number, 0);
        Ok(number)
    }

    /// Destroys a protection domain.
    pub fn destroy_domain(&mut self, number: u32) -> Result<(), Refused> {
        match self.domains.get(&number) {
            None => Err(Refused::Unknown { what: "protection domain", number }),
            Some(0) => {
                self.domains.remove(&number);
                Ok(())
            }
            Some(_) => Err(Refused::Busy { what: "protection domain", number }),
        }
    }

    /// How many objects are of a protection domain. Domain 0 is the NIC's own, for queue pairs that
    /// touch no memory by key.
    pub(super) fn domain_users(&mut self, number: u32) -> Result<&mut u32, Refused> {
        if number == 0 {
            return Ok(&mut self.own_domain);
        }
        let unknown = Refused::Unknown { what: "protection domain", number };
        self.domains.get_mut(&number).ok_or(unknown)
    }

    /// Makes a memory key, with `variant` as its low byte if that is given.
    pub fn create_key(
        &mut self,
        registration: Registration,
        variant: Option<u8>,
    ) -> Result<u32, Refused> {
        self.alive()?;
        let domain = registration.protection_domain;
        self.domain_users(domain)?;
        let key = self
            .memory
            .keys
            .insert(registration, variant)
            .map_err(|full| Refused::Limit { what: "memory key", limit: full.capacity.into() })?;
        *self.domain_users(domain)? += 1;
        Ok(key)
    }

    /// Lets work entries change a key; `free` says that it is not to be used before one did.
    pub fn make_changeable(&mut self, key: u32, form: Changeable, free: bool) {
        self.changeable.insert(key >> 8, form);
        self.memory.keys.rewrite(key >> 8, key as u8, !free, |_| ());
    }

    /// The key that has an index now: entries may have changed its low byte.
    pub fn key_at(&self, index: u32) -> Option<u32> {
        self.memory.keys.at_index(index).map(|(key, ..)| key)
    }

    /// Takes a memory key away. Nothing touches its memory after this.
    pub fn destroy_key(&mut self, key: u32, fabric: &mut dyn Fabric) -> Result<(), Refused> {
        fabric.settle(self.port);
        self.changeable.remove(&(key >> 8));
        let unknown = Refused::Unknown { what: "memory key", number: key };
        let registration = self.memory.keys.remove(key).ok_or(unknown)?;
        *self.domain_users(registration.protection_domain)? -= 1;
        Ok(())
    }

    /// Makes a completion queue.
    pub fn create_completion_queue(
        &mut self,
        context: CompletionQueueContext,
    ) -> Result<u32, Refused> {
        self.alive()?;
        let parameter = |what, value| Err(Refused::Parameter { what, value });
        if context.log_size > self.capabilities.log_max_completion_ring {
            return parameter("log of a completion ring", context.log_size.into());
        }
        if !matches!(context.entry_bytes, 64 | 128) {
            return parameter("size of a completion", context.entry_bytes.into());
        }
        if context.ring.len() < u64::from(context.entry_bytes) << context.log_size {
            return parameter("length of a completion ring", context.ring.len());
        }
        if !context.record.is_multiple_of(8) {
            return parameter("address of a doorbell record", context.record);
        }
        if !self.has_uar(context.uar) {
            return Err(Refused::Unknown { what: "UAR page", number: context.uar });
        }
        let log = self.capabilities.log_max_completion_queues;
        let number = self.number(log, "completion queue", self.queues.len())?;
        let queue = CompletionQueue::new(context);
        if self.watched.contains(&queue.context.uar) {
            queue.mark_arm(self.memory.space());
        }
        self.use_uar(queue.context.uar);
        self.queues.insert(number, queue);
        Ok(number)
    }

    /// Destroys a completion queue. Nothing is written to its ring after this.
    pub fn destroy_completion_queue(&mut self, number: u32) -> Result<(), Refused> {
        match self.queues.get(&number) {
            None => Err(Refused::Unknown { what: "completion queue", number }),
            Some(queue) if queue.users > 0 => {
                Err(Refused::Busy { what: "completion queue", number })
            }
            Some(queue) => {
                let page = queue.context.uar;
                self.queues.remove(&number);
                self.leave_uar(page);
                Ok(())
            }
        }
    }

    /// Gives a completion queue another ring.
    pub fn resize_completion_queue(
        &mut self,
        number: u32,
        ring: Ring,
        log_size: u8,
    ) -> Result<(), Refused> {
        self.alive()?;
        let unknown = Refused::Unknown { what: "completion queue", number };
        let queue = self.queues.get_mut(&number).ok_or(unknown)?;
        let parameter = |what, value| Err(Refused::Parameter { what, value });
        if log_size > self.capabilities.log_max_completion_ring {
            return parameter("log of a completion ring", log_size.into());
        }
        if ring.len() < u64::from(queue.context.entry_bytes) << log_size {
            return parameter("length of a completion ring", ring.len());
        }
        queue.resize(self.memory.space(), ring, log_size)
    }

    /// Completions written to a completion queue, modulo 2^32, and whether it failed.
    pub fn completion_queue(&self, number: u32) -> Option<(u32, bool)> {
        self.queues.get(&number).map(|queue| (queue.producer(), queue.is_failed()))
    }

    /// Makes a queue pair, in Reset.
    pub fn create_queue_pair(&mut self, context: QueuePairContext) -> Result<u32, Refused> {
        self.alive()?;
        self.check(&context)?;
        let log = self.capabilities.log_max_queue_pairs;
        let number = self.number(log, "queue pair", self.pairs.len())?;
        *self.domain_users(context.protection_domain)? += 1;
        for queue in [context.send_queue, context.receive_queue] {
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.users += 1;
            }
        }
        if let Some(shared) =
            context.shared_receives.and_then(|number| self.shared.get_mut(&number))
        {
            shared.users += 1;
        }
        // Who sends nothing rings no doorbell.
        if context.send_ring.is_some() {
            self.use_uar(context.uar);
        }
        self.pairs.insert(number, QueuePair::new(number, context));
        Ok(number)
    }

    fn check(&mut self, context: &QueuePairContext) -> Result<(), Refused> {
        let parameter = |what, value| Err(Refused::Parameter { what, value });
        let capabilities = self.capabilities;
        self.domain_users(context.protection_domain)?;
        for number in [context.send_queue, context.receive_queue] {
            if !self.queues.contains_key(&number) {
                return Err(Refused::Unknown { what: "completion queue", number });
            }
        }
        if let Some(number) = context.shared_receives
            && !self.shared.contains_key(&number)
        {
            return Err(Refused::Unknown { what: "shared receive queue", number });
        }
        // Who sends nothing rings no doorbell.
        if context.send_ring.is_some() && !self.has_uar(context.uar) {
            return Err(Refused::Unknown { what: "UAR page", number: context.uar });
        }
        for log in [context.log_send_slots, context.log_receive_entries] {
            if log > capabilities.log_max_ring {
                return parameter("log of a ring", log.into());
            }
        }
        let stride = context.log_receive_stride;
        if context.receive_ring.is_some()
            && (stride < 4
                || 1u64
                    .checked_shl(stride.into())
                    .is_none_or(|bytes| bytes > capabilities.max_receive_entry.into()))
        {
            return parameter("log of a receive entry", stride.into());
        }
        if let Some(ring) = &context.send_ring
            && ring.len() < 64 << context.log_send_slots
        {
            return parameter("length of a send ring", ring.len());
        }
        if let Some(ring) = &context.receive_ring
            && ring.len() < 1 << (context.log_receive_entries + stride)
        {
            return parameter("length of a receive ring", ring.len());
        }
        if !context.record.is_multiple_of(8) {
            return parameter("address of a doorbell record", context.record);
        }
        if context.user_index > 0xff_ffff {
            return parameter("user index", context.user_index.into());
        }
        Ok(())
    }

    /// Changes a queue pair's state or attributes.
    pub fn modify_queue_pair(
        &mut self,
        number: u32,
        transition: Transition,
        attributes: &QueuePairAttributes,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> Result<(), Refused> {
        self.alive()?;
        let unknown = Refused::Unknown { what: "queue pair", number };
        let pair = self.pairs.get_mut(&number).ok_or(unknown)?;
        match transition {
            Transition::ToReset => {
                fabric.settle(self.port);
                pair.reset();
                self.schedule.forget(number);
            }
            Transition::ToError => self.fail_pair(number, now, fabric),
            _ => {
                pair.change(transition, attributes)?;
                if let Some(connection) = &mut pair.connection {
                    connection.set_longest_run(fabric.longest_run());
                    if let Some(most) = fabric.most_outstanding() {
                        connection.limit_window(most);
                    }
                }
                self.schedule.make_ready(number);
            }
        }
        Ok(())
    }

    /// A queue pair's state.
    pub fn queue_pair_state(&self, number: u32) -> Option<State> {
        self.pairs.get(&number).map(|pair| pair.core.state)
    }

    /// The bytes of the entry in slot `index` of a queue pair's send ring, as the NIC would fetch
    /// them.
    pub fn send_entry(&self, number: u32, index: u16) -> Option<Vec<u8>> {
        self.pairs.get(&number)?.core.send_entry(self.memory.space(), index)
    }

    /// Destroys a queue pair. Its rings are not touched after this.
    pub fn destroy_queue_pair(
        &mut self,
        number: u32,
        now: u64,
        fabric: &mut dyn Fabric,
    ) -> Result<(), Refused> {
        let unknown = Refused::Unknown { what: "queue pair", number };
        self.answer(number, now, fabric);
        let pair = self.pairs.remove(&number).ok_or(unknown)?;
        fabric.settle(self.port);
        self.schedule.forget(number);
        self.leave_groups(number);
        let context = pair.core.context;
        *self.domain_users(context.protection_domain)? -= 1;
        for queue in [context.send_queue, context.receive_queue] {
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.users -= 1;
            }
        }
        if let Some(shared) =
            context.shared_receives.and_then(|number| self.shared.get_mut(&number))
        {
            shared.users -= 1;
        }
        if context.send_ring.is_some() {
            self.leave_uar(context.uar);
        }
        Ok(())
    }
}

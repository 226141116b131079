//! What stores to the registers do: send doorbells, arms, and pages that are memory.

use super::nic::Connectx;
use super::queue_pair::QueuePair;
use super::{Refused, State, send};
use crate::fabric::Fabric;
use crate::network::Store;
use doorbell::mlx5::abi::doorbell::ArmDoorbell;
use doorbell::mlx5::abi::uar;

impl Connectx {
    /// Does what a store asks for.
    pub(super) fn act_on(&mut self, store: &Store, now: u64, fabric: &mut dyn Fabric) {
        let (page, offset) = match *store {
            Store::Word { page, offset, .. } | Store::Slot { page, offset, .. } => (page, offset),
        };
        match *store {
            Store::Word { value, .. } if offset as usize == uar::CQ_ARM_OFFSET => {
                self.arm(page, ArmDoorbell::from_memory(value));
            }
            _ if offset as usize >= uar::SEND_OFFSET => {
                self.send_doorbell(page, store, now, fabric)
            }
            _ => self.stray(format_args!("a store at {offset:#x} of UAR page {page:#x}")),
        }
    }

    fn stray(&mut self, what: impl std::fmt::Display) {
        self.counters.stray_doorbells += 1;
        self.log.note(format_args!("{what}: nothing listens there"));
    }

    fn arm(&mut self, page: u32, doorbell: ArmDoorbell) {
        let number = doorbell.cqn.number().get();
        match self.queues.get_mut(&number) {
            Some(queue) if queue.context.uar == page => {
                self.counters.arm_doorbells += 1;
                if queue.record_is_behind(self.memory.space(), doorbell.arm) {
                    self.counters.record_behind_register += 1;
                    self.log.note(format_args!(
                        "completion queue {number:#x}: armed through the register, not the record"
                    ));
                }
                if queue.arm(doorbell.arm) {
                    self.counters.completion_events += 1;
                    self.events.completion(number);
                }
            }
            _ => self.stray(format_args!("arming {number:#x} through UAR page {page:#x}")),
        }
    }

    fn send_doorbell(&mut self, page: u32, store: &Store, now: u64, fabric: &mut dyn Fabric) {
        // A copy of several slots: those after the first carry no queue pair number.
        if let Store::Slot { offset, slot, .. } = store
            && let Some(number) = self.copying.remove(&(page, *offset))
            && let Some(pair) = self.pairs.get_mut(&number)
            && let Some(next) = pair.core.continue_blue_flame(*offset, slot, &mut self.counters)
        {
            if let Some(next) = next {
                self.copying.insert((page, next), number);
            }
            return;
        }
        let Some((number, control)) = send::doorbell_of(store) else {
            return self.stray(format_args!("{store:?}"));
        };
        if self.ring_frames(number, store, now, fabric) {
            return;
        }
        let listens = self.pairs.get(&number).is_some_and(|pair| pair.core.context.uar == page);
        if !listens {
            return self.stray(format_args!("queue pair {number:#x}, UAR page {page:#x}"));
        }
        let next = self.attend(number, now, fabric, |parts| {
            let host = &mut *parts.host;
            let space = host.memory.space();
            host.core.ring(store, &control, space, host.counters, host.log);
            host.core.next_blue_flame()
        });
        if let Some(Some(next)) = next {
            self.copying.insert((page, next), number);
        }
        self.schedule.make_ready(number);
    }

    /// Learns of the stores to the register page `page` from the doorbell records from now on: its
    /// registers are memory, where single stores cannot be seen. Software writes a record before the
    /// register, and says the same in both.
    ///
    /// The arm words of the completion queues of such a page are the NIC's to change: it marks each
    /// word that it has taken, so that the next arm is seen whatever its value.
    pub fn watch_uar(&mut self, page: u32) -> Result<(), Refused> {
        self.alive()?;
        if !self.has_uar(page) {
            return Err(Refused::Unknown { what: "UAR page", number: page });
        }
        self.watched.insert(page);
        for queue in self.queues.values().filter(|queue| queue.context.uar == page) {
            // Software that armed it before is heard at the next look.
            queue.mark_arm(self.memory.space());
        }
        Ok(())
    }

    /// Looks at the records of the register pages that are memory. Answers whether something was
    /// there.
    pub(super) fn look_at_records(&mut self, now: u64, fabric: &mut dyn Fabric) -> bool {
        if self.watched.is_empty() {
            return false;
        }
        let space = self.memory.space();
        // Before the arms: one that software made before a post is then found before the post is
        // acted on, as it would have been in front of it on a bus.
        let behind = |pair: &QueuePair| {
            let core = &pair.core;
            if core.state != State::ReadyToSend || !self.watched.contains(&core.context.uar) {
                return None;
            }
            let counter = core.send_counter(space).ok()?;
            (counter != core.send_producer).then_some((core.number, counter))
        };
        let posts: Vec<(u32, u16)> = self.pairs.values().filter_map(behind).collect();
        let mut seen = !posts.is_empty();
        for (&number, queue) in &mut self.queues {
            if !self.watched.contains(&queue.context.uar) {
                continue;
            }
            let Some(word) = queue.take_arm(space) else { continue };
            seen = true;
            self.counters.register_stores += 1;
            self.counters.arm_doorbells += 1;
            if queue.arm(word) {
                self.counters.completion_events += 1;
                self.events.completion(number);
            }
        }
        for (number, counter) in posts {
            self.attend(number, now, fabric, |parts| {
                let host = &mut *parts.host;
                host.counters.register_stores += 1;
                host.counters.send_doorbells += 1;
                host.core.announce(counter, host.log);
            });
            self.schedule.make_ready(number);
        }
        seen
    }
}

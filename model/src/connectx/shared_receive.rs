//! Queues of receives that queue pairs share.
//!
//! The entries are a list in memory: each begins with the index of the next. The NIC follows it
//! from the first entry on; software puts entries that completed behind the last one.

use super::entry;
use super::nic::Connectx;
use super::{Counters, Event, Log, Refused, Ring};
use crate::memory::{AddressSpace, Entry, Fault};
use crate::rc::Receive;
use doorbell::mlx5::abi::doorbell::CounterWord;
use doorbell::mlx5::abi::wqe::SEGMENT_BYTES;

/// What a shared receive queue is made of.
#[derive(Clone, Debug)]
pub struct SharedReceiveContext {
    /// The protection domain of its memory keys.
    pub protection_domain: u32,
    /// The ring of entries.
    pub ring: Ring,
    /// The binary logarithm of the number of entries.
    pub log_entries: u8,
    /// The binary logarithm of the bytes of an entry, from 5 on.
    pub log_stride: u8,
    /// The device address of the doorbell record.
    pub record: u64,
    /// What extended connections need to know of it; `None` if it is not for them.
    pub extended: Option<ExtendedReceives>,
}

/// What a shared receive queue of extended connections (XRC) has besides: its receives complete by
/// themselves, whichever queue pair they were for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtendedReceives {
    /// The domain of extended connections that may use it.
    pub domain: u32,
    /// The completion queue.
    pub queue: u32,
    /// What its completions are found by.
    pub user_index: u32,
}

/// A shared receive queue.
pub(super) struct SharedReceives {
    context: SharedReceiveContext,
    /// Queue pairs that take from it.
    pub(super) users: u32,
    /// The entry that is taken next.
    head: u16,
    /// Entries taken, modulo 2^16.
    taken: u16,
    /// Fewer receives than this raise an event, once.
    pub(super) limit: Option<u16>,
}

/// Where an entry says which is next (`struct mlx5_wqe_srq_next_seg`), in bytes.
const NEXT: usize = 2;

impl SharedReceives {
    /// What extended connections need to know of it.
    pub(super) fn extended(&self) -> Option<&ExtendedReceives> {
        self.context.extended.as_ref()
    }

    /// The protection domain of its memory keys.
    pub(super) fn protection_domain(&self) -> u32 {
        self.context.protection_domain
    }

    /// Whether fewer receives are left than the mark that was asked for; once for each time that it
    /// was.
    pub(super) fn passes_limit(&mut self, space: &dyn AddressSpace) -> bool {
        let Some(limit) = self.limit else { return false };
        let Ok(word) = space.load_word(self.context.record) else { return false };
        let left = CounterWord::from_memory(word).counter().wrapping_sub(self.taken);
        let passes = left < limit;
        if passes {
            self.limit = None;
        }
        passes
    }

    /// Takes the next receive, if the record says that there is one.
    pub(super) fn fetch(
        &mut self,
        space: &dyn AddressSpace,
        counters: &mut Counters,
        log: &mut Log,
    ) -> Option<Receive> {
        let context = &self.context;
        let posted = match space.load_word(context.record) {
            Ok(word) => CounterWord::from_memory(word).counter().wrapping_sub(self.taken),
            Err(fault) => {
                log.note(format_args!("a shared receive queue's doorbell record: {fault}"));
                return None;
            }
        };
        if posted == 0 {
            return None;
        }
        let entries = 1u32 << context.log_entries;
        if u32::from(posted) > entries {
            log.note(format_args!(
                "the record announces {posted} receives of a shared queue of {entries}"
            ));
            return None;
        }
        let index = self.head;
        self.taken = self.taken.wrapping_add(1);
        counters.receive_entries += 1;
        let list = match self.read(space, index) {
            Ok(bytes) => {
                self.head = u16::from_be_bytes([bytes[NEXT], bytes[NEXT + 1]]);
                entry::decode_receive(&bytes[SEGMENT_BYTES..]).map_err(|why| why.to_string())
            }
            Err(fault) => Err(fault.to_string()),
        };
        let list = list.unwrap_or_else(|why| {
            counters.malformed_entries += 1;
            log.note(format_args!("a shared receive queue's entry {index:#x}: {why}"));
            // A key that nothing has: the message finds no memory to go to.
            [Entry { address: 0, length: 1 << 31, lkey: 0 }].into_iter().collect()
        });
        Some(Receive { entry: index.into(), list })
    }

    fn read(&self, space: &dyn AddressSpace, index: u16) -> Result<Vec<u8>, Fault> {
        let context = &self.context;
        let mask = (1u64 << context.log_entries) - 1;
        let mut bytes = vec![0; 1 << context.log_stride];
        context.ring.read(space, (u64::from(index) & mask) << context.log_stride, &mut bytes)?;
        Ok(bytes)
    }
}

impl Connectx {
    /// Makes a shared receive queue.
    pub fn create_shared_receives(
        &mut self,
        context: SharedReceiveContext,
    ) -> Result<u32, Refused> {
        self.alive()?;
        let parameter = |what, value| Err(Refused::Parameter { what, value });
        let bounds = self.capabilities;
        if context.log_entries > bounds.log_max_ring {
            return parameter("log of a ring", context.log_entries.into());
        }
        if context.log_stride < 5
            || 1u64 << context.log_stride.min(63) > bounds.max_receive_entry.into()
        {
            return parameter("log of a receive entry", context.log_stride.into());
        }
        if context.ring.len() < 1 << (context.log_entries + context.log_stride) {
            return parameter("length of a receive ring", context.ring.len());
        }
        if !context.record.is_multiple_of(4) {
            return parameter("address of a doorbell record", context.record);
        }
        self.domain_users(context.protection_domain)?;
        if let Some(extended) = context.extended
            && !self.queues.contains_key(&extended.queue)
        {
            return Err(Refused::Unknown { what: "completion queue", number: extended.queue });
        }
        let number =
            self.number(bounds.log_max_queue_pairs, "shared receive queue", self.shared.len())?;
        *self.domain_users(context.protection_domain)? += 1;
        let completions = context.extended.map(|extended| extended.queue);
        if let Some(queue) = completions.and_then(|queue| self.queues.get_mut(&queue)) {
            queue.users += 1;
        }
        let shared = SharedReceives { context, users: 0, head: 0, taken: 0, limit: None };
        self.shared.insert(number, shared);
        Ok(number)
    }

    /// Asks for an event when fewer than `mark` receives are left: at once, if that is so.
    pub fn limit_shared_receives(&mut self, number: u32, mark: u16) -> Result<(), Refused> {
        let unknown = Refused::Unknown { what: "shared receive queue", number };
        let shared = self.shared.get_mut(&number).ok_or(unknown)?;
        shared.limit = (mark > 0).then_some(mark);
        if shared.passes_limit(self.memory.space()) {
            self.raise(Event::SharedReceiveLimit { queue: number });
        }
        Ok(())
    }

    /// The mark below which a shared receive queue raises an event; 0 if it raises none.
    pub fn shared_receive_limit(&self, number: u32) -> Option<u16> {
        self.shared.get(&number).map(|shared| shared.limit.unwrap_or(0))
    }

    /// Destroys a shared receive queue. Its ring is not touched after this.
    pub fn destroy_shared_receives(&mut self, number: u32) -> Result<(), Refused> {
        let unknown = Refused::Unknown { what: "shared receive queue", number };
        let shared = self.shared.get(&number).ok_or(unknown)?;
        if shared.users > 0 {
            return Err(Refused::Busy { what: "shared receive queue", number });
        }
        let domain = shared.context.protection_domain;
        let completions = shared.context.extended.map(|extended| extended.queue);
        self.shared.remove(&number);
        if let Some(queue) = completions.and_then(|queue| self.queues.get_mut(&queue)) {
            queue.users -= 1;
        }
        *self.domain_users(domain)? -= 1;
        Ok(())
    }
}

//! The receive side of a queue pair: the entries that its record announces.

use super::Event;
use super::entry;
use super::host::Attendant;
use crate::memory::{Entry, List};
use crate::rc::Receive;
use doorbell::mlx5::abi::doorbell::CounterWord;
use doorbell::mlx5::abi::wqe::SEGMENT_BYTES;

/// A receive is named by its index, and on extended connections by its shared queue above that.
const QUEUE_SHIFT: u32 = 16;

impl Attendant<'_> {
    /// Where a receive completes, and what its completion is found by.
    pub(super) fn receive_end(&self, entry: u64) -> (u32, u32) {
        let shared = self.shared.get(&((entry >> QUEUE_SHIFT) as u32));
        match shared.and_then(|shared| shared.extended()) {
            Some(extended) => (extended.queue, extended.user_index),
            None => (self.core.context.receive_queue, self.core.context.user_index),
        }
    }

    /// The next receive entry, if the record says that there is one: of the queue pair's own queue or
    /// the one that it shares; of the shared queue `extended` on an extended connection.
    pub(super) fn fetch_receive(&mut self, extended: Option<u32>) -> Option<Receive> {
        if let Some(number) = extended.or(self.core.context.shared_receives) {
            let shared = self.shared.get_mut(&number)?;
            let mut receive = shared.fetch(self.memory.space(), self.counters, self.log)?;
            if shared.passes_limit(self.memory.space()) {
                self.raise(Event::SharedReceiveLimit { queue: number });
            }
            if extended.is_some() {
                receive.entry |= u64::from(number) << QUEUE_SHIFT;
            }
            return Some(receive);
        }
        let available = self.posted_receives();
        if available == 0 {
            return None;
        }
        self.counters.receive_entries += 1;
        let index = self.core.receive_consumer;
        self.core.receive_consumer = index.wrapping_add(1);
        let list = match self.read_receive(index) {
            Ok(list) => list,
            Err(reason) => {
                self.counters.malformed_entries += 1;
                self.log.note(format_args!(
                    "queue pair {:#x}: receive entry {index:#x}: {reason}",
                    self.core.number
                ));
                // A key that nothing has: the message finds no memory to go to.
                [Entry { address: 0, length: 1 << 31, lkey: 0 }].into_iter().collect()
            }
        };
        Some(Receive { entry: index.into(), list })
    }

    /// The receives that the record says are posted and that were not read.
    pub(super) fn posted_receives(&mut self) -> u16 {
        let core = &*self.core;
        if core.context.receive_ring.is_none() {
            return 0;
        }
        let word = match self.space().load_word(core.context.record) {
            Ok(word) => word,
            Err(fault) => {
                self.log.note(format_args!("a queue pair's doorbell record: {fault}"));
                return 0;
            }
        };
        let posted = CounterWord::from_memory(word).counter().wrapping_sub(core.receive_consumer);
        let entries = 1u32 << core.context.log_receive_entries;
        if u32::from(posted) > entries {
            self.log.note(format_args!(
                "queue pair {:#x}: the record announces {posted} receives of a ring of {entries}",
                core.number
            ));
            return 0;
        }
        posted
    }

    fn read_receive(&self, index: u16) -> Result<List, String> {
        let context = &self.core.context;
        let mask = (1u64 << context.log_receive_entries) - 1;
        let at = (u64::from(index) & mask) << context.log_receive_stride;
        let mut bytes = vec![0; 1 << context.log_receive_stride];
        debug_assert!(bytes.len().is_multiple_of(SEGMENT_BYTES));
        let ring = context.receive_ring.as_ref().ok_or("there is no receive ring")?;
        ring.read(self.space(), at, &mut bytes).map_err(|fault| fault.to_string())?;
        entry::decode_receive(&bytes).map_err(|malformed| malformed.to_string())
    }
}

//! Event queues: rings in memory that say what happened, and the interrupts that say so.

use super::field::Field;
use super::layout::event_queue::{create_eq_out, destroy_eq_in, eqc};
use super::page_list;
use super::status::{Done, Refusal, Status};
use crate::connectx::{Event, EventSink, Ring};
use crate::memory::AddressSpace;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Interrupts of a function, by vector.
///
/// Called while the NIC is locked: an implementer must not call back into it.
pub trait Interrupts: Send + Sync {
    /// Raises the interrupt of `vector`. Vectors that nobody listens to are no error.
    fn raise(&self, vector: u16);
}

/// Bytes of an entry (`struct mlx5_eqe`).
const ENTRY: usize = 64;
const TYPE: usize = 1;
const SUBTYPE: usize = 3;
/// Where an entry's data begins, of 28 bytes.
const DATA: usize = 32;
const OWNER: usize = ENTRY - 1;

/// Where the context and the mask of events are in CREATE_EQ, and the context in QUERY_EQ's answer.
const CONTEXT: usize = 16;
const MASK: Field = Field::new(0x2c0, 64);
/// Entries of an event queue, at most.
const LOG_MAX_SIZE: u32 = 22;
/// Numbers of event queues: 8 bits in doorbells and answers.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=63;
/// Indexes are counted modulo 2^24.
const INDEX: u32 = 0xff_ffff;

/// Kinds of events (`enum mlx5_event`).
mod kind {
    pub(super) const COMPLETION: u8 = 0x00;
    pub(super) const COMMUNICATION_ESTABLISHED: u8 = 0x02;
    pub(super) const COMPLETION_QUEUE_ERROR: u8 = 0x04;
    pub(super) const LAST_RECEIVE: u8 = 0x13;
    pub(super) const RECEIVE_LIMIT: u8 = 0x14;
    pub(super) const WORK_QUEUE_FATAL: u8 = 0x05;
    pub(super) const INTERNAL_ERROR: u8 = 0x08;
    pub(super) const PORT_CHANGE: u8 = 0x09;
    pub(super) const COMMAND: u8 = 0x0a;
    pub(super) const INVALID_REQUEST: u8 = 0x10;
    pub(super) const ACCESS_ERROR: u8 = 0x11;
}

/// What changed about a port (`MLX5_PORT_CHANGE_SUBTYPE_*`).
mod port_change {
    pub(super) const DOWN: u8 = 1;
    pub(super) const ACTIVE: u8 = 4;
    pub(super) const IDENTIFIERS: u8 = 6;
}

/// The event queues of a function. Clones are the same queues.
#[derive(Clone)]
pub(super) struct EventQueues(Arc<Mutex<Queues>>);

struct Queues {
    space: Arc<dyn AddressSpace>,
    interrupts: Arc<dyn Interrupts>,
    queues: BTreeMap<u8, Queue>,
    /// Which event queue a completion queue's events go to.
    routes: BTreeMap<u32, u8>,
    log: Vec<String>,
}

struct Queue {
    context: [u8; eqc::BYTES],
    ring: Ring,
    log_size: u32,
    vector: u16,
    /// The kinds of events that it takes, a bit each.
    mask: u64,
    producer: u32,
    consumer: u32,
    /// The next entry raises the interrupt.
    armed: bool,
}

/// A doorbell of event queues, in a UAR page (`MLX5_EQ_DOORBEL_OFFSET`): moves the consumer index,
/// and arms the queue or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doorbell {
    Arm,
    Consume,
}

impl Doorbell {
    /// Which doorbell is at `offset` of a UAR page.
    pub(crate) fn at(offset: u32) -> Option<Self> {
        match offset {
            0x40 => Some(Doorbell::Arm),
            0x48 => Some(Doorbell::Consume),
            _ => None,
        }
    }
}

impl EventQueues {
    pub(super) fn new(space: Arc<dyn AddressSpace>, interrupts: Arc<dyn Interrupts>) -> Self {
        EventQueues(Arc::new(Mutex::new(Queues {
            space,
            interrupts,
            queues: BTreeMap::new(),
            routes: BTreeMap::new(),
            log: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// CREATE_EQ.
    pub(super) fn create(&self, input: &[u8], output: &mut [u8]) -> Done {
        let context = input.get(CONTEXT..CONTEXT + eqc::BYTES).unwrap_or_default();
        let log_size = eqc::LOG_EQ_SIZE.get32(context);
        if log_size > LOG_MAX_SIZE {
            return Err(Refusal::parameter("log of an event ring", log_size));
        }
        let log_page = eqc::LOG_PAGE_SIZE.get32(context) + 12;
        let offset = eqc::PAGE_OFFSET.get(context);
        let length = (ENTRY as u64) << log_size;
        let ring = page_list::ring(input, page_list::LIST, log_page, offset, length)?;
        let mut queues = self.lock();
        let number = NUMBERS
            .into_iter()
            .find(|number| !queues.queues.contains_key(number))
            .ok_or_else(|| Refusal::new(Status::NoResources, "there are only 63 event queues"))?;
        let mut kept = [0; eqc::BYTES];
        for (kept, byte) in kept.iter_mut().zip(context) {
            *kept = *byte;
        }
        let queue = Queue {
            context: kept,
            ring,
            log_size,
            vector: eqc::INTR.get(context) as u16,
            mask: MASK.get(input),
            producer: 0,
            consumer: 0,
            armed: true,
        };
        queues.queues.insert(number, queue);
        create_eq_out::EQ_NUMBER.set(output, number.into());
        Ok(())
    }

    /// DESTROY_EQ.
    pub(super) fn destroy(&self, input: &[u8]) -> Done {
        let number = destroy_eq_in::EQ_NUMBER.get32(input);
        let mut queues = self.lock();
        if queues.routes.values().any(|&queue| u32::from(queue) == number) {
            return Err(Refusal::new(
                Status::Busy,
                format_args!("event queue {number:#x} has completion queues"),
            ));
        }
        let removed = queues.queues.remove(&(number as u8));
        removed.map(drop).ok_or_else(|| Refusal::unknown("event queue", number))
    }

    /// QUERY_EQ.
    pub(super) fn query(&self, input: &[u8], output: &mut [u8]) -> Done {
        let number = destroy_eq_in::EQ_NUMBER.get32(input);
        let queues = self.lock();
        let queue = queues
            .queues
            .get(&(number as u8))
            .ok_or_else(|| Refusal::unknown("event queue", number))?;
        let mut context = queue.context;
        eqc::CONSUMER_COUNTER.set(&mut context, queue.consumer.into());
        eqc::PRODUCER_COUNTER.set(&mut context, queue.producer.into());
        super::answer(output, CONTEXT, &context);
        Ok(())
    }

    /// Sends a completion queue's events to an event queue from now on.
    pub(super) fn route(&self, completion_queue: u32, event_queue: u32) -> Done {
        let mut queues = self.lock();
        let number = u8::try_from(event_queue)
            .ok()
            .filter(|number| queues.queues.contains_key(number))
            .ok_or_else(|| Refusal::unknown("event queue", event_queue))?;
        queues.routes.insert(completion_queue, number);
        Ok(())
    }

    /// Whether there is such an event queue.
    pub(super) fn contains(&self, event_queue: u32) -> bool {
        u8::try_from(event_queue).is_ok_and(|number| self.lock().queues.contains_key(&number))
    }

    /// Forgets a completion queue's route.
    pub(super) fn unroute(&self, completion_queue: u32) {
        self.lock().routes.remove(&completion_queue);
    }

    /// A store to a doorbell: the queue's number and consumer index.
    pub(super) fn ring(&self, doorbell: Doorbell, value: u32) {
        let mut queues = self.lock();
        let Queues { queues: all, interrupts, log, .. } = &mut *queues;
        let Some(queue) = all.get_mut(&((value >> 24) as u8)) else {
            log.push(format!("a doorbell of event queue {:#x}, which is not there", value >> 24));
            return;
        };
        queue.consumer = value & INDEX;
        if doorbell == Doorbell::Arm {
            queue.armed = queue.consumer == queue.producer & INDEX;
            if !queue.armed {
                interrupts.raise(queue.vector);
            }
        }
    }

    /// Whether an event queue takes the completions of commands, so that nobody polls for them.
    pub(super) fn takes_commands(&self) -> bool {
        self.lock().queues.values().any(|queue| queue.takes(kind::COMMAND))
    }

    /// Commands finished: a bit for each slot.
    pub(super) fn commands_done(&self, slots: u32) {
        let mut data = [0; 28];
        data[..4].copy_from_slice(&slots.to_be_bytes());
        self.lock().broadcast(kind::COMMAND, 0, &data);
    }

    /// What went wrong since it was asked last.
    pub(super) fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().log)
    }
}

impl EventSink for EventQueues {
    fn completion(&self, queue: u32) {
        let mut queues = self.lock();
        let Some(&number) = queues.routes.get(&queue) else { return };
        let mut data = [0; 28];
        // `struct mlx5_eqe_comp`.
        data[24..28].copy_from_slice(&queue.to_be_bytes());
        queues.post(number, kind::COMPLETION, 0, &data);
    }

    fn asynchronous(&self, event: Event) {
        let mut data = [0; 28];
        // `struct mlx5_eqe_qp_srq`: a type (0 for queue pairs), and a number.
        let pair = |number: u32| {
            let mut data = [0; 28];
            data[24..28].copy_from_slice(&number.to_be_bytes());
            data
        };
        // `struct mlx5_eqe_port_state`: the port's number.
        let mut port = [0; 28];
        port[8] = 1 << 4;
        let (kind, subtype, data) = match event {
            Event::CompletionQueueError { queue } => {
                // `struct mlx5_eqe_cq_err`: the queue, and why (1 for an overrun).
                data[..4].copy_from_slice(&queue.to_be_bytes());
                data[11] = 1;
                (kind::COMPLETION_QUEUE_ERROR, 0, data)
            }
            Event::QueuePairFatal { pair: number } => (kind::WORK_QUEUE_FATAL, 0, pair(number)),
            Event::QueuePairRequestError { pair: number } => {
                (kind::INVALID_REQUEST, 0, pair(number))
            }
            Event::QueuePairAccessError { pair: number } => (kind::ACCESS_ERROR, 0, pair(number)),
            Event::CommunicationEstablished { pair: number } => {
                (kind::COMMUNICATION_ESTABLISHED, 0, pair(number))
            }
            Event::LastReceiveReached { pair: number } => (kind::LAST_RECEIVE, 0, pair(number)),
            Event::SharedReceiveLimit { queue } => (kind::RECEIVE_LIMIT, 0, pair(queue)),
            Event::PortActive => (kind::PORT_CHANGE, port_change::ACTIVE, port),
            Event::PortError => (kind::PORT_CHANGE, port_change::DOWN, port),
            Event::GidChange => (kind::PORT_CHANGE, port_change::IDENTIFIERS, port),
            Event::DeviceFatal => (kind::INTERNAL_ERROR, 0, data),
        };
        self.lock().broadcast(kind, subtype, &data);
    }
}

impl Queue {
    fn takes(&self, kind: u8) -> bool {
        1u64.checked_shl(kind.into()).is_some_and(|bit| self.mask & bit != 0)
    }
}

impl Queues {
    /// Writes an entry to every queue that takes its kind.
    fn broadcast(&mut self, kind: u8, subtype: u8, data: &[u8; 28]) {
        let takers: Vec<u8> = (self.queues.iter())
            .filter(|(_, queue)| queue.takes(kind))
            .map(|(&number, _)| number)
            .collect();
        for number in takers {
            self.post(number, kind, subtype, data);
        }
    }

    /// Writes an entry, the byte that says whose it is last, then raises the interrupt.
    fn post(&mut self, number: u8, kind: u8, subtype: u8, data: &[u8; 28]) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let entries = 1 << queue.log_size;
        if queue.producer.wrapping_sub(queue.consumer) & INDEX >= entries {
            self.log.push(format!("event queue {number:#x} of {entries} entries is overrun"));
            return;
        }
        let mut entry = [0; ENTRY];
        entry[TYPE] = kind;
        entry[SUBTYPE] = subtype;
        entry[DATA..DATA + data.len()].copy_from_slice(data);
        let at = u64::from(queue.producer & (entries - 1)) * ENTRY as u64;
        let owner = (queue.producer >> queue.log_size & 1) as u8;
        let written = (queue.ring.write(&*self.space, at, &entry[..OWNER]))
            .and_then(|()| queue.ring.publish(&*self.space, at + OWNER as u64, owner));
        if let Err(fault) = written {
            self.log.push(format!("event queue {number:#x}: {fault}"));
            return;
        }
        queue.producer = queue.producer.wrapping_add(1);
        if std::mem::take(&mut queue.armed) {
            self.interrupts.raise(queue.vector);
        }
    }
}

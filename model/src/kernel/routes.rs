//! Which events go to which event files (`ib_uverbs_comp_handler`, `ib_uverbs_async_handler`).

use super::event_file::EventQueue;
use crate::connectx::{Event, EventSink};
use doorbell::mlx5::abi::event::{AsyncEvent, AsyncEventType, CompEvent};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use zerocopy::IntoBytes;

/// Where the events of a completion queue or queue pair go.
#[derive(Clone)]
pub(super) struct Route {
    /// The completion channel, for a completion queue with one.
    pub(super) channel: Option<Arc<EventQueue>>,
    /// The file of asynchronous events.
    pub(super) events: Option<Arc<EventQueue>>,
    /// What its records carry.
    pub(super) user_handle: u64,
    /// What its records are counted under.
    pub(super) source: u64,
}

#[derive(Default)]
struct Table {
    queues: HashMap<u32, Route>,
    pairs: HashMap<u32, Route>,
    /// Every file of asynchronous events: those of the port and the device go to all.
    files: Vec<Weak<EventQueue>>,
}

/// The routes of a device.
#[derive(Clone, Default)]
pub(super) struct Routes(Arc<Mutex<Table>>);

impl Routes {
    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add_queue(&self, number: u32, route: Route) {
        self.table().queues.insert(number, route);
    }

    pub(super) fn add_pair(&self, number: u32, route: Route) {
        self.table().pairs.insert(number, route);
    }

    pub(super) fn add_file(&self, file: &Arc<EventQueue>) {
        let mut table = self.table();
        table.files.retain(|file| file.strong_count() > 0);
        table.files.push(Arc::downgrade(file));
    }

    pub(super) fn remove_queue(&self, number: u32) {
        self.table().queues.remove(&number);
    }

    pub(super) fn remove_pair(&self, number: u32) {
        self.table().pairs.remove(&number);
    }
}

fn push(route: Option<&Route>, kind: AsyncEventType) {
    if let Some(route) = route
        && let Some(file) = &route.events
    {
        file.push(Some(route.source), record(route.user_handle, kind).as_bytes());
    }
}

fn record(element: u64, kind: AsyncEventType) -> AsyncEvent {
    AsyncEvent { element, event_type: kind.code(), reserved: 0 }
}

impl EventSink for Routes {
    fn completion(&self, queue: u32) {
        let table = self.table();
        if let Some(route) = table.queues.get(&queue)
            && let Some(channel) = &route.channel
        {
            let record = CompEvent { cq_handle: route.user_handle };
            channel.push(Some(route.source), record.as_bytes());
        }
    }

    fn asynchronous(&self, event: Event) {
        let table = self.table();
        let all = |element, kind| {
            for file in table.files.iter().filter_map(Weak::upgrade) {
                file.push(None, record(element, kind).as_bytes());
            }
        };
        match event {
            Event::CompletionQueueError { queue } => {
                push(table.queues.get(&queue), AsyncEventType::CompletionQueueError);
            }
            Event::QueuePairFatal { pair } => {
                push(table.pairs.get(&pair), AsyncEventType::QueuePairFatal);
            }
            Event::QueuePairRequestError { pair } => {
                push(table.pairs.get(&pair), AsyncEventType::QueuePairRequestError);
            }
            Event::QueuePairAccessError { pair } => {
                push(table.pairs.get(&pair), AsyncEventType::QueuePairAccessError);
            }
            Event::CommunicationEstablished { pair } => {
                push(table.pairs.get(&pair), AsyncEventType::CommunicationEstablished);
            }
            // This kernel has no shared receive queues.
            Event::LastReceiveReached { .. } | Event::SharedReceiveLimit { .. } => {}
            Event::PortActive => all(1, AsyncEventType::PortActive),
            Event::PortError => all(1, AsyncEventType::PortError),
            Event::GidChange => all(1, AsyncEventType::GidChange),
            Event::DeviceFatal => all(0, AsyncEventType::DeviceFatal),
        }
    }
}

//! The channel where events arrive.

use super::Nic;
use super::abi::U24;
use super::abi::event::{AsyncEvent, AsyncEventType, CompEvent};
use super::abi::verbs::method;
use super::abi::verbs::write::{self, WriteCommand};
use super::call::Call;
use super::context::Context;
use crate::completion::QueuePairIndex;
use crate::error::Error;
use crate::event::{CompletionQueueId, EVENTS, Event, PortEvent, QueuePairEvent};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use doorbell_hal::Errno;
use doorbell_hal::uverbs::{EventFiles, Uverbs};
use heapless::Vec;
use zerocopy::{FromZeros, IntoBytes};

/// Where events arrive: of the completion queues that were made with it, of their queue pairs, and
/// of the port.
///
/// One thread at a time waits. Under `std` it can be polled for reading (`AsFd`): when it can be
/// read, [`wait`](Self::wait) has something to answer at once.
pub struct EventChannel<V: Uverbs> {
    pub(super) shared: Arc<Channel<V>>,
}

/// A channel as the completion queues made with it hold it.
pub(super) struct Channel<V: Uverbs> {
    pub(super) context: Arc<Context<V>>,
    files: V::EventFiles,
    /// The kernel's descriptors of the files, to be named in calls. `files` owns them.
    pub(super) completion: i32,
    pub(super) asynchronous: i32,
}

impl<V: Uverbs> Nic<V> {
    /// Makes a channel for events.
    pub fn event_channel(&self) -> Result<EventChannel<V>, Error> {
        let verbs = &self.context.verbs;
        let request = write::CreateCompChannel::new_zeroed();
        let mut response = write::CreateCompChannelResp::new_zeroed();
        let command = WriteCommand::CreateCompChannel;
        let call = Call::write("CREATE_COMP_CHANNEL", command, &request, &mut response);
        // SAFETY: K2: the call hands no memory to the device.
        unsafe { call.make(verbs) }?;
        let completion = response.fd as i32;

        let attribute = method::async_event_alloc::FD_HANDLE;
        let call = Call::new("ASYNC_EVENT_ALLOC", method::async_event::ALLOC).new_handle(attribute);
        // SAFETY: K2: the call hands no memory to the device.
        let answer = unsafe { call.make(verbs) };
        let asynchronous = answer.as_ref().map_or(-1, |answer| answer.handle(attribute) as i32);

        // Taken even if the second call failed, so that the first one's file is closed.
        // SAFETY: K3: the descriptors just came out of the calls; -1 stands for none.
        let files = unsafe { verbs.event_files(completion, asynchronous) };
        answer?;
        let files = files.map_err(self.context.refused("setting the event files up"))?;
        let context = self.context.clone();
        Ok(EventChannel { shared: Arc::new(Channel { context, files, completion, asynchronous }) })
    }
}

impl<V: Uverbs> EventChannel<V> {
    /// The events since the last wait, once there is one; none if none came within `timeout`, or if
    /// a signal came first, or only events of completion queues that are gone. Those past [`EVENTS`]
    /// are left for the next wait.
    pub fn wait(&mut self, timeout: Duration) -> Result<Vec<Event, EVENTS>, Error> {
        let mut events = Vec::new();
        if self.take(&mut events)? == 0 {
            let waited = self.shared.files.wait(timeout);
            waited.map_err(self.shared.context.refused("waiting for events"))?;
            self.take(&mut events)?;
        }
        Ok(events)
    }

    /// Takes the events that are there, from at most [`EVENTS`] records, and answers from how many. An
    /// error that comes after an event is left for the next time, so that the event is not lost.
    fn take(&mut self, events: &mut Vec<Event, EVENTS>) -> Result<usize, Error> {
        let mut records = 0;
        while records < EVENTS {
            match self.take_asynchronous(events) {
                Ok(true) => records += 1,
                Ok(false) => break,
                Err(error) if events.is_empty() => return Err(error),
                Err(_) => return Ok(records),
            }
        }
        while records < EVENTS {
            match self.take_completion(events) {
                Ok(true) => records += 1,
                Ok(false) => break,
                Err(error) if events.is_empty() => return Err(error),
                Err(_) => return Ok(records),
            }
        }
        Ok(records)
    }

    /// Takes an asynchronous event, if there is one.
    fn take_asynchronous(&mut self, events: &mut Vec<Event, EVENTS>) -> Result<bool, Error> {
        let mut record = AsyncEvent::new_zeroed();
        let read = self.shared.files.read_asynchronous(record.as_mut_bytes());
        if !self.read_whole("an asynchronous event", read, size_of_val(&record))? {
            return Ok(false);
        }
        let _room = events.push(asynchronous(&record));
        Ok(true)
    }

    /// Takes a completion event, if there is one.
    fn take_completion(&mut self, events: &mut Vec<Event, EVENTS>) -> Result<bool, Error> {
        let mut record = CompEvent::new_zeroed();
        let read = self.shared.files.read_completion(record.as_mut_bytes());
        if !self.read_whole("a completion event", read, size_of_val(&record))? {
            return Ok(false);
        }
        // An event of a queue that is gone is of no use to anybody.
        if self.shared.context.count_event(record.cq_handle) {
            let _room = events.push(Event::Completion(CompletionQueueId(record.cq_handle)));
        }
        Ok(true)
    }

    /// Whether a record was read; false if there was none.
    fn read_whole(
        &self,
        what: &'static str,
        read: Result<usize, Errno>,
        size: usize,
    ) -> Result<bool, Error> {
        match read {
            Ok(bytes) if bytes == size => Ok(true),
            Err(Errno::EAGAIN) => Ok(false),
            Ok(bytes) => Err(Error::Answer {
                device: self.shared.context.verbs.device_name().into(),
                call: what,
                wrong: "a length of",
                value: bytes as u64,
            }),
            Err(reason) => Err(self.shared.context.refused("reading an event")(reason)),
        }
    }
}

/// An asynchronous event's record as an event.
fn asynchronous(record: &AsyncEvent) -> Event {
    use AsyncEventType as Type;
    let unknown = Event::Unknown { number: record.event_type, element: record.element };
    // The user index that the queue pair was made with, if it can be one.
    let index = u32::try_from(record.element).ok().and_then(U24::new);
    let queue_pair = |event| match index {
        Some(index) => Event::QueuePair { queue_pair: QueuePairIndex(index.get()), event },
        None => unknown,
    };
    match record.kind() {
        Type::CompletionQueueError => {
            Event::CompletionQueueFailed(CompletionQueueId(record.element))
        }
        Type::QueuePairFatal => queue_pair(QueuePairEvent::Failed),
        Type::QueuePairRequestError => queue_pair(QueuePairEvent::RequestError),
        Type::QueuePairAccessError => queue_pair(QueuePairEvent::AccessError),
        Type::CommunicationEstablished => queue_pair(QueuePairEvent::CommunicationEstablished),
        Type::SendQueueDrained => queue_pair(QueuePairEvent::SendQueueDrained),
        Type::PathMigrated => queue_pair(QueuePairEvent::PathMigrated),
        Type::PathMigrationError => queue_pair(QueuePairEvent::PathMigrationFailed),
        Type::LastEntryReached => queue_pair(QueuePairEvent::LastEntryReached),
        Type::DeviceFatal => Event::DeviceFailed,
        Type::PortActive => Event::Port(PortEvent::Active),
        Type::PortError => Event::Port(PortEvent::Down),
        Type::LidChange => Event::Port(PortEvent::LidChanged),
        Type::GidChange => Event::Port(PortEvent::GidChanged),
        Type::PartitionKeyChange => Event::Port(PortEvent::PartitionKeysChanged),
        Type::SubnetManagerChange => Event::Port(PortEvent::SubnetManagerChanged),
        Type::ClientReregister => Event::Port(PortEvent::Reregister),
        Type::SharedReceiveQueueError
        | Type::SharedReceiveQueueLimit
        | Type::WorkQueueFatal
        | Type::Other(_) => unknown,
    }
}

/// Can be read when [`EventChannel::wait`] has something to answer.
#[cfg(feature = "std")]
impl<V: Uverbs<EventFiles: std::os::fd::AsFd>> std::os::fd::AsFd for EventChannel<V> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.shared.files.as_fd()
    }
}

impl<V: Uverbs> fmt::Debug for EventChannel<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventChannel").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_of_a_queue_pair_only_if_its_element_can_be_one() {
        let event =
            |event_type, element| asynchronous(&AsyncEvent { element, event_type, reserved: 0 });
        for event_type in 0..64 {
            for element in [0, 1, 0xff_ffff, 0x100_0000, 0xffff_ffff, 1 << 32, u64::MAX] {
                match event(event_type, element) {
                    Event::QueuePair { queue_pair, .. } => {
                        assert_eq!(u64::from(queue_pair.get()), element);
                        assert!(queue_pair.get() < 1 << 24, "event {event_type}");
                    }
                    Event::Unknown { number, element: about } => {
                        assert_eq!((number, about), (event_type, element));
                    }
                    Event::CompletionQueueFailed(id) => assert_eq!(id.0, element),
                    Event::Port(_) | Event::DeviceFailed => {}
                    other => panic!("{other:?} of event {event_type}"),
                }
            }
        }
        let failed = |element| event(AsyncEventType::QueuePairFatal.code(), element);
        assert!(matches!(failed(7), Event::QueuePair { event: QueuePairEvent::Failed, .. }));
        assert!(matches!(failed(1 << 24), Event::Unknown { .. }));
    }
}

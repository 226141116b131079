//! Queue pairs: made, connected, taken down. Posting is in [`send`] and [`receive`].

mod builder;
mod connect;
mod receive;
mod send;

pub use builder::QueuePairBuilder;
pub use receive::ReceiveQueue;
pub use send::SendQueue;

use super::abi::U24;
use super::abi::verbs::method;
use super::abi::verbs::qp::DestroyQpResp;
use super::context::{Context, Record, SendRegister};
use super::cq::CompletionShared;
use super::ring::{InFlight, committed};
use crate::completion::QueuePairIndex;
use crate::endpoint::Endpoint;
use crate::error::{Error, Refused, destroy_alone};
use crate::state::{CanReceive, Errored, Reset, Rts, State};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use doorbell_hal::mmio::{Caching, Uncached};
use doorbell_hal::sync::{AtomicBool, Ordering};
use doorbell_hal::uverbs::Uverbs;
use zerocopy::FromZeros;

/// A queue pair in state `S`: a send ring and a receive ring, connected to one queue pair of a peer
/// or on the way there.
///
/// `V` is the verbs file that its NIC was opened through. `C` is how its doorbell register is mapped:
/// with [`WriteCombining`](doorbell_hal::mmio::WriteCombining), doorbells carry short entries
/// (BlueFlame).
///
/// ```text
/// Reset --init--> Init --ready_to_receive--> Rtr --ready_to_send--> Rts --split--> queues
///   ^                                                                |
///   +------------- reset, once drained -- Errored <------ fail ------+
/// ```
///
/// A transition consumes the queue pair; one that the kernel refuses gives it back, as it was.
pub struct QueuePair<S: State, V: Uverbs, C: Caching = Uncached> {
    send: SendQueue<V, C>,
    receive: ReceiveQueue<V>,
    state: PhantomData<S>,
}

/// Both queues of a queue pair.
pub type Queues<V, C> = (SendQueue<V, C>, ReceiveQueue<V>);

/// What both queues of a queue pair hold of it.
struct Pair<V: Uverbs> {
    context: Arc<Context<V>>,
    handle: u32,
    number: U24,
    read_depth: u8,
    send_completions: Arc<CompletionShared<V>>,
    receive_completions: Arc<CompletionShared<V>>,
    /// What it takes of each completion queue.
    send_entries: u64,
    receive_entries: u64,
    resources: Arc<Resources<V>>,
    /// `None` once it was destroyed, or kept.
    parts: Option<Parts<V>>,
}

/// What goes back when the kernel has destroyed a queue pair.
struct Parts<V: Uverbs> {
    memory: V::Memory,
    record: Record<V>,
    register: SendRegister<V>,
}

/// What completions of a queue pair need: it outlives the queue pair until none can be left.
pub(super) struct Resources<V: Uverbs> {
    context: Arc<Context<V>>,
    index: U24,
    in_flight: InFlight,
    /// Whether the index may be used again.
    reusable: AtomicBool,
}

impl<V: Uverbs> Drop for Resources<V> {
    fn drop(&mut self) {
        if self.reusable.load(Ordering::Relaxed) {
            self.context.return_index(self.index);
        }
    }
}

impl<V: Uverbs> Pair<V> {
    /// Has the kernel destroy the queue pair, unless that was done.
    fn destroy(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            return Ok(());
        }
        let mut response = DestroyQpResp::new_zeroed();
        use method::destroy_qp as attribute;
        self.context.destroy(
            "DESTROY_QP",
            method::qp::DESTROY,
            (attribute::HANDLE, self.handle),
            (attribute::RESP, &mut response),
        )?;
        self.parts = None;
        self.resources.reusable.store(true, Ordering::Relaxed);
        self.retire();
        Ok(())
    }

    /// Takes the queue pair away from pollers.
    fn retire(&mut self) {
        let queues = [
            (&self.send_completions.committed, self.send_entries),
            (&self.receive_completions.committed, self.receive_entries),
        ];
        committed::retire(&self.context.table, self.resources.index, queues, &self.resources);
    }
}

impl<V: Uverbs> Drop for Pair<V> {
    fn drop(&mut self) {
        if self.destroy().is_err()
            && let Some(parts) = self.parts.take()
        {
            // The kernel may still let the NIC use the rings, the record and the register.
            let Parts { memory, record, register } = parts;
            self.context.keep(memory);
            record.lose();
            register.lose();
            // It may go on completing entries, which so stay set aside.
            (self.send_entries, self.receive_entries) = (0, 0);
            self.retire();
        }
    }
}

impl<S: State, V: Uverbs, C: Caching> QueuePair<S, V, C> {
    fn into_state<T: State>(self) -> QueuePair<T, V, C> {
        let QueuePair { send, receive, .. } = self;
        QueuePair { send, receive, state: PhantomData }
    }

    fn pair(&self) -> &Pair<V> {
        &self.send.pair
    }

    /// The queue pair's number, of 24 bits.
    pub fn number(&self) -> u32 {
        self.pair().number.get()
    }

    /// Names the queue pair in completions and events.
    pub fn index(&self) -> QueuePairIndex {
        QueuePairIndex(self.pair().resources.index.get())
    }

    /// What a peer needs to know to connect to this queue pair. Changes with each
    /// [`reset`](Self::reset).
    pub fn endpoint(&self) -> Endpoint {
        let Pair { context, number, read_depth, .. } = self.pair();
        let port = &context.port;
        Endpoint {
            link: port.link,
            mtu: port.mtu,
            read_depth: *read_depth,
            address: port.address(),
            queue_pair: number.get(),
            packet_sequence: self.send.packet_sequence,
            gid: port.gid,
        }
    }

    /// Destroys the queue pair. What is outstanding is forgotten: its completions, if any were
    /// written, are passed over. A refusal gives the queue pair back.
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        let QueuePair { send, receive, state } = self;
        let SendQueue { ring: send_ring, pair, packet_sequence, peer } = send;
        let ReceiveQueue { ring: receive_ring, pair: other } = receive;
        drop(other);
        // Both queues are here, so nobody else has the pair.
        let Refused { object: pair, error } = match destroy_alone(pair, Pair::destroy) {
            Ok(pair) => {
                // The ring's register holds the file open, `pair` what must outlive that.
                drop(send_ring);
                drop(pair);
                return Ok(());
            }
            Err(refused) => refused,
        };
        let receive = ReceiveQueue { ring: receive_ring, pair: pair.clone() };
        let send = SendQueue { ring: send_ring, pair, packet_sequence, peer };
        Err(Refused { object: QueuePair { send, receive, state }, error })
    }
}

impl<S: CanReceive, V: Uverbs, C: Caching> QueuePair<S, V, C> {
    /// The receive queue.
    pub fn receives(&mut self) -> &mut ReceiveQueue<V> {
        &mut self.receive
    }

    /// Takes the queue pair down: everything outstanding completes as flushed.
    ///
    /// Also for a queue pair that failed by itself, whose state the type cannot know.
    ///
    /// Requests that are done and were not signaled complete no more. To find out about them takes
    /// one free slot of the send ring: one that is filled to the last with such requests can be
    /// destroyed, but never counts as drained.
    pub fn fail(mut self) -> Result<QueuePair<Errored, V, C>, Refused<Self>> {
        // Entries that were posted and not rung are flushed like the others.
        self.send.ring();
        self.receive.ring();
        match connect::to_error(self.pair()) {
            Ok(()) => {
                self.send.ring.mark_end();
                Ok(self.into_state())
            }
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}

impl<V: Uverbs, C: Caching> QueuePair<Rts, V, C> {
    /// The send queue.
    pub fn sends(&mut self) -> &mut SendQueue<V, C> {
        &mut self.send
    }

    /// Both queues, each to be used by a thread of its own. [`join`](Self::join) puts them together
    /// again; the queue pair is destroyed when both are dropped.
    pub fn split(self) -> Queues<V, C> {
        (self.send, self.receive)
    }

    /// The queue pair of two queues that were [`split`](Self::split). Queues of two different queue
    /// pairs are given back.
    pub fn join(
        send: SendQueue<V, C>,
        receive: ReceiveQueue<V>,
    ) -> Result<Self, Refused<Queues<V, C>>> {
        if !Arc::ptr_eq(&send.pair, &receive.pair) {
            let error = Error::Mismatched { what: "the send queue and the receive queue" };
            return Err(Refused { object: (send, receive), error });
        }
        Ok(QueuePair { send, receive, state: PhantomData })
    }
}

impl<V: Uverbs, C: Caching> QueuePair<Errored, V, C> {
    /// Whether all that was outstanding has completed, as far as completions were polled: poll until
    /// it says so.
    pub fn is_drained(&mut self) -> bool {
        // There may be room for it only now.
        self.send.ring.mark_end();
        self.send.ring.outstanding() == 0 && self.receive.ring.outstanding() == 0
    }

    /// Makes the queue pair as good as new, with a new first packet sequence number. It must be
    /// drained: until then this is refused, and says what is outstanding.
    pub fn reset(mut self) -> Result<QueuePair<Reset, V, C>, Refused<Self>> {
        self.send.ring.mark_end();
        let (sends, receives) = (self.send.ring.outstanding(), self.receive.ring.outstanding());
        if sends != 0 || receives != 0 {
            let error = Error::NotDrained { sends, receives };
            return Err(Refused { object: self, error });
        }
        let packet_sequence = match builder::packet_sequence(&self.pair().context) {
            Ok(packet_sequence) => packet_sequence,
            Err(error) => return Err(Refused { object: self, error }),
        };
        if let Err(error) = connect::to_reset(self.pair()) {
            return Err(Refused { object: self, error });
        }
        // SAFETY: S1: the kernel has reset the queue pair, so that the NIC does not use its rings;
        // and all that was posted has completed, so that no poller does.
        unsafe {
            self.send.ring.reset();
            self.receive.ring.reset();
        }
        self.send.packet_sequence = packet_sequence;
        self.send.peer = None;
        Ok(self.into_state())
    }
}

impl<S: State, V: Uverbs, C: Caching> fmt::Debug for QueuePair<S, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = core::any::type_name::<S>().rsplit("::").next().unwrap_or_default();
        f.debug_struct("QueuePair").field("state", &state).field("number", &self.number()).finish()
    }
}

//! Queue pairs: made, connected, taken down. Posting is in [`send`] and [`receive`].

mod builder;
mod connect;
mod receive;
mod send;

pub use builder::QueuePairBuilder;
pub use receive::ReceiveQueue;
pub use send::SendQueue;

use super::abi::command::DestroyQueuePair;
use super::abi::doorbell::QueueNumber;
use super::context::{Context, MTU};
use super::cq::CompletionShared;
use super::memory::PageTable;
use super::ring::InFlight;
use crate::completion::QueuePairIndex;
use crate::endpoint::{Endpoint, LinkLayer};
use crate::error::{Error, Refused, destroy_alone};
use crate::ring::committed;
use crate::state::{CanReceive, Errored, Reset, Rts, State};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use doorbell_hal::pci::PciFunction;
use doorbell_hal::sync::{AtomicBool, Ordering};
use zerocopy::FromZeros;

/// A queue pair in state `S`: a send ring and a receive ring, connected to one queue pair of a peer
/// or on the way there.
///
/// `F` is how its NIC's function is held.
///
/// ```text
/// Reset --init--> Init --ready_to_receive--> Rtr --ready_to_send--> Rts --split--> queues
///   ^                                                                |
///   +------------- reset, once drained -- Errored <------ fail ------+
/// ```
///
/// A transition consumes the queue pair; one that the firmware refuses gives it back, as it was.
pub struct QueuePair<S: State, F: PciFunction> {
    send: SendQueue<F>,
    receive: ReceiveQueue<F>,
    state: PhantomData<S>,
}

/// Both queues of a queue pair.
pub type Queues<F> = (SendQueue<F>, ReceiveQueue<F>);

/// What both queues of a queue pair hold of it.
struct Pair<F: PciFunction> {
    context: Arc<Context<F>>,
    number: QueueNumber,
    read_depth: u8,
    send_completions: Arc<CompletionShared<F>>,
    receive_completions: Arc<CompletionShared<F>>,
    /// What it takes of each completion queue.
    send_entries: u64,
    receive_entries: u64,
    resources: Arc<Resources<F>>,
    /// `None` once it was destroyed, or kept.
    parts: Option<Parts<F>>,
}

/// What goes back when the firmware has destroyed a queue pair.
struct Parts<F: PciFunction> {
    _send: (F::Memory, PageTable<F>),
    _receive: (F::Memory, PageTable<F>),
    /// The tables of outbound and inbound reads and atomics.
    _reads: [F::Memory; 2],
}

/// What completions of a queue pair need: it outlives the queue pair until none can be left.
pub(super) struct Resources<F: PciFunction> {
    context: Arc<Context<F>>,
    index: u32,
    in_flight: InFlight,
    /// Whether the index may be used again.
    reusable: AtomicBool,
}

impl<F: PciFunction> Drop for Resources<F> {
    fn drop(&mut self) {
        if self.reusable.load(Ordering::Relaxed) {
            self.context.return_index(self.index);
        }
    }
}

impl<F: PciFunction> Pair<F> {
    /// Has the firmware destroy the queue pair, unless that was done.
    fn destroy(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            return Ok(());
        }
        let command =
            DestroyQueuePair { qp_cid: self.number.get().into(), ..FromZeros::new_zeroed() };
        self.context.command(command, &mut [])?;
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
        let index = self.resources.index;
        self.context.remove_queue_pair(self.number.get());
        // A poller that flushes looks the queue pair up under the lock that this takes: it has looked
        // before, or finds nothing.
        self.context.failures.remove(index);
        committed::retire(&self.context.table, index, queues, &self.resources);
    }
}

impl<F: PciFunction> Drop for Pair<F> {
    fn drop(&mut self) {
        if self.destroy().is_err()
            && let Some(parts) = self.parts.take()
        {
            // The NIC may still use the rings.
            self.context.keep(parts);
            // It may go on completing entries, which so stay set aside.
            (self.send_entries, self.receive_entries) = (0, 0);
            self.retire();
        }
    }
}

impl<S: State, F: PciFunction> QueuePair<S, F> {
    fn into_state<T: State>(self) -> QueuePair<T, F> {
        let QueuePair { send, receive, .. } = self;
        QueuePair { send, receive, state: PhantomData }
    }

    fn pair(&self) -> &Pair<F> {
        &self.send.pair
    }

    /// The queue pair's number.
    pub fn number(&self) -> u32 {
        self.pair().number.get()
    }

    /// Names the queue pair in completions.
    pub fn index(&self) -> QueuePairIndex {
        QueuePairIndex(self.pair().resources.index)
    }

    /// What a peer needs to know to connect to this queue pair. Changes with each
    /// [`reset`](Self::reset).
    pub fn endpoint(&self) -> Endpoint {
        let Pair { context, number, read_depth, .. } = self.pair();
        Endpoint {
            link: LinkLayer::Ethernet,
            mtu: MTU,
            read_depth: *read_depth,
            address: context.facts.mac,
            queue_pair: number.get(),
            packet_sequence: self.send.packet_sequence,
            gid: context.facts.gid,
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
            Ok(_) => return Ok(()),
            Err(refused) => refused,
        };
        let receive = ReceiveQueue { ring: receive_ring, pair: pair.clone() };
        let send = SendQueue { ring: send_ring, pair, packet_sequence, peer };
        Err(Refused { object: QueuePair { send, receive, state }, error })
    }
}

impl<S: CanReceive, F: PciFunction> QueuePair<S, F> {
    /// The receive queue.
    pub fn receives(&mut self) -> &mut ReceiveQueue<F> {
        &mut self.receive
    }

    /// Takes the queue pair down: everything outstanding completes as flushed.
    ///
    /// Also for a queue pair that failed by itself, whose state the type cannot know.
    pub fn fail(mut self) -> Result<QueuePair<Errored, F>, Refused<Self>> {
        // Entries that were posted and not rung are flushed like the others.
        self.send.ring();
        self.receive.ring();
        match connect::to_error(self.pair()) {
            Ok(()) => {
                let pair = self.pair();
                pair.context.failures.take_down(pair.resources.index);
                Ok(self.into_state())
            }
            Err(error) => Err(Refused { object: self, error }),
        }
    }
}

impl<F: PciFunction> QueuePair<Rts, F> {
    /// The send queue.
    pub fn sends(&mut self) -> &mut SendQueue<F> {
        &mut self.send
    }

    /// Both queues, each to be used by a thread of its own. [`join`](Self::join) puts them together
    /// again; the queue pair is destroyed when both are dropped.
    pub fn split(self) -> Queues<F> {
        (self.send, self.receive)
    }

    /// The queue pair of two queues that were [`split`](Self::split). Queues of two different queue
    /// pairs are given back.
    pub fn join(send: SendQueue<F>, receive: ReceiveQueue<F>) -> Result<Self, Refused<Queues<F>>> {
        if !Arc::ptr_eq(&send.pair, &receive.pair) {
            let error = Error::Mismatched { what: "the send queue and the receive queue" };
            return Err(Refused { object: (send, receive), error });
        }
        Ok(QueuePair { send, receive, state: PhantomData })
    }
}

impl<F: PciFunction> QueuePair<Errored, F> {
    /// Whether all that was outstanding has completed, and its completion queues were seen empty since:
    /// poll until it says so.
    pub fn is_drained(&mut self) -> bool {
        let pair = self.pair();
        let emptied = pair.context.failures.is_emptied(pair.resources.index);
        emptied && self.send.ring.outstanding() == 0 && self.receive.ring.outstanding() == 0
    }

    /// Makes the queue pair as good as new, with a new first packet sequence number. It must be
    /// drained: until then this is refused, and says what is outstanding.
    pub fn reset(mut self) -> Result<QueuePair<Reset, F>, Refused<Self>> {
        let (sends, receives) = (self.send.ring.outstanding(), self.receive.ring.outstanding());
        // A completion that is left would be taken for one of the next connection.
        if !self.is_drained() {
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
        let pair = self.pair();
        pair.context.failures.remove(pair.resources.index);
        // SAFETY: S1: the firmware has reset the queue pair, so that the NIC does not use its rings;
        // all that was posted has completed, so that no poller reads it; and none flushes it, as it
        // is no failure any more.
        unsafe {
            self.send.ring.reset();
            self.receive.ring.reset();
        }
        self.send.packet_sequence = packet_sequence;
        self.send.peer = None;
        Ok(self.into_state())
    }
}

impl<S: State, F: PciFunction> fmt::Debug for QueuePair<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = core::any::type_name::<S>().rsplit("::").next().unwrap_or_default();
        f.debug_struct("QueuePair").field("state", &state).field("number", &self.number()).finish()
    }
}

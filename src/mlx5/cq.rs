//! Completion queues.

use super::Nic;
use super::abi::cqe;
use super::abi::driver;
use super::abi::verbs::method::{self, UHW_IN, UHW_OUT};
use super::abi::verbs::write::DestroyCqResp;
use super::abi::{U24, uar};
use super::call::Call;
use super::context::{Context, Record, RegisterOf};
use super::event::{Channel, EventChannel};
use super::qp::Resources;
use super::ring::completion::{CompletionParts, CompletionRing};
use super::ring::segment::CompletionSlot;
use super::ring::{Committed, EventCount};
use crate::completion::Completion;
use crate::error::{Error, Refused, destroy_alone};
use crate::event::{CompletionQueueId, Notified, Polled};
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::uverbs::Uverbs;
use zerocopy::FromZeros;

/// A ring where the NIC reports the entries that completed.
///
/// One thread at a time polls and arms it. Queue pairs keep what they need of it: it can be dropped
/// while they live, after which their completions go unseen.
pub struct CompletionQueue<V: Uverbs, N = Polled> {
    ring: CompletionRing<RegisterOf<V>>,
    pub(super) shared: Arc<CompletionShared<V>>,
    notified: PhantomData<N>,
}

/// A completion queue as its queue pairs see it.
pub(super) struct CompletionShared<V: Uverbs> {
    pub(super) context: Arc<Context<V>>,
    pub(super) handle: u32,
    /// The number that events carry.
    id: u64,
    events: Arc<EventCount>,
    pub(super) channel: Option<Arc<Channel<V>>>,
    /// Queue pairs that are gone leave their resources here.
    pub(super) committed: Committed<Arc<Resources<V>>>,
    /// `None` once it was destroyed, or kept.
    parts: Option<(V::Memory, Record<V>)>,
}

/// The register that arms completion queues is 8 bytes long.
const ARM_REGISTER_BYTES: usize = size_of::<u64>();

impl<V: Uverbs> Nic<V> {
    /// Makes a completion queue of at least `entries` entries, from 1 to
    /// [`max_completions`](Self::max_completions).
    pub fn completion_queue(&self, entries: u32) -> Result<CompletionQueue<V>, Error> {
        self.make_completion_queue(entries, None)
    }

    /// Makes a completion queue of at least `entries` entries whose events, and those of its queue
    /// pairs, arrive at `channel`.
    pub fn completion_queue_with_events(
        &self,
        entries: u32,
        channel: &EventChannel<V>,
    ) -> Result<CompletionQueue<V, Notified>, Error> {
        if !Arc::ptr_eq(&self.context, &channel.shared.context) {
            return Err(Error::Mismatched { what: "the event channel and the NIC" });
        }
        self.make_completion_queue(entries, Some(channel.shared.clone()))
    }

    fn make_completion_queue<N>(
        &self,
        entries: u32,
        channel: Option<Arc<Channel<V>>>,
    ) -> Result<CompletionQueue<V, N>, Error> {
        let context = &self.context;
        let most = context.limits.completion_entries;
        if !(1..=most).contains(&entries) {
            let (given, most) = (entries.into(), most.into());
            let what = "a completion queue's number of entries";
            return Err(Error::OutOfRange { what, given, least: 1, most });
        }
        // A ring holds one entry fewer than it has, to the kernel.
        let len = (entries + 1).next_power_of_two();
        let memory = context.allocate(len as usize * size_of::<CompletionSlot>())?;
        let slots = memory.as_ptr().cast::<CompletionSlot>();
        for slot in 0..len as usize {
            // SAFETY: M1: the memory is ours, page aligned, and has room for `len` slots.
            unsafe { slots.add(slot).write(CompletionSlot::fresh()) };
        }
        let arm_register =
            context.uncached.register(&context.verbs, uar::CQ_ARM_OFFSET, ARM_REGISTER_BYTES)?;
        let record = context.take_record()?;
        let events = Arc::new(EventCount::new());
        let id = context.add_counter(Arc::downgrade(&events));
        let created = create(context, len, slots, &record, id, channel.as_deref());
        let (handle, number) = created.inspect_err(|_| context.remove_counter(id))?;
        let [consumer_record, arm_record] = record.words();
        let shared = Arc::new(CompletionShared {
            context: context.clone(),
            handle,
            id,
            events,
            channel,
            committed: Committed::new(len - 1),
            parts: Some((memory, record)),
        });
        let parts = CompletionParts {
            slots,
            len,
            consumer_record,
            arm_record,
            table: NonNull::from(&context.table),
            events: NonNull::from(&*shared.events),
            arm_register,
            number,
        };
        // SAFETY: Q1: memory, record, counter and table are `shared`'s or its context's, which the
        // completion queue holds for as long as its ring. What the table holds, `Resources`, is kept
        // by `committed` until it finds the ring empty, or `shared` is gone.
        let ring = unsafe { CompletionRing::new(parts) };
        Ok(CompletionQueue { ring, shared, notified: PhantomData })
    }
}

/// Has the kernel make the completion queue: its handle and its number.
fn create<V: Uverbs>(
    context: &Context<V>,
    len: u32,
    slots: NonNull<CompletionSlot>,
    record: &Record<V>,
    id: u64,
    channel: Option<&Channel<V>>,
) -> Result<(u32, U24), Error> {
    const CALL: &str = "CREATE_CQ";
    let page = u16::try_from(context.uncached.id).map_err(|_| Error::Answer {
        device: context.verbs.device_name().into(),
        call: CALL,
        wrong: "a register page number over 65535:",
        value: context.uncached.id.into(),
    })?;
    let request = driver::CreateCq {
        buf_addr: slots.as_ptr() as u64,
        db_addr: record.address(),
        cqe_size: size_of::<cqe::Completion>() as u32,
        flags: driver::CreateCqFlags::new().with_uar_page_index(true),
        uar_page_index: page,
        ..FromZeros::new_zeroed()
    };
    let mut response = driver::CreateCqResp::new_zeroed();
    let mut entries = 0u32;
    use method::create_cq as attribute;
    let mut call = Call::new(CALL, method::cq::CREATE)
        .new_handle(attribute::HANDLE)
        .number(attribute::CQE, len - 1)
        .constant(attribute::USER_HANDLE, id)
        .number(attribute::COMP_VECTOR, 0)
        .output(attribute::RESP_CQE, &mut entries)
        .input(UHW_IN, &request)
        .output(UHW_OUT, &mut response);
    if let Some(channel) = channel {
        call = call
            .descriptor(attribute::COMP_CHANNEL, channel.completion)
            .descriptor(attribute::EVENT_FD, channel.asynchronous);
    }
    // SAFETY: K2: ring and record stay mapped until the queue is destroyed, or are kept.
    let answer = unsafe { call.make(&context.verbs) }?;
    Ok((answer.handle(attribute::HANDLE), U24::truncate(response.cqn)))
}

impl<V: Uverbs, N> CompletionQueue<V, N> {
    /// The next completion, if one has come. Never waits.
    ///
    /// It frees the slots of the request or receive that completed, and, as requests of a queue pair
    /// complete in order, those of the unsignaled requests before it.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<Completion> {
        self.shared.committed.poll(&mut self.ring)
    }

    /// How many entries it holds.
    pub fn entries(&self) -> u32 {
        self.shared.committed.holds()
    }

    /// Names the queue in events.
    pub fn id(&self) -> CompletionQueueId {
        CompletionQueueId(self.shared.id)
    }

    /// Destroys the queue. A refusal gives it back, as while queue pairs complete into it.
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        let CompletionQueue { ring, shared, notified } = self;
        match destroy_alone(shared, CompletionShared::destroy) {
            Ok(shared) => {
                // The ring's register holds the file open, `shared` what must outlive that.
                drop(ring);
                drop(shared);
                Ok(())
            }
            Err(Refused { object: shared, error }) => {
                Err(Refused { object: CompletionQueue { ring, shared, notified }, error })
            }
        }
    }
}

impl<V: Uverbs> CompletionQueue<V, Notified> {
    /// Asks for one event when the next completion comes.
    ///
    /// A completion that came since the last poll raises the event at once. So: poll until there is
    /// nothing, arm, wait; no completion is slept through.
    #[inline]
    pub fn arm(&mut self) {
        self.ring.arm(false);
    }

    /// Asks for one event when the next completion comes that its sender asked to be solicited, or
    /// that is a failure.
    #[inline]
    pub fn arm_solicited(&mut self) {
        self.ring.arm(true);
    }
}

impl<V: Uverbs> CompletionShared<V> {
    fn destroy(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            return Ok(());
        }
        let mut response = DestroyCqResp::new_zeroed();
        use method::destroy_cq as attribute;
        self.context.destroy(
            "DESTROY_CQ",
            method::cq::DESTROY,
            (attribute::HANDLE, self.handle),
            (attribute::RESP, &mut response),
        )?;
        self.context.remove_counter(self.id);
        self.parts = None;
        Ok(())
    }
}

impl<V: Uverbs> Drop for CompletionShared<V> {
    fn drop(&mut self) {
        if self.destroy().is_err()
            && let Some((memory, record)) = self.parts.take()
        {
            // The kernel may still let the NIC write them.
            self.context.remove_counter(self.id);
            self.context.keep(memory);
            record.lose();
        }
    }
}

impl<V: Uverbs, N> fmt::Debug for CompletionQueue<V, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

//! Completion queues.

use super::Nic;
use super::abi::command::{CreateCompletionQueue, DestroyCompletionQueue};
use super::abi::doorbell::QueueNumber;
use super::abi::field::CompletionPages;
use super::abi::page::PAGE_BYTES;
use super::context::{Context, DOORBELL_PAGE, RegisterOf};
use super::event::EventChannel;
use super::memory::{self, PageTable, Purpose};
use super::qp::Resources;
use super::ring::completion::CompletionParts;
use super::ring::slot::CompletionSlot;
use super::ring::{CompletionRing, LastToggle};
use crate::completion::Completion;
use crate::error::{Error, Refused, destroy_alone};
use crate::event::{CompletionQueueId, Notified, Polled};
use crate::ring::committed::Committed;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::time::Duration;
use doorbell_hal::memory::DmaMemory;
use doorbell_hal::pci::PciFunction;
use zerocopy::FromZeros;

/// Polls between two looks at the clock.
const POLLS: u32 = 64;
/// What a wait lets pass between that many polls.
const PAUSE: Duration = Duration::from_micros(1);
/// How often a wait asks for what the firmware has reported by itself.
const SERVICE: Duration = Duration::from_millis(1);

/// A ring where the NIC reports the entries that completed.
///
/// One thread at a time polls it. Queue pairs keep what they need of it: it can be dropped while they
/// live, after which their completions go unseen.
pub struct CompletionQueue<F: PciFunction, N = Polled> {
    ring: CompletionRing<RegisterOf<F>>,
    pub(super) shared: Arc<CompletionShared<F>>,
    notified: PhantomData<N>,
}

/// A completion queue as its queue pairs see it.
pub(super) struct CompletionShared<F: PciFunction> {
    pub(super) context: Arc<Context<F>>,
    pub(super) number: QueueNumber,
    /// The number in its notifications.
    id: u64,
    _toggle: Arc<LastToggle>,
    /// Whether it can be armed, and so has to be forgotten by who reads notifications.
    notified: bool,
    /// Queue pairs that are gone leave their resources here.
    pub(super) committed: Committed<Arc<Resources<F>>>,
    /// `None` once it was destroyed, or kept.
    parts: Option<(F::Memory, PageTable<F>)>,
}

/// What a completion queue leaves that could not be destroyed.
struct Kept<F: PciFunction>(#[allow(dead_code)] Option<(F::Memory, PageTable<F>)>);

impl<F: PciFunction> Nic<F> {
    /// Makes a completion queue of at least `entries` entries, from 1 to
    /// [`max_completions`](Self::max_completions).
    pub fn completion_queue(&self, entries: u32) -> Result<CompletionQueue<F>, Error> {
        self.make_completion_queue(entries, false)
    }

    /// Makes a completion queue of at least `entries` entries whose events arrive at `channel`.
    pub fn completion_queue_with_events(
        &self,
        entries: u32,
        channel: &EventChannel<F>,
    ) -> Result<CompletionQueue<F, Notified>, Error> {
        if !Arc::ptr_eq(&self.context, &channel.context) {
            return Err(Error::Mismatched { what: "the event channel and the NIC" });
        }
        self.make_completion_queue(entries, true)
    }

    fn make_completion_queue<N>(
        &self,
        entries: u32,
        notified: bool,
    ) -> Result<CompletionQueue<F, N>, Error> {
        let context = &self.context;
        let most = context.facts.limits.completion_entries;
        if !(1..=most).contains(&entries) {
            let (given, most) = (entries.into(), most.into());
            let what = "a completion queue's number of entries";
            return Err(Error::OutOfRange { what, given, least: 1, most });
        }
        let holds = entries.next_power_of_two();
        // The NIC is told of what was consumed when it is half of the ring, so it may take as much for
        // used that is not.
        let len = 2 * holds;
        let bytes = len as usize * size_of::<CompletionSlot>();
        let function = &context.function;
        let memory = memory::allocate(function, bytes)?;
        let slots = memory.as_ptr().cast::<CompletionSlot>();
        let table = PageTable::new(function, &memory, bytes, PAGE_BYTES, Purpose::Ring)?;
        let register = context.register()?;
        let id = {
            let mut notifier = context.notifier.lock();
            if notified {
                notifier.check_room()?;
            }
            notifier.take_id()
        };
        let command = CreateCompletionQueue {
            cq_handle: id.into(),
            pg_size_lvl: CompletionPages::new().with_levels(table.levels),
            cq_fco_cnq_id: u32::from(context.facts.notification_ring).into(),
            dpi: DOORBELL_PAGE.into(),
            cq_size: len.into(),
            pbl: table.top.into(),
            ..FromZeros::new_zeroed()
        };
        let number = match context.command(command, &mut []) {
            Ok(event) => event.xid.get(),
            Err(error) => {
                if matches!(error, Error::NoAnswer { .. }) {
                    context.keep(Kept::<F>(Some((memory, table))));
                }
                return Err(error);
            }
        };
        let Some(number) = QueueNumber::new(number) else {
            context.keep(Kept::<F>(Some((memory, table))));
            return Err(wrong_number(context, "CREATE_CQ", number));
        };
        let toggle = Arc::new(LastToggle::new());
        if notified {
            context.notifier.lock().add(id, number, &toggle);
        }
        let parts = CompletionParts {
            slots,
            len,
            table: NonNull::from(&context.table),
            failures: NonNull::from(&context.failures),
            toggle: NonNull::from(&*toggle),
            register,
            number,
        };
        let shared = Arc::new(CompletionShared {
            context: context.clone(),
            number,
            id,
            _toggle: toggle,
            notified,
            committed: Committed::new(holds),
            parts: Some((memory, table)),
        });
        // SAFETY: Q1: memory and table are `shared`'s or its context's, which the completion queue
        // holds for as long as its ring. What the table holds, `Resources`, is kept by `committed`
        // until it finds the ring empty, or `shared` is gone.
        let ring = unsafe { CompletionRing::new(parts) };
        Ok(CompletionQueue { ring, shared, notified: PhantomData })
    }
}

/// An error for an object's number that doorbells cannot carry.
pub(super) fn wrong_number<F: PciFunction>(
    context: &Context<F>,
    call: &'static str,
    number: u32,
) -> Error {
    Error::Answer {
        device: context.facts.device.clone(),
        call,
        wrong: "a number that needs more than 20 bits:",
        value: number.into(),
    }
}

impl<F: PciFunction, N> CompletionQueue<F, N> {
    /// The next completion, if one has come. Never waits.
    ///
    /// It frees the slots of the request or receive that completed, and, as requests of a queue pair
    /// complete in order, those of the unsignaled requests before it.
    #[inline(always)]
    pub fn poll(&mut self) -> Option<Completion> {
        self.shared.committed.poll(&mut self.ring)
    }

    /// The next completion, or `None` once `timeout` has passed. Polls meanwhile.
    pub fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        let context = self.shared.context.clone();
        let start = context.function.now();
        let mut serviced = start;
        loop {
            for _ in 0..POLLS {
                let completion = self.poll();
                if completion.is_some() {
                    return completion;
                }
            }
            let now = context.function.now();
            if now.saturating_sub(start) >= timeout {
                return None;
            }
            if now.saturating_sub(serviced) >= SERVICE {
                // Whatever failed by itself is flushed at the next poll.
                context.service();
                serviced = now;
            }
            context.function.pause(PAUSE);
        }
    }

    /// How many entries it holds.
    pub fn entries(&self) -> u32 {
        self.shared.committed.holds()
    }

    /// Destroys the queue. A refusal gives it back, as while queue pairs complete into it.
    pub fn destroy(self) -> Result<(), Refused<Self>> {
        let CompletionQueue { ring, shared, notified } = self;
        match destroy_alone(shared, CompletionShared::destroy) {
            Ok(shared) => {
                // The ring's register is of the context that `shared` holds.
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

impl<F: PciFunction> CompletionQueue<F, Notified> {
    /// Arms the queue: its channel gets an event with the next completion, or at once if one has come
    /// that was not polled. One event for each arm.
    ///
    /// Poll until there is nothing, arm, and wait: then no completion is slept through. No system call, no
    /// lock.
    #[inline]
    pub fn arm(&mut self) {
        self.ring.arm(false);
    }

    /// Arms the queue for a completion that the peer [solicited](crate::wr::WorkRequest::solicited), or
    /// that is a failure.
    #[inline]
    pub fn arm_solicited(&mut self) {
        self.ring.arm(true);
    }

    /// What names the queue in events.
    pub fn id(&self) -> CompletionQueueId {
        CompletionQueueId(self.shared.id)
    }
}

impl<F: PciFunction> CompletionShared<F> {
    /// Has whoever reads notifications forget it.
    fn forget(&self) {
        if self.notified {
            self.context.notifier.lock().remove(self.id);
        }
    }

    fn destroy(&mut self) -> Result<(), Error> {
        if self.parts.is_none() {
            return Ok(());
        }
        let command =
            DestroyCompletionQueue { cq_cid: self.number.get().into(), ..FromZeros::new_zeroed() };
        self.context.command(command, &mut [])?;
        self.parts = None;
        self.forget();
        Ok(())
    }
}

impl<F: PciFunction> Drop for CompletionShared<F> {
    fn drop(&mut self) {
        if self.destroy().is_err() {
            // The NIC may still write it.
            self.forget();
            self.context.keep(Kept::<F>(self.parts.take()));
        }
    }
}

impl<F: PciFunction, N> fmt::Debug for CompletionQueue<F, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("entries", &self.entries()).finish_non_exhaustive()
    }
}

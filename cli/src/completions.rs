//! Waiting for completions: by polling, or by events.

use crate::failure::Failure;
use crate::family::{Announce, Connectx, Family, Sizes};
use doorbell::completion::{Completion, Received, Sent};
use doorbell::error::Error;
use doorbell::family::CompletionQueue as _;
use doorbell::mlx5::{self, Event, EventChannel, Notified};
use doorbell_hal::uverbs::Uverbs;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long something is waited for.
#[derive(Clone, Debug)]
pub struct Patience {
    most: Duration,
    polls: u32,
    interrupted: Arc<AtomicBool>,
}

/// Looks, now and then, whether waiting has become pointless.
pub type Meanwhile<'a> = &'a mut dyn FnMut() -> Result<(), Failure>;

/// Polls before the processor is offered to others, on a NIC of hardware: some 20 microseconds,
/// which is longer than a NIC takes.
const HARDWARE_POLLS: u32 = 1024;
/// The same on a virtual NIC, whose thread may be waiting for this very processor.
const VIRTUAL_POLLS: u32 = 32;

/// The longest that an event is waited for before a look at the clock.
const NAP: Duration = Duration::from_millis(100);

impl Patience {
    /// With a NIC that may be virtual: for `most`, or until `interrupted` says so.
    pub fn new(is_virtual: bool, most: Duration, interrupted: Arc<AtomicBool>) -> Self {
        let polls = if is_virtual { VIRTUAL_POLLS } else { HARDWARE_POLLS };
        Patience { most, polls, interrupted }
    }

    /// How long something is waited for.
    pub fn most(&self) -> Duration {
        self.most
    }

    /// Fails if somebody wants the program to end.
    pub fn check(&self) -> Result<(), Failure> {
        match self.interrupted.load(Ordering::Relaxed) {
            true => Err(Failure::Interrupted),
            false => Ok(()),
        }
    }

    /// Fails if `what` was waited for too long. `since` is when the first look was.
    fn check_since(&self, since: &mut Option<Instant>, what: &'static str) -> Result<(), Failure> {
        self.check()?;
        if since.get_or_insert_with(Instant::now).elapsed() > self.most {
            return Err(Failure::TimedOut { what, after: self.most });
        }
        Ok(())
    }

    /// Calls `poll` until it answers something.
    ///
    /// What comes as soon as from a NIC is met by nothing but polls. After that the processor is
    /// offered to others, and `meanwhile` looks whether something has failed.
    #[inline]
    pub fn poll<T>(
        &self,
        what: &'static str,
        meanwhile: Meanwhile<'_>,
        mut poll: impl FnMut() -> Option<T>,
    ) -> Result<T, Failure> {
        let mut since = None;
        loop {
            for _ in 0..self.polls {
                if let Some(answer) = poll() {
                    return Ok(answer);
                }
                hint::spin_loop();
            }
            meanwhile()?;
            self.check_since(&mut since, what)?;
            thread::yield_now();
        }
    }
}

/// A completion queue, and how it is waited for.
pub trait Completions<F: Family>: Sized {
    /// Whether waiting gives the processor away.
    const SLEEPS: bool;

    /// Makes a completion queue of at least `entries` entries.
    fn make(nic: &F::Nic, entries: u32) -> Result<Self, Error>;

    /// Makes a queue pair whose requests complete into `sent` and whose receives into `received`.
    fn queue_pair(
        nic: &F::Nic,
        sent: &Self,
        received: &Self,
        sizes: Sizes,
    ) -> Result<F::QueuePair, Error>;

    /// A completion of a receive, if one is there.
    fn poll_received(&mut self) -> Result<Option<Received>, Failure>;

    /// A completion of a request, if one is there.
    fn poll_sent(&mut self) -> Result<Option<Sent>, Failure>;

    /// The next completion. `what` is what it says, for an error.
    fn next(
        &mut self,
        patience: &Patience,
        what: &'static str,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Completion, Failure>;

    /// The next completion, which must be of a request.
    #[inline]
    fn sent(&mut self, patience: &Patience) -> Result<Sent, Failure> {
        sent(self.next(patience, "completion of a request", &mut || Ok(()))?)
    }

    /// The next completion, which must be of a receive.
    #[inline]
    fn received(
        &mut self,
        patience: &Patience,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Received, Failure> {
        received(self.next(patience, "completion of a receive", meanwhile)?)
    }
}

#[inline]
fn received(completion: Completion) -> Result<Received, Failure> {
    match completion {
        Completion::Received(received) => Ok(received),
        other => Err(unexpected(other)),
    }
}

#[inline]
fn sent(completion: Completion) -> Result<Sent, Failure> {
    match completion {
        Completion::Sent(sent) => Ok(sent),
        other => Err(unexpected(other)),
    }
}

#[cold]
fn unexpected(completion: Completion) -> Failure {
    match completion {
        Completion::Failed(failed) => Failure::Completion(failed),
        Completion::Unrecognized(unrecognized) => Failure::Unrecognized(unrecognized),
        other => Failure::Wrong {
            what: "a completion",
            expected: "of the queue that it came from".into(),
            found: format!("{other:?}"),
        },
    }
}

/// Polls.
pub struct Polling<F: Family>(F::Queue);

impl<F: Family> Completions<F> for Polling<F> {
    const SLEEPS: bool = false;

    fn make(nic: &F::Nic, entries: u32) -> Result<Self, Error> {
        Ok(Polling(F::completion_queue(nic, entries)?))
    }

    fn queue_pair(
        nic: &F::Nic,
        sent: &Self,
        received: &Self,
        sizes: Sizes,
    ) -> Result<F::QueuePair, Error> {
        F::queue_pair(nic, &sent.0, &received.0, sizes)
    }

    #[inline]
    fn poll_received(&mut self) -> Result<Option<Received>, Failure> {
        self.0.poll().map(received).transpose()
    }

    #[inline]
    fn poll_sent(&mut self) -> Result<Option<Sent>, Failure> {
        self.0.poll().map(sent).transpose()
    }

    #[inline]
    fn next(
        &mut self,
        patience: &Patience,
        what: &'static str,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Completion, Failure> {
        patience.poll(what, meanwhile, || self.0.poll())
    }
}

/// Arms, and sleeps until an event comes.
pub struct Sleeping<V: Uverbs> {
    queue: mlx5::CompletionQueue<V, Notified>,
    channel: EventChannel<V>,
}

impl<V: Uverbs, C: Announce> Completions<Connectx<V, C>> for Sleeping<V> {
    const SLEEPS: bool = true;

    fn make(nic: &mlx5::Nic<V>, entries: u32) -> Result<Self, Error> {
        let channel = nic.event_channel()?;
        let queue = nic.completion_queue_with_events(entries, &channel)?;
        Ok(Sleeping { queue, channel })
    }

    fn queue_pair(
        nic: &mlx5::Nic<V>,
        sent: &Self,
        received: &Self,
        sizes: Sizes,
    ) -> Result<<Connectx<V, C> as Family>::QueuePair, Error> {
        Connectx::<V, C>::queue_pair_into(nic, &sent.queue, &received.queue, sizes)
    }

    fn poll_received(&mut self) -> Result<Option<Received>, Failure> {
        self.queue.poll().map(received).transpose()
    }

    fn poll_sent(&mut self) -> Result<Option<Sent>, Failure> {
        self.queue.poll().map(sent).transpose()
    }

    fn next(
        &mut self,
        patience: &Patience,
        what: &'static str,
        meanwhile: Meanwhile<'_>,
    ) -> Result<Completion, Failure> {
        let mut since = None;
        loop {
            if let Some(completion) = self.queue.poll() {
                return Ok(completion);
            }
            // A completion that came after the poll raises its event at once.
            self.queue.arm();
            for event in self.channel.wait(NAP.min(patience.most))? {
                match event {
                    Event::DeviceFailed | Event::CompletionQueueFailed(_) => {
                        return Err(Failure::Event(event));
                    }
                    // What happens to a queue pair is told by completions, and better.
                    _ => {}
                }
            }
            meanwhile()?;
            patience.check_since(&mut since, what)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience(interrupted: bool) -> Patience {
        Patience::new(true, Duration::ZERO, Arc::new(AtomicBool::new(interrupted)))
    }

    #[test]
    fn what_does_not_come_is_an_error_that_names_it() {
        let waited = patience(false).poll("train", &mut || Ok(()), || None::<()>);
        assert!(matches!(waited, Err(Failure::TimedOut { what: "train", .. })));
    }

    #[test]
    fn waiting_ends_when_somebody_interrupts_or_something_fails() {
        let waited = patience(true).poll("train", &mut || Ok(()), || None::<()>);
        assert!(matches!(waited, Err(Failure::Interrupted)));
        let mut fails = || Err(Failure::Usage("no such train".into()));
        let waited = patience(false).poll("train", &mut fails, || None::<()>);
        assert!(matches!(waited, Err(Failure::Usage(_))));
    }

    #[test]
    fn what_is_there_is_found_however_late_it_is() {
        let mut polls = 0;
        let waited = patience(true).poll("train", &mut || Ok(()), || {
            polls += 1;
            (polls == VIRTUAL_POLLS).then_some(polls)
        });
        assert_eq!(waited.unwrap(), VIRTUAL_POLLS);
    }
}

//! The rounds of a measurement: a message there, one back, and a check of both.
//!
//! A round is made ready, then timed, then checked. What is timed is what an engine would do: post,
//! ring, and look for what comes. It allocates nothing and makes no system call, unless it sleeps
//! for events or waits for longer than a NIC takes.

use super::end::End;
use super::exchange::{Atomic, Exchange, Moves, Request, Seen};
use super::verify::{Contents, GUARD, Verifier, same};
use crate::arguments::Op;
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use doorbell::completion::{Received, Sent, Status};
use doorbell::mlx5::Region;
use doorbell::mlx5::access::RemoteAtomic;
use doorbell::wr;
use doorbell_hal::mmio::Caching;
use doorbell_hal::uverbs::Uverbs;
use hdrhistogram::Histogram;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// What is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub op: Op,
    pub size: u32,
    pub iterations: u64,
    pub warmup: u64,
}

/// What was measured.
pub struct Measured {
    pub plan: Plan,
    /// Half of each round's time, in nanoseconds.
    pub half_round_trips: Histogram<u64>,
    /// All rounds together, without what lies between them.
    pub time: Duration,
    /// Bytes that moved and were found to be right, those of the warm-up included.
    pub verified_bytes: u64,
    /// Their messages.
    pub verified_messages: u64,
}

/// Longer times count as this.
const LONGEST: Duration = Duration::from_secs(3600);

/// Two connected ends, and what a measurement of them needs.
pub struct Match<V: Uverbs, C: Caching, W> {
    pub ends: [End<V, C, W>; 2],
    pub patience: Patience,
    pub seed: u64,
    /// Whether the bytes travel in the requests, where they can.
    pub inline: bool,
    pub verifier: Verifier,
}

/// One way of a round, made ready.
struct Way<'a> {
    request: Request<'a>,
    contents: Contents,
    size: usize,
    /// The last byte, once it has moved.
    last: u8,
}

/// What came of it, besides the bytes.
#[derive(Default)]
struct Outcome {
    /// The completion of the request, if it was there before the clock stopped.
    sent: Option<Sent>,
    received: Option<Received>,
}

impl<V: Uverbs, C: Caching, W: Completions<V>> Match<V, C, W> {
    /// Measures `plan`. `after_round` is called between rounds.
    pub fn measure<E: Exchange>(
        &mut self,
        plan: &Plan,
        mut after_round: impl FnMut(),
    ) -> Result<Measured, Failure> {
        let longest = LONGEST.as_nanos() as u64;
        let mut measured = Measured {
            plan: *plan,
            // These bounds are in order, and three digits are few enough.
            half_round_trips: Histogram::new_with_bounds(1, longest, 3).expect("sound bounds"),
            time: Duration::ZERO,
            verified_bytes: 0,
            verified_messages: 0,
        };
        let inlined = if self.inline && E::OP.can_inline() { plan.size as usize } else { 0 };
        let mut inline = [vec![0; inlined], vec![0; inlined]];
        for round in 0..plan.warmup + plan.iterations {
            self.patience.check()?;
            let (time, bytes) = self.round::<E>(plan.size as usize, round, &mut inline)?;
            measured.verified_bytes += bytes;
            measured.verified_messages += 2;
            if round >= plan.warmup {
                let half = (time.as_nanos() as u64 / 2).max(1);
                measured.half_round_trips.saturating_record(half);
                measured.time += time;
            }
            after_round();
        }
        Ok(measured)
    }

    /// One message there and one back: how long it took, and how many bytes were verified.
    fn round<E: Exchange>(
        &mut self,
        size: usize,
        round: u64,
        inline: &mut [Vec<u8>; 2],
    ) -> Result<(Duration, u64), Failure> {
        let Match { ends: [first, second], patience, seed, verifier, .. } = self;
        let [ping_inline, pong_inline] = inline;
        let (ping_number, pong_number) = (2 * round, 2 * round + 1);
        let during = |way: &'static str| {
            move |failure: Failure| {
                failure.during(|| format!("{}, {size} bytes, round {round}, {way}", E::OP))
            }
        };
        let (there, back) = (during("there"), during("back"));

        let message = |number| (number, Contents::new(*seed, number), size);
        let ping =
            prepare::<E, _, _, _>(first, second, message(ping_number), ping_inline, verifier)
                .map_err(there)?;
        let pong =
            prepare::<E, _, _, _>(second, first, message(pong_number), pong_inline, verifier)
                .map_err(back)?;

        let start = Instant::now();
        let pinged = go::<E, _, _, _>(first, second, &ping, patience).map_err(there)?;
        let ponged = go::<E, _, _, _>(second, first, &pong, patience).map_err(back)?;
        let time = start.elapsed();

        let bytes = check::<E, _, _, _>(first, second, &ping, pinged, patience, verifier)
            .map_err(there)?
            + check::<E, _, _, _>(second, first, &pong, ponged, patience, verifier)
                .map_err(back)?;
        Ok((time, bytes))
    }
}

/// Puts a message where it comes from, clears the way to where it goes to, and makes the request
/// that moves it.
fn prepare<'a, E: Exchange, V: Uverbs, C: Caching, W>(
    from: &mut End<V, C, W>,
    to: &mut End<V, C, W>,
    (number, contents, size): (u64, Contents, usize),
    inline: &'a mut [u8],
    verifier: &mut Verifier,
) -> Result<Way<'a>, Failure> {
    let mut numbers = contents.numbers();
    let immediate = numbers.u32(..);
    let (original, operand) = (numbers.u64(..), numbers.u64(..));
    // A comparison that fails is as good a test as one that does not.
    let compare = if numbers.u8(..4) == 0 { !original } else { original };
    let atomic = Atomic { original, operand, compare };

    let message = GUARD..GUARD + size;
    let within = message.start as u64..message.end as u64;
    let (local, remote, last) = match E::MOVES {
        Moves::There => {
            verifier.put_opposite(&to.memory.target, size, contents)?;
            let last = verifier.put(&from.memory.source, size, contents)?;
            (from.memory.source.slice(message)?, from.peer.target.slice(within)?, last)
        }
        Moves::Here => {
            verifier.put_opposite(&from.memory.target, size, contents)?;
            let last = verifier.put(&to.memory.source, size, contents)?;
            (from.memory.target.slice(message)?, from.peer.source.slice(within)?, last)
        }
        Moves::Word => {
            verifier.put_opposite(&from.memory.target, size, contents)?;
            from.memory.target.write_at(GUARD, &(!original).to_ne_bytes())?;
            verifier.put_opposite(&to.memory.source, size, contents)?;
            to.memory.source.write_at(GUARD, &original.to_ne_bytes())?;
            (from.memory.target.slice(message)?, from.peer.source.slice(within)?, 0)
        }
    };
    if E::SEEN == Seen::Receive {
        // The bytes of a write do not go to the receive.
        let room = match E::OP {
            Op::WriteImmediate => 0,
            _ => size,
        };
        let into = to.memory.target.slice(GUARD..GUARD + room)?;
        to.receives.post(wr::receive(into).id(number))?;
        to.receives.ring();
    }
    let inline = if inline.is_empty() {
        None
    } else {
        from.memory.source.read_at(GUARD, inline)?;
        Some(&*inline)
    };
    let request = Request { id: number, local, remote, inline, immediate, atomic };
    Ok(Way { request, contents, size, last })
}

/// Sends a message and sees it arrive. This is what is timed.
#[inline]
fn go<E: Exchange, V: Uverbs, C: Caching, W: Completions<V>>(
    from: &mut End<V, C, W>,
    to: &mut End<V, C, W>,
    way: &Way<'_>,
    patience: &Patience,
) -> Result<Outcome, Failure> {
    E::post(&mut from.sends, &way.request)?;
    from.sends.ring();
    let mut outcome = Outcome::default();
    if E::SEEN == Seen::Request || (E::SEEN == Seen::Memory && W::SLEEPS) {
        outcome.sent = Some(from.sent.sent(patience)?);
    }
    // A request that fails is not to be waited for at the other end.
    let mut has_failed = || {
        if outcome.sent.is_none() {
            outcome.sent = from.sent.poll_sent()?;
        }
        Ok(())
    };
    match E::SEEN {
        Seen::Request => {}
        Seen::Receive => match to.received.received(patience, &mut has_failed) {
            Ok(received) => outcome.received = Some(received),
            Err(failure) => return Err(reason(failure, &mut from.sent, patience)),
        },
        Seen::Memory => {
            let at = GUARD + way.size - 1;
            patience.poll("last byte of a message", &mut has_failed, || {
                let mut byte = [!way.last];
                // It lies in the region, as the request's slice of it does.
                let _ = to.memory.target.read_at(at, &mut byte);
                (byte[0] == way.last).then_some(())
            })?;
            // Pairs with the NIC writing the last byte last: the others are read after it.
            fence(Ordering::Acquire);
        }
    }
    Ok(outcome)
}

/// Why a receive failed: if it was only flushed, what its sender was told.
#[cold]
fn reason<V: Uverbs, W: Completions<V>>(
    failure: Failure,
    sent: &mut W,
    patience: &Patience,
) -> Failure {
    match &failure {
        Failure::Completion(failed) if failed.status == Status::WorkRequestFlushed => {
            sent.sent(patience).err().unwrap_or(failure)
        }
        _ => failure,
    }
}

/// Checks everything about a message that has arrived. Answers how many bytes of it moved.
fn check<E: Exchange, V: Uverbs, C: Caching, W: Completions<V>>(
    from: &mut End<V, C, W>,
    to: &mut End<V, C, W>,
    way: &Way<'_>,
    outcome: Outcome,
    patience: &Patience,
    verifier: &mut Verifier,
) -> Result<u64, Failure> {
    let Way { request, contents, size, .. } = way;
    let sent = match outcome.sent {
        Some(sent) => sent,
        None => from.sent.sent(patience)?,
    };
    same("the id of the request's completion", request.id, sent.id)?;
    if let Some(received) = outcome.received {
        same("the id of the receive's completion", request.id, received.id)?;
        same("the length in the receive's completion", *size, received.len as usize)?;
        same("what the receive's completion says", E::arrival(request), received.by)?;
    }
    match E::MOVES {
        Moves::There => verifier.check(&to.memory.target, *size, *contents),
        Moves::Here => verifier.check(&from.memory.target, *size, *contents),
        Moves::Word => {
            let word = |region: &Region<RemoteAtomic, V>| {
                let mut bytes = [0; 8];
                region.read_at(GUARD, &mut bytes).map(|()| u64::from_ne_bytes(bytes))
            };
            let (fetched, left) = (word(&from.memory.target)?, word(&to.memory.source)?);
            same("the word that was fetched", request.atomic.original, fetched)?;
            same("the word that was left", E::outcome(&request.atomic), left)?;
            verifier.check_guards(&from.memory.target, *size)?;
            verifier.check_guards(&to.memory.source, *size)?;
            // The word that was fetched, and the one that was left.
            Ok(2 * *size as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::{Polling, Sleeping};
    use crate::nics;
    use crate::pingpong::end::connected;
    use crate::pingpong::exchange::{self, CompareSwap, FetchAdd, Read, WriteImmediate};
    use doorbell::completion::Arrival;
    use doorbell::mlx5::Connection;
    use doorbell::wr::RemoteSlice;
    use doorbell_hal::mmio::Uncached;
    use doorbell_model::VirtualConnectx;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    type Ends<W> = [End<VirtualConnectx, Uncached, W>; 2];

    const SIZE: usize = 5000;

    fn ends<W: Completions<VirtualConnectx>>() -> Ends<W> {
        let nic = nics::open_virtual().unwrap();
        connected(&nic, SIZE, &Connection::new()).unwrap()
    }

    fn patience() -> Patience {
        Patience::new(true, Duration::from_secs(60), Arc::new(AtomicBool::new(false)))
    }

    /// Moves one message, lets `spoil` have it, and checks it.
    fn spoiled<E: Exchange>(
        size: usize,
        spoil: impl FnOnce(&mut Ends<Polling<VirtualConnectx>>, &mut Outcome),
    ) -> Result<u64, Failure> {
        let (mut ends, patience, mut verifier) =
            (ends::<Polling<_>>(), patience(), Verifier::new());
        let [from, to] = &mut ends;
        let message = (6, Contents::new(1, 6), size);
        let way = prepare::<E, _, _, _>(from, to, message, &mut [], &mut verifier)?;
        let mut outcome = go::<E, _, _, _>(from, to, &way, &patience)?;
        // So that the NIC is done with the memory.
        if outcome.sent.is_none() {
            outcome.sent = Some(from.sent.sent(&patience)?);
        }
        spoil(&mut ends, &mut outcome);
        let [from, to] = &mut ends;
        check::<E, _, _, _>(from, to, &way, outcome, &patience, &mut verifier)
    }

    fn flip(region: &Region<RemoteAtomic, VirtualConnectx>, at: usize) {
        let mut byte = [0];
        region.read_at(at, &mut byte).unwrap();
        region.write_at(at, &[byte[0] ^ 1]).unwrap();
    }

    #[test]
    fn a_byte_that_is_wrong_after_it_moved_is_noticed() {
        assert_eq!(spoiled::<exchange::Write>(SIZE, |_, _| {}).unwrap(), SIZE as u64);
        for at in [0, SIZE / 2, SIZE - 1] {
            let written = spoiled::<exchange::Write>(SIZE, |[_, to], _| {
                flip(&to.memory.target, GUARD + at);
            });
            assert!(
                matches!(written, Err(Failure::Byte { at: noticed, .. }) if noticed == at as u64)
            );
            let read = spoiled::<Read>(SIZE, |[from, _], _| flip(&from.memory.target, GUARD + at));
            assert!(matches!(read, Err(Failure::Byte { at: noticed, .. }) if noticed == at as u64));
        }
        let beside = spoiled::<exchange::Send>(SIZE, |[_, to], _| {
            flip(&to.memory.target, GUARD + SIZE);
        });
        assert!(beside.unwrap_err().to_string().contains("after the message"));
    }

    #[test]
    fn a_word_that_an_atomic_fetched_or_left_wrong_is_noticed() {
        assert_eq!(spoiled::<FetchAdd>(8, |_, _| {}).unwrap(), 16);
        let fetched = spoiled::<FetchAdd>(8, |[from, _], _| flip(&from.memory.target, GUARD));
        assert!(fetched.unwrap_err().to_string().contains("the word that was fetched"));
        let left = spoiled::<CompareSwap>(8, |[_, to], _| flip(&to.memory.source, GUARD + 7));
        assert!(left.unwrap_err().to_string().contains("the word that was left"));
    }

    #[test]
    fn what_a_completion_says_wrong_is_noticed() {
        let spoil = |spoil: fn(&mut Outcome)| {
            let checked = spoiled::<WriteImmediate>(8, |_, outcome| spoil(outcome));
            checked.map_err(|failure| failure.to_string())
        };
        assert_eq!(spoil(|_| {}), Ok(8));
        let sent = spoil(|outcome| outcome.sent.as_mut().unwrap().id ^= 1);
        assert!(sent.unwrap_err().contains("the id of the request's completion"));
        let id = spoil(|outcome| outcome.received.as_mut().unwrap().id ^= 1);
        assert!(id.unwrap_err().contains("the id of the receive's completion"));
        let len = spoil(|outcome| outcome.received.as_mut().unwrap().len += 1);
        assert!(len.unwrap_err().contains("the length in the receive's completion is 9"));
        let by = spoil(|outcome| outcome.received.as_mut().unwrap().by = Arrival::Send);
        assert!(by.unwrap_err().contains("what the receive's completion says is Send"));
    }

    /// Sends a message that the other end refuses.
    fn refused<E: Exchange, W: Completions<VirtualConnectx>>() -> Failure {
        let (mut ends, mut verifier) = (ends::<W>(), Verifier::new());
        let [from, to] = &mut ends;
        let message = (6, Contents::new(1, 6), 8);
        let mut way = prepare::<E, _, _, _>(from, to, message, &mut [], &mut verifier).unwrap();
        let remote = way.request.remote;
        way.request.remote = RemoteSlice::new(remote.address(), remote.len(), !remote.rkey());
        go::<E, _, _, _>(from, to, &way, &patience()).err().expect("a wrong key is refused")
    }

    #[test]
    fn a_request_that_fails_is_not_waited_for_at_the_other_end() {
        let failures = [
            refused::<exchange::Write, Polling<_>>(),
            refused::<exchange::Write, Sleeping<_>>(),
            refused::<WriteImmediate, Polling<_>>(),
            refused::<WriteImmediate, Sleeping<_>>(),
            refused::<Read, Polling<_>>(),
        ];
        for failure in failures {
            let Failure::Completion(failed) = &failure else { panic!("{failure}") };
            assert_eq!(failed.status, Status::RemoteAccess);
            assert_eq!(failed.id, 6);
        }
    }

    #[test]
    fn a_failure_says_in_which_round_of_what_it_was() {
        let mut players = Match {
            ends: ends::<Polling<_>>(),
            patience: patience(),
            seed: 1,
            inline: false,
            verifier: Verifier::new(),
        };
        // No longer message fits the memory.
        let plan = Plan { op: Op::Read, size: SIZE as u32 + 65, iterations: 1, warmup: 0 };
        let failure = players.measure::<Read>(&plan, || {}).err().unwrap().to_string();
        assert!(failure.starts_with("read, 5065 bytes, round 0, there: bytes"), "{failure}");
    }

    #[test]
    fn comparisons_fail_now_and_then_so_that_both_outcomes_are_checked() {
        let original = |number| {
            let (mut ends, mut verifier) = (ends::<Polling<_>>(), Verifier::new());
            let [from, to] = &mut ends;
            let message = (number, Contents::new(1, number), 8);
            let way = prepare::<CompareSwap, _, _, _>(from, to, message, &mut [], &mut verifier);
            let atomic = way.unwrap().request.atomic;
            atomic.compare == atomic.original
        };
        let equal = (0..32).filter(|&number| original(number)).count();
        assert!((16..32).contains(&equal), "{equal} of 32");
    }
}

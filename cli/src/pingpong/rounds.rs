//! The rounds of a measurement: a message there, one back, and a check of both.
//!
//! A round is made ready, then timed, then checked. What is timed is what an engine would do: post,
//! ring, and look for what comes. It allocates nothing and makes no system call, unless it sleeps
//! for events or waits for longer than a NIC takes.

use super::end::End;
use super::exchange::{Atomic, Exchange, Moves, Request, Seen};
use super::verify::{Contents, GUARD, Verifier, same};
use crate::arguments::Op;
use crate::completions::{Completions, Meanwhile, Patience};
use crate::failure::Failure;
use crate::family::Family;
use doorbell::completion::{Arrival, Received, Sent, Status};
use doorbell::family::{ReceiveQueue, Region, SendQueue};
use doorbell::wr::{self, OutOfBounds};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// What is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub struct Match<F: Family, W> {
    pub ends: [End<F, W>; 2],
    pub patience: Patience,
    pub seed: u64,
    /// Whether the bytes travel in the requests, where they can.
    pub inline: bool,
    pub verifier: Verifier,
}

/// A message, as both ends know it.
#[derive(Clone, Copy)]
pub struct Message {
    /// Counts the messages of a measurement; the id of its request and of its receive.
    number: u64,
    contents: Contents,
    size: usize,
}

impl Message {
    /// Message `number` under `seed`.
    pub fn new(seed: u64, number: u64, size: usize) -> Message {
        Message { number, contents: Contents::new(seed, number), size }
    }

    fn immediate_and_atomic(&self) -> (u32, Atomic) {
        let mut numbers = self.contents.numbers();
        let immediate = numbers.u32(..);
        let (original, operand) = (numbers.u64(..), numbers.u64(..));
        // A comparison that fails is as good a test as one that does not.
        let compare = if numbers.u8(..4) == 0 { !original } else { original };
        (immediate, Atomic { original, operand, compare })
    }
}

/// One way of a round, made ready at the end that posts the request.
pub struct Way<'a> {
    request: Request<'a>,
    message: Message,
}

/// The same at the other end.
pub struct Awaited {
    message: Message,
    /// The last byte, once it has moved.
    last: u8,
    arrival: Arrival,
    atomic: Atomic,
}

impl<F: Family, W: Completions<F>> Match<F, W> {
    /// Measures `plan`. `after_round` is called between rounds.
    pub fn measure<E: Exchange>(
        &mut self,
        plan: &Plan,
        mut after_round: impl FnMut(),
    ) -> Result<Measured, Failure> {
        let mut measured = Measured::new(plan);
        let mut inline = inline_room::<E>(self.inline, plan);
        for round in 0..plan.warmup + plan.iterations {
            self.patience.check()?;
            let (time, bytes) = self.round::<E>(plan.size as usize, round, &mut inline)?;
            measured.add(round, time, bytes);
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
        let during = |way: &'static str| {
            move |failure: Failure| {
                failure.during(|| format!("{}, {size} bytes, round {round}, {way}", E::OP))
            }
        };
        let (there, back) = (during("there"), during("back"));

        let ping = Message::new(*seed, 2 * round, size);
        let pong = Message::new(*seed, 2 * round + 1, size);
        let ping = prepare::<E, _, _>(first, second, ping, ping_inline, verifier).map_err(there)?;
        let pong = prepare::<E, _, _>(second, first, pong, pong_inline, verifier).map_err(back)?;

        let start = Instant::now();
        let pinged = go::<E, _, _>(first, second, &ping, patience).map_err(there)?;
        let ponged = go::<E, _, _>(second, first, &pong, patience).map_err(back)?;
        let time = start.elapsed();

        let bytes = check::<E, _, _>(first, second, &ping, pinged, patience, verifier)
            .map_err(there)?
            + check::<E, _, _>(second, first, &pong, ponged, patience, verifier).map_err(back)?;
        Ok((time, bytes))
    }
}

impl Measured {
    /// Nothing of `plan` yet.
    pub fn new(plan: &Plan) -> Measured {
        let longest = LONGEST.as_nanos() as u64;
        Measured {
            plan: *plan,
            // These bounds are in order, and three digits are few enough.
            half_round_trips: Histogram::new_with_bounds(1, longest, 3).expect("sound bounds"),
            time: Duration::ZERO,
            verified_bytes: 0,
            verified_messages: 0,
        }
    }

    /// Round number `round` took `time` and moved `bytes`.
    pub fn add(&mut self, round: u64, time: Duration, bytes: u64) {
        self.verified_bytes += bytes;
        self.verified_messages += 2;
        if round >= self.plan.warmup {
            let half = (time.as_nanos() as u64 / 2).max(1);
            self.half_round_trips.saturating_record(half);
            self.time += time;
        }
    }
}

/// Room for the bytes that travel in requests, one for each end.
pub fn inline_room<E: Exchange>(inline: bool, plan: &Plan) -> [Vec<u8>; 2] {
    let inlined = if inline && E::OP.can_inline() { plan.size as usize } else { 0 };
    [vec![0; inlined], vec![0; inlined]]
}

/// Makes ready what has to receive a message: clears the way to where it goes to, and puts it where
/// it is fetched from.
pub fn prepare_to<E: Exchange, F: Family, W>(
    to: &mut End<F, W>,
    message: Message,
    verifier: &mut Verifier,
) -> Result<Awaited, Failure> {
    let Message { number, contents, size } = message;
    let (immediate, atomic) = message.immediate_and_atomic();
    let mut last = 0;
    match E::MOVES {
        Moves::There => last = verifier.put_opposite(&to.memory.target, size, contents)?,
        Moves::Here => {
            verifier.put(&to.memory.source, size, contents)?;
        }
        Moves::Word => {
            verifier.put_opposite(&to.memory.source, size, contents)?;
            to.memory.source.write_at(GUARD, &atomic.original.to_ne_bytes())?;
        }
    }
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
    Ok(Awaited { message, last, arrival: E::arrival(immediate), atomic })
}

/// Makes ready what sends a message: puts it where it comes from, clears the way to where it is
/// fetched to, and makes the request that moves it.
pub fn prepare_from<'a, E: Exchange, F: Family, W>(
    from: &mut End<F, W>,
    message: Message,
    inline: &'a mut [u8],
    verifier: &mut Verifier,
) -> Result<Way<'a>, Failure> {
    let Message { number, contents, size } = message;
    let (immediate, atomic) = message.immediate_and_atomic();
    let place = GUARD..GUARD + size;
    let within = place.start as u64..place.end as u64;
    let (local, remote) = match E::MOVES {
        Moves::There => {
            verifier.put(&from.memory.source, size, contents)?;
            (from.memory.source.slice(place)?, from.peer.target.slice(within)?)
        }
        Moves::Here => {
            verifier.put_opposite(&from.memory.target, size, contents)?;
            (from.memory.target.slice(place)?, from.peer.source.slice(within)?)
        }
        Moves::Word => {
            verifier.put_opposite(&from.memory.target, size, contents)?;
            from.memory.target.write_at(GUARD, &(!atomic.original).to_ne_bytes())?;
            (from.memory.target.slice(place)?, from.peer.source.slice(within)?)
        }
    };
    let inline = if inline.is_empty() {
        None
    } else {
        from.memory.source.read_at(GUARD, inline)?;
        Some(&*inline)
    };
    let request = Request { id: number, local, remote, inline, immediate, atomic };
    Ok(Way { request, message })
}

/// Makes both ends ready for a message.
fn prepare<'a, E: Exchange, F: Family, W>(
    from: &mut End<F, W>,
    to: &mut End<F, W>,
    message: Message,
    inline: &'a mut [u8],
    verifier: &mut Verifier,
) -> Result<(Way<'a>, Awaited), Failure> {
    let awaited = prepare_to::<E, _, _>(to, message, verifier)?;
    Ok((prepare_from::<E, _, _>(from, message, inline, verifier)?, awaited))
}

/// Posts the request. Answers its completion, if that is what shows that it has done its work.
#[inline]
pub fn depart<E: Exchange, F: Family, W: Completions<F>>(
    from: &mut End<F, W>,
    way: &Way<'_>,
    patience: &Patience,
) -> Result<Option<Sent>, Failure> {
    E::post(&mut from.sends, &way.request)?;
    from.sends.ring();
    if E::SEEN == Seen::Request || (E::SEEN == Seen::Memory && W::SLEEPS) {
        return from.sent.sent(patience).map(Some);
    }
    Ok(None)
}

/// Sees the message arrive. Answers the completion of its receive, if it takes one.
#[inline]
pub fn arrive<E: Exchange, F: Family, W: Completions<F>>(
    to: &mut End<F, W>,
    awaited: &Awaited,
    patience: &Patience,
    meanwhile: Meanwhile<'_>,
) -> Result<Option<Received>, Failure> {
    match E::SEEN {
        Seen::Request => {}
        Seen::Receive => return to.received.received(patience, meanwhile).map(Some),
        Seen::Memory => {
            let at = GUARD + awaited.message.size - 1;
            patience.poll("last byte of a message", meanwhile, || {
                let mut byte = [!awaited.last];
                // It lies in the region, as the request's slice of it does.
                let _ = to.memory.target.read_at(at, &mut byte);
                (byte[0] == awaited.last).then_some(())
            })?;
            // Pairs with the NIC writing the last byte last: the others are read after it.
            fence(Ordering::Acquire);
        }
    }
    Ok(None)
}

/// What came of a message, besides its bytes.
#[derive(Default)]
struct Outcome {
    /// The completion of the request, if it was there before the clock stopped.
    sent: Option<Sent>,
    received: Option<Received>,
}

/// Sends a message and sees it arrive. This is what is timed.
#[inline]
fn go<E: Exchange, F: Family, W: Completions<F>>(
    from: &mut End<F, W>,
    to: &mut End<F, W>,
    (way, awaited): &(Way<'_>, Awaited),
    patience: &Patience,
) -> Result<Outcome, Failure> {
    let mut sent = depart::<E, _, _>(from, way, patience)?;
    // A request that fails is not to be waited for at the other end.
    let mut has_failed = || {
        if sent.is_none() {
            sent = from.sent.poll_sent()?;
        }
        Ok(())
    };
    match arrive::<E, _, _>(to, awaited, patience, &mut has_failed) {
        Ok(received) => Ok(Outcome { sent, received }),
        Err(failure) => Err(reason(failure, &mut from.sent, patience)),
    }
}

/// Why a receive failed: if it was only flushed, what its sender was told.
#[cold]
fn reason<F: Family, W: Completions<F>>(
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

/// Checks the sending end of a message that has arrived. Answers how many of its bytes came here.
pub fn check_from<E: Exchange, F: Family, W: Completions<F>>(
    from: &mut End<F, W>,
    way: &Way<'_>,
    sent: Option<Sent>,
    patience: &Patience,
    verifier: &mut Verifier,
) -> Result<u64, Failure> {
    let Way { request, message: Message { contents, size, .. } } = way;
    let sent = match sent {
        Some(sent) => sent,
        None => from.sent.sent(patience)?,
    };
    same("the id of the request's completion", request.id, sent.id)?;
    match E::MOVES {
        Moves::There => Ok(0),
        Moves::Here => verifier.check(&from.memory.target, *size, *contents),
        Moves::Word => {
            same("the word that was fetched", request.atomic.original, word(&from.memory.target)?)?;
            verifier.check_guards(&from.memory.target, *size)?;
            Ok(*size as u64)
        }
    }
}

/// Checks the receiving end of a message that has arrived. Answers how many of its bytes came here.
pub fn check_to<E: Exchange, F: Family, W>(
    to: &mut End<F, W>,
    awaited: &Awaited,
    received: Option<Received>,
    verifier: &mut Verifier,
) -> Result<u64, Failure> {
    let Message { number, contents, size } = awaited.message;
    if let Some(received) = received {
        same("the id of the receive's completion", number, received.id)?;
        same("the length in the receive's completion", size, received.len as usize)?;
        same("what the receive's completion says", awaited.arrival, received.by)?;
    }
    match E::MOVES {
        Moves::There => verifier.check(&to.memory.target, size, contents),
        Moves::Here => Ok(0),
        Moves::Word => {
            let left = word(&to.memory.source)?;
            same("the word that was left", E::outcome(&awaited.atomic), left)?;
            verifier.check_guards(&to.memory.source, size)?;
            Ok(size as u64)
        }
    }
}

/// The word that an atomic works on, or fetches.
fn word(region: &impl Region) -> Result<u64, OutOfBounds> {
    let mut bytes = [0; 8];
    region.read_at(GUARD, &mut bytes).map(|()| u64::from_ne_bytes(bytes))
}

/// Checks everything about a message that has arrived. Answers how many bytes of it moved.
fn check<E: Exchange, F: Family, W: Completions<F>>(
    from: &mut End<F, W>,
    to: &mut End<F, W>,
    (way, awaited): &(Way<'_>, Awaited),
    outcome: Outcome,
    patience: &Patience,
    verifier: &mut Verifier,
) -> Result<u64, Failure> {
    let fetched = check_from::<E, _, _>(from, way, outcome.sent, patience, verifier)?;
    let left = check_to::<E, _, _>(to, awaited, outcome.received, verifier)?;
    Ok(fetched + left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completions::{Polling, Sleeping};
    use crate::family::Connectx;
    use crate::nics;
    use crate::pingpong::end::{ONE_AT_A_TIME, connected};
    use crate::pingpong::exchange::{self, CompareSwap, FetchAdd, Read, WriteImmediate};
    use doorbell::mlx5::Connection;
    use doorbell::wr::RemoteSlice;
    use doorbell_hal::mmio::Uncached;
    use doorbell_model::VirtualConnectx;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    type Virtual = Connectx<VirtualConnectx, Uncached>;
    type Ends<W> = [End<Virtual, W>; 2];

    const SIZE: usize = 5000;

    fn ends<W: Completions<Virtual>>() -> Ends<W> {
        let nic = nics::open_virtual().unwrap();
        connected(&nic, SIZE, ONE_AT_A_TIME, &Connection::new()).unwrap()
    }

    fn patience() -> Patience {
        Patience::new(true, Duration::from_secs(60), Arc::new(AtomicBool::new(false)))
    }

    /// Moves one message, lets `spoil` have it, and checks it.
    fn spoiled<E: Exchange>(
        size: usize,
        spoil: impl FnOnce(&mut Ends<Polling<Virtual>>, &mut Outcome),
    ) -> Result<u64, Failure> {
        let (mut ends, patience, mut verifier) =
            (ends::<Polling<_>>(), patience(), Verifier::new());
        let [from, to] = &mut ends;
        let message = Message::new(1, 6, size);
        let way = prepare::<E, _, _>(from, to, message, &mut [], &mut verifier)?;
        let mut outcome = go::<E, _, _>(from, to, &way, &patience)?;
        // So that the NIC is done with the memory.
        if outcome.sent.is_none() {
            outcome.sent = Some(from.sent.sent(&patience)?);
        }
        spoil(&mut ends, &mut outcome);
        let [from, to] = &mut ends;
        check::<E, _, _>(from, to, &way, outcome, &patience, &mut verifier)
    }

    fn flip(region: &impl Region, at: usize) {
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
    fn refused<E: Exchange, W: Completions<Virtual>>() -> Failure {
        let (mut ends, mut verifier) = (ends::<W>(), Verifier::new());
        let [from, to] = &mut ends;
        let message = Message::new(1, 6, 8);
        let mut way = prepare::<E, _, _>(from, to, message, &mut [], &mut verifier).unwrap();
        let remote = way.0.request.remote;
        way.0.request.remote = RemoteSlice::new(remote.address(), remote.len(), !remote.rkey());
        go::<E, _, _>(from, to, &way, &patience()).err().expect("a wrong key is refused")
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
            let message = Message::new(1, number, 8);
            let way = prepare::<CompareSwap, _, _>(from, to, message, &mut [], &mut verifier);
            let atomic = way.unwrap().0.request.atomic;
            atomic.compare == atomic.original
        };
        let equal = (0..32).filter(|&number| original(number)).count();
        assert!((16..32).contains(&equal), "{equal} of 32");
    }
}

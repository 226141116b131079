//! A pingpong between two processes, each with one end.
//!
//! Both make their end ready for the messages of a round, meet, and play it. What is timed is a
//! message there and one back, as in one process. An operation that only its own end sees (read and
//! atomics) is timed at the end that asked for the run, and words on the TCP connection let the other
//! end have its turn.

use super::conversation::{Ask, Conversation, Greeting, Line, unexpected};
use super::end::{End, ONE_AT_A_TIME, RemoteBuffers, Unconnected};
use super::exchange::{Exchange, Seen};
use super::rounds::{
    Measured, Message, Plan, arrive, check_from, check_to, depart, inline_room, prepare_from,
    prepare_to,
};
use super::verify::Verifier;
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Facts, Family, Sizes};
use doorbell::connection::Connection;
use std::time::Instant;

/// Which end this process has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that asks, sends first, and takes the time.
    First,
    /// The other.
    Second,
}

/// One end, connected to that of another process.
pub struct Apart<F: Family, W> {
    end: End<F, W>,
    side: Side,
    conversation: Conversation,
    patience: Patience,
    seed: u64,
    inline: bool,
    verifier: Verifier,
}

/// The bytes that are sent when nobody says which.
pub const SEED: u64 = 1;

/// Asks the process at the other end of `conversation` for something, and connects an end to its.
pub fn meet_as_first<F: Family, W: Completions<F>>(
    nic: &F::Nic,
    ask: Ask,
    sizes: Sizes,
    connection: &Connection,
    conversation: &mut Conversation,
) -> Result<End<F, W>, Failure> {
    let unconnected = Unconnected::<F, W>::make(nic, ask.longest() as usize, sizes)?;
    conversation.say(&Line::Ask(ask.by(greeting(&unconnected))))?;
    let answer = match conversation.hear()? {
        Line::Answer(answer) => answer,
        other => return Err(unexpected(&other)),
    };
    let end = connect(unconnected, &answer, connection)?;
    conversation.meet()?;
    Ok(end)
}

/// Hears what the process at the other end of `conversation` asks for, of messages of up to `longest`
/// bytes, and connects an end to its.
pub fn meet_as_second<F: Family, W: Completions<F>>(
    nic: &F::Nic,
    longest: u32,
    sizes: impl FnOnce(&Ask) -> Sizes,
    connection: &Connection,
    conversation: &mut Conversation,
) -> Result<(End<F, W>, Ask), Failure> {
    let ask = match conversation.hear()? {
        Line::Ask(ask) => ask,
        other => return Err(unexpected(&other)),
    };
    if let Err(failure) = ask.check(longest.min(nic.max_message())) {
        // Whoever asked is to know why; it may be gone.
        let _ = conversation.say(&Line::Failed(failure.to_string()));
        return Err(failure);
    }
    let most = ask.max_mtu();
    let max_mtu = Some(connection.max_mtu.map_or(most, |mtu| mtu.min(most)));
    let connection = Connection { max_mtu, ..*connection };
    let unconnected = Unconnected::<F, W>::make(nic, ask.longest() as usize, sizes(&ask))?;
    conversation.say(&Line::Answer(greeting(&unconnected)))?;
    let end = connect(unconnected, ask.greeting()?, &connection)?;
    conversation.meet()?;
    Ok((end, ask))
}

impl<F: Family, W: Completions<F>> Apart<F, W> {
    /// Asks the process at the other end of `conversation` for rounds.
    pub fn ask(
        nic: &F::Nic,
        ask: Ask,
        connection: &Connection,
        patience: Patience,
        mut conversation: Conversation,
    ) -> Result<Self, Failure> {
        let (seed, inline, verifier) = (ask.seed, ask.inline, Verifier::new());
        let end = meet_as_first(nic, ask, ONE_AT_A_TIME, connection, &mut conversation)?;
        Ok(Apart { end, side: Side::First, conversation, patience, seed, inline, verifier })
    }

    /// Does what the process at the other end of `conversation` asks for. Answers the plans, too.
    pub fn answer(
        nic: &F::Nic,
        longest: u32,
        connection: &Connection,
        patience: Patience,
        mut conversation: Conversation,
    ) -> Result<(Self, Vec<Plan>), Failure> {
        let sizes = |_: &Ask| ONE_AT_A_TIME;
        let (end, ask) = meet_as_second(nic, longest, sizes, connection, &mut conversation)?;
        if ask.depth().is_some() {
            let failure = Failure::Peer("the other process is a doorbell perf that streams".into());
            let _ = conversation.say(&Line::Failed("this is a doorbell pingpong".into()));
            return Err(failure);
        }
        Ok((Apart::second(end, &ask, patience, conversation), ask.plans))
    }

    /// The end that answers, once both have met.
    pub fn second(
        end: End<F, W>,
        ask: &Ask,
        patience: Patience,
        conversation: Conversation,
    ) -> Self {
        let (seed, inline, verifier) = (ask.seed, ask.inline, Verifier::new());
        Apart { end, side: Side::Second, conversation, patience, seed, inline, verifier }
    }

    /// Measures `plan` together with the other end. `after_round` is called between rounds. Only what
    /// came to this end is counted as verified: each end checks its own.
    pub fn measure<E: Exchange>(
        &mut self,
        plan: &Plan,
        mut after_round: impl FnMut(),
    ) -> Result<Measured, Failure> {
        let mut measured = Measured::new(plan);
        let mut inline = inline_room::<E>(self.inline, plan);
        for number in 0..plan.warmup + plan.iterations {
            self.patience.check()?;
            let [inline, _] = &mut inline;
            match self.round::<E>(plan, number, inline) {
                Ok((time, bytes)) => measured.add(number, time, bytes),
                Err(failure) => {
                    // The other end waits; it may be gone.
                    let _ = self.conversation.say(&Line::Failed(failure.to_string()));
                    let size = plan.size;
                    return Err(
                        failure.during(|| format!("{}, {size} bytes, round {number}", E::OP))
                    );
                }
            }
            after_round();
        }
        Ok(measured)
    }

    fn round<E: Exchange>(
        &mut self,
        plan: &Plan,
        number: u64,
        inline: &mut [u8],
    ) -> Result<(std::time::Duration, u64), Failure> {
        let Apart { end, side, conversation, patience, seed, verifier, .. } = self;
        let first = *side == Side::First;
        let size = plan.size as usize;
        let message = |number| Message::new(*seed, number, size);
        let (there, back) = (message(2 * number), message(2 * number + 1));
        let (mine, theirs) = if first { (there, back) } else { (back, there) };
        let awaited = prepare_to::<E, _, _>(end, theirs, verifier)?;
        let way = prepare_from::<E, _, _>(end, mine, inline, verifier)?;
        conversation.meet()?;

        let start = Instant::now();
        let (time, sent, received);
        if E::SEEN == Seen::Request {
            // Only who asks sees that it is done, and has to say so.
            if first {
                sent = depart::<E, _, _>(end, &way, patience)?;
                time = 2 * start.elapsed();
                conversation.meet()?;
            } else {
                conversation.wait()?;
                sent = depart::<E, _, _>(end, &way, patience)?;
                time = 2 * start.elapsed();
                conversation.say(&Line::Ready)?;
            }
            received = None;
        } else {
            let mut is_there = || conversation.is_there();
            if first {
                sent = depart::<E, _, _>(end, &way, patience)?;
                received = arrive::<E, _, _>(end, &awaited, patience, &mut is_there)?;
            } else {
                received = arrive::<E, _, _>(end, &awaited, patience, &mut is_there)?;
                sent = depart::<E, _, _>(end, &way, patience)?;
            }
            time = start.elapsed();
        }
        let bytes = check_from::<E, _, _>(end, &way, sent, patience, verifier)?
            + check_to::<E, _, _>(end, &awaited, received, verifier)?;
        Ok((time, bytes))
    }

    /// Waits until the other end, too, has found everything right.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.conversation.meet()
    }
}

fn greeting<F: Family, W: Completions<F>>(unconnected: &Unconnected<F, W>) -> Greeting {
    let RemoteBuffers { source, target } = unconnected.remote();
    Greeting::new(&unconnected.endpoint(), &source, &target)
}

fn connect<F: Family, W: Completions<F>>(
    unconnected: Unconnected<F, W>,
    peer: &Greeting,
    connection: &Connection,
) -> Result<End<F, W>, Failure> {
    let [source, target] = peer.memory();
    unconnected.connect(&peer.endpoint()?, RemoteBuffers { source, target }, connection)
}

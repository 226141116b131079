//! A measurement between two processes: this one asks for it and has the first end, or answers.
//!
//! Latency is measured by the rounds of `pingpong`. Where messages stream, the end that asks says when
//! it is done, and the one that they come to looks at the bytes and says so. Receives are always for the
//! longest message, and posted again as soon as they are used, twice as many as messages are under way.

use super::stream::{self, Far, Stream, look_at};
use crate::arguments::{Op, PerfOptions};
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Facts, Family, Sizes};
use crate::pingpong::Players;
use crate::pingpong::apart::{self, Apart};
use crate::pingpong::conversation::{Ask, Conversation, Line};
use crate::pingpong::end::{End, ONE_AT_A_TIME};
use crate::pingpong::rounds::Plan;
use crate::pingpong::verify::GUARD;
use doorbell::connection::Connection;
use doorbell::family::{ReceiveQueue, Region};
use doorbell::wr;
use std::io::Write;

/// What is asked for: messages of these sizes.
pub struct Asked<'a, F: Family> {
    pub nic: &'a F::Nic,
    pub plans: Vec<Plan>,
    pub options: &'a PerfOptions,
    pub connection: &'a Connection,
    pub patience: &'a Patience,
}

impl<'a, F: Family> Asked<'a, F> {
    fn path_mtu(&self) -> u32 {
        let most = self.nic.mtu();
        self.connection.max_mtu.map_or(most, |mtu| mtu.min(most)).bytes()
    }

    /// For rounds.
    pub fn players<W: Completions<F>>(
        self,
        conversation: Conversation,
    ) -> Result<Players<F, W>, Failure> {
        let (inline, mtu) = (self.options.inline, self.path_mtu());
        let ask = Ask::new(self.plans, apart::SEED, inline, mtu);
        let patience = self.patience.clone();
        let apart = Apart::ask(self.nic, ask, self.connection, patience, conversation)?;
        Ok(Players::Apart(Box::new(apart)))
    }

    /// For a stream.
    pub fn stream<W: Completions<F>>(
        self,
        mut conversation: Conversation,
    ) -> Result<Stream<'a, F, W>, Failure> {
        let Asked { nic, options, connection, patience, .. } = self;
        let longest = self.plans.iter().map(|plan| plan.size).max().unwrap_or(0);
        let sizes = stream::sizes(options.depth, options.inline.then_some(longest));
        let mtu = self.path_mtu();
        let ask = Ask::new(self.plans, apart::SEED, options.inline, mtu).streaming(options.depth);
        let near = apart::meet_as_first(nic, ask, sizes, connection, &mut conversation)?;
        Ok(Stream { near, far: Far::Elsewhere(conversation), patience, options })
    }
}

/// Does what the process at the other end of `conversation` asks for, with messages of up to `longest`
/// bytes.
pub fn answer<F: Family, W: Completions<F>>(
    nic: &F::Nic,
    longest: u32,
    connection: &Connection,
    patience: &Patience,
    mut conversation: Conversation,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let sizes = |ask: &Ask| match ask.depth() {
        None => ONE_AT_A_TIME,
        Some(depth) => Sizes { sends: 8, receives: 2 * depth },
    };
    let (end, ask) =
        apart::meet_as_second::<F, W>(nic, longest, sizes, connection, &mut conversation)?;
    let plans = ask.plans.clone();
    for Plan { op, size, iterations, .. } in &plans {
        writeln!(out, "{op}: {iterations} messages of {size} bytes")?;
    }
    let Some(depth) = ask.depth() else {
        let apart = Apart::second(end, &ask, patience.clone(), conversation);
        let mut players = Players::Apart(Box::new(apart));
        plans.iter().try_for_each(|plan| players.measure_one(plan, || ()).map(|_| ()))?;
        return players.finish();
    };
    let mut receiver = Receiver { end, conversation, patience };
    let longest = plans.iter().map(|plan| plan.size).max().unwrap_or(0);
    if plans.iter().any(|plan| plan.op == Op::Send) {
        receiver.post(longest, 2 * depth)?;
    }
    for plan in &plans {
        if let Err(failure) = receiver.run(plan, longest) {
            // The other end waits; it may be gone.
            let _ = receiver.conversation.say(&Line::Failed(failure.to_string()));
            return Err(failure);
        }
    }
    Ok(())
}

/// The end that a stream comes to.
struct Receiver<'a, F: Family, W> {
    end: End<F, W>,
    conversation: Conversation,
    patience: &'a Patience,
}

impl<F: Family, W: Completions<F>> Receiver<'_, F, W> {
    fn post(&mut self, longest: u32, count: u32) -> Result<(), Failure> {
        let into = self.end.memory.target.slice(GUARD..GUARD + longest as usize)?;
        for _ in 0..count {
            self.end.receives.post(wr::receive(into))?;
        }
        self.end.receives.ring();
        Ok(())
    }

    /// Lets messages of a size come until the other end says that all are there, and looks at the
    /// bytes.
    fn run(&mut self, plan: &Plan, longest: u32) -> Result<(), Failure> {
        let bytes = stream::pattern(plan.size);
        let memory = &self.end.memory;
        match plan.op {
            Op::Read => memory.source.write_at(GUARD, &bytes)?,
            _ => memory.target.write_at(GUARD, &vec![0; bytes.len()])?,
        }
        self.conversation.meet()?;
        if plan.op == Op::Send {
            loop {
                self.patience.check()?;
                let mut used = 0;
                while self.end.received.poll_received()?.is_some() {
                    used += 1;
                }
                if used > 0 {
                    self.post(longest, used)?;
                } else if self.conversation.heard_ready()? {
                    break;
                }
            }
        } else {
            while !self.conversation.heard_ready()? {
                self.patience.check()?;
                std::thread::sleep(super::NAP);
            }
        }
        if plan.op != Op::Read {
            look_at::<F, W>(&self.end, &bytes)?;
        }
        self.conversation.meet()
    }
}

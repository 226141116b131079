//! Many messages under way at once, in one direction.

use crate::arguments::{Op, PerfOptions};
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Family, Sizes};
use crate::pingpong::conversation::{Conversation, Line};
use crate::pingpong::end::End;
use crate::pingpong::verify::GUARD;
use doorbell::family::{ReceiveQueue, Region, SendQueue};
use doorbell::wr::{self, Inline, LocalSlice, PostError, RemoteSlice};
use std::time::{Duration, Instant};

/// What was measured.
pub struct Streamed {
    pub size: u32,
    pub messages: u64,
    pub time: Duration,
    /// The most messages a second, over a part of the time.
    pub peak: f64,
}

/// Two ends, from the first of which messages go to the second, or come where it reads.
pub struct Stream<'a, F: Family, W> {
    pub near: End<F, W>,
    pub far: Far<F, W>,
    pub patience: &'a Patience,
    pub options: &'a PerfOptions,
}

/// The second end.
pub enum Far<F: Family, W> {
    /// Of this process.
    Here(Box<End<F, W>>),
    /// Of the process at the other end, which sees to it.
    Elsewhere(Conversation),
}

/// The bytes of a message.
pub fn pattern(size: u32) -> Vec<u8> {
    (0..size).map(|at| (at.wrapping_mul(167) >> 3) as u8).collect()
}

/// Fails unless `bytes` are what has arrived at an end.
pub fn look_at<F: Family, W>(end: &End<F, W>, bytes: &[u8]) -> Result<(), Failure> {
    let mut arrived = vec![0; bytes.len()];
    end.memory.target.read_at(GUARD, &mut arrived)?;
    match arrived.iter().zip(bytes).position(|(found, sent)| found != sent) {
        None => Ok(()),
        Some(at) => {
            let (expected, found) = (bytes[at], arrived[at]);
            Err(Failure::Byte { at: at as u64, expected, found })
        }
    }
}

/// What the ends need to hold for `depth` messages under way, with up to `inline` bytes in requests.
pub fn sizes(depth: u32, inline: Option<u32>) -> Sizes {
    // A ConnectX's control and address take half a slot, and inline bytes have a word before them. A
    // BCM57608's requests of one piece take as much of its ring as 16 inline bytes.
    let slots = inline.map_or(1, |bytes| (32 + 4 + bytes).div_ceil(64));
    Sizes { sends: (depth * slots).max(8), receives: depth.max(8) }
}

/// Messages between looks at the clock.
const WINDOW: u64 = 1024;

/// Where messages come from and go to.
struct Places<'a> {
    from: LocalSlice,
    inline: Option<&'a [u8]>,
    to: RemoteSlice,
}

impl<F: Family, W: Completions<F>> Stream<'_, F, W> {
    /// Moves `messages` messages of `size` bytes, or as many as there is time for, and looks at what
    /// arrived.
    pub fn run(&mut self, size: u32, messages: Option<u64>) -> Result<Streamed, Failure> {
        let bytes = pattern(size);
        let (range, remote) =
            (GUARD..GUARD + bytes.len(), GUARD as u64..(GUARD + bytes.len()) as u64);
        let reads = self.options.op == Op::Read;
        let Stream { near, far, .. } = self;
        let blank = vec![0; bytes.len()];
        if reads {
            near.memory.target.write_at(GUARD, &blank)?;
        } else {
            near.memory.source.write_at(GUARD, &bytes)?;
        }
        let receive = match far {
            Far::Here(far) if reads => {
                far.memory.source.write_at(GUARD, &bytes)?;
                None
            }
            Far::Here(far) => {
                far.memory.target.write_at(GUARD, &blank)?;
                Some(far.memory.target.slice(range.clone())?)
            }
            Far::Elsewhere(conversation) => {
                conversation.meet()?;
                None
            }
        };
        let places = Places {
            from: match reads {
                true => near.memory.target.slice(range),
                false => near.memory.source.slice(range),
            }?,
            inline: self.options.inline.then_some(&bytes),
            to: match reads {
                true => near.peer.source.slice(remote),
                false => near.peer.target.slice(remote),
            }?,
        };
        let streamed = self.stream(size, messages, &places, receive)?;
        if reads {
            look_at(&self.near, &bytes)?;
        }
        match &mut self.far {
            Far::Here(far) if !reads => look_at(far, &bytes)?,
            Far::Here(_) => {}
            Far::Elsewhere(conversation) => {
                conversation.say(&Line::Ready)?;
                conversation.meet()?;
            }
        }
        Ok(streamed)
    }

    fn stream(
        &mut self,
        size: u32,
        messages: Option<u64>,
        places: &Places<'_>,
        receive: Option<LocalSlice>,
    ) -> Result<Streamed, Failure> {
        let (depth, batch) = (u64::from(self.options.depth), u64::from(self.options.batch));
        let sends = self.options.op == Op::Send;
        let longest = self.options.duration.map(Duration::from_secs);
        let (first, far) = (&mut self.near, &mut self.far);
        // Receives of another process are its own business.
        let mut second = match (far, receive) {
            (Far::Here(second), Some(receive)) if sends => Some((second, receive)),
            _ => None,
        };
        let mut total = messages.unwrap_or(u64::MAX);
        if let Some((second, receive)) = &mut second {
            for _ in 0..depth {
                second.receives.post(wr::receive(*receive))?;
            }
            second.receives.ring();
        }
        let (mut posted, mut done, mut received) = (0, 0, 0);
        let (mut peak, mut window) = (0f64, (0, Instant::now()));
        let start = Instant::now();
        while done < total {
            if let Some((second, receive)) = &mut second {
                // Before more is sent, so that there is a receive for each message under way.
                let before = received;
                while second.received.poll_received()?.is_some() {
                    received += 1;
                }
                for _ in before..received {
                    second.receives.post(wr::receive(*receive))?;
                }
                if before != received {
                    second.receives.ring();
                }
            }
            let under_way = posted - if second.is_some() { done.min(received) } else { done };
            let more = batch.min(total - posted);
            if more > 0 && under_way + more <= depth {
                for number in posted + 1..=posted + more {
                    self.options.post(first, places, number, number == posted + more)?;
                }
                first.sends.ring();
                posted += more;
                continue;
            }
            // Its id says how many messages are done.
            done = match first.sent.poll_sent()? {
                Some(sent) => sent.id,
                None if posted == done => {
                    // What is sent has arrived, and its completions are about to be seen.
                    std::thread::yield_now();
                    done
                }
                None => first.sent.sent(self.patience)?.id,
            };
            if done - window.0 >= WINDOW.max(depth) {
                self.patience.check()?;
                let now = Instant::now();
                peak = peak.max((done - window.0) as f64 / (now - window.1).as_secs_f64());
                window = (done, now);
                if longest.is_some_and(|longest| now - start >= longest) {
                    total = posted;
                }
            }
        }
        let time = start.elapsed();
        peak = peak.max(done as f64 / time.as_secs_f64());
        if second.is_some() {
            self.drain(done - received)?;
        }
        Ok(Streamed { size, messages: done, time, peak })
    }

    /// Takes the completions of the last receives, and leaves none posted for another size: they are
    /// used up by messages that nobody measures.
    fn drain(&mut self, mut left: u64) -> Result<(), Failure> {
        let Stream { near: first, far: Far::Here(second), .. } = self else { return Ok(()) };
        let depth = u64::from(self.options.depth);
        let posted = depth - left;
        for number in 1..=posted {
            first.sends.post(wr::send(wr::Nothing).id(number).signaled())?;
            first.sends.ring();
            first.sent.sent(self.patience)?;
            left += 1;
        }
        while left > 0 {
            second.received.received(self.patience, &mut || Ok(()))?;
            left -= 1;
        }
        Ok(())
    }
}

impl PerfOptions {
    /// Posts message `number`, signaled or not.
    #[inline]
    fn post<F: Family, W>(
        &self,
        end: &mut End<F, W>,
        places: &Places<'_>,
        number: u64,
        signaled: bool,
    ) -> Result<(), Failure> {
        let Places { from, inline, to } = *places;
        macro_rules! post {
            ($request:expr) => {{
                let request = $request.id(number);
                if signaled { end.sends.post(request.signaled()) } else { end.sends.post(request) }
            }};
        }
        let posted: Result<(), PostError> = match (self.op, inline) {
            (Op::Write, None) => post!(wr::write(from, to)?),
            (Op::Write, Some(bytes)) => post!(wr::write(Inline(bytes), to)?),
            (Op::Read, _) => post!(wr::read(from, to)?),
            (_, None) => post!(wr::send(from)),
            (_, Some(bytes)) => post!(wr::send(Inline(bytes))),
        };
        Ok(posted?)
    }
}

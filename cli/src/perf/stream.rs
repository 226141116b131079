//! Many messages under way at once, in one direction.

use crate::arguments::{Op, PerfOptions};
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Family, Sizes};
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
    pub ends: [End<F, W>; 2],
    pub patience: &'a Patience,
    pub options: &'a PerfOptions,
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
        let bytes: Vec<u8> = (0..size).map(|at| (at.wrapping_mul(167) >> 3) as u8).collect();
        let blank = vec![0; bytes.len()];
        let [first, second] = &mut self.ends;
        let (range, remote) =
            (GUARD..GUARD + bytes.len(), GUARD as u64..(GUARD + bytes.len()) as u64);
        let reads = self.options.op == Op::Read;
        let (from, to) = if reads { (second, first) } else { (first, second) };
        from.memory.source.write_at(GUARD, &bytes)?;
        to.memory.target.write_at(GUARD, &blank)?;
        let [first, second] = &self.ends;
        let places = Places {
            from: if reads {
                first.memory.target.slice(range)
            } else {
                first.memory.source.slice(range)
            }?,
            inline: self.options.inline.then_some(&bytes),
            to: if reads {
                first.peer.source.slice(remote)
            } else {
                first.peer.target.slice(remote)
            }?,
        };
        let receives = second.memory.target.slice(GUARD..GUARD + bytes.len())?;
        let streamed = self.stream(size, messages, &places, receives)?;
        let [first, second] = &self.ends;
        let mut arrived = blank;
        let target = if reads { &first.memory.target } else { &second.memory.target };
        target.read_at(GUARD, &mut arrived)?;
        match arrived.iter().zip(&bytes).position(|(found, sent)| found != sent) {
            None => Ok(streamed),
            Some(at) => {
                let (expected, found) = (bytes[at], arrived[at]);
                Err(Failure::Byte { at: at as u64, expected, found })
            }
        }
    }

    fn stream(
        &mut self,
        size: u32,
        messages: Option<u64>,
        places: &Places<'_>,
        receive: LocalSlice,
    ) -> Result<Streamed, Failure> {
        let (depth, batch) = (u64::from(self.options.depth), u64::from(self.options.batch));
        let sends = self.options.op == Op::Send;
        let longest = self.options.duration.map(Duration::from_secs);
        let [first, second] = &mut self.ends;
        let mut total = messages.unwrap_or(u64::MAX);
        if sends {
            for _ in 0..depth {
                second.receives.post(wr::receive(receive))?;
            }
            second.receives.ring();
        }
        let (mut posted, mut done, mut received) = (0, 0, 0);
        let (mut peak, mut window) = (0f64, (0, Instant::now()));
        let start = Instant::now();
        while done < total {
            if sends {
                // Before more is sent, so that there is a receive for each message under way.
                let before = received;
                while second.received.poll_received()?.is_some() {
                    received += 1;
                }
                for _ in before..received {
                    second.receives.post(wr::receive(receive))?;
                }
                if before != received {
                    second.receives.ring();
                }
            }
            let under_way = if sends { posted - received.min(done) } else { posted - done };
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
        if sends {
            self.drain(done - received)?;
        }
        Ok(Streamed { size, messages: done, time, peak })
    }

    /// Takes the completions of the last receives, and leaves none posted for another size: they are
    /// used up by messages that nobody measures.
    fn drain(&mut self, mut left: u64) -> Result<(), Failure> {
        let [first, second] = &mut self.ends;
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

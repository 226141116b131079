//! `doorbell perf`: latency, bandwidth and message rate between two queue pairs, of one NIC or of two
//! processes.
//!
//! | file | holds |
//! |---|---|
//! | `stream` | many messages under way at once, in one direction |
//! | `apart` | one end, when the other is in another process |
//! | `report` | what was measured: perftest's tables, and JSON |
//! | `plot` | the picture |
//!
//! Latency is measured by the rounds of `pingpong`, which verify every byte.

mod apart;
mod plot;
mod report;
mod stream;

use crate::arguments::{PerfOptions, What};
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Facts, Family};
use crate::job::{Job, on_connectx, on_netxtreme};
use crate::nics;
use crate::pingpong::apart::Side;
use crate::pingpong::conversation::Conversation;
use crate::pingpong::end::{self, ONE_AT_A_TIME};
use crate::pingpong::rounds::{Match, Measured, Plan};
use crate::pingpong::verify::Verifier;
use crate::pingpong::{Players, interruption, partner};
use apart::Asked;
use doorbell::bnxt;
use doorbell::connection::Connection;
use doorbell::endpoint::Mtu;
use doorbell_hal::linux::Machine;
use report::{Point, Report};
use std::io::{self, Write};
use std::time::{Duration, Instant};
use stream::{Far, Stream};

/// Runs the command.
pub fn run(options: &PerfOptions) -> Result<(), Failure> {
    // What cannot be drawn is better known before an hour of measurements.
    let overlays = options.overlay.iter().map(|path| report::read(path, options.what));
    let mut reports: Vec<Report> = overlays.collect::<Result<_, _>>()?;
    let mut out = io::stdout().lock();
    let out = &mut out;
    let is_virtual = [nics::VIRTUAL, nics::VIRTUAL_NETXTREME].contains(&options.device.as_str());
    let timeout = Duration::from_secs(options.timeout);
    let patience = Patience::new(is_virtual, timeout, interruption()?);
    let partner = partner(&options.listen, &options.connect, &patience, out)?;
    let report = on_device(ToRun { is_virtual, options, patience, partner }, out)?;
    // Who answers another process has measured nothing.
    let Some(report) = report else { return Ok(()) };
    if options.json {
        report.print_json(out)?;
    }
    if let Some(path) = &options.plot {
        let complete = report.complete;
        reports.push(report);
        let svg = plot::svg(&reports);
        let written = svg.and_then(|svg| std::fs::write(path, svg).map_err(|it| it.to_string()));
        written.map_err(|why| Failure::File { path: path.clone(), why })?;
        return if complete { Ok(()) } else { Err(Failure::Interrupted) };
    }
    if report.complete { Ok(()) } else { Err(Failure::Interrupted) }
}

/// What is to be measured, and with whom.
struct ToRun<'a> {
    is_virtual: bool,
    options: &'a PerfOptions,
    patience: Patience,
    partner: Option<(Side, Conversation)>,
}

/// Opens the NIC.
fn on_device(run: ToRun<'_>, out: &mut impl Write) -> Result<Option<Report>, Failure> {
    let (machine, options) = (Machine::this(), run.options);
    let PerfOptions { doorbell, events, .. } = *options;
    match (options.device.as_str(), &run.partner) {
        (nics::VIRTUAL, None) => on_connectx(&nics::open_virtual()?, doorbell, events, run, out),
        (nics::VIRTUAL, Some((_, conversation))) => {
            let (ip, mtu) = (conversation.own_ip()?, options.mtu.map(Mtu::from));
            let (nic, counters, _shown) = nics::open_on_udp(ip, mtu, options.pcap.as_deref())?;
            let ended = on_connectx(&nic, doorbell, events, run, out);
            drop(nic);
            if !options.json {
                writeln!(out, "{}", counters.read())?;
            }
            ended
        }
        (nics::VIRTUAL_NETXTREME, None) => {
            on_netxtreme(&nics::open_virtual_netxtreme()?, doorbell, events, run, out)
        }
        (nics::VIRTUAL_NETXTREME, Some(_)) => Err(nics::in_one_process(&options.device)),
        (name, _) => match bnxt::index(name) {
            Some(index) => on_netxtreme(&bnxt::open(&machine, index)?, doorbell, events, run, out),
            None => on_connectx(&nics::open_real(&machine, name)?, doorbell, events, run, out),
        },
    }
}

impl Job for ToRun<'_> {
    /// None of who answers another process.
    type Outcome = Option<Report>;

    fn run<F: Family, W: Completions<F>>(
        self,
        nic: &F::Nic,
        out: &mut impl Write,
    ) -> Result<Option<Report>, Failure> {
        let ToRun { is_virtual, options, patience, partner } = self;
        let sizes = options.message_sizes();
        let longest = sizes.iter().copied().max().unwrap_or(0);
        if longest > nic.max_message() {
            let (device, size, most) =
                (nic.name().into(), longest.into(), nic.max_message().into());
            return Err(Failure::TooLong { device, size, most });
        }
        let max_mtu = options.mtu.map(Mtu::from);
        let connection = Connection { max_mtu, ..Connection::new() };
        let partner = match partner {
            Some((Side::Second, conversation)) => {
                let longest = longest.max(LONGEST_ANSWERED);
                apart::answer::<F, W>(nic, longest, &connection, &patience, conversation, out)?;
                return Ok(None);
            }
            Some((Side::First, conversation)) => Some(conversation),
            None => None,
        };
        let run = Run::<F> { nic, sizes, longest, options, connection, patience, is_virtual };
        run.measure::<W>(partner, out).map(Some)
    }
}

/// How often a process that has nothing to do looks whether it does.
const NAP: Duration = Duration::from_millis(1);
/// The longest messages that another process may ask for when nobody says more: --sweep's.
const LONGEST_ANSWERED: u32 = 8 << 20;
/// Bytes that are moved when nobody says how many messages.
const ENOUGH: u64 = 256 << 20;
/// Rounds between looks at the clock, where a duration is asked for.
const CHUNK: u64 = 100;

/// A run that is set up.
struct Run<'a, F: Family> {
    nic: &'a F::Nic,
    sizes: Vec<u32>,
    longest: u32,
    options: &'a PerfOptions,
    connection: Connection,
    patience: Patience,
    is_virtual: bool,
}

impl<F: Family> Run<'_, F> {
    /// What is asked of another process.
    fn asked(&self) -> Asked<'_, F> {
        let plan = |&size: &u32| self.plan(size, self.iterations(size).unwrap_or(CHUNK));
        let plans = self.sizes.iter().map(plan).collect();
        let Run { nic, options, connection, patience, .. } = self;
        Asked { nic, plans, options, connection, patience }
    }

    fn plan(&self, size: u32, iterations: u64) -> Plan {
        Plan { op: self.options.op, size, iterations, warmup: iterations / 10 }
    }

    fn measure<W: Completions<F>>(
        self,
        partner: Option<Conversation>,
        out: &mut impl Write,
    ) -> Result<Report, Failure> {
        let mut report = Report::new(self.nic, self.is_virtual, self.options);
        if !self.options.json {
            report.print_heading(out)?;
        }
        let ends = |sizes| {
            end::connected::<F, W>(self.nic, self.longest as usize, sizes, &self.connection)
        };
        let outcome = match self.options.what {
            What::Lat => {
                let mut players = match partner {
                    Some(conversation) => self.asked().players::<W>(conversation)?,
                    None => Players::Together(Box::new(Match {
                        ends: ends(ONE_AT_A_TIME)?,
                        patience: self.patience.clone(),
                        seed: 1,
                        inline: self.options.inline,
                        verifier: Verifier::new(),
                    })),
                };
                let outcome = self.each(&mut report, out, |size| {
                    let measured = self.latency(&mut players, size)?;
                    Ok(Point::latency(size, &measured.half_round_trips))
                });
                outcome.and_then(|()| players.finish())
            }
            What::Bw | What::Rate => {
                let inline = self.options.inline.then_some(self.longest);
                let mut stream = match partner {
                    Some(conversation) => self.asked().stream::<W>(conversation)?,
                    None => {
                        let [near, far] = ends(stream::sizes(self.options.depth, inline))?;
                        let far = Far::Here(Box::new(far));
                        Stream { near, far, patience: &self.patience, options: self.options }
                    }
                };
                self.each(&mut report, out, |size| {
                    Ok(Point::bandwidth(&stream.run(size, self.iterations(size))?))
                })
            }
        };
        match outcome {
            Ok(()) => {}
            // What was measured before somebody had enough is of use.
            Err(Failure::Interrupted) => report.complete = false,
            Err(failure) => return Err(failure),
        }
        Ok(report)
    }

    /// Measures each size, and says so.
    fn each(
        &self,
        report: &mut Report,
        out: &mut impl Write,
        mut measure: impl FnMut(u32) -> Result<Point, Failure>,
    ) -> Result<(), Failure> {
        for &size in &self.sizes {
            let place = || format!("{} of {size} bytes", self.options.op);
            let point = measure(size).map_err(|failure| failure.during(place))?;
            if !self.options.json {
                report.print_row(out, &point)?;
            }
            report.points.push(point);
        }
        Ok(())
    }

    /// Messages of a size; none where it is time that counts.
    fn iterations(&self, size: u32) -> Option<u64> {
        let usual = if self.options.what == What::Lat { 1000 } else { 5000 };
        let enough = (ENOUGH / u64::from(size)).clamp(100, usual);
        match self.options.duration {
            Some(_) => None,
            None => Some(self.options.iterations.unwrap_or(enough)),
        }
    }

    fn latency<W: Completions<F>>(
        &self,
        players: &mut Players<F, W>,
        size: u32,
    ) -> Result<Measured, Failure> {
        let op = self.options.op;
        let Some(iterations) = self.iterations(size) else {
            let longest = Duration::from_secs(self.options.duration.unwrap_or(1));
            let plan = |warmup| Plan { op, size, iterations: CHUNK, warmup };
            let mut all = players.measure_one(&plan(CHUNK), || ())?;
            let start = Instant::now();
            while start.elapsed() < longest {
                let more = players.measure_one(&plan(0), || ())?;
                // Both were made with the same bounds.
                let _ = all.half_round_trips.add(more.half_round_trips);
            }
            return Ok(all);
        };
        players.measure_one(&self.plan(size, iterations), || ())
    }
}

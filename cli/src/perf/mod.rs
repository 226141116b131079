//! `doorbell perf`: latency, bandwidth and message rate between two queue pairs of one NIC.
//!
//! | file | holds |
//! |---|---|
//! | `stream` | many messages under way at once, in one direction |
//! | `report` | what was measured: perftest's tables, and JSON |
//! | `plot` | the picture |
//!
//! Latency is measured by the rounds of `pingpong`, which verify every byte.

mod plot;
mod report;
mod stream;

use crate::arguments::{Doorbell, PerfOptions, What};
use crate::completions::{Completions, Patience, Polling, Sleeping};
use crate::failure::Failure;
use crate::family::{Connectx, Facts, Family, Netxtreme};
use crate::nics;
use crate::pingpong::end::{self, ONE_AT_A_TIME};
use crate::pingpong::rounds::{Match, Measured, Plan};
use crate::pingpong::verify::Verifier;
use crate::pingpong::{Players, interruption};
use doorbell::connection::Connection;
use doorbell::endpoint::Mtu;
use doorbell::{bnxt, mlx5};
use doorbell_hal::linux::Machine;
use doorbell_hal::mmio::{Uncached, WriteCombining};
use doorbell_hal::pci::PciFunction;
use doorbell_hal::uverbs::Uverbs;
use report::{Point, Report};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use stream::Stream;

/// Runs the command.
pub fn run(options: &PerfOptions) -> Result<(), Failure> {
    // What cannot be drawn is better known before an hour of measurements.
    let overlays = options.overlay.iter().map(|path| report::read(path, options.what));
    let mut reports: Vec<Report> = overlays.collect::<Result<_, _>>()?;
    let interrupted = interruption()?;
    let mut out = io::stdout().lock();
    let out = &mut out;
    let machine = Machine::this();
    let report = match options.device.as_str() {
        nics::VIRTUAL => on_connectx(&nics::open_virtual()?, true, options, interrupted, out),
        nics::VIRTUAL_NETXTREME => {
            on_netxtreme(&nics::open_virtual_netxtreme()?, true, options, interrupted, out)
        }
        name => match bnxt::index(name) {
            Some(index) => {
                on_netxtreme(&bnxt::open(&machine, index)?, false, options, interrupted, out)
            }
            None => {
                on_connectx(&nics::open_real(&machine, name)?, false, options, interrupted, out)
            }
        },
    }?;
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

/// Chooses the types that the options stand for, on a ConnectX.
fn on_connectx<V: Uverbs>(
    nic: &mlx5::Nic<V>,
    is_virtual: bool,
    options: &PerfOptions,
    interrupted: Arc<AtomicBool>,
    out: &mut impl Write,
) -> Result<Report, Failure> {
    type Plain<V> = Connectx<V, Uncached>;
    type Combining<V> = Connectx<V, WriteCombining>;
    let run = (nic, is_virtual, options, interrupted);
    match (options.doorbell, options.events) {
        (Doorbell::Uncached, false) => measure::<Plain<V>, Polling<Plain<V>>>(run, out),
        (Doorbell::Uncached, true) => measure::<Plain<V>, Sleeping<V>>(run, out),
        (Doorbell::BlueFlame, false) => measure::<Combining<V>, Polling<Combining<V>>>(run, out),
        (Doorbell::BlueFlame, true) => measure::<Combining<V>, Sleeping<V>>(run, out),
    }
}

/// The same on a BCM57608.
fn on_netxtreme<P: PciFunction>(
    nic: &bnxt::Nic<P>,
    is_virtual: bool,
    options: &PerfOptions,
    interrupted: Arc<AtomicBool>,
    out: &mut impl Write,
) -> Result<Report, Failure> {
    if options.events || options.doorbell != Doorbell::Uncached {
        return Err(Failure::Usage(nics::NETXTREME_IS_POLLED.into()));
    }
    let run = (nic, is_virtual, options, interrupted);
    measure::<Netxtreme<P>, Polling<Netxtreme<P>>>(run, out)
}

/// A NIC, whether it is virtual, what is to be measured on it, and whether somebody has had enough.
type ToRun<'a, N> = (&'a N, bool, &'a PerfOptions, Arc<AtomicBool>);

fn measure<F: Family, W: Completions<F>>(
    (nic, is_virtual, options, interrupted): ToRun<'_, F::Nic>,
    out: &mut impl Write,
) -> Result<Report, Failure> {
    let sizes = options.message_sizes();
    let longest = sizes.iter().copied().max().unwrap_or(0);
    if longest > nic.max_message() {
        let (device, size, most) = (nic.name().into(), longest.into(), nic.max_message().into());
        return Err(Failure::TooLong { device, size, most });
    }
    let patience = Patience::new(is_virtual, Duration::from_secs(options.timeout), interrupted);
    let max_mtu = options.mtu.map(Mtu::from);
    let connection = Connection { max_mtu, ..Connection::new() };
    Run::<F> { nic, sizes, longest, options, connection, patience, is_virtual }.measure::<W>(out)
}

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
    fn measure<W: Completions<F>>(self, out: &mut impl Write) -> Result<Report, Failure> {
        let mut report = Report::new(self.nic, self.is_virtual, self.options);
        if !self.options.json {
            report.print_heading(out)?;
        }
        let ends = |sizes| {
            end::connected::<F, W>(self.nic, self.longest as usize, sizes, &self.connection)
        };
        let outcome = match self.options.what {
            What::Lat => {
                let mut players = Players::Together(Box::new(Match {
                    ends: ends(ONE_AT_A_TIME)?,
                    patience: self.patience.clone(),
                    seed: 1,
                    inline: self.options.inline,
                    verifier: Verifier::new(),
                }));
                self.each(&mut report, out, |size| {
                    let measured = self.latency(&mut players, size)?;
                    Ok(Point::latency(size, &measured.half_round_trips))
                })
            }
            What::Bw | What::Rate => {
                let inline = self.options.inline.then_some(self.longest);
                let mut stream = Stream {
                    ends: ends(stream::sizes(self.options.depth, inline))?,
                    patience: &self.patience,
                    options: self.options,
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
        players.measure_one(&Plan { op, size, iterations, warmup: iterations / 10 }, || ())
    }
}

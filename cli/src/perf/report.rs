//! What was measured: perftest's tables, and JSON.

use super::stream::Streamed;
use crate::arguments::{Op, PerfOptions, What};
use crate::failure::Failure;
use crate::family::Facts;
use crate::pingpong::report::link_layer;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

/// A run: a curve of the plot.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub what: What,
    pub op: Op,
    device: String,
    /// Whether the NIC is a model, whose times say nothing about hardware.
    #[serde(rename = "virtual")]
    is_virtual: bool,
    link_layer: String,
    depth: u32,
    batch: u32,
    inline: bool,
    blueflame: bool,
    events: bool,
    /// Whether nobody interrupted it.
    pub complete: bool,
    pub points: Vec<Point>,
}

/// What was measured of one size.
#[derive(Debug, Serialize, Deserialize)]
pub struct Point {
    pub size: u32,
    pub messages: u64,
    #[serde(flatten)]
    pub figures: Figures,
}

/// The figures of a size.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Figures {
    /// Half of a round trip, in microseconds.
    Latency {
        min: f64,
        max: f64,
        mean: f64,
        deviation: f64,
        /// Percentiles: which, and the time that so many are within.
        percentiles: Vec<(f64, f64)>,
    },
    /// Messages a second.
    Bandwidth { average: f64, peak: f64 },
}

/// The percentiles that are written down.
const PERCENTILES: [f64; 12] =
    [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

/// A MiB, which perftest calls MB.
const MEBIBYTE: f64 = (1 << 20) as f64;

impl Point {
    /// Of times in nanoseconds.
    pub fn latency(size: u32, times: &Histogram<u64>) -> Point {
        let microseconds = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        let percentiles = PERCENTILES
            .map(|percentile| (percentile, microseconds(times.value_at_percentile(percentile))));
        let figures = Figures::Latency {
            min: microseconds(times.min()),
            max: microseconds(times.max()),
            mean: times.mean() / 1000.0,
            deviation: times.stdev() / 1000.0,
            percentiles: percentiles.into(),
        };
        Point { size, messages: times.len(), figures }
    }

    pub fn bandwidth(streamed: &Streamed) -> Point {
        let Streamed { size, messages, time, peak } = *streamed;
        let average = messages as f64 / time.as_secs_f64();
        Point { size, messages, figures: Figures::Bandwidth { average, peak } }
    }

    /// MiB a second, of so many messages a second.
    pub fn mebibytes(&self, messages: f64) -> f64 {
        messages * f64::from(self.size) / MEBIBYTE
    }
}

impl Report {
    /// A report without points.
    pub fn new(nic: &impl Facts, is_virtual: bool, options: &PerfOptions) -> Self {
        Report {
            what: options.what,
            op: options.op,
            device: nic.name().into(),
            is_virtual,
            link_layer: link_layer(nic.link()).into(),
            depth: if options.what == What::Lat { 1 } else { options.depth },
            batch: if options.what == What::Lat { 1 } else { options.batch },
            inline: options.inline,
            blueflame: options.doorbell == crate::arguments::Doorbell::BlueFlame,
            events: options.events,
            complete: true,
            points: Vec::new(),
        }
    }

    /// What distinguishes it from other runs.
    pub fn label(&self) -> String {
        let mut label = format!("{} on {}", self.op, self.device);
        if self.what != What::Lat {
            label += &format!(", depth {}, batch {}", self.depth, self.batch);
        }
        for (is, what) in
            [(self.inline, "inline"), (self.blueflame, "BlueFlame"), (self.events, "events")]
        {
            if is {
                label += ", ";
                label += what;
            }
        }
        label
    }

    /// The lines above the table, and its heading: perftest's.
    pub fn print_heading(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}: {}", self.label(), self.link_layer)?;
        if self.is_virtual {
            writeln!(out, "This NIC is a model: its times say nothing about hardware.")?;
        }
        match self.what {
            What::Lat => writeln!(
                out,
                " #bytes    #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    \
                 t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]   \
                 99.99% percentile[usec]"
            ),
            What::Bw | What::Rate => writeln!(
                out,
                " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
            ),
        }
    }

    /// A row.
    pub fn print_row(&self, out: &mut impl Write, point: &Point) -> io::Result<()> {
        let Point { size, messages, figures } = point;
        match figures {
            Figures::Latency { min, max, mean, deviation, percentiles } => {
                let at = |percentile: f64| {
                    let found = percentiles.iter().find(|(known, _)| *known == percentile);
                    found.map_or(0.0, |(_, time)| *time)
                };
                let (median, p99, p999, p9999) = (at(50.0), at(99.0), at(99.9), at(99.99));
                writeln!(
                    out,
                    " {size:<9} {messages:<14} {min:<14.2} {max:<12.2} {median:<16.2} {mean:<14.2} \
                     {deviation:<15.2} {p99:<22.2} {p999:<24.2} {p9999:.2}"
                )
            }
            Figures::Bandwidth { average, peak } => {
                let (peak, mean) = (point.mebibytes(*peak), point.mebibytes(*average));
                let rate = average / 1e6;
                writeln!(out, " {size:<10} {messages:<14} {peak:<18.2} {mean:<20.2} {rate:.6}")
            }
        }
    }

    pub fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

/// An earlier run of the same kind, from a file of its JSON.
pub fn read(path: &Path, what: What) -> Result<Report, Failure> {
    let wrong = |why: String| Failure::File { path: path.into(), why };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let report: Report = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("not what `doorbell perf --json` prints: {error}")))?;
    if report.what != what {
        return Err(wrong(format!(
            "it holds a run of {:?}, and this is one of {what:?}",
            report.what
        )));
    }
    Ok(report)
}

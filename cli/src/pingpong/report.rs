//! What was measured, as a table that grows row by row or as one JSON document.

use super::rounds::{Measured, Plan};
use crate::arguments::{Doorbell, Op};
use crate::units;
use doorbell::endpoint::LinkLayer;
use serde::Serialize;
use std::io::{self, Write};
use std::net::Ipv6Addr;

/// What all measurements of a run have in common.
#[derive(Debug, Serialize)]
pub struct Setup {
    pub device: Device,
    pub path_mtu: u32,
    pub doorbell: Doorbell,
    pub completions: Waiting,
    pub inline: bool,
    pub seed: u64,
}

/// The NIC.
#[derive(Debug, Serialize)]
pub struct Device {
    pub name: String,
    /// Whether it is a model, whose times say nothing about hardware.
    #[serde(rename = "virtual")]
    pub is_virtual: bool,
    pub link_layer: &'static str,
    pub gid: Ipv6Addr,
}

/// How completions were waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Waiting {
    Polled,
    Events,
}

/// The link layer, as JSON has it.
pub fn link_layer(link: LinkLayer) -> &'static str {
    match link {
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::InfiniBand => "InfiniBand",
    }
}

impl Setup {
    /// The lines above the table.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Setup { device, path_mtu, .. } = self;
        let doorbell = match self.doorbell {
            Doorbell::Uncached => "uncached doorbell",
            Doorbell::BlueFlame => "BlueFlame doorbell",
        };
        let waiting = match self.completions {
            Waiting::Polled => "polling",
            Waiting::Events => "events",
        };
        let Device { name, link_layer, .. } = device;
        write!(out, "{name}: {link_layer}, MTU {path_mtu}, {doorbell}, {waiting}")?;
        writeln!(out, "{}", if self.inline { ", inline" } else { "" })?;
        if device.is_virtual {
            writeln!(out, "This NIC is a model that runs in this process.")?;
            writeln!(out, "Its times are the model's: they say nothing about hardware.")?;
        }
        writeln!(out)
    }
}

/// A table of as many columns as fit a terminal of 80.
pub struct Table {
    op: usize,
    size: usize,
    iterations: usize,
}

/// The width of a time, and of a rate.
const TIME: usize = 6;
const RATE: usize = 10;
const TIMES: [&str; 5] = ["min", "p50", "p99", "p99.9", "max"];

impl Table {
    /// A table for the rows of `plans`.
    pub fn new(plans: &[Plan]) -> Self {
        let widest = |least: &str, width: fn(&Plan) -> usize| {
            plans.iter().map(width).fold(least.len(), usize::max)
        };
        Table {
            op: widest("op", |plan| plan.op.name().len()),
            size: widest("size", |plan| units::bytes(plan.size.into()).len()),
            iterations: widest("iterations", |plan| plan.iterations.to_string().len()),
        }
    }

    /// The heading.
    pub fn print_heading(&self, out: &mut impl Write) -> io::Result<()> {
        let Table { op, size, iterations } = *self;
        let (left, middle) = (op + 1 + size + 1 + iterations + 1, TIMES.len() * (TIME + 1) - 1);
        let over_times = format!("{:^middle$}", "half a round trip, microseconds");
        writeln!(out, "{:left$}{}", "", over_times.trim_end())?;
        write!(out, "{:op$} {:>size$} {:>iterations$}", "op", "size", "iterations")?;
        for time in TIMES {
            write!(out, " {time:>TIME$}")?;
        }
        writeln!(out, " {:>RATE$}", "messages/s")
    }

    /// One row.
    pub fn print_row(&self, out: &mut impl Write, measured: &Measured) -> io::Result<()> {
        let Table { op, size, iterations } = *self;
        let plan = &measured.plan;
        let (name, bytes) = (plan.op, units::bytes(plan.size.into()));
        write!(out, "{name:op$} {bytes:>size$} {:>iterations$}", plan.iterations)?;
        for time in Times::of(measured).columns() {
            write!(out, " {:>TIME$}", units::microseconds(time))?;
        }
        writeln!(out, " {:>RATE$.0}", measured.messages_per_second())?;
        out.flush()
    }
}

/// The line below the table.
pub fn print_verified(out: &mut impl Write, all: &[Measured]) -> io::Result<()> {
    let (bytes, messages) = verified(all);
    let (bytes, messages) = (units::grouped(bytes), units::grouped(messages));
    writeln!(out)?;
    writeln!(out, "Verified {bytes} bytes in {messages} messages, warm-up included: all right.")
}

fn verified(all: &[Measured]) -> (u64, u64) {
    let bytes = all.iter().map(|measured| measured.verified_bytes).sum();
    let messages = all.iter().map(|measured| measured.verified_messages).sum();
    (bytes, messages)
}

impl Measured {
    /// How many messages a second went, one at a time, to and fro.
    fn messages_per_second(&self) -> f64 {
        2.0 * self.half_round_trips.len() as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Half of a round trip, in nanoseconds.
#[derive(Debug, Serialize)]
struct Times {
    min: u64,
    p50: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
    mean: f64,
}

impl Times {
    fn of(measured: &Measured) -> Self {
        let times = &measured.half_round_trips;
        Times {
            min: times.min(),
            p50: times.value_at_quantile(0.5),
            p99: times.value_at_quantile(0.99),
            p99_9: times.value_at_quantile(0.999),
            max: times.max(),
            mean: times.mean(),
        }
    }

    fn columns(&self) -> [u64; TIMES.len()] {
        [self.min, self.p50, self.p99, self.p99_9, self.max]
    }
}

/// A whole run, as JSON has it.
#[derive(Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    setup: &'a Setup,
    /// False if Ctrl-C ended the run early.
    complete: bool,
    results: Vec<Row>,
    verified_bytes: u64,
    verified_messages: u64,
}

#[derive(Serialize)]
struct Row {
    op: Op,
    size_bytes: u32,
    iterations: u64,
    warmup: u64,
    half_round_trip_ns: Times,
    messages_per_second: f64,
    verified_bytes: u64,
}

/// A whole run as a JSON document.
pub fn print_json(
    out: &mut impl Write,
    setup: &Setup,
    all: &[Measured],
    complete: bool,
) -> io::Result<()> {
    let results = all
        .iter()
        .map(|measured| Row {
            op: measured.plan.op,
            size_bytes: measured.plan.size,
            iterations: measured.plan.iterations,
            warmup: measured.plan.warmup,
            half_round_trip_ns: Times::of(measured),
            messages_per_second: measured.messages_per_second(),
            verified_bytes: measured.verified_bytes,
        })
        .collect();
    let (verified_bytes, verified_messages) = verified(all);
    let run = Run { setup, complete, results, verified_bytes, verified_messages };
    serde_json::to_writer_pretty(&mut *out, &run)?;
    writeln!(out)
}

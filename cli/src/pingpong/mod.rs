//! `doorbell pingpong`: messages to and fro between two queue pairs, of one NIC or of two processes.
//!
//! | file | holds |
//! |---|---|
//! | `end` | the two ends and their connection |
//! | `apart` | one end, when the other is in another process |
//! | `conversation` | what the two processes say to each other over TCP |
//! | `rc_pingpong` | one end, when the other is `ibv_rc_pingpong` |
//! | `exchange` | what each operation does with a message |
//! | `rounds` | the rounds, and what is timed of them |
//! | `verify` | the bytes, and the check of each |
//! | `report` | the table and the JSON document |
//! | `progress` | the bar |

pub mod apart;
pub mod conversation;
pub mod end;
mod exchange;
mod progress;
mod rc_pingpong;
pub mod report;
pub mod rounds;
pub mod verify;

use crate::arguments::{Fabric, Op, PingpongOptions, Stranger};
use crate::completions::{Completions, Patience};
use crate::failure::Failure;
use crate::family::{Facts, Family};
use crate::job::{Job, on_connectx, on_netxtreme};
use crate::{nics, units};
use apart::{Apart, Side};
use conversation::{Ask, Conversation};
use doorbell::bnxt;
use doorbell::connection::Connection;
use doorbell::endpoint::Mtu;
use doorbell_hal::linux::Machine;
use doorbell_model::connectx::Network;
use exchange::Exchange;
use progress::Progress;
use report::{Device, Setup, Table, Waiting};
use rounds::{Match, Measured, Plan};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use verify::Verifier;

/// Whether somebody has pressed Ctrl-C. The second one ends the program at once.
pub fn interruption() -> Result<Arc<AtomicBool>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let interrupt = signal_hook::consts::SIGINT;
    let now = i32::from(crate::arguments::INTERRUPTED);
    signal_hook::flag::register_conditional_shutdown(interrupt, now, interrupted.clone())?;
    signal_hook::flag::register(interrupt, interrupted.clone())?;
    Ok(interrupted)
}

/// Meets the process that has the other end, if there is one.
pub fn partner(
    listen: &Option<String>,
    connect: &Option<String>,
    patience: &Patience,
    out: &mut impl Write,
) -> Result<Option<(Side, Conversation)>, Failure> {
    Ok(match (listen, connect) {
        (Some(address), _) => {
            Some((Side::Second, Conversation::listen(address, patience.clone(), out)?))
        }
        (None, Some(address)) => {
            Some((Side::First, Conversation::connect(address, patience.clone())?))
        }
        (None, None) => None,
    })
}

/// Runs the command.
pub fn run(options: &PingpongOptions) -> Result<(), Failure> {
    let interrupted = interruption()?;
    let mut out = io::stdout().lock();
    let timeout = Duration::from_secs(options.timeout);
    let is_virtual = [nics::VIRTUAL, nics::VIRTUAL_NETXTREME].contains(&options.device.as_str());
    let patience = Patience::new(is_virtual, timeout, interrupted);
    if let Some(Stranger::RcPingpong) = options.with {
        return with_stranger(options, &patience, &mut out);
    }
    let partner = partner(&options.listen, &options.connect, &patience, &mut out)?;
    // This machine's, as the partner sees it.
    let own_ip = partner.as_ref().map(|(_, conversation)| conversation.own_ip());
    let PingpongOptions { doorbell, events, .. } = *options;
    let job = |is_virtual| ToPlay { is_virtual, options, patience, partner };
    if options.device == nics::VIRTUAL_NETXTREME {
        if own_ip.is_some() {
            return Err(nics::in_one_process(&options.device));
        }
        let nic = nics::open_virtual_netxtreme()?;
        return on_netxtreme(&nic, doorbell, events, job(true), &mut out);
    }
    if let Some(path) = options.device.strip_prefix(nics::VFIO_USER) {
        let nic = nics::open_emulated(Path::new(path))?;
        return on_netxtreme(&nic, doorbell, events, job(true), &mut out);
    }
    if let Some(index) = bnxt::index(&options.device) {
        let nic = bnxt::open(&Machine::this(), index)?;
        return on_netxtreme(&nic, doorbell, events, job(false), &mut out);
    }
    if !is_virtual {
        let nic = nics::open_real(&Machine::this(), &options.device)?;
        return on_connectx(&nic, doorbell, events, job(false), &mut out);
    }
    let Some(own_ip) = own_ip else {
        return on_connectx(&nics::open_virtual()?, doorbell, events, job(true), &mut out);
    };
    let (nic, counters, _shown) =
        nics::open_on_udp(own_ip?, options.mtu.map(Mtu::from), options.pcap.as_deref())?;
    let ended = on_connectx(&nic, doorbell, events, job(true), &mut out);
    drop(nic);
    if !options.json {
        writeln!(out, "{}", counters.read())?;
    }
    ended
}

/// Plays with a program that is not this one.
fn with_stranger(
    options: &PingpongOptions,
    patience: &Patience,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let unreachable = || {
        let text = "--with needs a NIC that reaches the other program's: --device, or --fabric";
        Err(Failure::Usage(text.into()))
    };
    let PingpongOptions { doorbell, events, .. } = *options;
    let job = |peer_mac| ToPlayWithStranger { options, peer_mac, patience };
    match (options.device.as_str(), &options.fabric) {
        (nics::VIRTUAL, Some(Fabric::Local(directory))) => {
            let (nic, network) = nics::open_on_local(directory)?;
            let ended = on_connectx(&nic, doorbell, events, job(None), out);
            // What was received is acknowledged before the NIC goes.
            network.say_goodbye(Network::GOODBYE);
            ended
        }
        (nics::VIRTUAL, Some(Fabric::Udp(address, mtu))) => {
            let (nic, ..) = nics::open_on_udp(*address, mtu.map(Mtu::from), None)?;
            on_connectx(&nic, doorbell, events, job(None), out)
        }
        (nics::VIRTUAL_NETXTREME, Some(Fabric::Udp(address, mtu))) => {
            let nic = nics::open_netxtreme_on_udp(*address)?;
            // IP finds the way, so that any Ethernet address will do.
            let mac = Some(nic.mac());
            // Packets fit Ethernet's 1500 bytes unless somebody says that they may be longer.
            let options = &PingpongOptions { mtu: options.mtu.or(*mtu), ..options.clone() };
            on_netxtreme(&nic, doorbell, events, ToPlayWithStranger { options, ..job(mac) }, out)
        }
        (nics::VIRTUAL | nics::VIRTUAL_NETXTREME, _) => unreachable(),
        (name, _) => {
            let Some(index) = bnxt::index(name) else {
                let nic = nics::open_real(&Machine::this(), name)?;
                return on_connectx(&nic, doorbell, events, job(None), out);
            };
            if options.peer_mac.is_none() {
                let text = "a BCM57608 needs --peer-mac: the other program does not say it";
                return Err(Failure::Usage(text.into()));
            }
            let nic = bnxt::open(&Machine::this(), index)?;
            on_netxtreme(&nic, doorbell, events, job(options.peer_mac), out)
        }
    }
}

/// To be done: play with a program that is not this one.
struct ToPlayWithStranger<'a> {
    options: &'a PingpongOptions,
    peer_mac: Option<[u8; 6]>,
    patience: &'a Patience,
}

impl Job for ToPlayWithStranger<'_> {
    type Outcome = ();

    fn run<F: Family, W: Completions<F>>(
        self,
        nic: &F::Nic,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let ToPlayWithStranger { options, peer_mac, patience } = self;
        rc_pingpong::play::<F, W>(nic, options, peer_mac, patience, out)
    }
}

/// To be done: play with an end of this process, or with a partner that has the other.
struct ToPlay<'a> {
    is_virtual: bool,
    options: &'a PingpongOptions,
    patience: Patience,
    partner: Option<(Side, Conversation)>,
}

impl Job for ToPlay<'_> {
    type Outcome = ();

    fn run<F: Family, W: Completions<F>>(
        self,
        nic: &F::Nic,
        out: &mut impl Write,
    ) -> Result<(), Failure> {
        let ToPlay { is_virtual, options, patience, partner } = self;
        let plans = plans(options);
        let longest = plans.iter().map(|plan| plan.size).max().unwrap_or(0);
        if longest > nic.max_message() {
            let (device, size, most) =
                (nic.name().into(), longest.into(), nic.max_message().into());
            return Err(Failure::TooLong { device, size, most });
        }
        let max_mtu = options.mtu.map(Mtu::from);
        let setup = Setup {
            device: Device {
                name: options.device.clone(),
                is_virtual,
                link_layer: report::link_layer(nic.link()),
                gid: nic.gid().into(),
            },
            path_mtu: max_mtu.map_or(nic.mtu(), |mtu| mtu.min(nic.mtu())).bytes(),
            doorbell: options.doorbell,
            completions: if options.events { Waiting::Events } else { Waiting::Polled },
            inline: options.inline,
            seed: options.seed,
        };
        let connection = Connection { max_mtu, ..Connection::new() };
        let json = options.json;
        Run { nic, plans, longest, setup, connection, patience, partner, json }.play::<W>(out)
    }
}

/// Bytes that are moved each way when nobody says how often.
const ENOUGH: u64 = 64 << 20;

/// What the options ask to be measured, in order.
fn plans(options: &PingpongOptions) -> Vec<Plan> {
    // What fits a request on the NICs there are, or up to a megabyte.
    let most = if options.inline { 256 } else { 1 << 20 };
    let sweep: Vec<u32> =
        (0..=20).step_by(2).map(|log| 1 << log).filter(|&size| size <= most).collect();
    let sizes = if options.sizes.is_empty() { &sweep } else { &options.sizes };
    let plan = |op: Op, size: u32| {
        let iterations =
            options.iterations.unwrap_or_else(|| (ENOUGH / u64::from(size)).clamp(100, 1000));
        let warmup = options.warmup.unwrap_or(iterations / 10);
        Plan { op, size, iterations, warmup }
    };
    let operations = options.operations();
    operations
        .iter()
        .flat_map(|&op| {
            let sizes = if op.is_atomic() { &[8][..] } else { sizes };
            sizes.iter().map(move |&size| plan(op, size))
        })
        .collect()
}

/// A run that is set up.
struct Run<'a, F: Family> {
    nic: &'a F::Nic,
    plans: Vec<Plan>,
    /// The longest message.
    longest: u32,
    setup: Setup,
    connection: Connection,
    patience: Patience,
    /// The process that has the other end, if it is not this one.
    partner: Option<(Side, Conversation)>,
    json: bool,
}

/// Who plays.
pub enum Players<F: Family, W> {
    Together(Box<Match<F, W>>),
    Apart(Box<Apart<F, W>>),
}

impl<F: Family> Run<'_, F> {
    fn play<W: Completions<F>>(mut self, out: &mut impl Write) -> Result<(), Failure> {
        // Who only answers takes no times that mean something.
        let mut quiet = self.json;
        let mut players = match self.partner.take() {
            None => Players::Together(Box::new(Match {
                ends: end::connected::<F, W>(
                    self.nic,
                    self.longest as usize,
                    end::ONE_AT_A_TIME,
                    &self.connection,
                )?,
                patience: self.patience,
                seed: self.setup.seed,
                inline: self.setup.inline,
                verifier: Verifier::new(),
            })),
            Some((Side::First, conversation)) => {
                let Setup { seed, inline, path_mtu, .. } = self.setup;
                Players::Apart(Box::new(Apart::<F, W>::ask(
                    self.nic,
                    Ask::new(self.plans.clone(), seed, inline, path_mtu),
                    &self.connection,
                    self.patience,
                    conversation,
                )?))
            }
            Some((Side::Second, conversation)) => {
                let (apart, plans) = Apart::<F, W>::answer(
                    self.nic,
                    self.longest,
                    &self.connection,
                    self.patience,
                    conversation,
                )?;
                (self.plans, quiet) = (plans, true);
                Players::Apart(Box::new(apart))
            }
        };
        let table = Table::new(&self.plans);
        if !quiet {
            self.setup.print(out)?;
            table.print_heading(out)?;
        }
        let rounds = self.plans.iter().map(|plan| plan.warmup.saturating_add(plan.iterations));
        let mut progress = Progress::new(rounds.fold(0, u64::saturating_add));
        let mut all = Vec::new();
        let mut ended = Ok(());
        for plan in &self.plans {
            progress.label(format!("{} {}", plan.op, units::bytes(plan.size.into())));
            match players.measure_one(plan, || progress.round()) {
                Ok(measured) => {
                    if !quiet {
                        progress.suspend(|| table.print_row(out, &measured))?;
                    }
                    all.push(measured);
                }
                Err(failure) => {
                    ended = Err(failure);
                    break;
                }
            }
        }
        progress.finish();
        if ended.is_ok() {
            ended = players.finish();
        }
        match ended {
            // What was measured before somebody had enough is of use.
            Ok(()) | Err(Failure::Interrupted) => {
                let complete = ended.is_ok();
                if self.json {
                    report::print_json(out, &self.setup, &all, complete)?;
                } else if !all.is_empty() {
                    report::print_verified(out, &all)?;
                }
            }
            Err(_) => {}
        }
        ended
    }
}

impl<F: Family, W: Completions<F>> Players<F, W> {
    /// Waits until the other end, if it is of another process, has found everything right, too.
    pub fn finish(self) -> Result<(), Failure> {
        match self {
            Players::Together(_) => Ok(()),
            Players::Apart(apart) => apart.finish(),
        }
    }

    /// Measures `plan`. `after_round` is called between rounds.
    pub fn measure_one(
        &mut self,
        plan: &Plan,
        after_round: impl FnMut(),
    ) -> Result<Measured, Failure> {
        match plan.op {
            Op::Write => self.measure::<exchange::Write>(plan, after_round),
            Op::WriteImmediate => self.measure::<exchange::WriteImmediate>(plan, after_round),
            Op::Read => self.measure::<exchange::Read>(plan, after_round),
            Op::Send => self.measure::<exchange::Send>(plan, after_round),
            Op::SendImmediate => self.measure::<exchange::SendImmediate>(plan, after_round),
            Op::FetchAdd => self.measure::<exchange::FetchAdd>(plan, after_round),
            Op::CompareSwap => self.measure::<exchange::CompareSwap>(plan, after_round),
        }
    }

    fn measure<E: Exchange>(
        &mut self,
        plan: &Plan,
        after_round: impl FnMut(),
    ) -> Result<Measured, Failure> {
        match self {
            Players::Together(players) => players.measure::<E>(plan, after_round),
            Players::Apart(players) => players.measure::<E>(plan, after_round),
        }
    }
}

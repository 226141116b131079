//! The command line.

use crate::failure::Failure;
use crate::nics;
use clap::builder::ArgPredicate;
use clap::{Args, Parser, Subcommand, ValueEnum};
use doorbell::endpoint::Mtu;
use doorbell::wr::MAX_MESSAGE;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// Exit codes other than 0.
pub const FAILED: u8 = 1;
pub const USAGE: u8 = 2;
/// What shells say of a program that Ctrl-C ended.
pub const INTERRUPTED: u8 = 130;

/// Looks at the RDMA NICs of this machine and measures them. Where there is none, a virtual one
/// runs in the program.
#[derive(Debug, Parser)]
#[command(name = "doorbell", version, max_term_width = 80)]
#[command(after_help = "Exit codes: 0 all went well; 1 the command failed; 2 the command line is \
                        wrong; 130 Ctrl-C.")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Devices(DevicesOptions),
    /// Takes a NIC's function from its kernel driver, so that doorbell can drive it.
    ///
    /// For BCM57608 NICs. The NIC's network interfaces and RDMA devices go until it is attached again,
    /// or the machine starts anew. Behind an IOMMU, vfio-pci takes the function, whose module must be
    /// loaded; otherwise no driver has it, and no other function of its device may have one. Refuses a
    /// function that a process holds. Needs root.
    Detach(FunctionOptions),
    /// Gives a NIC's function back to its kernel driver, after `doorbell detach`.
    ///
    /// Refuses a function that a process holds. Needs root.
    Attach(FunctionOptions),
    Pingpong(PingpongOptions),
    Perf(PerfOptions),
    Shim(ShimOptions),
    Model(ModelOptions),
}

/// Gives a virtual NIC to a virtual machine.
#[derive(Debug, Args)]
pub struct ModelOptions {
    #[command(subcommand)]
    pub command: ModelCommand,
}

#[derive(Debug, Subcommand)]
pub enum ModelCommand {
    Connectx(ModelConnectxOptions),
    Netxtreme(ModelNetxtremeOptions),
}

/// A virtual ConnectX, as a PCI function over vfio-user.
///
/// Ends when the machine has hung up. What the device refuses is said on standard error. Lines on
/// standard input ask something of it meanwhile, and are answered with a line each on standard
/// output: "help" says which.
#[derive(Debug, Args)]
#[command(after_help = "Example, with QEMU 10.1 or newer:
  doorbell model connectx --socket /tmp/nic.socket &
  qemu-system-x86_64 -m 2G -object memory-backend-memfd,id=mem,size=2G,share=on \\
    -machine q35,memory-backend=mem ... -device \\
    '{\"driver\":\"vfio-user-pci\",\"socket\":{\"type\":\"unix\",\"path\":\"/tmp/nic.socket\"}}'")]
pub struct ModelConnectxOptions {
    /// The socket to listen at; nothing may be there yet. Several times for several NICs, all on
    /// one network.
    #[arg(long = "socket", value_name = "PATH", required = true)]
    pub sockets: Vec<PathBuf>,

    /// Where the network of the NICs goes on.
    #[command(flatten)]
    pub wire: Wire,

    /// What the port is.
    #[arg(long, default_value = "ethernet")]
    pub link: Link,

    /// Offer no write-combining registers: every request is fetched from memory.
    #[arg(long)]
    pub no_blueflame: bool,
}

/// A virtual BCM57608, as a PCI function over vfio-user. Otherwise like `connectx`.
#[derive(Debug, Args)]
pub struct ModelNetxtremeOptions {
    /// The socket to listen at; nothing may be there yet. Several times for several NICs, all on
    /// one network.
    #[arg(long = "socket", value_name = "PATH", required = true)]
    pub sockets: Vec<PathBuf>,

    /// Where the network of the NICs goes on.
    #[command(flatten)]
    pub wire: Wire,
}

/// What leads from the network of virtual NICs to other processes.
#[derive(Debug, Args)]
pub struct Wire {
    /// A cable to another process that carries Ethernet frames, a datagram each: the socket of this
    /// end, which is made, and that of the other. The other may be `doorbell model` with --cable
    /// PEER,OWN, or QEMU with -netdev dgram,local.type=unix,local.path=PEER,remote.type=unix,remote.path=OWN.
    #[arg(long, value_name = "OWN,PEER", value_parser = cable)]
    pub cable: Option<Ends>,

    /// What the first NIC's Ethernet address is made of; the others follow. NICs on one network need
    /// different ones.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=60_000))]
    pub number: u16,

    /// Write the frames on the cable to this file, for Wireshark.
    #[arg(long, value_name = "FILE", requires = "cable")]
    pub pcap: Option<PathBuf>,
}

/// The sockets at the ends of a cable.
#[derive(Clone, Debug)]
pub struct Ends {
    pub own: PathBuf,
    pub peer: PathBuf,
}

fn cable(text: &str) -> Result<Ends, String> {
    match text.split_once(',') {
        Some((own, peer)) if !own.is_empty() && !peer.is_empty() => {
            Ok(Ends { own: own.into(), peer: peer.into() })
        }
        _ => Err("two paths with a comma between: this end's socket, and the other's".into()),
    }
}

/// Kinds of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Link {
    Ethernet,
    Infiniband,
}

/// Lists the NICs of this machine, and the virtual one.
#[derive(Debug, Args)]
pub struct DevicesOptions {
    /// Say what they have counted, too: packets that were dropped, and why, among it. NICs of this
    /// machine, and virtual ones that processes of this user have open (`doorbell shim`, `doorbell
    /// model`, and those of --listen and --connect). In text, only what is not 0.
    #[arg(long)]
    pub counters: bool,

    /// Print one JSON document instead of text.
    #[arg(long)]
    pub json: bool,
}

/// The function of a NIC.
#[derive(Debug, Args)]
pub struct FunctionOptions {
    /// The NIC as `doorbell devices` calls it (BNXT, BNXT:1), or its address (0000:01:00.0).
    pub function: String,
}

/// Sends messages to and fro between two queue pairs, checks every byte, and measures the time.
///
/// Both queue pairs belong to this process and to one NIC: by default to a virtual one, which is a
/// model of a NIC and not as fast as hardware. With --listen in one process and --connect in
/// another, on this machine or on another, each has one of them. Virtual NICs then send RoCE v2 in
/// UDP, from the address that the processes reach each other at.
///
/// One iteration is a message from the first queue pair to the second, and one back. Its time ends
/// when the other side sees the message: in memory for write, by a completion for the operations
/// that take a receive. Read, fetch-add and compare-swap end when their own completion is there.
/// Half of that time is what the table shows.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  doorbell pingpong
  doorbell pingpong --op send --size 64 --iterations 100000
  doorbell pingpong --op all --sizes 8,4K,1M --events
  doorbell pingpong --device mlx5_0 --doorbell blueflame --inline --size 32
  doorbell pingpong --listen & doorbell pingpong --connect localhost
  ibv_rc_pingpong -g 3 & doorbell pingpong --device mlx5_0 --with ibv_rc_pingpong localhost")]
pub struct PingpongOptions {
    /// The NIC: virtual-connectx, virtual-netxtreme, one that `doorbell devices` lists, or
    /// vfio-user:PATH for what `doorbell model netxtreme --socket PATH` emulates.
    #[arg(long, default_value = nics::VIRTUAL)]
    pub device: String,

    /// The operation, several of them with commas between, or all.
    #[arg(long = "op", value_name = "OP", value_delimiter = ',', default_value = "write")]
    pub ops: Vec<OpChoice>,

    /// The size of a message, or several with commas between: from 1 to 2G (2^31) bytes, with K, M
    /// or G for KiB, MiB or GiB. [default: 1 to 1M, each four times the last; atomics: 8]
    #[arg(
        long = "size",
        visible_alias = "sizes",
        value_name = "BYTES",
        value_delimiter = ',',
        value_parser = size
    )]
    pub sizes: Vec<u32>,

    /// How many messages go each way, for each size. [default: 1000; for long messages fewer, at
    /// least 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_ITERATIONS))]
    pub iterations: Option<u64>,

    /// How many go each way before those that are measured. [default: a tenth of them]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=MOST_ITERATIONS))]
    pub warmup: Option<u64>,

    /// Copy the bytes of a message into the work request. For write, write-immediate, send and
    /// send-immediate.
    #[arg(long)]
    pub inline: bool,

    /// How the NIC is told of a request: by a store to a register, or by a copy of the request
    /// to a write-combining one.
    #[arg(long, default_value = "uncached")]
    pub doorbell: Doorbell,

    /// Sleep until an event says that a completion is there, instead of polling for it. Write then
    /// waits for its own completion.
    #[arg(long)]
    pub events: bool,

    /// The most bytes of a packet. [default: what the port can]
    #[arg(long)]
    pub mtu: Option<PathMtu>,

    /// Chooses the bytes that are sent: the same seed, the same bytes.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,

    /// Give up when a message does not arrive for this many seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub timeout: u64,

    /// Wait for a process that connects, and measure what it asks for, once. Messages may be as long
    /// as the longest --size. With [::]:18519, over IPv6, too. [default: 0.0.0.0:18519]
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = LISTEN,
        conflicts_with_all = ["connect", "json"]
    )]
    pub listen: Option<String>,

    /// Measure with the process that listens there: HOST, or HOST:PORT.
    #[arg(long, value_name = "ADDRESS")]
    pub connect: Option<String>,

    /// Play with this program of rdma-core instead of another doorbell: as its client if HOST is
    /// named, as its server otherwise. The options that both have (--size, --iterations, --mtu) must
    /// be the same for both.
    #[arg(
        long,
        value_name = "PROGRAM",
        conflicts_with_all = ["listen", "connect", "json", "ops", "inline", "warmup", "pcap"]
    )]
    pub with: Option<Stranger>,

    /// Where the server of --with listens: a host, or HOST:PORT.
    #[arg(requires = "with")]
    pub host: Option<String>,

    /// The TCP port of --with.
    #[arg(long, default_value_t = 18515, requires = "with")]
    pub port: u16,

    /// Where the virtual NIC finds the other program, for --with: on the fabric of `doorbell shim` in
    /// this directory, or by RoCE v2 in UDP, from this address of this machine. A comma and a path MTU
    /// may follow the address. A BCM57608's address is 10.x.y.z.
    #[arg(long, value_name = "DIRECTORY|udp:ADDRESS", requires = "with", value_parser = fabric)]
    pub fabric: Option<Fabric>,

    /// The Ethernet address of the other program's port, for --with and a BCM57608 of this machine: no
    /// kernel looks it up for it.
    #[arg(long, value_name = "MAC", requires = "with", value_parser = mac)]
    pub peer_mac: Option<[u8; 6]>,

    /// Write the packets of a virtual NIC to this file, for Wireshark. For --listen and --connect.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// What a virtual NIC reaches other processes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// The fabric of `doorbell shim` in a directory.
    Local(PathBuf),
    /// RoCE v2 in UDP, from an address, in packets of at most so many bytes.
    Udp(IpAddr, Option<PathMtu>),
}

fn fabric(text: &str) -> Result<Fabric, String> {
    let Some(text) = text.strip_prefix("udp:") else { return Ok(Fabric::Local(text.into())) };
    let (address, mtu) = match text.split_once(',') {
        Some((address, mtu)) => (address, Some(PathMtu::from_str(mtu, false)?)),
        None => (text, None),
    };
    Ok(Fabric::Udp(address.parse().map_err(|error| format!("{address}: {error}"))?, mtu))
}

/// An Ethernet address such as `02:0a:f7:00:00:01`.
fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Vec<u8> = text
        .split(':')
        .filter(|byte| byte.len() == 2 && byte.bytes().all(|digit| digit.is_ascii_hexdigit()))
        .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    match (text.len(), <[u8; 6]>::try_from(bytes)) {
        // Six pairs of digits and five colons.
        (17, Ok(mac)) => Ok(mac),
        _ => Err("not an Ethernet address such as 02:0a:f7:00:00:01".into()),
    }
}

/// A program that a pingpong can be played with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stranger {
    #[value(name = "ibv_rc_pingpong")]
    RcPingpong,
}

/// Where a process listens.
const LISTEN: &str = "0.0.0.0:18519";
/// The port that it listens at.
pub const PORT: u16 = 18519;

/// Runs a program of libibverbs, unmodified, on a virtual ConnectX in its own process: no RDMA
/// hardware, no kernel module, no root.
///
/// Every process has a NIC of its own, mlx5_0. Programs that run at the same time reach each other
/// if they have the same fabric: a directory, by default one for each user. What they use to find
/// each other beforehand (most use TCP) works as ever.
///
/// The program is started with a library that answers for the files of an RDMA device (LD_PRELOAD),
/// so it has to be linked dynamically. Its own children are, too.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  doorbell shim -- ibv_devinfo -v
  doorbell shim -- ib_write_lat & doorbell shim -- ib_write_lat localhost
  doorbell shim --link infiniband -- ibv_rc_pingpong
  doorbell shim --fabric udp:192.0.2.1 -- ib_write_bw -x 3")]
pub struct ShimOptions {
    /// The directory of the fabric: programs with another one are on another network. Or udp:ADDRESS,
    /// an address of this machine from which the NIC sends RoCE v2 in UDP, to whoever speaks it. A
    /// comma and a path MTU may follow; packets fit Ethernet's 1500 bytes without.
    #[arg(long, value_name = "DIRECTORY|udp:ADDRESS")]
    pub fabric: Option<PathBuf>,

    /// The link of the NIC's port.
    #[arg(long, default_value = "ethernet")]
    pub link: Link,

    /// Say on standard error what the kernel was asked and answered, and what the NIC did.
    #[arg(long)]
    pub trace: bool,

    /// The program, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

impl Link {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Link::Ethernet => "ethernet",
            Link::Infiniband => "infiniband",
        }
    }
}

/// Measures latency, bandwidth or message rate between two queue pairs, as perftest does.
///
/// Both queue pairs belong to this process and to one NIC: by default to a virtual one, which is a
/// model of a NIC and not as fast as hardware. With --listen in one process and --connect in another,
/// each has one of them, as with `doorbell pingpong`. What arrives is verified.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  doorbell perf lat --size 8
  doorbell perf --listen & doorbell perf bw --sweep --connect localhost
  doorbell perf bw --op read --sweep --plot read.svg
  doorbell perf rate --inline --doorbell blueflame --depth 64 --batch 8
  doorbell perf bw --sweep --json > first.json
  doorbell perf bw --sweep --events --overlay first.json --plot both.svg")]
pub struct PerfOptions {
    /// What is measured. With --listen, what the process that connects asks for.
    #[arg(
        required = false,
        required_unless_present = "listen",
        default_value_if("listen", ArgPredicate::IsPresent, "lat")
    )]
    pub what: What,

    /// The NIC: virtual-connectx, virtual-netxtreme, or one that `doorbell devices` lists.
    #[arg(long, default_value = nics::VIRTUAL)]
    pub device: String,

    /// The operation: any for lat; write, read or send for the others.
    #[arg(long, default_value = "write")]
    pub op: Op,

    /// The size of a message, or several with commas between: from 1 to 2G (2^31) bytes, with K, M
    /// or G for KiB, MiB or GiB. [default: 8 for lat and rate, 64K for bw; atomics: 8]
    #[arg(
        long = "size",
        visible_alias = "sizes",
        value_name = "BYTES",
        value_delimiter = ',',
        value_parser = size
    )]
    pub sizes: Vec<u32>,

    /// Every size from 2 bytes to 8 MiB, each twice the last; inline, to 128 bytes.
    #[arg(long, conflicts_with = "sizes")]
    pub sweep: bool,

    /// Messages of each size. [default: 1000, or 5000 for bw and rate; for long messages fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_ITERATIONS))]
    pub iterations: Option<u64>,

    /// Measure each size for so many seconds, instead of a number of messages.
    #[arg(
        long,
        value_name = "SECONDS",
        conflicts_with = "iterations",
        value_parser = clap::value_parser!(u64).range(1..=86400)
    )]
    pub duration: Option<u64>,

    /// Messages under way at once, for bw and rate.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub depth: u32,

    /// Messages to a doorbell and to a completion, for bw and rate.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub batch: u32,

    /// Copy the bytes of a message into the work request.
    #[arg(long)]
    pub inline: bool,

    /// How the NIC is told of a request: by a store to a register, or by a copy of the request
    /// to a write-combining one.
    #[arg(long, default_value = "uncached")]
    pub doorbell: Doorbell,

    /// Sleep until an event says that a completion is there, instead of polling for it.
    #[arg(long)]
    pub events: bool,

    /// The most bytes of a packet. [default: what the port can]
    #[arg(long)]
    pub mtu: Option<PathMtu>,

    /// Give up when nothing arrives for this many seconds.
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    pub timeout: u64,

    /// Wait for a process that connects, and answer what it asks for, once.
    #[arg(
        long,
        value_name = "ADDRESS",
        num_args = 0..=1,
        default_missing_value = LISTEN,
        conflicts_with_all = ["connect", "json", "plot", "sizes", "iterations", "duration"]
    )]
    pub listen: Option<String>,

    /// Measure with the process that listens there: HOST, or HOST:PORT.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "duration")]
    pub connect: Option<String>,

    /// Write the packets of a virtual NIC to this file, for Wireshark. For --listen and --connect.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,

    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,

    /// Draw what was measured: over the sizes, or of one size its latency over the percentiles.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Draw an earlier run, too: a file of what --json printed. May be given several times.
    #[arg(long, value_name = "FILE.json", requires = "plot")]
    pub overlay: Vec<PathBuf>,
}

/// What `doorbell perf` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Half of a round trip, one message at a time.
    Lat,
    /// Bytes in one direction.
    Bw,
    /// Short messages in one direction.
    Rate,
}

impl PerfOptions {
    /// Refuses what no NIC could do.
    pub fn check(&self) -> Result<(), Failure> {
        let Self { op, batch, depth, .. } = self;
        let usage = |what| Err(Failure::Usage(what));
        let apart = self.listen.is_some() || self.connect.is_some();
        if self.pcap.is_some() && !(apart && self.device == nics::VIRTUAL) {
            return usage("--pcap is for a virtual NIC, with --listen or --connect".into());
        }
        if self.inline && !op.can_inline() {
            return usage(format!(
                "--inline is for operations that carry bytes to the peer, and --op {op} does not"
            ));
        }
        if let Some(size) = self.sizes.iter().find(|size| op.is_atomic() && **size != 8) {
            return usage(format!("--op {op} works on 8 bytes, and --size is {size}"));
        }
        if self.sweep && op.is_atomic() {
            return usage(format!("--op {op} works on 8 bytes: there is nothing to --sweep"));
        }
        if self.what != What::Lat && !matches!(op, Op::Write | Op::Read | Op::Send) {
            return usage(format!("bw and rate are of write, read or send, and --op is {op}"));
        }
        if self.what != What::Lat && batch > depth {
            return usage(format!("--batch is {batch}, more than --depth, which is {depth}"));
        }
        Ok(())
    }

    /// The sizes to be measured.
    pub fn message_sizes(&self) -> Vec<u32> {
        if !self.sizes.is_empty() {
            return self.sizes.clone();
        }
        match (self.sweep, self.what) {
            (true, _) => {
                (1..=23).map(|log| 1 << log).filter(|&size| !self.inline || size <= 128).collect()
            }
            (false, What::Bw) if !self.inline => vec![64 << 10],
            (false, _) => vec![8],
        }
    }
}

const MOST_ITERATIONS: u64 = 1_000_000_000;

/// What the program does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    Write,
    WriteImmediate,
    Read,
    Send,
    SendImmediate,
    FetchAdd,
    CompareSwap,
}

impl Op {
    /// Whether it works on a word of 8 bytes and on nothing else.
    pub fn is_atomic(self) -> bool {
        matches!(self, Op::FetchAdd | Op::CompareSwap)
    }

    /// Whether its bytes can travel in the work request.
    pub fn can_inline(self) -> bool {
        !self.is_atomic() && self != Op::Read
    }

    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Op::Write => "write",
            Op::WriteImmediate => "write-immediate",
            Op::Read => "read",
            Op::Send => "send",
            Op::SendImmediate => "send-immediate",
            Op::FetchAdd => "fetch-add",
            Op::CompareSwap => "compare-swap",
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An operation, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpChoice {
    One(Op),
    All,
}

impl ValueEnum for OpChoice {
    fn value_variants<'a>() -> &'a [Self] {
        use OpChoice::{All, One};
        &[
            One(Op::Write),
            One(Op::WriteImmediate),
            One(Op::Read),
            One(Op::Send),
            One(Op::SendImmediate),
            One(Op::FetchAdd),
            One(Op::CompareSwap),
            All,
        ]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        match self {
            OpChoice::One(op) => op.to_possible_value(),
            OpChoice::All => Some("all".into()),
        }
    }
}

/// How the NIC is told of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Doorbell {
    Uncached,
    #[value(name = "blueflame")]
    BlueFlame,
}

/// The most bytes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathMtu {
    #[value(name = "256")]
    B256,
    #[value(name = "512")]
    B512,
    #[value(name = "1024")]
    B1024,
    #[value(name = "2048")]
    B2048,
    #[value(name = "4096")]
    B4096,
}

impl From<PathMtu> for Mtu {
    fn from(mtu: PathMtu) -> Mtu {
        match mtu {
            PathMtu::B256 => Mtu::B256,
            PathMtu::B512 => Mtu::B512,
            PathMtu::B1024 => Mtu::B1024,
            PathMtu::B2048 => Mtu::B2048,
            PathMtu::B4096 => Mtu::B4096,
        }
    }
}

/// A size such as `64`, `4K` or `1MiB`.
fn size(text: &str) -> Result<u32, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(format!("not a size: {BOUNDS}, such as 64, 4K or 1M")),
    };
    if number.is_empty() {
        return Err(format!("not a size: {BOUNDS}, such as 64, 4K or 1M"));
    }
    // What does not even fit 64 bits is too large, too.
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match bytes.and_then(|bytes| u32::try_from(bytes).ok()) {
        Some(bytes @ 1..=MAX_MESSAGE) => Ok(bytes),
        _ => Err(format!("must be {BOUNDS}")),
    }
}

const BOUNDS: &str = "from 1 to 2147483648 (2G) bytes";

impl PingpongOptions {
    /// The operations, each once, in the order in which they were named.
    pub fn operations(&self) -> Vec<Op> {
        let mut operations = Vec::new();
        for choice in &self.ops {
            let named = match choice {
                OpChoice::One(op) => std::slice::from_ref(op),
                OpChoice::All => Op::value_variants(),
            };
            for op in named {
                if !operations.contains(op) {
                    operations.push(*op);
                }
            }
        }
        operations
    }

    /// Refuses what no NIC could do.
    pub fn check(&self) -> Result<(), Failure> {
        let apart = self.listen.is_some() || self.connect.is_some();
        if self.pcap.is_some() && !(apart && self.device == nics::VIRTUAL) {
            return Err(Failure::Usage(
                "--pcap is for a virtual NIC, with --listen or --connect".into(),
            ));
        }
        for choice in &self.ops {
            // Of all operations, each does what it can.
            let OpChoice::One(op) = *choice else { continue };
            if self.inline && !op.can_inline() {
                return Err(Failure::Usage(format!(
                    "--inline is for operations that carry bytes to the peer, and --op {op} does not"
                )));
            }
            if let Some(size) = self.sizes.iter().find(|size| op.is_atomic() && **size != 8) {
                return Err(Failure::Usage(format!(
                    "--op {op} works on 8 bytes, and --size is {size}"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn pingpong(arguments: &[&str]) -> PingpongOptions {
        let all = ["doorbell", "pingpong"].iter().chain(arguments);
        match Arguments::try_parse_from(all).unwrap().command {
            Command::Pingpong(options) => options,
            other => unreachable!("{other:?} is not what was asked for"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        for (text, bytes) in [("1", 1), ("64", 64), ("4K", 4096), ("4KiB", 4096), ("1m", 1 << 20)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert_eq!(size("2G"), Ok(1 << 31));
        assert_eq!(size("2147483648"), Ok(1 << 31));
        for text in ["0", "0K", "2147483649", "3G", "18446744073709551617", "99999999999G"] {
            let error = size(text).unwrap_err();
            assert!(error.contains("must be from 1 to 2147483648"), "{text}: {error}");
        }
        for text in ["", "K", "-1", "64Q", "6 4", "0x40", "1.5K"] {
            let error = size(text).unwrap_err();
            assert!(error.contains("not a size: from 1 to 2147483648"), "{text}: {error}");
        }
    }

    #[test]
    fn a_fabric_is_a_directory_or_an_address_and_maybe_an_mtu() {
        assert_eq!(fabric("/tmp/wires"), Ok(Fabric::Local("/tmp/wires".into())));
        let address = IpAddr::from([10, 9, 0, 2]);
        assert_eq!(fabric("udp:10.9.0.2"), Ok(Fabric::Udp(address, None)));
        assert_eq!(fabric("udp:10.9.0.2,256"), Ok(Fabric::Udp(address, Some(PathMtu::B256))));
        for text in ["udp:", "udp:here", "udp:10.9.0.2,1500", "udp:10.9.0.2,"] {
            assert!(fabric(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_ethernet_address_is_six_pairs_of_digits() {
        assert_eq!(mac("02:0a:F7:00:00:ff"), Ok([2, 10, 0xf7, 0, 0, 255]));
        for text in
            ["", "02:0a:f7:00:00", "02:0a:f7:00:00:01:02", "02:0a:f7:00:0:001", "02:0a:f7:00:00:+1"]
        {
            assert!(mac(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_operations_are_each_operation_once() {
        assert_eq!(pingpong(&[]).operations(), [Op::Write]);
        assert_eq!(pingpong(&["--op", "read,write"]).operations(), [Op::Read, Op::Write]);
        let all = pingpong(&["--op", "send,all,send"]).operations();
        assert_eq!(all.len(), Op::value_variants().len());
        assert_eq!(all[0], Op::Send);
    }

    #[test]
    fn an_operation_is_named_as_on_the_command_line_and_in_json() {
        for op in Op::value_variants() {
            assert_eq!(op.to_possible_value().unwrap().get_name(), op.name());
            assert_eq!(serde_json::to_value(op).unwrap(), op.name());
        }
    }

    #[test]
    fn what_no_nic_could_do_is_refused_by_name() {
        let refused = |arguments: &[&str]| pingpong(arguments).check().unwrap_err().to_string();
        assert!(refused(&["--inline", "--op", "read"]).contains("--op read"));
        assert!(refused(&["--inline", "--op", "fetch-add"]).contains("--op fetch-add"));
        let error = refused(&["--op", "compare-swap", "--sizes", "8,16"]);
        assert!(error.contains("8 bytes, and --size is 16"), "{error}");
        assert!(pingpong(&["--op", "compare-swap", "--size", "8"]).check().is_ok());
        assert!(pingpong(&["--op", "all", "--inline", "--size", "16"]).check().is_ok());
    }
}

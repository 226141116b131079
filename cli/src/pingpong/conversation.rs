//! What two processes say to each other over TCP, besides what their NICs exchange.
//!
//! Each message is a line of JSON. A line has a bound, and whatever comes in is looked at before it
//! is used: the other side may be anybody.

use super::rounds::Plan;
use crate::arguments::PORT;
use crate::completions::Patience;
use crate::failure::Failure;
use doorbell::endpoint::{Endpoint, Mtu};
use doorbell::wr::RemoteSlice;
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The version of these messages. Another one is refused.
const VERSION: u32 = 1;
/// The most bytes of a line: a greeting with all the plans there may be.
const LONGEST_LINE: usize = 1 << 20;
/// The most measurements of a run.
pub const MOST_PLANS: usize = 1 << 10;
/// How long a read waits before a look whether the program is to end.
const NAP: Duration = Duration::from_millis(50);

/// A line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Line {
    /// The first of the side that connects.
    Ask(Ask),
    /// The first of the side that listens.
    Answer(Greeting),
    /// This side is ready for the next step.
    Ready,
    /// This side gives up.
    Failed(String),
}

/// What is to be measured, and by whom.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Of these messages.
    pub version: u32,
    /// In order.
    pub plans: Vec<Plan>,
    /// Of the bytes.
    pub seed: u64,
    /// Whether the bytes travel in the requests.
    pub inline: bool,
    /// The most bytes of a packet: a path MTU of InfiniBand.
    pub mtu: u32,
    /// Messages under way at once, where they go in one direction. Rounds are played where it is not
    /// said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    /// Who asks. Always there when it is said.
    greeting: Option<Greeting>,
}

/// The most messages under way at once.
const MOST_DEPTH: u32 = 1 << 12;

/// What the other side has to know.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Greeting {
    /// [`Endpoint::to_bytes`].
    endpoint: Vec<u8>,
    /// Address, length and key of where messages are read from.
    source: (u64, u64, u32),
    /// The same of where messages are written to.
    target: (u64, u64, u32),
}

impl Ask {
    /// Of this version, for rounds.
    pub fn new(plans: Vec<Plan>, seed: u64, inline: bool, mtu: u32) -> Ask {
        Ask { version: VERSION, plans, seed, inline, mtu, depth: None, greeting: None }
    }

    /// The same for `depth` messages under way at once, in one direction.
    pub fn streaming(self, depth: u32) -> Ask {
        Ask { depth: Some(depth), ..self }
    }

    /// The same, by somebody.
    pub fn by(self, greeting: Greeting) -> Ask {
        Ask { greeting: Some(greeting), ..self }
    }

    /// Who asks.
    pub fn greeting(&self) -> Result<&Greeting, Failure> {
        let nobody = || Failure::Peer("the other process does not say who asks".into());
        self.greeting.as_ref().ok_or_else(nobody)
    }

    /// Messages under way at once, unless rounds are to be played.
    pub fn depth(&self) -> Option<u32> {
        self.depth
    }

    /// The longest message.
    pub fn longest(&self) -> u32 {
        self.plans.iter().map(|plan| plan.size).max().unwrap_or(0)
    }

    /// The most bytes of a packet; the least there is where it says less.
    pub fn max_mtu(&self) -> Mtu {
        let fits = |mtu: &Mtu| mtu.bytes() <= self.mtu;
        (1..=5).rev().filter_map(Mtu::from_code).find(fits).unwrap_or(Mtu::B256)
    }

    /// Refuses what cannot be measured here, or would take more memory than `longest` bytes for a
    /// message.
    pub fn check(&self, longest: u32) -> Result<(), Failure> {
        let wrong =
            |what, expected: String, found: String| Err(Failure::Wrong { what, expected, found });
        if self.version != VERSION {
            let (expected, found) = (VERSION.to_string(), self.version.to_string());
            return wrong("the version of the other program's messages", expected, found);
        }
        if self.plans.is_empty() || self.plans.len() > MOST_PLANS {
            let expected = format!("from 1 to {MOST_PLANS}");
            return wrong("the number of measurements", expected, self.plans.len().to_string());
        }
        if self.depth.is_some_and(|depth| !(1..=MOST_DEPTH).contains(&depth)) {
            let found = self.depth.unwrap_or(0).to_string();
            return wrong(
                "the number of messages under way",
                format!("from 1 to {MOST_DEPTH}"),
                found,
            );
        }
        for Plan { op, size, .. } in &self.plans {
            if *size == 0 || *size > longest || op.is_atomic() && *size != 8 {
                let most = if op.is_atomic() { 8 } else { longest };
                return wrong(
                    "the size of a message",
                    format!("at most {most} (--size)"),
                    size.to_string(),
                );
            }
        }
        Ok(())
    }
}

impl Greeting {
    /// Of a queue pair and its memory.
    pub fn new(endpoint: &Endpoint, source: &RemoteSlice, target: &RemoteSlice) -> Greeting {
        let slice = |slice: &RemoteSlice| (slice.address(), slice.len(), slice.rkey());
        Greeting {
            endpoint: endpoint.to_bytes().to_vec(),
            source: slice(source),
            target: slice(target),
        }
    }

    /// The queue pair.
    pub fn endpoint(&self) -> Result<Endpoint, Failure> {
        Endpoint::from_bytes(&self.endpoint).map_err(|error| Failure::Peer(error.to_string()))
    }

    /// Where messages are read from, and written to. Whatever they say, only the peer's own NIC is
    /// asked for it.
    pub fn memory(&self) -> [RemoteSlice; 2] {
        [self.source, self.target].map(|(address, len, rkey)| RemoteSlice::new(address, len, rkey))
    }
}

/// A connection to the other process.
pub struct Conversation {
    stream: TcpStream,
    /// What was read and is no whole line yet.
    read: Vec<u8>,
    patience: Patience,
    /// Looks, now and then, whether the other side is still there.
    looks: u32,
}

/// Looks at what a process waits for, between two looks at the other side.
const LOOKS: u32 = 256;

impl Conversation {
    /// Waits at `address` for one process that connects, and says where on `out`.
    pub fn listen(
        address: &str,
        patience: Patience,
        out: &mut impl Write,
    ) -> Result<Conversation, Failure> {
        Conversation::new(accept(address, &patience, out)?, patience)
    }

    /// Connects to the process that listens at `address`: a host, or a host and a port.
    pub fn connect(address: &str, patience: Patience) -> Result<Conversation, Failure> {
        Conversation::new(reach(address, PORT, &patience)?, patience)
    }

    fn new(stream: TcpStream, patience: Patience) -> Result<Conversation, Failure> {
        Ok(Conversation { stream, read: Vec::new(), patience, looks: 0 })
    }

    /// The address that this side is reached at.
    pub fn own_ip(&self) -> Result<IpAddr, Failure> {
        // A socket of both versions names IPv4 addresses as IPv6 ones.
        Ok(self.stream.local_addr().map_err(lost)?.ip().to_canonical())
    }

    /// Says something to the other side.
    pub fn say(&mut self, line: &Line) -> Result<(), Failure> {
        let mut bytes = serde_json::to_vec(line)
            .map_err(|error| Failure::Peer(format!("a line cannot be written: {error}")))?;
        bytes.push(b'\n');
        self.stream.write_all(&bytes).map_err(lost)
    }

    /// The next line. That the other side has given up is an error.
    pub fn hear(&mut self) -> Result<Line, Failure> {
        let deadline = Instant::now() + self.patience.most();
        loop {
            if let Some(line) = self.next_line()? {
                return Ok(line);
            }
            self.patience.check()?;
            if Instant::now() > deadline {
                let after = self.patience.most();
                return Err(Failure::TimedOut { what: "word from the other process", after });
            }
            self.fill()?;
        }
    }

    /// Says that this side is ready, and waits until the other is.
    pub fn meet(&mut self) -> Result<(), Failure> {
        self.say(&Line::Ready)?;
        self.wait()
    }

    /// Waits until the other side is ready.
    pub fn wait(&mut self) -> Result<(), Failure> {
        match self.hear()? {
            Line::Ready => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether the other side has said that it is ready, by now.
    pub fn heard_ready(&mut self) -> Result<bool, Failure> {
        self.fill_now()?;
        match self.next_line()? {
            None => Ok(false),
            Some(Line::Ready) => Ok(true),
            Some(other) => Err(unexpected(&other)),
        }
    }

    /// Fails if the other side has given up, or is gone. For when something else is waited for.
    pub fn is_there(&mut self) -> Result<(), Failure> {
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(LOOKS) {
            return Ok(());
        }
        self.fill_now()?;
        match self.read.first() {
            // A line that says it is ready is for whoever waits for it.
            Some(_) if self.read.starts_with(b"{") => self.next_line().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Reads what is there.
    fn fill_now(&mut self) -> Result<(), Failure> {
        self.stream.set_nonblocking(true).map_err(lost)?;
        let filled = self.fill();
        self.stream.set_nonblocking(false).map_err(lost)?;
        filled
    }

    /// Reads what is there, at most for a nap.
    fn fill(&mut self) -> Result<(), Failure> {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Failure::Peer("the other process has hung up".into())),
            Ok(length) => {
                self.read.extend_from_slice(bytes.get(..length).unwrap_or_default());
                Ok(())
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
                _ => Err(lost(error)),
            },
        }
    }

    fn next_line(&mut self) -> Result<Option<Line>, Failure> {
        let Some(end) = self.read.iter().position(|byte| *byte == b'\n') else {
            if self.read.len() > LONGEST_LINE {
                let what = format!("the other side's line is longer than {LONGEST_LINE} bytes");
                return Err(Failure::Peer(what));
            }
            return Ok(None);
        };
        let line: Vec<u8> = self.read.drain(..=end).collect();
        match serde_json::from_slice(&line) {
            Ok(Line::Failed(why)) => {
                Err(Failure::Peer(format!("the other process gave up: {why}")))
            }
            Ok(line) => Ok(Some(line)),
            Err(error) => {
                let what =
                    format!("the other side is no doorbell pingpong of this version: {error}");
                Err(Failure::Peer(what))
            }
        }
    }
}

/// Waits at `address` for one process that connects, and says where on `out`. A read of the stream
/// waits no longer than a nap.
pub fn accept(
    address: &str,
    patience: &Patience,
    out: &mut impl Write,
) -> Result<TcpStream, Failure> {
    let failed = |error| Failure::Address { address: address.into(), error };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    writeln!(out, "Waiting at {}", listener.local_addr().map_err(failed)?)?;
    out.flush()?;
    loop {
        patience.check()?;
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).map_err(lost)?;
                return ready(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(NAP),
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Connects to the process that listens at `address`: a host, whose port is then `port`, or a host
/// and a port. A read of the stream waits no longer than a nap.
pub fn reach(address: &str, port: u16, patience: &Patience) -> Result<TcpStream, Failure> {
    let failed = |error| Failure::Address { address: address.into(), error };
    let resolved = match address.to_socket_addrs() {
        Ok(addresses) => addresses,
        // No port.
        Err(_) => {
            let host = address.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            (host.unwrap_or(address), port).to_socket_addrs().map_err(failed)?
        }
    };
    let mut why = std::io::Error::new(ErrorKind::NotFound, "no address has this name");
    for address in resolved {
        match TcpStream::connect_timeout(&address, patience.most()) {
            Ok(stream) => return ready(stream),
            Err(error) => why = error,
        }
    }
    Err(failed(why))
}

fn ready(stream: TcpStream) -> Result<TcpStream, Failure> {
    stream.set_nodelay(true).map_err(lost)?;
    stream.set_read_timeout(Some(NAP)).map_err(lost)?;
    Ok(stream)
}

/// A line that does not belong here.
pub fn unexpected(line: &Line) -> Failure {
    let what = match line {
        Line::Ask(_) => "a question",
        Line::Answer(_) => "an answer",
        Line::Ready => "that it is ready",
        Line::Failed(_) => "that it has given up",
    };
    Failure::Peer(format!("the other process says {what}, and that is not its turn"))
}

/// The connection broke.
pub fn lost(error: std::io::Error) -> Failure {
    Failure::Peer(format!("the connection to the other process: {error}"))
}

//! `doorbell model`: virtual NICs for virtual machines.
//!
//! | file | holds |
//! |---|---|
//! | `request` | what can be asked of a NIC while a machine runs |

mod request;

use crate::arguments::{
    Link, ModelCommand, ModelConnectxOptions, ModelNetxtremeOptions, ModelOptions, Wire,
};
use crate::failure::Failure;
use doorbell_model::connectx::Network;
use doorbell_model::fabric::{Cable, Pcap, WireCounters};
use doorbell_model::kernel::LinkLayer;
use doorbell_model::network::Shown;
use doorbell_model::netxtreme;
use doorbell_model::pci::{ConnectxFunction, Function, Identity, NetxtremeFunction, Server};
use request::Request;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Runs the command.
pub fn run(options: &ModelOptions) -> Result<(), Failure> {
    match &options.command {
        ModelCommand::Connectx(options) => connectx(options),
        ModelCommand::Netxtreme(options) => netxtreme(options),
    }
}

/// A function and the socket that it is reached at.
struct Served {
    server: Server,
    function: Arc<Mutex<dyn Function>>,
    name: String,
}

fn connectx(options: &ModelConnectxOptions) -> Result<(), Failure> {
    let (network, counters) = network(&options.wire)?;
    let _shown = show(&network, "virtual ConnectX of a machine", &counters);
    let link = match options.link {
        Link::Ethernet => LinkLayer::Ethernet,
        Link::Infiniband => LinkLayer::InfiniBand,
    };
    serve_all(&options.sockets, options.wire.number, counters, |number| {
        let mut identity = Identity::new(link, number);
        identity.capabilities.blue_flame = !options.no_blueflame;
        ConnectxFunction::new(&network, identity)
    })
}

fn netxtreme(options: &ModelNetxtremeOptions) -> Result<(), Failure> {
    let (network, counters) = network(&options.wire)?;
    let _shown = show(&network, "virtual BCM57608 of a machine", &counters);
    serve_all(&options.sockets, options.wire.number, counters, |number| {
        NetxtremeFunction::new(&network, netxtreme::Identity::new(number))
    })
}

/// The network that the options describe, and what becomes of the packets that leave this process.
fn network(wire: &Wire) -> Result<(Network, Option<Arc<WireCounters>>), Failure> {
    let Some(ends) = &wire.cable else { return Ok((Network::free(), None)) };
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: io::Error| Failure::Socket { path, why: error.to_string() }
    };
    let mut cable = Cable::between(&ends.own, &ends.peer).map_err(failed(&ends.own))?;
    if let Some(path) = &wire.pcap {
        cable = cable.capture(Pcap::create(path).map_err(failed(path))?);
    }
    let counters = cable.counters();
    Ok((Network::builder().fabric(cable).build(), Some(counters)))
}

/// Shows the network's counters to `doorbell devices --counters`. A NIC that cannot works all the same.
fn show(network: &Network, name: &str, wire: &Option<Arc<WireCounters>>) -> Option<Shown> {
    let shown = network.show_counters(name, wire.clone());
    shown.inspect_err(|error| say(&format!("the counters are not shown: {error}"))).ok()
}

/// Serves a function at each socket, the first with number `first`.
fn serve_all<F: Function + 'static>(
    sockets: &[PathBuf],
    first: u16,
    wire: Option<Arc<WireCounters>>,
    mut make: impl FnMut(u16) -> F,
) -> Result<(), Failure> {
    // Every socket is there before any machine is waited for.
    let mut all = Vec::new();
    for (number, path) in (first..).zip(sockets) {
        let function = make(number);
        all.push(Served {
            server: bind(path, &function)?,
            function: Arc::new(Mutex::new(function)),
            name: path.display().to_string(),
        });
    }
    let functions: Vec<_> = all.iter().map(|served| Arc::clone(&served.function)).collect();
    // Ends with the program: it waits for lines that may never come.
    let counters = wire.clone();
    thread::spawn(move || obey(&functions, counters.as_deref()));
    let served: Vec<_> = all.into_iter().map(|served| thread::spawn(|| serve(served))).collect();
    for served in served {
        served.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    if let Some(wire) = wire {
        say(&format!("the cable: {}", wire.read()));
    }
    Ok(())
}

fn bind(path: &Path, function: &dyn Function) -> Result<Server, Failure> {
    Server::bind(path, function)
        .map_err(|why| Failure::Socket { path: path.to_owned(), why: why.to_string() })
}

fn serve(served: Served) -> Result<(), Failure> {
    let Served { server, function, name } = served;
    let mut log = |line: &str| say(&format!("{name}: {line}"));
    server
        .run(&function, &mut log)
        .map_err(|why| Failure::Socket { path: name.clone().into(), why: why.to_string() })?;
    for line in lock(&function).take_log() {
        log(&line);
    }
    log(&format!("the machine has hung up. {}", lock(&function).summary()));
    Ok(())
}

/// Does what the lines of standard input ask for, and answers each with a line on standard output.
fn obey(functions: &[Arc<Mutex<dyn Function>>], wire: Option<&WireCounters>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let answer = match line.parse::<Request>() {
            Ok(request) => {
                let answers = functions.iter().map(|function| request.answer(&mut *lock(function)));
                let wire = wire.filter(|_| request == Request::Counters);
                let wire = wire.map(|wire| format!("the cable: {}", wire.read()));
                answers.chain(wire).collect::<Vec<_>>().join("; ")
            }
            Err(why) => why,
        };
        // Who does not read the answers does not want them.
        let _ = writeln!(io::stdout().lock(), "{answer}");
    }
}

fn lock(function: &Mutex<dyn Function>) -> MutexGuard<'_, dyn Function + 'static> {
    function.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something to the person who watches. If nobody does, the machine runs on all the same.
fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

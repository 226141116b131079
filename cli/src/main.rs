//! The `doorbell` program: looks at the RDMA NICs of a machine, and measures them; on a virtual NIC
//! where there is none.
//!
//! | module | holds |
//! |---|---|
//! | `arguments` | the command line |
//! | `nics` | which NIC a name means |
//! | `devices` | `doorbell devices` |
//! | `detach` | `doorbell detach`, `doorbell attach` |
//! | `pingpong` | `doorbell pingpong` |
//! | `perf` | `doorbell perf` |
//! | `model` | `doorbell model` |
//! | `shim` | `doorbell shim` |
//! | `completions` | waiting for completions: by polling, or by events |
//! | `failure` | why a command failed |
//! | `units` | numbers for people |

mod arguments;
mod completions;
mod detach;
mod devices;
mod failure;
mod family;
mod job;
mod model;
mod nics;
mod perf;
mod pingpong;
mod shim;
mod units;

use arguments::{Arguments, Command};
use clap::Parser;
use failure::Failure;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Model(options) => model::run(&options),
        Command::Devices(options) => devices::run(&options),
        Command::Detach(options) => detach::detach(&options),
        Command::Attach(options) => detach::attach(&options),
        Command::Pingpong(options) => options.check().and_then(|()| pingpong::run(&options)),
        Command::Perf(options) => options.check().and_then(|()| perf::run(&options)),
        Command::Shim(options) => shim::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Whoever closed the output does not want to read about it.
            if !failure.is_closed_output() {
                // There is nowhere left to say that this failed, too.
                let _ = complain(&failure);
            }
            failure.exit_code()
        }
    }
}

fn complain(failure: &Failure) -> io::Result<()> {
    let mut err = io::stderr().lock();
    writeln!(err, "error: {failure}")?;
    match failure.advice() {
        Some(advice) => writeln!(err, "\n{advice}"),
        None => Ok(()),
    }
}

impl Failure {
    fn exit_code(&self) -> ExitCode {
        match self.cause() {
            Failure::Usage(_) => ExitCode::from(arguments::USAGE),
            Failure::Interrupted => ExitCode::from(arguments::INTERRUPTED),
            _ => ExitCode::from(arguments::FAILED),
        }
    }
}

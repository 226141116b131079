//! `doorbell shim`: runs a program of libibverbs on a virtual ConnectX in its own process.

use crate::arguments::ShimOptions;
use crate::failure::Failure;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library that the program is started with (the crate `doorbell-shim`).
const LIBRARY: &str = "libdoorbell_shim.so";

/// Becomes the program. Returns only if that fails.
pub fn run(options: &ShimOptions) -> Result<(), Failure> {
    let library = library()?;
    let mut preload: OsString = library.into();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let Some((program, arguments)) = options.program.split_first() else {
        return Err(Failure::Usage("a program to run is missing".into()));
    };
    let mut command = Command::new(program);
    command.args(arguments).env("LD_PRELOAD", preload).env("DOORBELL_LINK", options.link.name());
    if let Some(fabric) = &options.fabric {
        let is_address = fabric.to_str().is_some_and(|fabric| fabric.starts_with("udp:"));
        let fabric = if is_address { fabric.clone() } else { std::path::absolute(fabric)? };
        command.env("DOORBELL_FABRIC", fabric);
    }
    if options.trace {
        command.env("DOORBELL_TRACE", "1");
    }
    let error = command.exec();
    Err(Failure::Start { program: program.to_string_lossy().into(), error })
}

/// The library: beside this program, or where it is installed; in a tree of sources it is built, so
/// that it is never older than the program.
fn library() -> Result<PathBuf, Failure> {
    let program = env::current_exe()?;
    let here = program.parent().unwrap_or(Path::new("/"));
    if let Some((target, sources)) = sources_of(here) {
        build(here, target, sources)?;
    }
    let places = [here.join(LIBRARY), here.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|place| place.exists());
    found.cloned().ok_or_else(|| Failure::NoShim { beside: here.to_path_buf() })
}

/// Where cargo built this program: its target directory, and the sources above it.
fn sources_of(here: &Path) -> Option<(&Path, &Path)> {
    let target = here.parent()?;
    let is_target = target.join(".rustc_info.json").exists();
    let sources = target.ancestors().find(|above| above.join("shim/Cargo.toml").exists())?;
    is_target.then_some((target, sources))
}

fn build(here: &Path, target: &Path, sources: &Path) -> Result<(), Failure> {
    // Cargo's directory of the profile `dev` is `debug`.
    let profile = match here.file_name() {
        Some(name) if name == "debug" => "dev".into(),
        Some(name) => name.to_os_string(),
        None => return Ok(()),
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(&cargo)
        .args(["build", "--quiet", "--package", "doorbell-shim", "--target-dir"])
        .arg(target)
        .arg("--profile")
        .arg(profile)
        .current_dir(sources)
        .status();
    match built {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Failure::NoShim { beside: here.to_path_buf() }),
        // Without cargo, what is there has to do.
        Err(_) => Ok(()),
    }
}

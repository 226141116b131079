//! What the comparison needs of the machine, and what it builds.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What was built, and where results go.
pub struct Tools {
    /// This program.
    pub program: PathBuf,
    /// The library that makes a NIC for libibverbs.
    pub shim: PathBuf,
    /// `libmlx5.c`, without loops and with them.
    pub library: PathBuf,
    pub looped: PathBuf,
    /// Where results go.
    pub directory: PathBuf,
}

/// What has to be there, and the Debian package that it is in.
const NEEDED: [(&str, &str); 4] = [
    ("/usr/bin/gcc", "gcc"),
    ("/usr/include/infiniband/mlx5dv.h", "libibverbs-dev"),
    ("/etc/libibverbs.d/mlx5.driver", "ibverbs-providers"),
    ("/usr/bin/valgrind", "valgrind"),
];

/// Looks whether all is there, and builds the rest.
pub fn prepare() -> Result<Tools, String> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(path, _)| !Path::new(path).exists())
        .map(|(_, package)| *package)
        .collect();
    if !missing.is_empty() {
        return Err(format!(
            "There is no libmlx5 to compare with, or no means to. On Debian:\n\n    \
             apt-get install {}",
            missing.join(" ")
        ));
    }
    let program =
        std::env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
    // target/PROFILE/deps/side_by_side-…
    let built = program.ancestors().nth(2).ok_or("this program is not where cargo builds it")?;
    let target = built.parent().ok_or("this program is not where cargo builds it")?;
    let directory = target.join("side_by_side");
    std::fs::create_dir_all(&directory).map_err(|it| format!("{}: {it}", directory.display()))?;
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => "release",
    };
    let here = env!("CARGO_MANIFEST_DIR");
    run(Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--quiet", "--package", "doorbell-shim", "--profile", profile])
        .arg("--target-dir")
        .arg(target)
        .current_dir(here))?;
    let [library, looped] = ["libside.so", "libside_loops.so"].map(|name| directory.join(name));
    for (library, options) in [(&library, &[][..]), (&looped, &["-DLOOPS"])] {
        run(Command::new("gcc")
            .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
            .arg(library)
            .args(options)
            .arg(Path::new(here).join("benches/side_by_side/libmlx5.c"))
            .args(["-lmlx5", "-libverbs"]))?;
    }
    let shim = built.join("libdoorbell_shim.so");
    Ok(Tools { shim, library, looped, directory, program })
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

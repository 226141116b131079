//! Unmodified programs of libibverbs on the virtual NIC: Debian's, and one of ours
//! (`both_ends.c`) that verifies every byte.
//!
//! They need Debian's packages gcc, libibverbs-dev, ibverbs-utils and perftest. Where one is missing,
//! the tests that need it say so and pass, unless `DOORBELL_STRANGERS` is set: CI sets it.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The library. Cargo does not build it for its tests, which nothing links it to: they have it built.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // target/PROFILE/deps/programs-…
        let test = std::env::current_exe().unwrap();
        let built = test.ancestors().nth(2).unwrap();
        let profile = match built.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(["build", "--quiet", "--package", "doorbell-shim", "--profile", profile])
            .arg("--target-dir")
            .arg(built.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success(), "the library has to be built");
        built.join("libdoorbell_shim.so")
    })
}

/// Whether the test can run. Where strangers are required, it has to.
fn has(paths: &[&str]) -> bool {
    let missing: Vec<_> = paths.iter().filter(|path| !Path::new(path).exists()).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(std::env::var_os("DOORBELL_STRANGERS").is_none(), "there is no {missing:?}");
    eprintln!("not run: there is no {missing:?}");
    false
}

/// Programs that reach each other and nobody else.
struct Machine {
    directory: tempfile::TempDir,
    link: &'static str,
}

impl Machine {
    fn new(link: &'static str) -> Self {
        Machine { directory: tempfile::tempdir().unwrap(), link }
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", library())
            .env("DOORBELL_FABRIC", self.directory.path().join("fabric"))
            .env("DOORBELL_LINK", self.link)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// What a program prints that has to end well.
    #[track_caller]
    fn run(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> String {
        finished(self.command(program).args(arguments).spawn().unwrap())
    }

    /// Runs a program as server and as client, which have to end well. Answers what the client
    /// prints.
    #[track_caller]
    fn pair(&self, program: &str, arguments: &[&str]) -> String {
        // A port that is free now. Another process could take it first: not on a machine of tests.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let port = ["-p".to_string(), port.to_string()];
        let server = self.command(program).args(&port).args(arguments).spawn().unwrap();
        // The server says nothing when it is ready, and a client that comes too early gives up.
        let deadline = Instant::now() + PATIENCE;
        let client = loop {
            let mut client = self.command(program);
            let client = client.args(&port).args(arguments).arg("localhost").spawn().unwrap();
            let (ended, text) = ended(client);
            if ended || Instant::now() > deadline || !text.contains("onnect") {
                break (ended, text);
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        let (served, said) = ended(server);
        let (ended, text) = client;
        assert!(ended && served, "client:\n{text}\nserver:\n{said}");
        text
    }
}

/// How long a program may take. Far more than any needs; a test that hangs is to say where.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits for a program. Answers whether it ended well, and what it printed.
fn ended(mut child: Child) -> (bool, String) {
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let streams: [Box<dyn Read + Send>; 2] = [Box::new(out), Box::new(err)];
    let readers: Vec<_> = streams
        .into_iter()
        .map(|mut stream| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = stream.read_to_end(&mut bytes);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        })
        .collect();
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > deadline => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text: String = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    match status {
        Some(status) => (status.success(), format!("{text}\n{status}")),
        None => (false, format!("{text}\nkilled, because it did not end")),
    }
}

#[track_caller]
fn finished(child: Child) -> String {
    let (well, text) = ended(child);
    assert!(well, "{text}");
    text
}

#[test]
fn devinfo_shows_the_device_and_its_port() {
    if !has(&["/usr/bin/ibv_devinfo"]) {
        return;
    }
    let ethernet = Machine::new("ethernet").run("ibv_devinfo", &["-v"]);
    for line in ["mlx5_0", "PORT_ACTIVE (4)", "Ethernet", "::ffff:10.9.0.1, RoCE v2", "4X (2)"] {
        assert!(ethernet.contains(line), "{line}: {ethernet}");
    }
    let infiniband = Machine::new("infiniband").run("ibv_devinfo", &["-v"]);
    for line in ["InfiniBand", "port_lid:\t\t1", "max_mtu:\t\t4096 (5)"] {
        assert!(infiniband.contains(line), "{line}: {infiniband}");
    }
}

#[test]
fn both_ends_of_a_connection_work_in_one_process() {
    if !has(&["/usr/bin/gcc", "/usr/include/infiniband/verbs.h"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("both_ends");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/both_ends.c");
    let compiled = Command::new("gcc")
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source])
        .args(["-libverbs", "-lpthread"])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    for link in ["ethernet", "infiniband"] {
        let text = Machine::new(link).run(&program, &[]);
        assert!(text.contains("holds: everything goes away"), "{link}: {text}");
    }
}

#[test]
fn two_processes_play_pingpong() {
    if !has(&["/usr/bin/ibv_rc_pingpong"]) {
        return;
    }
    let infiniband = Machine::new("infiniband");
    infiniband.pair("ibv_rc_pingpong", &["-c", "-n", "50"]);
    infiniband.pair("ibv_rc_pingpong", &["-c", "-e", "-n", "50"]);
    Machine::new("ethernet")
        .pair("ibv_rc_pingpong", &["-c", "-g", "3", "-n", "50", "-s", "100000"]);
}

#[test]
fn a_program_that_ends_at_once_has_acknowledged_its_peers_last_message() {
    if !has(&["/usr/bin/ibv_rc_pingpong"]) {
        return;
    }
    // A client ends when it has the last message, whose sender waits for the acknowledgement.
    let machine = Machine::new("infiniband");
    for _ in 0..10 {
        machine.pair("ibv_rc_pingpong", &["-n", "1"]);
    }
}

#[test]
fn perftest_runs_between_two_processes() {
    if !has(&["/usr/bin/ib_write_bw"]) {
        return;
    }
    let ethernet = Machine::new("ethernet");
    ethernet.pair("ib_write_lat", &["-n", "50"]);
    ethernet.pair("ib_send_lat", &["-n", "20", "-e"]);
    ethernet.pair("ib_write_bw", &["-n", "50", "-q", "4", "-b", "-s", "65536"]);
    let infiniband = Machine::new("infiniband");
    infiniband.pair("ib_send_bw", &["-n", "50", "-e", "-s", "8192"]);
    infiniband.pair("ib_read_bw", &["-n", "50", "-s", "100000"]);
    infiniband.pair("ib_atomic_bw", &["-n", "50"]);
}

#[test]
fn a_program_without_verbs_notices_nothing() {
    let text = Machine::new("ethernet")
        .run("sh", &["-c", "echo one; ls /sys/class | wc -l; cat /dev/null"]);
    assert!(text.starts_with("one\n"), "{text}");
    let machine = Machine::new("ethernet");
    machine.run("true", &[]);
    assert!(!machine.directory.path().join("fabric").exists(), "a NIC was made for `true`");
}

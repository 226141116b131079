//! `doorbell pingpong --with ibv_rc_pingpong`, with Debian's program of that name on the virtual NIC.
//!
//! Where Debian's package ibverbs-utils is missing, the tests say so and pass, unless
//! `DOORBELL_STRANGERS` is set: CI sets it.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

const PROGRAM: &str = "/usr/bin/ibv_rc_pingpong";

fn has_program() -> bool {
    let there = Path::new(PROGRAM).exists();
    assert!(there || std::env::var_os("DOORBELL_STRANGERS").is_none(), "there is no {PROGRAM}");
    if !there {
        eprintln!("not run: there is no {PROGRAM}");
    }
    there
}

/// Programs whose NICs reach each other, and a port for one server.
struct Machine {
    directory: tempfile::TempDir,
    port: String,
}

impl Machine {
    fn new() -> Machine {
        // A port that is free now. Another process could take it first: not on a machine of tests.
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port().to_string();
        Machine { directory: tempfile::tempdir().unwrap(), port }
    }

    fn start(&self, arguments: &[&str]) -> Child {
        let fabric = self.directory.path().join("fabric");
        Command::new(env!("CARGO_BIN_EXE_doorbell"))
            .arg(arguments[0])
            .arg("--fabric")
            .arg(fabric)
            .args(&arguments[1..])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn ours(&self, more: &[&str]) -> Child {
        let with = ["pingpong", "--with", "ibv_rc_pingpong", "--timeout", "60", "--port"];
        self.start(&[&with[..], &[&self.port], more].concat())
    }

    /// The stranger, with the RoCE v2 identifier of its IPv4 address.
    fn theirs(&self, more: &[&str]) -> Child {
        let program = ["shim", "--", PROGRAM, "-c", "-g", "3", "-p", &self.port];
        self.start(&[&program[..], more].concat())
    }
}

#[track_caller]
fn well(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{text}");
    text
}

#[test]
fn a_stranger_s_client_gets_its_messages_back_and_each_byte_of_them_is_checked() {
    if !has_program() {
        return;
    }
    for (ours, theirs) in [
        (&["--iterations", "50"][..], &["-n", "50"][..]),
        (&["--iterations", "20", "--events", "--size", "100000"], &["-n", "20", "-s", "100000"]),
    ] {
        let machine = Machine::new();
        let mut server = machine.ours(ours);
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Waiting at "), "{line}");
        let client = machine.theirs(&[theirs, &["127.0.0.1"]].concat());
        let text = well(server);
        assert!(text.contains("came here and were verified") && !text.contains("; 0 B"), "{text}");
        well(client);
    }
}

#[test]
fn a_stranger_s_server_gives_back_what_it_got() {
    if !has_program() {
        return;
    }
    for (ours, theirs) in [
        (&["--iterations", "50"][..], &["-n", "50"][..]),
        (
            &["--iterations", "20", "--mtu", "256", "--size", "100000", "--doorbell", "blueflame"],
            &["-n", "20", "-m", "256", "-s", "100000", "-e"],
        ),
    ] {
        let machine = Machine::new();
        let mut server = machine.theirs(theirs);
        // It does not say when it listens, and starts in its own time.
        let text = loop {
            let client = machine.ours(&[ours, &["127.0.0.1"]].concat());
            let ended = client.wait_with_output().unwrap();
            if ended.status.success() {
                break String::from_utf8_lossy(&ended.stdout).into_owned();
            }
            let error = String::from_utf8_lossy(&ended.stderr).into_owned();
            let is_over = server.try_wait().unwrap().is_some();
            assert!(error.contains("Connection refused") && !is_over, "{error}");
            thread::sleep(Duration::from_millis(300));
        };
        assert!(text.contains("came here and were verified"), "{text}");
        let theirs = well(server);
        assert!(!theirs.contains("invalid data"), "{theirs}");
    }
}

#[test]
fn a_virtual_nic_of_its_own_reaches_no_stranger() {
    let refused = crate::doorbell(&["pingpong", "--with", "ibv_rc_pingpong"]).error(2);
    assert!(refused.contains("--fabric"), "{refused}");
    assert!(crate::doorbell(&["pingpong", "localhost"]).error(2).contains("--with"));
    let both = ["pingpong", "--with", "ibv_rc_pingpong", "--op", "read"];
    assert!(crate::doorbell(&both).error(2).contains("--op"));
}

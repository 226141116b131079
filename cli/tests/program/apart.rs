//! `doorbell pingpong` and `perf` between two processes: over UDP on this machine, and between network
//! namespaces that stand for two machines.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A process that waits for another.
struct Listener {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    address: String,
}

fn doorbell() -> Command {
    Command::new(env!("CARGO_BIN_EXE_doorbell"))
}

impl Listener {
    fn start(command: Command, arguments: &[&str]) -> Listener {
        Listener::of("pingpong", command, arguments)
    }

    fn of(what: &str, mut command: Command, arguments: &[&str]) -> Listener {
        let command = command.arg(what).args(arguments);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.strip_prefix("Waiting at ").expect(&line).trim().to_string();
        Listener { child, out, address }
    }

    fn on_loopback(arguments: &[&str]) -> Listener {
        Listener::start(doorbell(), &[&["--listen", "127.0.0.1:0"], arguments].concat())
    }

    /// Whether it ended well, and what it printed.
    fn ended(mut self) -> (bool, String) {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().success(), text)
    }

    #[track_caller]
    fn ended_well(self) -> String {
        let (well, text) = self.ended();
        assert!(well, "{text}");
        text
    }

    /// What it complains of when a process says `lines` to it.
    #[track_caller]
    fn complains_of(self, lines: &[u8]) -> (String, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // It may have had enough before all of it is there.
        let _ = stream.write_all(lines);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let (well, text) = self.ended();
        assert!(!well, "{text}");
        assert!(text.contains("error: "), "{text}");
        (text, String::from_utf8_lossy(&answer).into_owned())
    }
}

#[track_caller]
fn well(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// What the line of the wire's counters says was sent and received.
fn packets(text: &str) -> (u64, u64) {
    let line = text.lines().find(|line| line.contains(" packets sent, ")).expect(text);
    let numbers: Vec<u64> = line
        .split(|c: char| !c.is_ascii_digit())
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().unwrap())
        .collect();
    // Nothing malformed, corrupt, or sent to nobody.
    assert_eq!(numbers[2..5], [0, 0, 0], "{line}");
    (numbers[0], numbers[1])
}

#[test]
fn all_operations_are_verified_by_both_ends_over_udp() {
    let listener = Listener::on_loopback(&["--size", "64K"]);
    let connecting = doorbell()
        .args(["pingpong", "--connect", &listener.address])
        .args(["--op", "all", "--sizes", "1,5000,64K", "--iterations", "4", "--warmup", "1"])
        .output()
        .unwrap();
    let near = well(connecting);
    let far = listener.ended_well();
    // Five operations of each size, two on words. Each end checks what came to it: half of all.
    let bytes = 5 * 5 * (1 + 5000 + 65536) + 2 * 5 * 2 * 8;
    let digits: String = bytes.to_string();
    let (thousands, rest) = digits.split_at(digits.len() - 3);
    let (millions, thousands) = thousands.split_at(thousands.len() - 3);
    let verified = format!("Verified {millions},{thousands},{rest} bytes in 170 messages");
    assert!(near.contains(&verified), "{verified}: {near}");
    assert!(far.contains(&verified), "{verified}: {far}");
    let ((sent, received), (far_sent, far_received)) = (packets(&near), packets(&far));
    assert!(received <= far_sent && far_received <= sent, "{near}{far}");
    assert!(received > 100 && far_received > 100, "{near}{far}");
}

#[test]
fn the_packets_of_a_run_are_dissected_by_wireshark_without_a_complaint() {
    if !Path::new("/usr/bin/tshark").exists() {
        assert!(std::env::var_os("DOORBELL_STRANGERS").is_none(), "there is no tshark");
        eprintln!("not run: there is no tshark");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("packets.pcap");
    let listener = Listener::on_loopback(&["--size", "10000"]);
    let connecting = doorbell()
        .args(["pingpong", "--connect", &listener.address, "--pcap"])
        .arg(&file)
        .args(["--op", "all", "--sizes", "1,10000", "--iterations", "2", "--warmup", "0"])
        .output()
        .unwrap();
    let (sent, received) = packets(&well(connecting));
    listener.ended_well();
    let tshark = |arguments: &[&str]| {
        let mut command = Command::new("/usr/bin/tshark");
        command.arg("-r").arg(&file).args(arguments);
        // It guesses at protocols in payloads, whose bytes are random here.
        for guess in
            ["eth_over_ib", "iser", "lnet_ib", "rpcrdma", "sdp", "smb_direct", "smcr", "fc"]
        {
            let name =
                if guess.ends_with("_ib") { guess.into() } else { format!("{guess}_infiniband") };
            command.args(["--disable-heuristic", &name]);
        }
        well(command.stderr(Stdio::null()).output().unwrap())
    };
    let infiniband =
        tshark(&["-Y", "infiniband.invariant.crc", "-T", "fields", "-e", "frame.number"]);
    assert_eq!(infiniband.lines().count() as u64, sent + received);
    assert_eq!(tshark(&["-Y", "_ws.malformed || _ws.expert || ip.checksum.status == Bad"]), "");
    let opcodes = tshark(&["-T", "fields", "-e", "infiniband.bth.opcode"]);
    // Send, with immediate; write, with immediate; read request; acknowledge; both atomics.
    for opcode in ["4", "5", "10", "11", "12", "17", "19", "20"] {
        assert!(opcodes.lines().any(|line| line == opcode), "no packet of opcode {opcode}");
    }
}

#[test]
fn what_no_pingpong_says_is_refused_by_name() {
    let listener = || Listener::on_loopback(&["--size", "4K", "--timeout", "60"]);
    let (text, _) = listener().complains_of(b"GET / HTTP/1.1\r\n\r\n");
    assert!(text.contains("is no doorbell pingpong of this version"), "{text}");
    let (text, _) = listener().complains_of(b"");
    assert!(text.contains("has hung up"), "{text}");
    let (text, _) = listener().complains_of(b"\"ready\"\n");
    assert!(text.contains("is not its turn"), "{text}");
    let (text, _) = listener().complains_of(&vec![b'x'; 3 << 20]);
    assert!(text.contains("longer than 1048576 bytes"), "{text}");
    let (text, _) = listener().complains_of(b"{\"failed\":\"no time\"}\n");
    assert!(text.contains("gave up: no time"), "{text}");

    let ask = |version: u32, size: u64, endpoint: &[u8]| {
        let plan = format!("{{\"op\":\"write\",\"size\":{size},\"iterations\":1,\"warmup\":0}}");
        format!(
            "{{\"ask\":{{\"version\":{version},\"plans\":[{plan}],\"seed\":1,\"inline\":false,\"mtu\":4096,\
             \"greeting\":{{\"endpoint\":{endpoint:?},\"source\":[0,0,0],\"target\":[0,0,0]}}}}}}\n"
        )
        .into_bytes()
    };
    let (text, answer) = listener().complains_of(&ask(2, 1, &[0; 32]));
    assert!(text.contains("version of the other program's messages is 2, and must be 1"), "{text}");
    assert!(answer.contains("failed"), "whoever asked is told: {answer}");
    let (text, _) = listener().complains_of(&ask(1, 4097, &[0; 32]));
    assert!(text.contains("is 4097, and must be at most 4096 (--size)"), "{text}");
    let (text, _) = listener().complains_of(&ask(1, 1, &[0; 31]));
    assert!(text.contains("an endpoint is 32 bytes, and 31 were given"), "{text}");
    let (text, _) = listener().complains_of(&ask(1, 1, &[0; 32]));
    assert!(text.contains("the endpoint's version is 0x00"), "{text}");
}

#[test]
fn nobody_at_the_other_end_is_an_error_that_names_the_address() {
    let output = doorbell().args(["pingpong", "--connect", "127.0.0.1:1"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error: 127.0.0.1:1: "), "{text}");
}

/// Two network namespaces and a cable. They go away with it.
struct Namespaces([String; 2]);

impl Namespaces {
    /// `None` where this process may not make them.
    fn make() -> Option<Namespaces> {
        let id = std::process::id();
        let names = ["a", "b"].map(|end| format!("doorbell-{id}-{end}"));
        let run = |arguments: &str| {
            let words = arguments.split(' ');
            Command::new("ip").args(words).output().is_ok_and(|output| output.status.success())
        };
        let made = Namespaces(names);
        let [a, b] = &made.0;
        let commands = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add cable type veth peer name cable netns {b}"),
            format!("-n {a} addr add 10.77.0.1/24 dev cable"),
            format!("-n {b} addr add 10.77.0.2/24 dev cable"),
            format!("-n {a} addr add fd00:77::1/64 dev cable nodad"),
            format!("-n {b} addr add fd00:77::2/64 dev cable nodad"),
            format!("-n {a} link set cable up"),
            format!("-n {b} link set cable up"),
        ];
        commands.iter().all(|command| run(command)).then_some(made)
    }

    fn doorbell(&self, end: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[end], env!("CARGO_BIN_EXE_doorbell")]);
        command
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = Command::new("ip").args(["netns", "delete", name]).output();
        }
    }
}

#[test]
fn two_machines_on_a_network_of_1500_bytes_play_pingpong() {
    let Some(machines) = Namespaces::make() else {
        assert!(std::env::var_os("DOORBELL_STRANGERS").is_none(), "there are no namespaces");
        eprintln!("not run: this process may not make network namespaces");
        return;
    };
    for (listen, connect, gid) in [
        ("0.0.0.0:18519", "10.77.0.1", "::ffff:10.77.0.2"),
        ("[::]:18519", "10.77.0.1", "::ffff:10.77.0.2"),
        ("[::]:18519", "fd00:77::1", "fd00:77::2"),
        ("[fd00:77::1]:18519", "[fd00:77::1]:18519", "fd00:77::2"),
    ] {
        let listener =
            Listener::start(machines.doorbell(0), &["--listen", listen, "--size", "100000"]);
        let connecting = machines
            .doorbell(1)
            .args(["pingpong", "--connect", connect])
            .args(["--op", "write,read,send", "--sizes", "8,100000", "--iterations", "5", "--json"])
            .output()
            .unwrap();
        let near: serde_json::Value = serde_json::from_str(&well(connecting)).unwrap();
        let far = listener.ended_well();
        assert_eq!((&near["complete"], &near["path_mtu"]), (&true.into(), &1024.into()), "{near}");
        assert_eq!(near["device"]["gid"], gid, "{near}");
        assert!(far.contains("all right"), "{far}");
        packets(&far);
    }
}

#[test]
fn perf_streams_from_one_process_to_the_other_and_each_looks_at_its_bytes() {
    for (what, op, size) in [
        ("bw", "write", "4K"),
        ("bw", "read", "100000"),
        ("rate", "send", "8"),
        ("lat", "send", "64"),
    ] {
        let listener = Listener::of("perf", doorbell(), &["--listen", "127.0.0.1:0"]);
        let connecting = doorbell()
            .args(["perf", what, "--op", op, "--connect", &listener.address])
            .args(["--sizes", size, "--iterations", "60", "--depth", "32", "--timeout", "60"])
            .output()
            .unwrap();
        let near = well(connecting);
        let far = listener.ended_well();
        let row =
            near.lines().find(|line| line.starts_with(' ') && !line.contains('#')).expect(&near);
        assert_eq!(row.split_whitespace().nth(1), Some("60"), "{near}");
        assert!(far.contains(&format!("{op}: 60 messages of")), "{far}");
        packets(&near);
        packets(&far);
    }
    // Several sizes, one connection.
    let listener = Listener::of("perf", doorbell(), &["--listen", "127.0.0.1:0"]);
    let connecting = doorbell()
        .args(["perf", "bw", "--op", "send", "--connect", &listener.address])
        .args(["--sizes", "1,5000,64K,7", "--iterations", "40", "--timeout", "60", "--json"])
        .output()
        .unwrap();
    assert_eq!(well(connecting).matches("\"messages\": 40").count(), 4);
    listener.ended_well();
}

#[test]
fn a_pingpong_is_no_end_of_a_stream_and_says_so() {
    let listener = Listener::on_loopback(&["--timeout", "60"]);
    let connecting = doorbell()
        .args(["perf", "bw", "--connect", &listener.address, "--size", "8"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&connecting.stderr).into_owned();
    assert!(text.contains("this is a doorbell pingpong"), "{text}");
    let (well, text) = listener.ended();
    assert!(!well && text.contains("doorbell perf"), "{text}");
}

#[test]
fn what_a_process_s_nic_counts_is_seen_by_another_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let with = |mut command: Command| {
        command.env("XDG_RUNTIME_DIR", directory.path());
        command
    };
    let listener = Listener::start(with(doorbell()), &["--listen", "127.0.0.1:0"]);
    // Connected, and in no hurry: the listener's NIC is there when this line has come back.
    let mut connecting = with(doorbell())
        .args(["pingpong", "--connect", &listener.address, "--size", "8"])
        .args(["--iterations", "100000000", "--timeout", "60"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut seen = String::new();
    for _ in 0..600 {
        let output = with(doorbell()).args(["devices", "--counters"]).output().unwrap();
        seen = well(output);
        if seen.matches("virtual-connectx at 127.0.0.").count() == 2
            && seen.matches("wire.received").count() == 2
        {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    connecting.kill().unwrap();
    connecting.wait().unwrap();
    let (well, _) = listener.ended();
    assert!(!well, "the other end is gone");
    assert_eq!(seen.matches("wire.received").count(), 2, "{seen}");
    assert!(seen.contains("packets_sent"), "{seen}");
}

#[test]
fn the_smaller_packets_of_the_two_sides_are_used() {
    for (listen, connect) in [("256", "2048"), ("2048", "256")] {
        let listener = Listener::on_loopback(&["--mtu", listen, "--size", "2048"]);
        let connecting = doorbell()
            .args(["pingpong", "--connect", &listener.address, "--mtu", connect])
            .args(["--size", "2048", "--iterations", "1", "--warmup", "0"])
            .output()
            .unwrap();
        let (sent, _) = packets(&well(connecting));
        listener.ended_well();
        // Eight packets, and an acknowledgement at least.
        assert!(sent >= 9, "{sent} packets");
    }
}

//! `doorbell pingpong`, on the virtual NIC.

use crate::doorbell;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

const OPS: [&str; 7] =
    ["write", "write-immediate", "read", "send", "send-immediate", "fetch-add", "compare-swap"];

/// The bytes that a run of `rounds` rounds moves: each way, and for atomics both the word that was
/// fetched and the one that was left.
fn moved(op: &str, size: u64, rounds: u64) -> u64 {
    match op {
        "fetch-add" | "compare-swap" => 2 * rounds * 2 * 8,
        _ => 2 * rounds * size,
    }
}

/// Checks a document of `rounds` rounds of each of `expected`'s operations and sizes.
#[track_caller]
fn check(document: &Value, expected: &[(&str, u64)], iterations: u64, warmup: u64) {
    let rows = document["results"].as_array().unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row["op"].as_str().unwrap(), row["size_bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    let mut total = 0;
    for (row, (op, size)) in rows.iter().zip(expected) {
        assert_eq!(row["iterations"], iterations, "{row}");
        assert_eq!(row["warmup"], warmup, "{row}");
        assert_eq!(row["verified_bytes"], moved(op, *size, iterations + warmup), "{row}");
        assert!(row["messages_per_second"].as_f64().unwrap() > 0.0, "{row}");
        let times = &row["half_round_trip_ns"];
        let ascending = ["min", "p50", "p99", "p99_9", "max"].map(|time| times[time].as_u64());
        assert!(ascending.iter().all(Option::is_some), "{row}");
        assert!(ascending.is_sorted(), "{row}");
        assert!(times["min"].as_u64().unwrap() > 0, "{row}");
        total += moved(op, *size, iterations + warmup);
    }
    let messages = 2 * (iterations + warmup) * expected.len() as u64;
    assert_eq!(document["verified_bytes"], total);
    assert_eq!(document["verified_messages"], messages);
    assert_eq!(document["complete"], true);
}

/// All operations, at `sizes`; atomics once, at theirs.
fn all(sizes: &[u64]) -> Vec<(&'static str, u64)> {
    let of = |op: &'static str| match op {
        "fetch-add" | "compare-swap" => vec![(op, 8)],
        _ => sizes.iter().map(|&size| (op, size)).collect(),
    };
    OPS.into_iter().flat_map(of).collect()
}

#[test]
fn without_options_all_bytes_of_a_sweep_are_verified_on_the_virtual_nic() {
    let out = doorbell(&["pingpong", "--iterations", "3", "--warmup", "1"]).well();
    assert!(out.contains("virtual-connectx"), "{out}");
    assert!(out.contains("This NIC is a model"), "{out}");
    for size in ["  1 B ", " 1 KiB ", " 1 MiB "] {
        assert!(out.contains(size), "{size}: {out}");
    }
    // 1, 4, 16 bytes and so on, to a megabyte.
    let bytes: u64 = (0..=20).step_by(2).map(|log| moved("write", 1 << log, 4)).sum();
    assert_eq!(bytes, 11_184_808);
    assert!(out.contains("Verified 11,184,808 bytes in 88 messages"), "{out}");
}

#[test]
fn the_table_fits_a_terminal_of_80_columns() {
    let out = doorbell(&["pingpong", "--op", "all", "--size", "64", "--iterations", "3"]).well();
    let rows = out.lines().filter(|line| OPS.iter().any(|op| line.starts_with(op))).count();
    assert_eq!(rows, OPS.len(), "{out}");
    // A time of a second would widen a row, and is no error.
    for line in out.lines().filter(|line| !line.contains("000000")) {
        assert!(line.len() <= 80, "{line:?}");
    }
}

#[test]
fn each_operation_moves_and_verifies_each_size() {
    let options = ["pingpong", "--op", "all", "--iterations", "40", "--warmup", "4", "--json"];
    let sizes = ["--sizes", "1,7,8,255,256,257,4095,4096,4097,64K"];
    let document = doorbell(&[&options[..], &sizes].concat()).json();
    check(&document, &all(&[1, 7, 8, 255, 256, 257, 4095, 4096, 4097, 65536]), 40, 4);
    assert_eq!(document["device"]["name"], "virtual-connectx");
    assert_eq!(document["device"]["virtual"], true);
    assert_eq!(document["device"]["link_layer"], "Ethernet");
    assert_eq!(document["path_mtu"], 4096);
    assert_eq!(document["doorbell"], "uncached");
    assert_eq!(document["completions"], "polled");
    assert_eq!(document["inline"], false);
    assert_eq!(document["seed"], 1);
}

#[test]
fn each_operation_moves_and_verifies_each_size_on_the_virtual_bcm57608() {
    let device = ["pingpong", "--device", "virtual-netxtreme", "--op", "all", "--json"];
    let options = ["--iterations", "40", "--warmup", "4", "--sizes", "1,8,257,4096,4097,64K"];
    let document = doorbell(&[&device[..], &options].concat()).json();
    check(&document, &all(&[1, 8, 257, 4096, 4097, 65536]), 40, 4);
    assert_eq!(document["device"]["name"], "virtual-netxtreme");
    assert_eq!(document["device"]["virtual"], true);
}

#[test]
fn a_bcm57608_is_only_polled_and_says_so() {
    let device = ["pingpong", "--device", "virtual-netxtreme"];
    let error = doorbell(&[&device[..], &["--events"]].concat()).error(2);
    assert!(error.contains("BCM57608"), "{error}");
}

#[test]
fn each_operation_works_with_events() {
    let options = ["pingpong", "--op", "all", "--iterations", "40", "--warmup", "0", "--json"];
    let document = doorbell(&[&options[..], &["--events", "--sizes", "1,5000"]].concat()).json();
    check(&document, &all(&[1, 5000]), 40, 0);
    assert_eq!(document["completions"], "events");
}

#[test]
fn each_operation_works_inline_through_a_blueflame_register_in_small_packets() {
    let options = ["pingpong", "--op", "all", "--iterations", "40", "--warmup", "0", "--json"];
    let how = ["--inline", "--doorbell", "blueflame", "--mtu", "256", "--seed", "99"];
    let sizes = ["--sizes", "1,28,29,44,45,256,257,900"];
    let document = doorbell(&[&options[..], &how, &sizes].concat()).json();
    check(&document, &all(&[1, 28, 29, 44, 45, 256, 257, 900]), 40, 0);
    assert_eq!(document["doorbell"], "blueflame");
    assert_eq!(document["inline"], true);
    assert_eq!(document["path_mtu"], 256);
    assert_eq!(document["seed"], 99);
}

#[test]
fn blueflame_works_with_events_and_requests_that_are_not_inline() {
    let options = ["pingpong", "--op", "all", "--iterations", "20", "--warmup", "0", "--json"];
    let how = ["--events", "--doorbell", "blueflame", "--size", "3000"];
    let document = doorbell(&[&options[..], &how].concat()).json();
    check(&document, &all(&[3000]), 20, 0);
}

#[test]
fn more_messages_than_a_ring_index_counts_are_sent() {
    let options = ["pingpong", "--op", "send", "--size", "1", "--iterations", "70000", "--json"];
    let document = doorbell(&[&options[..], &["--warmup", "0"]].concat()).json();
    check(&document, &[("send", 1)], 70_000, 0);
}

#[test]
fn a_warm_up_is_a_tenth_unless_something_else_is_said() {
    let document = doorbell(&["pingpong", "--size", "8", "--iterations", "50", "--json"]).json();
    check(&document, &[("write", 8)], 50, 5);
}

#[test]
fn an_inline_message_that_no_request_holds_is_refused_with_the_bound() {
    let error = doorbell(&["pingpong", "--inline", "--size", "4096"]).error(1);
    assert!(error.contains("4096 inline bytes"), "{error}");
    assert!(error.contains("at most"), "{error}");
    assert!(error.contains("--size"), "{error}");
}

#[test]
fn a_message_longer_than_the_nic_can_is_refused_with_the_bound() {
    let error = doorbell(&["pingpong", "--size", "2G"]).error(1);
    assert!(error.contains("2147483648 bytes"), "{error}");
    assert!(error.contains("1073741824 bytes"), "{error}");
    assert!(error.contains("virtual-connectx"), "{error}");
}

#[test]
fn a_device_that_does_not_exist_is_named_and_the_way_out_shown() {
    let error = doorbell(&["pingpong", "--device", "mlx5_99"]).error(1);
    assert!(error.contains("there is no RDMA device mlx5_99"), "{error}");
    assert!(error.contains("doorbell devices"), "{error}");
    assert!(error.contains("virtual-connectx"), "{error}");
    doorbell(&["pingpong", "--device", "../mlx5_0"]).error(1);
    doorbell(&["pingpong", "--device", ""]).error(1);
}

#[test]
fn an_interrupt_ends_the_run_with_its_own_exit_code() {
    // It would go on for hours.
    let mut program = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(["pingpong", "--op", "send", "--size", "8", "--iterations", "1000000000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(program.stdout.take().unwrap());
    let mut heading = String::new();
    while !heading.contains("p99.9") {
        assert_ne!(out.read_line(&mut heading).unwrap(), 0, "{heading}");
    }
    let kill = format!("kill -INT {}", program.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    let (mut rest, mut error) = (String::new(), String::new());
    out.read_to_string(&mut rest).unwrap();
    program.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(program.wait().unwrap().code(), Some(130), "{rest}{error}");
    assert_eq!(error, "error: interrupted\n");
}

#[test]
fn an_output_that_is_closed_ends_the_run_without_a_word() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = Command::new(env!("CARGO_BIN_EXE_doorbell"))
        .args(["pingpong", "--size", "8", "--iterations", "1"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(ran.stderr).unwrap(), "");
    assert_eq!(ran.status.code(), Some(1));
}

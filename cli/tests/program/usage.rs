//! Command lines that cannot be right: exit code 2, and an error that names the thing and its bound.

use crate::doorbell;

#[track_caller]
fn refused(arguments: &[&str], names: &[&str]) {
    let error = doorbell(&[&["pingpong"], arguments].concat()).error(2);
    for name in names {
        assert!(error.contains(name), "{name} is not in: {error}");
    }
}

#[test]
fn a_size_outside_of_its_bounds_is_refused() {
    for size in ["0", "2147483649", "3G", "99999999999999999999"] {
        refused(&["--size", size], &["--size", size, "from 1 to 2147483648"]);
    }
    refused(&["--sizes", "8,0,64"], &["--size", "'0'", "from 1 to 2147483648"]);
    for size in ["abc", "8X", "-1", "1.5", ""] {
        refused(&[&format!("--size={size}")], &["--size", "from 1 to 2147483648"]);
    }
}

#[test]
fn counts_and_times_outside_of_their_bounds_are_refused() {
    refused(&["--iterations", "0"], &["--iterations", "'0'", "1..=1000000000"]);
    refused(&["--iterations", "1000000001"], &["--iterations", "1..=1000000000"]);
    refused(&["--warmup", "1000000001"], &["--warmup", "0..=1000000000"]);
    refused(&["--timeout", "0"], &["--timeout", "1..=3600"]);
    refused(&["--seed", "x"], &["--seed", "'x'"]);
}

#[test]
fn an_unknown_choice_is_refused_with_the_choices() {
    refused(&["--op", "atomic"], &["--op", "'atomic'", "compare-swap", "all"]);
    refused(&["--mtu", "1500"], &["--mtu", "'1500'", "256, 512, 1024, 2048, 4096"]);
    refused(&["--doorbell", "loud"], &["--doorbell", "'loud'", "uncached, blueflame"]);
    refused(&["--frobnicate"], &["'--frobnicate'"]);
}

#[test]
fn what_no_nic_can_is_refused() {
    refused(&["--op", "read", "--inline"], &["--inline", "--op read"]);
    refused(&["--op", "fetch-add", "--size", "16"], &["--op fetch-add", "8 bytes", "16"]);
}

#[test]
fn an_unknown_command_or_none_is_refused() {
    assert!(doorbell(&["pong"]).error(2).contains("'pong'"));
    let none = doorbell(&[]);
    assert_eq!(none.code, Some(2));
    assert!(none.err.contains("pingpong") && none.err.contains("devices"), "{}", none.err);
}

#[test]
fn help_says_what_there_is_and_ends_well() {
    let out = doorbell(&["pingpong", "--help"]).well();
    for option in ["--device", "--op", "--size", "--iterations", "--events", "--json"] {
        assert!(out.contains(option), "{option}: {out}");
    }
    assert!(doorbell(&["--version"]).well().starts_with("doorbell "));
}

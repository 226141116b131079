//! `doorbell perf`.

use crate::doorbell;
use serde_json::Value;

/// The points of a run, as JSON.
#[track_caller]
fn points(arguments: &[&str]) -> Vec<Value> {
    let run = doorbell(&[&["perf"], arguments, &["--json"]].concat()).json();
    assert_eq!(run["complete"], Value::Bool(true), "{run}");
    run["points"].as_array().expect("points").clone()
}

#[test]
fn latency_has_perftest_s_table() {
    let text = doorbell(&["perf", "lat", "--size", "8", "--iterations", "50"]).well();
    let mut lines = text.lines().skip_while(|line| !line.starts_with(" #bytes"));
    let heading = lines.next().expect("a heading");
    for column in ["#iterations", "t_typical[usec]", "t_stdev[usec]", "99.99% percentile[usec]"] {
        assert!(heading.contains(column), "{heading}");
    }
    let row: Vec<f64> =
        lines.next().unwrap().split_whitespace().map(|it| it.parse().unwrap()).collect();
    assert_eq!((row.len(), row[0], row[1]), (10, 8.0, 50.0), "{text}");
    let (least, most) = (row[2], row[3]);
    assert!(row[4..=5].iter().all(|time| (least..=most).contains(time)), "{text}");
}

#[test]
fn latency_is_of_every_operation_and_its_percentiles_rise() {
    for op in ["write", "read", "send-immediate", "fetch-add"] {
        let points = points(&["lat", "--op", op, "--iterations", "40"]);
        assert_eq!(points[0]["messages"], 40);
        let times = points[0]["percentiles"].as_array().unwrap();
        let times: Vec<f64> = times.iter().map(|pair| pair[1].as_f64().unwrap()).collect();
        assert!(times.len() > 10 && times.is_sorted(), "{op}: {times:?}");
    }
}

#[test]
fn every_message_of_a_stream_is_counted_whatever_depth_and_batch_are() {
    for op in ["write", "read", "send"] {
        for (depth, batch) in [("1", "1"), ("16", "16"), ("9", "4")] {
            let run = ["--op", op, "--depth", depth, "--batch", batch];
            let sizes = ["--sizes", "1,4K,10000", "--iterations", "301"];
            let points = points(&[&["bw"][..], &run, &sizes].concat());
            let counts: Vec<_> = points.iter().map(|point| &point["messages"]).collect();
            assert_eq!(counts, [301, 301, 301], "{op}, {depth}, {batch}");
            assert!(points.iter().all(|point| point["average"].as_f64() > Some(0.0)));
        }
    }
}

#[test]
fn the_rate_is_measured_inline_by_blueflame_and_with_events() {
    for op in ["write", "send"] {
        let inline = ["--inline", "--doorbell", "blueflame", "--events", "--iterations", "200"];
        let points = points(&[&["rate", "--op", op, "--size", "60"][..], &inline].concat());
        assert_eq!(points[0]["messages"], 200);
    }
}

#[test]
fn a_bcm57608_is_measured_by_the_same_code() {
    let device = ["--device", "virtual-netxtreme"];
    for rest in [
        &["lat", "--op", "compare-swap", "--iterations", "40"][..],
        &["bw", "--op", "read", "--sizes", "1,10000", "--iterations", "40"],
        &["rate", "--inline", "--size", "96", "--depth", "64", "--iterations", "40"],
    ] {
        let points = points(&[rest, &device].concat());
        assert!(points.iter().all(|point| point["messages"] == 40), "{points:?}");
    }
    let error = doorbell(&[&["perf", "lat", "--events"][..], &device].concat()).error(2);
    assert!(error.contains("BCM57608"), "{error}");
}

#[test]
fn a_duration_ends_a_run() {
    for what in ["lat", "rate"] {
        let points = points(&[what, "--duration", "1"]);
        assert!(points[0]["messages"].as_u64() > Some(0));
    }
}

#[test]
fn runs_are_drawn_over_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    for (what, unit) in [("lat", "half a round trip"), ("bw", "bandwidth [MiB/s]")] {
        let (earlier, drawn) = (path("earlier.json"), path("drawn.svg"));
        let sizes = ["--sizes", "8,64", "--iterations", "30"];
        let run = doorbell(&[&["perf", what, "--json", "--op", "read"][..], &sizes].concat());
        std::fs::write(&earlier, run.well()).unwrap();
        let plot = ["--plot", &drawn, "--overlay", &earlier];
        doorbell(&[&["perf", what][..], &sizes, &plot].concat()).well();
        let svg = std::fs::read_to_string(&drawn).unwrap();
        assert!(svg.starts_with("<svg"), "{svg}");
        for text in ["message size", unit, "read on virtual-connectx", "write on virtual-connectx"]
        {
            assert!(svg.contains(text), "{text} is not drawn");
        }
    }
    let mismatched = ["--plot", &path("x.svg"), "--overlay", &path("earlier.json")];
    let error = doorbell(&[&["perf", "lat"][..], &mismatched].concat()).error(1);
    assert!(error.contains("earlier.json"), "{error}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    for (arguments, names) in [
        (&["bw", "--op", "fetch-add"][..], &["--op", "fetch-add"][..]),
        (&["bw", "--op", "read", "--inline"], &["--inline", "read"]),
        (&["rate", "--batch", "9", "--depth", "8"], &["--batch", "9", "--depth", "8"]),
        (&["bw", "--depth", "5000"], &["--depth", "1..=4096"]),
        (&["lat", "--op", "fetch-add", "--sweep"], &["--sweep"]),
        (&["lat", "--duration", "1", "--iterations", "5"], &["--duration", "--iterations"]),
        (&["lat", "--overlay", "x.json"], &["--plot"]),
        (&["speed"], &["lat, bw, rate"]),
    ] {
        let error = doorbell(&[&["perf"], arguments].concat()).error(2);
        for name in names {
            assert!(error.contains(name), "{name} is not in: {error}");
        }
    }
}

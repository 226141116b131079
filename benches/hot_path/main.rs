//! Counts the instructions of the hot path, per operation, against a budget.
//!
//! `cargo bench --bench hot_path` prints a line for each operation: its instructions, those of a
//! hand-written floor that does nothing but the necessary loads and stores, and its budget. It exits
//! with 1 if an operation is over its budget, or if the machine code of the hot path is not what is
//! checked in (see `assembly`).
//!
//! Each operation is inlined 64 times, one after the other, into a function that runs under
//! valgrind's callgrind with collection toggled at that function. The count holds all of the
//! function's instructions, and is divided by the operations done. Counts do not depend on the
//! machine's speed or load.

#[macro_use]
mod operations;
mod assembly;
mod bnxt;
mod floor;

use std::process::{Command, ExitCode};

/// How often a counted function runs for one count. The rings wrap in between.
const ROUNDS: u32 = 100;

/// An operation, and what it may cost.
struct Operation {
    /// What the table calls it.
    name: &'static str,
    /// The function that callgrind counts, and that of the floor.
    function: &'static str,
    floor: &'static str,
    /// The most instructions.
    budget: u32,
    /// Runs both, `rounds` times each.
    run: fn(rounds: u32),
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "post + ring, write of one piece",
        function: "count_post_write",
        floor: "count_floor_post_write",
        budget: 60,
        run: operations::post_write,
    },
    Operation {
        name: "post + ring, inline write of 32 bytes, BlueFlame",
        function: "count_post_inline",
        floor: "count_floor_post_inline",
        // The entry is 80 bytes and so two slots, of which a copy takes 16 instructions (8 fewer for
        // x86-64-v3, whose stores are twice as wide), and the data, of which 28 bytes fit the first
        // slot, 11. The floor, which checks nothing, needs 64.
        budget: 87,
        run: operations::post_inline,
    },
    Operation {
        name: "poll, one completion of a send",
        function: "count_poll",
        floor: "count_floor_poll",
        budget: 30,
        run: operations::poll_one,
    },
    Operation {
        name: "poll, one completion of 4096 queue pairs'",
        function: "count_poll",
        floor: "count_floor_poll",
        budget: 30,
        run: operations::poll_many,
    },
    Operation {
        name: "poll, nothing there",
        function: "count_poll_empty",
        floor: "count_floor_poll_empty",
        budget: 12,
        run: operations::poll_empty,
    },
    Operation {
        name: "post a receive of one piece",
        function: "count_post_receive",
        floor: "count_floor_post_receive",
        budget: 30,
        run: operations::post_receive,
    },
    // A BCM57608's were to be over those of a ConnectX by a fifth at most, which receives and inline data
    // are. A request is three slots of 16 bytes and not one of 64, with an entry in the table of messages
    // that says its packets, so that the floor alone is at 80. A completion says how far its ring is done and
    // not which entry is, and a poll looks at what earlier ones have left, too: the floor is at 39.
    Operation {
        name: "bnxt: post + ring, write of one piece",
        function: "count_bnxt_post_write",
        floor: "count_bnxt_floor_post_write",
        budget: 97,
        run: bnxt::post_write,
    },
    Operation {
        name: "bnxt: post + ring, inline write of 32 bytes",
        function: "count_bnxt_post_inline",
        floor: "count_bnxt_floor_post_inline",
        budget: 111,
        run: bnxt::post_inline,
    },
    Operation {
        name: "bnxt: poll, one completion of a send",
        function: "count_bnxt_poll",
        floor: "count_bnxt_floor_poll",
        budget: 46,
        run: bnxt::poll_one,
    },
    Operation {
        name: "bnxt: poll, nothing there",
        function: "count_bnxt_poll_empty",
        floor: "count_bnxt_floor_poll_empty",
        budget: 22,
        run: bnxt::poll_empty,
    },
    Operation {
        name: "bnxt: post a receive of one piece",
        function: "count_bnxt_post_receive",
        floor: "count_bnxt_floor_post_receive",
        budget: 32,
        run: bnxt::post_receive,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, name] = arguments.as_slice()
        && flag == "--run"
    {
        return match OPERATIONS.iter().find(|operation| operation.name == name) {
            Some(operation) => {
                (operation.run)(ROUNDS);
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        };
    }

    let bless = arguments.iter().any(|argument| argument == "--bless");
    let same = match assembly::compare(bless) {
        Ok(assembly::Verdict::Same) => true,
        Ok(assembly::Verdict::NotCompared(why)) => {
            println!("machine code not compared: {why}");
            true
        }
        Ok(assembly::Verdict::Differs(differences)) => {
            println!("{differences}machine code differs; `-- --bless` takes it as it is");
            false
        }
        Err(why) => {
            eprintln!("machine code: {why}");
            return ExitCode::FAILURE;
        }
    };
    println!("{:<50} {:>12} {:>6} {:>6}", "operation", "instructions", "floor", "budget");
    let mut over = false;
    for operation in OPERATIONS {
        let counted = count(operation.name, operation.function)
            .and_then(|it| Ok((it, count(operation.name, operation.floor)?)));
        let (instructions, floor) = match counted {
            Ok(counted) => counted,
            Err(why) => {
                eprintln!("{}: {why}", operation.name);
                return ExitCode::FAILURE;
            }
        };
        // What is over a whole number is the counted function's own entry and exit, and the ring's
        // wrapping, shared among its operations.
        let exceeded = instructions.floor() > f64::from(operation.budget);
        let verdict = if exceeded { "  OVER BUDGET" } else { "" };
        over |= exceeded;
        println!(
            "{:<50} {instructions:>12.1} {floor:>6.1} {:>6}{verdict}",
            operation.name, operation.budget
        );
    }
    if over || !same { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// The instructions of one operation in `function` while operation `run` runs.
fn count(run: &str, function: &str) -> Result<f64, String> {
    let this = std::env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
    let directory = std::env::temp_dir();
    let out = directory.join(format!("doorbell-hot-path-{}-{function}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no", "--quiet"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(&this)
        .args(["--run", run])
        .output()
        .map_err(|error| format!("cannot run valgrind (Debian package valgrind): {error}"))?;
    let profile = std::fs::read_to_string(&out);
    let _ = std::fs::remove_file(&out);
    if !output.status.success() {
        return Err(format!("valgrind failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let profile = profile.map_err(|error| format!("valgrind wrote no profile: {error}"))?;
    let total = profile
        .lines()
        .find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")))
        .and_then(|total| total.trim().parse::<u64>().ok())
        .ok_or("the profile has no total")?;
    if total == 0 {
        return Err(format!("{function} was never counted"));
    }
    Ok(total as f64 / (f64::from(ROUNDS) * operations::BATCH as f64))
}

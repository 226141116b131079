//! doorbell and libmlx5, side by side: the same work, on rings of the same sizes, on the virtual
//! ConnectX, in one process.
//!
//! `cargo bench --bench side_by_side` prints a table of instructions and one of cycles, and writes
//! `results.json` and `instructions.svg` into `target/side_by_side`. It needs Debian's packages
//! gcc, libibverbs-dev, ibverbs-providers and valgrind.
//!
//! libmlx5 is the machine's own, unmodified, on the library that `doorbell shim` preloads. doorbell is
//! on a NIC of the same kind in the same process. Both NICs are stepped: they do nothing while
//! something is measured, and in between whatever there is to do. So the completions are real ones, and
//! what is measured is what the processor does for an engine.
//!
//! Each operation is done 64 times in a row. Instructions are counted by callgrind, without a loop
//! around them, and do not depend on the machine; the first round is left out. Cycles are of the
//! time-stamp counter, with a loop as an engine has it, right after 64 that are not measured; the ways of
//! doing an operation take turns, and the median is shown, with half of the distance between the
//! quartiles.

mod measure;
mod ours;
mod plot;
mod report;
mod requirements;
mod subject;
mod theirs;

use std::path::Path;
use std::process::ExitCode;
use subject::Subject;

/// How libmlx5 is told how many threads use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// Nothing is said: it locks.
    Any,
    /// `MLX5_SINGLE_THREADED`, and completion queues that say the same.
    One,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["--measure", library, work, threads, rounds] => {
            child(Path::new(library), *work == "looped", *threads == "one", rounds)
        }
        _ => parent(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn parent() -> Result<(), String> {
    let tools = requirements::prepare()?;
    let mut results = report::Results::default();
    for threads in [Threads::Any, Threads::One] {
        results.add(threads, &measure::instructions(&tools, threads)?, report::Unit::Instructions);
        results.add(threads, &measure::cycles(&tools, threads)?, report::Unit::Cycles);
    }
    print!("{results}");
    let write = |name: &str, text: String| {
        let path = tools.directory.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("written: {}", path.display());
        Ok::<_, String>(())
    };
    write("results.json", results.to_json())?;
    write("instructions.svg", plot::instructions(&results)?)
}

/// All subjects, in the order in which they are measured.
fn subjects(library: &Path, loops: bool, single_threaded: bool) -> Result<Vec<Subject>, String> {
    let mut subjects = Vec::new();
    ours::subjects(loops, &mut subjects);
    theirs::subjects(library, loops, single_threaded, &mut subjects)?;
    Ok(subjects)
}

/// Measures every subject `rounds` times, in turns: a line for each, of its row, its column, and the
/// cycles of each round.
fn child(library: &Path, loops: bool, single_threaded: bool, rounds: &str) -> Result<(), String> {
    let rounds: u64 = rounds.parse().map_err(|_| format!("{rounds} is no number of rounds"))?;
    let mut subjects = subjects(library, loops, single_threaded)?;
    // Subjects of a row follow each other.
    subjects.sort_by_key(|subject| subject.row);
    let dump = theirs::dump(library)?;
    let mut measured = vec![Vec::new(); subjects.len()];
    for round in 0..rounds {
        for (subject, measured) in subjects.iter_mut().zip(&mut measured) {
            measured.push(subject.measure(round).to_string());
            // SAFETY: L2: it takes nothing and answers nothing.
            unsafe { dump() };
        }
    }
    for (subject, measured) in subjects.iter().zip(&measured) {
        println!("{} {} {}", subject.row as u8, subject.column as u8, measured.join(" "));
    }
    Ok(())
}

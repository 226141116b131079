//! Runs this program again, as the process that is measured.

use crate::Threads;
use crate::requirements::Tools;
use crate::subject::{Column, OPERATIONS, Row};
use std::path::Path;
use std::process::{Command, Stdio};

/// How often everything is done to count instructions, and to count cycles.
const COUNTED_ROUNDS: usize = 1;
const TIMED_ROUNDS: usize = 100;

/// A cell of the table: what an operation took in each round.
pub struct Cell {
    pub row: Row,
    pub column: Column,
    pub rounds: Vec<f64>,
}

/// The process that is measured, started as `launcher` says: by callgrind, its instructions are
/// counted, else its cycles.
fn process(tools: &Tools, threads: Threads, rounds: usize, launcher: &[String]) -> Command {
    let mut command = match launcher.split_first() {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments).arg(&tools.program);
            command
        }
        None => Command::new(&tools.program),
    };
    let (work, library) = match launcher {
        [] => ("looped", &tools.looped),
        _ => ("unrolled", &tools.library),
    };
    let word = if threads == Threads::One { "one" } else { "any" };
    command.arg("--measure").arg(library).args([work, word]).arg(rounds.to_string());
    command
        .env("LD_PRELOAD", &tools.shim)
        // Every symbol is found before anything is measured.
        .env("LD_BIND_NOW", "1")
        .env("DOORBELL_STEPPED", "1")
        .env("DOORBELL_LINK", "ethernet")
        .env("DOORBELL_FABRIC", tools.directory.join("fabric"))
        .stderr(Stdio::inherit());
    for (name, _) in
        std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"MLX5_"))
    {
        command.env_remove(name);
    }
    if threads == Threads::One {
        command.env("MLX5_SINGLE_THREADED", "1");
    }
    command
}

/// Runs it. Answers rows, columns and cycles.
fn run(mut command: Command) -> Result<Vec<Cell>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| cell(line).ok_or_else(|| format!("no measurement: {line}"))).collect()
}

fn cell(line: &str) -> Option<Cell> {
    let mut numbers = line.split(' ').map(str::parse::<f64>);
    let row = Row::ALL.get(numbers.next()?.ok()? as usize).copied()?;
    let column = Column::ALL.get(numbers.next()?.ok()? as usize).copied()?;
    let rounds: Result<Vec<f64>, _> =
        numbers.map(|it| it.map(|it| it / OPERATIONS as f64)).collect();
    Some(Cell { row, column, rounds: rounds.ok()? })
}

/// The cycles of everything.
pub fn cycles(tools: &Tools, threads: Threads) -> Result<Vec<Cell>, String> {
    let mut cells = run(process(tools, threads, TIMED_ROUNDS + 1, &[]))?;
    for cell in &mut cells {
        cell.rounds.remove(0);
    }
    Ok(cells)
}

/// The instructions of everything.
pub fn instructions(tools: &Tools, threads: Threads) -> Result<Vec<Cell>, String> {
    let parts = tools.directory.join("callgrind");
    let _ = std::fs::remove_dir_all(&parts);
    std::fs::create_dir_all(&parts).map_err(|error| format!("{}: {error}", parts.display()))?;
    // Counts are written out after each measurement.
    let launcher = [
        "valgrind".to_string(),
        "--tool=callgrind".into(),
        "--quiet".into(),
        "--collect-atstart=no".into(),
        "--toggle-collect=count_*".into(),
        format!("--callgrind-out-file={}", parts.join("out").display()),
    ];
    let mut cells = run(process(tools, threads, COUNTED_ROUNDS + 1, &launcher))?;
    let count = cells.len();
    for (number, cell) in cells.iter_mut().enumerate() {
        cell.rounds = (1..=COUNTED_ROUNDS)
            .map(|round| part(&parts, round * count + number + 1))
            .collect::<Result<_, _>>()?;
    }
    Ok(cells)
}

/// The instructions of part `number` of a profile, for each operation.
fn part(parts: &Path, number: usize) -> Result<f64, String> {
    let path = parts.join(format!("out.{number}"));
    let text = std::fs::read_to_string(&path).map_err(|it| format!("{}: {it}", path.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals:"));
    let total: f64 = line
        .and_then(|total| total.trim().parse().ok())
        .ok_or_else(|| format!("{} says no total", path.display()))?;
    Ok(total / OPERATIONS as f64)
}

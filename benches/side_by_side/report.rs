//! The tables, and their JSON.

use crate::Threads;
use crate::measure::Cell;
use crate::subject::{Column, Row};
use std::collections::BTreeMap;
use std::fmt;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Unit {
    Instructions,
    Cycles,
}

/// A column of the table: whose way, and how libmlx5 was told of threads.
pub type Way = (Column, bool);

/// The ways, as the tables have them.
pub const WAYS: [(Way, &str); 6] = [
    ((Column::Ours, false), "doorbell"),
    ((Column::OursCarried, false), "carried"),
    ((Column::Verbs, false), "verbs"),
    ((Column::Extended, false), "extended"),
    ((Column::Verbs, true), "verbs 1T"),
    ((Column::Extended, true), "extended 1T"),
];

/// What an operation takes.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    pub median: f64,
    /// Half of the distance between the quartiles.
    pub spread: f64,
}

impl Figure {
    fn of(mut rounds: Vec<f64>) -> Option<Figure> {
        rounds.sort_by(f64::total_cmp);
        let at = |part: usize| rounds.get((rounds.len() * part / 4).min(rounds.len() - 1)).copied();
        if rounds.is_empty() {
            return None;
        }
        Some(Figure { median: at(2)?, spread: (at(3)? - at(1)?) / 2.0 })
    }
}

/// All that was measured.
#[derive(Default)]
pub struct Results(BTreeMap<(Unit, Row, Way), Figure>);

impl Results {
    /// Adds what a process measured.
    pub fn add(&mut self, threads: Threads, cells: &[Cell], unit: Unit) {
        for cell in cells {
            let ours = matches!(cell.column, Column::Ours | Column::OursCarried);
            let way = (cell.column, threads == Threads::One && !ours);
            if let Some(figure) = Figure::of(cell.rounds.clone()) {
                // doorbell has no such setting: the first of its two measurements counts.
                self.0.entry((unit, cell.row, way)).or_insert(figure);
            }
        }
    }

    pub fn figure(&self, unit: Unit, row: Row, way: Way) -> Option<Figure> {
        self.0.get(&(unit, row, way)).copied()
    }

    /// The fewest that doorbell takes, and the fewest that libmlx5 takes.
    fn best(&self, unit: Unit, row: Row) -> Option<(f64, f64)> {
        let best = |ours: bool| {
            WAYS.iter()
                .filter(|((column, _), _)| {
                    matches!(column, Column::Ours | Column::OursCarried) == ours
                })
                .filter_map(|(way, _)| self.figure(unit, row, *way))
                .map(|figure| figure.median)
                .min_by(f64::total_cmp)
        };
        Some((best(true)?, best(false)?))
    }

    /// libmlx5's usual way, in how many of doorbell's: without and with its locks gone.
    fn usual(&self, unit: Unit, row: Row) -> Option<f64> {
        let (ours, _) = self.best(unit, row)?;
        Some(self.figure(unit, row, (Column::Verbs, false))?.median / ours)
    }

    pub fn to_json(&self) -> String {
        let mut units = serde_json::Map::new();
        for (name, unit) in [("instructions", Unit::Instructions), ("cycles", Unit::Cycles)] {
            let mut rows = serde_json::Map::new();
            for row in Row::ALL {
                let mut ways = serde_json::Map::new();
                for (way, name) in WAYS {
                    if let Some(Figure { median, spread }) = self.figure(unit, row, way) {
                        let figure = serde_json::json!({ "median": median, "spread": spread });
                        ways.insert(name.into(), figure);
                    }
                }
                rows.insert(row.name().into(), ways.into());
            }
            units.insert(name.into(), rows.into());
        }
        serde_json::Value::from(units).to_string()
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "doorbell: 8-byte doorbells. carried: doorbells that carry the entry (BlueFlame), as \
             libmlx5's single ones do.\n\
             verbs: ibv_post_send, ibv_post_recv, ibv_poll_cq. extended: ibv_wr_*, ibv_start_poll.\n\
             1T: MLX5_SINGLE_THREADED=1, and completion queues of one thread.\n\
             usual: verbs, in doorbell's better. best: libmlx5's best, in doorbell's better.\n"
        )?;
        for (unit, what) in [
            (Unit::Instructions, "instructions an operation"),
            (Unit::Cycles, "cycles an operation, median and spread"),
        ] {
            write!(f, "{what:<40}")?;
            for (_, name) in WAYS {
                write!(f, " {name:>12}")?;
            }
            writeln!(f, " {:>7} {:>7}", "usual", "best")?;
            for row in Row::ALL {
                write!(f, "{:<40}", row.name())?;
                for (way, _) in WAYS {
                    let text = match (self.figure(unit, row, way), unit) {
                        (None, _) => String::new(),
                        (Some(it), Unit::Instructions) => format!("{:.1}", it.median),
                        (Some(it), Unit::Cycles) => format!("{:.0} ±{:.0}", it.median, it.spread),
                    };
                    write!(f, " {text:>12}")?;
                }
                if let (Some(usual), Some((ours, theirs))) =
                    (self.usual(unit, row), self.best(unit, row))
                {
                    write!(f, " {usual:>6.1}x {:>6.1}x", theirs / ours)?;
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

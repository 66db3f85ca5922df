//! What is said at the end: a table of the figures, a table of the goals, and a file with everything.

use std::{
    collections::BTreeSet,
    fs, io,
    path::Path,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use serde::Serialize;

use crate::{
    figures::Figure,
    goals::{GOALS, Place, Verdict, median_at},
    rounds::Record,
};

/// Everything about one execution.
#[derive(Serialize)]
pub struct Report<'a> {
    machine: Machine,
    absent: &'a [String],
    verdicts: Vec<Verdict>,
    records: &'a [Record],
}

/// Where the figures come from; without it they say nothing.
#[derive(Serialize)]
struct Machine {
    processor: String,
    processors: usize,
    kernel: String,
    seconds_since_epoch: u64,
}

impl<'a> Report<'a> {
    /// The report on these records.
    pub fn new(records: &'a [Record], absent: &'a [String]) -> Self {
        let verdicts = GOALS.iter().filter_map(|goal| goal.judge(records)).collect();
        Self { machine: Machine::this(), absent, verdicts, records }
    }

    /// Prints both tables.
    pub fn print(&self) {
        println!("\n{} × {}, Linux {}", self.machine.processors, self.machine.processor, self.machine.kernel);
        println!("\nMedians of the rounds:\n");
        print_table(self.figures());
        println!("\nThe gateway (ratios are medians of the rounds' ratios):\n");
        print_table(self.goals());
    }

    /// Writes everything to a file, its folder made if need be.
    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = fs::File::create(path)?;
        serde_json::to_writer_pretty(io::BufWriter::new(file), self)?;
        Ok(())
    }

    fn figures(&self) -> Vec<Vec<String>> {
        let head = ["row", "lane"].into_iter().chain(Figure::ALL.map(Figure::head)).chain(["errors"]);
        let mut lines = vec![head.map(str::to_owned).collect()];
        let mut seen = BTreeSet::new();
        for Record { row, lane, .. } in self.records {
            if !seen.insert((row, lane)) {
                continue;
            }
            let cells =
                Figure::ALL.map(|figure| number(median_at(self.records, Place { row, lane, figure })));
            let of_lane = self.records.iter().filter(|record| record.row == *row && record.lane == *lane);
            let errors: u64 = of_lane.map(|record| record.outcome.errors).sum();
            let names = [(*row).to_owned(), (*lane).to_owned()];
            lines.push(names.into_iter().chain(cells).chain([errors.to_string()]).collect());
        }
        lines
    }

    fn goals(&self) -> Vec<Vec<String>> {
        let head = ["what", "gateway", "/ proxy", "/ nginx", "judged", "target", "held"];
        let mut lines = vec![head.map(str::to_owned).to_vec()];
        lines.extend(self.verdicts.iter().map(|verdict| {
            vec![
                verdict.what.to_owned(),
                number(verdict.gateway),
                number(verdict.over_proxy),
                number(verdict.over_nginx),
                number(verdict.judged),
                verdict.target.to_owned(),
                verdict.held.map_or("–", |held| if held { "yes" } else { "NO" }).to_owned(),
            ]
        }));
        lines
    }
}

impl Machine {
    fn this() -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            processor: model.map_or("unknown", |(_, name)| name.trim()).to_owned(),
            processors: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            seconds_since_epoch: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
        }
    }
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() >= 1000.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// Prints lines of cells as a table that is also Markdown; the first line is its head.
fn print_table(lines: Vec<Vec<String>>) {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    for (place, line) in lines.iter().enumerate() {
        let cells: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        println!("| {} |", cells.join(" | "));
        if place == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            println!("| {} |", rule.join(" | "));
        }
    }
}

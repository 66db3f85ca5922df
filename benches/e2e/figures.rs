//! What a run has shown: named figures, and what went wrong.

use std::{collections::BTreeMap, fmt::Display};

use serde::{Deserialize, Serialize};

/// What a number tells, with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// Operations that ended well, a second.
    Rate,
    /// Latency that half of the operations do not pass, µs.
    P50,
    /// Latency that 90 % do not pass, µs.
    P90,
    /// Latency that 99 % do not pass, µs.
    P99,
    /// Processor time of the target an operation, µs.
    Cpu,
    /// The most that was resident in the target meanwhile, MiB.
    Peak,
    /// The same above what was resident after its first call, MiB.
    PeakAboveIdle,
    /// Resident in the target after its first call, MiB.
    Resident,
    /// From the target's start to its first correct call, ms.
    FirstCall,
    /// Memory of the target for each session with an open stream, KiB.
    SessionMemory,
    /// The same after a while of pushes, KiB.
    SessionWarm,
    /// The same at the end of them, KiB.
    SessionEnd,
    /// What a session costs at the end of the pushes over what it cost after a while of them.
    Growth,
    /// Descriptors of the target for each such session.
    SessionDescriptors,
    /// Lists that upstreams were asked for meanwhile.
    UpstreamLists,
    /// Processors that the rest of the machine used meanwhile.
    Others,
}

impl Figure {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Self; 16] = [
        Self::Rate,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::Cpu,
        Self::Peak,
        Self::PeakAboveIdle,
        Self::Resident,
        Self::FirstCall,
        Self::SessionMemory,
        Self::SessionWarm,
        Self::SessionEnd,
        Self::Growth,
        Self::SessionDescriptors,
        Self::UpstreamLists,
        Self::Others,
    ];

    /// The head of its column.
    pub fn head(self) -> &'static str {
        match self {
            Self::Rate => "per s",
            Self::P50 => "p50 µs",
            Self::P90 => "p90 µs",
            Self::P99 => "p99 µs",
            Self::Cpu => "CPU µs",
            Self::Peak => "peak MiB",
            Self::PeakAboveIdle => "above idle",
            Self::Resident => "resident MiB",
            Self::FirstCall => "first call ms",
            Self::SessionMemory => "KiB/session",
            Self::SessionWarm => "warm",
            Self::SessionEnd => "at end",
            Self::Growth => "grown to",
            Self::SessionDescriptors => "fds/session",
            Self::UpstreamLists => "lists asked",
            Self::Others => "others",
        }
    }
}

/// Complaints that are kept word by word; the others are only counted.
const COMPLAINTS_KEPT: usize = 5;

/// The outcome of one run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub figures: BTreeMap<Figure, f64>,
    /// Operations that failed or brought a wrong answer.
    pub errors: u64,
    /// The first of their messages.
    pub complaints: Vec<String>,
}

impl Outcome {
    /// Adds a figure; one that could not be had (not a number) is left out.
    pub fn note(&mut self, figure: Figure, value: f64) {
        if value.is_finite() {
            self.figures.insert(figure, value);
        }
    }

    /// Counts an operation that went wrong.
    pub fn complain(&mut self, what: &impl Display) {
        self.errors += 1;
        if self.complaints.len() < COMPLAINTS_KEPT {
            self.complaints.push(format!("{what:#}"));
        }
    }
}

/// How long each operation took, and what went wrong meanwhile.
#[derive(Default)]
pub struct Tally {
    nanoseconds: Vec<u64>,
    pub outcome: Outcome,
}

impl Tally {
    /// Counts an operation that went well.
    pub fn took(&mut self, nanoseconds: u64) {
        self.nanoseconds.push(nanoseconds);
    }

    /// Operations that went well.
    pub fn done(&self) -> usize {
        self.nanoseconds.len()
    }

    /// Takes in what another worker has counted.
    pub fn join(&mut self, other: Self) {
        self.nanoseconds.extend(other.nanoseconds);
        self.outcome.errors += other.outcome.errors;
        let room = COMPLAINTS_KEPT.saturating_sub(self.outcome.complaints.len());
        self.outcome.complaints.extend(other.outcome.complaints.into_iter().take(room));
    }

    /// The outcome of a window of so many seconds.
    pub fn close(mut self, seconds: f64) -> Outcome {
        self.nanoseconds.sort_unstable();
        for (figure, share) in [(Figure::P50, 0.5), (Figure::P90, 0.9), (Figure::P99, 0.99)] {
            let place = (self.nanoseconds.len() as f64 * share) as usize;
            if let Some(nanoseconds) = self.nanoseconds.get(place) {
                self.outcome.note(figure, *nanoseconds as f64 / 1e3);
            }
        }
        self.outcome.note(Figure::Rate, self.nanoseconds.len() as f64 / seconds);
        self.outcome
    }
}

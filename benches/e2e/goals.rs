//! The numbers that the gateway is to hold, and how each is had from the records.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{figures::Figure, rounds::Record};

/// Where a figure is found.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub row: &'static str,
    pub lane: &'static str,
    pub figure: Figure,
}

/// How the judged number comes from the figures of one round.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// The gateway's figure, as it is.
    Plain(&'static str, Figure),
    /// The gateway's over nginx's.
    Nginx(&'static str, Figure),
    /// What the gateway adds to going without, over what nginx adds.
    AddedOverNginx(&'static str, Figure),
    /// One place over another.
    Over(Place, Place),
}

/// The side on which the number must be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// For comparison only.
    Shown,
}

/// One number to hold.
#[derive(Clone, Copy, Debug)]
pub struct Goal {
    pub what: &'static str,
    rule: Rule,
    pub bound: Bound,
    /// How the bound reads.
    pub target: &'static str,
}

/// What became of a goal.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    pub what: &'static str,
    /// The gateway's own figure, median of the rounds.
    pub gateway: Option<f64>,
    pub over_proxy: Option<f64>,
    pub over_nginx: Option<f64>,
    /// The number that is held against the bound, median of the rounds.
    pub judged: Option<f64>,
    pub bound: Bound,
    pub target: &'static str,
    pub held: Option<bool>,
}

const GATEWAY: &str = "gateway";

/// The goals, in the order of the table.
pub const GOALS: &[Goal] = &[
    goal(
        "small call, 16 at once: CPU µs",
        Rule::Nginx("call-16", Figure::Cpu),
        Bound::AtMost(1.6),
        "≤ 1.6 × nginx",
    ),
    goal(
        "small call, 16 at once: a second",
        Rule::Nginx("call-16", Figure::Rate),
        Bound::AtLeast(0.75),
        "≥ 0.75 × nginx",
    ),
    goal(
        "small call, one connection: p50 µs",
        Rule::AddedOverNginx("call-1", Figure::P50),
        Bound::AtMost(1.3),
        "adds ≤ 1.3 × what nginx adds",
    ),
    goal(
        "small call, 64 at once: p99 µs",
        Rule::Nginx("call-64", Figure::P99),
        Bound::AtMost(1.2),
        "≤ 1.2 × nginx",
    ),
    goal("1 MiB result: CPU µs", Rule::Nginx("large", Figure::Cpu), Bound::AtMost(1.1), "≤ 1.1 × nginx"),
    goal(
        "1 MiB result: peak above idle, MiB",
        Rule::Plain("large", Figure::PeakAboveIdle),
        Bound::AtMost(8.0),
        "≤ 8 MiB",
    ),
    goal(
        "SSE with 10 notifications: CPU µs",
        Rule::Nginx("sse", Figure::Cpu),
        Bound::AtMost(1.6),
        "≤ 1.6 × nginx",
    ),
    goal("whole session: CPU µs", Rule::Nginx("session", Figure::Cpu), Bound::AtMost(1.4), "≤ 1.4 × nginx"),
    goal(
        "merged list, 10 × 50 tools: CPU µs",
        Rule::Nginx("list", Figure::Cpu),
        Bound::AtMost(0.8),
        "≤ 0.8 × nginx with one upstream of 500",
    ),
    goal(
        "merged list: lists asked of upstreams",
        Rule::Plain("list", Figure::UpstreamLists),
        Bound::AtMost(0.0),
        "none",
    ),
    goal(
        "call, 100 upstreams: CPU µs",
        over("upstreams-call", "gateway-100", "upstreams-call"),
        Bound::AtMost(1.05),
        "≤ 1.05 × one upstream",
    ),
    goal(
        "session, 100 upstreams: CPU µs",
        over("upstreams-session", "gateway-100", "upstreams-session"),
        Bound::AtMost(1.1),
        "≤ 1.1 × one upstream",
    ),
    goal(
        "call, 1,000 sessions: CPU µs",
        over("sessions-1000", GATEWAY, "sessions-16"),
        Bound::AtMost(1.3),
        "≤ 1.3 × 16 sessions",
    ),
    goal(
        "idle session with a stream: KiB",
        Rule::Plain("idle", Figure::SessionMemory),
        Bound::AtMost(16.0),
        "≤ 16 KiB",
    ),
    goal(
        "soak: session at the end over after a fifth",
        Rule::Plain("soak", Figure::Growth),
        Bound::AtMost(1.05),
        "≤ 1.05",
    ),
    goal("stdio, 16 at once: CPU µs", Rule::Plain("stdio-16", Figure::Cpu), Bound::AtMost(30.0), "≤ 30 µs"),
    goal(
        "stdio, 16 at once: a second",
        Rule::Plain("stdio-16", Figure::Rate),
        Bound::AtLeast(30_000.0),
        "≥ 30,000",
    ),
    goal(
        "start to first correct call: ms",
        Rule::Plain("start", Figure::FirstCall),
        Bound::AtMost(20.0),
        "≤ 20 ms",
    ),
    goal("resident idle: MiB", Rule::Plain("start", Figure::Resident), Bound::AtMost(14.0), "≤ 14 MiB"),
    goal(
        "one hung upstream: p99 of the others, µs",
        moved("hung"),
        Bound::AtMost(1.05),
        "≤ 1.05 × the p99 before",
    ),
    goal("the same, nothing hung (the noise)", moved("hung-control"), Bound::Shown, "for comparison"),
];

const fn goal(what: &'static str, rule: Rule, bound: Bound, target: &'static str) -> Goal {
    Goal { what, rule, bound, target }
}

const fn over(row: &'static str, lane: &'static str, base: &'static str) -> Rule {
    Rule::Over(
        Place { row, lane, figure: Figure::Cpu },
        Place { row: base, lane: GATEWAY, figure: Figure::Cpu },
    )
}

const fn moved(row: &'static str) -> Rule {
    Rule::Over(
        Place { row, lane: GATEWAY, figure: Figure::P99 },
        Place { row: "hung-calm", lane: GATEWAY, figure: Figure::P99 },
    )
}

impl Goal {
    /// Judges the records; none if nothing was measured for this goal.
    pub fn judge(&self, records: &[Record]) -> Option<Verdict> {
        let (own, judged) = match self.rule {
            Rule::Plain(row, figure) => {
                let own = Place { row, lane: GATEWAY, figure };
                (own, median_of(records, |round| at(records, own, round)))
            }
            Rule::Nginx(row, figure) => {
                let own = Place { row, lane: GATEWAY, figure };
                (own, ratio(records, own, Place { lane: "nginx", ..own }))
            }
            Rule::AddedOverNginx(row, figure) => {
                let own = Place { row, lane: GATEWAY, figure };
                (own, median_of(records, |round| added_ratio(records, own, round)))
            }
            Rule::Over(own, base) => (own, ratio(records, own, base)),
        };
        if !records.iter().any(|record| record.row == own.row) {
            return None;
        }
        Some(Verdict {
            what: self.what,
            gateway: median_of(records, |round| at(records, own, round)),
            over_proxy: ratio(records, own, Place { lane: "proxy", ..own }),
            over_nginx: ratio(records, own, Place { lane: "nginx", ..own }),
            judged,
            bound: self.bound,
            target: self.target,
            held: judged.and_then(|value| self.bound.holds(value)),
        })
    }
}

impl Bound {
    fn holds(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(most) => Some(value <= most),
            Self::AtLeast(least) => Some(value >= least),
            Self::Shown => None,
        }
    }
}

/// The median over the rounds of a figure.
pub fn median_at(records: &[Record], place: Place) -> Option<f64> {
    median_of(records, |round| at(records, place, round))
}

/// The median of the rounds' ratios, so that what drifts between rounds falls out.
fn ratio(records: &[Record], above: Place, below: Place) -> Option<f64> {
    median_of(records, |round| quotient(at(records, above, round)?, at(records, below, round)?))
}

fn added_ratio(records: &[Record], own: Place, round: usize) -> Option<f64> {
    let direct = at(records, Place { lane: "direct", ..own }, round)?;
    let nginx = at(records, Place { lane: "nginx", ..own }, round)?;
    quotient(at(records, own, round)? - direct, nginx - direct)
}

fn quotient(above: f64, below: f64) -> Option<f64> {
    (below > 0.0).then_some(above / below)
}

fn at(records: &[Record], place: Place, round: usize) -> Option<f64> {
    let mut matching = records.iter().filter(|record| record.row == place.row && record.lane == place.lane);
    matching.find(|record| record.round == round)?.outcome.figures.get(&place.figure).copied()
}

fn median_of(records: &[Record], value: impl Fn(usize) -> Option<f64>) -> Option<f64> {
    let rounds: BTreeSet<usize> = records.iter().map(|record| record.round).collect();
    let mut values: Vec<f64> = rounds.into_iter().filter_map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = values.get(middle).copied()?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(values.get(middle.checked_sub(1)?).copied()?, upper))
}

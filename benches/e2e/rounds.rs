//! The order of runs: lanes take turns within a scenario, scenarios within a round, and rounds follow each other,
//! so that whatever drifts meanwhile strikes all lanes alike.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    Options,
    figures::{Figure, Outcome},
    idle,
    lanes::{Behind, Lane, Programs, Target, Upstreams, stdio_command},
    load::{self, Span},
    part::{self, Role},
    pipe, rows,
    rows::{Plan, Scenario, Stage, TOOLS},
    soak,
};

/// What a process in the role of the load is told to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    Loop(load::Job),
    Pipe(pipe::Job),
    Idle(idle::Job),
    Soak(soak::Job),
}

/// One run of one lane.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    pub row: &'static str,
    pub lane: &'static str,
    pub round: usize,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// Runs what the options ask for, and keeps what it has shown.
pub struct Runner<'a> {
    pub options: &'a Options,
    pub programs: Programs,
    pub interrupted: &'a AtomicBool,
    pub records: Vec<Record>,
    /// Lanes that could not be started, and why.
    pub absent: Vec<String>,
}

/// A lane that runs, under its plan.
struct Running<'a> {
    plan: Plan,
    /// None where the load drives the child itself.
    lane: Option<Lane>,
    upstreams: Option<&'a Upstreams>,
}

impl Runner<'_> {
    /// Runs everything.
    pub fn run(&mut self) -> Result<()> {
        for stage in rows::stages() {
            self.stage(&stage)?;
        }
        self.fresh_starts("start", |runner, round, plan, lane, _| {
            let mut outcome = Outcome::default();
            outcome.note(Figure::FirstCall, lane.first_call.as_secs_f64() * 1e3);
            outcome.note(Figure::Resident, lane.resident_mib);
            runner.keep(Record { row: "start", lane: plan.name, round, outcome });
            Ok(())
        })?;
        self.fresh_starts("idle", |runner, round, plan, lane, pid| {
            let job =
                idle::Job { origin: lane.origin.clone(), sessions: runner.options.sessions, watched: pid };
            let outcome = part::ask(Role::Load, &Order::Idle(job))?;
            runner.keep(Record { row: "idle", lane: plan.name, round, outcome });
            Ok(())
        })?;
        self.soak()
    }

    /// Minutes long, so only where it is named; once, and the gateway alone: nobody else has sessions to tell.
    fn soak(&mut self) -> Result<()> {
        if self.options.only.is_empty() || !self.options.wants("soak") {
            return Ok(());
        }
        let upstreams = Upstreams::start(rows::ONE)?;
        let plan = rows::alone();
        let lane = match Lane::start(plan.target, Behind::Http(&upstreams), &self.programs) {
            Ok(lane) => lane,
            Err(error) => {
                self.miss(plan, &error);
                return Ok(());
            }
        };
        let watched = lane.pid().context("the gateway is a process")?;
        let (sessions, seconds) = (self.options.sessions, self.options.soak);
        let upstream = upstreams.origin(0)?.to_owned();
        let job = soak::Job { origin: lane.origin.clone(), upstream, sessions, seconds, watched };
        let outcome = part::ask(Role::Load, &Order::Soak(job))?;
        self.keep(Record { row: "soak", lane: plan.name, round: 0, outcome });
        Ok(())
    }

    fn stage(&mut self, stage: &Stage) -> Result<()> {
        let scenarios: Vec<&Scenario> =
            stage.scenarios.iter().filter(|scenario| self.options.wants(scenario.row)).collect();
        if scenarios.is_empty() {
            return Ok(());
        }
        let plans = self.at_hand(stage.lanes.clone());
        let fleets = fleets(&plans)?;
        let lanes: Vec<Running<'_>> =
            plans.into_iter().filter_map(|plan| self.start(plan, &fleets)).collect();
        for round in 0..self.options.rounds {
            for scenario in &scenarios {
                for lane in &lanes {
                    self.check_interrupt()?;
                    let outcome = self.measure(lane, scenario)?;
                    self.keep(Record { row: scenario.row, lane: lane.plan.name, round, outcome });
                }
            }
        }
        Ok(())
    }

    /// The lanes that this machine has the programs for.
    fn at_hand(&self, mut plans: Vec<Plan>) -> Vec<Plan> {
        plans.retain(|plan| plan.target != Target::Nginx || self.programs.nginx.is_some());
        plans
    }

    fn start<'a>(&mut self, plan: Plan, fleets: &'a [Upstreams]) -> Option<Running<'a>> {
        let upstreams = plan.fleet.and_then(|fleet| fleets.iter().find(|upstreams| upstreams.fleet == fleet));
        if plan.target == Target::Direct && plan.fleet.is_none() {
            return Some(Running { plan, lane: None, upstreams });
        }
        let behind = upstreams.map_or(Behind::Stdio(TOOLS), Behind::Http);
        match Lane::start(plan.target, behind, &self.programs) {
            Ok(lane) => Some(Running { plan, lane: Some(lane), upstreams }),
            Err(error) => {
                self.miss(plan, &error);
                None
            }
        }
    }

    /// Runs a scenario over a lane, again while the machine is not quiet, and gives the quietest run.
    fn measure(&self, running: &Running<'_>, scenario: &Scenario) -> Result<Outcome> {
        let mut best = self.measure_once(running, scenario)?;
        for _ in 0..self.options.retries {
            if others(&best) <= self.options.quiet {
                break;
            }
            let again = self.measure_once(running, scenario)?;
            if others(&again) < others(&best) {
                best = again;
            }
        }
        Ok(best)
    }

    fn measure_once(&self, running: &Running<'_>, scenario: &Scenario) -> Result<Outcome> {
        let window = Span { warm_seconds: self.options.warm, seconds: self.options.secs };
        let Some(lane) = &running.lane else {
            let (program, arguments) = stdio_command(TOOLS)?;
            let command = [vec![program], arguments].concat();
            let job = pipe::Job { command, connections: scenario.connections, window };
            return part::ask(Role::Load, &Order::Pipe(job));
        };
        let job = load::Job {
            origin: lane.origin.clone(),
            work: scenario.work,
            connections: scenario.connections,
            sessions: scenario.sessions,
            parked: scenario.parked,
            window,
            watched: lane.pid(),
        };
        let lists = running.lists()?;
        let hanging = running.hang(scenario)?;
        let mut outcome: Outcome = part::ask(Role::Load, &Order::Loop(job))?;
        drop(hanging);
        if let (Some(before), Some(after)) = (lists, running.lists()?) {
            outcome.note(Figure::UpstreamLists, after - before);
        }
        if let Some(peak) = outcome.figures.get(&Figure::Peak).copied() {
            outcome.note(Figure::PeakAboveIdle, peak - lane.resident_mib);
        }
        Ok(outcome)
    }

    /// Starts each lane anew in each round and hands it over, alone on the machine.
    fn fresh_starts(
        &mut self,
        row: &str,
        look: impl Fn(&mut Self, usize, Plan, &Lane, u32) -> Result<()>,
    ) -> Result<()> {
        if !self.options.wants(row) {
            return Ok(());
        }
        let upstreams = Upstreams::start(rows::ONE)?;
        for round in 0..self.options.rounds {
            for plan in self.at_hand(rows::fresh()) {
                self.check_interrupt()?;
                match Lane::start(plan.target, Behind::Http(&upstreams), &self.programs) {
                    Ok(lane) => lane.pid().map_or(Ok(()), |pid| look(self, round, plan, &lane, pid))?,
                    Err(error) if round == 0 => self.miss(plan, &error),
                    Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn keep(&mut self, record: Record) {
        let figures: Vec<String> = record
            .outcome
            .figures
            .iter()
            .map(|(figure, value)| format!("{} {value:.1}", figure.head()))
            .collect();
        println!("[{}] {:<18} {:<12} {}", record.round, record.row, record.lane, figures.join("  "));
        if record.outcome.errors > 0 {
            println!("    {} errors: {}", record.outcome.errors, record.outcome.complaints.join(" | "));
        }
        self.records.push(record);
    }

    fn miss(&mut self, plan: Plan, error: &anyhow::Error) {
        let what = format!("{}: {error:#}", plan.name);
        println!("without {what}");
        self.absent.push(what);
    }

    fn check_interrupt(&self) -> Result<()> {
        ensure!(!self.interrupted.load(Relaxed), "interrupted");
        Ok(())
    }
}

impl Running<'_> {
    fn lists(&self) -> Result<Option<f64>> {
        self.upstreams.map(|upstreams| Ok(upstreams.knock(0, "/lists")?.parse()?)).transpose()
    }

    /// Stops upstream 1 for as long as the value is kept, where the scenario wants that.
    fn hang(&self, scenario: &Scenario) -> Result<Option<Hanging<'_>>> {
        if scenario.parked == 0 {
            return Ok(None);
        }
        let upstreams = self.upstreams.context("a child cannot be made to hang")?;
        upstreams.knock(1, "/hang")?;
        Ok(Some(Hanging(upstreams)))
    }
}

struct Hanging<'a>(&'a Upstreams);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        // If the fixture is gone, the next run tells.
        let _ = self.0.knock(1, "/release");
    }
}

fn others(outcome: &Outcome) -> f64 {
    outcome.figures.get(&Figure::Others).copied().unwrap_or_default()
}

/// One process for each fleet that the lanes need.
fn fleets(lanes: &[Plan]) -> Result<Vec<Upstreams>> {
    let mut started: Vec<Upstreams> = Vec::new();
    for fleet in lanes.iter().filter_map(|plan| plan.fleet) {
        if !started.iter().any(|upstreams| upstreams.fleet == fleet) {
            started.push(Upstreams::start(fleet)?);
        }
    }
    Ok(started)
}

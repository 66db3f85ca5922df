//! The end-to-end comparison: going direct, a minimal proxy, nginx where it is installed, and the gateway, side by
//! side on loopback over the same upstream, with every answer checked.
//!
//! Everything that takes part is a process of its own. This program plays most parts itself, started again with
//! a role; see `docs/benchmarks.md` for what the rows mean and how to run them.
//!
//! *Limits*: Linux only, since use is read from `/proc`.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the bench stands outside the gateway: it has no tasks, clock or configuration of the gateway's to use"
)]

mod answers;
mod client;
mod figures;
mod goals;
mod idle;
mod lanes;
mod load;
mod measure;
mod part;
mod pipe;
mod proxy;
mod report;
mod rounds;
mod rows;
mod soak;
mod upstream;
mod wire;
mod work;

use std::{
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use crate::{
    lanes::Programs,
    part::Role,
    report::Report,
    rounds::{Order, Runner},
};

/// What the gateway itself uses, so that no lane has a better allocator than another.
#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Compares the gateway with what it is measured against.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench e2e --")]
pub struct Options {
    /// Rows to run, by name or by the first word of several: call, large, sse, session, list, upstreams, sessions,
    /// stdio, hung, start, idle, soak. All but the last if none is named.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds that each run is measured.
    #[arg(long, default_value_t = 2.0)]
    secs: f64,
    /// Seconds that each run goes on before it is measured.
    #[arg(long, default_value_t = 1.0)]
    warm: f64,
    /// How often everything is run; the tables show medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// The gateway's program, if not the one that was built with this bench.
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Sessions that the rows "idle" and "soak" open.
    #[arg(long, default_value_t = 2000)]
    sessions: usize,
    /// Seconds that the row "soak" goes on.
    #[arg(long, default_value_t = 300.0)]
    soak: f64,
    /// Processors that the rest of the machine may use during a run before it is repeated.
    #[arg(long, default_value_t = 0.25)]
    quiet: f64,
    /// How often such a run is repeated; the quietest counts.
    #[arg(long, default_value_t = 1)]
    retries: usize,
    /// Where everything is written as JSON.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Given by `cargo bench`; without it nothing is measured.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    /// Whether this row is to be run.
    fn wants(&self, row: &str) -> bool {
        let named = |word: &String| {
            row.strip_prefix(word.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        self.only.is_empty() || self.only.iter().any(named)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().as_deref().and_then(Role::of);
    let outcome = match role {
        Some(role) => play(role, &arguments.next().unwrap_or_default()).map(|()| ExitCode::SUCCESS),
        None => compare(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("e2e: {error:#}");
        ExitCode::FAILURE
    })
}

fn play(role: Role, order: &str) -> Result<()> {
    if role == Role::StdioUpstream {
        return upstream::serve_stdio(order.parse()?);
    }
    part::end_with_starter();
    match role {
        Role::Upstream => all_processors()?.block_on(upstream::serve(serde_json::from_str(order)?)),
        Role::Proxy => all_processors()?.block_on(proxy::serve(serde_json::from_str(order)?)),
        Role::Load | Role::StdioUpstream => part::announce(&match serde_json::from_str(order)? {
            Order::Loop(job) => load::run(&job),
            Order::Pipe(job) => pipe::run(&job),
            Order::Idle(job) => idle::run(&job),
            Order::Soak(job) => soak::run(&job),
        }),
    }
}

fn compare() -> Result<ExitCode> {
    // A test runner that takes this for a test only wants to hear that there is none.
    if !std::env::args().any(|argument| argument == "--bench" || argument == "--help") {
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options::parse();
    if !cfg!(target_os = "linux") {
        bail!("the use of processes is read from /proc, which only Linux has");
    }
    raise_descriptor_limit()?;
    let interrupted = Arc::new(AtomicBool::new(false));
    watch_for_signals(interrupted.clone())?;
    let built = option_env!("CARGO_BIN_EXE_portcullis").map(PathBuf::from);
    let gateway =
        options.gateway.clone().or(built).context("no gateway was built with this bench: name one")?;
    let mut runner = Runner {
        options: &options,
        programs: Programs::find(gateway),
        interrupted: &interrupted,
        records: Vec::new(),
        absent: Vec::new(),
    };
    if runner.programs.nginx.is_none() {
        println!("nginx is not installed: what is compared with it stays empty");
    }
    runner.run()?;
    let report = Report::new(&runner.records, &runner.absent);
    report.print();
    let out = options.out.clone().unwrap_or_else(default_out);
    report.write(&out).with_context(|| format!("cannot write {}", out.display()))?;
    println!("\nAll figures: {}", out.display());
    let whole = runner.absent.is_empty() && runner.records.iter().all(|record| record.outcome.errors == 0);
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn default_out() -> PathBuf {
    let target = option_env!("CARGO_TARGET_TMPDIR")
        .map(PathBuf::from)
        .and_then(|folder| Some(folder.parent()?.to_owned()));
    target.unwrap_or_else(|| PathBuf::from("target")).join("bench").join("e2e.json")
}

fn all_processors() -> Result<runtime::Runtime> {
    Ok(runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// A thousand sessions need more descriptors than a shell gives at first; the parts inherit the limit.
fn raise_descriptor_limit() -> Result<()> {
    let most = getrlimit(Resource::Nofile).maximum;
    Ok(setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most })?)
}

/// Turns a signal into the end of the current run, so that no part is left behind.
fn watch_for_signals(interrupted: Arc<AtomicBool>) -> Result<()> {
    let runtime = load::single_threaded()?;
    let (mut terminate, mut interrupt) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        });
        interrupted.store(true, Relaxed);
    });
    Ok(())
}

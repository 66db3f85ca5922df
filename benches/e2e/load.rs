//! The load: so many connections, each of which begins its next operation when the last has ended.
//!
//! Workers are spread over half of the processors, one single-threaded run time each, so that the
//! load takes little from what it measures and never becomes the limit on a large machine.

use std::{
    num::NonZero,
    sync::{Arc, Barrier, OnceLock},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Error, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::{runtime, task::JoinSet, time};

use crate::{
    client::{Endpoint, Session},
    figures::{Figure, Outcome, Tally},
    measure::{Tree, Usage, machine_busy_seconds},
    work::{Shelf, Task, Work},
};

/// A load against a target that listens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub origin: String,
    pub work: Work,
    /// Operations in flight.
    pub connections: usize,
    /// Sessions that stay open, each with a connection of its own; at least as many as `connections`.
    pub sessions: usize,
    /// Calls to upstream 1 that are left waiting meanwhile.
    pub parked: usize,
    pub window: Span,
    /// The target's process, where it has one.
    pub watched: Option<u32>,
}

/// How long a load runs before it counts, and while it does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Span {
    pub warm_seconds: f64,
    pub seconds: f64,
}

/// Failures in a row after which a worker gives up.
const FAILURES_IN_A_ROW: u32 = 20;

/// A worker's pause after a failure, so that a broken target is not flooded.
const PAUSE: Duration = Duration::from_millis(5);

/// Between two looks at the list of a target that has not read its upstreams yet.
const LOOK: Duration = Duration::from_millis(1);

/// Sessions that one thread opens or closes at once.
const AT_ONCE: usize = 16;

/// The time that counts.
#[derive(Clone, Copy)]
pub struct Window {
    pub begin: Instant,
    pub end: Instant,
}

impl Window {
    /// The window that begins after the warm-up.
    pub fn from_now(span: Span) -> Self {
        let begin = Instant::now() + Duration::from_secs_f64(span.warm_seconds);
        Self { begin, end: begin + Duration::from_secs_f64(span.seconds) }
    }

    /// Waits for the window, watches it pass, and tells what was used in it.
    pub fn watch(self, watched: Option<u32>) -> Watched {
        let target = watched.map(Tree::without_fixtures);
        thread::sleep(self.begin.saturating_duration_since(Instant::now()));
        // Where the kernel forbids it, the peak is that since the start: never less than the true one.
        let _ = target.as_ref().map(Tree::forget_peak);
        let before = Snapshot::take(target.as_ref());
        let begun = Instant::now();
        thread::sleep(self.end.saturating_duration_since(Instant::now()));
        let after = Snapshot::take(target.as_ref());
        Watched { seconds: begun.elapsed().as_secs_f64(), before, after, target: target.is_some() }
    }
}

struct Snapshot {
    target: Usage,
    bench: Usage,
    machine_seconds: f64,
}

impl Snapshot {
    fn take(target: Option<&Tree>) -> Self {
        // Everything that takes part descends from the process that started this one.
        let bench = Tree::whole(std::os::unix::process::parent_id()).usage();
        Self {
            target: target.map(Tree::usage).unwrap_or_default(),
            bench,
            machine_seconds: machine_busy_seconds(),
        }
    }
}

/// What the target and the rest of the machine used in a window.
pub struct Watched {
    pub seconds: f64,
    before: Snapshot,
    after: Snapshot,
    target: bool,
}

impl Watched {
    /// Adds what was used to what was counted.
    pub fn complete(&self, tally: Tally) -> Outcome {
        let done = tally.done() as f64;
        let mut outcome = tally.close(self.seconds);
        if self.target {
            let spent = self.after.target.cpu_seconds - self.before.target.cpu_seconds;
            outcome.note(Figure::Cpu, spent * 1e6 / done);
            outcome.note(Figure::Peak, self.after.target.peak_kib as f64 / 1024.0);
        }
        let machine = self.after.machine_seconds - self.before.machine_seconds;
        let ours = self.after.bench.cpu_seconds - self.before.bench.cpu_seconds;
        outcome.note(Figure::Others, ((machine - ours) / self.seconds).max(0.0));
        outcome
    }
}

/// Runs the load; what cannot even begin comes out as an error of the outcome.
pub fn run(job: &Job) -> Outcome {
    match prepare(job) {
        Ok(task) => closed_loop(job, &Arc::new(task)),
        Err(error) => {
            let mut outcome = Outcome::default();
            outcome.complain(&error);
            outcome
        }
    }
}

fn prepare(job: &Job) -> Result<Task> {
    let endpoint = Arc::new(Endpoint::new(&job.origin)?);
    let shelf = single_threaded()?.block_on(async {
        let mut session = Session::open(&endpoint).await?;
        let shelf = Shelf::of(&mut session).await?;
        session.close().await?;
        Ok::<_, Error>(shelf)
    })?;
    let shelf = if job.work == Work::CallFirst { shelf.only(0) } else { shelf };
    Ok(Task::new(endpoint, job.work, shelf))
}

/// Where the threads meet before the window is set, and after.
struct Start {
    ready: Barrier,
    window: OnceLock<Window>,
    set: Barrier,
}

fn closed_loop(job: &Job, task: &Arc<Task>) -> Outcome {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    let threads = (processors / 2).clamp(1, job.connections.max(1));
    let start =
        Start { ready: Barrier::new(threads + 1), window: OnceLock::new(), set: Barrier::new(threads + 1) };
    thread::scope(|scope| {
        let crews: Vec<_> = (0..threads)
            .map(|number| Crew { number, threads, job, task, start: &start })
            .map(|crew| scope.spawn(move || crew.run()))
            .collect();
        start.ready.wait();
        let window = *start.window.get_or_init(|| Window::from_now(job.window));
        start.set.wait();
        let watched = window.watch(job.watched);
        let mut tally = Tally::default();
        for crew in crews {
            match crew.join() {
                Ok(part) => tally.join(part),
                Err(_) => tally.outcome.complain(&"a thread of the load failed"),
            }
        }
        watched.complete(tally)
    })
}

/// The workers of one thread.
struct Crew<'a> {
    number: usize,
    threads: usize,
    job: &'a Job,
    task: &'a Arc<Task>,
    start: &'a Start,
}

impl Crew<'_> {
    fn run(&self) -> Tally {
        let mut tally = Tally::default();
        match single_threaded() {
            Ok(runtime) => runtime.block_on(self.work(&mut tally)),
            Err(error) => {
                tally.outcome.complain(&error);
                self.start.ready.wait();
                self.start.set.wait();
            }
        }
        tally
    }

    async fn work(&self, tally: &mut Tally) {
        let open =
            if self.task.work == Work::Session { 0 } else { self.job.sessions.max(self.job.connections) };
        let sessions = self.open(self.share(open), tally).await;
        let mut sessions = self.first_lap(sessions, tally).await;
        let parked = self.park().await;
        self.start.ready.wait();
        self.start.set.wait();
        let Some(window) = self.start.window.get().copied() else { return };
        let workers = self.share(self.job.connections);
        let mut crew = JoinSet::new();
        for place in 0..workers {
            let mine = sessions.split_off(sessions.len() - sessions.len() / (workers - place));
            // Turns of different workers never meet.
            let turn = (self.number + self.threads * place) << 40;
            crew.spawn(worker(self.task.clone(), mine, window, turn));
        }
        let mut sessions = Vec::new();
        while let Some(Ok((part, mine))) = crew.join_next().await {
            tally.join(part);
            sessions.extend(mine);
        }
        drop(parked);
        close(sessions).await;
    }

    /// This thread's part of so many.
    fn share(&self, of: usize) -> usize {
        of / self.threads + usize::from(self.number < of % self.threads)
    }

    async fn open(&self, wanted: usize, tally: &mut Tally) -> Vec<Session> {
        let (sessions, failures) = open_sessions(&self.task.endpoint, wanted).await;
        failures.iter().for_each(|failure| tally.outcome.complain(failure));
        sessions
    }

    /// Lets each session meet each upstream once, so that no handshake falls into the window.
    async fn first_lap(&self, sessions: Vec<Session>, tally: &mut Tally) -> Vec<Session> {
        let (mut running, mut met) = (JoinSet::new(), Vec::with_capacity(sessions.len()));
        for mut session in sessions {
            let task = self.task.clone();
            if running.len() >= AT_ONCE {
                met.extend(running.join_next().await);
            }
            running.spawn(async move {
                let outcome = task.lap(&mut session).await;
                (session, outcome)
            });
        }
        while let Some(ended) = running.join_next().await {
            met.push(ended);
        }
        let (sessions, outcomes): (Vec<_>, Vec<_>) = met.into_iter().flatten().unzip();
        outcomes
            .iter()
            .filter_map(|outcome| outcome.as_ref().err())
            .for_each(|error| tally.outcome.complain(error));
        sessions
    }

    /// Leaves calls waiting at upstream 1, for as long as the set is kept.
    async fn park(&self) -> JoinSet<()> {
        let mut parked = JoinSet::new();
        for _ in 0..self.share(self.job.parked) {
            let endpoint = self.task.endpoint.clone();
            parked.spawn(async move {
                let Ok(mut session) = Session::open(&endpoint).await else { return };
                let Ok(shelf) = Shelf::of(&mut session).await else { return };
                let task = Task::new(endpoint, Work::Call, shelf.only(1));
                // A call that is turned away begins anew: the callers of a dead server are not put off.
                loop {
                    let _ = task.once(Some(&mut session), 0).await;
                    time::sleep(PAUSE).await;
                }
            });
        }
        parked
    }
}

/// Opens so many sessions and tells what went wrong with the others.
pub async fn open_sessions(endpoint: &Arc<Endpoint>, wanted: usize) -> (Vec<Session>, Vec<Error>) {
    let (mut sessions, mut failures) = (Vec::with_capacity(wanted), Vec::new());
    let mut opening = JoinSet::new();
    let mut begun = 0;
    while sessions.len() + failures.len() < wanted && failures.len() < FAILURES_IN_A_ROW as usize {
        while begun < wanted && opening.len() < AT_ONCE {
            begun += 1;
            let endpoint = endpoint.clone();
            opening
                .spawn(async move { time::timeout(Duration::from_secs(30), Session::open(&endpoint)).await });
        }
        match opening.join_next().await {
            Some(Ok(Ok(Ok(session)))) => sessions.push(session),
            Some(Ok(Ok(Err(error)))) => failures.push(error.context("open")),
            Some(Ok(Err(late))) => failures.push(Error::new(late).context("open")),
            Some(Err(_)) | None => break,
        }
    }
    (sessions, failures)
}

/// Ends sessions, so that the next run finds the target as this one did; failures do not matter here.
pub async fn close(sessions: Vec<Session>) {
    let mut closing = JoinSet::new();
    for session in sessions {
        if closing.len() >= AT_ONCE {
            closing.join_next().await;
        }
        closing.spawn(time::timeout(Duration::from_secs(2), session.close()));
    }
    while closing.join_next().await.is_some() {}
}

async fn worker(
    task: Arc<Task>,
    mut sessions: Vec<Session>,
    window: Window,
    first: usize,
) -> (Tally, Vec<Session>) {
    let mut tally = Tally::default();
    let mut failures = 0;
    let own = task.work == Work::Session;
    if !own && sessions.is_empty() {
        return (tally, sessions);
    }
    for turn in first.. {
        let begun = Instant::now();
        if begun >= window.end || failures >= FAILURES_IN_A_ROW {
            break;
        }
        let place = if own { 0 } else { turn % sessions.len() };
        let outcome = task.once(sessions.get_mut(place), turn).await;
        let ended = Instant::now();
        match outcome {
            Ok(()) => {
                failures = 0;
                if begun >= window.begin && ended <= window.end {
                    tally.took((ended - begun).as_nanos() as u64);
                }
            }
            Err(error) => {
                failures += 1;
                tally.outcome.complain(&error);
                time::sleep(PAUSE).await;
                renew(&task, sessions.get_mut(place)).await;
            }
        }
    }
    (tally, sessions)
}

/// Puts a new session in the place of one that failed, if one can be had.
async fn renew(task: &Task, place: Option<&mut Session>) {
    if let Some(place) = place
        && let Ok(session) = Session::open(&task.endpoint).await
    {
        *place = session;
    }
}

/// A run time of one thread.
pub fn single_threaded() -> Result<runtime::Runtime> {
    Ok(runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Waits until a target that answers shows so many tools, and makes a call that must be answered rightly.
pub async fn first_call(endpoint: &Arc<Endpoint>, tools: usize) -> Result<()> {
    let mut session = Session::open(endpoint).await?;
    let mut shelf = Shelf::of(&mut session).await?;
    while shelf.size < tools {
        time::sleep(LOOK).await;
        shelf = Shelf::of(&mut session).await?;
    }
    ensure!(shelf.size == tools, "{} tools instead of {tools}", shelf.size);
    let task = Task::new(endpoint.clone(), Work::Call, shelf);
    task.once(Some(&mut session), 0).await?;
    session.close().await
}

//! Sessions that are told something every few seconds, for minutes: whether what they cost stays what it was.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time::{self, Instant};

use crate::{
    client::Endpoint,
    figures::{Figure, Outcome},
    idle,
    load::single_threaded,
    measure::Tree,
    wire,
};

/// Sessions to open, and for how long they are told that lists have changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub origin: String,
    /// Whose lists change.
    pub upstream: String,
    pub sessions: usize,
    pub seconds: f64,
    /// The target's process.
    pub watched: u32,
}

/// The pause between two changes: a target reads the lists of one server once a second at most.
const PAUSE: Duration = Duration::from_secs(3);

/// How long the target may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(3);

/// Opens the sessions, lets lists change, and tells what a session costs at first, after a fifth of the time, and at the end.
pub fn run(job: &Job) -> Outcome {
    let mut outcome = Outcome::default();
    let held = single_threaded().and_then(|runtime| runtime.block_on(hold(job, &mut outcome)));
    if let Err(error) = held {
        outcome.complain(&error);
    }
    outcome
}

async fn hold(job: &Job, outcome: &mut Outcome) -> Result<()> {
    let endpoint = Arc::new(Endpoint::new(&job.origin)?);
    let target = Tree::without_fixtures(job.watched);
    let before = target.usage().resident_kib;
    let (_sessions, mut streams) = idle::open(&endpoint, job.sessions, outcome).await;
    ensure!(!streams.is_empty(), "no session was opened");
    let held = streams.len() as f64;
    let of_each = |target: &Tree| target.usage().resident_kib.saturating_sub(before) as f64 / held;
    time::sleep(SETTLE).await;
    outcome.note(Figure::SessionMemory, of_each(&target));
    let warm = told(job, job.seconds / 5.0, &mut streams).await?;
    let after_warm = of_each(&target);
    outcome.note(Figure::SessionWarm, after_warm);
    let rest = told(job, job.seconds * 0.8, &mut streams).await?;
    let at_end = of_each(&target);
    outcome.note(Figure::SessionEnd, at_end);
    outcome.note(Figure::Growth, at_end / after_warm);
    let silent = warm.iter().zip(&rest).filter(|(warm, rest)| **warm == 0 || **rest == 0).count();
    if silent > 0 {
        outcome.complain(&format!("{silent} sessions were told nothing"));
    }
    Ok(())
}

/// Lets lists change for so long, and gives how many parts came on each stream.
async fn told(job: &Job, seconds: f64, streams: &mut [Incoming]) -> Result<Vec<usize>> {
    let mut parts = vec![0; streams.len()];
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        wire::fetch(&job.upstream, "/change").await?;
        time::sleep(PAUSE).await;
        for (stream, parts) in streams.iter_mut().zip(&mut parts) {
            while let Some(frame) = stream.frame().now_or_never() {
                ensure!(matches!(frame, Some(Ok(_))), "a stream ended");
                *parts += 1;
            }
        }
    }
    Ok(parts)
}

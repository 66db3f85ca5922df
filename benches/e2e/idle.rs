//! Sessions that only wait, each with an open stream: what they cost the target.

use std::{sync::Arc, thread, time::Duration};

use anyhow::Result;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use tokio::time;

use crate::{
    client::{Endpoint, Session},
    figures::{Figure, Outcome},
    load::{open_sessions, single_threaded},
    measure::{Tree, Usage},
};

/// Sessions to open and hold.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub origin: String,
    pub sessions: usize,
    /// The target's process.
    pub watched: u32,
}

/// How long the target may settle before its memory is read.
const SETTLE: Duration = Duration::from_secs(3);

/// Opens the sessions and their streams, and tells what each costs.
pub fn run(job: &Job) -> Outcome {
    let mut outcome = Outcome::default();
    if let Err(error) = hold(job, &mut outcome) {
        outcome.complain(&error);
    }
    outcome
}

fn hold(job: &Job, outcome: &mut Outcome) -> Result<()> {
    let endpoint = Arc::new(Endpoint::new(&job.origin)?);
    let target = Tree::without_fixtures(job.watched);
    let runtime = single_threaded()?;
    let before = target.usage();
    let (sessions, streams) = runtime.block_on(open(&endpoint, job.sessions, outcome));
    thread::sleep(SETTLE);
    let after = target.usage();
    let held = streams.len() as f64;
    let grown = |of: fn(&Usage) -> u64| of(&after).saturating_sub(of(&before)) as f64 / held;
    outcome.note(Figure::SessionMemory, grown(|usage| usage.resident_kib));
    outcome.note(Figure::SessionDescriptors, grown(|usage| usage.descriptors));
    // The target is ended next, so the sessions need no farewell.
    drop(sessions);
    runtime
        .block_on(async { streams.into_iter().filter_map(broken).for_each(|what| outcome.complain(&what)) });
    Ok(())
}

/// Opens sessions and their streams.
pub async fn open(
    endpoint: &Arc<Endpoint>,
    wanted: usize,
    outcome: &mut Outcome,
) -> (Vec<Session>, Vec<Incoming>) {
    let (mut sessions, failures) = open_sessions(endpoint, wanted).await;
    failures.iter().for_each(|failure| outcome.complain(failure));
    let mut streams = Vec::with_capacity(sessions.len());
    for session in &mut sessions {
        match time::timeout(Duration::from_secs(20), session.listen()).await {
            Ok(Ok(stream)) => streams.push(stream),
            Ok(Err(error)) => outcome.complain(&error),
            Err(late) => outcome.complain(&late),
        }
    }
    (sessions, streams)
}

/// What is wrong with a stream that should still be open, after whatever it has carried so far.
fn broken(mut stream: Incoming) -> Option<String> {
    loop {
        match stream.frame().now_or_never() {
            None => return None,
            Some(Some(Ok(_))) => {}
            Some(Some(Err(error))) => return Some(format!("stream: {error}")),
            Some(None) => return Some("the target closed a stream".to_owned()),
        }
    }
}

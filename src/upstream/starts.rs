//! Connections to children: when one may be started, and what becomes of the attempt (R-14, F-027, F-028).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::base::{clock, ids};
use crate::call::{Fault, Principal};
use crate::config::snapshot::Timeouts;
use crate::mcp::revision::Revision;
use crate::upstream::blame::Blame;
use crate::upstream::deadline::Limit;
use crate::upstream::flight::Failure;
use crate::upstream::line::{Loss, Manners};
use crate::upstream::nursery::Nursery;
use crate::upstream::patron::Patron;
use crate::upstream::report::Report;
use crate::upstream::stdio::connection::StdioConnection;
use crate::upstream::stdio::spawn::{Command, SpawnError};
use crate::upstream::stdio::supervise::{Answer, Held, Policy, Start, Starts, Supervision};
use crate::upstream::unbound::Unbound;

/// A pause before a restart that a caller may as well wait out.
const SHORT: Duration = Duration::from_secs(5);

/// What all children of one upstream share.
pub struct Kin {
    command: Arc<Command>,
    nursery: Arc<Nursery>,
    starts: Starts,
    times: Timeouts,
    blame: Blame,
    /// Where their news go.
    pub unbound: Unbound,
    /// What the last failed start was told to clients as.
    told: Mutex<Option<String>>,
}

/// For whom a child is started.
pub struct Want {
    /// Whose queue it waits in.
    pub tenant: Arc<str>,
    /// What it is offered.
    pub offered: Revision,
    /// Whom it will work for.
    pub patron: Arc<Patron>,
    /// Whether it serves the catalog.
    pub serves_catalog: bool,
}

impl Kin {
    /// The children of one upstream, none of them started.
    #[must_use]
    pub fn new(command: Command, nursery: Arc<Nursery>, times: Timeouts, unbound: Unbound) -> Self {
        let policy = Policy { first_start: times.first_start, start: times.handshake, ..Policy::default() };
        let starts = Starts::new(Arc::clone(&command.upstream), policy, Arc::clone(&nursery.sink));
        let blame = Blame::new(Arc::clone(&command.upstream));
        Self { command: Arc::new(command), nursery, starts, times, blame, unbound, told: Mutex::default() }
    }

    /// Starts a child and meets it. Callers wait while another start decides; after failures they are told at
    /// once.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(&self, want: Want) -> Result<Arc<StdioConnection>, Failure> {
        let start = self.starts.enter().await.map_err(|held| self.held(held))?;
        let opened = self.meet(want, start.patience).await;
        match &opened {
            Ok(_) => start.succeeded(),
            Err(failure) => self.failed(start, failure),
        }
        opened
    }

    async fn meet(&self, want: Want, patience: Duration) -> Result<Arc<StdioConnection>, Failure> {
        let spawner = self.nursery.spawner().ok_or_else(|| Failure::plain(Fault::Stopping))?;
        let child = spawner.spawn(&self.command, &want.tenant).await.map_err(|error| self.refused(&error))?;
        let key = if patience == self.times.handshake { "handshake" } else { "firstStart" };
        let exit = child.life.exit();
        let manners = Manners {
            handshake: Limit { key, after: patience },
            max_message: self.command.max_message,
            blame: self.blame.clone(),
            patron: want.patron,
            serves_catalog: want.serves_catalog,
        };
        let opened = StdioConnection::open(child, want.offered, manners).await;
        match opened {
            Ok(connection) => Ok(connection),
            Err(failure) => {
                // Its last words are for the operator: they say more than its exit code (F-026).
                let exit = clock::within(SHORT, exit).await;
                let words = exit.map(|exit| exit.stderr.join(" | ")).unwrap_or_default();
                if words.is_empty() {
                    return Err(failure);
                }
                Err(Failure::detailed(failure.fault, format_args!("{} ({words})", failure.detail)))
            }
        }
    }

    fn failed(&self, start: Start, failure: &Failure) {
        // A full house says nothing about this upstream.
        if matches!(failure.fault, Fault::Exhausted { .. } | Fault::Stopping) {
            return drop(start);
        }
        let told = match &failure.fault {
            Fault::Unavailable { why, .. } | Fault::Protocol { why, .. } => why.to_string(),
            other => other.to_string(),
        };
        start.failed(&told);
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
    }

    fn refused(&self, error: &SpawnError) -> Failure {
        let fault = match error {
            SpawnError::Full(full) => Fault::Exhausted { what: "the number of processes", key: full.key },
            SpawnError::Gone => Fault::Stopping,
            SpawnError::Command(_) => self.blame.unsent("its command is not found"),
            _ => self.blame.unsent("its process cannot be started"),
        };
        Failure::detailed(fault, error)
    }

    fn held(&self, held: Held) -> Failure {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let why = told.unwrap_or_else(|| "it could not be started".to_owned());
        let rest = held.until.saturating_duration_since(clock::now());
        let state = if held.broken { "given up for now" } else { "it is tried again soon" };
        Failure::plain(self.blame.resting(format!("{why}; {state} ({} failed starts)", held.failures), rest))
    }
}

/// The crashes of one connection after good handshakes.
pub struct Crashes(Mutex<Supervision>);

impl Default for Crashes {
    fn default() -> Self {
        // A child that answered and then ended is likelier to work again than one that never did.
        let policy = Policy {
            first_pause: Duration::from_millis(100),
            failures: 10,
            rest: Duration::from_mins(1),
            ..Policy::default()
        };
        Self(Mutex::new(Supervision::new(policy)))
    }
}

impl Crashes {
    /// Waits until a connection may be opened, after the loss of the one before it; a long pause is not
    /// waited for. Restarts of children are told to `report`.
    ///
    /// # Errors
    /// When it crashes too often, or the pause is long.
    pub async fn pause(
        &self,
        loss: Option<&Loss>,
        blame: &Blame,
        report: Option<&Report>,
    ) -> Result<(), Failure> {
        let mut why: Arc<str> = "it ended".into();
        if let Some(loss) = loss {
            why = Arc::clone(&loss.why);
            let (pause, failures) = {
                let mut supervision = self.lock();
                let pause = supervision.failed(loss.at, u32::from_ne_bytes(ids::random_bytes()));
                (pause, supervision.failures())
            };
            if let Some(report) = report {
                report.restarting(failures, pause.length);
            }
        }
        loop {
            let answer = self.lock().ask(clock::now());
            let held = match answer {
                Answer::Start { .. } | Answer::Busy => return Ok(()),
                Answer::Held(held) => held,
            };
            let rest = held.until.saturating_duration_since(clock::now());
            if held.broken || rest > SHORT {
                let told =
                    format!("{why}; it ended {} times in a row and is left alone for a while", held.failures);
                return Err(Failure::plain(blame.resting(told, rest)));
            }
            clock::sleep_until(held.until).await;
        }
    }

    /// A connection was opened, or not; what failed before a good handshake is counted elsewhere.
    pub fn opened(&self, good: bool) {
        let mut supervision = self.lock();
        if good {
            supervision.started(clock::now());
        } else {
            supervision.abandoned();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Supervision> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tenant of connections that belong to nobody.
#[must_use]
pub fn own_tenant() -> Arc<str> {
    Arc::from(Principal::DEFAULT_TENANT)
}

//! A line: one channel in each direction that carries all messages of a connection. The pipes of a child are one; the event
//! stream of HTTP+SSE is another, with a POST for each message of ours, among which there is no order.
//!
//! *Invariants.* Requests are pipelined and answers find their calls by id; a call is known before its request is
//! written (F-031). Nothing waits for a slow client: the reader hands out and goes on (F-029, F-087). The end fails all
//! calls at once (F-026).

mod inbound;
mod mailbox;
mod met;
mod oversized;

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use self::mailbox::{Sign, Waiting};
use crate::base::clock;
use crate::call::{Fault, Handshake};
use crate::jsonrpc::Message;
use crate::mcp::revision::Revision;
use crate::upstream::blame::Blame;
use crate::upstream::deadline::{Deadline, Limit};
use crate::upstream::flight::Failure;
use crate::upstream::handshake::{self, HandshakeError};
use crate::upstream::patron::{Patron, Voice};
use crate::upstream::replay;
use crate::upstream::report::{Dropped, Report};

pub use self::met::Met;

/// How long the news of an end is waited for, once nothing can be sent any more.
const ENDING: Duration = Duration::from_millis(400);

/// Our end of a line: takes messages to the other side.
pub trait Outlet: Send + Sync + 'static {
    /// Sends a request; done when it has left.
    ///
    /// # Errors
    /// See [`Unsent`].
    fn send(&self, text: Bytes, request: Request<'_>) -> impl Future<Output = Result<(), Unsent>> + Send;

    /// Sends what nobody waits for an answer to; done when it has left.
    ///
    /// # Errors
    /// See [`Unsent`].
    fn say(&self, text: Bytes) -> impl Future<Output = Result<(), Unsent>> + Send;

    /// Sends what may be lost, from places that cannot wait; says whether there was room.
    fn offer(&self, text: Bytes) -> bool;

    /// What the end of the line means for a call whose request had left; `safe` if the call may be repeated.
    fn lost(blame: &Blame, why: String, safe: bool) -> Fault;
}

/// What an outlet has to know of a request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// Our id.
    pub id: u64,
    /// Whether it may be repeated.
    pub safe: bool,
    /// To be set as soon as it may have left.
    pub sent: &'a AtomicBool,
}

/// Why a message did not leave as it should.
#[derive(Debug)]
pub enum Unsent {
    /// The line has ended; its reader is about to learn why.
    Ending,
    /// The other side knows nothing of the line any more: it has ended, for this reason, and the message had no effect.
    Over(&'static str),
    /// The other side refused it with the answer to it.
    Answered(Box<Message>),
    /// This message failed, and nothing else did.
    Failed(Failure),
}

/// What a line is made with.
pub struct Manners {
    /// For the handshake.
    pub handshake: Limit,
    /// The largest message, in bytes.
    pub max_message: usize,
    /// Names the upstream in faults.
    pub blame: Blame,
    /// For whom, and what comes unasked.
    pub patron: Arc<Patron>,
    /// Whether its end is news for the relay: it serves the catalog.
    pub serves_catalog: bool,
}

impl Manners {
    /// The limit of the handshake, counted from now.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        Deadline::once(self.handshake, self.blame.clone())
    }
}

/// How a line was lost.
#[derive(Debug, Clone)]
pub struct Loss {
    /// When.
    pub at: Instant,
    /// After how long.
    pub lived: Duration,
    /// Why, for clients and operators.
    pub why: Arc<str>,
}

/// What callers and the reader share.
pub struct Line<O: Outlet> {
    outlet: O,
    ids: AtomicU64,
    legs: Mutex<HashMap<u64, Waiting>>,
    /// What it was made with.
    pub manners: Manners,
    began: Instant,
    /// The handshake was good: from now on its end is a loss.
    met: AtomicBool,
    /// Agreed on in the handshake.
    revision: OnceLock<Revision>,
    /// Cancelled when it is to be used no more.
    closed: CancellationToken,
    lost: OnceLock<Loss>,
}

/// What comes first while a call waits.
enum Step {
    Left(Result<(), Unsent>),
    Heard(Sign),
}

// === impl Line ===

impl<O: Outlet> Line<O> {
    /// A line whose other side has still to be met.
    #[must_use]
    pub fn new(outlet: O, manners: Manners) -> Arc<Self> {
        Arc::new(Self {
            outlet,
            ids: AtomicU64::new(1),
            legs: Mutex::default(),
            manners,
            began: clock::now(),
            met: AtomicBool::new(false),
            revision: OnceLock::new(),
            closed: CancellationToken::new(),
            lost: OnceLock::new(),
        })
    }

    /// Meets the other side and offers it `offered`.
    ///
    /// *On drop:* the line is closed.
    ///
    /// # Errors
    /// Why there is no connection; the line is closed then, too.
    pub async fn meet(self: Arc<Self>, offered: Revision, deadline: &Deadline) -> Result<Met<O>, Failure> {
        let guard = self.closed.clone().drop_guard();
        let began = clock::now();
        let handshake = Arc::new(self.shake(offered, deadline).await?);
        self.report().handshake_done(&handshake, clock::now().saturating_duration_since(began));
        for request in replay::requests(&self.manners.patron, &handshake, || self.next_id()) {
            Arc::clone(&self).say(request).await;
        }
        self.met.store(true, Ordering::Relaxed);
        guard.disarm();
        Ok(Met { line: self, handshake })
    }

    /// The handshake, tried once more with another revision if the other side asks for that (LIFE-05).
    async fn shake(&self, offered: Revision, deadline: &Deadline) -> Result<Handshake, Failure> {
        let met = match self.greet(offered, deadline).await? {
            Err(HandshakeError::Refused { common: Some(common), .. }) => self.greet(common, deadline).await?,
            met => met,
        };
        let handshake = met.map_err(|error| Failure::plain(self.manners.blame.unsent(error.to_string())))?;
        // Nobody else sets it.
        let _ = self.revision.set(handshake.revision);
        let told = deadline.next(self.outlet.say(handshake::initialized())).await.map_err(Failure::plain)?;
        match told {
            // Servers answer it in all ways; what counts is that it has arrived (F-010).
            Ok(()) | Err(Unsent::Answered(_)) => Ok(handshake),
            Err(unsent) => Err(self.unsent(unsent).await),
        }
    }

    async fn greet(
        &self,
        asked: Revision,
        deadline: &Deadline,
    ) -> Result<Result<Handshake, HandshakeError>, Failure> {
        let id = self.next_id();
        let text = handshake::request(id, asked, self.manners.patron.shown);
        let request = Request { id, safe: true, sent: &AtomicBool::new(false) };
        let answer = self.ask(text, request, Waiting::default(), deadline).await?;
        Ok(handshake::read(&answer, asked))
    }

    /// Sends a request and waits for its answer, which may come before the request is known to have left.
    async fn ask(
        &self,
        text: Bytes,
        request: Request<'_>,
        waiting: Waiting,
        deadline: &Deadline,
    ) -> Result<Message, Failure> {
        let mailbox = Arc::clone(&waiting.mailbox);
        self.legs().insert(request.id, waiting);
        let _listed = Listed { line: self, id: request.id };
        // The end may have come before this call was listed; whoever ends it looks at the list after that.
        if self.closed.is_cancelled() {
            return Err(self.ended(request));
        }
        let mut sending = pin!(self.outlet.send(text, request));
        let mut left = false;
        loop {
            let step = async {
                // Both are safe to cancel: the first is only looked at again.
                tokio::select! {
                    biased;
                    outcome = &mut sending, if !left => Step::Left(outcome),
                    sign = mailbox.next() => Step::Heard(sign),
                }
            };
            match deadline.next(step).await.map_err(Failure::plain)? {
                Step::Left(Ok(())) => left = true,
                Step::Left(Err(Unsent::Answered(message))) => return Ok(*message),
                Step::Left(Err(unsent)) => return Err(self.unsent(unsent).await),
                Step::Heard(Sign::Alive) => {}
                Step::Heard(Sign::Answer(answer)) => return answer.map_err(Failure::plain),
                Step::Heard(Sign::Ended) => {
                    // What is still on its way may be told yet that it had no effect.
                    if !left && let Ok(Err(unsent)) = clock::within(ENDING, sending).await {
                        return match unsent {
                            Unsent::Answered(message) => Ok(*message),
                            unsent => Err(self.unsent(unsent).await),
                        };
                    }
                    return Err(self.ended(request));
                }
            }
        }
    }

    /// What it means for a message that it did not leave.
    async fn unsent(&self, unsent: Unsent) -> Failure {
        match unsent {
            Unsent::Failed(failure) => return failure,
            Unsent::Over(why) => self.lose(why),
            Unsent::Ending | Unsent::Answered(_) => {
                // Where the news do not come in time, the reason stays unknown.
                let _ = clock::within(ENDING, self.closed.cancelled()).await;
            }
        }
        Failure::plain(self.manners.blame.unsent(self.why()))
    }

    /// What the end of the line means for a request.
    fn ended(&self, request: Request<'_>) -> Failure {
        let blame = &self.manners.blame;
        Failure::plain(match request.sent.load(Ordering::Relaxed) {
            true => O::lost(blame, self.why(), request.safe),
            false => blame.unsent(self.why()),
        })
    }

    fn why(&self) -> String {
        match self.lost.get() {
            Some(loss) => loss.why.to_string(),
            None if self.closed.is_cancelled() => "its connection is closed".to_owned(),
            None => "it takes no more messages".to_owned(),
        }
    }

    /// Notes that it was lost, unless it was closed before, and uses it no more.
    fn lose(&self, why: impl Into<Arc<str>>) {
        if !self.closed.is_cancelled() {
            let at = clock::now();
            // The first reason counts.
            let _ =
                self.lost.set(Loss { at, lived: at.saturating_duration_since(self.began), why: why.into() });
        }
        self.closed.cancel();
    }

    /// Sends a message that nobody waits for. Whoever does not keep up misses it.
    fn aside(&self, text: Bytes) {
        if !self.outlet.offer(text) && !self.closed.is_cancelled() {
            self.report().dropped(Dropped::Request);
        }
    }

    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    fn legs(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.legs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cancelled when it is to be used no more.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Tells the operator.
    pub fn report(&self) -> &Report {
        &self.manners.patron.unbound.report
    }
}

impl<O: Outlet> Voice for Line<O> {
    fn say(self: Arc<Self>, text: Bytes) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // Whoever has ended needs no answer, and nobody waits to hear of another failure.
            if let Err(Unsent::Over(why)) = self.outlet.say(text).await {
                self.lose(why);
            }
        })
    }

    fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    fn revision(&self) -> Revision {
        // Nobody is asked before the handshake is good.
        self.revision.get().copied().unwrap_or(Revision::LATEST)
    }
}

/// Keeps a call in the list.
struct Listed<'a, O: Outlet> {
    line: &'a Line<O>,
    id: u64,
}

impl<O: Outlet> Drop for Listed<'_, O> {
    fn drop(&mut self) {
        self.line.legs().remove(&self.id);
    }
}

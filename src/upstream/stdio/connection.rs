//! MCP with a child: requests are pipelined, answers find their calls by id, the end fails all at once.
//!
//! *Invariants.* A call is known before its request is written (F-031). Nothing waits for a slow client:
//! the reader hands out and goes on (F-029, F-087).
//!
//! *On drop:* the child's group is killed.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::task::AtomicWaker;
use tokio_util::sync::CancellationToken;

use super::child::{Child, Grace, Life};
use super::pipe::Input;
use super::reader::Reader;
use crate::base::{clock, tasks};
use crate::call::{Answer, Body, Fault, Handshake};
use crate::jsonrpc::Message;
use crate::mcp::revision::Revision;
use crate::upstream::blame::Blame;
use crate::upstream::deadline::{Deadline, Limit};
use crate::upstream::exchange::Notices;
use crate::upstream::flight::Failure;
use crate::upstream::handshake::{self, HandshakeError};
use crate::upstream::leg::{Leg, Reason, Watch};
use crate::upstream::patron::{Patron, Voice};
use crate::upstream::progress::Progress;
use crate::upstream::report::{Dropped, Report};
use crate::upstream::{replay, request};

/// How long the last lines of a child that has ended are waited for, and the news of its end once its
/// output is closed (F-026).
pub(super) const LAST_WORDS: Duration = Duration::from_millis(200);

/// What a connection to a child is made with.
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

/// An open connection.
pub struct StdioConnection {
    line: Arc<Line>,
    life: Life,
    handshake: Arc<Handshake>,
}

/// How a connection was lost.
#[derive(Debug, Clone)]
pub struct Loss {
    /// When.
    pub at: Instant,
    /// Why, for clients and operators.
    pub why: Arc<str>,
}

/// What callers and the reader share.
pub(super) struct Line {
    input: Input,
    ids: AtomicU64,
    legs: Mutex<HashMap<u64, Waiting>>,
    pub(super) manners: Manners,
    /// The handshake was good: from now on its end is a loss.
    pub(super) met: AtomicBool,
    /// Agreed on in the handshake.
    revision: OnceLock<Revision>,
    /// Cancelled when it is to be used no more.
    pub(super) closed: CancellationToken,
    pub(super) lost: OnceLock<Loss>,
}

/// A call that waits for its answer.
pub(super) struct Waiting {
    pub mailbox: Arc<Mailbox>,
    pub progress: Option<Progress>,
    /// Where goes what comes before the answer; none for the handshake.
    pub notices: Option<Arc<Notices>>,
}

/// Where the reader leaves what it has for one call.
#[derive(Default)]
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Inner {
    lively: bool,
    answer: Option<Result<Message, Fault>>,
}

enum Sign {
    /// It is still at work.
    Alive,
    /// It is done.
    Answer(Result<Message, Fault>),
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn alive(&self) {
        self.lock().lively = true;
        self.waker.wake();
    }

    pub fn put(&self, answer: Result<Message, Fault>) {
        self.lock().answer = Some(answer);
        self.waker.wake();
    }

    /// The next sign of life. Safe to cancel.
    async fn next(&self) -> Sign {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Sign> {
        self.waker.register(cx.waker());
        let mut inner = self.lock();
        if let Some(answer) = inner.answer.take() {
            return Poll::Ready(Sign::Answer(answer));
        }
        if std::mem::take(&mut inner.lively) { Poll::Ready(Sign::Alive) } else { Poll::Pending }
    }
}

// === impl StdioConnection ===

impl StdioConnection {
    /// Meets a child and offers it `offered`.
    ///
    /// *On drop:* the child is killed.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(child: Child, offered: Revision, manners: Manners) -> Result<Arc<Self>, Failure> {
        let Child { input, frames, noise, life } = child;
        let line = Arc::new(Line {
            input,
            ids: AtomicU64::new(1),
            legs: Mutex::default(),
            manners,
            met: AtomicBool::new(false),
            revision: OnceLock::new(),
            closed: CancellationToken::new(),
            lost: OnceLock::new(),
        });
        let exit = {
            let exit = life.exit();
            async move { exit.await.to_string() }
        };
        let reader = Reader { line: Arc::clone(&line), noise };
        tasks::spawn("stdio reader", reader.run(frames, exit)).detach();
        let guard = line.closed.clone().drop_guard();
        let began = clock::now();
        let handshake = Arc::new(line.shake(offered).await?);
        line.report().handshake_done(&handshake, clock::now().saturating_duration_since(began));
        for request in replay::requests(&line.manners.patron, &handshake, || line.next_id()) {
            Arc::clone(&line).say(request).await;
        }
        line.met.store(true, Ordering::Relaxed);
        guard.disarm();
        Ok(Arc::new(Self { line, life, handshake }))
    }

    /// Makes a call.
    ///
    /// *On drop* before its end: the call is cancelled (CANC-01).
    ///
    /// # Errors
    /// What failed.
    pub async fn call(&self, leg: Leg<'_>) -> Result<Answer, Fault> {
        let line = &*self.line;
        let id = line.next_id();
        let watch = Watch::new(|why: Reason| line.aside(request::cancelled(id, why.text(leg.call))));
        let waiting = Waiting {
            mailbox: Arc::default(),
            progress: leg.call.progress.as_ref().map(|(_, token)| Progress::new(id, token.clone())),
            notices: Some(Arc::clone(leg.notices)),
        };
        match line.ask(id, request::write(leg.call, id), waiting, (leg.deadline, || watch.mark())).await {
            Ok(message) => {
                watch.settle();
                Ok(Answer {
                    body: Body::Message(message),
                    rewrites: leg.call.method.rewrites,
                    uris: None,
                    watch: None,
                })
            }
            Err(fault) => {
                watch.failed(&fault);
                Err(fault)
            }
        }
    }

    /// What the upstream said when it was met.
    #[must_use]
    pub fn handshake(&self) -> Arc<Handshake> {
        Arc::clone(&self.handshake)
    }

    /// For whom it works.
    #[must_use]
    pub fn patron(&self) -> &Arc<Patron> {
        &self.line.manners.patron
    }

    /// The number of its next request.
    pub fn next_id(&self) -> u64 {
        self.line.next_id()
    }

    /// Sends a message that is no call.
    pub async fn say(&self, text: Bytes) {
        Arc::clone(&self.line).say(text).await;
    }

    /// Whether it is to be used no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.line.closed.is_cancelled()
    }

    /// How it was lost, unless it was closed.
    #[must_use]
    pub fn loss(&self) -> Option<&Loss> {
        self.line.lost.get()
    }

    /// Stops the child in good order (STDIO-04).
    pub async fn close(&self, grace: Grace) {
        self.line.closed.cancel();
        self.life.stop(grace).await;
    }
}

// === impl Line ===

impl Line {
    fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub fn legs(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.legs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handshake, tried once more with another revision if the child asks for that (LIFE-05).
    async fn shake(&self, offered: Revision) -> Result<Handshake, Failure> {
        let deadline = Deadline::once(self.manners.handshake, self.manners.blame.clone());
        let met = match self.greet(offered, &deadline).await? {
            Err(HandshakeError::Refused { common: Some(common), .. }) => {
                self.greet(common, &deadline).await?
            }
            met => met,
        };
        let handshake = met.map_err(|error| Failure::plain(self.manners.blame.unsent(error.to_string())))?;
        // Nobody else sets it.
        let _ = self.revision.set(handshake.revision);
        let told = self.input.send(handshake::initialized()).await;
        told.map_err(|_| Failure::plain(self.manners.blame.unsent("its process ended")))?;
        Ok(handshake)
    }

    async fn greet(
        &self,
        asked: Revision,
        deadline: &Deadline,
    ) -> Result<Result<Handshake, HandshakeError>, Failure> {
        let id = self.next_id();
        let request = handshake::request(id, asked, self.manners.patron.shown);
        let waiting = Waiting { mailbox: Arc::default(), progress: None, notices: None };
        let answer = self.ask(id, request, waiting, (deadline, || ())).await;
        Ok(handshake::read(&answer.map_err(Failure::plain)?, asked))
    }

    /// Sends a request and waits for its answer. The second part of `wait` is told when it has been queued.
    async fn ask(
        &self,
        id: u64,
        text: Bytes,
        waiting: Waiting,
        wait: (&Deadline, impl FnOnce()),
    ) -> Result<Message, Fault> {
        let (deadline, sent) = wait;
        let mailbox = Arc::clone(&waiting.mailbox);
        self.legs().insert(id, waiting);
        let _listed = Listed { line: self, id };
        // The end may have come before this call was listed; whoever ends it looks at the list after that.
        if self.closed.is_cancelled() {
            return Err(self.manners.blame.unsent(self.why()));
        }
        let size = text.len();
        let queued = deadline.next(self.input.send(text)).await?;
        if queued.is_err() {
            // The reader is about to learn how it ended.
            let told = clock::within(2 * LAST_WORDS, self.closed.cancelled()).await;
            let why = told.map_or_else(|_| "its process takes no more messages".to_owned(), |()| self.why());
            return Err(self.manners.blame.unsent(why));
        }
        sent();
        self.report().sent(size);
        loop {
            match deadline.next(mailbox.next()).await? {
                Sign::Alive => {}
                Sign::Answer(answer) => return answer,
            }
        }
    }

    fn why(&self) -> String {
        self.lost.get().map_or_else(|| "its connection is closed".to_owned(), |loss| loss.why.to_string())
    }

    /// Sends a message that nobody waits for. A child that does not keep up misses it.
    pub fn aside(&self, text: Bytes) {
        if self.input.offer(text).is_err() && !self.closed.is_cancelled() {
            self.report().dropped(Dropped::Request);
        }
    }

    /// Tells the operator.
    pub fn report(&self) -> &Report {
        &self.manners.patron.unbound.report
    }
}

impl Voice for Line {
    fn say(self: Arc<Self>, text: Bytes) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            // A child that has ended needs no answer.
            let _ = self.input.send(text).await;
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
struct Listed<'a> {
    line: &'a Line,
    id: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.line.legs().remove(&self.id);
    }
}

//! A line whose handshake was good: what a connection is made of.

use std::sync::Arc;

use bytes::Bytes;

use super::mailbox::Waiting;
use super::{Line, Loss, Outlet, Request};
use crate::call::{Answer, Body, Fault, Handshake};
use crate::upstream::flight::Failure;
use crate::upstream::leg::{Leg, Reason, Watch};
use crate::upstream::patron::{Patron, Voice};
use crate::upstream::progress::Progress;
use crate::upstream::request;

/// A line whose handshake was good.
pub struct Met<O: Outlet> {
    pub(super) line: Arc<Line<O>>,
    pub(super) handshake: Arc<Handshake>,
}

impl<O: Outlet> Met<O> {
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
        let request = Request { id, safe: leg.call.method.safe, sent: &watch.sent };
        match line.ask(request::write(leg.call, id), request, waiting, leg.deadline).await {
            Ok(message) => {
                watch.settle();
                Ok(Answer {
                    body: Body::Message(message),
                    rewrites: leg.call.method.rewrites,
                    uris: None,
                    watch: None,
                })
            }
            Err(Failure { fault, .. }) => {
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

    /// Uses it no more.
    pub fn close(&self) {
        self.line.closed.cancel();
    }
}

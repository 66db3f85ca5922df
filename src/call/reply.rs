//! What comes back: notices, and one answer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use crate::call::fault::{Fault, Outcome};
use crate::call::question::Question;
use crate::jsonrpc::Message;
use crate::jsonrpc::rewrite::{Node, UriMap};

/// The reply to a call.
///
/// *On drop* before its end: the call is cancelled upstream.
pub enum Reply {
    /// Nothing comes before the answer.
    Done(Answer),
    /// Notices, then the answer or a fault, which is last.
    Items(Items),
}

/// A stream of reply items.
pub type Items = Pin<Box<dyn Stream<Item = Item> + Send>>;

/// One thing that comes back.
pub enum Item {
    /// A notification that belongs to the call (progress, a log message), ready for the client.
    Notice(Bytes),
    /// A notification of the upstream that the relay has yet to make a notice of, or to drop.
    Raw(Message),
    /// The upstream asks the client, and waits.
    Ask(Question),
    /// The upstream lets the answer be fetched later: it has closed its stream, which goes on after so long (HTTP-14).
    Pause(Option<Duration>),
    /// The answer; nothing follows.
    Done(Answer),
    /// The call failed after it began; nothing follows.
    Failed(Fault),
}

/// The answer to a call, not yet addressed to the client.
pub struct Answer {
    /// The text, in one of its forms.
    pub body: Body,
    /// What is to be replaced in it beside the id.
    pub rewrites: &'static Node,
    /// How its URIs become those that the client sees; `None` leaves them.
    pub uris: Option<UriMap>,
    /// Told when the last byte has gone; dropped untold when it never goes.
    pub watch: Option<Box<dyn Watch>>,
}

/// The text of an answer.
pub enum Body {
    /// A `result` that the gateway made: the value of that member, as shared text.
    Result(Bytes),
    /// An upstream's response, whole.
    Message(Message),
    /// An upstream's response as it arrives; not yet looked at.
    Stream(Chunks),
}

/// The text of a large answer.
pub type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Fault>> + Send>>;

/// The whole text of a large answer, for who cannot pass it on in parts. The server shore bounds its size.
///
/// # Errors
/// What the rest of it could not be had for.
pub async fn gather(mut chunks: Chunks) -> Result<Bytes, Fault> {
    let mut text = Vec::new();
    while let Some(chunk) = chunks.next().await {
        text.extend_from_slice(&chunk?);
    }
    Ok(Bytes::from(text))
}

/// Told how a call ended.
pub trait Watch: Send {
    /// The answer has been written, with this outcome.
    fn ended(self: Box<Self>, outcome: Outcome);
}

impl Answer {
    /// A result of the gateway itself.
    #[must_use]
    pub fn result(text: impl Into<Bytes>) -> Self {
        Self::of(Body::Result(text.into()))
    }

    /// An answer in which only the id is replaced.
    #[must_use]
    pub fn of(body: Body) -> Self {
        Self { body, rewrites: &crate::mcp::answers::PLAIN, uris: None, watch: None }
    }
}

impl Reply {
    /// An empty result.
    #[must_use]
    pub fn empty() -> Self {
        Self::Done(Answer::result(Bytes::from_static(b"{}")))
    }

    /// The answer alone, its text read to the end: for who has no use for notices, cannot go on in parts and has
    /// nobody to ask.
    ///
    /// # Errors
    /// How the call failed; `Protocol` of `upstream` when the text is no message.
    pub async fn whole(self, upstream: &Arc<str>) -> Result<Answer, Fault> {
        let mut answer = match self {
            Self::Done(answer) => answer,
            Self::Items(mut items) => loop {
                match items.next().await {
                    Some(Item::Notice(_) | Item::Raw(_) | Item::Ask(_) | Item::Pause(_)) => {}
                    Some(Item::Done(answer)) => break answer,
                    Some(Item::Failed(fault)) => return Err(fault),
                    None => return Err(Fault::Internal),
                }
            },
        };
        if let Body::Stream(chunks) = answer.body {
            let message = Message::parse(gather(chunks).await?).map_err(|error| Fault::Protocol {
                upstream: Arc::clone(upstream),
                why: error.to_string().into(),
            })?;
            answer.body = Body::Message(message);
        }
        Ok(answer)
    }
}

impl fmt::Debug for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Notice(_) => f.write_str("Item::Notice"),
            Self::Raw(message) => write!(f, "Item::Raw({})", message.method()),
            Self::Ask(question) => write!(f, "Item::Ask({question:?})"),
            Self::Pause(retry) => write!(f, "Item::Pause({retry:?})"),
            Self::Done(_) => f.write_str("Item::Done"),
            Self::Failed(fault) => write!(f, "Item::Failed({fault:?})"),
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done(_) => "Reply::Done",
            Self::Items(_) => "Reply::Items",
        })
    }
}

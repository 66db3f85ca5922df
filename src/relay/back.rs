//! The way back of a call: what its upstream sends, item by item, made ready for the client.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::{Stream, StreamExt, stream};
use tokio::sync::mpsc;

use crate::call::{Answer, Body, Item, Items, Question, Session, UpstreamId, gather};
use crate::jsonrpc::error::{INVALID_PARAMS, URL_ELICITATION_REQUIRED};
use crate::jsonrpc::rewrite::UriMap;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Kind, Message, Object};
use crate::mcp::methods::{Answer as Answers, ItemKind, Method, Slot};
use crate::mcp::project;
use crate::mcp::revision::Revision;
use crate::relay::exchange::question;
use crate::relay::exchange::required;
use crate::relay::exchange::roots::Way;
use crate::relay::pair::Pair;
use crate::relay::route::Relay;
use crate::relay::{logs, notices};

/// Questions of the gateway itself that one call may have on their way to the client: it asks for roots only.
const OWN_QUESTIONS: usize = 4;

/// Where a call was sent, for what comes back.
#[derive(Clone, Copy)]
pub struct Back<'a> {
    /// Through which relay.
    pub relay: &'a Arc<Relay>,
    /// For whom.
    pub session: &'a Arc<Session>,
    /// To whom.
    pub upstream: UpstreamId,
    /// What it asked.
    pub method: &'static Method,
}

impl<'a> Back<'a> {
    /// An answer as the client gets it.
    #[must_use]
    pub fn answer(self, mut answer: Answer) -> Answer {
        if let Body::Message(message) = &answer.body
            && message.kind() == Kind::Error
            && let Some(other) = self.error(message)
        {
            answer.body = Body::Message(other);
        }
        answer.uris = self.pair().uris().cloned();
        let to = self.session.revision;
        if project::needs(self.method, to) {
            answer.body = projected(self.method, to, answer.body, answer.uris.clone());
        }
        answer
    }

    /// What comes before the answer, and the answer.
    #[must_use]
    pub fn items(self, items: Items) -> Passing {
        let (relay, session) = (Arc::clone(self.relay), Arc::clone(self.session));
        let Self { upstream, method, .. } = self;
        Passing { relay, session, upstream, method, items, queued: VecDeque::new(), logs: false, asks: None }
    }

    fn pair(self) -> Pair<'a> {
        Pair { relay: self.relay, session: self.session, upstream: self.upstream }
    }

    /// What the client gets in place of an upstream's error; none for the error itself.
    fn error(self, message: &Message) -> Option<Message> {
        let text = message.text();
        let error = object_at(text, message.body()).ok().flatten()?;
        match code(text, &error)? {
            INVALID_PARAMS => self.note_unknown(),
            URL_ELICITATION_REQUIRED => return required::shown(self.pair(), message, &error),
            _ => {}
        }
        None
    }

    /// An upstream that does not know what it listed has changed its lists without a word.
    fn note_unknown(self) {
        let kind = match self.method.answer {
            Answers::One(Slot::Tool) => ItemKind::Tool,
            Answers::One(Slot::Prompt) => ItemKind::Prompt,
            Answers::One(Slot::Resource) => ItemKind::Resource,
            // Whatever it names was at least known when it was asked for.
            _ => return,
        };
        self.relay.catalog.list_changed(self.upstream, kind);
    }
}

/// A result in the shape of the client's revision (VER-01). A large one has to be there whole for that.
fn projected(method: &'static Method, to: Revision, body: Body, uris: Option<UriMap>) -> Body {
    match body {
        Body::Message(message) => {
            let shaped = project::result(method, to, &message, uris.as_ref());
            Body::Message(shaped.and_then(|text| Message::parse(text).ok()).unwrap_or(message))
        }
        Body::Stream(chunks) => Body::Stream(Box::pin(stream::once(async move {
            let text = gather(chunks).await?;
            let message = Message::parse(text.clone()).ok();
            Ok(message
                .and_then(|message| project::result(method, to, &message, uris.as_ref()))
                .unwrap_or(text))
        }))),
        Body::Result(_) => body,
    }
}

fn code(text: &[u8], error: &Object) -> Option<i64> {
    std::str::from_utf8(error.value(text, "code")?).ok()?.parse().ok()
}

/// The items of a reply on their way.
pub struct Passing {
    relay: Arc<Relay>,
    session: Arc<Session>,
    upstream: UpstreamId,
    method: &'static Method,
    items: Items,
    /// What goes out before the next item is looked at.
    queued: VecDeque<Item>,
    /// Whether there were log messages.
    logs: bool,
    /// The gateway's own questions of this call; made for the first one.
    asks: Option<(mpsc::Sender<Question>, mpsc::Receiver<Question>)>,
}

impl Passing {
    /// What the client gets for an item first; the rest of it is queued.
    fn pass(&mut self, item: Item) -> Option<Item> {
        let Self { relay, session, upstream, method, .. } = self;
        let pair = Pair { relay, session, upstream: *upstream };
        match item {
            Item::Raw(notification) => {
                self.logs |= notification.method() == logs::METHOD;
                self.queued.extend(notices::ready(pair, &notification).into_iter().map(Item::Notice));
                self.queued.pop_front()
            }
            Item::Ask(question) => {
                let asks = &mut self.asks;
                let way = || Way::Call(asks.get_or_insert_with(|| mpsc::channel(OWN_QUESTIONS)).0.clone());
                question::put(pair, question, way).map(Item::Ask)
            }
            Item::Done(answer) => {
                let done = Item::Done(Back { relay, session, upstream: *upstream, method }.answer(answer));
                match self.logs.then(|| logs::untold(pair)).flatten() {
                    Some(loss) => {
                        self.queued.push_back(done);
                        Some(Item::Notice(loss))
                    }
                    None => Some(done),
                }
            }
            Item::Notice(progress) if session.revision < Revision::V2025_03_26 => {
                let message = Message::parse(progress.clone()).ok();
                let shaped = message.and_then(|message| project::notice(session.revision, &message));
                Some(Item::Notice(shaped.unwrap_or(progress)))
            }
            Item::Notice(_) | Item::Pause(_) | Item::Failed(_) => Some(item),
        }
    }
}

impl Stream for Passing {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            if let Some(item) = self.queued.pop_front() {
                return Poll::Ready(Some(item));
            }
            // The channel stays open: its other end is here, too.
            if let Some((_, asked)) = &mut self.asks
                && let Poll::Ready(Some(question)) = asked.poll_recv(cx)
            {
                return Poll::Ready(Some(Item::Ask(question)));
            }
            match ready!(self.items.poll_next_unpin(cx)) {
                Some(item) => {
                    if let Some(item) = self.pass(item) {
                        return Poll::Ready(Some(item));
                    }
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests;

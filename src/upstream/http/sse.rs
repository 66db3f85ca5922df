//! HTTP+SSE, the transport of 2024-11-05: one stream brings all messages of the upstream, and a POST takes each of ours
//! (LSSE-01, LSSE-02). The stream is the connection: when it ends, so does all that was under way (LSSE-08).
//!
//! *Invariants.* Nothing is sent before the stream has named the place for messages, which has to be on the same server.
//! As with the push channel of Streamable HTTP, the stream has no read limit (F-002).

mod endpoint;
mod posts;

use std::sync::Arc;

use url::Url;

use crate::base::{caps, tasks};
use crate::call::Fault;
use crate::mcp::revision::Revision;
use crate::upstream::blame::Blame;
use crate::upstream::deadline::Deadline;
use crate::upstream::flight::Failure;
use crate::upstream::http::events::{EventError, Events, is_message};
use crate::upstream::http::post::Received;
use crate::upstream::http::refusal::{Refusal, Refused};
use crate::upstream::http::round::{Form, kind};
use crate::upstream::http::unmet::{Unmet, status_told};
use crate::upstream::http::way::Way;
use crate::upstream::line::{Line, Manners, Met};
use crate::upstream::patron::Patron;
use crate::upstream::report::Dropped;
use crate::upstream::unbound::Channel;

pub use self::posts::Posts;

/// Opens the stream and meets the upstream over it.
///
/// *On drop:* the stream is closed.
///
/// # Errors
/// Why there is no connection; `Absent` where nothing suggests that the upstream knows this transport.
pub async fn open(
    way: Arc<Way>,
    offered: Revision,
    patron: Arc<Patron>,
    serves_catalog: bool,
) -> Result<Met<Posts>, Unmet> {
    let manners = Manners {
        handshake: way.handshake,
        max_message: way.max_message,
        blame: way.blame.clone(),
        patron,
        serves_catalog,
    };
    let deadline = manners.deadline();
    let (mut events, from) = begin(&way, &deadline).await?;
    let place = named(&way, &mut events, &from, &deadline).await?;
    let posts = Posts::new(&way, place)?;
    // Open before the relay is told of anything, which asks.
    let channel = way.unbound.channel();
    way.unbound.report.push_opened();
    let line = Line::new(posts, manners);
    tasks::spawn("upstream event stream", read(events, Arc::clone(&line), channel)).detach();
    Ok(line.meet(offered, &deadline).await?)
}

/// Asks for the stream; gives its events, and the address that they come from.
async fn begin(way: &Way, deadline: &Deadline) -> Result<(Events, Url), Unmet> {
    let headers = way.stream_headers();
    let answer = deadline.next(way.endpoint.get(&headers)).await.map_err(|late| {
        way.endpoint.silent();
        Failure::plain(late)
    })?;
    let (received, from) = answer.map_err(|error| way.failure(error, true))?;
    if !received.status.is_success() {
        return Err(refused(received, &way.blame, deadline).await);
    }
    if kind(&received.headers) != Some(Form::Events) {
        return Err(Unmet::Absent("it answers, but not with an event stream".into()));
    }
    Ok((Events::new(received.content, way.max_message), from))
}

/// What a refusal of the stream means: that there is none, unless it speaks of other things (HTTP-38).
async fn refused(received: Received, blame: &Blame, deadline: &Deadline) -> Unmet {
    let Received { status, headers, content } = received;
    let body = match deadline.next(content.head(caps::ERROR_BODY_BYTES)).await {
        Ok(body) => body,
        Err(late) => return Failure::plain(late).into(),
    };
    let refused = Refused { status, headers: &headers, body: &body, id: 0, safe: true, session: false };
    match refused.meaning(blame) {
        Refusal::Fault(fault) if !matches!(fault, Fault::Protocol { .. }) => Failure::plain(fault).into(),
        _ => Unmet::Absent(status_told(status)),
    }
}

/// Waits for the event that names the place for messages, which comes before all others (LSSE-02).
async fn named(way: &Way, events: &mut Events, from: &Url, deadline: &Deadline) -> Result<Url, Unmet> {
    loop {
        let event = deadline.next(events.event()).await.map_err(|late| {
            Failure::detailed(late, "it opened an event stream, but no `endpoint` event has come")
        })?;
        match event {
            Some(Ok(event)) if event.name.as_deref() == Some(b"endpoint") => {
                return endpoint::resolve(from, &event.data, way.endpoint.origin())
                    .map_err(|error| endpoint::failure(&error, &way.blame).into());
            }
            // A stream of another kind.
            Some(Ok(event)) if is_message(&event) => break,
            Some(Ok(_)) => {}
            Some(Err(EventError::Oversized(_))) | None => break,
            Some(Err(EventError::Inflate(error))) => {
                return Err(Failure::plain(way.blame.protocol(error.to_string())).into());
            }
        }
    }
    Err(Unmet::Absent("its event stream does not begin with an `endpoint` event".into()))
}

/// Reads the stream until it ends, or the line is used no more.
async fn read(mut events: Events, line: Arc<Line<Posts>>, _open: Channel) {
    let why = loop {
        // Both branches are safe to cancel.
        let event = tokio::select! {
            biased;
            () = line.closed().cancelled() => break "its connection is closed".to_owned(),
            event = events.next() => event,
        };
        match event {
            Some(Ok(data)) => {
                if !line.take(&data) {
                    line.report().dropped(Dropped::Malformed);
                }
            }
            Some(Err(EventError::Oversized(oversized))) => line.oversized(&oversized),
            Some(Err(EventError::Inflate(error))) => break error.to_string(),
            None => break "its event stream ended".to_owned(),
        }
    };
    line.end(why);
}

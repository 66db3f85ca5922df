//! Lists, answered from the catalog in one piece or in pages (PAGE-01 to PAGE-06, D8).

use std::time::Duration;

use bytes::Bytes;

use crate::call::{Answer, Call, Endpoint, Fault, Reply};
use crate::jsonrpc::text;
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::cursor::Cursor;
use crate::relay::catalog::view::View;
use crate::relay::route::Relay;

/// How long a list waits for the first upstream of an endpoint of which nothing is known at all.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers a list.
///
/// # Errors
/// `InvalidParams` for a cursor that we did not give, or no longer (PAGE-03); `Unavailable` when no
/// upstream of the endpoint could ever be read (F-063).
pub async fn list(relay: &Relay, call: &Call, kind: ItemKind) -> Result<Reply, Fault> {
    let session = &call.session;
    let board = relay.catalog.board_of(session);
    let mut view = board.current();
    if view.incomplete {
        relay.catalog.settled(relay.config.catalog.start_budget).await;
        relay.catalog.known(session.endpoint, PATIENCE).await;
        view = board.current();
        refuse_nothing(relay, session.endpoint, &view)?;
    }
    let text = call.message.text();
    let offset = match call.params.value(text, "cursor") {
        None | Some(b"null") => 0,
        Some(cursor) => {
            let opened = text::unquote(cursor)
                .and_then(|text| relay.cursors.open(&text, kind, &session.who, session.endpoint));
            let page = opened.and_then(|cursor| Some((board.at(cursor.epoch)?, cursor.offset)));
            let (kept, offset) = page.ok_or_else(|| Fault::InvalidParams("the cursor is invalid".into()))?;
            view = kept;
            usize::try_from(offset).unwrap_or(usize::MAX)
        }
    };
    let list = &view.lists[kind.index()];
    let size = relay.config.catalog.page_size;
    if size == 0 || (offset == 0 && list.items.len() <= size) {
        return Ok(Reply::Done(Answer::result(list.whole.clone())));
    }
    let end = list.items.len().min(offset.saturating_add(size));
    let items = list.items.get(offset..end).unwrap_or_default();
    let next = (end < list.items.len()).then(|| {
        let cursor = Cursor { epoch: view.epoch, offset: end as u64 };
        relay.cursors.seal(cursor, kind, &session.who, session.endpoint)
    });
    Ok(Reply::Done(Answer::result(page(kind, items, next.as_deref()))))
}

fn page(kind: ItemKind, items: &[Bytes], next: Option<&str>) -> Bytes {
    let mut out = format!(r#"{{"{}":["#, kind.member()).into_bytes();
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.push(b']');
    if let Some(next) = next {
        out.extend_from_slice(format!(r#","nextCursor":"{next}""#).as_bytes());
    }
    out.push(b'}');
    Bytes::from(out)
}

/// An endpoint of which nothing is known answers with an error: an empty list would be taken for the truth.
fn refuse_nothing(relay: &Relay, endpoint: Endpoint, view: &View) -> Result<(), Fault> {
    let mut members = relay.catalog.of(endpoint);
    if !view.incomplete || members.clone().any(|member| member.state().snapshot.is_some()) {
        return Ok(());
    }
    let Some(first) = members.next() else { return Ok(()) };
    Err(Fault::Unavailable {
        upstream: first.upstream.name.clone(),
        why: "it has not answered yet".into(),
        retry_after: Some(Duration::from_secs(1)),
        unsent: true,
    })
}

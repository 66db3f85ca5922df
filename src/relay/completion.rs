//! Completions: at most a hundred values, at once or not at all, whatever an upstream sends (COMP-03, COMP-04).

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock;
use crate::call::{Answer, Body, Fault, Reply};
use crate::jsonrpc::view::{elements_at, object_at};
use crate::jsonrpc::{Edits, Message};

/// Values that a completion may have.
const VALUES: usize = 100;

/// How long a completion may take in all; suggestions are disposable (COMP-04).
const LIMIT: Duration = Duration::from_secs(2);

/// A completion without suggestions (COMP-05).
const NONE: &[u8] = br#"{"completion":{"values":[],"total":0,"hasMore":false}}"#;

/// The answer without suggestions.
#[must_use]
pub fn none() -> Answer {
    Answer::result(NONE)
}

/// The whole answer to a completion that was `sent`, with no more values than are allowed, and the mark that there are
/// more. An upstream that takes too long has no suggestions.
///
/// # Errors
/// What the way to `upstream` reports.
pub async fn answer(
    upstream: &Arc<str>,
    sent: impl Future<Output = Result<Reply, Fault>>,
) -> Result<Answer, Fault> {
    let whole = async { sent.await?.whole(upstream).await };
    match clock::within(LIMIT, whole).await {
        Ok(answer) => Ok(cut(answer?)),
        Err(clock::Elapsed) => Ok(none()),
    }
}

fn cut(mut answer: Answer) -> Answer {
    if let Body::Message(message) = &answer.body
        && let Some(shorter) = shortened(message)
    {
        answer.body = Body::Message(shorter);
    }
    answer
}

/// The message with fewer values; none when it has not too many.
fn shortened(message: &Message) -> Option<Message> {
    let text = message.text();
    let result = object_at(text, message.body()).ok()??;
    let completion = object_at(text, result.find(text, "completion")).ok()??;
    let at = completion.find(text, "values")?;
    let values = elements_at(text, Some(at.clone())).ok()?;
    if values.len() <= VALUES {
        return None;
    }
    let kept: Vec<_> = values[..VALUES].iter().map(|value| String::from_utf8_lossy(value)).collect();
    let mut edits = Edits::new();
    match completion.find(text, "hasMore") {
        Some(more) => {
            edits.replace(at, format!("[{}]", kept.join(",")));
            edits.replace(more, "true");
        }
        None => edits.replace(at, format!(r#"[{}],"hasMore":true"#, kept.join(","))),
    }
    Message::parse(edits.apply(text)).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{StreamExt, stream};

    use super::*;
    use crate::call::Item;

    fn message(values: usize, more: &str) -> Message {
        let values: Vec<_> = (0..values).map(|n| format!("\"v{n}\"")).collect();
        let completion = format!(r#"{{"values":[{}]{more}}}"#, values.join(","));
        Message::parse(Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"completion":{completion}}}}}"#
        )))
        .unwrap()
    }

    /// COMP-03: also where the answer is so large that it comes in parts.
    #[tokio::test]
    async fn a_streamed_answer_is_cut_as_well() {
        let text = message(150, "").text().clone();
        let chunks = [Ok(text.slice(..100)), Ok(text.slice(100..))];
        let streamed = Answer::of(Body::Stream(Box::pin(stream::iter(chunks))));
        let items = [Item::Notice(Bytes::from_static(b"{}")), Item::Done(streamed)];
        let reply = Reply::Items(Box::pin(stream::iter(items)));
        let cut = answer(&"alpha".into(), std::future::ready(Ok(reply))).await.unwrap();
        let Body::Message(cut) = cut.body else { panic!("not gathered") };
        assert!(shortened(&cut).is_none());
    }

    /// COMP-04: the limit holds for the whole reply, whatever comes first.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_too_long_has_no_suggestions() {
        let first = stream::iter([Item::Notice(Bytes::from_static(b"{}"))]);
        let reply = Reply::Items(Box::pin(first.chain(stream::pending())));
        let late = answer(&"alpha".into(), std::future::ready(Ok(reply))).await.unwrap();
        assert!(matches!(late.body, Body::Result(text) if text == NONE));
    }

    /// COMP-03
    #[test]
    fn more_than_a_hundred_values_are_cut_and_said_to_be_more() {
        assert!(shortened(&message(100, "")).is_none());
        for more in ["", r#","hasMore":false"#, r#","total":150"#] {
            let text = String::from_utf8(shortened(&message(150, more)).unwrap().text().to_vec()).unwrap();
            assert!(text.contains("v99") && !text.contains("v100"), "{text}");
            assert!(text.contains(r#""hasMore":true"#), "{text}");
        }
    }
}

//! Completions: at most a hundred values, whatever an upstream sends (COMP-03).

use crate::call::{Answer, Body};
use crate::jsonrpc::view::{elements_at, object_at};
use crate::jsonrpc::{Edits, Message};

/// Values that a completion may have.
const VALUES: usize = 100;

/// The answer with no more values than are allowed, and the mark that there are more.
#[must_use]
pub fn cut(mut answer: Answer) -> Answer {
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

    use super::*;

    fn message(values: usize, more: &str) -> Message {
        let values: Vec<_> = (0..values).map(|n| format!("\"v{n}\"")).collect();
        let completion = format!(r#"{{"values":[{}]{more}}}"#, values.join(","));
        Message::parse(Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"completion":{completion}}}}}"#
        )))
        .unwrap()
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

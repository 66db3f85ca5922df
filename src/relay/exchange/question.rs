//! A question on its way from an upstream to a client: checked, marked with its origin, stripped of what must not pass.
//!
//! What the client answers goes back as it wrote it; so does what nobody here has to touch, such as the tools of a
//! sampling request, whose names are the upstream's own (SAMP-05).

use bytes::Bytes;
use url::{Host, Url};

use crate::base::clock;
use crate::call::{Question, UpstreamId};
use crate::jsonrpc::error::INVALID_PARAMS;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, ErrorObject, Object, text};
use crate::mcp::project;
use crate::mcp::questions::QuestionKind;
use crate::relay::exchange::open::Exchange;
use crate::relay::exchange::pages::Ids;
use crate::relay::exchange::roots::{self, Way};
use crate::relay::pair::Pair;
use crate::telemetry::events::relay::QuestionRefused;

/// The key of `_meta` that names the upstream which asks (SAMP-09). Its prefix is free under the rules of all revisions
/// (RPC-18).
const ORIGIN: &str = "io.portcullis/upstream";

/// Why a question is not put to a client, for its upstream: -32602.
type Wrong = &'static str;

/// What is to be put to the client now; none when the question has been answered here or is asked by `way`.
#[must_use]
pub fn put(pair: Pair<'_>, question: Question, way: impl FnOnce() -> Way) -> Option<Question> {
    // Of a session that has ended nobody answers, which its upstream learns as the question is dropped (SAMP-10).
    let exchange = pair.exchange()?;
    match prepared(pair, &exchange, &question) {
        Ok(params) if question.kind == QuestionKind::Roots => {
            let keep = pair.session.capabilities.roots_changed;
            roots::serve(&exchange.roots, Question { params, ..question }, way(), keep);
            None
        }
        Ok(params) => Some(Question { params, ..question }),
        Err(error) => {
            let why = &error.message;
            QuestionRefused { upstream: &pair.entry().name, question: question.kind, why }.emit();
            question.asker.refuse(&error);
            None
        }
    }
}

/// The parameters as the client gets them, in the shape of its revision (VER-11, VER-12).
fn prepared(pair: Pair<'_>, exchange: &Exchange, question: &Question) -> Result<Bytes, ErrorObject> {
    let params = marked(pair, exchange, question).map_err(|why| ErrorObject::new(INVALID_PARAMS, why))?;
    let to = pair.session.revision;
    let shaped = match question.kind {
        QuestionKind::Sampling => project::sampling(&params, to),
        QuestionKind::Elicitation => project::elicitation(&params, to),
        QuestionKind::Roots => Ok(None),
    };
    Ok(shaped.map_err(|unshowable| unshowable.refusal())?.unwrap_or(params))
}

/// The parameters with their origin, and without what must not pass.
fn marked(pair: Pair<'_>, exchange: &Exchange, question: &Question) -> Result<Bytes, Wrong> {
    if question.params.is_empty() && question.kind == QuestionKind::Roots {
        return Ok(format!(r#"{{"_meta":{{"{ORIGIN}":{}}}}}"#, text::quote(&pair.entry().name)).into());
    }
    let text = &question.params;
    let params = Object::scan(text, 0).map_err(|_| "`params` is missing or not an object")?;
    let mut edits = Edits::new();
    match question.kind {
        QuestionKind::Sampling => sampling(text, &params, &mut edits)?,
        QuestionKind::Elicitation => {
            let marks = Marks { exchange, upstream: pair.upstream, origin: pair.origin() };
            marks.elicitation(text, &params, &mut edits)?;
        }
        QuestionKind::Roots => {}
    }
    if question.kind != QuestionKind::Roots {
        // TASK-06: nobody was told that tasks could be asked for.
        edits.remove(text, &params, &["task"]);
    }
    mark_origin(text, &params, &pair.entry().name, &mut edits)?;
    Ok(edits.apply(text))
}

/// SAMP-02, SAMP-04
fn sampling(text: &[u8], params: &Object, edits: &mut Edits) -> Result<(), Wrong> {
    let begins = |name: &str, first: fn(u8) -> bool| {
        params.value(text, name).is_some_and(|value| value.first().copied().is_some_and(first))
    };
    if !begins("messages", |first| first == b'[') {
        return Err("`messages` is missing or not an array");
    }
    if !begins("maxTokens", |first| first == b'-' || first.is_ascii_digit()) {
        return Err("`maxTokens` is missing or not a number");
    }
    // What the client takes for this server is all of them: none may have the context of another.
    if let Some(span) = params.find(text, "includeContext")
        && !text::means(&text[span.clone()], "none")
    {
        edits.replace(span, &br#""none""#[..]);
    }
    Ok(())
}

/// SAMP-09: to the client all upstreams have one name, so `_meta` says which one asks.
fn mark_origin(text: &[u8], params: &Object, name: &str, edits: &mut Edits) -> Result<(), Wrong> {
    let name = text::quote(name);
    let comma = |object: &Object| if object.is_empty() { "" } else { "," };
    let Some(span) = params.find(text, "_meta") else {
        let end = params.end() - 1;
        edits.replace(end..end, format!(r#"{}"_meta":{{"{ORIGIN}":{name}}}"#, comma(params)));
        return Ok(());
    };
    let inside = span.start + 1;
    let meta = object_at(text, Some(span)).ok().flatten().ok_or("`_meta` is not an object")?;
    match meta.find(text, ORIGIN) {
        // RPC-19: ours is not for others to write.
        Some(theirs) => edits.replace(theirs, name),
        None => edits.replace(inside..inside, format!(r#""{ORIGIN}":{name}{}"#, comma(&meta))),
    }
    Ok(())
}

/// What is put into an elicitation.
pub(super) struct Marks<'a> {
    pub(super) exchange: &'a Exchange,
    pub(super) upstream: UpstreamId,
    /// Before its message; none where it is plain who asks.
    pub(super) origin: Option<String>,
}

impl Marks<'_> {
    /// Schema and URL stay as they are (ELIC-06).
    fn elicitation(&self, text: &[u8], params: &Object, edits: &mut Edits) -> Result<(), Wrong> {
        match params.string(text, "mode").as_deref() {
            Some("url") => self.page(text, params, edits),
            _ => self.message(text, params, edits),
        }
    }

    /// An elicitation in URL mode, also as an error names it (ELIC-02, ELIC-10, ELIC-11).
    pub(super) fn page(&self, text: &[u8], params: &Object, edits: &mut Edits) -> Result<(), Wrong> {
        self.message(text, params, edits)?;
        check_url(&params.string(text, "url").ok_or("`url` is missing or not a string")?)?;
        let missing = "`elicitationId` is missing or not a string";
        let span = params.find(text, "elicitationId").ok_or(missing)?;
        let original = text::unquote(&text[span.clone()]).ok_or(missing)?;
        // Where it is plain who asks, ids cannot be mixed up either.
        let ids = if self.origin.is_some() { Ids::Ours } else { Ids::Kept };
        let shown = self.exchange.pages().expose(self.upstream, &original, ids, clock::now());
        edits.replace(span, text::quote(&shown.ok_or("`elicitationId` is empty or too long")?));
        Ok(())
    }

    fn message(&self, text: &[u8], params: &Object, edits: &mut Edits) -> Result<(), Wrong> {
        let span = params.find(text, "message").filter(|span| text[span.start] == b'"');
        let inside = span.ok_or("`message` is missing or not a string")?.start + 1;
        if let Some(origin) = &self.origin {
            let quoted = text::quote(origin);
            edits.replace(inside..inside, quoted[1..quoted.len() - 1].to_owned());
        }
        Ok(())
    }
}

/// ELIC-13: a page is opened over TLS, unless it is on the user's own machine.
fn check_url(url: &str) -> Result<(), Wrong> {
    const INVALID: Wrong = "`url` is not a valid URL";
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(INVALID);
    }
    let url = Url::parse(url).map_err(|_| INVALID)?;
    let host = url.host().ok_or(INVALID)?;
    let is_local = match host {
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_local => Ok(()),
        _ => Err("`url` is not an https URL"),
    }
}

#[cfg(test)]
mod tests;

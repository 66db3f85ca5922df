//! Projections: what a message of one revision becomes for a peer that speaks another one (VER-01).
//!
//! Only what an older peer would misread is changed. Members that it merely does not know pass, because many peers
//! settle on an old revision and use them all the same (VER-02); towards a newer one nothing is invented (VER-04).
//!
//! | for a peer below | what changes |
//! |---|---|
//! | 2025-11-25 | sampling: one block for a list of content, no tools; elicitation: forms without default values and with `enumNames`; requests without `task` |
//! | 2025-06-18 | results: links become text, structured content is repeated as text; no elicitation; completions without `context` |
//! | 2025-03-26 | results: audio becomes an embedded resource; sampling without audio; progress without `message` |
//!
//! What travels towards clients as an answer always finds a form. What an upstream asks, and what a client answers to it,
//! may find none: [`Unshowable`].
//!
//! *Invariants.* All functions are pure. `None` means that the text stays as it is, which is decided by the revision
//! wherever that is enough; projecting what was projected changes nothing.

mod content;
mod elicitation;
mod notices;
mod requests;
mod results;
mod sampling;

pub use elicitation::elicitation;
pub use notices::notice;
pub use requests::unknown_members;
pub use results::{needs, result};
pub use sampling::{sampling, sampling_answer};

use bytes::{Bytes, BytesMut};

use crate::jsonrpc::error::INVALID_PARAMS;
use crate::jsonrpc::scan::{self, ScanError, Span};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, ErrorObject, Object};
use crate::mcp::revision::Revision;

/// Why a message has no form in an older revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unshowable {
    /// It cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// It says something for which the revision has no words.
    #[error("revision {to} has no {what}")]
    Unknown {
        /// What that is.
        what: &'static str,
        /// The older revision.
        to: Revision,
    },
    /// It asks by a form that the revision cannot describe (VER-12).
    #[error("forms of revision {to} have no {what}")]
    Schema {
        /// What that is.
        what: &'static str,
        /// The older revision.
        to: Revision,
    },
}

impl Unshowable {
    /// What the upstream that asked is told: -32602 (VER-11, VER-12).
    #[must_use]
    pub fn refusal(&self) -> ErrorObject {
        let data = match self {
            Self::Schema { .. } => Some(r#"{"reason":"unsupported_schema"}"#.to_owned()),
            Self::Scan(_) | Self::Unknown { .. } => None,
        };
        ErrorObject {
            data,
            ..ErrorObject::new(INVALID_PARAMS, format!("the client cannot be asked: {self}"))
        }
    }
}

/// The object that is the whole of `text`, or `None` if it is something else.
fn whole(text: &[u8]) -> Result<Option<Object>, ScanError> {
    let start = scan::skip_space(text, 0);
    object_at(text, Some(start..text.len()))
}

/// Where the elements of the array at `span` lie; none for anything but an array.
fn elements(text: &[u8], span: Option<Span>) -> Result<Vec<Span>, ScanError> {
    let mut spans = Vec::new();
    if let Some(span) = span.filter(|span| text[span.start] == b'[') {
        scan::elements(text, span.start, |element| {
            spans.push(element);
            Ok(())
        })?;
    }
    Ok(spans)
}

/// The edited text, if there is anything to edit.
fn edited(text: &[u8], edits: &Edits) -> Option<Bytes> {
    if edits.is_empty() {
        return None;
    }
    let mut out = BytesMut::with_capacity(text.len().saturating_add_signed(edits.growth()));
    edits.write(text, 0..text.len(), &mut out);
    Some(out.freeze())
}

#[cfg(test)]
mod tests;

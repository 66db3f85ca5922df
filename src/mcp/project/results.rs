//! Answers of upstreams in the terms of the client's revision (VER-03, VER-11).

use bytes::Bytes;

use crate::jsonrpc::rewrite::UriMap;
use crate::jsonrpc::scan::{ScanError, Span};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Kind, Message, Object, text};
use crate::mcp::methods::{Class, Method};
use crate::mcp::project::content::{older, text_block};
use crate::mcp::project::{edited, elements};
use crate::mcp::revision::Revision;

/// Whether a result of `method` has to be seen whole before a client of `to` gets it; others may stream past.
#[must_use]
pub fn needs(method: &Method, to: Revision) -> bool {
    to < Revision::V2025_06_18 && matches!(method.class, Class::ToolsCall | Class::PromptsGet)
}

/// The whole answer `message` to `method` as a client of `to` understands it; `None` leaves it.
///
/// URIs in it are still the upstream's own, except where a link became text: there `uris` was applied. What cannot be
/// read is left as well: a projection fails no call.
#[must_use]
pub fn result(method: &Method, to: Revision, message: &Message, uris: Option<&UriMap>) -> Option<Bytes> {
    if !needs(method, to) || message.kind() != Kind::Result {
        return None;
    }
    let text = message.text();
    let result = object_at(text, message.body()).ok().flatten()?;
    let mut blocks = Blocks { text, to, uris, edits: Edits::new() };
    let read = match method.class {
        Class::ToolsCall => blocks.tool(&result),
        _ => blocks.prompt(&result),
    };
    read.ok().and_then(|()| edited(text, &blocks.edits))
}

/// The edits to the content blocks of one answer.
struct Blocks<'a> {
    text: &'a Bytes,
    to: Revision,
    uris: Option<&'a UriMap>,
    edits: Edits,
}

impl Blocks<'_> {
    fn tool(&mut self, result: &Object) -> Result<(), ScanError> {
        let text = self.text;
        let content = result.find(text, "content");
        let blocks = elements(text, content.clone())?;
        let mut says_something = false;
        for span in &blocks {
            says_something |= self.block(span.clone());
        }
        let structured = result.find(text, "structuredContent").filter(|span| &text[span.clone()] != b"null");
        let Some(structured) = structured.filter(|_| !says_something) else { return Ok(()) };
        let plain = String::from_utf8_lossy(&text[structured.clone()]);
        let added = text_block(&text::quote(&plain));
        match (content, blocks.last()) {
            (_, Some(last)) => self.edits.replace(last.end..last.end, format!(",{added}")),
            (Some(empty), None) if text[empty.start] == b'[' => {
                self.edits.replace(empty, format!("[{added}]"))
            }
            (Some(_), None) => {}
            (None, None) => {
                let end = structured.end;
                self.edits.replace(end..end, format!(r#","content":[{added}]"#));
            }
        }
        Ok(())
    }

    fn prompt(&mut self, result: &Object) -> Result<(), ScanError> {
        let text = self.text;
        for message in elements(text, result.find(text, "messages"))? {
            if let Some(content) =
                object_at(text, Some(message))?.and_then(|message| message.find(text, "content"))
            {
                self.block(content);
            }
        }
        Ok(())
    }

    /// Projects the block at `span` and says whether it was a text block; what cannot be read is left.
    fn block(&mut self, span: Span) -> bool {
        let Ok(Some(block)) = object_at(self.text, Some(span.clone())) else { return false };
        if let Some(with) = older(self.text, &block, self.to, self.uris) {
            self.edits.replace(span, with);
        }
        block.value(self.text, "type").is_some_and(|kind| text::means(kind, "text"))
    }
}

//! Rewriting of an answer while it passes: ids and URIs are replaced, everything else flows through
//! untouched and uncopied, however large it is.
//!
//! A [`Node`] tree names the few places to look at. Values outside of them are skipped by counting
//! brackets and finding the ends of strings, so an answer of megabytes costs about a memory scan.
//!
//! *Invariants.* Output is input with the named values replaced; any chunking gives the same bytes.
//! *Limits.* A captured value is at most [`CAPTURE`] bytes; a longer URI passes as it is.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::jsonrpc::text;

/// A place in an answer that is looked at.
#[derive(Debug)]
pub struct Node {
    /// Members to look at, when the value is an object.
    pub members: &'static [(&'static str, &'static Node)],
    /// What to look at in each element, when the value is an array.
    pub elements: Option<&'static Node>,
    /// What to do with the value itself.
    pub action: Action,
}

/// What is done with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Only walk through it.
    Walk,
    /// Put the caller's id in its place.
    Id,
    /// Map a string by the plan's URI function.
    Uri,
    /// Note whether it is `true` (a tool result's `isError`).
    IsError,
    /// Note the number (an error's `code`).
    Code,
    /// Note that the answer has a result.
    Result,
    /// Note that the answer has an error.
    Error,
}

/// A node that only walks.
#[must_use]
pub const fn walk(members: &'static [(&'static str, &'static Node)]) -> Node {
    Node { members, elements: None, action: Action::Walk }
}

/// A leaf with an action.
#[must_use]
pub const fn leaf(action: Action) -> Node {
    Node { members: &[], elements: None, action }
}

/// Maps an upstream's URI to the one that the client sees; `None` leaves it.
pub type UriMap = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What to put in the places.
#[derive(Clone)]
pub struct Plan {
    /// The places.
    pub root: &'static Node,
    /// The caller's id, as JSON text.
    pub id: Bytes,
    /// For [`Action::Uri`].
    pub uris: Option<UriMap>,
}

/// What was seen on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Findings {
    /// The answer has a `result`.
    pub result: bool,
    /// The answer has an `error`.
    pub error: bool,
    /// The result says `isError: true`.
    pub is_error: bool,
    /// The error's code.
    pub code: Option<i64>,
}

/// The text is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// Not JSON at a place that we read.
    #[error("the answer is not valid JSON")]
    Malformed,
    /// The text ends in the middle.
    #[error("the answer is cut off")]
    Truncated,
    /// A member that we read occurs twice (RPC-23).
    #[error("the answer repeats a member")]
    Repeated,
}

/// The longest value that is captured for replacing, in bytes.
pub const CAPTURE: usize = 32 * 1024;

/// The longest key that can match, in bytes of its literal, all characters escaped.
const KEY: usize = 80;

struct Frame {
    node: &'static Node,
    object: bool,
    seen: u32,
}

#[derive(Clone, Copy)]
enum State {
    Start,
    KeyOrEnd,
    NextKey,
    Key,
    Colon,
    Value,
    ElementOrEnd,
    After,
    Capture,
    SkipString,
    SkipScalar,
    SkipNested,
    End,
}

/// The rewriter of one answer; feed it chunk by chunk, then [`finish`](Self::finish) it.
pub struct Rewriter {
    plan: Plan,
    state: State,
    stack: SmallVec<[Frame; 6]>,
    /// What the value at hand is to us; set by a key or an array.
    target: Option<&'static Node>,
    /// The key or the captured value so far.
    held: Vec<u8>,
    /// Inside a string: the last byte was an open backslash.
    escaped: bool,
    /// In `SkipNested`: inside a string, and how many brackets are open.
    quoted: bool,
    nested: u32,
    findings: Findings,
}

impl Rewriter {
    /// A rewriter by `plan`.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        Self {
            target: Some(plan.root),
            plan,
            state: State::Start,
            stack: SmallVec::new(),
            held: Vec::new(),
            escaped: false,
            quoted: false,
            nested: 0,
            findings: Findings::default(),
        }
    }

    /// Takes the next chunk; what may go on is appended to `out`.
    ///
    /// # Errors
    /// `Malformed` or `Repeated`; nothing more may be pushed then.
    pub fn push(&mut self, chunk: &Bytes, out: &mut Vec<Bytes>) -> Result<(), RewriteError> {
        let text: &[u8] = chunk;
        let (mut at, mut kept) = (0, 0);
        while at < text.len() {
            let before = at;
            let capturing = matches!(self.state, State::Capture);
            at = self.step(text, at)?;
            let captures = matches!(self.state, State::Capture);
            if captures && !capturing {
                if kept < before {
                    out.push(chunk.slice(kept..before));
                }
                kept = at;
            } else if capturing {
                kept = at;
                if !captures {
                    out.push(self.replacement());
                }
            }
        }
        if kept < text.len() && !matches!(self.state, State::Capture) {
            out.push(chunk.slice(kept..));
        }
        Ok(())
    }

    /// Whether the whole answer has passed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Says what was seen.
    ///
    /// # Errors
    /// `Truncated` when the answer was not whole, `Malformed` when it had neither result nor error.
    pub fn finish(&self) -> Result<Findings, RewriteError> {
        if !self.is_done() {
            return Err(RewriteError::Truncated);
        }
        if self.findings.result || self.findings.error {
            Ok(self.findings)
        } else {
            Err(RewriteError::Malformed)
        }
    }

    /// Rewrites an answer that is there as a whole, into one buffer.
    ///
    /// # Errors
    /// As [`push`](Self::push) and [`finish`](Self::finish).
    pub fn whole(plan: Plan, text: &Bytes) -> Result<(Bytes, Findings), RewriteError> {
        let mut rewriter = Self::new(plan);
        let mut parts = Vec::with_capacity(8);
        rewriter.push(text, &mut parts)?;
        let findings = rewriter.finish()?;
        Ok((parts.concat().into(), findings))
    }

    /// Moves over at least one byte of `text` at `at` and says where it stopped.
    fn step(&mut self, text: &[u8], at: usize) -> Result<usize, RewriteError> {
        let byte = text[at];
        match self.state {
            State::Key => return self.key(text, at),
            State::Capture => return self.capture(text, at),
            State::SkipString => return Ok(self.skip_string(text, at)),
            State::SkipNested => return Ok(self.skip_nested(text, at)),
            State::SkipScalar => {
                let end = scalar_end(text, at);
                if end < text.len() {
                    self.state = State::After;
                }
                return Ok(end);
            }
            _ if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') => return Ok(at + 1),
            State::Start if byte == b'{' => self.value(byte)?,
            State::KeyOrEnd | State::NextKey if byte == b'"' => {
                self.held.clear();
                self.held.push(byte);
                self.state = State::Key;
            }
            State::KeyOrEnd if byte == b'}' => self.close(true)?,
            State::Colon if byte == b':' => self.state = State::Value,
            State::ElementOrEnd if byte == b']' => self.close(false)?,
            State::Value | State::ElementOrEnd => self.value(byte)?,
            State::After => self.after(byte)?,
            _ => return Err(RewriteError::Malformed),
        }
        Ok(at + 1)
    }

    /// A byte behind a finished value.
    fn after(&mut self, byte: u8) -> Result<(), RewriteError> {
        match byte {
            b',' => {
                let frame = self.stack.last().ok_or(RewriteError::Malformed)?;
                (self.state, self.target) =
                    if frame.object { (State::NextKey, None) } else { (State::Value, frame.node.elements) };
                Ok(())
            }
            b'}' => self.close(true),
            b']' => self.close(false),
            b' ' | b'\t' | b'\n' | b'\r' => Ok(()),
            _ => Err(RewriteError::Malformed),
        }
    }

    fn close(&mut self, object: bool) -> Result<(), RewriteError> {
        match self.stack.pop() {
            Some(frame) if frame.object == object => {
                self.state = if self.stack.is_empty() { State::End } else { State::After };
                Ok(())
            }
            _ => Err(RewriteError::Malformed),
        }
    }

    /// The first byte of a value.
    fn value(&mut self, byte: u8) -> Result<(), RewriteError> {
        let target = self.target;
        let action = target.map_or(Action::Walk, |node| node.action);
        match action {
            Action::Result => self.findings.result = true,
            Action::Error => self.findings.error = true,
            _ => {}
        }
        match (byte, target) {
            (b'{', Some(node)) if !node.members.is_empty() => {
                self.stack.push(Frame { node, object: true, seen: 0 });
                self.state = State::KeyOrEnd;
            }
            (b'[', Some(node)) if node.elements.is_some() => {
                self.stack.push(Frame { node, object: false, seen: 0 });
                self.target = node.elements;
                self.state = State::ElementOrEnd;
            }
            (b'{' | b'[', _) => {
                (self.nested, self.quoted) = (1, false);
                self.state = State::SkipNested;
            }
            (b'"', _) => {
                self.escaped = false;
                let wanted =
                    matches!(action, Action::Id) || matches!(action, Action::Uri) && self.plan.uris.is_some();
                self.begin(byte, wanted, State::SkipString);
            }
            (b'-' | b'0'..=b'9' | b't' | b'f' | b'n', _) => {
                let wanted = matches!(action, Action::Id | Action::IsError | Action::Code);
                self.begin(byte, wanted, State::SkipScalar);
            }
            _ => return Err(RewriteError::Malformed),
        }
        Ok(())
    }

    fn begin(&mut self, byte: u8, wanted: bool, otherwise: State) {
        self.state = if wanted {
            self.held.clear();
            self.held.push(byte);
            State::Capture
        } else {
            otherwise
        };
    }

    /// Bytes of a key; it ends at a quote that is not escaped.
    fn key(&mut self, text: &[u8], at: usize) -> Result<usize, RewriteError> {
        let (end, done) = self.string_end(text, at);
        let room = KEY.saturating_sub(self.held.len());
        self.held.extend_from_slice(&text[at..end.min(at + room)]);
        if !done {
            return Ok(end);
        }
        self.state = State::Colon;
        self.target = None;
        let Some(frame) = self.stack.last_mut() else { return Err(RewriteError::Malformed) };
        let named = |(name, _): &&(&str, &Node)| text::means(&self.held, name);
        if let Some(index) = frame.node.members.iter().position(|member| named(&member)) {
            if frame.seen & 1 << index != 0 {
                return Err(RewriteError::Repeated);
            }
            frame.seen |= 1 << index;
            self.target = Some(frame.node.members[index].1);
        }
        Ok(end)
    }

    fn capture(&mut self, text: &[u8], at: usize) -> Result<usize, RewriteError> {
        let (end, done) = if self.held[0] == b'"' {
            self.string_end(text, at)
        } else {
            let end = scalar_end(text, at);
            (end, end < text.len())
        };
        self.held.extend_from_slice(&text[at..end]);
        let long = self.held.len() > CAPTURE;
        if long && self.target.is_none_or(|node| node.action != Action::Uri) {
            return Err(RewriteError::Malformed);
        }
        if done {
            self.state = State::After;
        } else if long {
            self.state = State::SkipString;
        }
        Ok(end)
    }

    /// What goes out instead of the captured value; of a URI that is too long, what is there of it.
    fn replacement(&mut self) -> Bytes {
        let held = std::mem::take(&mut self.held);
        match self.target.map(|node| node.action) {
            Some(Action::Id) => return self.plan.id.clone(),
            Some(Action::IsError) => self.findings.is_error = held == b"true",
            Some(Action::Code) => {
                self.findings.code = std::str::from_utf8(&held).ok().and_then(|n| n.parse().ok())
            }
            Some(Action::Uri) if held.len() <= CAPTURE => {
                let mapped =
                    self.plan.uris.as_ref().and_then(|map| text::unquote(&held).and_then(|uri| map(&uri)));
                if let Some(mapped) = mapped {
                    return Bytes::from(text::quote(&mapped));
                }
            }
            _ => {}
        }
        Bytes::from(held)
    }

    fn skip_string(&mut self, text: &[u8], at: usize) -> usize {
        let (end, done) = self.string_end(text, at);
        if done {
            self.state = State::After;
        }
        end
    }

    /// The place behind the string's closing quote, or the end of the chunk.
    fn string_end(&mut self, text: &[u8], mut at: usize) -> (usize, bool) {
        if std::mem::take(&mut self.escaped) {
            at += 1;
        }
        while let Some(run) = memchr::memchr2(b'"', b'\\', &text[at..]) {
            at += run + 1;
            if text[at - 1] == b'"' {
                return (at, true);
            }
            if at == text.len() {
                self.escaped = true;
                return (at, false);
            }
            at += 1;
        }
        (text.len(), false)
    }

    fn skip_nested(&mut self, text: &[u8], mut at: usize) -> usize {
        while at < text.len() {
            if self.quoted {
                let (end, done) = self.string_end(text, at);
                self.quoted = !done;
                at = end;
                continue;
            }
            match text[at] {
                b'"' => (self.quoted, self.escaped) = (true, false),
                b'{' | b'[' => self.nested += 1,
                b'}' | b']' => {
                    self.nested -= 1;
                    if self.nested == 0 {
                        self.state = State::After;
                        return at + 1;
                    }
                }
                _ => {}
            }
            at += 1;
        }
        at
    }
}

/// Where a number or a word ends.
fn scalar_end(text: &[u8], at: usize) -> usize {
    let ends = |&b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
    text[at..].iter().position(ends).map_or(text.len(), |run| at + run)
}

#[cfg(test)]
mod tests;

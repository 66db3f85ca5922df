//! Server-Sent Events: bytes into events ([`Decoder`]) and messages into events ([`encode`]).
//!
//! Reading is liberal: CR, LF and CRLF, a byte order mark, data over several lines, with and without the space, comments,
//! unknown fields, no event name, a last event that ends with the stream (HTTP-34, F-005). Writing is strict.
//!
//! *Invariants:* works on bytes (F-032); what comes out does not depend on how the input was cut; data that is one line
//! inside one chunk is a slice of that chunk.
//!
//! *Limits:* keeps at most one event of the configured size and the chunks not yet drained. A bigger event is reported
//! once, at its end, and the stream goes on behind it (F-035). Comments do not count, however many there are.

mod encode;

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::oversized::{Oversized, Skipped};

pub use encode::{COMMENT, TAIL, encode, flatten, head, priming, retry};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What a line may hold beside its value: a byte order mark and the longest prefix of a field we read, `event: `.
const PREFIX_BYTES: usize = BOM.len() + b"event: ".len();

/// One event, as sent. Nothing is decoded: data is what lies between the framing, to be checked by whoever parses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The `id` field of this event.
    pub id: Option<Bytes>,
    /// The `event` field; absent means `message`.
    pub name: Option<Bytes>,
    /// The `data` lines joined by LF. Empty: no message, only an id or a delay (HTTP-13).
    pub data: Bytes,
    /// Delay before a reconnection, in milliseconds.
    pub retry: Option<u64>,
}

/// Splits a byte stream into events.
///
/// Push chunks, then take events until `None`; `None` means "no more for now", more may come with the next chunk.
#[derive(Debug)]
pub struct Decoder {
    max_bytes: usize,
    chunks: VecDeque<Bytes>,
    /// The line being read, as far as it has come.
    partial: BytesMut,
    /// The line being read is too long to keep; what happens to its rest.
    overlong: Option<Rest>,
    /// The last chunk ended in CR: an LF at the start of the next belongs to it.
    after_cr: bool,
    at_start: bool,
    event: Draft,
    last_id: Option<Bytes>,
}

/// What becomes of the rest of a line that is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// Part of an event that is too big.
    Counted,
    /// A comment, or a field nobody reads.
    Ignored,
}

/// The event being read.
#[derive(Debug, Default)]
struct Draft {
    id: Option<Bytes>,
    name: Option<Bytes>,
    data: Data,
    retry: Option<u64>,
    skipped: Option<Skipped>,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    /// One line, still shared with its chunk.
    Line(Bytes),
    /// Several lines, joined.
    Lines(BytesMut),
}

impl Decoder {
    /// Events with at most `max_bytes` bytes of data; an id or a name may be as long at most.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            chunks: VecDeque::new(),
            partial: BytesMut::new(),
            overlong: None,
            after_cr: false,
            at_start: true,
            event: Draft::default(),
            last_id: None,
        }
    }

    /// Adds what was read; the events in it come out of the iterator.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// Id of the last complete event that had one, those included that were too big: the point to resume from.
    #[must_use]
    pub fn last_id(&self) -> Option<&Bytes> {
        self.last_id.as_ref()
    }

    /// To be called at the end of the input until `None`: gives what is still waiting and then a last event that has no
    /// blank line, if it has data (F-005).
    ///
    /// Such an event may have been cut off: its id does not count as received, and whoever finds that its data does not
    /// parse has to treat it as never sent (HTTP-34).
    pub fn finish(&mut self) -> Option<Result<Event, Oversized>> {
        if let Some(event) = self.next() {
            return Some(event);
        }
        if self.overlong.is_some() || !self.partial.is_empty() {
            // Its end does not end the event: an empty line never gets here.
            self.end_line(Bytes::new());
        }
        let draft = std::mem::take(&mut self.event);
        draft.finish().filter(|ended| !matches!(ended, Ok(event) if event.data.is_empty()))
    }

    /// Takes a piece of a line whose end is not in sight.
    fn keep(&mut self, piece: &[u8]) {
        match self.overlong {
            Some(Rest::Counted) => self.event.skip(piece),
            Some(Rest::Ignored) => {}
            None if self.exceeds(piece.len()) => self.begin_overlong(piece),
            None => self.partial.extend_from_slice(piece),
        }
    }

    fn exceeds(&self, more: usize) -> bool {
        self.partial.len().saturating_add(more) > self.max_bytes.saturating_add(PREFIX_BYTES)
    }

    fn begin_overlong(&mut self, piece: &[u8]) {
        self.partial.extend_from_slice(piece);
        let line = std::mem::take(&mut self.partial).freeze();
        let line = self.without_bom(line);
        // Decided by the prefix alone, which is always there by now: the rest of the line has not come yet.
        let rest = if let Some(value) = line.strip_prefix(b"data:") {
            self.event.skip_line(value.strip_prefix(b" ").unwrap_or(value));
            Rest::Counted
        } else if line.starts_with(b"id:") || line.starts_with(b"event:") {
            self.event.skip_line(&line);
            Rest::Counted
        } else {
            Rest::Ignored
        };
        self.overlong = Some(rest);
    }

    /// Completes the current line with its last piece; gives the event if this was its blank line.
    fn end_line(&mut self, last: Bytes) -> Option<Result<Event, Oversized>> {
        if self.overlong.is_some() || self.exceeds(last.len()) {
            self.keep(&last);
            self.overlong = None;
            return None;
        }
        let line = if self.partial.is_empty() {
            last
        } else {
            self.partial.extend_from_slice(&last);
            self.partial.split().freeze()
        };
        let line = self.without_bom(line);
        if line.is_empty() {
            let draft = std::mem::take(&mut self.event);
            if draft.id.is_some() {
                self.last_id.clone_from(&draft.id);
            }
            return draft.finish();
        }
        self.event.take(Field::parse(&line), self.max_bytes);
        None
    }

    fn without_bom(&mut self, mut line: Bytes) -> Bytes {
        if std::mem::replace(&mut self.at_start, false) && line.starts_with(BOM) {
            line.advance(BOM.len());
        }
        line
    }
}

impl Iterator for Decoder {
    type Item = Result<Event, Oversized>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut chunk = self.chunks.pop_front()?;
            if std::mem::replace(&mut self.after_cr, false) && chunk[0] == b'\n' {
                chunk.advance(1);
            }
            let Some(end) = memchr::memchr2(b'\r', b'\n', &chunk) else {
                self.keep(&chunk);
                continue;
            };
            let last = chunk.split_to(end);
            self.after_cr = chunk[0] == b'\r';
            chunk.advance(1);
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            let event = self.end_line(last);
            if event.is_some() {
                return event;
            }
        }
    }
}

impl Draft {
    fn take(&mut self, field: Field, max_bytes: usize) {
        match field {
            Field::Data(value) => self.add_data(value, max_bytes),
            // An id outlives its event: it must not keep the chunk alive.
            Field::Id(value) => self.id = Some(Bytes::copy_from_slice(&value)),
            Field::Name(value) => self.name = Some(value),
            Field::Retry(delay) => self.retry = delay.or(self.retry),
            Field::Other => {}
        }
    }

    fn add_data(&mut self, value: Bytes, max_bytes: usize) {
        let before = match &self.data {
            Data::None => 0,
            Data::Line(line) => line.len() + 1,
            Data::Lines(lines) => lines.len() + 1,
        };
        if self.skipped.is_some() || before.saturating_add(value.len()) > max_bytes {
            self.skip_line(&value);
            return;
        }
        self.data = match std::mem::take(&mut self.data) {
            Data::None => Data::Line(value),
            Data::Line(first) => {
                let mut lines = BytesMut::with_capacity(before + value.len());
                lines.extend_from_slice(&first);
                Data::Lines(joined(lines, &value))
            }
            Data::Lines(lines) => Data::Lines(joined(lines, &value)),
        };
    }

    /// Another line of an event that is, or now becomes, too big.
    fn skip_line(&mut self, value: &[u8]) {
        let skipped = self.skipped.get_or_insert_default();
        match std::mem::take(&mut self.data) {
            Data::None => {}
            Data::Line(line) => skipped.feed(&line),
            Data::Lines(lines) => skipped.feed(&lines),
        }
        if !skipped.is_empty() {
            skipped.feed(b"\n");
        }
        skipped.feed(value);
    }

    /// More of the line given to [`Draft::skip_line`].
    fn skip(&mut self, piece: &[u8]) {
        self.skipped.get_or_insert_default().feed(piece);
    }

    /// The finished event; `None` if there is nothing in it for anybody.
    fn finish(self) -> Option<Result<Event, Oversized>> {
        if let Some(skipped) = self.skipped {
            return Some(Err(skipped.finish()));
        }
        let data = match self.data {
            Data::None => Bytes::new(),
            Data::Line(line) => line,
            Data::Lines(lines) => lines.freeze(),
        };
        if data.is_empty() && self.id.is_none() && self.retry.is_none() {
            return None;
        }
        Some(Ok(Event { id: self.id, name: self.name, data, retry: self.retry }))
    }
}

fn joined(mut lines: BytesMut, value: &[u8]) -> BytesMut {
    lines.extend_from_slice(b"\n");
    lines.extend_from_slice(value);
    lines
}

/// A line, read.
enum Field {
    Data(Bytes),
    Id(Bytes),
    Name(Bytes),
    Retry(Option<u64>),
    Other,
}

impl Field {
    fn parse(line: &Bytes) -> Self {
        let end = memchr::memchr(b':', line).unwrap_or(line.len());
        let value = || {
            let value = line.slice((end + 1).min(line.len())..);
            match value.first() {
                Some(b' ') => value.slice(1..),
                _ => value,
            }
        };
        match &line[..end] {
            b"data" => Self::Data(value()),
            b"event" => Self::Name(value()),
            b"id" => match value() {
                id if id.contains(&0) => Self::Other,
                id => Self::Id(id),
            },
            b"retry" => Self::Retry(milliseconds(&value())),
            _ => Self::Other,
        }
    }
}

/// Digits only, as the format demands.
fn milliseconds(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;

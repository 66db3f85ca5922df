//! Newline-delimited frames: the framing of stdio (STDIO-01).
//!
//! *Invariants:* works on bytes, so a character split over reads is never harmed (F-032); what comes out does not depend
//! on how the input was cut (F-033); a line that lies in one chunk is handed out as a slice of it, without a copy.
//!
//! *Limits:* keeps at most the configured line and the chunks not yet drained; drain after every push. A longer line is
//! reported once, at its end, and the stream goes on behind it (F-035).

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};

use super::oversized::{Oversized, Skipped};

const BOM: &[u8] = b"\xef\xbb\xbf";

/// What trimming may take off a line: a byte order mark and a carriage return.
const TRIMMED_BYTES: usize = BOM.len() + 1;

/// Splits a byte stream into lines, without their line ends and without blank lines (F-034).
///
/// Push chunks, then take lines until `None`; `None` means "no more for now", more may come with the next chunk.
#[derive(Debug)]
pub struct Lines {
    max_bytes: usize,
    chunks: VecDeque<Bytes>,
    partial: BytesMut,
    skipped: Option<Skipped>,
    at_start: bool,
}

impl Lines {
    /// Frames of at most `max_bytes` bytes, line end and byte order mark not counted.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, chunks: VecDeque::new(), partial: BytesMut::new(), skipped: None, at_start: true }
    }

    /// Adds what was read; the lines in it come out of the iterator.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.chunks.push_back(chunk);
        }
    }

    /// To be called at the end of the input until `None`: gives what is still waiting and then a last line that has no
    /// newline.
    pub fn finish(&mut self) -> Option<Result<Bytes, Oversized>> {
        self.next().or_else(|| self.end_line(Bytes::new()))
    }

    fn keep(&mut self, piece: &[u8]) {
        if let Some(skipped) = &mut self.skipped {
            skipped.feed(piece);
        } else if self.exceeds(piece.len()) {
            self.begin_skip(piece);
        } else {
            self.partial.extend_from_slice(piece);
        }
    }

    fn exceeds(&self, more: usize) -> bool {
        (self.partial.len().saturating_add(more)) > self.max_bytes.saturating_add(TRIMMED_BYTES)
    }

    fn begin_skip(&mut self, piece: &[u8]) {
        let mut skipped = Skipped::default();
        skipped.feed(&self.partial);
        skipped.feed(piece);
        self.partial = BytesMut::new();
        self.skipped = Some(skipped);
    }

    /// Completes the current line with its last piece; `None` if it is blank.
    fn end_line(&mut self, last: Bytes) -> Option<Result<Bytes, Oversized>> {
        let at_start = std::mem::replace(&mut self.at_start, false);
        if self.skipped.is_none() && self.exceeds(last.len()) {
            self.begin_skip(&last);
        } else if let Some(skipped) = &mut self.skipped {
            skipped.feed(&last);
        }
        if let Some(skipped) = self.skipped.take() {
            return Some(Err(skipped.finish()));
        }
        let mut line = if self.partial.is_empty() {
            last
        } else {
            self.partial.extend_from_slice(&last);
            self.partial.split().freeze()
        };
        if at_start && line.starts_with(BOM) {
            line.advance(BOM.len());
        }
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        if line.len() > self.max_bytes {
            let mut skipped = Skipped::default();
            skipped.feed(&line);
            return Some(Err(skipped.finish()));
        }
        Some(Ok(line))
    }
}

impl Iterator for Lines {
    type Item = Result<Bytes, Oversized>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let mut chunk = self.chunks.pop_front()?;
            let Some(end) = memchr::memchr(b'\n', &chunk) else {
                self.keep(&chunk);
                continue;
            };
            let last = chunk.split_to(end);
            chunk.advance(1);
            if !chunk.is_empty() {
                self.chunks.push_front(chunk);
            }
            let line = self.end_line(last);
            if line.is_some() {
                return line;
            }
        }
    }
}

#[cfg(test)]
mod tests;

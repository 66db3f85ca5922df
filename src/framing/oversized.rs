//! What is left of a frame that was too big to keep: its size, its first and its last bytes.
//!
//! A JSON-RPC answer that exceeds the limit must still fail its own request (F-035), so somebody has to find the request
//! id in it. Servers write the id first or last, hence both ends are kept.
//!
//! *Limits:* at most [`END_BYTES`] from each end, whatever the peer sends.

use std::collections::VecDeque;

use bytes::Bytes;

/// Bytes kept of either end: room for `jsonrpc`, a long id and a method name.
pub const END_BYTES: usize = 512;

/// A frame that exceeded its limit and was skipped; the stream goes on behind it (F-035).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("frame of {bytes} bytes exceeds the limit")]
pub struct Oversized {
    /// Size of the whole frame in bytes, framing aside.
    pub bytes: u64,
    /// The first bytes of the frame, at most [`END_BYTES`].
    pub head: Bytes,
    /// The last bytes of the frame, at most [`END_BYTES`]; overlaps `head` when the frame is small.
    pub tail: Bytes,
}

impl Oversized {
    /// What follows each `key`, quotes and all, in the ends of a JSON message that is a member of the message itself, and of
    /// nothing in it.
    pub fn members<'a>(&'a self, key: &'static [u8]) -> impl Iterator<Item = &'a [u8]> {
        let found = move |piece: &'a [u8]| {
            memchr::memmem::find_iter(piece, key).map(move |at| piece.split_at(at + key.len()))
        };
        let first = found(&self.head).filter(|(before, _)| depth(before) == 1);
        let last = found(&self.tail).filter(|(_, rest)| depth(rest) == -1);
        first.chain(last).map(|(_, rest)| rest)
    }
}

/// How many brackets more are opened than closed in a piece of a message that does not begin inside a string.
fn depth(piece: &[u8]) -> i32 {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    for byte in piece {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    depth
}

/// Collects the ends of a frame while its middle runs through.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    bytes: u64,
    head: Vec<u8>,
    tail: VecDeque<u8>,
}

impl Skipped {
    /// Takes the next bytes of the frame and keeps only what belongs to an end.
    pub(super) fn feed(&mut self, piece: &[u8]) {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        let wanted = END_BYTES - self.head.len();
        self.head.extend_from_slice(&piece[..wanted.min(piece.len())]);
        let last = &piece[piece.len().saturating_sub(END_BYTES)..];
        let excess = (self.tail.len() + last.len()).saturating_sub(END_BYTES);
        self.tail.drain(..excess);
        self.tail.extend(last);
    }

    /// Whether nothing has been fed yet.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Ends the frame.
    pub(super) fn finish(self) -> Oversized {
        Oversized { bytes: self.bytes, head: self.head.into(), tail: Vec::from(self.tail).into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_kept_whatever_the_pieces() {
        let whole: Vec<u8> = (0..3 * END_BYTES).map(|n| (n % 251) as u8).collect();
        for size in [1, 7, END_BYTES, 3 * END_BYTES] {
            let mut skipped = Skipped::default();
            whole.chunks(size).for_each(|piece| skipped.feed(piece));
            let frame = skipped.finish();
            assert_eq!(frame.bytes, whole.len() as u64);
            assert_eq!(frame.head, &whole[..END_BYTES]);
            assert_eq!(frame.tail, &whole[2 * END_BYTES..]);
        }
    }
}

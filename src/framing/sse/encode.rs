//! Messages into Server-Sent Events.
//!
//! *Invariant:* whatever the arguments hold, what is written is exactly one event: line ends can leave a field through no
//! argument.

use bytes::{BufMut, Bytes, BytesMut};

/// A comment, to keep a silent stream alive.
pub const COMMENT: &[u8] = b": keep-alive\n\n";

/// Ends the data line and the event that [`head`] began.
pub const TAIL: &[u8] = b"\n\n";

/// Writes an event with JSON text as its data. Always names the event, since some readers demand it (F-005).
///
/// `name` is `message` for messages of the protocol. See [`flatten`] for what happens to line ends in the data.
pub fn encode(out: &mut BytesMut, name: &str, id: Option<&str>, data: &[u8]) {
    out.reserve(name.len() + id.map_or(0, str::len) + data.len() + 32);
    head(out, name, id);
    let start = out.len();
    out.extend_from_slice(data);
    blank_line_ends(&mut out[start..]);
    out.extend_from_slice(TAIL);
}

/// Writes an event up to its data, which has to be followed by [`flatten`]ed data and [`TAIL`]: the way to send a large
/// message without copying it.
pub fn head(out: &mut BytesMut, name: &str, id: Option<&str>) {
    out.extend_from_slice(b"event: ");
    put_word(out, name);
    out.extend_from_slice(b"\n");
    if let Some(id) = id {
        put_id(out, id);
    }
    out.extend_from_slice(b"data: ");
}

/// Makes JSON text one line. In JSON a raw CR or LF can only be insignificant white space, so each becomes a space; text
/// without them, nearly all there is, is passed on as it is.
#[must_use]
pub fn flatten(data: Bytes) -> Bytes {
    if memchr::memchr2(b'\r', b'\n', &data).is_none() {
        return data;
    }
    let mut flat = BytesMut::from(data);
    blank_line_ends(&mut flat);
    flat.freeze()
}

/// Writes an event that only carries an id, so that the client can resume from the very start (HTTP-13), and if given
/// the delay before it may, in milliseconds.
pub fn priming(out: &mut BytesMut, id: &str, retry_ms: Option<u64>) {
    put_id(out, id);
    if let Some(ms) = retry_ms {
        put_retry(out, ms);
    }
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(TAIL);
}

/// Writes the delay, in milliseconds, after which the client may reconnect (HTTP-14).
pub fn retry(out: &mut BytesMut, ms: u64) {
    put_retry(out, ms);
    out.extend_from_slice(b"\n");
}

fn put_id(out: &mut BytesMut, id: &str) {
    out.extend_from_slice(b"id: ");
    put_word(out, id);
    out.extend_from_slice(b"\n");
}

fn put_retry(out: &mut BytesMut, ms: u64) {
    out.extend_from_slice(format!("retry: {ms}\n").as_bytes());
}

/// Names and ids are our own words; a line end or NUL in one would break the event or the id, so none gets through.
fn put_word(out: &mut BytesMut, word: &str) {
    for byte in word.bytes().filter(|byte| !matches!(byte, 0 | b'\r' | b'\n')) {
        out.put_u8(byte);
    }
}

fn blank_line_ends(text: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\r', b'\n', &text[from..]) {
        text[from + at] = b' ';
        from += at + 1;
    }
}

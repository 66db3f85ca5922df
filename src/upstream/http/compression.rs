//! Decoding of compressed answers, under a ratio cap (R-31). We ask for none, but some servers insist.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use crate::base::caps;

/// Bytes that are decoded between two looks at the ratio.
const STEP: usize = 4 * 1024;
/// Below this many bytes a ratio says nothing.
const GRACE: usize = 1024 * 1024;

/// Why an answer cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InflateError {
    /// Another encoding than gzip and deflate.
    #[error("it compresses its answers in a way that is not understood")]
    Unknown,
    /// The data is broken.
    #[error("its compressed answer is broken")]
    Broken,
    /// It grows beyond all reason.
    #[error("its compressed answer grows more than {}-fold", caps::INFLATE_RATIO)]
    Bomb,
}

/// A decoder for one body.
pub struct Inflate {
    kind: Kind,
    read: usize,
    written: usize,
}

enum Kind {
    Gzip(MultiGzDecoder<Vec<u8>>),
    /// Zlib by the letter of the specification, raw by custom; the first byte tells.
    Deflate,
    Zlib(ZlibDecoder<Vec<u8>>),
    Raw(DeflateDecoder<Vec<u8>>),
}

impl Inflate {
    /// The decoder that `headers` call for; none for plain bodies.
    ///
    /// # Errors
    /// `Unknown` for other encodings, and for several.
    pub fn for_answer(headers: &HeaderMap) -> Result<Option<Self>, InflateError> {
        let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(None) };
        let name = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
        let kind = match name.as_str() {
            "" | "identity" => return Ok(None),
            "gzip" | "x-gzip" => Kind::Gzip(MultiGzDecoder::new(Vec::new())),
            "deflate" => Kind::Deflate,
            _ => return Err(InflateError::Unknown),
        };
        Ok(Some(Self { kind, read: 0, written: 0 }))
    }

    /// Decodes the next part; what comes out may be empty.
    ///
    /// # Errors
    /// `Broken` or `Bomb`.
    pub fn push(&mut self, chunk: &[u8]) -> Result<Bytes, InflateError> {
        let mut out = Vec::new();
        for step in chunk.chunks(STEP) {
            self.read += step.len();
            let part = self.step(step).map_err(|_| InflateError::Broken)?;
            self.written += part.len();
            if self.written > GRACE && self.written / caps::INFLATE_RATIO > self.read {
                return Err(InflateError::Bomb);
            }
            if out.is_empty() {
                out = part;
            } else {
                out.extend_from_slice(&part);
            }
        }
        Ok(out.into())
    }

    fn step(&mut self, step: &[u8]) -> io::Result<Vec<u8>> {
        if let (Kind::Deflate, Some(first)) = (&self.kind, step.first()) {
            self.kind = if first & 0x0f == 8 {
                Kind::Zlib(ZlibDecoder::new(Vec::new()))
            } else {
                Kind::Raw(DeflateDecoder::new(Vec::new()))
            };
        }
        Ok(match &mut self.kind {
            Kind::Deflate => Vec::new(),
            Kind::Gzip(decoder) => take(decoder, step, MultiGzDecoder::get_mut)?,
            Kind::Zlib(decoder) => take(decoder, step, ZlibDecoder::get_mut)?,
            Kind::Raw(decoder) => take(decoder, step, DeflateDecoder::get_mut)?,
        })
    }
}

fn take<D: Write>(decoder: &mut D, step: &[u8], out: fn(&mut D) -> &mut Vec<u8>) -> io::Result<Vec<u8>> {
    decoder.write_all(step)?;
    // Events must not wait in the decoder (F-094).
    decoder.flush()?;
    Ok(std::mem::take(out(decoder)))
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_ENCODING, encoding.parse().unwrap())])
    }

    fn inflate(encoding: &'static str, body: &[u8], cut: usize) -> Result<Vec<u8>, InflateError> {
        let mut inflate = Inflate::for_answer(&headers(encoding))?.unwrap();
        let mut out = Vec::new();
        for chunk in body.chunks(cut) {
            out.extend_from_slice(&inflate.push(chunk)?);
        }
        Ok(out)
    }

    /// R-31
    #[test]
    fn both_encodings_are_read_however_they_are_cut() {
        let text = "{\"a\":1}".repeat(500).into_bytes();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&text).unwrap();
        zlib.write_all(&text).unwrap();
        raw.write_all(&text).unwrap();
        let bodies = [
            ("gzip", gzip.finish().unwrap()),
            ("deflate", zlib.finish().unwrap()),
            ("deflate", raw.finish().unwrap()),
        ];
        for (encoding, body) in bodies {
            for cut in [1, 7, body.len()] {
                assert_eq!(inflate(encoding, &body, cut).unwrap(), text, "{encoding}");
            }
        }
    }

    /// R-31
    #[test]
    fn bombs_and_strangers_are_refused() {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
        bomb.write_all(&vec![b'a'; 32 << 20]).unwrap();
        assert_eq!(inflate("gzip", &bomb.finish().unwrap(), 16 << 10).unwrap_err(), InflateError::Bomb);
        assert_eq!(inflate("gzip", b"no gzip at all", 64).unwrap_err(), InflateError::Broken);
        assert_eq!(inflate("br", b"", 1).unwrap_err(), InflateError::Unknown);
        assert!(Inflate::for_answer(&headers("identity")).unwrap().is_none());
    }
}

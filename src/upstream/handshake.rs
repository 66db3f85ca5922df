//! `initialize` as the gateway sends it, and what upstreams answer (LIFE-02 to LIFE-06).

use bytes::Bytes;

use crate::base::caps;
use crate::call::Handshake;
use crate::jsonrpc::message::compose;
use crate::jsonrpc::view::{elements_at, object_at};
use crate::jsonrpc::{Kind, Message, Object, text};
use crate::mcp::capabilities::{ClientCapabilities, ServerCapabilities};
use crate::mcp::revision::Revision;

/// Why a handshake did not come about. The texts reach clients, so upstreams' own words are not in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// It speaks a revision that we do not (LIFE-04).
    #[error("it speaks none of the protocol revisions that the gateway knows")]
    Incompatible,
    /// It refuses the revision, and names those that it speaks (LIFE-05).
    #[error("it does not speak revision {refused}")]
    Refused {
        /// What was asked for.
        refused: Revision,
        /// The best that both speak.
        common: Option<Revision>,
    },
    /// It answered with another error.
    #[error("it refused `initialize` with error {code}")]
    Rejected {
        /// The JSON-RPC code.
        code: i64,
    },
    /// The answer is no initialize result.
    #[error("its answer to `initialize` lacks {0}")]
    Malformed(&'static str),
}

/// The request. The gateway declares what the client can be asked for, and its own identity (LIFE-02, LIFE-14).
#[must_use]
pub fn request(id: u64, revision: Revision, shown: ClientCapabilities) -> Bytes {
    let params = format!(
        r#"{{"protocolVersion":"{revision}","capabilities":{},"clientInfo":{{"name":"portcullis","version":"{}"}}}}"#,
        shown.to_json(revision),
        env!("CARGO_PKG_VERSION")
    );
    compose(Some(id), "initialize", &params)
}

/// The notification that ends the handshake (LIFE-07).
#[must_use]
pub fn initialized() -> Bytes {
    compose(None, "notifications/initialized", "")
}

/// Reads the answer to [`request`] with `asked`.
///
/// # Errors
/// See [`HandshakeError`].
pub fn read(message: &Message, asked: Revision) -> Result<Handshake, HandshakeError> {
    let whole = message.text();
    let body = object_at(whole, message.body()).ok().flatten();
    if message.kind() == Kind::Error {
        return Err(refusal(whole, body.as_ref(), asked));
    }
    let result = body.ok_or(HandshakeError::Malformed("a result"))?;
    let version =
        result.string(whole, "protocolVersion").ok_or(HandshakeError::Malformed("`protocolVersion`"))?;
    let revision = Revision::parse(&version).ok_or(HandshakeError::Incompatible)?;
    // An absent object declares nothing; some servers leave it out.
    let capabilities = match result.value(whole, "capabilities") {
        Some(text) => {
            ServerCapabilities::read(text).map_err(|_| HandshakeError::Malformed("`capabilities`"))?
        }
        None => ServerCapabilities::default(),
    };
    let server_info = result.find(whole, "serverInfo").map(|span| Bytes::copy_from_slice(&whole[span]));
    let instructions = result.string(whole, "instructions").map(|text| cut(text.into_owned()));
    Ok(Handshake {
        revision,
        capabilities,
        server_info: server_info.unwrap_or_else(|| Bytes::from_static(b"{}")),
        instructions: instructions.filter(|text| !text.is_empty()),
    })
}

fn refusal(whole: &Bytes, error: Option<&Object>, asked: Revision) -> HandshakeError {
    let Some(error) = error else { return HandshakeError::Malformed("an error object") };
    let code = error.value(whole, "code").and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
    let data = object_at(whole, error.find(whole, "data")).ok().flatten();
    let Some(supported) = data.and_then(|data| data.find(whole, "supported")) else {
        return HandshakeError::Rejected { code: code.unwrap_or(0) };
    };
    let common = elements_at(whole, Some(supported))
        .unwrap_or_default()
        .iter()
        .filter_map(|name| Revision::parse(&text::unquote(name)?))
        .filter(|revision| *revision != asked)
        .max();
    HandshakeError::Refused { refused: asked, common }
}

/// Cuts text at the cap for instructions, between characters (R-21).
fn cut(mut text: String) -> String {
    // The relay cuts by what is configured; this only bounds what is kept for ever.
    let mut at = text.len().min(caps::INSTRUCTIONS_BYTES_MAX);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.truncate(at);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(body: &str) -> Message {
        Message::parse(Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,{body}}}"#))).unwrap()
    }

    /// LIFE-02, LIFE-14
    #[test]
    fn we_say_who_we_are_and_what_the_client_can_do() {
        let shown = ClientCapabilities { roots: true, url: true, ..ClientCapabilities::default() };
        let request = Message::parse(request(1, Revision::V2025_06_18, shown)).unwrap();
        let text = String::from_utf8_lossy(request.text()).into_owned();
        assert!(text.contains(
            r#""protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"portcullis""#
        ));
    }

    /// LIFE-03, LIFE-06
    #[test]
    fn a_good_answer_is_kept() {
        let good = answer(
            r#""result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"a","x":1.0},"instructions":"é"}"#,
        );
        let handshake = read(&good, Revision::LATEST).unwrap();
        assert_eq!(handshake.revision, Revision::V2025_03_26);
        assert!(handshake.capabilities.tools);
        assert_eq!(handshake.server_info, r#"{"name":"a","x":1.0}"#);
        assert_eq!(handshake.instructions.as_deref(), Some("é"));
    }

    /// LIFE-04, LIFE-05
    #[test]
    fn what_cannot_be_spoken_is_refused() {
        let read = |body: &str| read(&answer(body), Revision::LATEST).unwrap_err();
        assert_eq!(
            read(r#""result":{"protocolVersion":"2031-01-01","capabilities":{}}"#),
            HandshakeError::Incompatible
        );
        assert_eq!(read(r#""result":{}"#), HandshakeError::Malformed("`protocolVersion`"));
        assert_eq!(read(r#""result":null"#), HandshakeError::Malformed("a result"));
        assert_eq!(
            read(
                r#""error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05","2025-06-18","2099-01-01",7]}}"#
            ),
            HandshakeError::Refused { refused: Revision::LATEST, common: Some(Revision::V2025_06_18) }
        );
        assert_eq!(
            read(r#""error":{"code":-32000,"message":"no"}"#),
            HandshakeError::Rejected { code: -32000 }
        );
    }
}

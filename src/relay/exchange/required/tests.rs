//! The error that sends a user to a page, as clients of different means get it.

use super::*;
use crate::call::{Endpoint, Observer, Session};
use crate::jsonrpc::Kind;
use crate::jsonrpc::error::{INTERNAL_ERROR, URL_ELICITATION_REQUIRED};
use crate::mcp::revision::Revision;
use crate::relay::route::Relay;
use crate::relay::tests::{ALPHA, BETA, at, message, notification, pair, relay, session, session_at};

const PAGE: &str =
    r#"{"mode":"url","elicitationId":"e1","url":"https://h.example/secret?id=e1","message":"Sign in"}"#;

fn error(data: &str) -> Message {
    message(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"error":{{"code":-32042,"message":"first","data":{data}}}}}"#
    ))
}

fn replaced(relay: &Relay, session: &std::sync::Arc<Session>, data: &str) -> Option<String> {
    let message = error(data);
    assert_eq!(message.kind(), Kind::Error);
    let error = Object::scan(message.text(), message.body().unwrap().start).unwrap();
    let shown = shown(pair(relay, session, ALPHA), &message, &error)?;
    Some(String::from_utf8(shown.text().to_vec()).unwrap())
}

/// ELIC-15: an upstream under the gateway's own credential cannot know whom it sends to its page.
#[test]
fn elic_15_only_who_is_known_to_the_upstream_is_sent_to_a_page() {
    let (relay, (session, _)) = (relay(), session(1));
    let message = error(&format!(r#"{{"elicitations":[{PAGE}]}}"#));
    let error = Object::scan(message.text(), message.body().unwrap().start).unwrap();
    let shown = shown(pair(&relay, &session, BETA), &message, &error).unwrap();
    let text = String::from_utf8(shown.text().to_vec()).unwrap();
    assert_eq!(at(&text, "/error/data/reason"), "url_elicitation_untrusted");
    assert!(!text.contains("secret"), "{text}");
}

/// ELIC-09, ELIC-10: its pages are known without any question, to exactly this session and for this upstream.
#[test]
fn elic_10_pages_of_an_error_are_mapped_and_known() {
    let (relay, (session, ear), (other, theirs)) = (relay(), session(1), session(2));
    let second = PAGE.replace("e1", "e2");
    let text =
        replaced(&relay, &session, &format!(r#"{{"x":1,"elicitations":[{PAGE}, {second}]}}"#)).unwrap();
    assert_eq!(at(&text, "/error/code"), URL_ELICITATION_REQUIRED);
    assert_eq!(at(&text, "/error/data/elicitations/0/url"), "https://h.example/secret?id=e1");
    assert_eq!(at(&text, "/error/data/elicitations/0/message"), "[alpha] Sign in");
    assert_eq!(at(&text, "/error/data/x"), 1);
    let ours = |n: usize| at(&text, &format!("/error/data/elicitations/{n}/elicitationId"));
    assert!(ours(0) != ours(1) && ours(0) != "e1");
    let done = notification("notifications/elicitation/complete", r#"{"elicitationId":"e2"}"#);
    relay.told(ALPHA, &other, done.clone());
    relay.told(BETA, &session, done.clone());
    assert!(theirs.notices().is_empty() && ear.notices().is_empty());
    relay.told(ALPHA, &session, done.clone());
    relay.told(ALPHA, &session, done);
    let [told] = <[_; 1]>::try_from(ear.notices()).unwrap();
    assert_eq!(at(&told, "/params/elicitationId"), ours(1));
    assert_eq!(at(&told, "/method"), "notifications/elicitation/complete");
}

/// ELIC-10, VER-08: who cannot open pages learns the host, and nothing more of the address.
#[test]
fn elic_10_who_cannot_open_pages_is_told_the_host() {
    let relay = relay();
    let (old, _) = session_at(1, Endpoint::Merged, Revision::V2025_06_18);
    let (mut forms, _) = session(2);
    std::sync::Arc::get_mut(&mut forms).unwrap().capabilities.url = false;
    for session in [old, forms] {
        let text = replaced(&relay, &session, &format!(r#"{{"elicitations":[{PAGE},{PAGE}]}}"#)).unwrap();
        assert_eq!(at(&text, "/error/code"), POLICY_DENIED);
        assert_eq!(at(&text, "/error/data/reason"), "url_elicitation_unsupported");
        assert_eq!(at(&text, "/error/data/upstream"), "alpha");
        assert_eq!(at(&text, "/error/data/hosts"), serde_json::json!(["h.example"]));
        assert!(!text.contains("secret") && !text.contains("e1"), "{text}");
        assert_eq!(at(&text, "/id"), 5);
    }
}

/// ELIC-10, ELIC-13: a page that nobody should open is the upstream's fault; an error without pages is its own affair.
#[test]
fn elic_10_errors_without_good_pages_send_nobody_anywhere() {
    let (relay, (session, _)) = (relay(), session(1));
    let plain = PAGE.replace("https:", "http:");
    for bad in [plain.as_str(), r#"{"url":"https://h.example/"}"#, "7"] {
        let text = replaced(&relay, &session, &format!(r#"{{"elicitations":[{PAGE},{bad}]}}"#)).unwrap();
        assert_eq!(at(&text, "/error/code"), INTERNAL_ERROR, "{bad}");
        assert_eq!(at(&text, "/error/data/reason"), "upstream_protocol_error");
        assert!(!text.contains("h.example"));
    }
    for none in ["null", "{}", r#"{"elicitations":[]}"#, r#"{"elicitations":{}}"#] {
        assert_eq!(replaced(&relay, &session, none), None, "{none}");
    }
}

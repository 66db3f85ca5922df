//! What becomes of an upstream's notifications.

use super::*;
use crate::call::Endpoint;
use crate::mcp::revision::Revision;
use crate::relay::tests::{ALPHA, at, notification, pair, relay, session, session_at, texts};

/// RES-06, RES-09, F-054: an update names the resource as the client does, sub-resources included.
#[test]
fn f_054_updates_name_what_the_client_subscribed_to() {
    let relay = relay();
    let updated = |uri: &str| notification(UPDATED, &format!(r#"{{"uri":{uri},"_meta":{{"a":1.0}}}}"#));
    let (merged, _) = session(1);
    let (own, _) = session_at(2, Endpoint::Upstream(ALPHA), Revision::LATEST);
    for (uri, exposed) in [
        (r#""file:///a%20b""#, "alpha+file:///a%20b"),
        (r#""file:\/\/\/a""#, "alpha+file:///a"),
        (r#""https://x/""#, "https://x/"),
    ] {
        let [told] = <[_; 1]>::try_from(texts(ready(pair(&relay, &merged, ALPHA), &updated(uri)))).unwrap();
        assert_eq!(at(&told, "/params/uri"), exposed);
        assert!(told.contains(r#""_meta":{"a":1.0}"#));
        let [told] = <[_; 1]>::try_from(texts(ready(pair(&relay, &own, ALPHA), &updated(uri)))).unwrap();
        assert!(told.contains(uri));
    }
}

/// ELIC-09: what is unknown, broken or nobody's goes no further.
#[test]
fn elic_09_what_is_nobodys_goes_no_further() {
    let (relay, (session, _)) = (relay(), session(1));
    for (method, params) in [
        ("notifications/other", "{}"),
        ("notifications/tools/list_changed", "{}"),
        (UPDATED, "{}"),
        (UPDATED, "[]"),
        (UPDATED, r#"{"uri":7}"#),
        (COMPLETE, "{}"),
        (COMPLETE, r#"{"elicitationId":"e1"}"#),
        (logs::METHOD, "[]"),
    ] {
        let told = ready(pair(&relay, &session, ALPHA), &notification(method, params));
        assert!(told.is_empty(), "{method} {params}");
    }
    assert!(relay.exchanges.known(&session).is_none(), "nothing is kept for it");
}

//! What becomes of questions on their way to a client.

use super::*;
use crate::call::{Endpoint, Session};
use crate::mcp::revision::Revision;
use crate::relay::route::Relay;
use crate::relay::tests::{ALPHA, BETA, at, heard, pair, question, relay, session, session_at};

/// The parameters as the client gets them, or what the upstream is told instead.
fn asked(
    relay: &Relay,
    session: &std::sync::Arc<Session>,
    kind: QuestionKind,
    params: &str,
) -> Result<String, String> {
    let (question, mut hearing) = question(ALPHA, kind, params);
    let put = put(pair(relay, session, ALPHA), question, || panic!("not by itself"));
    match put {
        Some(question) => Ok(String::from_utf8(question.params.to_vec()).unwrap()),
        None => Err(heard(&mut hearing).unwrap()),
    }
}

fn code(refused: &Result<String, String>) -> i64 {
    at(refused.as_ref().unwrap_err(), "/error/code").as_i64().unwrap()
}

const META: &str = r#""_meta":{"io.portcullis/upstream":"alpha"}"#;

/// SAMP-04, SAMP-05, SAMP-09, TASK-06: only what must change does.
#[test]
fn samp_05_a_sampling_request_passes_as_it_is_but_for_its_context() {
    let (relay, (session, _)) = (relay(), session(1));
    let inside = r#""messages":[{"role":"user","content":[{"type":"tool_use","id":"1","name":"alpha__x","_meta":{"k": 1}}]}],"tools":[{"name":"x","inputSchema":{}}],"maxTokens":1e2"#;
    let ask = |params: &str| asked(&relay, &session, QuestionKind::Sampling, params).unwrap();
    assert_eq!(ask(&format!("{{{inside}}}")), format!("{{{inside},{META}}}"));
    for context in [r#""thisServer""#, r#""allServers""#, "null", "7"] {
        let text = ask(&format!(r#"{{"includeContext":{context},{inside}}}"#));
        assert_eq!(text, format!(r#"{{"includeContext":"none",{inside},{META}}}"#));
    }
    let none = format!(r#"{{"includeContext":"none",{inside}"#);
    assert_eq!(ask(&format!("{none}}}")), format!("{none},{META}}}"));
    assert_eq!(ask(&format!(r#"{{{inside},"task":{{"ttl":1}}}}"#)), format!("{{{inside},{META}}}"));
    assert_eq!(ask(&format!(r#"{{"task":null,{inside}}}"#)), format!("{{{inside},{META}}}"));
}

/// SAMP-09, RPC-19: what was in `_meta` stays; what only we may say there does not.
#[test]
fn samp_09_meta_names_who_asks() {
    let (relay, (session, _)) = (relay(), session(1));
    let inside = r#""messages":[],"maxTokens":1"#;
    let ask = |meta: &str| {
        asked(&relay, &session, QuestionKind::Sampling, &format!("{{{inside},\"_meta\":{meta}}}"))
    };
    let got = |meta: &str| ask(meta).unwrap();
    assert_eq!(got("{}"), format!("{{{inside},{META}}}"));
    assert_eq!(
        got(r#"{"progressToken":7,"a":1.0}"#),
        format!(r#"{{{inside},"_meta":{{"io.portcullis/upstream":"alpha","progressToken":7,"a":1.0}}}}"#)
    );
    assert_eq!(got(r#"{"io.portcullis/upstream":"beta"}"#), format!("{{{inside},{META}}}"));
    assert_eq!(code(&ask("[]")), INVALID_PARAMS);
}

/// SAMP-02
#[test]
fn samp_02_what_must_be_there_is_looked_for() {
    let (relay, (session, ear)) = (relay(), session(1));
    for params in [
        "",
        "[]",
        "{}",
        r#"{"messages":[]}"#,
        r#"{"maxTokens":1}"#,
        r#"{"messages":{},"maxTokens":1}"#,
        r#"{"messages":[],"maxTokens":"1"}"#,
        r#"{"messages":[],"maxTokens":1,"maxTokens":2}"#,
    ] {
        assert_eq!(
            code(&asked(&relay, &session, QuestionKind::Sampling, params)),
            INVALID_PARAMS,
            "{params}"
        );
    }
    assert!(ear.questions().is_empty());
}

/// R-45, ELIC-06: the origin stands before the message only where it is not plain; the schema stays.
#[test]
fn elic_06_a_form_says_who_asks() {
    let relay = relay();
    let schema = r#""requestedSchema":{"type":"object","properties":{"message":{"type":"string"}}}"#;
    let params = format!(r#"{{"message":"\u00e4 \"you\"",{schema},"task":{{}}}}"#);
    let ask = |endpoint, revision| {
        let (session, _) = session_at(1, endpoint, revision);
        asked(&relay, &session, QuestionKind::Elicitation, &params).unwrap()
    };
    let revision = Revision::LATEST;
    assert_eq!(
        ask(Endpoint::Merged, revision),
        format!(r#"{{"message":"[alpha] \u00e4 \"you\"",{schema},{META}}}"#)
    );
    assert_eq!(
        ask(Endpoint::Upstream(ALPHA), revision),
        format!(r#"{{"message":"\u00e4 \"you\"",{schema},{META}}}"#)
    );
    let (session, _) = session(1);
    for params in ["{}", r#"{"message":7}"#] {
        assert_eq!(code(&asked(&relay, &session, QuestionKind::Elicitation, params)), INVALID_PARAMS);
    }
}

/// ELIC-02, ELIC-11, ELIC-13: a page has an id of ours; the one inside of its address stays.
#[test]
fn elic_11_a_page_gets_an_id_of_ours_and_keeps_its_address() {
    let (relay, (session, _)) = (relay(), session(1));
    let (other, _) = self::session(2);
    let page =
        |id: &str, url: &str| format!(r#"{{"mode":"url","message":"m","url":{url},"elicitationId":{id}}}"#);
    let ask =
        |session, id: &str, url: &str| asked(&relay, session, QuestionKind::Elicitation, &page(id, url));
    let url = r#""https:\/\/h.example/?id=e1""#;
    let text = ask(&session, r#""e1""#, url).unwrap();
    assert!(text.contains(url), "{text}");
    let ours = at(&text, "/elicitationId");
    assert_eq!(ours.as_str().unwrap().len(), 22);
    assert_eq!(at(&ask(&session, r#""e1""#, url).unwrap(), "/elicitationId"), ours, "it is the same page");
    assert_ne!(at(&ask(&other, r#""e1""#, url).unwrap(), "/elicitationId"), ours, "another session's");
    for good in ["http://localhost:1/", "http://127.0.0.2/", "http://[::1]/", "HTTPS://h.example/x"] {
        assert!(ask(&session, r#""e1""#, &text::quote(good)).is_ok(), "{good}");
    }
    for bad in [
        "http://h.example/",
        "http://localhost.example/",
        "javascript:alert(1)",
        "h.example",
        "https://a b/",
        "https://a\t/",
        "",
    ] {
        assert_eq!(code(&ask(&session, r#""e1""#, &text::quote(bad))), INVALID_PARAMS, "{bad}");
    }
    for id in ["7", "null", r#""""#] {
        assert_eq!(code(&ask(&session, id, url)), INVALID_PARAMS, "{id}");
    }
    let nameless = r#"{"mode":"url","message":"m","url":"https://h.example/"}"#;
    assert_eq!(code(&asked(&relay, &session, QuestionKind::Elicitation, nameless)), INVALID_PARAMS);
}

/// LIFE-21, SAMP-10: nobody answers for a session that has ended, and nothing is kept for it.
#[test]
fn samp_10_a_session_that_has_ended_is_not_asked() {
    let (relay, (session, ear)) = (relay(), session(1));
    session.ended.cancel();
    let (late, mut hearing) = question(BETA, QuestionKind::Sampling, r#"{"messages":[],"maxTokens":1}"#);
    crate::call::Observer::asked(&*relay, &session, late);
    assert!(ear.questions().is_empty());
    assert_eq!(heard(&mut hearing), None);
    assert!(relay.exchanges.known(&session).is_none());
}

/// SAMP-03: what belongs to no call goes to the session's client.
#[test]
fn samp_03_a_question_beside_all_calls_reaches_its_client() {
    let (relay, (session, ear)) = (relay(), session(1));
    let (_, other) = self::session(2);
    let (asked, mut hearing) = question(BETA, QuestionKind::Sampling, r#"{"messages":[],"maxTokens":1}"#);
    crate::call::Observer::asked(&*relay, &session, asked);
    let [question] = <[_; 1]>::try_from(ear.questions()).unwrap();
    assert_eq!((question.upstream, question.kind), (BETA, QuestionKind::Sampling));
    question.asker.answer(crate::relay::tests::message(r#"{"jsonrpc":"2.0","id":9,"result":{"role":"x"}}"#));
    assert!(heard(&mut hearing).unwrap().contains(r#""role":"x""#));
    assert!(other.questions().is_empty());
}

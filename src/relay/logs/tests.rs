//! Log messages as sessions get them.

use std::time::Duration;

use super::*;
use crate::call::{Endpoint, Observer};
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::revision::Revision;
use crate::relay::notices;
use crate::relay::route::Relay;
use crate::relay::tests::{
    ALPHA, BETA, SECRET, at, declare, notification, pair, relay, session, session_at, texts,
};

fn log(params: &str) -> Message {
    notification(METHOD, params)
}

fn told(relay: &Relay, session: &Arc<Session>, params: &str) -> Vec<String> {
    texts(notices::ready(pair(relay, session, ALPHA), &log(params)))
}

/// LOG-03: the logger says which upstream it is, where there are several.
#[test]
fn log_03_loggers_get_the_namespace() {
    let relay = relay();
    let (merged, _) = session(1);
    let (own, _) = session_at(2, Endpoint::Upstream(ALPHA), Revision::LATEST);
    let data = r#""data":{"n":1.0,"s":"\u00e4"}"#;
    for (logger, named) in [
        (r#","logger":"db\/x""#, r#","logger":"alpha/db/x""#),
        ("", r#","logger":"alpha""#),
        (r#","logger":7"#, r#","logger":"alpha""#),
    ] {
        let params = |logger: &str| format!(r#"{{"level":"info",{data}{logger}}}"#);
        let wanted =
            |logger: &str| String::from_utf8(compose(None, METHOD, &params(logger)).to_vec()).unwrap();
        assert_eq!(told(&relay, &merged, &params(logger)), [wanted(named)]);
        assert_eq!(told(&relay, &own, &params(logger)), [wanted(logger)]);
    }
}

/// LOG-01, LOG-02, LOG-03
#[test]
fn log_02_only_what_was_declared_and_wanted_passes() {
    let (relay, (session, _)) = (relay(), session(1));
    let passes =
        |level: &str| told(&relay, &session, &format!(r#"{{"level":"{level}","data":1}}"#)).len() == 1;
    assert!(passes("debug"), "no level was set, and nothing is known of the upstream");
    session.set_log_level(LogLevel::Warning);
    assert!(!passes("notice") && passes("warning") && passes("emergency"));
    assert!(!passes("warn"), "no such level");
    assert!(told(&relay, &session, r#"{"level":"error"}"#).is_empty(), "`data` is missing");
    declare(&relay, ALPHA, ServerCapabilities { logging: true, ..ServerCapabilities::default() });
    assert!(passes("error"));
    declare(&relay, ALPHA, ServerCapabilities::default());
    assert!(!passes("error"));
}

/// LOG-05, F-103: what is secret in the configuration is not repeated, however it is escaped, and all else stays.
#[test]
fn f_103_secrets_are_masked_in_log_messages() {
    let (relay, (session, _)) = (relay(), session(1));
    let quoted = text::quote(SECRET);
    let escaped = quoted.replace('-', r"\u002d");
    let params = format!(
        r#"{{"level":"info","data":{{{quoted}:[{escaped},"x {}", 4711]}},"logger":{quoted}}}"#,
        &quoted[1..quoted.len() - 1]
    );
    let [text] = <[_; 1]>::try_from(told(&relay, &session, &params)).unwrap();
    assert!(!text.contains("SECRET"), "{text}");
    assert_eq!(at(&text, "/params/data"), serde_json::json!({"[secret]": ["[secret]", "x [secret]", 4711]}));
    assert_eq!(at(&text, "/params/logger"), "alpha/[secret]");
}

/// LOG-05, RPC-28: a flood is cut, its loss told once, and the order kept.
#[tokio::test(start_paused = true)]
async fn log_05_a_flood_is_cut_and_its_loss_told() {
    let (relay, (session, ear), (other, theirs)) = (relay(), session(1), session(2));
    let send = |n: usize| relay.told(ALPHA, &session, log(&format!(r#"{{"level":"info","data":{n}}}"#)));
    (0..1000).for_each(send);
    let first: Vec<_> = ear.notices().iter().map(|text| at(text, "/params/data").as_u64().unwrap()).collect();
    assert_eq!(first, (0..200).collect::<Vec<_>>());
    relay.told(BETA, &session, log(r#"{"level":"info","data":"b"}"#));
    relay.told(ALPHA, &other, log(r#"{"level":"info","data":"o"}"#));
    assert_eq!((ear.notices().len(), theirs.notices().len()), (1, 1), "others have their own budgets");
    clock::sleep(PAUSE).await;
    send(1000);
    let [loss, next] = <[_; 2]>::try_from(ear.notices()).unwrap();
    assert_eq!(at(&loss, "/params/data"), "800 messages dropped, from `alpha`");
    assert_eq!(
        (at(&loss, "/params/level"), at(&loss, "/params/logger")),
        ("notice".into(), "gateway".into())
    );
    assert_eq!(at(&next, "/params/data"), 1000);
    clock::sleep(TELL_AFTER).await;
    assert!(ear.notices().is_empty(), "it was told");
}

/// LOG-05: a loss is told when nothing comes after it, too; not to who does not want to know.
#[tokio::test(start_paused = true)]
async fn log_05_the_loss_at_the_end_of_a_flood_is_told() {
    for (level, wanted) in [(LogLevel::Notice, 1), (LogLevel::Warning, 0)] {
        let (relay, (session, ear)) = (relay(), session(1));
        session.set_log_level(level);
        (0..201).for_each(|_| relay.told(ALPHA, &session, log(r#"{"level":"error","data":1}"#)));
        assert_eq!(ear.notices().len(), 200);
        clock::sleep(TELL_AFTER + Duration::from_millis(1)).await;
        assert_eq!(ear.notices().len(), wanted, "{level:?}");
    }
}

/// LOG-06: who has set a level hears what becomes of the upstreams that it sees.
#[test]
fn log_06_sessions_hear_what_becomes_of_their_upstreams() {
    let relay = relay();
    let alone = |n, upstream| session_at(n, Endpoint::Upstream(upstream), Revision::LATEST);
    let (all, errors, silent) = (session(1), session(2), session(3));
    let (of_alpha, of_beta) = (alone(4, ALPHA), alone(5, BETA));
    for (session, _) in [&all, &errors, &of_alpha, &of_beta] {
        session.set_log_level(LogLevel::Notice);
        follow(&relay, session);
    }
    errors.0.set_log_level(LogLevel::Error);
    for (turn, level) in [(Turn::Away, "warning"), (Turn::Back, "notice")] {
        turned(&relay, ALPHA, turn);
        for (_, ear) in [&all, &of_alpha] {
            let [told] = <[_; 1]>::try_from(ear.notices()).unwrap();
            assert_eq!(
                (at(&told, "/params/level"), at(&told, "/params/logger")),
                (level.into(), "gateway".into())
            );
            assert!(at(&told, "/params/data").as_str().unwrap().contains("`alpha`"));
        }
        for (_, ear) in [&errors, &silent, &of_beta] {
            assert!(ear.notices().is_empty());
        }
    }
}

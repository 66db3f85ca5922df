//! Entries as the many clients write them.

use std::time::Duration;

use super::*;
use crate::config::snapshot::{Asks, Isolation, Remote, RemoteKind, Stdio, Transport, Upstream};

fn upstream(entry: &str) -> std::sync::Arc<Upstream> {
    let snapshot = read_entry(entry, &[("TOKEN", "hunter2"), ("URL", "https://x.example/hunter2")]).unwrap();
    assert_eq!(snapshot.failed, [], "{entry}");
    snapshot.upstreams[0].clone()
}

fn stdio(entry: &str) -> Stdio {
    match &upstream(entry).transport {
        Transport::Stdio(stdio) => stdio.clone(),
        Transport::Remote(_) => panic!("{entry}"),
    }
}

fn remote(entry: &str) -> Remote {
    match &upstream(entry).transport {
        Transport::Remote(remote) => remote.clone(),
        Transport::Stdio(_) => panic!("{entry}"),
    }
}

#[test]
fn programs_are_understood_in_every_dialect() {
    for entry in [
        r#"{"command": "p", "args": ["a", "b"], "env": {"K": "v"}}"#,
        r#"{"type": "stdio", "command": "p", "args": ["a", "b"], "env": {"K": "v"}}"#,
        r#"{"type": "local", "command": ["p", "a", "b"], "environment": {"K": "v"}}"#,
        r#"{"cmd": "p", "args": ["a", "b"], "envs": {"K": "v"}, "enabled": true}"#,
        r#"{"command": ["p"], "args": ["a", "b"], "env": {"K": "v", "N": null}, "disabled": false}"#,
    ] {
        let stdio = stdio(entry);
        assert_eq!(stdio.shown(), ["p", "a", "b"], "{entry}");
        assert_eq!(stdio.env.len(), 1, "{entry}");
        assert_eq!((stdio.env[0].0.as_str(), stdio.env[0].1.reveal()), ("K", "v"), "{entry}");
    }
    let numbers = stdio(r#"{"command": "p", "args": [8080, true], "env": {"PORT": 8080, "ON": false}}"#);
    assert_eq!(numbers.shown(), ["p", "8080", "true"]);
    assert_eq!(numbers.env[0].1.reveal(), "8080");
    assert_eq!(numbers.env[1].1.reveal(), "false");
}

#[test]
fn servers_are_understood_in_every_dialect() {
    for (entry, kind) in [
        (r#"{"url": "https://x.example/"}"#, RemoteKind::Auto),
        (r#"{"serverUrl": "https://x.example/"}"#, RemoteKind::Auto),
        (r#"{"uri": "https://x.example/"}"#, RemoteKind::Auto),
        (r#"{"httpUrl": "https://x.example/"}"#, RemoteKind::Http),
        (r#"{"type": "http", "url": "https://x.example/"}"#, RemoteKind::Http),
        (r#"{"type": "streamable-http", "url": "https://x.example/"}"#, RemoteKind::Http),
        (r#"{"type": "streamable_http", "url": "https://x.example/"}"#, RemoteKind::Http),
        (r#"{"type": "streamableHttp", "url": "https://x.example/"}"#, RemoteKind::Http),
        (r#"{"type": "sse", "url": "https://x.example/"}"#, RemoteKind::Sse),
        (r#"{"type": "remote", "url": "https://x.example/"}"#, RemoteKind::Auto),
        (r#"{"type": "url", "url": "https://x.example/", "authorization_token": "t"}"#, RemoteKind::Auto),
    ] {
        let remote = remote(entry);
        assert_eq!(remote.kind, kind, "{entry}");
        assert_eq!(remote.url.reveal().as_str(), "https://x.example/", "{entry}");
    }
}

#[test]
fn lists_of_servers_are_understood() {
    let text = r#"{"mcpServers": [{"name": "a", "command": "p"}, {"name": "b", "url": "http://h/"}]}"#;
    let snapshot = read(text, &[]).unwrap();
    let names: Vec<_> = snapshot.upstreams.iter().map(|u| &*u.name).collect();
    assert_eq!(names, ["a", "b"]);
    let problems = read(r#"{"mcpServers": [{"command": "p"}]}"#, &[]).unwrap_err();
    assert!(problems.to_string().contains("`name` is missing"), "{problems}");
}

#[test]
fn a_user_in_the_url_becomes_a_header() {
    let remote = remote(r#"{"url": "https://us%40er:hunter2@x.example/mcp?key=hunter2"}"#);
    assert_eq!(remote.url.reveal().as_str(), "https://x.example/mcp?key=hunter2");
    assert_eq!(remote.url.to_string(), "https://x.example/mcp?***");
    assert_eq!(remote.headers[0].1.reveal(), "Basic dXNAZXI6aHVudGVyMg==");
    assert!(!format!("{remote:?}").contains("hunter2"));
}

/// F-082
#[test]
fn f_082_values_are_expanded_and_hidden() {
    let stdio =
        stdio(r#"{"command": "p", "args": ["--t", "${TOKEN}", "$HOME"], "env": {"P": "pa$$w${TOKEN}rd"}}"#);
    assert_eq!(stdio.args[1].reveal(), "hunter2");
    assert_eq!(stdio.env[0].1.reveal(), "pa$$whunter2rd");
    assert_eq!(stdio.shown(), ["p", "--t", "***", "$HOME"]);
    assert!(!format!("{stdio:?}").contains("hunter2"));
    let remote = remote(r#"{"url": "${URL}", "headers": {"X-Key": "${TOKEN}"}}"#);
    assert_eq!(remote.headers[0].1.reveal(), "hunter2");
    assert_eq!(remote.url.to_string(), "https://***");
    assert!(!format!("{remote:?}").contains("hunter2"));
}

/// F-082
#[test]
fn f_082_an_unset_variable_fails_one_server() {
    let text = r#"{"mcpServers": {
        "alpha": {"command": "p", "env": {
            "Q": "${MISSING}", "R": "${MISSING:-z}", "S": "$HOME", "T": "${OTHER}"}},
        "beta": {"command": "p"}
    }}"#;
    let snapshot = read(text, &[]).unwrap();
    assert_eq!(snapshot.upstreams.len(), 1);
    let failed = &snapshot.failed[0];
    assert_eq!(&*failed.name, "alpha");
    assert_eq!(failed.problems.len(), 2, "all of them at once");
    let problem = &failed.problems[0];
    assert_eq!(problem.field, "mcpServers.alpha.env.Q");
    assert_eq!(problem.position, Some(Position { line: 3, column: 18 }));
    assert!(problem.to_string().contains("variable `MISSING` is not set"), "{problem}");
}

#[test]
fn what_comes_from_elsewhere_fails_one_server() {
    for entry in [
        r#"{"url": "${TOKEN}"}"#,
        r#"{"url": "https://x.example", "headers": {"A": "${file:none}"}}"#,
        r#"{"url": "https://x.example", "headers": {"A": "${LINES}"}}"#,
        r#"{"url": "https://x.example", "bearer_token_env_var": "MISSING"}"#,
        r#"{"url": "unix:///run/x.sock"}"#,
        r#"{"type": "ws", "url": "https://x.example"}"#,
        r#"{"type": "${TOKEN}", "url": "https://x.example"}"#,
        r#"{"command": "p", "envFile": "/nonexistent"}"#,
        r#"{"command": "p", "portcullis": {"required": "${TOKEN}"}}"#,
        r#"{"command": "p", "args": ["${{ secrets.X }}"]}"#,
    ] {
        let variables = [("TOKEN", "hunter2"), ("LINES", "hunter2\nx")];
        let snapshot = read_entry(entry, &variables).unwrap_or_else(|problems| panic!("{entry}: {problems}"));
        assert_eq!(snapshot.failed.len(), 1, "{entry}");
        assert!(snapshot.upstreams.is_empty(), "{entry}");
        let said = format!("{:?}", snapshot.failed);
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn what_is_switched_off_is_not_looked_at() {
    let text = r#"{"mcpServers": {
        "a": {"disabled": true, "command": 7, "env": {"A": "${MISSING}"}},
        "b": {"enabled": false}
    }}"#;
    let snapshot = read(text, &[]).unwrap();
    assert_eq!(snapshot.disabled, ["a".into(), "b".into()]);
    assert_eq!(snapshot.failed, []);
}

#[test]
fn own_settings_are_read() {
    let upstream = upstream(
        r#"{"command": "p", "timeout": 60000, "excludeTools": ["x"], "portcullis": {
            "namespace": "word", "isolation": "shared", "required": true, "instructions": "drop",
            "passEnv": ["A"], "questions": ["roots"], "timeouts": {"call": "2h"},
            "toolTimeouts": {"slow": {"callIdle": "10m"}}}}"#,
    );
    assert_eq!(upstream.namespace.as_deref(), Some("word"));
    assert_eq!(upstream.isolation, Some(Isolation::Shared));
    assert!(upstream.required);
    assert_eq!(upstream.questions, Some(vec![Asks::Roots]));
    assert_eq!(upstream.call_total("any"), Duration::from_secs(7200));
    assert_eq!(upstream.call_idle("any"), Duration::from_secs(60));
    assert_eq!(upstream.call_idle("slow"), Duration::from_secs(600));
    assert!(upstream.tools.allows("y") && !upstream.tools.allows("x"));
    let bare = super::read_entry(r#"{"command": "p", "portcullis": {"namespace": "none"}}"#, &[]).unwrap();
    assert_eq!(bare.upstreams[0].namespace, None);
}

#[test]
fn names_are_made_to_fit() {
    let text = r#"{"mcpServers": {
        "GitHub": {"command": "p"}, "github": {"command": "p"}, "My Server": {"command": "p"},
        "my_server": {"command": "p"}, "other": {"command": "p", "portcullis": {"namespace": "my-server"}}
    }}"#;
    let snapshot = read(text, &[]).unwrap();
    let names: Vec<_> = snapshot
        .upstreams
        .iter()
        .map(|u| (&*u.name, u.namespace.as_deref().unwrap()))
        .filter(|(name, _)| !name.starts_with("my-server-"))
        .collect();
    assert_eq!(
        names,
        [("GitHub", "github"), ("github", "github-2"), ("my_server", "my_server-2"), ("other", "my-server")]
    );
    assert_eq!(snapshot.warnings.len(), 2, "{:?}", snapshot.warnings);
    assert_eq!(&*snapshot.upstreams[2].title, "My Server");
}

#[test]
fn a_command_alone_is_a_configuration() {
    let environment: Environment = [("HOME", "/h")].into_iter().collect();
    let argv = ["npx".to_owned(), "-y".to_owned(), "pkg".to_owned()];
    let snapshot = Snapshot::for_command(&argv, &environment).unwrap();
    let Transport::Stdio(stdio) = &snapshot.upstreams[0].transport else { panic!() };
    assert_eq!(stdio.shown(), argv);
    assert_eq!(snapshot.upstreams[0].namespace, None);
    assert_eq!(snapshot.environment.text("HOME"), Some("/h"));
    assert!(Snapshot::for_command(&[], &environment).is_err());
    let snapshot = Snapshot::for_url("http://u:p@h:1/mcp", &environment).unwrap();
    let Transport::Remote(remote) = &snapshot.upstreams[0].transport else { panic!() };
    assert_eq!(remote.url.to_string(), "http://h:1/mcp");
    assert_eq!(remote.headers.len(), 1);
    assert!(Snapshot::for_url("ftp://h", &environment).is_err());
    assert!(Snapshot::for_url("h", &environment).is_err());
}

/// R-28, R-18
#[test]
fn doubts_are_said() {
    for (entry, doubt) in [
        (r#"{"command": "p", "args": ["--token", "abc"]}"#, "argument 2 looks like a secret"),
        (r#"{"command": "npx", "args": ["-y", "pkg"]}"#, "`pkg` has no fixed version"),
        (r#"{"command": "p", "arg": []}"#, "did you mean `args`?"),
        (r#"{"url": "https://h", "oauth": {"clientId": "x"}}"#, "`oauth` is not supported"),
        (r#"{"command": "p", "portcullis": {"namespace": "a-rather-long-namespace"}}"#, "leaves 21 of 46"),
    ] {
        let snapshot = read_entry(entry, &[]).unwrap();
        let said: Vec<_> = snapshot.warnings.iter().map(ToString::to_string).collect();
        assert!(said.iter().any(|warning| warning.contains(doubt)), "{entry}: {said:?}");
        assert!(!said.concat().contains("abc"), "{said:?}");
    }
    let quiet = r#"{"command": "npx", "args": ["pkg@1", "${T:-x}"], "autoApprove": ["x"], "dev": {}}"#;
    assert_eq!(read_entry(quiet, &[]).unwrap().warnings, []);
}

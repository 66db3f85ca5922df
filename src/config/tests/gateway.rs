//! Settings of the gateway, and what must hold between them.

use super::*;
use crate::config::snapshot::Addresses;

#[test]
fn settings_are_read() {
    let snapshot = read_gateway(
        r#"{"listen": "localhost:0", "admin": {"listen": "[::1]:9"}, "socket": "s.sock", "runtime": "shared",
            "stateDirectory": "s", "maxMessage": "1MiB", "http": {"keepAlive": 0, "bodyLimit": 4096,
            "allowedOrigins": ["https://App.Example.com/"], "publicUrl": "https://h/x"},
            "log": {"level": "debug"}, "catalog": {"refresh": 90}}"#,
    )
    .unwrap();
    assert_eq!(snapshot.listen.to_string(), "127.0.0.1:0");
    assert_eq!(snapshot.admin_listen.to_string(), "[::1]:9");
    assert!(snapshot.socket.is_some_and(|path| path.ends_with("s.sock")));
    assert_eq!(snapshot.max_message, 1 << 20);
    assert!(snapshot.http.keep_alive.is_zero());
    assert_eq!(snapshot.http.body_limit, 4096);
    assert_eq!(snapshot.http.allowed_origins, ["https://app.example.com"]);
    assert_eq!(snapshot.catalog.refresh.as_secs(), 90);
    assert_eq!(snapshot.http.max_depth, 128, "others keep their defaults");
}

#[test]
fn settings_take_variables() {
    let text = r#"{"mcpServers": {}, "portcullis": {"listen": "127.0.0.1:${PORT}",
        "sessions": {"max": "${MAX}", "perPrincipal": "5"}}}"#;
    let snapshot = read(text, &[("PORT", "81"), ("MAX", "9")]).unwrap();
    assert_eq!(snapshot.listen.port(), 81);
    assert_eq!(snapshot.sessions.max, 9);
    let problems = read(text, &[("PORT", "hunter2")]).unwrap_err();
    assert_eq!(
        problems.0.len(),
        2,
        "in the gateway's own settings a missing variable is a fault: {problems}"
    );
    assert!(!problems.to_string().contains("hunter2"));
}

/// R-25
#[test]
fn an_open_door_needs_a_key_or_a_word() {
    let key =
        r#"{"name": "a", "sha256": "DDB74C22be3e5862f1ae5f2e9f52e2d58b83b1eb74ee4b2a5bb4c1eea7a7b3c1"}"#;
    let problems = read_gateway(r#"{"listen": "0.0.0.0:7420"}"#).unwrap_err();
    assert!(problems.to_string().contains("portcullis.auth.keys"), "{problems}");
    assert!(problems.0[0].position.is_some());
    let open = read_gateway(r#"{"listen": "0.0.0.0:7420", "auth": {"allowAnonymous": true}}"#).unwrap();
    assert!(open.admits_anonymous());
    let keyed =
        read_gateway(&format!(r#"{{"listen": "0.0.0.0:7420", "auth": {{"keys": [{key}]}}}}"#)).unwrap();
    assert!(!keyed.admits_anonymous());
    assert_eq!(keyed.auth.keys[0].sha256.0[0], 0xdd);
    let local = read_gateway(&format!(r#"{{"auth": {{"keys": [{key}]}}}}"#)).unwrap();
    assert!(!local.admits_anonymous(), "with keys, loopback is no credential");
    let local = read_gateway("{}").unwrap();
    assert!(local.admits_anonymous());
    let elsewhere = Addresses { clients: Some("0.0.0.0:1".parse().unwrap()), operator: None };
    let problems = local.listening_on(elsewhere).unwrap_err();
    assert!(problems.to_string().starts_with("command line: portcullis.listen: 0.0.0.0:1"), "{problems}");
}

#[test]
fn settings_that_do_not_go_together_are_refused() {
    for (settings, field) in [
        (r#"{"admin": {"listen": "127.0.0.1:7420"}}"#, "portcullis.admin.listen"),
        (r#"{"sessions": {"max": 10}}"#, "portcullis.sessions.perPrincipal"),
        (r#"{"children": {"perUpstream": 9, "total": 3}}"#, "portcullis.children.perUpstream"),
        (r#"{"catalog": {"maxItemSize": "2MiB", "maxSize": "1MiB"}}"#, "portcullis.catalog.maxItemSize"),
    ] {
        let problems = read_gateway(settings).unwrap_err();
        assert_eq!(problems.0[0].field, field, "{problems}");
        assert!(problems.0[0].mend.is_some());
    }
    let same = read_gateway(r#"{"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}}"#);
    assert!(same.is_ok(), "port 0 is a different one each time");
}

#[test]
fn upstreams_that_do_not_go_together_are_refused() {
    let caller = r#"{"command": "p", "portcullis": {"isolation": "caller"}}"#;
    let problems = read_entry(caller, &[]).unwrap_err();
    assert_eq!(problems.0[0].field, "mcpServers.a.portcullis.isolation", "R-10: {problems}");
    let two = |first: &str, second: &str| {
        let entry =
            |namespace| format!(r#"{{"command": "p", "portcullis": {{"namespace": "{namespace}"}}}}"#);
        let text = format!(r#"{{"servers": {{"a": {}, "b": {}}}}}"#, entry(first), entry(second));
        read(&text, &[])
    };
    let problems = two("x_y", "x-y").unwrap_err();
    assert_eq!(problems.0[0].field, "servers.b.portcullis.namespace", "RES-04: {problems}");
    let bare = two("none", "none").unwrap();
    assert_eq!(bare.warnings[0].field, "servers.b.portcullis.namespace", "R-19");
    let twice = r#"{"servers": {"a": {"command": "p"}}, "mcpServers": {"a": {"command": "p"}}}"#;
    assert!(read(twice, &[]).unwrap_err().to_string().contains("another entry has the same name"));
}

#[test]
fn secrets_of_the_gateway_are_not_shown() {
    let key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let snapshot = read_gateway(&format!(r#"{{"sealKeys": ["{key}"]}}"#)).unwrap();
    assert_eq!(
        snapshot.seal_keys[0].reveal(),
        std::array::from_fn::<u8, 32, _>(|byte| byte as u8).as_slice()
    );
    assert!(format!("{snapshot:?}").contains("seal_keys: [***]"));
    for settings in
        [r#"{"sealKeys": ["hunter2"]}"#, r#"{"auth": {"keys": [{"name": "a", "sha256": "hunter2"}]}}"#]
    {
        let problems = read_gateway(settings).unwrap_err();
        assert!(!problems.to_string().contains("hunter2"), "{problems}");
    }
}

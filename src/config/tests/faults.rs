//! What is said of files that are wrong: where, what, what is allowed, all at once.

use proptest::prelude::*;

use super::*;

#[test]
fn all_faults_at_once_each_with_place_and_mend() {
    let text = r#"{
  "mcpServers": {
    "alpha": { "command": "p", "portcullis": { "isolatoin": "shared" } },
    "beta": { "url": "not a url" },
    "gamma": { "type": "http", "command": "p" },
    "delta": {}
  },
  "portcullis": {
    "listn": "127.0.0.1:1",
    "log": { "level": "verbose" },
    "http": { "bodyLimit": "16XB", "maxDepth": 7 },
    "auth": { "keys": [ { "name": "a" } ] }
  }
}"#;
    let problems = read(text, &[]).unwrap_err();
    insta::assert_snapshot!(problems.to_string());
}

#[test]
fn the_same_fault_is_found_in_every_format() {
    for (format, text, line) in [
        (Format::Json, "{\"portcullis\":\n {\"listn\": 1}, \"servers\": {}}", 2),
        (Format::Yaml, "servers: {}\nportcullis:\n  listn: 1\n", 3),
        (Format::Toml, "[servers]\n[portcullis]\nlistn = 1\n", 3),
    ] {
        let problems = parse(text, format, "f", &Environment::default()).unwrap_err();
        let problem = &problems.0[0];
        assert_eq!(problem.field, "portcullis.listn", "{format:?}");
        assert_eq!(problem.position.unwrap().line, line, "{format:?}");
        assert!(problem.mend.as_ref().unwrap().contains("did you mean `listen`?"), "{problem}");
    }
}

#[test]
fn a_file_that_lists_no_servers_is_noticed() {
    for (text, said) in [
        ("{}", "`mcpServers`, `servers` or `mcp_servers`"),
        ("", "this is nothing"),
        ("[]", "this is a list"),
        (r#"{"mcpServer": {}}"#, "did you mean `mcpServers`?"),
        (r#"{"mcpServers": {}, "portculis": {}}"#, "did you mean `portcullis`?"),
        (r#"{"mcpServers": {"a": {"command": "p", "Portcullis": {}}}}"#, "did you mean `portcullis`?"),
        (r#"{"mcpServers": {"a": {"comand": "p"}}}"#, "did you mean `command`?"),
        (r#"{"mcpServers": 7}"#, "this is a number"),
        (r#"{"mcpServers": {"a": "p"}}"#, "this is a text"),
    ] {
        let problems = read(text, &[]).unwrap_err();
        assert!(problems.to_string().contains(said), "{text}: {problems}");
    }
    let settings_only = read(r#"{"portcullis": {}}"#, &[]).unwrap();
    assert_eq!(settings_only.warnings.len(), 1);
    let foreign = r#"{"mcpServers": {}, "theme": "dark", "projects": {"x": 1}, "$schema": "y"}"#;
    assert_eq!(read(foreign, &[]).unwrap().warnings, []);
}

#[test]
fn headers_that_are_not_ours_to_set_are_refused() {
    for header in [
        "Mcp-Session-Id",
        "host",
        "Content-Length",
        "Content-Language",
        "Proxy-Authorization",
        "a b",
        "",
        "x:y",
    ] {
        let entry = format!(r#"{{"url": "http://h/", "headers": {{"{header}": "hunter2"}}}}"#);
        let problems = read_entry(&entry, &[]).unwrap_err();
        assert!(!problems.to_string().contains("hunter2"), "F-093: {problems}");
    }
    let entry = r#"{"url": "http://h/", "headers": {"x": "hunter2\nInjected: 1"}}"#;
    let problems = read_entry(entry, &[]).unwrap_err();
    assert!(!problems.to_string().contains("hunter2"), "F-093: {problems}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let environment = Environment::default();
    let folder = tempfile::tempdir().unwrap();
    let missing = load(&folder.path().join("none.json"), &environment).unwrap_err();
    assert!(missing.to_string().contains("none.json: cannot read the file"), "{missing}");
    let ending = load(&folder.path().join("x.ini"), &environment).unwrap_err();
    assert!(ending.to_string().contains(".yaml"), "{ending}");
    let binary = folder.path().join("x.json");
    write(&binary, b"\xff\xfe");
    assert!(load(&binary, &environment).unwrap_err().to_string().contains("not UTF-8"));
    write(&binary, r#"{"mcpServers": {"a": {"command": "${FROM_FILE}"}}}"#);
    std::fs::write(folder.path().join(".env"), "FROM_FILE=p\n").unwrap();
    let snapshot = load(&binary, &environment).unwrap();
    assert_eq!(snapshot.failed, []);
    assert_eq!(snapshot.source.as_deref(), Some(binary.as_path()));
}

/// Texts that are configurations in part.
fn document() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "1",
        "-1",
        "true",
        "null",
        "\"x\"",
        "\"${A}\"",
        "\"${\"",
        "\"127.0.0.1:1\"",
        "\"1s\"",
        "\"none\"",
        "[]",
        "{}",
        "\"http://h/\"",
        "\"stdio\"",
        "1e400",
        "\"\\u0000\"",
    ]);
    let key = prop::sample::select(vec![
        "mcpServers",
        "servers",
        "portcullis",
        "listen",
        "http",
        "auth",
        "keys",
        "command",
        "args",
        "env",
        "url",
        "type",
        "headers",
        "timeouts",
        "namespace",
        "toolTimeouts",
        "sealKeys",
        "timeout",
        "name",
        "sha256",
        "ä",
        "",
    ]);
    let leaf = leaf.prop_map(str::to_owned);
    leaf.prop_recursive(5, 40, 5, move |inner| {
        let pairs = prop::collection::vec((key.clone(), inner.clone()), 0..5);
        let table = pairs.prop_map(|pairs| {
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
            format!("{{{}}}", pairs.join(", "))
        });
        let list = prop::collection::vec(inner, 0..4).prop_map(|list| format!("[{}]", list.join(", ")));
        prop_oneof![4 => table, 1 => list]
    })
}

proptest! {
    #[test]
    fn any_text_is_survived(text: String) {
        for format in [Format::Json, Format::Yaml, Format::Toml] {
            let _ = parse(&text, format, "f", &Environment::default());
        }
    }

    #[test]
    fn anything_like_a_configuration_is_survived(text in document()) {
        for format in [Format::Json, Format::Yaml] {
            if let Err(problems) = parse(&text, format, "f", &Environment::default()) {
                prop_assert!(!problems.0.is_empty());
                let _ = problems.to_string();
            }
        }
    }
}

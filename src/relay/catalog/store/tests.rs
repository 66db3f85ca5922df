//! Keeping and finding again, and what is found by whom.

use super::*;
use crate::config::{Format, parse};
use crate::relay::catalog::snapshot::Snapshot;

/// The store of a state directory, and the upstream of this entry.
fn store(folder: &Path, entry: &str, portcullis: &str) -> (Store, Arc<Upstream>) {
    let file = format!(
        r#"{{"mcpServers": {{"alpha": {entry}}}, "portcullis": {{"stateDirectory": {:?}{portcullis}}}}}"#,
        folder.to_str().unwrap()
    );
    let environment: Environment = [("ACCOUNT", "me"), ("OTHER", "you")].into_iter().collect();
    let config = parse(&file, Format::Json, "test.json", &environment).unwrap();
    assert!(config.failed.is_empty(), "{:?}", config.failed);
    (Store::of(&config).unwrap(), Arc::clone(&config.upstreams[0]))
}

fn snapshot() -> Snapshot {
    let read = |kind, text: &'static str| item::read(kind, &Bytes::from(text), 9999).unwrap();
    let tool = r#"{"name":"t","inputSchema":{"type":"object"},"x":1.50}"#;
    Snapshot {
        handshake: Arc::new(Handshake {
            revision: Revision::LATEST,
            capabilities: ServerCapabilities { tools: true, tools_changed: true, ..Default::default() },
            server_info: Bytes::from_static(br#"{"name":"s","version":"1"}"#),
            instructions: Some("say \"please\"".into()),
        }),
        items: [
            Arc::new(vec![read(ItemKind::Tool, tool)]),
            Arc::default(),
            Arc::new(vec![read(ItemKind::Resource, r#"{"uri":"a://1","name":"r"}"#)]),
            Arc::default(),
        ],
        read_at: clock::now(),
        stale: false,
    }
}

/// R-22: what was kept is found as it was, and known to be old.
#[test]
fn r_22_lists_are_found_as_they_were_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (store, alpha) = store(folder.path(), r#"{"url": "http://127.0.0.1:1/"}"#, "");
    assert!(store.load(&alpha).is_none());
    store.save(&alpha, &snapshot()).unwrap();
    let found = store.load(&alpha).unwrap();
    assert!(found.says_same(&snapshot()));
    assert!(found.stale);
    std::fs::write(store.path(&alpha), "{").unwrap();
    assert!(store.load(&alpha).is_none(), "a broken file is as good as none");
}

/// R-22: how old lists are does not begin anew when they are written.
#[tokio::test(start_paused = true)]
async fn r_22_old_lists_are_not_found() {
    let folder = tempfile::tempdir().unwrap();
    let (store, alpha) =
        store(folder.path(), r#"{"url": "http://127.0.0.1:1/"}"#, r#", "catalog": {"staleFor": "1h"}"#);
    let old = snapshot();
    tokio::time::advance(Duration::from_mins(61)).await;
    store.save(&alpha, &old).unwrap();
    assert!(store.load(&alpha).is_none());
    store.save(&alpha, &snapshot()).unwrap();
    assert!(store.load(&alpha).is_some());
}

/// R-22: another account, or another rule for findings, does not find them.
#[test]
fn r_22_lists_belong_to_credentials_and_rules() {
    let folder = tempfile::tempdir().unwrap();
    let child = |args: &str, more: &str| format!(r#"{{"command": "/bin/server", "args": [{args}]{more}}}"#);
    let kept = [
        (r#"{"url": "http://127.0.0.1:1/", "headers": {"authorization": "Bearer mine"}}"#.to_owned(), ""),
        (child(r#""--token", "mine""#, ""), ""),
        (child("", r#", "env": {"TOKEN": "mine"}"#), ""),
    ];
    let others = [
        (r#"{"url": "http://127.0.0.1:1/", "headers": {"authorization": "Bearer yours"}}"#.to_owned(), ""),
        (r#"{"url": "http://127.0.0.1:1/"}"#.to_owned(), ""),
        (kept[0].0.clone(), r#", "catalog": {"onFinding": "withhold"}"#),
        (child(r#""--token", "yours""#, ""), ""),
        (child(r#""--token=mine""#, ""), ""),
        (child("", r#", "env": {"TOKEN": "yours"}"#), ""),
        (child("", r#", "cwd": "/tmp""#), ""),
        (child("", r#", "portcullis": {"passEnv": ["ACCOUNT"]}"#), ""),
        (child("", r#", "portcullis": {"passEnv": ["OTHER"]}"#), ""),
    ];
    for (entry, more) in &kept {
        let (store, alpha) = store(folder.path(), entry, more);
        store.save(&alpha, &snapshot()).unwrap();
        assert!(store.load(&alpha).is_some());
    }
    for (entry, more) in &others {
        let (store, alpha) = store(folder.path(), entry, more);
        assert!(store.load(&alpha).is_none(), "{entry}");
        store.save(&alpha, &snapshot()).unwrap();
    }
    let files: Vec<_> =
        std::fs::read_dir(folder.path().join("catalog")).unwrap().map(Result::unwrap).collect();
    assert_eq!(files.len(), kept.len() + others.len());
    for file in files {
        let text = std::fs::read_to_string(file.path()).unwrap() + file.file_name().to_str().unwrap();
        assert!(!text.contains("mine") && !text.contains("yours"), "SEC-24: {text}");
    }
}

/// R-22: nobody else reads them.
#[cfg(unix)]
#[test]
fn r_22_the_files_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let (store, alpha) = store(folder.path(), r#"{"url": "http://127.0.0.1:1/"}"#, "");
    store.save(&alpha, &snapshot()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&store.folder), 0o700);
    assert_eq!(mode(&store.path(&alpha)), 0o600);
}

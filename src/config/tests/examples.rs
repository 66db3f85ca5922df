//! The files under `config/`: all of them load, and they show what there is.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value as Json;

use super::*;
use crate::config::document::{Node, Source, Value};
use crate::config::snapshot::{Timeouts, Transport};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config")
}

/// The examples in a folder of their own, with the modes that a checkout may not have kept.
fn load_example(name: &str) -> Snapshot {
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join(name);
    write(&path, std::fs::read(folder().join(name)).unwrap());
    let variables =
        [("HOME", "/home/u"), ("TRACKER_TOKEN", "t"), ("REGION", "eu"), ("INPUT_WIKI_TOKEN", "w")];
    let environment = variables.into_iter().collect();
    load(&path, &environment).unwrap_or_else(|problems| panic!("{name}:\n{problems}"))
}

#[test]
fn every_example_loads() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".schema.json") || name == "fleet.yaml" {
            continue;
        }
        seen += 1;
        let snapshot = load_example(&name);
        assert!(!snapshot.upstreams.is_empty(), "{name}");
        assert_eq!(snapshot.failed, [], "{name}");
        assert_eq!(snapshot.warnings, [], "{name}");
    }
    assert!(seen >= 6);
}

#[test]
fn the_fleet_loads_where_its_secrets_are() {
    let secrets = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(folder().join("fleet.yaml")).unwrap();
    std::fs::write(secrets.path().join("seal-key"), "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n")
        .unwrap();
    std::fs::write(secrets.path().join("token"), "t0k3n\n").unwrap();
    let text = text
        .replace("/run/secrets/portcullis", &secrets.path().to_string_lossy())
        .replace("/run/secrets/builds", &secrets.path().to_string_lossy());
    let snapshot = parse(&text, Format::Yaml, "fleet.yaml", &Environment::default()).unwrap();
    assert_eq!(snapshot.failed, []);
    assert_eq!(snapshot.warnings, []);
    assert_eq!(snapshot.seal_keys.len(), 1);
    assert!(!snapshot.admits_anonymous());
    let builds = snapshot.upstream("builds").unwrap();
    assert_eq!(builds.timeouts.call_idle.as_secs(), 600);
    assert_eq!(builds.call_total("run_all_tests").as_secs(), 12 * 3600);
    assert_eq!(builds.call_total("other").as_secs(), 4 * 3600);
    assert!(!format!("{snapshot:?}").contains("t0k3n"));
}

#[test]
fn the_schema_is_up_to_date() {
    let path = folder().join("portcullis.schema.json");
    let committed: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        committed == schema(),
        "the schema has changed; run: cargo run -- schema > config/portcullis.schema.json"
    );
}

#[test]
fn the_full_example_has_the_defaults() {
    let mut shown = load_example("portcullis.example.yaml");
    let mut plain = read(r#"{"mcpServers": {}}"#, &[]).unwrap();
    for upstream in &shown.upstreams {
        assert_eq!(upstream.timeouts, Timeouts::default());
    }
    shown.upstreams.clear();
    shown.environment = plain.environment.clone();
    plain.source = shown.source.clone();
    assert_eq!(format!("{shown:?}"), format!("{plain:?}"));
}

#[test]
fn the_full_example_has_every_key() {
    let text = std::fs::read_to_string(folder().join("portcullis.example.yaml")).unwrap();
    // Keys without a default are commented out, without a space after the `#`.
    let keys = text.lines().map(|line| match line.trim_start().strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase()) => line.replacen('#', "", 1),
        Some(key) if key.starts_with("  - name:") || key.starts_with("    sha256:") => {
            line.replacen('#', " ", 1)
        }
        _ => line.replace("keys: []", "keys:"),
    });
    let text: String = keys.map(|line| line + "\n").collect();
    let source = Source::new("portcullis.example.yaml", text.as_str());
    let root = Format::Yaml.read(&source).unwrap();
    let schema = schema();
    let mut missing = BTreeSet::new();
    find_missing(&schema, &schema, &[&root], "", &mut missing);
    for other_root in ["inputs", "servers", "mcp_servers"] {
        assert!(missing.remove(other_root), "{other_root}");
    }
    assert_eq!(missing, BTreeSet::new(), "keys that the example does not show");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("full.yaml");
    write(&path, text);
    std::fs::write(folder.path().join("program.env"), "A=1\n").unwrap();
    let snapshot = load(&path, &Environment::default()).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(snapshot.failed, []);
}

/// Notes each key of a schema that none of the nodes has.
fn find_missing(schema: &Json, root: &Json, nodes: &[&Node], path: &str, missing: &mut BTreeSet<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        return find_missing(&root["$defs"][name], root, nodes, path, missing);
    }
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        find_missing(alternative, root, nodes, path, missing);
    }
    let members = || {
        nodes.iter().flat_map(|node| match &node.value {
            Value::Table(members) => members.as_slice(),
            _ => &[],
        })
    };
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let inside: Vec<&Node> = members().filter(|m| m.key == *key).map(|m| &m.value).collect();
        let path = format!("{path}.{key}").trim_start_matches('.').to_owned();
        if inside.is_empty() {
            missing.insert(path);
        } else {
            find_missing(schema, root, &inside, &path, missing);
        }
    }
    if schema["additionalProperties"].is_object() {
        let inside: Vec<&Node> = members().map(|member| &member.value).collect();
        let path = format!("{path}.*");
        find_missing(&schema["additionalProperties"], root, &inside, &path, missing);
    }
    if schema["items"].is_object() {
        let items = nodes.iter().flat_map(|node| match &node.value {
            Value::List(list) => list.as_slice(),
            _ => &[],
        });
        find_missing(&schema["items"], root, &items.collect::<Vec<_>>(), path, missing);
    }
}

#[test]
fn other_clients_files_are_understood() {
    let codex = load_example("codex.toml");
    assert_eq!(codex.disabled, ["old".into()]);
    let memory = codex.upstream("memory").unwrap();
    assert_eq!(memory.timeouts.first_start.as_secs(), 60);
    assert_eq!(memory.timeouts.call_idle.as_secs(), 120);
    let tracker = codex.upstream("tracker").unwrap();
    let Transport::Remote(remote) = &tracker.transport else { panic!("{tracker:?}") };
    let headers: Vec<_> = remote.headers.iter().map(|(n, v)| (n.as_str(), v.reveal())).collect();
    assert_eq!(headers, [("x-team", "tools"), ("x-region", "eu"), ("authorization", "Bearer t")]);
    assert!(tracker.tools.allows("search"));
    assert!(!tracker.tools.allows("delete_issue") && !tracker.tools.allows("other"));

    let code = load_example("vscode.json");
    let Transport::Stdio(stdio) = &code.upstream("memory").unwrap().transport else { panic!() };
    assert!(stdio.env[0].1.reveal().ends_with("/memory.json"));
    assert!(!stdio.env[0].1.reveal().starts_with('$'));
}

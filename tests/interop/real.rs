//! Servers that people run, behind one endpoint, asked by every official client.
//!
//! *Invariants*: a server is left as it was found, so that each client finds the same.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    clients::{compare, inspect},
    gateway::Gateway,
    peers,
    plan::{Client, Names, Report, Target, lists, until},
};

/// The client that can talk to each server directly sets the measure; it must get the same in
/// every detail, the others the same names, texts and data.
#[tokio::test]
async fn real_servers_are_the_same_through_one_endpoint() {
    let place = place();
    let servers = servers(place.path());
    let mut direct = Vec::new();
    for server in &servers {
        // Some list tools only for clients that can be asked.
        let report = Client::TYPESCRIPT.run_answering(&server.target, &server.steps(Names::Own)).await;
        server.sound(&report);
        direct.extend(report.outcomes.into_iter().map(listed));
    }
    let upstreams: Vec<_> = servers.iter().map(|server| (server.name, server.target.clone())).collect();
    let gateway = Gateway::merged(&upstreams).await;
    for client in [Client::TYPESCRIPT, Client::Python, Client::RUST] {
        let steps = servers.iter().flat_map(|server| server.steps(Names::Under(server.name)));
        let merged = client.run_answering(&gateway.endpoint(), &steps.collect::<Vec<_>>()).await;
        assert_eq!(count(&merged.outcomes[..1]), count(&direct), "tools in all, {client:?}");
        check(client, &servers, &direct, &merged.outcomes);
    }
    inspector_reaches(&gateway, &servers).await;
    gateway.stop().await;
}

struct Server {
    name: &'static str,
    target: Target,
    asked: fn(&Path, Names) -> Vec<Value>,
    folder: std::path::PathBuf,
    /// Tool, its arguments as the Inspector takes them, and a part of the answer.
    inspected: (&'static str, Vec<String>, &'static str),
}

impl Server {
    fn steps(&self, names: Names) -> Vec<Value> {
        [lists(), (self.asked)(&self.folder, names)].concat()
    }

    /// A direct run that went wrong would make a poor measure.
    fn sound(&self, direct: &Report) {
        let asked = &direct.outcomes[lists().len()..];
        let wrong = |outcome: &&Value| outcome["error"].is_object() || outcome["result"]["isError"] == true;
        let wrong: Vec<_> = asked.iter().filter(wrong).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", self.name);
    }
}

/// A folder with a file to read and a repository to look into.
fn place() -> TempDir {
    let place = tempfile::tempdir().expect("a folder for the servers");
    let files = place.path().join("files");
    fs::create_dir(&files).expect("a folder can be made");
    fs::write(files.join("letter.txt"), "Dear reader,\ngrüße.\n").expect("a file can be written");
    let repository = place.path().join("repository");
    fs::create_dir(&repository).expect("a folder can be made");
    fs::write(repository.join("page"), "one\n").expect("a file can be written");
    for words in
        [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "Write a page"]]
    {
        let done = Command::new("git")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"])
            .args(words)
            .current_dir(&repository)
            .status();
        assert!(
            done.is_ok_and(|status| status.success()),
            "git {words:?}: `bash tests/setup.sh` installs git"
        );
    }
    place
}

fn servers(place: &Path) -> Vec<Server> {
    // Servers compare real paths with those that they are given.
    let place = place.canonicalize().expect("the folder is there");
    let path = |name: &str| place.join(name).display().to_string();
    let npm =
        |name: &str, args: &[String]| Target::stdio(peers::node(), [&[peers::script(name)], args].concat());
    let pypi = |name: &str, args: &[String]| Target::stdio(peers::python_server(name), args.to_vec());
    let server =
        |name, target, asked, inspected| Server { name, target, asked, folder: place.clone(), inspected };
    let repository = format!("repo_path={}", path("repository"));
    let letter = format!("path={}", path("files/letter.txt"));
    let zones = ["source_timezone=Asia/Kolkata", "time=12:00", "target_timezone=Asia/Tokyo"]
        .map(str::to_owned)
        .to_vec();
    let memory = npm("mcp-server-memory", &[]).with_env("MEMORY_FILE_PATH", &path("memory.jsonl"));
    vec![
        server(
            "everything",
            npm("mcp-server-everything", &[]),
            everything,
            ("echo", vec!["message=hello".to_owned()], "Echo: hello"),
        ),
        server(
            "files",
            npm("mcp-server-filesystem", &[path("files")]),
            files,
            ("read_text_file", vec![letter], "Dear reader"),
        ),
        server("memory", memory, remembered, ("read_graph", vec![], "entities")),
        server(
            "time",
            pypi("mcp-server-time", &["--local-timezone".to_owned(), "UTC".to_owned()]),
            time,
            ("convert_time", zones, "+3.5h"),
        ),
        server("git", pypi("mcp-server-git", &[]), git, ("git_log", vec![repository], "Write a page")),
    ]
}

fn everything(_: &Path, names: Names) -> Vec<Value> {
    vec![
        names.call("echo", json!({ "message": "grüße, 世界" })),
        names.call("get-sum", json!({ "a": 2, "b": 40.5 })),
        names.call("get-tiny-image", json!({})),
        names.call("get-structured-content", json!({ "location": "Chicago" })),
        names.call("get-annotated-message", json!({ "messageType": "error", "includeImage": true })),
        names.call("get-resource-links", json!({ "count": 2 })),
        names.call("trigger-long-running-operation", json!({ "duration": 1, "steps": 4 })),
        names.read("demo://resource/static/document/features.md"),
        // Says when it was made.
        until(names.read("demo://resource/dynamic/text/1"), "plaintext"),
        names.prompt("simple-prompt", json!({})),
        names.prompt("args-prompt", json!({ "city": "Paris", "state": "Texas" })),
        names.complete_prompt("completable-prompt", json!({ "name": "department", "value": "E" }), json!({})),
    ]
}

fn files(place: &Path, names: Names) -> Vec<Value> {
    let path = |name: &str| place.join("files").join(name).display().to_string();
    vec![
        names.call("write_file", json!({ "path": path("copy.txt"), "content": "first\nsecond\n" })),
        names.call("read_text_file", json!({ "path": path("letter.txt") })),
        names.call("list_directory", json!({ "path": path("") })),
        names.call("search_files", json!({ "path": path(""), "pattern": "*.txt" })),
    ]
}

fn remembered(_: &Path, names: Names) -> Vec<Value> {
    let ada = json!({ "name": "Ada", "entityType": "person", "observations": ["writes programs"] });
    vec![
        names.call("create_entities", json!({ "entities": [ada] })),
        names.call("search_nodes", json!({ "query": "programs" })),
        names.read("memory://knowledge-graph"),
        names.call("delete_entities", json!({ "entityNames": ["Ada"] })),
    ]
}

fn time(_: &Path, names: Names) -> Vec<Value> {
    // The answer names the day, which may end while the test runs.
    let hours =
        json!({ "source_timezone": "Asia/Kolkata", "time": "12:00", "target_timezone": "Asia/Tokyo" });
    vec![until(names.call("convert_time", hours), "+3.5h")]
}

fn git(place: &Path, names: Names) -> Vec<Value> {
    let repository = place.join("repository").display().to_string();
    vec![
        names.call("git_status", json!({ "repo_path": repository })),
        names.call("git_log", json!({ "repo_path": repository, "max_count": 1 })),
        names.call("git_show", json!({ "repo_path": repository, "revision": "HEAD" })),
    ]
}

/// Compares what a client got with what came directly, server by server.
fn check(client: Client, servers: &[Server], direct: &[Value], through: &[Value]) {
    let (mut direct, mut through) = (direct, through);
    let mut differences = Vec::new();
    for server in servers {
        let names = Names::Under(server.name);
        let steps = server.steps(names);
        let (expected, found);
        (expected, direct) = direct.split_at(steps.len());
        (found, through) = through.split_at(steps.len());
        differences.extend(if matches!(client, Client::TypeScript(_)) {
            compare(names, &steps, expected, found)
        } else {
            let expected: Vec<_> = expected.iter().map(told).collect();
            let found: Vec<_> = found.iter().map(|outcome| told(&names.own(outcome))).collect();
            compare(Names::Own, &steps, &expected, &found)
        });
    }
    assert!(differences.is_empty(), "{client:?}:\n{}", differences.join("\n"));
}

/// A server without a kind of item has an empty list of it.
fn listed(outcome: Value) -> Value {
    const METHOD_NOT_FOUND: i32 = -32601;
    if outcome["error"]["code"] == METHOD_NOT_FOUND {
        return json!({ "items": [], "pages": 1 });
    }
    outcome
}

/// How many tools these outcomes list.
fn count(outcomes: &[Value]) -> usize {
    let items = outcomes.iter().filter_map(|outcome| outcome["items"].as_array()).flatten();
    items.filter(|item| item["inputSchema"].is_object()).count()
}

/// What every client shows of an outcome, however it words the rest: names, texts, data.
fn told(outcome: &Value) -> Value {
    fn gather(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (key, member) in members {
                    match member.as_str() {
                        Some(text)
                            if ["name", "uri", "uriTemplate", "text", "blob", "data"]
                                .contains(&key.as_str()) =>
                        {
                            into.push(format!("{key} {text}"))
                        }
                        Some(_) => {}
                        None if key == "structuredContent" || key.ends_with("Schema") => {}
                        None => gather(member, into),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| gather(item, into)),
            _ => {}
        }
    }
    if outcome["error"].is_object() {
        return outcome.clone();
    }
    let mut told = Vec::new();
    gather(outcome, &mut told);
    told.sort();
    json!({ "told": told })
}

async fn inspector_reaches(gateway: &Gateway, servers: &[Server]) {
    let everything = Names::Under("everything");
    let document = everything.uri("demo://resource/static/document/features.md");
    let prompt = everything.name("simple-prompt");
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let mut asked = vec![
        (words(&["resources/read", "--uri", &document]), "Features"),
        (words(&["prompts/get", "--prompt-name", &prompt]), "simple prompt"),
    ];
    for Server { name, inspected: (tool, args, part), .. } in servers {
        let mut call = words(&["tools/call", "--tool-name", &Names::Under(name).name(tool)]);
        if !args.is_empty() {
            call.push("--tool-arg".to_owned());
            call.extend(args.iter().cloned());
        }
        asked.push((call, part));
    }
    for (words, part) in asked {
        let answer = inspect(&gateway.endpoint(), &words).await;
        assert!(answer.to_string().contains(part), "{words:?}: {answer}");
    }
}

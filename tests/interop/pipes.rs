//! Official clients that start programs: `portcullis stdio` and `portcullis connect` as their servers.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};

use crate::{
    clients::{changes, compare, features},
    peers::{self, Fixture},
    plan::{Client, Names, Target},
    process::Program,
};

#[tokio::test]
async fn typescript_client_gets_the_same_through_pipes() {
    same_through_pipes(Client::TYPESCRIPT).await;
}

#[tokio::test]
async fn python_client_gets_the_same_through_pipes() {
    same_through_pipes(Client::Python).await;
}

/// A child behind `stdio`, on the endpoint of its own and on the merged one, and a server on the network behind `connect`.
/// A child whose lists change is another one than that whose lists are read, so that only the server on the network does.
async fn same_through_pipes(client: Client) {
    let home = tempfile::tempdir().expect("a folder for the program");
    let child = peers::everything(&["--name", "alpha"]);
    let remote = Fixture::everything(&["--name", "alpha"]).await;
    let all = |label| [asked(Names::Own, label), changes(Names::Own)].concat();
    let direct = client.run(&remote.target(), &all("direct")).await;
    let file = file(home.path(), &child);
    let (merged, url) = (Names::Under("alpha"), remote.target());
    let ways = [
        (Names::Own, "own", asked(Names::Own, "own"), vec!["stdio", "-c", &file, "--server", "alpha"]),
        (merged, "merged", asked(merged, "merged"), vec!["stdio", "-c", &file]),
        (Names::Own, "bridged", all("bridged"), vec!["connect", url.url()]),
    ];
    let mut differences = Vec::new();
    for (names, label, steps, arguments) in ways {
        let through = client.run(&pipe(home.path(), &arguments), &steps).await;
        assert_eq!(through.revision, "2025-11-25", "{label}");
        let found = compare(names, &steps, &direct.outcomes[..steps.len()], &through.outcomes);
        differences.extend(found.into_iter().map(|difference| format!("{label}: {difference}")));
    }
    assert!(differences.is_empty(), "{client:?}:\n{}", differences.join("\n"));
}

/// What a client asks for here. No progress: the TypeScript client loses what it reads in one piece with the answer, and
/// whether it does is for the system to decide.
fn asked(names: Names, label: &str) -> Vec<Value> {
    let mut steps = features(names, label);
    steps.retain(|step| step["progress"] != true);
    steps
}

/// The Inspector reads the file that clients have.
#[tokio::test]
async fn inspector_finds_both_in_its_file() {
    const ANSWER: Duration = Duration::from_secs(120);
    let home = tempfile::tempdir().expect("a folder for the Inspector");
    let remote = Fixture::everything(&["--name", "beta"]).await;
    let own = file(home.path(), &peers::everything(&["--name", "alpha"]));
    let program = env!("CARGO_BIN_EXE_portcullis");
    let servers = json!({ "mcpServers": {
        "all": { "command": program, "args": ["stdio", "-c", own] },
        "remote": { "command": program, "args": ["connect", remote.target().url()] },
    }});
    let clients = home.path().join("clients.json");
    fs::write(&clients, servers.to_string()).expect("the file can be written");
    for (server, tool) in [("all", "alpha__probe_echo"), ("remote", "probe_echo")] {
        let output = Program::new(peers::node())
            .args([&peers::script("mcp-inspector"), "--cli", "--config", &clients.display().to_string()])
            .args(["--server", server, "--method", "tools/call", "--tool-name", tool])
            .args(["--tool-arg", "note=hello"])
            .env("HOME", home.path())
            .output("", ANSWER)
            .await;
        assert!(output.status.success(), "{server}: {output:?}");
        let answer: Value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert!(answer.to_string().contains("hello"), "{server}: {answer}");
    }
}

/// A configuration with this server under the name `alpha`.
pub fn file(folder: &Path, server: &Target) -> String {
    let config = json!({ "mcpServers": { "alpha": server.plan() } });
    let path = folder.join("portcullis.json");
    fs::write(&path, config.to_string()).expect("the file can be written");
    path.display().to_string()
}

/// The program with these arguments, as a client starts it.
pub fn pipe(home: &Path, arguments: &[&str]) -> Target {
    let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
    let target = Target::stdio(env!("CARGO_BIN_EXE_portcullis"), arguments);
    target.with_env("HOME", &home.display().to_string())
}

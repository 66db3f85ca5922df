//! Official clients use everything of an upstream, directly and through the gateway.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    gateway::Gateway,
    peers::{self, Fixture},
    plan::{Client, Names, Report, Target, forget, level, list, lists, notified, parallel, ping, until},
    process::Program,
};

#[tokio::test]
async fn typescript_client_gets_the_same_through_the_gateway() {
    same_through_the_gateway(Client::TYPESCRIPT).await;
}

#[tokio::test]
async fn python_client_gets_the_same_through_the_gateway() {
    same_through_the_gateway(Client::Python).await;
}

#[tokio::test]
async fn rust_client_gets_the_same_through_the_gateway() {
    same_through_the_gateway(Client::RUST).await;
}

/// One upstream by HTTP, one by stdio that pages its lists, one on another SDK.
async fn same_through_the_gateway(client: Client) {
    let alpha = Fixture::everything(&["--name", "alpha"]).await;
    let gamma = Fixture::python().await;
    let beta = peers::everything(&["--name", "beta", "--page", "3"]);
    let alpha_steps = |names, label| [features(names, label), changes(names)].concat();
    let direct_alpha = client.run(&alpha.target(), &alpha_steps(Names::Own, "direct")).await;
    let direct_gamma = client.run(&gamma.target(), &other_sdk(Names::Own)).await;
    for report in [&direct_alpha, &direct_gamma] {
        assert_eq!(report.revision, "2025-11-25");
    }
    sound(&direct_alpha);

    let upstreams = [("alpha", alpha.target()), ("beta", beta), ("gamma", gamma.target())];
    let gateway = Gateway::merged(&upstreams).await;
    let parts = [
        (Names::Under("alpha"), alpha_steps(Names::Under("alpha"), "merged")),
        (Names::Under("beta"), features(Names::Under("beta"), "merged")),
        (Names::Under("gamma"), other_sdk(Names::Under("gamma"))),
    ];
    let steps = parts.iter().flat_map(|(_, steps)| steps.clone()).collect::<Vec<_>>();
    let merged = client.run(&gateway.endpoint(), &steps).await;
    assert_eq!(merged.revision, "2025-11-25");
    united(&merged, &["alpha", "beta", "python"]);
    let mut outcomes = merged.outcomes.as_slice();
    let mut differences = Vec::new();
    for ((names, steps), direct) in parts.iter().zip([&direct_alpha, &direct_alpha, &direct_gamma]) {
        let (mine, rest) = outcomes.split_at(steps.len());
        differences.extend(compare(*names, steps, &direct.outcomes[..steps.len()], mine));
        outcomes = rest;
    }
    let alone = client.run(&gateway.endpoint_of("alpha"), &alpha_steps(Names::Own, "alone")).await;
    differences.extend(compare(
        Names::Own,
        &alpha_steps(Names::Own, ""),
        &direct_alpha.outcomes,
        &alone.outcomes,
    ));
    assert!(differences.is_empty(), "{client:?}:\n{}", differences.join("\n"));
    gateway.stop().await;
}

/// All that an upstream with everything in it can be asked. The label makes calls of this run known.
pub fn features(names: Names, label: &str) -> Vec<Value> {
    let odd = json!({ "list": [1, -2.5, null, true, [], {}], "text": "grüße\n\"世界\"\u{1F642}", "whole": 9_007_199_254_740_991_i64 });
    let unlisted = "probe://unlisted/page?part=2#end";
    let slow = |call: usize| {
        names.call("probe_slow", json!({ "ms": 400 - 40 * call, "label": format!("call {call}") }))
    };
    let mut steps = lists();
    steps.extend([
        names.call("test_simple_text", json!({})),
        names.call("test_multiple_content_types", json!({})),
        names.call("test_audio_content", json!({})),
        names.call("test_error_handling", json!({})),
        names.call("no_such_tool", json!({})),
        names.call("probe_slow", json!({ "ms": 1 })),
        names.call("probe_echo", odd),
        names.call("probe_big", json!({ "bytes": 1 << 20 })),
        names.call_with_progress("probe_steps", json!({ "steps": 5, "ms": 20 })),
        names.call("probe_link", json!({})),
        names.call("probe_embedded", json!({})),
        names.read("test://static-text"),
        names.read("test://static-binary"),
        names.read("test://template/a%20b/data"),
        names.read(unlisted),
        names.read("test://no-such-resource"),
        names.prompt("test_simple_prompt", json!({})),
        names.prompt("test_prompt_with_arguments", json!({ "arg1": "one", "arg2": "zwei" })),
        names.prompt("test_prompt_with_arguments", json!({ "arg1": "alone" })),
        names.prompt("test_prompt_with_embedded_resource", json!({ "resourceUri": "test://static-text" })),
        names.prompt("test_prompt_with_image", json!({})),
        names.prompt("no_such_prompt", json!({})),
        names.complete_prompt(
            "test_prompt_with_arguments",
            json!({ "name": "arg1", "value": "par" }),
            json!({}),
        ),
        names.complete_prompt(
            "test_prompt_with_arguments",
            json!({ "name": "arg2", "value": "x" }),
            json!({ "arguments": { "arg1": "park" } }),
        ),
        names.complete_template("test://template/{id}/data", json!({ "name": "id", "value": "12" })),
        ping(),
        level("warning"),
        parallel((0..8).map(slow).collect()),
        names.cancel("probe_slow", json!({ "ms": 60_000, "label": label })),
        until(names.call("probe_seen", json!({})), label),
    ]);
    steps
}

/// Lists that change while the client is connected.
pub fn changes(names: Names) -> Vec<Value> {
    let list_changed =
        ["tools", "prompts", "resources"].map(|what| format!("notifications/{what}/list_changed"));
    vec![
        forget(),
        names.call("probe_lists", json!({ "present": true })),
        notified(&list_changed.each_ref().map(String::as_str)),
        until(list("tools"), &names.name("probe_extra")),
        until(list("prompts"), &names.name("probe_extra_prompt")),
        until(list("resources"), &names.uri("probe://extra")),
        names.call("probe_extra", json!({})),
        names.prompt("probe_extra_prompt", json!({})),
        names.read("probe://extra"),
        forget(),
        names.call("probe_lists", json!({ "present": false })),
        // Whoever comes next finds the lists as they were.
        notified(&list_changed.each_ref().map(String::as_str)),
    ]
}

fn other_sdk(names: Names) -> Vec<Value> {
    let mut steps = lists();
    steps.extend([
        names.call("exact", json!({ "value": { "nested": [1, "zwei", null] } })),
        names.call("refuse", json!({ "reason": "as told" })),
        names.call_with_progress("count", json!({ "to": 4 })),
        names.read("memo://greeting"),
        names.read("memo://square/12"),
        names.prompt("translate", json!({ "sentence": "hello", "language": "German" })),
    ]);
    steps
}

/// A direct run that went wrong would make a poor measure.
fn sound(direct: &Report) {
    let errors = direct.outcomes.iter().filter(|outcome| outcome["error"].is_object()).count();
    let expected = [
        "no_such_tool",
        "probe_slow without a label",
        "no-such-resource",
        "a missing argument",
        "no_such_prompt",
    ];
    assert_eq!(errors, expected.len(), "{:?}", direct.outcomes);
}

/// What the merged endpoint says of itself unites its upstreams.
fn united(merged: &Report, upstreams: &[&str]) {
    for capability in ["tools", "prompts", "resources", "completions", "logging"] {
        assert!(merged.capabilities[capability].is_object(), "{capability}: {}", merged.capabilities);
    }
    for lists in ["tools", "prompts", "resources"] {
        assert_eq!(merged.capabilities[lists]["listChanged"], true, "{lists}");
    }
    let instructions = merged.instructions.as_deref().unwrap_or_default();
    for name in upstreams {
        assert!(instructions.contains(&format!("Instructions of {name}.")), "{name}: {instructions}");
    }
}

/// The steps whose outcome is another than it was directly.
pub fn compare(names: Names, steps: &[Value], direct: &[Value], through: &[Value]) -> Vec<String> {
    assert_eq!((direct.len(), through.len()), (steps.len(), steps.len()), "each step has an outcome");
    steps
        .iter()
        .zip(direct.iter().zip(through))
        .filter_map(|(step, (direct, through))| {
            let (expected, found) = (essence(step, direct), essence(step, &names.own(through)));
            (expected != found)
                .then(|| format!("{step}\n  directly: {}\n  through:  {}", short(&expected), short(&found)))
        })
        .collect()
}

/// What of an outcome must be the same both ways.
fn essence(step: &Value, outcome: &Value) -> Value {
    if let Some(code) = outcome.pointer("/error/code") {
        return json!({ "error": code });
    }
    if step["op"] == "until" {
        return json!("turned up");
    }
    let Some(items) = outcome["items"].as_array() else {
        return outcome.clone();
    };
    // Lists come in any order, in pages of any size, and without offers of tasks.
    let mut items = items.clone();
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        item.remove("execution");
    }
    items.sort_by_key(|item| [&item["name"], &item["uri"], &item["uriTemplate"]].map(ToString::to_string));
    json!(items)
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(1500).collect()
}

/// The Inspector asks one thing per run, and knows nothing of plans.
#[tokio::test]
async fn inspector_gets_the_same_through_the_gateway() {
    let alpha = Fixture::everything(&["--name", "alpha"]).await;
    let upstreams = [("alpha", alpha.target()), ("beta", peers::everything(&["--name", "beta"]))];
    let gateway = Gateway::merged(&upstreams).await;
    let mut differences = Vec::new();
    for (names, question) in ["alpha", "beta"].into_iter().flat_map(|name| questions(Names::Under(name))) {
        let (_, own) = &questions(Names::Own)[question.at];
        let direct = json!({ "result": inspect(&alpha.target(), &own.words).await });
        let through = json!({ "result": inspect(&gateway.endpoint(), &question.words).await });
        let shown = |value: &Value| items_of(value).unwrap_or_else(|| value.clone());
        let step = json!({ "op": "inspect", "words": question.words });
        differences.extend(compare(names, &[step], &[shown(&direct)], &[shown(&through)]));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    gateway.stop().await;
}

/// What the Inspector is asked, as words of its command line.
struct Question {
    at: usize,
    words: Vec<String>,
}

fn questions(names: Names) -> Vec<(Names, Question)> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let echo = names.name("probe_echo");
    let prompt = names.name("test_prompt_with_arguments");
    let text = names.uri("test://static-text");
    let all = [
        words(&["tools/list"]),
        words(&["tools/call", "--tool-name", &echo, "--tool-arg", "note=hello", "count=3"]),
        words(&["resources/list"]),
        words(&["resources/read", "--uri", &text]),
        words(&["prompts/get", "--prompt-name", &prompt, "--prompt-args", "arg1=one", "arg2=two"]),
    ];
    all.into_iter().enumerate().map(|(at, words)| (names, Question { at, words })).collect()
}

/// The Inspector shows a list as the answer that holds it.
fn items_of(outcome: &Value) -> Option<Value> {
    let answer = outcome["result"].as_object()?;
    let items = ["tools", "resources"].into_iter().find_map(|what| answer.get(what))?;
    Some(json!({ "items": items }))
}

pub async fn inspect(target: &Target, words: &[String]) -> Value {
    const ANSWER: Duration = Duration::from_secs(120);
    let home = tempfile::tempdir().expect("a folder for the Inspector");
    let output = Program::new(peers::node())
        .args([&peers::script("mcp-inspector"), "--cli", "--server-url", target.url()])
        .args(["--transport", "http", "--protocol-era", "legacy", "--connect-timeout", "60000", "--method"])
        .args(words)
        .env("HOME", home.path())
        .output("", ANSWER)
        .await;
    assert!(output.status.success(), "{words:?} at {target:?}: {output:?}");
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

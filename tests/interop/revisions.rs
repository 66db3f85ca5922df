//! Clients of older revisions: each gets its own, and what that revision has works.

use serde_json::{Value, json};

use crate::{
    clients::compare,
    gateway::Gateway,
    peers::{self, Fixture},
    plan::{Client, Names, lists, parallel, ping},
};

/// Releases of official clients that offer these revisions, and no newer one.
const OLDER: [(&str, [Client; 2]); 3] = [
    ("2024-11-05", [Client::TypeScript("sdk-2024-11-05"), Client::Rust("2024-11-05")]),
    ("2025-03-26", [Client::TypeScript("sdk-2025-03-26"), Client::Rust("2025-03-26")]),
    ("2025-06-18", [Client::TypeScript("sdk-2025-06-18"), Client::Rust("2025-06-18")]),
];

/// LIFE-03: the revision offered is the one that is spoken.
#[tokio::test]
async fn older_clients_get_their_revision_and_the_same_answers() {
    let alpha = Fixture::everything(&["--name", "alpha"]).await;
    let upstreams = [("alpha", alpha.target()), ("beta", peers::everything(&["--name", "beta"]))];
    let gateway = Gateway::merged(&upstreams).await;
    let mut differences = Vec::new();
    for (revision, client) in
        OLDER.into_iter().flat_map(|(revision, clients)| clients.map(|client| (revision, client)))
    {
        let direct = client.run(&alpha.target(), &asked(Names::Own)).await;
        assert_eq!(direct.revision, revision, "{client:?} directly");
        let steps = [asked(Names::Under("alpha")), asked(Names::Under("beta"))];
        let through = client.run(&gateway.endpoint(), &steps.concat()).await;
        assert_eq!(through.revision, revision, "{client:?} through the gateway");
        let (alpha, beta) = through.outcomes.split_at(steps[0].len());
        for (namespace, steps, outcomes) in [("alpha", &steps[0], alpha), ("beta", &steps[1], beta)] {
            let mut expected = direct.outcomes.clone();
            if revision == "2024-11-05" {
                expected.iter_mut().for_each(without_messages);
            }
            let found = compare(Names::Under(namespace), steps, &expected, outcomes);
            differences.extend(found.into_iter().map(|difference| format!("{client:?}: {difference}")));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    gateway.stop().await;
}

/// PROG-02: progress has had a message since 2025-03-26 only. The fixture sends one all the same; the gateway takes care.
fn without_messages(outcome: &mut Value) {
    let reports = outcome.get_mut("progress").and_then(Value::as_array_mut).into_iter().flatten();
    for report in reports.filter_map(Value::as_object_mut) {
        report.remove("message");
    }
}

/// What all these revisions have.
fn asked(names: Names) -> Vec<Value> {
    let mut steps = lists();
    steps.extend([
        names.call("test_simple_text", json!({})),
        names.call("test_image_content", json!({})),
        names.call("test_error_handling", json!({})),
        names.call("no_such_tool", json!({})),
        names.call_with_progress("probe_steps", json!({ "steps": 3, "ms": 20 })),
        names.read("test://static-text"),
        names.read("test://template/7/data"),
        names.prompt("test_prompt_with_arguments", json!({ "arg1": "one", "arg2": "two" })),
        names.complete_prompt(
            "test_prompt_with_arguments",
            json!({ "name": "arg1", "value": "par" }),
            json!({}),
        ),
        parallel(
            (0..4)
                .map(|call| names.call("probe_slow", json!({ "ms": 100, "label": format!("call {call}") })))
                .collect(),
        ),
        ping(),
    ]);
    steps
}

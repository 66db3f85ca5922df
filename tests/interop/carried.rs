//! What is carried: feature by feature, official clients get through the gateway what they get directly. The table in
//! the README is made of this.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};

use crate::{
    clients::{changes, compare},
    gateway::Gateway,
    peers::{self, Fixture},
    plan::{Client, Names, Report, Target, forget, level, lists, notified, parallel, ping, until},
};

const BEGIN: &str = "<!-- carried: begin; written by tests/interop/carried.rs -->";
const END: &str = "<!-- carried: end -->";

const CLIENTS: [(&str, Client); 3] =
    [("TypeScript SDK", Client::TYPESCRIPT), ("Python SDK", Client::Python), ("Rust SDK", Client::RUST)];

/// A feature and the steps that use it.
type Feature = (&'static str, Vec<Value>);

/// All that a client and the fixture can do with each other.
fn features(label: &str) -> Vec<Feature> {
    [asked_for(label), other_way()].concat()
}

/// What a client asks for.
fn asked_for(label: &str) -> Vec<Feature> {
    let own = Names::Own;
    let call = |name: &str| own.call(name, json!({}));
    let slow = |n: usize| own.call("probe_slow", json!({ "ms": 200 - 20 * n, "label": format!("{n}") }));
    vec![
        ("Lists of tools, prompts, resources, templates", lists()),
        (
            "Results: text, images, audio, links, embedded resources, structured content",
            [
                "test_simple_text",
                "test_multiple_content_types",
                "test_audio_content",
                "probe_link",
                "probe_embedded",
            ]
            .map(call)
            .into_iter()
            .chain([own.call("probe_echo", json!({ "deep": [1, -2.5, null, { "ü": "\u{1F642}" }] }))])
            .collect(),
        ),
        ("Errors of tools", vec![call("test_error_handling")]),
        ("Results of a megabyte", vec![own.call("probe_big", json!({ "bytes": 1 << 20 }))]),
        ("Many calls at once", vec![parallel((0..8).map(slow).collect())]),
        ("Progress", vec![own.call_with_progress("probe_steps", json!({ "steps": 5, "ms": 20 }))]),
        (
            "Cancellation",
            vec![
                own.cancel("probe_slow", json!({ "ms": 60_000, "label": label })),
                until(call("probe_seen"), label),
            ],
        ),
        (
            "Resources, also those of templates",
            ["test://static-text", "test://static-binary", "test://template/a%20b/data"]
                .map(|uri| own.read(uri))
                .to_vec(),
        ),
        (
            "Prompts",
            vec![
                own.prompt("test_prompt_with_arguments", json!({ "arg1": "one", "arg2": "two" })),
                own.prompt("test_prompt_with_image", json!({})),
            ],
        ),
        (
            "Completion",
            vec![
                own.complete_prompt(
                    "test_prompt_with_arguments",
                    json!({ "name": "arg1", "value": "par" }),
                    json!({}),
                ),
                own.complete_template("test://template/{id}/data", json!({ "name": "id", "value": "12" })),
            ],
        ),
        ("Pings", vec![ping()]),
    ]
}

/// What a server says, and what it asks, unasked.
fn other_way() -> Vec<Feature> {
    let own = Names::Own;
    let call = |name: &str| own.call(name, json!({}));
    let watched = "test://watched-resource";
    vec![
        (
            "Log messages at the level asked for",
            vec![level("warning"), forget(), call("probe_log"), notified(&["notifications/message"])],
        ),
        (
            "Subscriptions to resources",
            vec![
                json!({ "op": "subscribe", "uri": watched }),
                forget(),
                call("probe_touch"),
                notified(&["notifications/resources/updated"]),
                json!({ "op": "unsubscribe", "uri": watched }),
            ],
        ),
        ("Changes of lists", changes(own)),
        ("Sampling", vec![own.call("test_sampling", json!({ "prompt": "grüße" })), json!({ "op": "asked" })]),
        (
            "Elicitation by form",
            vec![
                own.call("test_elicitation", json!({ "message": "Who are you?" })),
                call("test_elicitation_sep1034_defaults"),
                call("test_elicitation_sep1330_enums"),
                json!({ "op": "asked" }),
            ],
        ),
        (
            "Elicitation by page",
            vec![
                forget(),
                call("probe_page"),
                json!({ "op": "asked" }),
                notified(&["notifications/elicitation/complete"]),
            ],
        ),
        (
            "Roots, and changes of them",
            vec![
                call("probe_roots"),
                json!({ "op": "asked" }),
                json!({ "op": "roots" }),
                until(call("probe_seen"), "roots have changed"),
            ],
        ),
    ]
}

fn steps(label: &str) -> Vec<Value> {
    features(label).into_iter().flat_map(|(_, steps)| steps).collect()
}

/// How one client fared with each feature: what differed.
struct Column {
    client: &'static str,
    upstream: &'static str,
    differences: Vec<Vec<String>>,
}

/// One client, directly and through gateways before the same server.
async fn fare(name: &'static str, client: Client) -> Vec<Column> {
    let measure = Fixture::everything(&["--name", "only"]).await;
    let direct = client.run_answering(&measure.target(), &steps("direct")).await;
    sound(&direct);
    let by_http = Fixture::everything(&["--name", "only"]).await;
    let by_sse = Fixture::everything_by_sse(&["--name", "only"]).await;
    let ways: [(&str, Target); 3] = [
        ("HTTP", by_http.target()),
        ("HTTP+SSE", by_sse.target()),
        ("stdio", peers::everything(&["--name", "only"])),
    ];
    let mut columns = Vec::new();
    for (upstream, target) in ways {
        let gateway = Gateway::alone(target).await;
        let through = client.run_answering(&gateway.endpoint(), &steps("through")).await;
        gateway.stop().await;
        columns.push(Column { client: name, upstream, differences: differences(&direct, &through) });
    }
    columns
}

/// What differs, by feature.
fn differences(direct: &Report, through: &Report) -> Vec<Vec<String>> {
    let (mut direct, mut through) = (direct.outcomes.as_slice(), through.outcomes.as_slice());
    let mut all = Vec::new();
    for (_, steps) in features("") {
        let (expected, rest) = direct.split_at(steps.len());
        direct = rest;
        let (found, rest) = through.split_at(steps.len());
        through = rest;
        all.push(compare(Names::Own, &steps, expected, found));
    }
    all
}

/// A direct run in which something failed would make a poor measure.
fn sound(direct: &Report) {
    let outcomes = direct.outcomes.iter().zip(steps(""));
    let failed: Vec<_> = outcomes.filter(|(outcome, _)| outcome["error"].is_object()).collect();
    assert!(failed.is_empty(), "directly: {failed:?}");
}

fn table(columns: &[Column]) -> String {
    let mut out = String::from("| |");
    for Column { client, upstream, .. } in columns {
        // Writing to a string never fails.
        let _ = write!(out, " {client}, server by {upstream} |");
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(columns.len()));
    for (n, (feature, _)) in features("").into_iter().enumerate() {
        let _ = write!(out, "\n| {feature} |");
        for column in columns {
            out.push_str(if column.differences[n].is_empty() { " yes |" } else { " **no** |" });
        }
    }
    out
}

/// SAMP-10, ELIC-06, ROOT-03, RES-09, LOG-02, LIFE-14: what each client gets directly, it gets through the gateway; and
/// the README says so.
#[tokio::test]
async fn what_is_carried_is_what_the_readme_says() {
    let mut columns = Vec::new();
    for (name, client) in CLIENTS {
        columns.extend(fare(name, client).await);
    }
    let lost = columns.iter().flat_map(|column| {
        let all = column.differences.iter().flatten();
        all.map(move |difference| format!("{}, {}: {difference}", column.client, column.upstream))
    });
    let lost: Vec<_> = lost.collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).expect("there is a README");
    let (before, rest) = readme.split_once(BEGIN).expect("the README has a place for the table");
    let (found, after) = rest.split_once(END).expect("the table has an end");
    let table = format!("\n{}\n", table(&columns));
    if std::env::var_os("PORTCULLIS_WRITE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).expect("the README can be written");
    } else {
        assert_eq!(found, table, "write it anew with PORTCULLIS_WRITE=1");
    }
}

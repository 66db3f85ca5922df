//! What is carried: feature by feature, official clients get through the gateway what they get directly. The table in
//! the README is made of this.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};

use crate::{
    clients::{changes, compare},
    gateway::Gateway,
    peers::{self, Fixture},
    pipes,
    plan::{Client, Names, Report, Target, forget, level, lists, notified, parallel, ping, until},
};

const BEGIN: &str = "<!-- carried: begin; written by tests/interop/carried.rs -->";
const END: &str = "<!-- carried: end -->";

const PROGRESS: &str = "Progress";

/// What stands between the two tables.
const OTHER_WAYS: &str = "Clients that come in by another way than Streamable HTTP, before a server by HTTP. “–” was not \
    compared: there that client loses progress which it reads in one piece with the answer, without a gateway too.";

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
        (PROGRESS, vec![own.call_with_progress("probe_steps", json!({ "steps": 5, "ms": 20 }))]),
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
        ("Answers whose stream the server breaks off", vec![call("test_reconnection")]),
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

/// How one client fared with each feature on one way: what differed, or nothing where it was not compared.
struct Column {
    title: String,
    differences: Vec<Option<Vec<String>>>,
}

/// Directly: what a client is to get on all ways.
async fn measure(client: Client) -> Report {
    let fixture = Fixture::everything(&["--name", "only"]).await;
    let direct = client.run_answering(&fixture.target(), &steps("direct")).await;
    sound(&direct);
    direct
}

/// One client through gateways before the same server, which they reach in every way.
async fn to_servers(name: &str, client: Client, direct: &Report) -> Vec<Column> {
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
        let title = format!("{name}, server by {upstream}");
        columns.push(Column { title, differences: differences(direct, &through, &[]) });
    }
    columns
}

/// One client that comes in by the ways that are not Streamable HTTP, before servers by HTTP. Each way has a server of
/// its own, since the fixture counts.
async fn ways_in(name: &str, client: Client, direct: &Report) -> Vec<Column> {
    let home = tempfile::tempdir().expect("a folder for the program");
    let mut fixtures = Vec::new();
    for _ in 0..3 {
        fixtures.push(Fixture::everything(&["--name", "only"]).await);
    }
    let [served, piped, bridged] = [0, 1, 2].map(|n: usize| fixtures[n].target());
    let gateway = Gateway::alone(served).await;
    let file = pipes::file(home.path(), &piped);
    let ways = [
        ("HTTP+SSE", gateway.older_endpoint()),
        ("`portcullis stdio`", pipes::pipe(home.path(), &["stdio", "-c", &file, "--server", "alpha"])),
        ("`portcullis connect`", pipes::pipe(home.path(), &["connect", bridged.url()])),
    ];
    // On all of these the TypeScript client loses progress that it reads in one piece with the answer. Whether it does is
    // for the system to decide, with a gateway and without.
    let left_out: &[&str] = if matches!(client, Client::TypeScript(_)) { &[PROGRESS] } else { &[] };
    let mut columns = Vec::new();
    for (way, target) in ways {
        let through = client.run_answering(&target, &steps("through")).await;
        let title = format!("{name} by {way}");
        columns.push(Column { title, differences: differences(direct, &through, left_out) });
    }
    gateway.stop().await;
    columns
}

/// What differs, by feature; some are left out.
fn differences(direct: &Report, through: &Report, left_out: &[&str]) -> Vec<Option<Vec<String>>> {
    let (mut direct, mut through) = (direct.outcomes.as_slice(), through.outcomes.as_slice());
    let mut all = Vec::new();
    for (feature, steps) in features("") {
        let (expected, rest) = direct.split_at(steps.len());
        direct = rest;
        let (found, rest) = through.split_at(steps.len());
        through = rest;
        let compared = !left_out.contains(&feature);
        all.push(compared.then(|| compare(Names::Own, &steps, expected, found)));
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
    for Column { title, .. } in columns {
        // Writing to a string never fails.
        let _ = write!(out, " {title} |");
    }
    out.push_str("\n|---|");
    out.push_str(&"---|".repeat(columns.len()));
    for (n, (feature, _)) in features("").into_iter().enumerate() {
        let _ = write!(out, "\n| {feature} |");
        for column in columns {
            out.push_str(match &column.differences[n] {
                Some(differences) if differences.is_empty() => " yes |",
                Some(_) => " **no** |",
                None => " – |",
            });
        }
    }
    out
}

/// SAMP-10, ELIC-06, ROOT-03, RES-09, LOG-02, LIFE-14: what each client gets directly, it gets through the gateway; and
/// the README says so.
#[tokio::test]
async fn what_is_carried_is_what_the_readme_says() {
    let (mut servers, mut ways) = (Vec::new(), Vec::new());
    for (name, client) in CLIENTS {
        let direct = measure(client).await;
        servers.extend(to_servers(name, client, &direct).await);
        // The Rust SDK has no client of HTTP+SSE, and its client of programs is not among those installed here.
        if !matches!(client, Client::Rust(_)) {
            ways.extend(ways_in(name, client, &direct).await);
        }
    }
    let lost = servers.iter().chain(&ways).flat_map(|column| {
        let all = column.differences.iter().flatten().flatten();
        all.map(move |difference| format!("{}: {difference}", column.title))
    });
    let lost: Vec<_> = lost.collect();
    assert!(lost.is_empty(), "{}", lost.join("\n"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(&path).expect("there is a README");
    let (before, rest) = readme.split_once(BEGIN).expect("the README has a place for the table");
    let (found, after) = rest.split_once(END).expect("the table has an end");
    let table = format!("\n{}\n\n{OTHER_WAYS}\n\n{}\n", table(&servers), table(&ways));
    if std::env::var_os("PORTCULLIS_WRITE").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).expect("the README can be written");
    } else {
        assert_eq!(found, table, "write it anew with PORTCULLIS_WRITE=1");
    }
}

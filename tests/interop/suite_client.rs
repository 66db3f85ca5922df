//! The official suite's client scenarios: a client that reaches the suite's server through the gateway does what one does
//! that goes there directly.

use std::time::Duration;

use crate::{
    conformance::{Checks, REVISION, count, read},
    peers,
    process::Program,
};

/// Those that need no user agent.
const SCENARIOS: [&str; 5] = [
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "json-schema-2020-12-preservation",
];

/// How long one may take.
const LIMIT: Duration = Duration::from_secs(120);

/// HTTP-14, HTTP-21, LIFE-02: as a client of servers the gateway behaves as the official one.
#[tokio::test]
async fn gateway_behaves_as_a_client_should() {
    for scenario in SCENARIOS {
        let direct = run(scenario, false).await;
        assert!(count(&direct, "SUCCESS") > 0 && count(&direct, "FAILURE") == 0, "{scenario}: {direct:?}");
        let through = run(scenario, true).await;
        let lost = count(&through, "FAILURE") + count(&through, "WARNING");
        assert_eq!(lost, 0, "{scenario} through the gateway: {through:?}");
        assert_eq!(count(&through, "SUCCESS"), count(&direct, "SUCCESS"), "{scenario}: {through:?}");
    }
}

async fn run(scenario: &str, through: bool) -> Checks {
    let folder = tempfile::tempdir().expect("a folder for the results");
    let client = format!("{} {}", peers::node(), peers::driver("suite_client.mjs"));
    let mut suite = Program::new(peers::node())
        .args([&peers::script("conformance"), "client", "--command", &client, "--scenario", scenario])
        .args(["--spec-version", REVISION, "--timeout", "90000", "-o"])
        .args([folder.path()]);
    if through {
        suite = suite.env("PORTCULLIS_BIN", env!("CARGO_BIN_EXE_portcullis")).env("HOME", folder.path());
    }
    let output = suite.output("", LIMIT).await;
    let results = read(folder.path(), "");
    results.into_values().next().unwrap_or_else(|| panic!("{scenario} left no results: {output:?}"))
}

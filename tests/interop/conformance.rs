//! The official conformance suite: what passes at the fixture must pass through the gateway.
//!
//! *Invariants*: scenarios are compared check by check, since a scenario can pass emptily when a
//! capability got lost on the way.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use serde::Deserialize;
use tokio::sync::OnceCell;

use crate::{
    gateway::Gateway,
    peers::{self, Fixture},
    plan::Target,
    process::Program,
};

pub const REVISION: &str = "2025-11-25";
/// What the pinned suite has for this revision.
const SCENARIOS: usize = 33;
/// How long the suite may take for one scenario, in milliseconds.
const SCENARIO: &str = "10000";
/// How long it may take for all of them.
const SUITE: Duration = Duration::from_secs(300);

/// Checks that cannot succeed where the fixture is not reached by HTTP, and why.
const OF_HTTP: [(&str, &str, &str); 1] = [(
    "server-sse-polling",
    "server-sse-disconnect-resume",
    "a server has no stream of one answer to close there, which the gateway would mirror",
)];

/// How often each check of a scenario had each status.
pub type Checks = BTreeMap<(String, String), usize>;
pub type Results = BTreeMap<String, Checks>;

#[tokio::test]
async fn fixture_passes_all_scenarios_directly() {
    let results = direct().await;
    assert_eq!(results.len(), SCENARIOS, "{:?}", results.keys());
    let failed: Vec<_> = results
        .iter()
        .filter(|(_, checks)| count(checks, "FAILURE") > 0 || count(checks, "SUCCESS") == 0)
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn gateway_before_http_passes_what_the_fixture_passes() {
    let fixture = Fixture::everything(&[]).await;
    compare("by HTTP", fixture.target()).await;
}

#[tokio::test]
async fn gateway_before_sse_passes_what_the_fixture_passes() {
    let fixture = Fixture::everything_by_sse(&[]).await;
    compare("by HTTP+SSE", fixture.target()).await;
}

#[tokio::test]
async fn gateway_before_stdio_passes_what_the_fixture_passes() {
    compare("by stdio", peers::everything(&[])).await;
}

async fn compare(how: &str, upstream: Target) {
    let direct = direct().await;
    let gateway = Gateway::alone(upstream).await;
    let through = suite(gateway.endpoint().url()).await;
    let mut lost = Vec::new();
    let (mut scenarios, mut checks) = (0, 0);
    for (scenario, expected) in direct {
        let nothing = Checks::new();
        let found = through.get(scenario).unwrap_or(&nothing);
        let differences = differences(scenario, &possible(scenario, expected, how), found);
        lost.extend(differences);
        scenarios += 1;
        checks += count(found, "SUCCESS");
    }
    assert!(lost.is_empty(), "lost through the gateway, upstream {how}:\n{}", lost.join("\n"));
    println!("through the gateway, upstream {how}: {scenarios} scenarios, {checks} checks, none lost");
    gateway.stop().await;
}

/// What the fixture passes and can be passed by a gateway that reaches it in this way.
fn possible(scenario: &str, expected: &Checks, how: &str) -> Checks {
    let mut expected = expected.clone();
    if how != "by HTTP" {
        expected.retain(|(check, _), _| {
            !OF_HTTP.iter().any(|(of, name, _)| (*of, name) == (scenario, &check.as_str()))
        });
    }
    expected
}

/// What is worse than expected.
fn differences(scenario: &str, expected: &Checks, found: &Checks) -> Vec<String> {
    let times = |checks: &Checks, check: &str, status: &str| {
        let key = (check.to_owned(), status.to_owned());
        checks.get(&key).copied().unwrap_or(0)
    };
    let fewer = expected.keys().filter(|(check, status)| {
        status == "SUCCESS" && times(found, check, status) < times(expected, check, status)
    });
    let worse = found.keys().filter(|(check, status)| {
        ["FAILURE", "WARNING"].contains(&status.as_str())
            && times(found, check, status) > times(expected, check, status)
    });
    fewer
        .map(|(check, _)| format!("{scenario}: {check} succeeds less often; found {found:?}"))
        .chain(worse.map(|(check, status)| format!("{scenario}: {check} gives {status}")))
        .collect()
}

/// What passes at the fixture itself, found once in this process.
async fn direct() -> &'static Results {
    static DIRECT: OnceCell<Results> = OnceCell::const_new();
    let run = || async {
        let fixture = Fixture::everything(&[]).await;
        let results = suite(&fixture.url).await;
        let checks: usize = results.values().map(|checks| count(checks, "SUCCESS")).sum();
        println!("directly: {} scenarios, {checks} checks", results.len());
        results
    };
    DIRECT.get_or_init(run).await
}

async fn suite(url: &str) -> Results {
    let folder = tempfile::tempdir().expect("a folder for the results");
    let output = Program::new(peers::node())
        .args([&peers::script("conformance"), "server", "--url", url])
        .args(["--spec-version", REVISION, "--suite", "all", "--timeout", SCENARIO, "-o"])
        .args([folder.path()])
        .output("", SUITE)
        .await;
    let results = read(folder.path(), "server-");
    assert!(!results.is_empty(), "the suite left no results: {output:?}");
    results
}

/// The results that the suite wrote: a folder for each scenario, with `side` before its name and a time after it.
pub fn read(folder: &Path, side: &str) -> Results {
    const TIME: usize = "-2025-01-01T00-00-00-000Z".len();
    #[derive(Deserialize)]
    struct Check {
        id: String,
        status: String,
    }
    let mut results = Results::new();
    for entry in fs::read_dir(folder).expect("the folder is there").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(scenario) =
            name.strip_prefix(side).and_then(|name| name.get(..name.len().checked_sub(TIME)?))
        else {
            continue;
        };
        let checks = fs::read_to_string(entry.path().join("checks.json")).expect("each scenario has checks");
        let checks: Vec<Check> = serde_json::from_str(&checks).expect("checks are a list");
        let counted = results.entry(scenario.to_owned()).or_default();
        for check in checks {
            *counted.entry((check.id, check.status)).or_default() += 1;
        }
    }
    results
}

pub fn count(checks: &Checks, status: &str) -> usize {
    checks.iter().filter(|((_, of), _)| of == status).map(|(_, times)| times).sum()
}

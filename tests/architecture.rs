//! Checks the rules of docs/ARCHITECTURE.md over the tokens of the sources: ranks, forbidden names, sizes.
//!
//! Tokens, not text: comments vanish, strings are literals, bodies of macros are kept.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use architecture::source::{Source, Use, files_under, package, sources};

/// So that the reader lies in `tests/architecture/`.
mod architecture {
    pub mod source;
}

/// Every top-level module has a rank; an import may only point to a lower one.
const RANKS: &[(&str, u8)] = &[
    ("base", 0),
    ("jsonrpc", 1),
    ("framing", 1),
    ("mcp", 2),
    ("config", 3),
    ("call", 4),
    ("egress", 5),
    ("telemetry", 6),
    ("state", 7),
    ("cluster", 8),
    ("downstream", 9),
    ("gate", 9),
    ("relay", 9),
    ("upstream", 9),
    ("admin", 10),
    ("app", 11),
    ("cli", 12),
];

/// Lines of a file, without its tests, from which it is said to be long, and from which it fails.
const LONG: usize = 400;
const TOO_LONG: usize = 600;

/// A name that only some places may use.
struct Only {
    /// What it is, for the message.
    what: &'static str,
    /// Whether a path is a use of it.
    is: fn(&Use) -> bool,
    /// Files and folders under `src` that may.
    places: &'static [&'static str],
}

/// The list of what exists in one place only. Tests are free of it.
const ONLY: &[Only] = &[
    Only {
        what: "a metric macro",
        is: |path| path.is_macro() && path.ends_with(&["counter", "gauge", "histogram"]),
        places: &["telemetry/"],
    },
    Only {
        what: "a log macro",
        is: |path| path.is_macro() && path.ends_with(&["error", "warn", "info", "debug", "trace", "event"]),
        places: &["telemetry/"],
    },
    Only {
        what: "an environment variable",
        is: |path| path.has_pair("env", &["var", "var_os", "vars", "vars_os", "set_var", "remove_var"]),
        places: &["config/"],
    },
    Only {
        what: "a clock",
        is: |path| {
            path.has_pair("Instant", &["now"])
                || path.has_pair("SystemTime", &["now"])
                || path.has_pair("time", &["sleep", "sleep_until", "timeout", "timeout_at", "interval"])
        },
        places: &["base/clock.rs"],
    },
    Only {
        what: "a spawn",
        is: |path| {
            path.has_pair("tokio", &["spawn"])
                || path.has_pair("task", &["spawn", "spawn_blocking", "spawn_local", "JoinSet", "LocalSet"])
        },
        places: &["base/tasks.rs"],
    },
    Only {
        what: "the permit of a call",
        is: |path| path.has_pair("Admitted", &["grant"]),
        places: &["gate/"],
    },
    Only {
        what: "a process",
        is: |path| {
            !path.is_own && path.has_pair("Command", &["new"])
                || path.starts_with(&["std", "process", "Command"])
        },
        places: &["upstream/stdio/", "cli/"],
    },
    Only {
        what: "an HTTP type",
        is: |path| {
            let first = path.segments[0].as_str();
            path.segments.len() > 1
                && !path.is_own
                && matches!(first, "http" | "hyper" | "hyper_util" | "http_body" | "http_body_util" | "axum")
        },
        places: &["downstream/", "upstream/http/", "egress/", "cluster/", "admin/", "gate/authn/"],
    },
    Only {
        what: "an HTTP status for a fault",
        is: |path| {
            let good = ["OK", "ACCEPTED", "NO_CONTENT"];
            let last = path.segments.last().map_or("", String::as_str);
            path.has_word("StatusCode")
                && last.chars().all(|c| c.is_ascii_uppercase() || c == '_')
                && !good.contains(&last)
        },
        places: &["downstream/rescue.rs", "upstream/http/", "egress/", "cluster/", "admin/"],
    },
    Only { what: "anyhow", is: |path| path.starts_with(&["anyhow"]), places: &["cli/", "main.rs"] },
];

/// Modules that must not build a tree of a message, aside from the files of [`TREES`].
const TREELESS: &[&str] = &["jsonrpc/", "mcp/", "gate/", "relay/", "downstream/", "upstream/"];

/// Files that may build trees all the same, each with its reason.
const TREES: &[&str] = &[];

/// Modules without any input and output.
const PURE: &[&str] = &["jsonrpc/", "framing/", "mcp/"];

/// Applies a rule to every file and fails with all offences.
fn check(rule: fn(&Source) -> Vec<String>) {
    let offences: Vec<_> = sources().iter().flat_map(rule).collect();
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

// === the rules ===

fn rank(module: &str) -> Option<u8> {
    RANKS.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
}

fn ranks(source: &Source) -> Vec<String> {
    if source.is_root() {
        return Vec::new();
    }
    let from = source.module();
    let Some(own) = rank(from) else { return vec![format!("{}: `{from}` has no rank", source.path)] };
    let edges = source
        .uses
        .iter()
        .filter(|path| path.starts_with(&["crate"]))
        .filter_map(|path| path.segments.get(1));
    let upward = edges.filter(|to| *to != from && rank(to).is_none_or(|rank| rank >= own));
    upward.map(|to| format!("{}: `{from}` must not import `{to}`", source.path)).collect()
}

fn supers(source: &Source) -> Vec<String> {
    let climbs = |path: &&Use| {
        let up = path.segments.iter().take_while(|segment| *segment == "super").count();
        up > source.depth() + path.inline_depth
    };
    let offences = source.uses.iter().filter(climbs);
    offences.map(|path| format!("{}: `{}` climbs out of the module", source.path, path.text())).collect()
}

fn globs(source: &Source) -> Vec<String> {
    let own = |path: &&Use| {
        path.is_glob() && !path.in_tests && matches!(path.segments[0].as_str(), "crate" | "super" | "self")
    };
    source.uses.iter().filter(own).map(|path| format!("{}: `{}::*`", source.path, path.text())).collect()
}

fn only(source: &Source) -> Vec<String> {
    let product = || source.uses.iter().filter(|path| !path.in_tests);
    let elsewhere = ONLY.iter().filter(|only| !source.is_in(only.places));
    elsewhere
        .flat_map(|only| {
            product().filter(|path| (only.is)(path)).map(|path| {
                format!(
                    "{}: `{}` is {}, which belongs to {}",
                    source.path,
                    path.text(),
                    only.what,
                    only.places.join(", ")
                )
            })
        })
        .collect()
}

fn trees(source: &Source) -> Vec<String> {
    if !source.is_in(TREELESS) || source.is_in(TREES) {
        return Vec::new();
    }
    let is_tree = |path: &&Use| {
        !path.in_tests
            && (path.has_pair("serde_json", &["Value", "Map", "json"])
                || path.is_macro() && path.ends_with(&["json"]))
    };
    let offences = source.uses.iter().filter(is_tree);
    offences.map(|path| format!("{}: `{}` builds a tree of a message", source.path, path.text())).collect()
}

fn purity(source: &Source) -> Vec<String> {
    let outside = |path: &&Use| {
        !path.in_tests
            && (path.starts_with(&["tokio"])
                || path.has_pair("std", &["fs", "net", "process", "thread", "env"]))
    };
    let offences = source.uses.iter().filter(|path| source.is_in(PURE) && outside(path));
    offences.map(|path| format!("{}: `{}` in a module without I/O", source.path, path.text())).collect()
}

#[test]
fn imports_point_to_lower_ranks() {
    check(ranks);
}

#[test]
fn super_stays_inside_its_module() {
    check(supers);
}

#[test]
fn own_modules_are_not_imported_by_glob() {
    check(globs);
}

#[test]
fn what_exists_once_stays_in_its_place() {
    check(only);
}

#[test]
fn messages_are_not_built_into_trees() {
    check(trees);
}

#[test]
fn the_language_has_no_input_and_output() {
    check(purity);
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut files = Vec::new();
    for folder in ["src", "tests", "benches"] {
        let folder = package().join(folder);
        if folder.exists() {
            files_under(&folder, &mut files);
        }
    }
    let silent = |file: &&PathBuf| {
        !file.components().any(|part| part.as_os_str() == "node_modules" || part.as_os_str() == "target")
            && !fs::read_to_string(file).unwrap().starts_with("//! ")
    };
    let offences: Vec<_> = files.iter().filter(silent).collect();
    assert!(offences.is_empty(), "without `//!` at the top: {offences:#?}");
}

#[test]
fn files_are_short() {
    let sources = sources();
    let product = |source: &&Source| !source.path.ends_with("/tests.rs") && !source.path.contains("/tests/");
    let lengths = || sources.iter().filter(product).map(|source| (source.product_lines(), &source.path));
    for (lines, path) in lengths().filter(|(lines, _)| *lines > LONG) {
        eprintln!("warning: {path} has {lines} lines; {LONG} are wanted");
    }
    let offences: Vec<_> = lengths().filter(|(lines, _)| *lines > TOO_LONG).collect();
    assert!(offences.is_empty(), "more than {TOO_LONG} lines: {offences:?}");
}

#[test]
fn the_front_page_lists_every_module() {
    let page = fs::read_to_string(package().join("src/lib.rs")).unwrap();
    for entry in fs::read_dir(package().join("src")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if name == "lib" || name == "main" {
            continue;
        }
        let rank = rank(&name).unwrap_or_else(|| panic!("`{name}` has no rank"));
        let row =
            page.lines().find(|line| line.starts_with("//! |") && line.contains(&format!("[`{name}`]")));
        let row = row.unwrap_or_else(|| panic!("src/lib.rs does not list `{name}`"));
        assert!(row.starts_with(&format!("//! | {rank} |")), "src/lib.rs gives `{name}` another rank");
    }
}

/// The codes that clients see have one meaning each.
#[test]
fn error_codes_are_unique() {
    let mut codes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for line in source.text.lines().filter(|line| line.contains("const ") && line.contains(": i64 = -3"))
        {
            let (left, right) = line.split_once(": i64 = ").unwrap();
            let name = left.rsplit(' ').next().unwrap_or_default();
            codes
                .entry(right.trim_end_matches(';').to_owned())
                .or_default()
                .push(format!("{}: {name}", source.path));
        }
    }
    assert!(codes.len() > 5, "the codes are no longer found: {codes:?}");
    let double: Vec<_> = codes.iter().filter(|(_, names)| names.len() > 1).collect();
    assert!(double.is_empty(), "{double:#?}");
}

// === the checks can fail ===

/// Offences of a rule in a file made up for the purpose.
fn offences(rule: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
    rule(&Source::new(path, text)).len()
}

#[test]
fn edges_are_found_wherever_they_hide() {
    let up = "use crate::{base::clock, upstream::{self, stdio}}; fn f() { m!(crate::app::x()); }";
    assert_eq!(offences(ranks, "relay/route.rs", up), 3);
    assert_eq!(offences(ranks, "relay/route.rs", "pub(in crate::relay) fn f() { crate::call::x() }"), 0);
    assert_eq!(offences(ranks, "relay/route.rs", "// crate::app\nconst T: &str = \"crate::app\";"), 0);
    assert_eq!(offences(ranks, "framing/sse.rs", "use crate::jsonrpc::Id;"), 1);
    assert_eq!(offences(ranks, "helpers/x.rs", ""), 1);
    assert_eq!(offences(ranks, "gate/x.rs", "#[cfg(test)] mod tests { use crate::relay::X; }"), 1);
}

#[test]
fn climbing_is_found() {
    assert_eq!(offences(supers, "gate/mod.rs", "use super::relay;"), 1);
    assert_eq!(offences(supers, "gate/x.rs", "use super::y; mod z { use super::super::y; }"), 0);
    assert_eq!(offences(supers, "gate/x.rs", "mod z { use super::super::super::y; }"), 1);
    assert_eq!(offences(supers, "gate/authn/mod.rs", "use super::x; use super::super::x;"), 1);
    assert_eq!(offences(globs, "gate/x.rs", "use super::y::*; #[cfg(test)] mod tests { use super::*; }"), 1);
    assert_eq!(offences(globs, "gate/x.rs", "use crate::{base::{clock::*}, call}; use other::*;"), 1);
}

#[test]
fn forbidden_names_are_found() {
    let forbidden = [
        "fn f() { counter!(\"x\"); }",
        "fn f() { tracing::info!(\"x\"); }",
        "use std::env; fn f() { env::var(\"X\"); }",
        "fn f() { std::time::Instant::now(); }",
        "use tokio::{net::TcpStream, time::{self, sleep}};",
        "fn f() { tokio::spawn(async {}); }",
        "use tokio::task::JoinSet;",
        "fn f() { Admitted::grant(call); }",
        "fn f() { Command::new(\"sh\"); }",
        "use http::HeaderMap;",
        "use anyhow::Context;",
    ];
    for text in forbidden {
        assert_eq!(offences(only, "relay/x.rs", text), 1, "{text}");
        assert_eq!(offences(only, "relay/x/tests.rs", text), 0, "{text}");
        assert_eq!(
            offences(only, "relay/x.rs", &format!("#[cfg(test)] mod tests {{ {text} }}")),
            0,
            "{text}"
        );
    }
    assert_eq!(offences(only, "downstream/one.rs", "fn f() { StatusCode::BAD_GATEWAY; StatusCode::OK; }"), 1);
    assert_eq!(offences(only, "cli/x.rs", "use super::http; fn f() { http::send(); }"), 0);
    assert_eq!(offences(only, "cli/x.rs", "#[cfg(all(test, unix))] mod tests { use http::HeaderMap; }"), 0);
    assert_eq!(offences(only, "cli/x.rs", "#[cfg(not(test))] mod x { use http::HeaderMap; }"), 1);
    assert_eq!(offences(only, "base/clock.rs", "fn f() { Instant::now(); }"), 0);
    assert_eq!(offences(only, "relay/x.rs", "fn f() { if warn != x { env!(\"CARGO_PKG_VERSION\"); } }"), 0);
    assert_eq!(
        offences(trees, "relay/x.rs", "use serde_json::{value::RawValue, Value}; fn f() { json!({}) }"),
        2
    );
    assert_eq!(offences(purity, "mcp/x.rs", "use tokio::net::TcpStream; use std::{fmt, fs};"), 2);
}

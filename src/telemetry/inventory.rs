//! The list of all metrics as a page of the documentation.

use std::fmt::Write as _;

use super::metrics::{ALL, Kind, Metric};
use super::words::UPSTREAM;

/// `docs/metrics.md` as it has to be.
#[must_use]
pub fn page() -> String {
    let mut page = String::from(HEAD);
    for metric in ALL {
        write_metric(&mut page, metric);
    }
    page
}

const HEAD: &str = "\
# Metrics

<!-- Made from src/telemetry/metrics.rs; a test compares. -->

The operator's port serves these under `/metrics` in Prometheus' text format.

- Labels come from the closed sets below or from the configuration, never from what peers send.
- `upstream` is a name from the configuration, or `-` where the gateway answered itself. The series
  of an upstream disappear when it is removed from the configuration.
- Series appear with their first use; a counter that is missing is 0.
";

fn write_metric(page: &mut String, metric: &Metric) {
    let kind = match metric.kind {
        Kind::Counter | Kind::Total => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    // Writing into a string does not fail.
    let _ = writeln!(page, "\n## `{}`\n\n{} *({kind})*", metric.name, metric.help);
    let mut items = Vec::new();
    for label in metric.labels {
        items.push(if label.label == UPSTREAM {
            format!("- `{UPSTREAM}`: name of the upstream")
        } else if label.label == "version" {
            "- `version`: version of the program".to_owned()
        } else {
            let values: Vec<_> = label.values.iter().map(|value| format!("`{value}`")).collect();
            format!("- `{}`: {}", label.label, values.join(", "))
        });
    }
    if let Kind::Histogram(buckets) = metric.kind {
        let bounds: Vec<_> = buckets.iter().map(ToString::to_string).collect();
        items.push(format!("- upper bounds of the buckets: {}", bounds.join(", ")));
    }
    if !items.is_empty() {
        let _ = writeln!(page, "\n{}", items.join("\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn names_have_the_prefix_and_differ() {
        let mut seen = std::collections::HashSet::new();
        for metric in ALL {
            assert!(metric.name.starts_with("portcullis_"), "{}", metric.name);
            assert!(seen.insert(metric.name), "{} twice", metric.name);
            let total = matches!(metric.kind, Kind::Counter | Kind::Total);
            assert_eq!(metric.name.ends_with("_total"), total, "{}", metric.name);
            assert!(metric.help.ends_with('.') && metric.help.len() > 10, "{}", metric.name);
        }
    }

    /// `PORTCULLIS_WRITE=1 cargo test --lib inventory` writes the page instead of comparing it.
    #[test]
    fn the_page_in_docs_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
        if std::env::var_os("PORTCULLIS_WRITE").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page(),
            "docs/metrics.md is old; PORTCULLIS_WRITE=1 cargo test --lib inventory writes it"
        );
    }
}

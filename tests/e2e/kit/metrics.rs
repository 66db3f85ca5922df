//! The operator's metrics page, read as a table.

use std::collections::BTreeMap;
use std::fmt;

/// One series: its name, its labels, its value.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// All series of a page.
#[derive(Clone, Debug)]
pub struct Metrics {
    pub series: Vec<Series>,
    pub bytes: usize,
}

impl Metrics {
    pub fn read(page: &str) -> Self {
        let lines = page.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Metrics { series: lines.map(series).collect(), bytes: page.len() }
    }

    /// The sum of the series of this name that carry all these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let carries = |series: &&Series| {
            labels.iter().all(|(label, value)| series.labels.get(*label).is_some_and(|known| known == value))
        };
        self.series
            .iter()
            .filter(|series| series.name == name)
            .filter(carries)
            .map(|series| series.value)
            .sum()
    }

    /// The values that a label takes in the series of this name.
    pub fn values(&self, name: &str, label: &str) -> Vec<String> {
        let of_name = self.series.iter().filter(|series| series.name == name);
        let mut values: Vec<String> =
            of_name.filter_map(|series| series.labels.get(label).cloned()).collect();
        values.sort();
        values.dedup();
        values
    }
}

/// The page without the buckets of histograms.
impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for series in self.series.iter().filter(|series| !series.name.ends_with("_bucket")) {
            writeln!(f, "{} {:?} {}", series.name, series.labels, series.value)?;
        }
        Ok(())
    }
}

fn series(line: &str) -> Series {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("a metrics line {line:?}"));
    let value = value.parse().unwrap_or_else(|_| panic!("a metrics value in {line:?}"));
    let Some((name, rest)) = head.split_once('{') else {
        return Series { name: head.into(), labels: BTreeMap::new(), value };
    };
    let labels = rest.strip_suffix('}').unwrap_or_else(|| panic!("the labels of {line:?}"));
    let labels = labels.split("\",").filter(|pair| !pair.is_empty()).map(|pair| {
        let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("a label of {line:?}"));
        (label.to_owned(), value.trim_end_matches('"').to_owned())
    });
    Series { name: name.into(), labels: labels.collect(), value }
}

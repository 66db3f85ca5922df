//! `portcullis.catalog`: how the lists of upstreams are read, bounded, merged and named.

use std::ops::RangeInclusive;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::{DAY, KIB, MIB, SECOND};
use crate::base::caps;
use crate::base::units::{ByteSize, Period};
use crate::config::decode::Table;

/// How the lists of upstreams are read, bounded, merged and named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Catalog {
    /// Items in a page of a list; 0 for one page with everything.
    pub page_size: usize,
    /// How often the lists of an upstream are read again that does not announce changes.
    #[serde(with = "Period")]
    pub refresh: Duration,
    /// How long the first list waits for upstreams that are still starting.
    #[serde(with = "Period")]
    pub start_budget: Duration,
    /// How long the last known lists of an upstream that is gone are still shown.
    #[serde(with = "Period")]
    pub stale_for: Duration,
    /// What becomes of the instructions of upstreams.
    pub instructions: Instructions,
    /// What happens to an item whose definition hides or spoofs something.
    pub on_finding: OnFinding,
    /// The longest name on a merged endpoint. Clients put their own prefix before it.
    pub name_budget: usize,
    /// The longest name on the endpoint of a single upstream.
    pub upstream_name_budget: usize,
    /// How many tools, prompts, resources or templates an upstream may list, each.
    pub max_items: usize,
    /// The largest definition of an item.
    #[serde(with = "ByteSize")]
    pub max_item_size: usize,
    /// The size of all definitions of an upstream together.
    #[serde(with = "ByteSize")]
    pub max_size: usize,
    /// How many pages of a list are read from an upstream.
    pub max_pages: usize,
    /// The longest instructions taken from an upstream.
    #[serde(with = "ByteSize")]
    pub max_instructions: usize,
    /// The longest instructions that a client is given, of all upstreams together.
    #[serde(with = "ByteSize")]
    pub max_merged_instructions: usize,
}

/// What becomes of the instructions of an upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Instructions {
    /// Clients see them.
    #[default]
    Pass,
    /// Clients do not see them.
    Drop,
}

/// What happens to an item whose definition hides or spoofs something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OnFinding {
    /// It is shown, and reported.
    #[default]
    Report,
    /// It is not shown, and reported.
    Withhold,
    /// It is shown without the offending characters, and reported.
    Strip,
}

impl Default for Catalog {
    fn default() -> Self {
        Self {
            page_size: 0,
            refresh: Duration::from_secs(5 * 60),
            start_budget: Duration::from_secs(3),
            stale_for: caps::CATALOG_STALE,
            instructions: Instructions::Pass,
            on_finding: OnFinding::Report,
            name_budget: caps::MERGED_NAME_CHARS,
            upstream_name_budget: caps::SINGLE_NAME_CHARS,
            max_items: caps::CATALOG_ITEMS,
            max_item_size: caps::CATALOG_ITEM_BYTES,
            max_size: caps::CATALOG_BYTES,
            max_pages: caps::CATALOG_PAGES,
            max_instructions: caps::INSTRUCTIONS_BYTES,
            max_merged_instructions: caps::MERGED_INSTRUCTIONS_BYTES,
        }
    }
}

/// How long a name may be.
const NAME_CHARS: RangeInclusive<usize> = caps::NAME_CHARS_MIN..=caps::NAME_CHARS_MAX;

impl Catalog {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            page_size: table.read("pageSize", |field| field.count(0..=100_000)).unwrap_or(default.page_size),
            refresh: table
                .read("refresh", |field| field.period(SECOND..=30 * DAY))
                .unwrap_or(default.refresh),
            start_budget: table
                .read("startBudget", |field| field.period(Duration::ZERO..=300 * SECOND))
                .unwrap_or(default.start_budget),
            stale_for: table
                .read("staleFor", |field| field.period(Duration::ZERO..=365 * DAY))
                .unwrap_or(default.stale_for),
            instructions: table
                .read("instructions", |field| field.choice(&Instructions::WORDS))
                .unwrap_or(default.instructions),
            on_finding: table
                .read("onFinding", |field| field.choice(&OnFinding::WORDS))
                .unwrap_or(default.on_finding),
            name_budget: table
                .read("nameBudget", |field| field.count(NAME_CHARS))
                .unwrap_or(default.name_budget),
            upstream_name_budget: table
                .read("upstreamNameBudget", |field| field.count(NAME_CHARS))
                .unwrap_or(default.upstream_name_budget),
            ..Self::decode_caps(table, default)
        }
    }

    fn decode_caps(table: &mut Table<'_, '_>, default: Self) -> Self {
        Self {
            max_items: table
                .read("maxItems", |field| field.count(1..=1_000_000))
                .unwrap_or(default.max_items),
            max_item_size: table
                .read("maxItemSize", |field| field.size(KIB..=1024 * MIB))
                .unwrap_or(default.max_item_size),
            max_size: table.read("maxSize", |field| field.size(KIB..=1024 * MIB)).unwrap_or(default.max_size),
            max_pages: table.read("maxPages", |field| field.count(1..=100_000)).unwrap_or(default.max_pages),
            max_instructions: table
                .read("maxInstructions", |field| field.size(0..=caps::INSTRUCTIONS_BYTES_MAX))
                .unwrap_or(default.max_instructions),
            max_merged_instructions: table
                .read("maxMergedInstructions", |field| field.size(0..=MIB))
                .unwrap_or(default.max_merged_instructions),
            ..default
        }
    }
}

impl Instructions {
    pub(in crate::config) const WORDS: [(&str, Self); 2] = [("pass", Self::Pass), ("drop", Self::Drop)];
}

impl OnFinding {
    const WORDS: [(&str, Self); 3] =
        [("report", Self::Report), ("withhold", Self::Withhold), ("strip", Self::Strip)];
}

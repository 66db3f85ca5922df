//! `portcullis.children`: how many processes the gateway may start, and for how long.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::{DAY, SECOND};
use crate::base::caps;
use crate::base::units::Period;
use crate::config::decode::Table;

/// How many processes the gateway may start for its upstreams, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Children {
    /// How many processes of one upstream may run at once.
    pub per_upstream: usize,
    /// How many processes may run at once in all.
    pub total: usize,
    /// How long a call waits for a process when as many run as may.
    #[serde(with = "Period")]
    pub queue: Duration,
    /// A process that nobody used for this time is stopped; it starts again when it is needed.
    #[serde(with = "Period")]
    pub idle: Duration,
}

impl Default for Children {
    fn default() -> Self {
        Self {
            per_upstream: caps::CHILDREN_PER_UPSTREAM,
            total: caps::CHILDREN,
            queue: caps::CHILD_SLOT_WAIT,
            idle: caps::CHILD_IDLE,
        }
    }
}

impl Children {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            per_upstream: table
                .read("perUpstream", |field| field.count(1..=100_000))
                .unwrap_or(default.per_upstream),
            total: table.read("total", |field| field.count(1..=100_000)).unwrap_or(default.total),
            queue: table
                .read("queue", |field| field.period(Duration::ZERO..=600 * SECOND))
                .unwrap_or(default.queue),
            idle: table.read("idle", |field| field.period(SECOND..=365 * DAY)).unwrap_or(default.idle),
        }
    }
}

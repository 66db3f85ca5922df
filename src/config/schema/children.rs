//! `portcullis.children`: how many processes the gateway may start, and for how long.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::units::Period;

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
            per_upstream: 32,
            total: 128,
            queue: Duration::from_secs(10),
            idle: Duration::from_secs(5 * 60),
        }
    }
}

//! `portcullis.drain`: how the gateway stops.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::DAY;
use crate::base::units::Period;
use crate::config::decode::Table;

/// How the gateway stops when it is told to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Drain {
    /// How long running calls may still take before they are cut off. A supervisor's own limit (30s in
    /// Kubernetes) has to be longer than this and `delay` together.
    #[serde(with = "Period")]
    pub grace: Duration,
    /// How long the gateway goes on serving after it says that it is not ready, so that load balancers
    /// can notice.
    #[serde(with = "Period")]
    pub delay: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self { grace: Duration::from_secs(25), delay: Duration::ZERO }
    }
}

impl Drain {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            grace: table.read("grace", |field| field.period(Duration::ZERO..=DAY)).unwrap_or(default.grace),
            delay: table.read("delay", |field| field.period(Duration::ZERO..=DAY)).unwrap_or(default.delay),
        }
    }
}

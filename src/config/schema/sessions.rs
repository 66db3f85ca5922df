//! `portcullis.sessions`: how many sessions clients may hold, and for how long.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::{DAY, SECOND};
use crate::base::caps;
use crate::base::units::Period;
use crate::config::decode::Table;

/// How many sessions clients may hold, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Sessions {
    /// A session without a request and without an open stream ends after this time.
    #[serde(with = "Period")]
    pub idle: Duration,
    /// How many sessions there may be in all.
    pub max: usize,
    /// How many sessions one caller may hold.
    pub per_principal: usize,
    /// A session that was begun and not completed by `notifications/initialized` ends after this time.
    #[serde(with = "Period")]
    pub handshake: Duration,
    /// How many questions of upstreams one session may have open: sampling, elicitation and roots. More are
    /// turned down.
    pub questions: usize,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(30 * 60),
            max: 10_000,
            per_principal: 5_000,
            handshake: Duration::from_secs(60),
            questions: caps::QUESTIONS_PER_SESSION,
        }
    }
}

impl Sessions {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            idle: table.read("idle", |field| field.period(SECOND..=30 * DAY)).unwrap_or(default.idle),
            max: table.read("max", |field| field.count(1..=10_000_000)).unwrap_or(default.max),
            per_principal: table
                .read("perPrincipal", |field| field.count(1..=10_000_000))
                .unwrap_or(default.per_principal),
            handshake: table
                .read("handshake", |field| field.period(SECOND..=DAY))
                .unwrap_or(default.handshake),
            questions: table.read("questions", |field| field.count(1..=10_000)).unwrap_or(default.questions),
        }
    }
}

//! `timeouts`, for all upstreams under `portcullis`, for one under its entry: how long a server may take.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::bounds::{DAY, MILLISECOND};
use crate::base::caps;
use crate::base::units::Period;
use crate::config::decode::{Field, Refusal, Table};

/// How long an upstream may take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Timeouts {
    /// To accept a connection.
    #[serde(with = "Period")]
    pub connect: Duration,
    /// To complete the TLS handshake.
    #[serde(with = "Period")]
    pub tls: Duration,
    /// To answer `initialize`.
    #[serde(with = "Period")]
    pub handshake: Duration,
    /// To answer `initialize` after a process was started the first time, when it may have to be
    /// downloaded.
    #[serde(with = "Period")]
    pub first_start: Duration,
    /// To answer a page of a list.
    #[serde(with = "Period")]
    pub list: Duration,
    /// To answer a read or a prompt.
    #[serde(with = "Period")]
    pub read: Duration,
    /// Between two signs of life of a running call: progress, a log message, a part of the answer.
    #[serde(with = "Period")]
    pub call_idle: Duration,
    /// For a call in all. While a client is asked something for a call, neither this nor `callIdle` counts.
    #[serde(with = "Period")]
    pub call: Duration,
    /// For the answer to a question that the server asks a client, which a person may have to give.
    #[serde(with = "Period")]
    pub question: Duration,
}

/// How long one tool may take, where that differs from the other tools of its upstream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct ToolTimeouts {
    /// Between two signs of life of a running call.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<Period>")]
    pub call_idle: Option<Duration>,
    /// For a call in all.
    #[serde(skip_serializing)]
    #[schemars(with = "Option<Period>")]
    pub call: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: caps::CONNECT,
            tls: caps::TLS_HANDSHAKE,
            handshake: caps::HANDSHAKE,
            first_start: caps::FIRST_HANDSHAKE,
            list: caps::LIST,
            read: caps::READ,
            call_idle: caps::CALL_IDLE,
            call: caps::CALL,
            question: caps::QUESTION,
        }
    }
}

impl Timeouts {
    /// Reads what differs from the given ones.
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>, default: &Self) -> Self {
        Self {
            connect: table.read("connect", limit).unwrap_or(default.connect),
            tls: table.read("tls", limit).unwrap_or(default.tls),
            handshake: table.read("handshake", limit).unwrap_or(default.handshake),
            first_start: table.read("firstStart", limit).unwrap_or(default.first_start),
            list: table.read("list", limit).unwrap_or(default.list),
            read: table.read("read", limit).unwrap_or(default.read),
            call_idle: table.read("callIdle", limit).unwrap_or(default.call_idle),
            call: table.read("call", limit).unwrap_or(default.call),
            question: table.read("question", limit).unwrap_or(default.question),
        }
    }
}

impl ToolTimeouts {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        Self { call_idle: table.read("callIdle", limit), call: table.read("call", limit) }
    }
}

/// Every wait has a deadline, so there is no word for none.
fn limit(field: &mut Field<'_, '_>) -> Result<Duration, Refusal> {
    field.period(MILLISECOND..=7 * DAY)
}

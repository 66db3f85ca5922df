//! `portcullis` inside an entry: what only this gateway knows about a server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::catalog::Instructions;
use super::entry::fields::variable_name;
use super::timeouts::{Timeouts, ToolTimeouts};
use crate::config::decode::{Placed, Table};
use crate::config::names::NAMESPACE_ALLOWED;
use crate::config::snapshot::Isolation;
use crate::mcp::names::check_namespace;

/// What only this gateway knows about a server.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(rename_all = "camelCase", deny_unknown_fields)]
pub struct Own {
    /// The prefix of its names on the merged endpoint; `none` for no prefix, its name in the file when
    /// absent.
    #[schemars(with = "Option<Namespace>")]
    pub(in crate::config) namespace: Option<Placed<Namespace>>,
    /// Who shares a connection to it. When absent: each session has its own, unless the server keeps no
    /// sessions.
    #[schemars(with = "Option<Isolation>")]
    pub(in crate::config) isolation: Option<Placed<Isolation>>,
    /// How long it may take, where that differs from `timeouts` for all.
    pub timeouts: Option<Timeouts>,
    /// How long some of its tools may take, by their own names.
    #[schemars(with = "Option<BTreeMap<String, ToolTimeouts>>")]
    pub tool_timeouts: BTreeMap<String, ToolTimeouts>,
    /// Makes the gateway unready while the server is not there.
    #[schemars(with = "Option<bool>")]
    pub required: bool,
    /// What becomes of its instructions, where that differs from `catalog.instructions`.
    pub instructions: Option<Instructions>,
    /// Certificates that are trusted besides those of the system, in PEM, for a server on the network.
    #[schemars(with = "Option<String>")]
    pub ca_file: Option<PathBuf>,
    /// Variables of the gateway that the program gets besides the usual ones.
    #[schemars(with = "Option<Vec<String>>")]
    pub pass_env: Vec<String>,
    /// What the server may ask clients for, as far as they offer it. When absent: everything, but `roots` only
    /// a program that serves clients on this machine, whose files are its own.
    pub questions: Option<Vec<Asks>>,
}

/// What a server may ask clients for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Asks {
    /// Answers of the client's model.
    Sampling,
    /// Input of the person at the client.
    Elicitation,
    /// The folders that the client works in.
    Roots,
}

/// The prefix of a server's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespace {
    /// No prefix.
    None,
    /// This word.
    Word(String),
}

impl Own {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>, timeouts: &Timeouts) -> Self {
        let tool_timeouts = table.read("toolTimeouts", |field| {
            field.open_table(|tools| tools.read_all(|_, field| field.table(ToolTimeouts::decode)))
        });
        Self {
            namespace: table
                .read_placed("namespace", |field| field.parsed(NAMESPACE_ALLOWED, Namespace::parse)),
            isolation: table.read_placed("isolation", |field| field.choice(&Isolation::WORDS)),
            timeouts: table
                .read("timeouts", |field| field.table(|table| Timeouts::decode(table, timeouts)))
                .or_else(|| Some(timeouts.clone())),
            tool_timeouts: tool_timeouts.unwrap_or_default().into_iter().collect(),
            required: table.read("required", |field| field.flag()).unwrap_or_default(),
            instructions: table.read("instructions", |field| field.choice(&Instructions::WORDS)),
            ca_file: table.read("caFile", |field| field.path()),
            pass_env: table.read("passEnv", |field| field.list(variable_name)).unwrap_or_default(),
            questions: table.read("questions", |field| field.list(|item| item.choice(&Asks::WORDS))),
        }
    }
}

impl Namespace {
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::None);
        }
        check_namespace(text).ok().map(|()| Self::Word(text.to_owned()))
    }
}

impl Asks {
    const WORDS: [(&str, Self); 3] =
        [("sampling", Self::Sampling), ("elicitation", Self::Elicitation), ("roots", Self::Roots)];
}

impl JsonSchema for Namespace {
    fn schema_name() -> Cow<'static, str> {
        "Namespace".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^[a-z]([a-z0-9-]|_[a-z0-9-]){0,31}$" })
    }
}

impl Isolation {
    const WORDS: [(&str, Self); 4] = [
        ("session", Self::Session),
        ("caller", Self::Caller),
        ("tenant", Self::Tenant),
        ("shared", Self::Shared),
    ];
}

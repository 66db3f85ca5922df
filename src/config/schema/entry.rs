//! An entry under `mcpServers`: a server as the configuration of any client describes it.
//!
//! The names of fields differ between clients. The struct and the JSON schema have the common ones; the
//! others are read into the same fields.

pub(in crate::config) mod fields;

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::own::Own;
use super::timeouts::Timeouts;
use crate::config::decode::{Place, Table, Wrong, nearest};
use crate::config::secrets::{Secret, Text};
use crate::config::snapshot::{Address, RemoteKind};

/// A server, as the configuration of a client describes it. Fields that other clients know and the
/// gateway does not are left alone.
#[derive(Debug, Clone, Default, JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct Entry {
    /// How the server is reached; guessed by `command` or `url` when absent.
    #[schemars(rename = "type")]
    pub kind: Option<Kind>,
    /// The program to start, or the program and its arguments as a list.
    #[schemars(with = "Option<CommandLine>")]
    pub command: Vec<Text>,
    /// Arguments of the program.
    #[schemars(with = "Option<Vec<Scalar>>")]
    pub args: Vec<Text>,
    /// Variables that are set for the program, besides the usual ones.
    #[schemars(with = "Option<std::collections::BTreeMap<String, Scalar>>")]
    pub env: Vec<(String, Secret)>,
    /// A file of `NAME=value` lines that are set for the program; `env` wins.
    #[schemars(with = "Option<String>")]
    pub env_file: Option<PathBuf>,
    /// The folder the program starts in; the folder of this file when absent.
    #[schemars(with = "Option<String>")]
    pub cwd: Option<PathBuf>,
    /// Where a server on the network is. Also understood: `httpUrl`, `serverUrl`, `uri`.
    #[schemars(with = "Option<String>")]
    pub url: Option<Address>,
    /// Headers that are sent with every request.
    #[schemars(with = "Option<std::collections::BTreeMap<String, Scalar>>")]
    pub headers: Vec<(String, Secret)>,
    /// How long a call may be silent, in milliseconds. `portcullis.timeouts` has more to say.
    #[schemars(with = "Option<u64>")]
    pub timeout: Option<Duration>,
    /// Leaves the server out.
    #[schemars(with = "Option<bool>")]
    pub disabled: bool,
    /// Shows only these of its tools.
    pub include_tools: Option<Vec<String>>,
    /// Does not show these of its tools.
    #[schemars(with = "Option<Vec<String>>")]
    pub exclude_tools: Vec<String>,
    /// What only this gateway knows.
    #[schemars(with = "Option<Own>")]
    pub portcullis: Own,
    /// What the key that held the URL says about the server.
    #[schemars(skip)]
    pub(in crate::config) remote_kind: Option<RemoteKind>,
    /// Variables of the gateway that the program gets as well.
    #[schemars(skip)]
    pub(in crate::config) env_vars: Vec<String>,
    /// How long the server may take to start.
    #[schemars(skip)]
    pub(in crate::config) startup_timeout: Option<Duration>,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// As a child process.
    Stdio,
    /// On the network.
    Remote(RemoteKind),
}

/// A text, or what is taken as the text it is written as.
struct Scalar;

/// A program, or a program and its arguments.
struct CommandLine;

impl Kind {
    const WORDS: [(&str, Self); 9] = [
        ("stdio", Self::Stdio),
        ("http", Self::Remote(RemoteKind::Http)),
        ("sse", Self::Remote(RemoteKind::Sse)),
        ("streamable-http", Self::Remote(RemoteKind::Http)),
        ("streamable_http", Self::Remote(RemoteKind::Http)),
        ("streamableHttp", Self::Remote(RemoteKind::Http)),
        ("local", Self::Stdio),
        ("remote", Self::Remote(RemoteKind::Auto)),
        ("url", Self::Remote(RemoteKind::Auto)),
    ];
}

impl JsonSchema for Kind {
    fn schema_name() -> Cow<'static, str> {
        "Kind".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": Self::WORDS.map(|(word, _)| word) })
    }
}

impl JsonSchema for CommandLine {
    fn schema_name() -> Cow<'static, str> {
        "CommandLine".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "array"],
            "items": { "type": "string" },
            "minItems": 1,
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

impl JsonSchema for Scalar {
    fn schema_name() -> Cow<'static, str> {
        "Scalar".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// Fields that a server may depend on and that nothing here can honour.
const NOT_HONOURED: [&str; 7] =
    ["oauth", "auth", "authProviderType", "headersHelper", "sandbox", "sandboxEnabled", "container"];

/// Fields whose misspelling is worth a warning.
const COMMON: [&str; 9] = ["command", "args", "env", "cwd", "url", "headers", "type", "disabled", "timeout"];

impl Entry {
    /// Reads an entry. One that is switched off is not looked at any further.
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>, timeouts: &Timeouts) -> Self {
        let disabled = table.read("disabled", |field| field.flag());
        let enabled = table.read("enabled", |field| field.flag());
        if disabled == Some(true) || enabled == Some(false) {
            return Self { disabled: true, ..Self::default() };
        }
        let mut entry = Self {
            kind: table.read_any(&["type", "transport"], fields::kind),
            command: table.read_any(&["command", "cmd"], fields::command).unwrap_or_default(),
            args: table.read("args", |field| field.list(fields::argument)).unwrap_or_default(),
            env: table.read_any(&["env", "environment", "envs"], fields::variables).unwrap_or_default(),
            env_file: table.read("envFile", |field| field.path()),
            cwd: table.read("cwd", |field| field.path()),
            env_vars: table.read("env_vars", |field| field.list(fields::variable_name)).unwrap_or_default(),
            ..Self::default()
        };
        entry.read_remote(table);
        entry.read_common(table, timeouts);
        entry.warn_of_keys(table);
        entry
    }

    /// Says which keys are not honoured, and which are probably misspelt.
    fn warn_of_keys(&self, table: &mut Table<'_, '_>) {
        let leads_nowhere = self.command.is_empty() && self.url.is_none();
        for (key, place) in table.keys() {
            if NOT_HONOURED.contains(&key) {
                let message = format!("`{key}` is not supported and is ignored");
                let mend = "send a fixed credential with `headers`, or drop the field";
                table.decoder.warn(&place, message, mend);
            } else if key != "portcullis" && nearest(key, ["portcullis"]).is_some() {
                // Nobody else has a key like this, and what it says must not be lost.
                let wrong = Wrong::new(format!("unknown key `{key}`"));
                let wrong = wrong.mend("did you mean `portcullis`?");
                table.decoder.note(&place, wrong);
            } else if !table.was_asked(key)
                && let Some(meant) = nearest(key, COMMON)
            {
                let message = format!("`{key}` means nothing here");
                let mend = format!("did you mean `{meant}`?");
                if leads_nowhere && matches!(meant, "command" | "url") {
                    table.decoder.note(&place, Wrong::new(message).mend(mend));
                } else {
                    table.decoder.warn(&place, message, &mend);
                }
            }
        }
    }

    fn read_remote(&mut self, table: &mut Table<'_, '_>) {
        for (key, kind) in [
            ("httpUrl", RemoteKind::Http),
            ("url", RemoteKind::Auto),
            ("serverUrl", RemoteKind::Auto),
            ("uri", RemoteKind::Auto),
        ] {
            let url = table.read(key, fields::address);
            if self.url.is_none() && url.is_some() {
                (self.url, self.remote_kind) = (url, Some(kind));
            }
        }
        let headers = table.read_any(&["headers", "http_headers"], fields::headers);
        self.headers.extend(headers.unwrap_or_default());
        let named = table.read("env_http_headers", |field| {
            field.open_table(|table| table.read_all(|name, field| fields::header_from(name, field)))
        });
        for (_, header) in named.unwrap_or_default() {
            self.headers.push(header);
        }
        let token = table
            .read("authorization_token", |field| field.text())
            .or_else(|| table.read("bearer_token_env_var", fields::variable));
        if let Some(token) = token {
            let value = format!("Bearer {}", token.reveal());
            self.headers.push(("authorization".to_owned(), value.into()));
        }
    }

    fn read_common(&mut self, table: &mut Table<'_, '_>, timeouts: &Timeouts) {
        self.timeout = table.read("timeout", fields::milliseconds);
        let seconds = table.read("tool_timeout_sec", fields::seconds);
        self.timeout = self.timeout.or(seconds);
        self.startup_timeout = table
            .read("startup_timeout_sec", fields::seconds)
            .or_else(|| table.read("startup_timeout_ms", fields::milliseconds));
        self.include_tools = table.read_any(&["includeTools", "enabled_tools"], |field| field.words());
        self.exclude_tools =
            table.read_any(&["excludeTools", "disabled_tools"], |field| field.words()).unwrap_or_default();
        let mut base = timeouts.clone();
        base.call_idle = self.timeout.unwrap_or(base.call_idle);
        base.first_start = self.startup_timeout.unwrap_or(base.first_start);
        base.handshake = self.startup_timeout.unwrap_or(base.handshake);
        let own = table.read("portcullis", |field| field.table(|table| Own::decode(table, &base)));
        self.portcullis = own.unwrap_or_else(|| Own { timeouts: Some(base), ..Own::default() });
    }
}

/// An entry with its name and place.
#[derive(Debug)]
pub(in crate::config) struct Named {
    pub name: String,
    pub place: Place,
    pub entry: Entry,
}

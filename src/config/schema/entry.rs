//! An entry under `mcpServers`: a server as the configuration of any client describes it.
//!
//! The names of fields differ between clients. The struct and the JSON schema have the common ones; the
//! others are read into the same fields.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use url::Url;

use super::own::Own;
use super::timeouts::Timeouts;
use crate::base::units::Period;
use crate::config::decode::{Field, Place, Reach, Refusal, Table, Wrong, nearest};
use crate::config::interpolate::is_name;
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
    #[schemars(schema_with = "command_schema")]
    pub command: Vec<Text>,
    /// Arguments of the program.
    #[schemars(default, with = "Option<Vec<Scalar>>")]
    pub args: Vec<Text>,
    /// Variables that are set for the program, besides the usual ones.
    #[schemars(default, with = "Option<std::collections::BTreeMap<String, Scalar>>")]
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
    #[schemars(default, with = "Option<std::collections::BTreeMap<String, Scalar>>")]
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
pub struct Scalar;

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

fn command_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [
        { "type": "string" },
        { "type": "array", "items": { "type": "string" }, "minItems": 1 },
    ] })
}

/// Fields that a server may depend on and that nothing here can honour.
const NOT_HONOURED: [&str; 7] = [
    "oauth",
    "auth",
    "authProviderType",
    "headersHelper",
    "sandbox",
    "sandboxEnabled",
    "container",
];

/// Fields whose misspelling is worth a warning.
const COMMON: [&str; 9] = [
    "command", "args", "env", "cwd", "url", "headers", "type", "disabled", "timeout",
];

impl Entry {
    /// Reads an entry. One that is switched off is not looked at any further.
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>, timeouts: &Timeouts) -> Self {
        let disabled = table.read("disabled", |field| field.flag());
        let enabled = table.read("enabled", |field| field.flag());
        if disabled == Some(true) || enabled == Some(false) {
            return Self {
                disabled: true,
                ..Self::default()
            };
        }
        let mut entry = Self {
            kind: table.read_any(&["type", "transport"], kind),
            command: table
                .read_any(&["command", "cmd"], command)
                .unwrap_or_default(),
            args: table
                .read("args", |field| field.list(argument))
                .unwrap_or_default(),
            env: table
                .read_any(&["env", "environment", "envs"], variables)
                .unwrap_or_default(),
            env_file: table.read("envFile", |field| field.path()),
            cwd: table.read("cwd", |field| field.path()),
            env_vars: table
                .read("env_vars", |field| field.list(variable_name))
                .unwrap_or_default(),
            ..Self::default()
        };
        entry.read_remote(table);
        entry.read_common(table, timeouts);
        warn_of_keys(table);
        entry
    }

    fn read_remote(&mut self, table: &mut Table<'_, '_>) {
        for (key, kind) in [
            ("httpUrl", RemoteKind::Http),
            ("url", RemoteKind::Auto),
            ("serverUrl", RemoteKind::Auto),
            ("uri", RemoteKind::Auto),
        ] {
            let url = table.read(key, address);
            if self.url.is_none() && url.is_some() {
                (self.url, self.remote_kind) = (url, Some(kind));
            }
        }
        let headers = table.read_any(&["headers", "http_headers"], headers);
        self.headers.extend(headers.unwrap_or_default());
        let named = table.read("env_http_headers", |field| {
            field.open_table(|table| table.read_all(|name, field| header_from(name, field)))
        });
        for (_, header) in named.unwrap_or_default() {
            self.headers.push(header);
        }
        let token = table
            .read("authorization_token", |field| field.text())
            .or_else(|| table.read("bearer_token_env_var", variable));
        if let Some(token) = token {
            let value = format!("Bearer {}", token.reveal());
            self.headers
                .push(("authorization".to_owned(), value.into()));
        }
    }

    fn read_common(&mut self, table: &mut Table<'_, '_>, timeouts: &Timeouts) {
        self.timeout = table.read("timeout", milliseconds);
        let seconds = table.read("tool_timeout_sec", |field| field.seconds());
        self.timeout = self.timeout.or(seconds);
        self.startup_timeout = table
            .read("startup_timeout_sec", |field| field.seconds())
            .or_else(|| table.read("startup_timeout_ms", milliseconds));
        self.include_tools =
            table.read_any(&["includeTools", "enabled_tools"], |field| field.words());
        self.exclude_tools = table
            .read_any(&["excludeTools", "disabled_tools"], |field| field.words())
            .unwrap_or_default();
        let mut base = timeouts.clone();
        base.call_idle = self.timeout.unwrap_or(base.call_idle);
        base.first_start = self.startup_timeout.unwrap_or(base.first_start);
        base.handshake = self.startup_timeout.unwrap_or(base.handshake);
        let own = table.read("portcullis", |field| {
            field.table(|table| Own::decode(table, &base))
        });
        self.portcullis = own.unwrap_or_else(|| Own {
            timeouts: Some(base),
            ..Own::default()
        });
    }
}

/// Says which keys are not honoured, and which are probably misspelt.
fn warn_of_keys(table: &mut Table<'_, '_>) {
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
            table.decoder.warn(&place, message, &mend);
        }
    }
}

/// A kind of server; one that is not known makes this entry fail and no other.
fn kind(field: &mut Field<'_, '_>) -> Result<Kind, Refusal> {
    field.choice(&Kind::WORDS).map_err(|refusal| match refusal {
        Refusal::Wrong(wrong) => wrong.reaching(Reach::Entry).into(),
        Refusal::Noted => Refusal::Noted,
    })
}

fn command(field: &mut Field<'_, '_>) -> Result<Vec<Text>, Refusal> {
    let argv = if field.is_list() {
        field.list(argument)?
    } else {
        vec![argument(field)?]
    };
    match argv.first() {
        Some(program) if !program.reveal().trim().is_empty() => Ok(argv),
        _ => Err(Wrong::new("the program is missing").into()),
    }
}

fn argument(field: &mut Field<'_, '_>) -> Result<Text, Refusal> {
    without_nul(field.scalar()?)
}

fn variables(field: &mut Field<'_, '_>) -> Result<Vec<(String, Secret)>, Refusal> {
    field.open_table(|table| {
        table.read_all(|name, field| {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(Wrong::new("this is not the name of a variable").into());
            }
            Ok(without_nul(field.scalar()?)?.into_secret())
        })
    })
}

/// The name of a variable that is passed on.
pub(super) fn variable_name(field: &mut Field<'_, '_>) -> Result<String, Refusal> {
    field.parsed("the name of a variable", |name| {
        is_name(name).then(|| name.to_owned())
    })
}

/// The value of the variable whose name stands here.
fn variable(field: &mut Field<'_, '_>) -> Result<Text, Refusal> {
    let name = variable_name(field)?;
    match field.decoder.variables.environment.text(&name) {
        Some(value) => Ok(Text::hidden(value)),
        None => {
            let wrong = Wrong::new(format!("variable `{name}` is not set"));
            let mend = "set it, or write it into a file .env beside this one";
            Err(wrong.mend(mend).reaching(Reach::Entry).into())
        }
    }
}

fn header_from(name: &str, field: &mut Field<'_, '_>) -> Result<(String, Secret), Refusal> {
    let value = variable(field)?;
    Ok((header_name(name)?, header_value(value)?))
}

fn headers(field: &mut Field<'_, '_>) -> Result<Vec<(String, Secret)>, Refusal> {
    let read = |name: &str, field: &mut Field<'_, '_>| {
        let name = header_name(name)?;
        Ok((name, header_value(field.scalar()?)?))
    };
    let pairs = field.open_table(|table| table.read_all(read))?;
    Ok(pairs.into_iter().map(|(_, header)| header).collect())
}

/// Headers that the protocol or the connection owns (F-093).
const OWNED_HEADERS: [&str; 15] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

fn header_name(name: &str) -> Result<String, Wrong> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(Wrong::new("this is not the name of a header"));
    }
    let name = name.to_ascii_lowercase();
    if OWNED_HEADERS.contains(&name.as_str()) || name.starts_with("mcp-") {
        let wrong = Wrong::new("this header belongs to the protocol and cannot be set");
        return Err(wrong.mend("remove it"));
    }
    Ok(name)
}

fn header_value(text: Text) -> Result<Secret, Wrong> {
    let visible = |c: char| c == '\t' || (' '..='~').contains(&c);
    if text.reveal().chars().all(visible) {
        return Ok(text.into_secret());
    }
    let wrong = Wrong::new("the value has characters that a header cannot have");
    Err(wrong
        .mend("allowed: printable ASCII")
        .reaching(reach(&text)))
}

fn without_nul(text: Text) -> Result<Text, Refusal> {
    if text.reveal().contains('\0') {
        let wrong = Wrong::new("the value has a NUL character");
        return Err(wrong.reaching(reach(&text)).into());
    }
    Ok(text)
}

/// A URL; what is wrong with it is said without showing it, since it may hold a key.
fn address(field: &mut Field<'_, '_>) -> Result<Address, Refusal> {
    let text = field.text()?;
    let allowed = "allowed: an http or https URL, such as https://mcp.example.com/mcp";
    let url = match Url::parse(text.reveal()) {
        Ok(url) => url,
        Err(error) => {
            let wrong = Wrong::new(format!("this is not a URL: {error}"));
            return Err(wrong.mend(allowed).reaching(reach(&text)).into());
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        let wrong = Wrong::new("only http and https are supported");
        return Err(wrong.mend(allowed).reaching(Reach::Entry).into());
    }
    Ok(Address::new(url, &text))
}

/// What comes from elsewhere and is wrong, is the fault of elsewhere.
fn reach(text: &Text) -> Reach {
    if text.is_secret() {
        Reach::Entry
    } else {
        Reach::File
    }
}

/// The longest wait that is taken over from the configuration of a client.
const LONGEST: u64 = 7 * 24 * 60 * 60 * 1000;

fn milliseconds(field: &mut Field<'_, '_>) -> Result<Duration, Refusal> {
    let allowed = "a number of milliseconds from 1; \
                   `portcullis.timeouts` takes texts such as \"30s\"";
    field.parsed(allowed, |text| {
        let millis: u64 = text.parse().ok()?;
        (1..=LONGEST)
            .contains(&millis)
            .then(|| Duration::from_millis(millis))
    })
}

impl Field<'_, '_> {
    fn seconds(&mut self) -> Result<Duration, Refusal> {
        self.parsed("a number of seconds", |text| {
            let period = Period::parse(text).ok()?;
            let bounds = Duration::from_millis(1)..=Duration::from_millis(LONGEST);
            (text.parse::<f64>().is_ok() && bounds.contains(&period)).then_some(period)
        })
    }
}

/// An entry with its name and place.
#[derive(Debug)]
pub(in crate::config) struct Named {
    pub name: String,
    pub place: Place,
    pub entry: Entry,
}

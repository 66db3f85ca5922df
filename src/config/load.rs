//! Reading a configuration: from a file, from a text, or from nothing but a command or a URL.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use url::Url;

use super::check::Locator;
use super::compile::Origin;
use super::decode::Decoder;
use super::discover::check_permissions;
use super::document::{Format, MAX_BYTES, Source};
use super::environment::Environment;
use super::interpolate::Variables;
use super::problem::{Problem, Problems};
use super::schema::entry::fields::{header_name, header_value};
use super::schema::file::{Contents, File};
use super::schema::gateway::Gateway;
use super::secrets::{Secret, Text};
use super::snapshot::{
    Addresses, Instructions, Remote, RemoteKind, Snapshot, Stdio, Timeouts, ToolFilter, Transport, Upstream,
};

/// What the only upstream is called when there is no file.
const ONLY_UPSTREAM: &str = "upstream";

/// Reads a file, with the `.env` beside it, checks it, and compiles it.
///
/// # Errors
/// All that is wrong with the file as a whole. What is wrong with the world around one entry is in
/// [`Snapshot::failed`] instead.
pub fn load(path: &Path, environment: &Environment) -> Result<Snapshot, Problems> {
    let shown = path.display().to_string();
    let unreadable =
        |error: std::io::Error| Problem::of_file(shown.as_str(), format!("cannot read the file: {error}"));
    let format = Format::of(path).ok_or_else(|| {
        Problem::of_file(shown.as_str(), "the ending of the name tells no format")
            .mend("allowed: .json, .jsonc, .json5, .yaml, .yml, .toml")
    })?;
    let path = std::path::absolute(path).map_err(unreadable)?;
    check_permissions(&path)?;
    let text = read(&path).map_err(unreadable)?;
    let text =
        text.ok_or_else(|| Problem::of_file(shown.as_str(), "this is not UTF-8 text of at most 4MiB"))?;
    let folder = path.parent().map(PathBuf::from);
    let environment = match &folder {
        Some(folder) => environment
            .with_dotenv(&folder.join(".env"))
            .map_err(|error| Problem::of_file(shown.as_str(), error.to_string()))?,
        None => environment.clone(),
    };
    let origin = Origin { path: Some(path), environment: Arc::new(environment) };
    compile(&Source::new(shown, text), format, origin)
}

/// Checks and compiles a text, under the name that messages shall give it.
///
/// # Errors
/// As [`load`].
pub fn parse(
    text: &str,
    format: Format,
    name: &str,
    environment: &Environment,
) -> Result<Snapshot, Problems> {
    let origin = Origin { path: None, environment: Arc::new(environment.clone()) };
    if text.len() > MAX_BYTES {
        return Err(Problem::of_file(name, "this is larger than 4MiB").into());
    }
    compile(&Source::new(name, text), format, origin)
}

/// The JSON schema of the file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(File).to_value()
}

fn compile(source: &Source, format: Format, origin: Origin) -> Result<Snapshot, Problems> {
    let root = format.read(source).map_err(Problems)?;
    let environment = origin.environment.clone();
    let folder = origin.path.as_deref().and_then(Path::parent);
    let folder = folder.map(PathBuf::from);
    let variables = Variables { environment: &environment, folder: folder.as_deref() };
    let mut decoder = Decoder::new(source, variables);
    let contents = Contents::decode(&mut decoder, &root);
    let mut snapshot = Snapshot::compile(contents, origin, &mut decoder);
    let Decoder { mut problems, mut warnings, .. } = decoder;
    let findings = snapshot.check(Locator::of(source, &root));
    problems.extend(findings.problems);
    if !problems.is_empty() {
        problems.sort_by_key(|problem| problem.position);
        return Err(Problems(problems));
    }
    warnings.extend(findings.warnings);
    warnings.sort_by_key(|problem| problem.position);
    snapshot.warnings = warnings;
    Ok(snapshot)
}

/// The text of a file; none if it is too large or not UTF-8.
fn read(path: &Path) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_BYTES))
}

impl Snapshot {
    /// A configuration for one command and nothing else, for `serve -- CMD ARGS…`.
    ///
    /// # Errors
    /// When there is no command.
    pub fn for_command(argv: &[String], environment: &Environment) -> Result<Self, Problems> {
        let mut texts = argv.iter().map(Text::plain);
        let command = texts
            .next()
            .filter(|command| !command.reveal().is_empty())
            .ok_or_else(|| Problem::of_file("command line", "the command is missing"))?;
        let stdio =
            Stdio { command, args: texts.collect(), env: Vec::new(), pass_env: Vec::new(), cwd: None };
        Ok(Self::for_one(Transport::Stdio(stdio), environment))
    }

    /// A configuration for one server on the network and nothing else, for `serve URL`.
    ///
    /// # Errors
    /// When this is not an http or https URL.
    pub fn for_url(url: &str, environment: &Environment) -> Result<Self, Problems> {
        let refused = |message: String| {
            Problem::of_file("command line", message)
                .mend("allowed: an http or https URL, such as https://mcp.example.com/mcp")
        };
        let parsed = Url::parse(url).map_err(|error| refused(format!("not a URL: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(refused("only http and https are supported".to_owned()).into());
        }
        let remote = Remote::new(parsed.into(), RemoteKind::Auto);
        Ok(Self::for_one(Transport::Remote(remote), environment))
    }

    /// The same configuration with headers for its server on the network; the values are never shown.
    ///
    /// # Errors
    /// When they cannot be sent, or are not for us to set (F-093).
    pub fn sending(mut self, headers: &[(String, Secret)]) -> Result<Self, Problems> {
        let Some(upstream) = self.upstreams.first_mut() else { return Ok(self) };
        let Transport::Remote(remote) = &mut Arc::make_mut(upstream).transport else { return Ok(self) };
        for (name, value) in headers {
            let checked =
                header_name(name).and_then(|key| Ok((key, header_value(Text::hidden(value.reveal()))?)));
            let (key, value) = checked.map_err(|wrong| wrong.of_argument(&format!("header `{name}`")))?;
            remote.set_header(&key, value);
        }
        Ok(self)
    }

    fn for_one(transport: Transport, environment: &Environment) -> Self {
        let origin = Origin { path: None, environment: Arc::new(environment.clone()) };
        let mut snapshot = Self::of_gateway(Gateway::default(), origin);
        snapshot.upstreams.push(Arc::new(Upstream {
            name: ONLY_UPSTREAM.into(),
            title: ONLY_UPSTREAM.into(),
            namespace: None,
            isolation: None,
            transport,
            timeouts: Timeouts::default(),
            tool_timeouts: Default::default(),
            tools: ToolFilter::default(),
            instructions: Instructions::default(),
            required: false,
            questions: None,
        }));
        snapshot
    }

    /// The same configuration on other addresses, checked again.
    ///
    /// # Errors
    /// When the addresses do not go with the rest.
    pub fn listening_on(mut self, addresses: Addresses) -> Result<Self, Problems> {
        self.listen = addresses.clients.unwrap_or(self.listen);
        self.admin_listen = addresses.operator.unwrap_or(self.admin_listen);
        let problems = self.check(Locator::without_file()).problems;
        if problems.is_empty() { Ok(self) } else { Err(Problems(problems)) }
    }
}

//! `portcullis call`: one call of a tool, its progress and its result.

use std::io::Read;

use clap::Args;

use crate::cli::answer::{self, Progress};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Reader};
use crate::cli::report;
use crate::cli::run::{block_on, telemetry};
use crate::cli::source::{self, Source, is_url};
use crate::cli::way::{self, Level, Outcome, Running, Way};
use crate::cli::{pick, tools};
use crate::config::environment::Environment;
use crate::config::snapshot::Snapshot;
use crate::jsonrpc::text::quote;
use crate::mcp::names::SEPARATOR;

/// Call a tool and print what it answers
///
/// Text is printed as it is, progress goes to standard error. The exit code is 5 if the tool is unknown or says that
/// it failed.
#[derive(Debug, Args)]
pub struct Call {
    /// The tool: the name that clients see, or its own name if only one server has it
    #[arg(value_name = "TOOL")]
    pub tool: String,

    /// An argument; VALUE is JSON where it can be, unless the tool wants a text
    #[arg(short, long = "arg", value_name = "NAME=VALUE", conflicts_with = "json")]
    pub args: Vec<String>,

    /// All arguments as a JSON object; `-` reads it from standard input
    #[arg(long, value_name = "OBJECT")]
    pub json: Option<String>,

    /// Print the whole result as JSON
    #[arg(long)]
    pub raw: bool,

    /// Only this server of the file; or a URL, or the name of the command after `--`
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,

    #[command(flatten)]
    pub source: Source,

    #[command(flatten)]
    pub running: Running,

    /// How much is logged to standard error
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
}

/// The token of our only call.
const TOKEN: &str = "call";

/// The largest object that is read from standard input.
const INPUT_BYTES: u64 = 64 << 20;

/// Calls the tool.
///
/// # Errors
/// When the call cannot be made.
pub fn run(arguments: &Call, environment: &Environment) -> Result<Exit, Failure> {
    let given = match arguments.json.as_deref() {
        Some("-") => Some(pick::object(&input()?)?),
        Some(text) => Some(pick::object(text)?),
        None => None,
    };
    let outcome = if let Some(url) = arguments.running.url.clone() {
        let key_file = arguments.running.key_file.clone();
        block_on(async {
            let way = Way::to(url, key_file, environment).await?;
            ask(way, arguments, given, &[]).await
        })?
    } else {
        let config = meant(arguments, environment)?;
        let telemetry = telemetry(&config, environment)?;
        let outcome = block_on(async {
            let mut troubles: Vec<_> = config.failed.iter().map(report::unusable).collect();
            let way = Way::through(config).await?;
            if let Way::Inside(local) = &way {
                troubles.extend(report::troubles(local.gateway()));
            }
            ask(way, arguments, given, &troubles).await
        });
        telemetry.finish();
        outcome?
    };
    match outcome {
        Outcome::Result(result) => answer::show(&result, arguments.raw),
        Outcome::Error(error) => {
            let why = format!("{} (code {})", output::harmless(&error.message), error.code);
            Err(Failure::new(error.exit(), why))
        }
    }
}

/// The configuration, without the servers that cannot have the tool.
fn meant(arguments: &Call, environment: &Environment) -> Result<Snapshot, Failure> {
    let server = arguments.server.as_deref();
    let mut config = arguments.source.read(server, environment)?;
    match server {
        Some(name) if !is_url(name) && arguments.source.command.is_empty() => {
            source::only(&mut config, name)?;
        }
        _ => narrow(&mut config, &arguments.tool),
    }
    way::log_quietly(&mut config, arguments.log_level);
    Ok(config)
}

/// Leaves out servers whose prefix is not that of the name, so that they need not be started.
fn narrow(config: &mut Snapshot, tool: &str) {
    let has_prefix =
        |namespace: &str| tool.strip_prefix(namespace).is_some_and(|rest| rest.starts_with(SEPARATOR));
    if config.upstreams.iter().any(|upstream| upstream.namespace.as_deref().is_some_and(has_prefix)) {
        config.upstreams.retain(|upstream| upstream.namespace.as_deref().is_none_or(has_prefix));
        config.failed.clear();
    }
}

/// Finds the tool, calls it, and ends the way.
async fn ask(
    mut way: Way,
    arguments: &Call,
    given: Option<String>,
    troubles: &[String],
) -> Result<Outcome, Failure> {
    let outcome = ask_on(&mut way, arguments, given, troubles).await;
    way.close().await;
    outcome
}

async fn ask_on(
    way: &mut Way,
    arguments: &Call,
    given: Option<String>,
    troubles: &[String],
) -> Result<Outcome, Failure> {
    let tools = tools::list(way).await?;
    let tool = pick::tool(&tools, &arguments.tool).map_err(|failure| explain(failure, troubles))?;
    let given = match given {
        Some(object) => object,
        None => pick::arguments(&tool.definition, &arguments.args)?,
    };
    let params = format!(
        r#"{{"name":{},"arguments":{given},"_meta":{{"progressToken":"{TOKEN}"}}}}"#,
        quote(&tool.name)
    );
    let mut progress = Progress::to(Reader::of_notes());
    let outcome = way.call("tools/call", &params, |notice| progress.take(notice)).await;
    progress.end();
    outcome
}

/// A tool that is not there may be that of a server which is not there.
fn explain(failure: Failure, troubles: &[String]) -> Failure {
    if troubles.is_empty() {
        return failure;
    }
    let whole = failure.to_string();
    let why = whole.strip_prefix("error: ").unwrap_or(&whole);
    Failure::new(Exit::Unavailable, format!("{why}\n{}", troubles.join("\n")))
}

fn input() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().take(INPUT_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Format};

    #[test]
    fn servers_with_another_prefix_are_not_started() {
        let file = r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"x"},
            "c":{"command":"x","portcullis":{"namespace":"none"}}}}"#;
        let left = |tool: &str| {
            let mut config = config::parse(file, Format::Json, "t", &Environment::default()).unwrap();
            narrow(&mut config, tool);
            config.upstreams.iter().map(|upstream| upstream.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(left("a__x"), ["a", "c"]);
        assert_eq!(left("x"), ["a", "b", "c"], "its own name may be anyone's");
        assert_eq!(left("ab__x"), ["a", "b", "c"]);
    }

    #[test]
    fn a_missing_server_explains_a_missing_tool() {
        let unknown = || Failure::new(Exit::ToolError, "no tool is called `x`");
        assert_eq!(explain(unknown(), &[]).exit, Exit::ToolError);
        let explained = explain(unknown(), &["`a` is not there".to_owned()]);
        assert_eq!(explained.exit, Exit::Unavailable);
        assert_eq!(explained.to_string(), "error: no tool is called `x`\n`a` is not there");
    }
}

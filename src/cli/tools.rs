//! `portcullis tools`: the tools that clients see, and whose they are.

use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::app::local::Local;
use crate::call::Endpoint;
use crate::cli::exit::{Because, Exit, Failure};
use crate::cli::output;
use crate::cli::report;
use crate::cli::run::{block_on, telemetry};
use crate::cli::source::Source;
use crate::cli::way::{self, Level, Outcome, Running, Way};
use crate::config::environment::Environment;
use crate::config::snapshot::Snapshot;
use crate::mcp::methods::ItemKind;
use crate::mcp::names::SEPARATOR;

/// List the tools that clients see: the name they use, whose it is, and its own name there
#[derive(Debug, Args)]
pub struct Tools {
    /// Only this server of the file; or a URL, or the name of the command after `--`
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,

    #[command(flatten)]
    pub source: Source,

    #[command(flatten)]
    pub running: Running,

    /// Print JSON, with the whole definition of each tool
    #[arg(long)]
    pub json: bool,

    /// How much is logged to standard error
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
}

/// A tool as clients see it.
#[derive(Debug, Serialize)]
pub struct Tool {
    /// The name that clients use.
    pub name: String,
    /// Whose it is; unknown from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// What it is called there; unknown from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// Whether the name is an abbreviation (R-18).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<bool>,
    /// Its definition as clients get it.
    pub definition: Box<RawValue>,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Listing<'a> {
    tools: &'a [Tool],
    withheld: Vec<Withheld>,
}

/// A tool that is not shown.
#[derive(Serialize)]
struct Withheld {
    upstream: String,
    original: String,
    reason: &'static str,
}

/// What of a definition is shown.
#[derive(Deserialize)]
struct Definition {
    name: String,
    title: Option<String>,
    description: Option<String>,
}

/// How much of a description is shown.
const DESCRIPTION_CHARS: usize = 72;

/// Pages of a list after which a gateway elsewhere is not believed to end it.
const PAGES: usize = 1000;

/// Lists the tools.
///
/// # Errors
/// When the configuration is wrong, or the gateway elsewhere does not answer.
pub fn run(arguments: &Tools, environment: &Environment) -> Result<Exit, Failure> {
    if let Some(url) = arguments.running.url.clone() {
        let key_file = arguments.running.key_file.clone();
        let tools = block_on(async {
            let mut way = Way::to(url, key_file, environment).await?;
            let tools = list(&mut way).await;
            way.close().await;
            tools
        })?;
        show(arguments, &tools, Vec::new())?;
        return Ok(Exit::Done);
    }
    let mut config = arguments.source.read_only(arguments.server.as_deref(), environment)?;
    way::log_quietly(&mut config, arguments.log_level);
    let telemetry = telemetry(&config, environment)?;
    let listed = block_on(inside(config));
    telemetry.finish();
    let (tools, withheld, troubles) = listed?;
    show(arguments, &tools, withheld)?;
    troubles.iter().for_each(|trouble| output::note(trouble));
    Ok(if troubles.is_empty() { Exit::Done } else { Exit::Unavailable })
}

/// The tools, those that are withheld, and what is wrong with servers.
async fn inside(config: Snapshot) -> Result<(Vec<Tool>, Vec<Withheld>, Vec<String>), Failure> {
    let mut troubles: Vec<_> = config.failed.iter().map(report::unusable).collect();
    let mut way = Way::through(config).await?;
    let tools = list(&mut way).await;
    let mut withheld = Vec::new();
    if let Way::Inside(local) = &way {
        troubles.extend(report::troubles(local.gateway()));
        withheld = hidden(local);
    }
    way.close().await;
    Ok((tools?, withheld, troubles))
}

/// The tools that the way leads to.
///
/// # Errors
/// When a gateway elsewhere does not answer, or not with a list.
pub async fn list(way: &mut Way) -> Result<Vec<Tool>, Failure> {
    match way {
        Way::Inside(local) => merged(local),
        Way::Outside(_) => pages(way).await,
    }
}

fn merged(local: &Local) -> Result<Vec<Tool>, Failure> {
    let catalog = &local.gateway().catalog;
    let view = catalog.board(Endpoint::Merged).current();
    let mut tools = Vec::new();
    for item in &view.lists[ItemKind::Tool.index()].items {
        let definition: Box<RawValue> = serde_json::from_slice(item)?;
        let name = serde_json::from_str::<Definition>(definition.get())?.name;
        let Some(route) = view.route(ItemKind::Tool, &name) else { continue };
        let upstream = &catalog.members()[route.upstream.index()].upstream;
        let plain = match &upstream.namespace {
            Some(namespace) => format!("{namespace}{SEPARATOR}{}", route.original),
            None => route.original.to_string(),
        };
        tools.push(Tool {
            alias: Some(plain != name),
            name,
            upstream: Some(upstream.name.to_string()),
            original: Some(route.original.to_string()),
            definition,
        });
    }
    Ok(tools)
}

fn hidden(local: &Local) -> Vec<Withheld> {
    let catalog = &local.gateway().catalog;
    let view = catalog.board(Endpoint::Merged).current();
    let tools = view.withheld.iter().filter(|item| item.kind == ItemKind::Tool);
    tools
        .map(|item| Withheld {
            upstream: catalog.members()[item.upstream.index()].upstream.name.to_string(),
            original: item.item.clone(),
            reason: item.reason.word(),
        })
        .collect()
}

async fn pages(way: &mut Way) -> Result<Vec<Tool>, Failure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Page {
        tools: Vec<Box<RawValue>>,
        next_cursor: Option<String>,
    }
    let mut tools = Vec::new();
    let mut params = "{}".to_owned();
    for _ in 0..PAGES {
        let page = match way.call(ItemKind::Tool.list_method().name, &params, |_| {}).await? {
            Outcome::Result(result) => serde_json::from_str::<Page>(result.get()).or_exit(Exit::Failed)?,
            Outcome::Error(error) => {
                let why = format!("the list is refused: {}", output::harmless(&error.message));
                return Err(Failure::new(Exit::Failed, why));
            }
        };
        for definition in page.tools {
            let name = serde_json::from_str::<Definition>(definition.get())?.name;
            tools.push(Tool { name, upstream: None, original: None, alias: None, definition });
        }
        let Some(cursor) = page.next_cursor else { return Ok(tools) };
        params = format!(r#"{{"cursor":{}}}"#, crate::jsonrpc::text::quote(&cursor));
    }
    Err(Failure::new(Exit::Failed, "the list does not end"))
}

fn show(arguments: &Tools, tools: &[Tool], withheld: Vec<Withheld>) -> Result<(), Failure> {
    if arguments.json {
        return output::print(&serde_json::to_string_pretty(&Listing { tools, withheld })?);
    }
    if tools.is_empty() {
        output::note("there are no tools");
    } else {
        output::print(&output::table(&rows(tools)))?;
    }
    for Withheld { upstream, original, reason } in &withheld {
        let original = output::harmless(original);
        output::note(&format!("not shown: `{original}` of `{upstream}` ({reason})"));
    }
    Ok(())
}

fn rows(tools: &[Tool]) -> Vec<Vec<String>> {
    let known = tools.iter().any(|tool| tool.upstream.is_some());
    let mut rows = vec![vec!["NAME".to_owned()]];
    if known {
        rows[0].extend(["SERVER", "OWN NAME"].map(str::to_owned));
    }
    rows[0].push("DESCRIPTION".to_owned());
    for tool in tools {
        let mut row = vec![output::harmless(&tool.name).into_owned()];
        if known {
            row.push(tool.upstream.clone().unwrap_or_default());
            let own = output::one_line(tool.original.as_deref().unwrap_or_default(), DESCRIPTION_CHARS);
            let mark = if tool.alias == Some(true) { " (abbreviated)" } else { "" };
            row.push(own + mark);
        }
        let shown = serde_json::from_str::<Definition>(tool.definition.get()).ok();
        let text = shown.and_then(|shown| shown.description.or(shown.title)).unwrap_or_default();
        row.push(output::one_line(&text, DESCRIPTION_CHARS));
        rows.push(row);
    }
    rows
}

#[cfg(test)]
impl Tool {
    /// A tool with this definition.
    pub fn for_test(name: &str, original: Option<&str>, definition: &str) -> Self {
        Self {
            name: name.to_owned(),
            upstream: original.map(|_| "a".to_owned()),
            original: original.map(str::to_owned),
            alias: None,
            definition: RawValue::from_string(definition.to_owned()).unwrap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_what_is_known() {
        let definition = r#"{"name":"a__b","description":"Does \u001b[2J things.\nMore"}"#;
        let inside = rows(&[Tool::for_test("a__b", Some("b"), definition)]);
        assert_eq!(inside[0], ["NAME", "SERVER", "OWN NAME", "DESCRIPTION"]);
        assert_eq!(inside[1], ["a__b", "a", "b", "Does \u{fffd}[2J things.…"]);
        let outside = rows(&[Tool::for_test("a__b", None, definition)]);
        assert_eq!(outside[0], ["NAME", "DESCRIPTION"]);
    }
}

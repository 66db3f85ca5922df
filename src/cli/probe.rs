//! `portcullis probe`: how servers speak.

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::report;
use crate::cli::run::{block_on, telemetry};
use crate::cli::source::Source;
use crate::cli::way::{self, Level, Way};
use crate::config::environment::Environment;
use crate::config::snapshot::Snapshot;
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::member::Member;

/// Show how a server speaks: the revision, what it says of itself, what it offers
///
/// The exit code is 3 if a server cannot be reached.
#[derive(Debug, Args)]
pub struct Probe {
    /// Only this server of the file; or a URL, or the name of the command after `--`
    #[arg(value_name = "SERVER")]
    pub server: Option<String>,

    #[command(flatten)]
    pub source: Source,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// How much is logged to standard error
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
}

/// How one server speaks.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Finding {
    name: String,
    reached_by: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speaks: Option<Speaks>,
}

/// What a server said.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Speaks {
    revision: &'static str,
    server: Value,
    capabilities: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    tools: usize,
    prompts: usize,
    resources: usize,
    resource_templates: usize,
}

/// How much of instructions is shown to people.
const INSTRUCTIONS_CHARS: usize = 72;

/// Probes servers.
///
/// # Errors
/// When the configuration is wrong.
pub fn run(arguments: &Probe, environment: &Environment) -> Result<Exit, Failure> {
    let mut config = arguments.source.read_only(arguments.server.as_deref(), environment)?;
    way::log_quietly(&mut config, arguments.log_level);
    let telemetry = telemetry(&config, environment)?;
    let probed = block_on(probe(config));
    telemetry.finish();
    let (findings, troubles) = probed?;
    if arguments.json {
        output::print(&serde_json::to_string_pretty(&findings)?)?;
    } else {
        output::print(&findings.iter().map(shown).collect::<Vec<_>>().join("\n"))?;
    }
    troubles.iter().for_each(|trouble| output::note(trouble));
    Ok(if troubles.is_empty() { Exit::Done } else { Exit::Unavailable })
}

async fn probe(config: Snapshot) -> Result<(Vec<Finding>, Vec<String>), Failure> {
    let mut troubles: Vec<_> = config.failed.iter().map(report::unusable).collect();
    let way = Way::through(config).await?;
    let mut findings = Vec::new();
    if let Way::Inside(local) = &way {
        findings.extend(local.gateway().catalog.members().iter().map(|member| finding(member)));
        troubles.extend(report::troubles(local.gateway()));
    }
    way.close().await;
    Ok((findings, troubles))
}

fn finding(member: &Member) -> Finding {
    let state = member.state();
    let speaks = state.snapshot.map(|snapshot| {
        let handshake = &snapshot.handshake;
        let count = |kind| snapshot.of(kind).len();
        Speaks {
            revision: handshake.revision.name(),
            server: serde_json::from_slice(&handshake.server_info).unwrap_or_default(),
            capabilities: declared(handshake.capabilities),
            instructions: handshake.instructions.clone(),
            tools: count(ItemKind::Tool),
            prompts: count(ItemKind::Prompt),
            resources: count(ItemKind::Resource),
            resource_templates: count(ItemKind::Template),
        }
    });
    Finding {
        name: member.upstream.name.to_string(),
        reached_by: report::way_to(&member.upstream.transport),
        problem: state.problem,
        speaks,
    }
}

/// The capabilities by their names in the protocol.
fn declared(capabilities: ServerCapabilities) -> Vec<&'static str> {
    let all = [
        (capabilities.tools, "tools"),
        (capabilities.tools_changed, "tools.listChanged"),
        (capabilities.prompts, "prompts"),
        (capabilities.prompts_changed, "prompts.listChanged"),
        (capabilities.resources, "resources"),
        (capabilities.resources_changed, "resources.listChanged"),
        (capabilities.subscribe, "resources.subscribe"),
        (capabilities.logging, "logging"),
        (capabilities.completions, "completions"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

fn shown(finding: &Finding) -> String {
    let row = |name: &str, value: String| vec![format!("  {name}"), value];
    let mut rows = vec![row("reached by", finding.reached_by.clone())];
    match &finding.speaks {
        None => rows.push(row("speaks", "nothing that we heard".to_owned())),
        Some(speaks) => {
            let said = |name: &str| speaks.server[name].as_str().unwrap_or_default();
            let server = format!("{} {}", said("name"), said("version"));
            rows.push(row("speaks", speaks.revision.to_owned()));
            rows.push(row("calls itself", output::one_line(&server, INSTRUCTIONS_CHARS)));
            rows.push(row("declares", speaks.capabilities.join(", ")));
            let counts = format!(
                "tools {}, prompts {}, resources {}, templates {}",
                speaks.tools, speaks.prompts, speaks.resources, speaks.resource_templates
            );
            rows.push(row("offers", counts));
            if let Some(instructions) = &speaks.instructions {
                rows.push(row("instructs", output::one_line(instructions, INSTRUCTIONS_CHARS)));
            }
        }
    }
    format!("{}\n{}", finding.name, output::table(&rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_shown_in_a_few_lines() {
        let speaks = Speaks {
            revision: "2025-06-18",
            server: serde_json::json!({"name": "s\u{1b}", "version": "1"}),
            capabilities: declared(ServerCapabilities { tools: true, logging: true, ..Default::default() }),
            instructions: Some("Be kind.\nAlways.".to_owned()),
            tools: 2,
            prompts: 0,
            resources: 0,
            resource_templates: 0,
        };
        let finding = Finding {
            name: "a".to_owned(),
            reached_by: "run".to_owned(),
            problem: None,
            speaks: Some(speaks),
        };
        assert_eq!(
            shown(&finding),
            "a\n  reached by    run\n  speaks        2025-06-18\n  calls itself  s\u{fffd} 1\n  declares      tools, logging\n  \
             offers        tools 2, prompts 0, resources 0, templates 0\n  instructs     Be kind.…\n"
        );
    }
}

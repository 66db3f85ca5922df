//! The grammar of the command line.

use clap::{Parser, Subcommand};

use crate::cli::{call, check, completions, connect, health, keys, probe, serve, stdio, tools};

/// A gateway that stands in front of many MCP servers and shows clients one
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Serve(serve::Serve),
    Stdio(stdio::Stdio),
    Connect(connect::Connect),
    Check(check::Check),
    /// Print the JSON Schema of the configuration
    Schema,
    Tools(tools::Tools),
    Call(call::Call),
    Probe(probe::Probe),
    #[command(subcommand)]
    Keys(keys::Keys),
    Health(health::Health),
    Completions(completions::Completions),
}

//! The reference of the command line, written from the grammar itself; `docs/cli.md` is this text.

use clap::{Command, CommandFactory};

use crate::cli::arguments::Arguments;
use crate::cli::exit::Exit;

const HEAD: &str = "\
# Command line

Results go to standard output; logs, reports and errors to standard error. What is given after `--` is the
command of a server, which then needs no file.

## Exit codes

| code | meaning |
|---|---|
";

const TAIL: &str = "
`portcullis health` ends with 0 or 1, as probes want it, and with 2 only if it was called wrongly.
";

/// The whole page.
fn page() -> String {
    let mut page = HEAD.to_owned();
    for exit in Exit::ALL {
        page.push_str(&format!("| {} | {} |\n", exit.code(), exit.meaning()));
    }
    page.push_str(TAIL);
    let mut root = Arguments::command();
    root.build();
    section(&mut page, &root, "");
    page
}

fn section(page: &mut String, command: &Command, above: &str) {
    let name = format!("{above}{}", command.get_name());
    let help = command.clone().render_long_help().to_string();
    let help: Vec<_> = help.trim().lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", help.join("\n")));
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        section(page, inner, &format!("{name} "));
    }
}

/// `PORTCULLIS_WRITE=1 cargo test --lib reference` writes the page instead of comparing it.
#[test]
fn the_page_in_docs_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/cli.md");
    if std::env::var_os("PORTCULLIS_WRITE").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/cli.md is old; PORTCULLIS_WRITE=1 cargo test --lib reference writes it");
}

#[test]
fn the_grammar_is_sound() {
    Arguments::command().debug_assert();
}

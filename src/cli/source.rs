//! Which servers a command is about: a file, the user's own file, one command, or one URL (R-28).

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use crate::cli::exit::{Exit, Failure};
use crate::config;
use crate::config::environment::Environment;
use crate::config::problem::Problems;
use crate::config::snapshot::{Snapshot, Transport, Upstream};

/// Which servers are meant.
#[derive(Debug, Clone, Default, Args)]
pub struct Source {
    /// The configuration; without it the one in your own folder, `~/.config/portcullis/portcullis.json`
    /// (.yaml, .yml and .toml as well)
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    pub config: Option<PathBuf>,

    /// A variable for the command after `--`: NAME=VALUE sets it, NAME alone passes on that of this process
    #[arg(short, long = "env", value_name = "NAME[=VALUE]", requires = "command")]
    pub env: Vec<String>,

    /// The command that starts a server, with no file at all
    #[arg(last = true, value_name = "CMD ARGS")]
    pub command: Vec<String>,
}

impl Source {
    /// The configuration that is meant. `target` is what was written before `--`, if anything: a URL stands for
    /// a server with no file at all, a name for the server that the command starts.
    ///
    /// # Errors
    /// Problems of the configuration; a target that does not go with the rest.
    pub fn read(&self, target: Option<&str>, environment: &Environment) -> Result<Snapshot, Failure> {
        match (self.command.as_slice(), target) {
            // Where a `--` is needed and where not is no knowledge to ask of anybody.
            ([url], None) if is_url(url) => Ok(Snapshot::for_url(url, environment)?),
            ([], Some(url)) if is_url(url) => match &self.config {
                None => Ok(Snapshot::for_url(url, environment)?),
                Some(_) => Err(Failure::new(Exit::Usage, "a file and a URL: name one of them")),
            },
            ([], _) => Ok(match &self.config {
                Some(path) => config::load(path, environment)?,
                None => config::load(&config::discover(environment).map_err(Self::explain)?, environment)?,
            }),
            (command, name) => self.started(command, name, environment),
        }
    }

    /// The configuration that is meant, with the server that `target` names and no other, if it names one.
    ///
    /// # Errors
    /// As [`read`](Self::read) and [`only`].
    pub fn read_only(&self, target: Option<&str>, environment: &Environment) -> Result<Snapshot, Failure> {
        let mut config = self.read(target, environment)?;
        if let Some(name) = target.filter(|name| !is_url(name) && self.command.is_empty()) {
            only(&mut config, name)?;
        }
        Ok(config)
    }

    /// The configuration of a command.
    fn started(
        &self,
        command: &[String],
        name: Option<&str>,
        environment: &Environment,
    ) -> Result<Snapshot, Failure> {
        let mut config = Snapshot::for_command(command, environment)?;
        let Some(upstream) = config.upstreams.first_mut() else { return Ok(config) };
        let upstream = Arc::make_mut(upstream);
        if let Some(name) = name {
            upstream.name = checked(name)?;
            upstream.title = name.into();
        }
        if let Transport::Stdio(stdio) = &mut upstream.transport {
            for variable in &self.env {
                match variable.split_once('=') {
                    Some((name, value)) => stdio.env.push((name.to_owned(), value.to_owned().into())),
                    None => stdio.pass_env.push(variable.clone()),
                }
            }
        }
        Ok(config)
    }

    /// Shows who has no configuration at all how one begins.
    fn explain(mut problems: Problems) -> Problems {
        if let [problem] = problems.0.as_mut_slice()
            && !std::path::Path::new(&*problem.file).exists()
        {
            let mend = problem.mend.take().unwrap_or_default();
            problem.mend = Some(format!("{mend}\n\na file to start with:\n{EXAMPLE}"));
        }
        problems
    }
}

/// A file to start with.
const EXAMPLE: &str = r#"{
  "mcpServers": {
    "everything": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-everything@2026.8.31"]
    },
    "example": {
      "url": "https://mcp.example.com/mcp",
      "headers": { "Authorization": "Bearer ${EXAMPLE_TOKEN}" }
    }
  }
}"#;

/// Whether a text is meant as a URL.
pub fn is_url(text: &str) -> bool {
    text.get(..8).unwrap_or(text).to_ascii_lowercase().contains("://")
}

/// A name as it may stand in paths, metrics and logs.
fn checked(name: &str) -> Result<Arc<str>, Failure> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if name.is_empty() || name.starts_with('.') || !name.chars().all(allowed) {
        let why = format!("`{name}` is no name for a server; allowed: letters, digits, `.`, `-` and `_`");
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok(name.into())
}

/// Keeps the upstream of this name and no other.
///
/// # Errors
/// When there is none, or when its entry cannot be used.
pub fn only(config: &mut Snapshot, name: &str) -> Result<(), Failure> {
    let is_it = |upstream: &Upstream| &*upstream.name == name || &*upstream.title == name;
    if config.upstreams.iter().any(|upstream| is_it(upstream)) {
        config.upstreams.retain(|upstream| is_it(upstream));
        config.failed.clear();
        return Ok(());
    }
    if let Some(failed) = config.failed.iter().find(|failed| &*failed.name == name) {
        return Err(Problems(failed.problems.clone()).into());
    }
    if config.disabled.iter().any(|disabled| &**disabled == name) {
        return Err(Failure::new(Exit::Usage, format!("the server `{name}` is switched off in the file")));
    }
    let known: Vec<_> = config.upstreams.iter().map(|upstream| format!("`{}`", upstream.name)).collect();
    let why = format!("no server is called `{name}`; there is {}", known.join(", "));
    Err(Failure::new(Exit::Usage, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &[&str]) -> Source {
        Source { command: command.iter().map(ToString::to_string).collect(), ..Source::default() }
    }

    fn environment() -> Environment {
        [("HOME", "/nonexistent")].into_iter().collect()
    }

    #[test]
    fn a_command_may_have_a_name_and_variables() {
        let mut source = of(&["server", "--flag"]);
        source.env = vec!["A=b=c".to_owned(), "TOKEN".to_owned()];
        let config = source.read(Some("my-server"), &environment()).unwrap();
        let [upstream] = config.upstreams.as_slice() else { panic!("one upstream") };
        assert_eq!(&*upstream.name, "my-server");
        let Transport::Stdio(stdio) = &upstream.transport else { panic!("a child") };
        assert_eq!(stdio.shown(), ["server", "--flag"]);
        assert_eq!((stdio.env[0].0.as_str(), stdio.env[0].1.reveal()), ("A", "b=c"));
        assert_eq!(stdio.pass_env, ["TOKEN"]);
        let refused = of(&["server"]).read(Some("a/b"), &environment()).unwrap_err();
        assert_eq!(refused.exit, Exit::Usage);
    }

    #[test]
    fn a_url_is_one_on_either_side_of_the_dashes() {
        for (command, target) in [(&[][..], Some("http://a.example/mcp")), (&["HTTP://a.example/mcp"], None)]
        {
            let config = of(command).read(target, &environment()).unwrap();
            assert!(matches!(config.upstreams[0].transport, Transport::Remote(_)));
        }
        let mut both = of(&[]);
        both.config = Some("a.json".into());
        assert_eq!(both.read(Some("http://a.example/"), &environment()).unwrap_err().exit, Exit::Usage);
    }

    /// R-28
    #[test]
    fn without_anything_it_says_where_it_looked_and_what_a_file_looks_like() {
        let failure = of(&[]).read(None, &environment()).unwrap_err();
        let text = failure.to_string();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(text.contains("/nonexistent/.config/portcullis/portcullis.json"), "{text}");
        assert!(text.contains("\"mcpServers\""), "{text}");
    }

    #[test]
    fn the_example_is_a_good_file_without_warnings() {
        let environment = [("EXAMPLE_TOKEN", "t")].into_iter().collect();
        let config = config::parse(EXAMPLE, config::Format::Json, "example", &environment).unwrap();
        assert_eq!((config.upstreams.len(), config.warnings.len(), config.failed.len()), (2, 0, 0));
    }

    #[test]
    fn one_upstream_is_picked_by_name() {
        let text = r#"{"mcpServers":{"a":{"command":"x"},"b":{"command":"y"},"c":{"command":"z","disabled":true},
            "d":{"url":"http://h/","headers":{"x":"${UNSET}"}}}}"#;
        let all = config::parse(text, config::Format::Json, "t", &environment()).unwrap();
        let mut config = all.clone();
        only(&mut config, "b").unwrap();
        assert_eq!(config.upstreams.len(), 1);
        for (name, why) in [("c", "switched off"), ("d", "UNSET"), ("e", "`a`, `b`")] {
            let failure = only(&mut all.clone(), name).unwrap_err();
            assert!(failure.to_string().contains(why), "{failure}");
            assert_eq!(failure.exit, Exit::Usage);
        }
    }
}

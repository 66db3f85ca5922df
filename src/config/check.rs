//! What must hold between settings, and what is doubtful; nothing here touches the world.

use super::document::{Member, Node, Source, Value};
use super::problem::Problem;
use super::schema::auth::ApiKey;
use super::secrets::{Text, visible_part};
use super::snapshot::{Isolation, Snapshot, Stdio, Transport, Upstream};

/// Finds the places that findings are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Locator<'a> {
    document: Option<(&'a Source, &'a Node)>,
}

/// What checking brings up.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// A namespace longer than this leaves little of a name for the tool.
const LONG_NAMESPACE: usize = 20;

impl Snapshot {
    /// Checks what has to hold between settings.
    pub(super) fn check(&self, locator: Locator<'_>) -> Findings {
        let mut findings = Findings::default();
        let problems = &mut findings.problems;
        problems.extend(self.check_exposure(locator));
        problems.extend(self.check_addresses(locator));
        problems.extend(self.check_bounds(locator));
        problems.extend(self.check_keys(locator));
        problems.extend(self.check_isolation(locator));
        findings.warnings.extend(self.warn_of_bare_names(locator));
        for upstream in &self.upstreams {
            let warnings = &mut findings.warnings;
            warnings.extend(self.warn_of_long_name(upstream, locator));
            if let Transport::Stdio(stdio) = &upstream.transport {
                warnings.extend(warn_of_secrets(upstream, stdio, locator));
                warnings.extend(warn_of_versions(upstream, stdio, locator));
            }
        }
        findings
    }

    /// who can reach the gateway from elsewhere needs a key, unless the operator says otherwise.
    fn check_exposure(&self, locator: Locator<'_>) -> Option<Problem> {
        let safe = self.listen.ip().is_loopback() || self.auth.allow_anonymous || !self.auth.keys.is_empty();
        let message = format!(
            "{} can be reached from other machines, and nobody would be asked for a key",
            self.listen
        );
        let mend = "add a key under `portcullis.auth.keys` (`portcullis keys new NAME` makes one), \
                    listen on 127.0.0.1,\nor set `portcullis.auth.allowAnonymous: true` if that is meant";
        (!safe).then(|| locator.problem(&["portcullis", "listen"], message).mend(mend))
    }

    fn check_addresses(&self, locator: Locator<'_>) -> Option<Problem> {
        let clash = self.listen == self.admin_listen && self.listen.port() != 0;
        let message = "clients and operator need different addresses";
        let path = ["portcullis", "admin", "listen"];
        clash.then(|| locator.problem(&path, message).mend("change one of the ports"))
    }

    fn check_bounds(&self, locator: Locator<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut at_most = |holds: bool, section: &str, smaller: &str, larger: &str| {
            if !holds {
                let message = format!("this is more than `{larger}` allows");
                let problem = locator.problem(&["portcullis", section, smaller], message);
                problems.push(problem.mend(format!("raise `{larger}`, or lower `{smaller}`")));
            }
        };
        let Self { sessions, children, catalog, .. } = self;
        at_most(sessions.per_principal <= sessions.max, "sessions", "perPrincipal", "max");
        at_most(children.per_upstream <= children.total, "children", "perUpstream", "total");
        at_most(catalog.max_item_size <= catalog.max_size, "catalog", "maxItemSize", "maxSize");
        problems
    }

    fn check_keys(&self, locator: Locator<'_>) -> Vec<Problem> {
        let keys = &self.auth.keys;
        let twice = |index: usize, key: &ApiKey| {
            keys[..index].iter().any(|other| other.name == key.name || other.sha256 == key.sha256)
        };
        keys.iter()
            .enumerate()
            .filter(|(index, key)| twice(*index, key))
            .map(|(_, key)| {
                let message = format!("the key `{}` is here twice, by name or digest", key.name);
                locator.problem(&["portcullis", "auth", "keys"], message).mend("remove one of them")
            })
            .collect()
    }

    /// a connection per caller needs callers that can be told apart.
    fn check_isolation(&self, locator: Locator<'_>) -> Vec<Problem> {
        if !self.auth.keys.is_empty() || self.auth.allow_anonymous {
            return Vec::new();
        }
        let by_caller =
            |upstream: &&_| matches!(upstream, Upstream { isolation: Some(Isolation::Caller), .. });
        self.upstreams
            .iter()
            .map(AsRef::as_ref)
            .filter(by_caller)
            .map(|upstream| {
                let message = "without keys all callers are one, and would share this connection";
                let mend = "use `session` or `shared`, add keys under `portcullis.auth.keys`,\n\
                            or set `portcullis.auth.allowAnonymous: true` if sharing is meant";
                locator.in_entry(upstream, &["portcullis", "isolation"], message).mend(mend)
            })
            .collect()
    }

    /// names without a prefix can clash.
    fn warn_of_bare_names(&self, locator: Locator<'_>) -> Option<Problem> {
        let bare = |upstream: &&_| matches!(upstream, Upstream { namespace: None, .. });
        let mut bare = self.upstreams.iter().map(AsRef::as_ref).filter(bare);
        bare.next()?;
        let second = bare.next()?;
        let message = "a second server without a namespace: items with the same name are withheld";
        let path = ["portcullis", "namespace"];
        let mend = "give all but one a namespace";
        Some(locator.in_entry(second, &path, message).mend(mend))
    }

    /// names have a budget.
    fn warn_of_long_name(&self, upstream: &Upstream, locator: Locator<'_>) -> Option<Problem> {
        let namespace = upstream.namespace.as_deref()?;
        if namespace.len() <= LONG_NAMESPACE {
            return None;
        }
        let budget = self.catalog.name_budget;
        let left = budget.saturating_sub(namespace.len() + 2);
        let message = format!(
            "the namespace `{namespace}` leaves {left} of {budget} characters for the names of tools; \
             longer ones are abbreviated"
        );
        let mend = "set `portcullis.namespace` to a shorter word";
        Some(locator.in_entry(upstream, &[], message).mend(mend))
    }
}

/// everybody on the machine can read the arguments of a process.
fn warn_of_secrets(upstream: &Upstream, stdio: &Stdio, locator: Locator<'_>) -> Vec<Problem> {
    let looks_secret = |index: usize, argument: &Text| {
        let before = index.checked_sub(1).map(|index| stdio.args[index].reveal());
        !argument.is_secret() && visible_part(before, argument.reveal()).is_some()
    };
    stdio
        .args
        .iter()
        .enumerate()
        .filter(|(index, argument)| looks_secret(*index, argument))
        .map(|(index, _)| {
            let message = format!(
                "argument {} looks like a secret, and everybody on this machine can read arguments",
                index + 1
            );
            let mend = "pass it in `env`, and keep it out of this file with ${NAME} or ${file:path}";
            locator.in_entry(upstream, &["args"], message).mend(mend)
        })
        .collect()
}

/// what is downloaded at every start should be what was looked at.
fn warn_of_versions(upstream: &Upstream, stdio: &Stdio, locator: Locator<'_>) -> Option<Problem> {
    let package = unpinned(stdio.command.reveal(), &stdio.args)?;
    let message = format!("`{package}` has no fixed version, and is fetched anew");
    let mend = "name a version, such as name@1.2.3 (npx, uvx), or a tag or digest (docker)";
    Some(locator.in_entry(upstream, &["args"], message).mend(mend))
}

/// The package or image that a launcher fetches, if no version is named.
fn unpinned<'a>(command: &str, args: &'a [Text]) -> Option<&'a str> {
    let program = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let program = program.strip_suffix(".cmd").or_else(|| program.strip_suffix(".exe")).unwrap_or(program);
    let args: Vec<&str> =
        args.iter().map(|argument| if argument.is_secret() { "" } else { argument.reveal() }).collect();
    match program {
        "npx" | "bunx" | "pnpx" => {
            let package = subject(&args, &["-p", "--package", "-c", "--call"])?;
            let version = package.get(1..)?.split_once('@').map(|(_, version)| version);
            (!is_fixed(version)).then_some(package)
        }
        "uvx" => {
            let from = args.iter().position(|argument| *argument == "--from");
            let package = match from {
                Some(index) => args.get(index + 1)?,
                None => subject(&args, &["--with", "-p", "--python", "--index-url"])?,
            };
            let version = package.split_once("==").or_else(|| package.split_once('@'));
            (!is_fixed(version.map(|(_, version)| version))).then_some(package)
        }
        "docker" | "podman" => {
            let run = args.iter().position(|argument| *argument == "run")?;
            let image = subject(&args[run + 1..], &DOCKER_OPTIONS)?;
            let name = image.rsplit('/').next().unwrap_or(image);
            let tag = name.split_once(['@', ':']).map(|(_, tag)| tag);
            (!is_fixed(tag)).then_some(image)
        }
        _ => None,
    }
}

/// Options of `docker run` that are followed by a value.
const DOCKER_OPTIONS: [&str; 18] = [
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--name",
    "-p",
    "--publish",
    "--network",
    "-u",
    "--user",
    "-w",
    "--workdir",
    "--entrypoint",
    "--add-host",
    "--memory",
    "--cpus",
];

/// The first argument that is no option and no value of one.
fn subject<'a>(args: &[&'a str], with_value: &[&str]) -> Option<&'a str> {
    let mut args = args.iter().copied();
    while let Some(argument) = args.next() {
        if with_value.contains(&argument) {
            args.next();
        } else if !argument.starts_with('-') {
            return Some(argument).filter(|argument| !argument.is_empty());
        }
    }
    None
}

fn is_fixed(version: Option<&str>) -> bool {
    version.is_some_and(|version| !matches!(version, "" | "latest" | "next" | "*"))
}

// === impl Locator ===

impl<'a> Locator<'a> {
    /// Finds places in a file.
    pub(super) fn of(source: &'a Source, root: &'a Node) -> Self {
        let document = Some((source, root));
        Self { document }
    }

    /// There is no file, only a command line.
    pub(super) fn without_file() -> Self {
        Self { document: None }
    }

    /// A problem at a key, or at the nearest table around it that is there.
    fn problem(&self, path: &[&str], message: impl Into<String>) -> Problem {
        let Some((source, root)) = self.document else {
            let mut problem = Problem::of_file("command line", message);
            problem.field = path.join(".");
            return problem;
        };
        let mut node = root;
        let mut span = &root.span;
        for key in path {
            let Some(member) = member(node, key) else {
                break;
            };
            node = &member.value;
            span = &member.key_span;
        }
        source.problem(span, path.join("."), message)
    }

    /// A problem in the entry of an upstream.
    fn in_entry(&self, upstream: &Upstream, path: &[&str], message: impl Into<String>) -> Problem {
        let title = &*upstream.title;
        let root = ["mcpServers", "servers", "mcp_servers"]
            .into_iter()
            .find(|root| {
                let servers = self.document.and_then(|(_, tree)| member(tree, root));
                servers.is_some_and(|servers| member(&servers.value, title).is_some())
            })
            .unwrap_or("mcpServers");
        let mut full = vec![root, title];
        full.extend(path);
        self.problem(&full, message)
    }
}

fn member<'a>(node: &'a Node, key: &str) -> Option<&'a Member> {
    match &node.value {
        Value::Table(members) => members.iter().find(|member| member.key == key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn references_without_a_version_are_found() {
        for (line, found) in [
            ("npx -y @scope/server", Some("@scope/server")),
            ("npx -y @scope/server@latest", Some("@scope/server@latest")),
            ("npx -y @scope/server@1.2.3 /path", None),
            ("npx -y server@1", None),
            ("/usr/bin/npx server", Some("server")),
            ("npx.cmd server", Some("server")),
            ("uvx mcp-server-time", Some("mcp-server-time")),
            ("uvx mcp-server-time==1.0", None),
            ("uvx mcp-server-time@1.0", None),
            ("uvx --from pkg mcp-x", Some("pkg")),
            ("docker run -i --rm -e TOKEN mcp/time", Some("mcp/time")),
            ("docker run -i --rm localhost:5000/mcp/time:1.0", None),
            ("docker run -i mcp/time@sha256:abc", None),
            ("docker run -i mcp/time:latest", Some("mcp/time:latest")),
            ("docker ps", None),
            ("node server.js", None),
            ("npx", None),
            ("npx @", Some("@")),
        ] {
            let mut words = line.split(' ');
            let command = words.next().unwrap();
            let args: Vec<_> = words.map(Text::plain).collect();
            assert_eq!(unpinned(command, &args), found, "{line}");
        }
    }
}

//! From what a file says to what the gateway uses: transports chosen, names given, paths made whole.

use std::path::PathBuf;
use std::sync::Arc;

use super::decode::{Decoder, Placed, Reach, Wrong};
use super::environment::{Environment, dotenv};
use super::names::{NAMESPACE_ALLOWED, Taken, path_name};
use super::problem::Problem;
use super::schema::entry::{Entry, Kind, Named};
use super::schema::file::Contents;
use super::schema::gateway::Gateway;
use super::schema::own::Namespace;
use super::secrets::{Secret, Text};
use super::snapshot::{
    Address, FailedUpstream, Remote, RemoteKind, Snapshot, Stdio, ToolFilter, Transport, Upstream,
};
use crate::mcp::names::namespace_of;

/// Where a configuration comes from.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The file, absolute; none if there is no file.
    pub path: Option<PathBuf>,
    /// The environment, with what `.env` adds.
    pub environment: Arc<Environment>,
}

impl Snapshot {
    /// A configuration without upstreams.
    pub(super) fn of_gateway(gateway: Gateway, origin: Origin) -> Self {
        Self {
            source: origin.path,
            environment: origin.environment,
            listen: gateway.listen,
            admin_listen: gateway.admin.listen,
            upstreams: Vec::new(),
            failed: Vec::new(),
            disabled: Vec::new(),
            warnings: Vec::new(),
            http: gateway.http,
            sessions: gateway.sessions,
            auth: gateway.auth,
            catalog: gateway.catalog,
            children: gateway.children,
            drain: gateway.drain,
            log: gateway.log,
            socket: gateway.socket,
            state_directory: gateway.state_directory,
            seal_keys: gateway.seal_keys,
            runtime: gateway.runtime,
            max_message: gateway.max_message,
        }
    }

    /// Compiles what a file says. What is wrong is noted in the decoder.
    pub(super) fn compile(contents: Contents, origin: Origin, decoder: &mut Decoder<'_>) -> Self {
        let mut snapshot = Self::of_gateway(contents.gateway, origin);
        snapshot.failed = contents.failed;
        snapshot.disabled = contents.disabled;
        let mut names = Names::reserve(&contents.entries, decoder);
        for named in contents.entries {
            let transport = transport(&named, decoder);
            match transport {
                Ok(transport) => {
                    let upstream = names.upstream(named, transport, &snapshot, decoder);
                    snapshot.upstreams.push(Arc::new(upstream));
                }
                Err(wrong) => {
                    decoder.note(&named.place, wrong);
                    let problems = std::mem::take(&mut decoder.failures);
                    snapshot.fail(&named.name, problems);
                }
            }
        }
        snapshot
    }

    fn fail(&mut self, name: &str, problems: Vec<Problem>) {
        if !problems.is_empty() {
            let name = name.into();
            self.failed.push(FailedUpstream { name, problems });
        }
    }
}

/// The names of upstreams, as they are given away.
struct Names {
    paths: Taken,
    namespaces: Taken,
}

impl Names {
    /// Takes what the file asks for by name, so that nothing derived gets in the way.
    fn reserve(entries: &[Named], decoder: &mut Decoder<'_>) -> Self {
        let mut names = Self { paths: Taken::default(), namespaces: Taken::default() };
        for named in entries {
            if let Some(Placed { place, value }) = &named.entry.portcullis.namespace
                && let Namespace::Word(word) = value
                && !names.namespaces.take(word)
            {
                let wrong = Wrong::new(format!("the namespace `{word}` is taken by another entry"));
                let mend = format!("give each its own: {NAMESPACE_ALLOWED}");
                decoder.note(place, wrong.mend(mend));
            }
        }
        let mut exact = Taken::default();
        for named in entries {
            if path_name(&named.name) == named.name {
                names.paths.take(&named.name);
            }
            if !exact.take(&named.name) {
                let wrong = Wrong::new("another entry has the same name");
                decoder.note(&named.place, wrong.mend("rename one of them"));
            }
        }
        names
    }

    fn upstream(
        &mut self,
        named: Named,
        transport: Transport,
        snapshot: &Snapshot,
        decoder: &mut Decoder<'_>,
    ) -> Upstream {
        let Named { name, place, entry } = named;
        let own = entry.portcullis;
        let path = path_name(&name);
        let path = if path == name { path } else { self.paths.take_like(path) };
        let namespace = match own.namespace.map(|placed| placed.value) {
            Some(Namespace::None) => None,
            Some(Namespace::Word(word)) => Some(word),
            None => {
                let wanted = namespace_of(&name);
                let given = self.namespaces.take_like(wanted.clone());
                if given != wanted {
                    let message = format!("`{wanted}` is taken, so its namespace is `{given}`");
                    let mend = "set `portcullis.namespace` to a word that stays";
                    decoder.warn(&place, message, mend);
                }
                Some(given)
            }
        };
        Upstream {
            name: path.into(),
            title: name.into(),
            namespace: namespace.map(Arc::from),
            isolation: own.isolation.map(|placed| placed.value),
            transport,
            timeouts: own.timeouts.unwrap_or_default(),
            tool_timeouts: own.tool_timeouts,
            tools: ToolFilter { include: entry.include_tools, exclude: entry.exclude_tools },
            instructions: own.instructions.unwrap_or(snapshot.catalog.instructions),
            required: own.required,
            questions: own.questions,
        }
    }
}

/// How an entry is reached.
fn transport(named: &Named, decoder: &Decoder<'_>) -> Result<Transport, Wrong> {
    let entry = &named.entry;
    let kind = match (entry.kind, entry.command.is_empty(), &entry.url) {
        (Some(Kind::Stdio), true, _) => {
            let wrong = Wrong::new("a server of type stdio needs `command`");
            return Err(wrong.mend("give the program to start"));
        }
        (Some(Kind::Remote(_)), _, None) => {
            let wrong = Wrong::new("a server of this type needs `url`");
            return Err(wrong.mend("give the address of the server"));
        }
        (Some(kind), _, _) => kind,
        (None, false, None) => Kind::Stdio,
        (None, true, Some(_)) => Kind::Remote(entry.remote_kind.unwrap_or(RemoteKind::Auto)),
        (None, false, Some(_)) => {
            let wrong = Wrong::new("there is a `command` and a `url`, and no `type`");
            return Err(wrong.mend("remove one of them, or set `type` to stdio or http"));
        }
        (None, true, None) => {
            let wrong = Wrong::new("neither `command` nor `url` says how to reach this server");
            return Err(wrong.mend("set `command` for a program, or `url` for an address"));
        }
    };
    match (kind, &entry.url) {
        (Kind::Remote(kind), Some(url)) => Ok(Transport::Remote(remote(entry, url, kind))),
        _ => stdio(entry, decoder).map(Transport::Stdio),
    }
}

fn stdio(entry: &Entry, decoder: &Decoder<'_>) -> Result<Stdio, Wrong> {
    let mut argv = entry.command.iter().chain(&entry.args).cloned();
    let command = argv.next().unwrap_or_else(|| Text::plain(""));
    let mut env: Vec<(String, Secret)> = Vec::new();
    if let Some(path) = &entry.env_file {
        let variables = dotenv(path).map_err(|error| Wrong::new(error.to_string()).reaching(Reach::Entry))?;
        let variables = variables.into_iter();
        env.extend(variables.map(|(name, value)| (name, value.into())));
    }
    env.retain(|(name, _)| !entry.env.iter().any(|(own, _)| own == name));
    env.extend(entry.env.iter().cloned());
    let mut pass_env = entry.portcullis.pass_env.clone();
    pass_env.extend(entry.env_vars.iter().cloned());
    let folder = decoder.variables.folder.map(PathBuf::from);
    Ok(Stdio { command, args: argv.collect(), env, pass_env, cwd: entry.cwd.clone().or(folder) })
}

/// A server on the network.
fn remote(entry: &Entry, url: &Address, kind: RemoteKind) -> Remote {
    let mut remote = Remote::new(url.clone(), kind);
    for (name, value) in &entry.headers {
        remote.set_header(name, value.clone());
    }
    remote.ca_file.clone_from(&entry.portcullis.ca_file);
    remote
}

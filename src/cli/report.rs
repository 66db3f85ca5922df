//! What is said of servers and of who may call, in the same words wherever it is said.

use url::Url;

use crate::app::build::Gateway;
use crate::app::serve::Serving;
use crate::cli::health::reachable;
use crate::cli::output;
use crate::config::snapshot::{FailedUpstream, Isolation, RemoteKind, Snapshot, Transport, Upstream};
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::member::{Member, State};

/// How a server is reached, secrets masked (R-28).
pub fn way_to(transport: &Transport) -> String {
    let shown = match transport {
        Transport::Stdio(stdio) => {
            let quoted = |word: String| {
                if word.is_empty() || word.contains(char::is_whitespace) { format!("'{word}'") } else { word }
            };
            stdio.shown().into_iter().map(quoted).collect::<Vec<_>>().join(" ")
        }
        Transport::Remote(remote) if remote.kind == RemoteKind::Sse => format!("{} (sse)", remote.url),
        Transport::Remote(remote) => remote.url.to_string(),
    };
    output::harmless(&shown).into_owned()
}

/// Who may call (R-25).
pub fn who_may_call(config: &Snapshot) -> String {
    let keys = config.auth.keys.len();
    let local = config.listen.ip().is_loopback();
    match (config.admits_anonymous(), local, keys) {
        (true, true, _) => "anyone on this machine may call".to_owned(),
        (true, false, _) => {
            "ANYONE who can reach this address may call (`portcullis.auth.allowAnonymous`)".to_owned()
        }
        (false, _, 1) => "who has the key may call (`Authorization: Bearer KEY`)".to_owned(),
        (false, ..) => format!("who has one of {keys} keys may call (`Authorization: Bearer KEY`)"),
    }
}

/// How many processes a client may cause, and the alternative (R-11). None if clients cause none.
pub fn processes(config: &Snapshot) -> Option<String> {
    let starts = |isolation: Option<Isolation>| {
        let own = |upstream: &&_| {
            let Upstream { transport, isolation: of_it, .. } = upstream;
            matches!(transport, Transport::Stdio(_)) && *of_it == isolation
        };
        config.upstreams.iter().map(AsRef::as_ref).filter(own).count()
    };
    let sessions = starts(None) + starts(Some(Isolation::Session));
    let callers = starts(Some(Isolation::Caller));
    let clause = |who: &str, count: usize| match count {
        0 => None,
        1 => Some(format!("each {who} may start 1 process")),
        n => Some(format!("each {who} may start up to {n} processes")),
    };
    let clauses: Vec<_> =
        [clause("session of a client", sessions), clause("caller", callers)].into_iter().flatten().collect();
    let children = &config.children;
    (!clauses.is_empty()).then(|| {
        format!(
            "{}, at most {} for a server and {} in all;\n  `portcullis.isolation: shared` in an entry lets all \
             clients share one",
            clauses.join(" and "),
            children.per_upstream,
            children.total
        )
    })
}

/// A server whose entry cannot be used.
pub fn unusable(failed: &FailedUpstream) -> String {
    let problems: Vec<_> = failed.problems.iter().map(ToString::to_string).collect();
    format!("`{}` cannot be used\n{}", failed.name, indent(&problems.join("\n"), "    "))
}

/// What is wrong with the servers of a gateway of our own, and how to mend it.
pub fn troubles(gateway: &Gateway) -> Vec<String> {
    let reasons = gateway.servers.status().into_iter().map(|status| status.reason);
    let members = gateway.catalog.members().iter().zip(reasons);
    members.filter_map(|(member, reason)| trouble(&member.upstream, &member.state(), &reason)).collect()
}

/// `reason` is what the server shore says to operators and not to clients.
fn trouble(upstream: &Upstream, state: &State, reason: &str) -> Option<String> {
    let mut text = match &state.problem {
        Some(problem) => output::harmless(problem).into_owned(),
        None if state.snapshot.is_none() => format!("upstream `{}` has not answered yet", upstream.name),
        None => return None,
    };
    let reason = output::harmless(reason);
    if reason.contains(&text) {
        text = reason.into_owned();
    } else if !text.contains(&*reason) {
        text.push_str(&format!("\n{}", indent(&reason, "    ")));
    }
    text.push_str(&format!("\n{}", indent(&mend(upstream), "    ")));
    Some(text)
}

/// What somebody can do about a server that is not there.
fn mend(upstream: &Upstream) -> String {
    let way = way_to(&upstream.transport);
    match &upstream.transport {
        Transport::Stdio(_) => {
            format!("it is started as: {way}\n`--log-level info` shows what it writes to standard error")
        }
        Transport::Remote(_) => {
            format!("it is looked for at {way}\ncheck that it runs, and that this machine may reach it")
        }
    }
}

/// What a server offers, such as `3 tools, 1 prompt`.
pub fn offers(state: &State) -> String {
    let Some(snapshot) = &state.snapshot else { return "nothing".to_owned() };
    let kinds = [
        (ItemKind::Tool, "tool"),
        (ItemKind::Prompt, "prompt"),
        (ItemKind::Resource, "resource"),
        (ItemKind::Template, "template"),
    ];
    let counts: Vec<_> = kinds
        .into_iter()
        .filter_map(|(kind, word)| match snapshot.of(kind).len() {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        })
        .collect();
    if counts.is_empty() { "nothing".to_owned() } else { counts.join(", ") }
}

/// What a gateway that has just begun to listen says of itself.
pub fn banner(serving: &Serving) -> String {
    let config = &serving.gateway.config;
    let base = match &config.http.public_url {
        Some(url) => url.as_str().trim_end_matches('/').to_owned(),
        None => format!("http://{}", reachable(serving.clients)),
    };
    let mut text = format!("\nportcullis {}\n\n", env!("CARGO_PKG_VERSION"));
    let mut rows = vec![vec![format!("  {base}/mcp"), "for clients: all servers".to_owned()]];
    if let [first, _, ..] = config.upstreams.as_slice() {
        let one = "one server under its own names, such as this".to_owned();
        rows.push(vec![format!("  {base}/mcp/{}", first.name), one]);
    }
    let operator = Url::parse(&format!("http://{}", reachable(serving.operator)));
    if let Ok(url) = operator {
        rows.push(vec![format!("  {url}"), "for the operator: livez, readyz, metrics".to_owned()]);
    }
    text.push_str(&output::table(&rows));
    text.push_str(&format!("\n  {}\n", who_may_call(config)));
    if let Some(processes) = processes(config) {
        text.push_str(&format!("  {processes}\n"));
    }
    text
}

/// A line for each server that `which` picks: what was found, or what failed and the mend.
pub fn found(gateway: &Gateway, which: impl Fn(&Member) -> bool) -> String {
    let reasons = gateway.servers.status().into_iter().map(|status| status.reason);
    let members = gateway.catalog.members().iter().zip(reasons);
    members.filter(|(member, _)| which(member)).map(|(member, reason)| line(member, &reason)).collect()
}

fn line(member: &Member, reason: &str) -> String {
    let state = member.state();
    let name = &member.upstream.name;
    match trouble(&member.upstream, &state, reason) {
        _ if !state.tried => format!("  starting  {name}\n"),
        Some(trouble) => failed(&trouble),
        None => format!("  ok        {name}: {}\n", offers(&state)),
    }
}

/// The lines for a server that is not there.
pub fn failed(trouble: &str) -> String {
    format!("  failed    {}\n", indent(trouble, "        ").trim())
}

/// The same lines, each a bit to the right.
pub fn indent(text: &str, by: &str) -> String {
    text.lines().map(|line| format!("{by}{line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::environment::Environment;
    use crate::config::{self, Format};

    fn config(portcullis: &str, servers: &str) -> Snapshot {
        let file = format!(r#"{{"mcpServers":{{{servers}}},"portcullis":{{{portcullis}}}}}"#);
        config::parse(&file, Format::Json, "t", &Environment::default()).unwrap()
    }

    /// R-28
    #[test]
    fn arguments_are_masked() {
        let config = config("", r#""a":{"command":"run me","args":["--token","t0k3n","x y"]}"#);
        assert_eq!(way_to(&config.upstreams[0].transport), "'run me' --token *** 'x y'");
    }

    /// R-25
    #[test]
    fn it_is_said_who_may_call() {
        let key = format!(r#""keys":[{{"name":"a","sha256":"{}"}}]"#, "0".repeat(64));
        for (portcullis, said) in [
            (String::new(), "anyone on this machine"),
            (r#""listen":"0.0.0.0:1","auth":{"allowAnonymous":true}"#.to_owned(), "ANYONE who can reach"),
            (format!(r#""auth":{{{key}}}"#), "who has the key"),
            (format!(r#""listen":"0.0.0.0:1","auth":{{{key}}}"#), "who has the key"),
        ] {
            let sentence = who_may_call(&config(&portcullis, ""));
            assert!(sentence.starts_with(said), "{portcullis}: {sentence}");
        }
    }

    /// R-11
    #[test]
    fn it_is_said_how_many_processes_a_client_may_start() {
        let child = |name: &str, isolation: &str| {
            format!(r#""{name}":{{"command":"x","portcullis":{{"isolation":"{isolation}"}}}}"#)
        };
        let (session, caller) = (child("s", "session"), child("c", "caller"));
        let shared = format!(r#"{},"u":{{"url":"http://h/"}}"#, child("h", "shared"));
        assert_eq!(processes(&config("", &shared)), None);
        let plain = format!(r#"{session},"d":{{"command":"x"}},{shared}"#);
        let said = processes(&config("", &plain)).unwrap();
        assert!(
            said.starts_with("each session of a client may start up to 2 processes, at most 32 for a server")
        );
        assert!(said.contains("128 in all") && said.contains("isolation: shared"), "{said}");
        let said = processes(&config(r#""auth":{"allowAnonymous":true}"#, &caller)).unwrap();
        assert!(said.starts_with("each caller may start 1 process,"), "{said}");
    }
}

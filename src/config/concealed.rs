//! The texts of a configuration that must not be seen in what peers and children write (F-103).
//!
//! *Limits*: of what stands in an `env` or a header in the clear, plain words and paths are left out: whoever masks
//! `production` or `application/json` makes a log that nobody can read.

use secrecy::SecretString;
use url::Url;

use super::secrets::{names_secret, visible_part};
use super::snapshot::{Remote, Snapshot, Stdio, Transport};

/// A value shorter than this that is made of plain words is no secret, in bytes.
const SHORTEST_WORD: usize = 16;

impl Snapshot {
    /// Everything secret that an upstream is given, whole and in the pieces in which it may be shown.
    pub fn secrets(&self) -> Vec<SecretString> {
        let mut found = Vec::new();
        for upstream in &self.upstreams {
            match &upstream.transport {
                Transport::Stdio(stdio) => of_child(stdio, &mut found),
                Transport::Remote(remote) => of_remote(remote, &mut found),
            }
        }
        found.into_iter().map(SecretString::from).collect()
    }
}

fn of_child<'a>(stdio: &'a Stdio, found: &mut Vec<&'a str>) {
    let mut before = None;
    for argument in std::iter::once(&stdio.command).chain(&stdio.args) {
        let text = argument.reveal();
        match visible_part(before, text) {
            Some(kept) => {
                let secret = text[kept.len()..].trim();
                found.push(secret);
                found.push(credential(secret));
            }
            None if argument.is_secret() => found.push(text),
            None => (),
        }
        before = Some(text);
    }
    for (name, value) in &stdio.env {
        if value.is_from_outside() || names_secret(name) || !is_plain(value.reveal()) {
            found.push(value.reveal());
        }
    }
}

fn of_remote<'a>(remote: &'a Remote, found: &mut Vec<&'a str>) {
    for (name, value) in &remote.headers {
        let text = value.reveal();
        let named = name == "authorization" || names_secret(name);
        if value.is_from_outside() || named || !is_plain(text) {
            found.push(text);
            found.push(credential(text));
        }
    }
    let url = remote.url.reveal();
    if remote.url.is_secret() {
        found.push(url.as_str());
        found.extend(url.path_segments().into_iter().flatten().filter(|segment| !is_plain(segment)));
    }
    found.extend(values(url));
}

/// The values in a URL's query, as they stand in it.
fn values(url: &Url) -> impl Iterator<Item = &str> {
    let pairs = url.query().into_iter().flat_map(|query| query.split('&'));
    pairs.filter_map(|pair| pair.split_once('=').map(|(_, value)| value)).filter(|value| !is_plain(value))
}

/// What follows the scheme in `Bearer x`.
fn credential(value: &str) -> &str {
    value.split_once(' ').map_or(value, |(_, credential)| credential.trim())
}

/// Whether a value is a path, or made of short lower-case words, as settings are.
fn is_plain(value: &str) -> bool {
    let word =
        |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.' | b'/' | b',' | b' ');
    let numbers = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b':');
    value.starts_with('/')
        || value.bytes().all(numbers)
        || value.split(['-', '_', '.', '/', ',', ' ']).all(|part| part.len() < SHORTEST_WORD)
            && value.bytes().all(word)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::super::environment::Environment;
    use super::super::{Format, parse};

    fn secrets(entry: &str) -> Vec<String> {
        let environment: Environment =
            [("FROM_OUTSIDE", "Zx9-outside"), ("PLAIN", "hunter-secret")].into_iter().collect();
        let text = format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#);
        let config = parse(&text, Format::Json, "test.json", &environment).unwrap();
        config.secrets().iter().map(|secret| secret.expose_secret().to_owned()).collect()
    }

    /// F-103
    #[test]
    fn what_a_child_is_given_is_secret_unless_it_is_plain() {
        let given = secrets(
            r#"{"command": "run", "args": ["--token", "Ab1", "--header=Authorization: Bearer Cd2",
                "X-Api-Key: Ef3", "${FROM_OUTSIDE}", "--verbose"],
                "env": {"MODE": "production", "HOME": "/home/x", "PORT": "8080", "DB_PASSWORD": "plain", "DB_PASS": "${PLAIN}",
                "DATABASE_URL": "postgres://u:Gh4@db/x"}}"#,
        );
        for secret in ["Ab1", "Cd2", "Ef3", "Zx9-outside", "plain", "hunter-secret", "postgres://u:Gh4@db/x"]
        {
            assert!(given.iter().any(|known| known == secret), "{secret} in {given:?}");
        }
        for shown in ["run", "--token", "--verbose", "production", "/home/x", "8080"] {
            assert!(!given.iter().any(|known| known == shown), "{shown} in {given:?}");
        }
    }

    /// F-103
    #[test]
    fn what_a_remote_server_is_given_is_secret_unless_it_is_plain() {
        let given = secrets(
            r#"{"url": "https://h.example/mcp?key=Ab1&mode=fast", "headers": {"Authorization": "Bearer Cd2",
                "X-More": "${FROM_OUTSIDE}", "X-Way": "${PLAIN}", "Accept-Language": "en", "X-Api-Key": "plain"}}"#,
        );
        for secret in ["Ab1", "Cd2", "Bearer Cd2", "Zx9-outside", "hunter-secret", "plain"] {
            assert!(given.iter().any(|known| known == secret), "{secret} in {given:?}");
        }
        for shown in ["fast", "en"] {
            assert!(!given.iter().any(|known| known == shown), "{shown} in {given:?}");
        }
        let hidden = secrets(r#"{"url": "https://h.example/${FROM_OUTSIDE}/mcp"}"#);
        assert!(hidden.iter().any(|known| known == "Zx9-outside"), "{hidden:?}");
        let user = secrets(r#"{"url": "https://u:Ij5@h.example/mcp"}"#);
        assert!(user.iter().any(|known| known == "dTpJajU="), "{user:?}");
    }
}

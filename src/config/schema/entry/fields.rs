//! How single fields of an entry are read.

use std::time::Duration;

use url::Url;

use super::Kind;
use crate::base::units::Period;
use crate::config::decode::{Field, Reach, Refusal, Wrong};
use crate::config::interpolate::is_name;
use crate::config::secrets::{Secret, Text};
use crate::config::snapshot::Address;

/// A kind of server; one that is not known makes this entry fail and no other.
pub(in crate::config::schema) fn kind(field: &mut Field<'_, '_>) -> Result<Kind, Refusal> {
    field.choice(&Kind::WORDS).map_err(|refusal| match refusal {
        Refusal::Wrong(wrong) => wrong.reaching(Reach::Entry).into(),
        Refusal::Noted => Refusal::Noted,
    })
}

pub(in crate::config::schema) fn command(field: &mut Field<'_, '_>) -> Result<Vec<Text>, Refusal> {
    let argv = if field.is_list() { field.list(argument)? } else { vec![argument(field)?] };
    match argv.first() {
        Some(program) if !program.reveal().trim().is_empty() => Ok(argv),
        _ => Err(Wrong::new("the program is missing").into()),
    }
}

pub(in crate::config::schema) fn argument(field: &mut Field<'_, '_>) -> Result<Text, Refusal> {
    without_nul(field.scalar()?)
}

pub(in crate::config::schema) fn variables(
    field: &mut Field<'_, '_>,
) -> Result<Vec<(String, Secret)>, Refusal> {
    field.open_table(|table| {
        table.read_all(|name, field| {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(Wrong::new("this is not the name of a variable").into());
            }
            Ok(without_nul(field.scalar()?)?.into_secret())
        })
    })
}

/// The name of a variable that is passed on.
pub(in crate::config::schema) fn variable_name(field: &mut Field<'_, '_>) -> Result<String, Refusal> {
    field.parsed("the name of a variable", |name| is_name(name).then(|| name.to_owned()))
}

/// The value of the variable whose name stands here.
pub(in crate::config::schema) fn variable(field: &mut Field<'_, '_>) -> Result<Text, Refusal> {
    let name = variable_name(field)?;
    match field.decoder.variables.environment.text(&name) {
        Some(value) => Ok(Text::hidden(value)),
        None => {
            let wrong = Wrong::new(format!("variable `{name}` is not set"));
            let mend = "set it, or write it into a file .env beside this one";
            Err(wrong.mend(mend).reaching(Reach::Entry).into())
        }
    }
}

pub(in crate::config::schema) fn header_from(
    name: &str,
    field: &mut Field<'_, '_>,
) -> Result<(String, Secret), Refusal> {
    let value = variable(field)?;
    Ok((header_name(name)?, header_value(value)?))
}

pub(in crate::config::schema) fn headers(
    field: &mut Field<'_, '_>,
) -> Result<Vec<(String, Secret)>, Refusal> {
    let read = |name: &str, field: &mut Field<'_, '_>| {
        let name = header_name(name)?;
        Ok((name, header_value(field.scalar()?)?))
    };
    let pairs = field.open_table(|table| table.read_all(read))?;
    Ok(pairs.into_iter().map(|(_, header)| header).collect())
}

/// Headers that the protocol or the connection owns (F-093).
const OWNED_HEADERS: [&str; 13] = [
    "accept",
    "accept-encoding",
    "connection",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// How the names of others of them begin.
const OWNED_PREFIXES: [&str; 2] = ["mcp-", "content-"];

/// The name of a header, in lower case.
pub(in crate::config) fn header_name(name: &str) -> Result<String, Wrong> {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(Wrong::new("this is not the name of a header"));
    }
    let name = name.to_ascii_lowercase();
    if OWNED_HEADERS.contains(&name.as_str()) || OWNED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    {
        let wrong = Wrong::new("this header belongs to the protocol and cannot be set");
        return Err(wrong.mend("remove it"));
    }
    Ok(name)
}

/// The value of a header.
pub(in crate::config) fn header_value(text: Text) -> Result<Secret, Wrong> {
    let visible = |c: char| c == '\t' || (' '..='~').contains(&c);
    if text.reveal().chars().all(visible) {
        return Ok(text.into_secret());
    }
    let wrong = Wrong::new("the value has characters that a header cannot have");
    Err(wrong.mend("allowed: printable ASCII").reaching(reach(&text)))
}

fn without_nul(text: Text) -> Result<Text, Refusal> {
    if text.reveal().contains('\0') {
        let wrong = Wrong::new("the value has a NUL character");
        return Err(wrong.reaching(reach(&text)).into());
    }
    Ok(text)
}

/// A URL; what is wrong with it is said without showing it, since it may hold a key.
pub(in crate::config::schema) fn address(field: &mut Field<'_, '_>) -> Result<Address, Refusal> {
    let text = field.text()?;
    let allowed = "allowed: an http or https URL, such as https://mcp.example.com/mcp";
    let url = match Url::parse(text.reveal()) {
        Ok(url) => url,
        Err(error) => {
            let wrong = Wrong::new(format!("this is not a URL: {error}"));
            return Err(wrong.mend(allowed).reaching(reach(&text)).into());
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        let wrong = Wrong::new("only http and https are supported");
        return Err(wrong.mend(allowed).reaching(Reach::Entry).into());
    }
    Ok(Address::new(url, &text))
}

/// What comes from elsewhere and is wrong, is the fault of elsewhere.
fn reach(text: &Text) -> Reach {
    if text.is_secret() { Reach::Entry } else { Reach::File }
}

/// The longest wait that is taken over from the configuration of a client.
const LONGEST: u64 = 7 * 24 * 60 * 60 * 1000;

pub(in crate::config::schema) fn milliseconds(field: &mut Field<'_, '_>) -> Result<Duration, Refusal> {
    let allowed = "a number of milliseconds from 1; \
                   `portcullis.timeouts` takes texts such as \"30s\"";
    field.parsed(allowed, |text| {
        let millis: u64 = text.parse().ok()?;
        (1..=LONGEST).contains(&millis).then(|| Duration::from_millis(millis))
    })
}

pub(in crate::config::schema) fn seconds(field: &mut Field<'_, '_>) -> Result<Duration, Refusal> {
    field.parsed("a number of seconds", |text| {
        let period = Period::parse(text).ok()?;
        let bounds = Duration::from_millis(1)..=Duration::from_millis(LONGEST);
        (text.parse::<f64>().is_ok() && bounds.contains(&period)).then_some(period)
    })
}

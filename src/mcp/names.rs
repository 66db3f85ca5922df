//! Names of tools and prompts as clients see them: `<namespace>__<name>`, or a stable alias where that would not do (D9).
//!
//! *Invariants:* a name depends on namespace, original and budget alone, so it is the same on every replica and after
//! every start (TOOL-04); it always matches `^[A-Za-z0-9_-]{1,budget}$` (F-043); what is safe and short stays as it is. The
//! way back is a lookup in the catalog, never a split at the separator.

use std::collections::{HashMap, HashSet};

use crate::base::{caps, ids};

/// Stands between namespace and name.
pub const SEPARATOR: &str = "__";

/// Digits of the hash in an alias; more only if two aliases meet.
const HASH_DIGITS: usize = 8;

/// Stem of an alias of which nothing readable is left.
const BARE_STEM: &str = "item";

/// A name as clients see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Exposed {
    /// The name.
    pub name: String,
    /// Whether it is an alias and not `<namespace>__<original>`, so that the original has to be shown elsewhere.
    pub altered: bool,
}

/// Why a namespace cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceFault {
    /// It has no characters.
    #[error("a namespace needs at least one character")]
    Empty,
    /// It is longer than [`caps::NAMESPACE_CHARS`].
    #[error("a namespace has at most {} characters", caps::NAMESPACE_CHARS)]
    TooLong,
    /// It does not begin with a lower-case letter.
    #[error("a namespace begins with a lower-case letter")]
    Start,
    /// It holds this character.
    #[error("a namespace consists of lower-case letters, digits, `-` and `_`, not {0:?}")]
    Character(char),
    /// It holds the separator or ends with a part of it, so that two different pairs would look the same.
    #[error("a namespace neither holds `__` nor ends with `_`")]
    Separator,
}

/// Checks that a namespace is `[a-z][a-z0-9_-]*`, without `__` inside and without `_` at its end.
///
/// # Errors
///
/// The first fault found.
pub fn check_namespace(namespace: &str) -> Result<(), NamespaceFault> {
    let first = namespace.chars().next().ok_or(NamespaceFault::Empty)?;
    if namespace.len() > caps::NAMESPACE_CHARS {
        return Err(NamespaceFault::TooLong);
    }
    let allowed = |c: char| matches!(c, 'a'..='z' | '0'..='9' | '_' | '-');
    if let Some(other) = namespace.chars().find(|c| !allowed(*c)) {
        return Err(NamespaceFault::Character(other));
    }
    if !first.is_ascii_lowercase() {
        return Err(NamespaceFault::Start);
    }
    if namespace.contains(SEPARATOR) || namespace.ends_with('_') {
        return Err(NamespaceFault::Separator);
    }
    Ok(())
}

/// The namespace that an upstream gets from its name in the configuration, which may be any text: the name itself where it
/// will do, lower-cased; else a readable stem and a hash of the name. Always passes [`check_namespace`].
#[must_use]
pub fn namespace_of(entry: &str) -> String {
    let lower = entry.to_ascii_lowercase();
    if check_namespace(&lower).is_ok() {
        return lower;
    }
    let tail = format!("-{}", ids::short_hash(entry.as_bytes()));
    let readable = stem(lower.trim_start_matches(|c: char| !c.is_ascii_lowercase()), '-');
    let readable = shortened(&readable, caps::NAMESPACE_CHARS - tail.len());
    let readable = if readable.is_empty() { BARE_STEM } else { readable };
    readable.replace('_', "-") + &tail
}

/// The name under which clients see `original`, in at most `budget` characters.
///
/// A budget outside [`caps::NAME_CHARS_MIN`] to [`caps::NAME_CHARS_MAX`] counts as the nearest one inside. Two names of one
/// upstream may still meet: [`expose_all`] sees to that.
#[must_use]
pub fn expose(namespace: Option<&str>, original: &str, budget: usize) -> Exposed {
    let budget = clamped(budget);
    plain(namespace, original, budget)
        .unwrap_or_else(|| Exposed { name: alias(namespace, original, budget, HASH_DIGITS), altered: true })
}

/// The names of all tools (or all prompts) of one upstream, in the order given, distinct for distinct originals.
///
/// A name that is safe as it is never gives way; of two that meet, the one whose original comes later in byte order gets a
/// longer hash (TOOL-05, R-19), so the order in which an upstream lists them does not matter. Equal originals get equal
/// names: which of them counts is for the catalog to say.
#[must_use]
pub fn expose_all<'a>(
    namespace: Option<&str>,
    originals: impl IntoIterator<Item = &'a str>,
    budget: usize,
) -> Vec<Exposed> {
    let budget = clamped(budget);
    let originals: Vec<&str> = originals.into_iter().collect();
    let mut sorted = originals.clone();
    sorted.sort_unstable();
    sorted.dedup();

    let mut names: HashMap<&str, Exposed> = HashMap::with_capacity(sorted.len());
    let mut taken: HashSet<String> = HashSet::with_capacity(sorted.len());
    for original in &sorted {
        if let Some(exposed) = plain(namespace, original, budget) {
            taken.insert(exposed.name.clone());
            names.insert(original, exposed);
        }
    }
    for original in sorted {
        names.entry(original).or_insert_with(|| {
            let name = free_alias(namespace, original, budget, &taken);
            taken.insert(name.clone());
            Exposed { name, altered: true }
        });
    }
    originals.iter().map(|original| names[original].clone()).collect()
}

fn clamped(budget: usize) -> usize {
    budget.clamp(caps::NAME_CHARS_MIN, caps::NAME_CHARS_MAX)
}

/// `<namespace>__<original>`, if that is a safe name within the budget.
fn plain(namespace: Option<&str>, original: &str, budget: usize) -> Option<Exposed> {
    let name = prefix(namespace) + original;
    let fits = !original.is_empty() && name.len() <= budget && name.chars().all(is_safe);
    fits.then_some(Exposed { name, altered: false })
}

fn prefix(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |namespace| format!("{namespace}{SEPARATOR}"))
}

/// The first alias of growing hash that nobody has.
fn free_alias(namespace: Option<&str>, original: &str, budget: usize, taken: &HashSet<String>) -> String {
    let longest = 2 * HASH_DIGITS;
    (HASH_DIGITS..=longest)
        .map(|digits| alias(namespace, original, budget, digits))
        // Beyond that other hashes are tried; there are far more of them than names that could be taken.
        .chain((0u64..).map(|round| {
            let other = format!("{original}\0{round}");
            alias(namespace, &other, budget, HASH_DIGITS)
        }))
        .find(|name| !taken.contains(name))
        .expect("there is an alias for every round, and fewer names than rounds")
}

/// Readable stem and hash, within the budget.
fn alias(namespace: Option<&str>, original: &str, budget: usize, digits: usize) -> String {
    let mut prefix = prefix(namespace);
    let mut hashed = original.as_bytes().to_vec();
    // A prefix that cannot stay whole has to count in the hash, or two upstreams would share their aliases.
    let room = budget.saturating_sub(digits + 1 + BARE_STEM.len());
    if prefix.len() > room || !prefix.chars().all(is_safe) {
        hashed = [prefix.as_bytes(), b"\0", original.as_bytes()].concat();
        let kept = stem(&prefix, '_');
        prefix = match shortened(&kept, room.saturating_sub(1)) {
            "" => String::new(),
            kept => format!("{kept}_"),
        };
    }
    let mut hash = ids::sha256_hex(&hashed);
    hash.truncate(digits.min(budget));
    let room = budget.saturating_sub(prefix.len() + 1 + hash.len());
    let stem = stem(original, '_');
    match shortened(&stem, room) {
        "" if room >= BARE_STEM.len() => format!("{prefix}{BARE_STEM}_{hash}"),
        "" => hash,
        stem => format!("{prefix}{stem}_{hash}"),
    }
}

fn is_safe(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The readable part of a text: each run of other characters becomes one `filler`, none at either end.
fn stem(text: &str, filler: char) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let c = if is_safe(c) { c } else { filler };
        if c != filler || !out.ends_with(filler) {
            out.push(c);
        }
    }
    out.trim_matches(['_', '-']).to_owned()
}

/// The first characters of a stem, as many as there is room for.
fn shortened(stem: &str, room: usize) -> &str {
    stem[..room.min(stem.len())].trim_end_matches(['_', '-'])
}

#[cfg(test)]
mod tests;

//! The instructions of one upstream, looked through and cut before clients see them (R-21, R-23, LIFE-19, SEC-21).

use std::borrow::Cow;

use crate::config::snapshot::{Catalog, Instructions, OnFinding};
use crate::relay::catalog::item::{self, LONG};
use crate::relay::catalog::member::Member;
use crate::relay::catalog::snapshot::Snapshot;
use crate::telemetry::events::relay::Finding;
use crate::telemetry::words::FindingKind;

/// The instructions of an upstream as clients get them; none when there are none to show.
#[must_use]
pub fn shown(member: &Member, limits: &Catalog) -> Option<String> {
    if limits.instructions == Instructions::Drop || member.upstream.instructions == Instructions::Drop {
        return None;
    }
    let snapshot = member.state().snapshot?;
    let text = judged(snapshot.handshake.instructions.as_deref()?, limits.on_finding)?;
    (!text.is_empty()).then(|| capped(&text, limits.max_instructions))
}

/// Reports what is suspicious in the instructions that a reading brought, unless the one before had the same.
pub fn report(upstream: &str, before: Option<&Snapshot>, now: &Snapshot) {
    let text = now.handshake.instructions.as_deref().unwrap_or_default();
    let known = |before: &Snapshot| !before.stale && before.handshake.instructions.as_deref() == Some(text);
    if before.is_some_and(known) {
        return;
    }
    for finding in findings(text) {
        Finding { upstream, finding, item: "instructions" }.emit();
    }
}

/// At most `limit` bytes of `text`, cut between characters.
#[must_use]
pub fn capped(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit.saturating_sub(4);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} …", &text[..end])
}

fn findings(text: &str) -> Vec<FindingKind> {
    let mut found = item::suspects(text.chars().map(u32::from));
    if text.len() > LONG {
        found.push(FindingKind::TooLong);
    }
    found
}

/// The text by the operator's choice.
fn judged(text: &str, choice: OnFinding) -> Option<Cow<'_, str>> {
    if choice == OnFinding::Report || findings(text).is_empty() {
        return Some(Cow::Borrowed(text));
    }
    (choice == OnFinding::Strip).then(|| item::visible(text).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIFE-19, R-21
    #[test]
    fn instructions_are_cut_between_characters() {
        assert_eq!(capped("short", 10), "short");
        let cut = capped(&"é".repeat(100), 21);
        assert!(cut.len() <= 21 && cut.ends_with(" …"), "{cut}");
    }

    /// R-23, SEC-21: what hides in instructions is judged as what hides in a definition.
    #[test]
    fn hidden_characters_and_length_are_findings() {
        let hidden = "Use \u{200b}it\u{202e}.";
        assert_eq!(findings(hidden), [FindingKind::Invisible, FindingKind::Bidi]);
        assert_eq!(findings(&"x".repeat(LONG + 1)), [FindingKind::TooLong]);
        assert!(findings("Écrire \\u200b n'est rien.").is_empty());
        assert_eq!(judged(hidden, OnFinding::Report).as_deref(), Some(hidden));
        assert_eq!(judged(hidden, OnFinding::Strip).as_deref(), Some("Use it."));
        assert_eq!(judged(hidden, OnFinding::Withhold), None);
        assert_eq!(judged("plain", OnFinding::Withhold).as_deref(), Some("plain"));
    }
}

//! Facts about catalogs and about answers over several upstreams.

use std::fmt::Display;
use std::time::Duration;

use crate::mcp::methods::{Class, ItemKind};
use crate::mcp::questions::QuestionKind;
use crate::telemetry::metrics;
use crate::telemetry::words::{Attempt, DropReason, FindingKind, Label, NoticeLoss};

const TARGET: &str = "portcullis::relay";

/// An upstream's lists were read.
pub struct CatalogRefreshed<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// How many items of each kind are offered, by [`ItemKind::index`].
    pub offered: [usize; ItemKind::ALL.len()],
    /// Items of all kinds left out.
    pub dropped: usize,
    /// How long it took.
    pub took: Duration,
}

impl CatalogRefreshed<'_> {
    /// States it.
    pub fn emit(self) {
        let [tools, prompts, resources, templates] = self.offered;
        let upstream = Label::upstream(self.upstream);
        for (kind, offered) in ItemKind::ALL.into_iter().zip(self.offered) {
            metrics::CATALOG_ITEMS.gauge(&[upstream, kind.into()]).set(offered as f64);
        }
        metrics::CATALOG_REFRESHES.counter(&[upstream, Attempt::Done.into()]).increment(1);
        tracing::info!(
            target: TARGET,
            upstream = self.upstream,
            tools,
            prompts,
            resources,
            templates,
            dropped = self.dropped,
            took = ?self.took,
            "catalog refreshed"
        );
    }
}

/// An upstream's lists could not be read; the last ones stay.
pub struct CatalogFailed<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Why.
    pub error: &'a dyn Display,
    /// It failed the time before, too: the log has said so, and need not again (F-104).
    pub again: bool,
}

impl CatalogFailed<'_> {
    /// States it.
    pub fn emit(self) {
        let labels = [Label::upstream(self.upstream), Attempt::Failed.into()];
        metrics::CATALOG_REFRESHES.counter(&labels).increment(1);
        let Self { upstream, error, again } = self;
        if again {
            tracing::debug!(target: TARGET, upstream, error = %error, "catalog refresh failed");
        } else {
            tracing::warn!(target: TARGET, upstream, error = %error, "catalog refresh failed");
        }
    }
}

/// One item of an upstream is not offered.
pub struct ItemDropped<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Kind of the item.
    pub kind: ItemKind,
    /// Name or URI of the item, as the upstream wrote it; only for the log.
    pub item: &'a str,
    /// Why.
    pub reason: DropReason,
    /// More about it; may be empty.
    pub detail: &'a dyn Display,
}

impl ItemDropped<'_> {
    /// States it.
    pub fn emit(self) {
        let labels = [Label::upstream(self.upstream), self.kind.into(), self.reason.into()];
        metrics::ITEMS_DROPPED.counter(&labels).increment(1);
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            kind = Label::from(self.kind).value,
            item = self.item,
            why = self.reason.word(),
            detail = %self.detail,
            "item dropped"
        );
    }
}

/// Something suspicious stands in a definition or in instructions.
pub struct Finding<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// What was found.
    pub finding: FindingKind,
    /// Name or URI of the item, or `instructions`; only for the log.
    pub item: &'a str,
}

impl Finding<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::FINDINGS.counter(&[Label::upstream(self.upstream), self.finding.into()]).increment(1);
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            why = self.finding.word(),
            item = self.item,
            "finding"
        );
    }
}

/// A notification of an upstream was not passed on to a client.
pub struct NoticeDropped<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Why.
    pub reason: NoticeLoss,
}

impl NoticeDropped<'_> {
    /// States it.
    pub fn emit(self) {
        let labels = [Label::upstream(self.upstream), self.reason.into()];
        metrics::NOTICES_DROPPED.counter(&labels).increment(1);
        tracing::debug!(
            target: TARGET,
            upstream = self.upstream,
            why = self.reason.word(),
            "notification dropped"
        );
    }
}

/// An upstream's question was not put to the client: the gateway answered with an error.
pub struct QuestionRefused<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// What it asked for.
    pub question: QuestionKind,
    /// Why.
    pub why: &'a str,
}

impl QuestionRefused<'_> {
    /// States it.
    pub fn emit(self) {
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            question = self.question.label(),
            why = self.why,
            "question refused"
        );
    }
}

/// Some upstreams did not contribute to an answer over several.
pub struct FanoutPartial<'a> {
    /// Class of the method.
    pub method: Class,
    /// Names of those that are missing, for the log.
    pub missing: &'a dyn Display,
}

impl FanoutPartial<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::FANOUT_PARTIALS.counter(&[self.method.into()]).increment(1);
        tracing::warn!(target: TARGET, method = self.method.label(), missing = %self.missing, "fan-out partial");
    }
}

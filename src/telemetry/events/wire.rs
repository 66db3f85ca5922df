//! Facts about what upstreams send beside answers.

const TARGET: &str = "portcullis::upstream";

/// A message of an upstream was dropped.
pub struct MessageDropped<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Why, in a word of ours.
    pub why: &'static str,
}

impl MessageDropped<'_> {
    /// States it.
    pub fn emit(self) {
        tracing::debug!(target: TARGET, upstream = self.upstream, why = self.why, "message dropped");
    }
}

/// An upstream redirects to where we do not follow (F-070).
pub struct Redirected<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Where to, without what may be secret in it.
    pub location: &'a str,
}

impl Redirected<'_> {
    /// States it.
    pub fn emit(self) {
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            location = self.location,
            "redirect not followed; set the entry's url to where the server really is"
        );
    }
}

/// It is known whether an upstream can push to us (F-001).
pub struct PushChannel<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// What became of the attempt to open it.
    pub state: Push,
}

/// A push channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It is open.
    Open,
    /// The upstream has none.
    Absent,
}

impl PushChannel<'_> {
    /// States it.
    pub fn emit(self) {
        let state = match self.state {
            Push::Open => "open",
            Push::Absent => "absent",
        };
        tracing::debug!(target: TARGET, upstream = self.upstream, state, "push channel");
    }
}

//! What the readiness probe asks (R-33, OPS-08, F-099).

/// Answers the readiness probe; asked often, so it must be quick and must not wait.
pub trait Readiness: Send + Sync {
    /// Whether traffic may come.
    fn ready(&self) -> Ready;
}

/// Whether traffic may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It may.
    Yes,
    /// It may not, for these reasons; the page shows them, so they hold no secrets.
    No(Vec<String>),
}

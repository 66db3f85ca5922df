//! Who calls.

use std::sync::Arc;

/// A verified caller (AUTHS-16). Sessions, connections and handles belong to one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The tenant; `default` until tenants are configured.
    pub tenant: Arc<str>,
    /// Who it is within the tenant: a key's name, or `anonymous`.
    pub name: Arc<str>,
    /// How it was verified.
    pub proof: Proof,
}

/// How a caller was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Proof {
    /// Not at all: a loopback bind, or where the operator allows it.
    Anonymous,
    /// A static API key.
    ApiKey,
    /// The process itself, from the command line.
    Local,
}

impl Principal {
    /// The tenant that needs no configuration.
    pub const DEFAULT_TENANT: &'static str = "default";

    /// A caller of the default tenant.
    #[must_use]
    pub fn new(name: &str, proof: Proof) -> Self {
        Self { tenant: Arc::from(Self::DEFAULT_TENANT), name: Arc::from(name), proof }
    }

    /// The caller who showed nothing.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new("anonymous", Proof::Anonymous)
    }
}

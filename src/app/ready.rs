//! Whether the gateway may get traffic (R-33, F-099).

use std::sync::Arc;

use crate::admin::{Readiness, Ready};
use crate::downstream::shore::Shore;
use crate::relay::catalog::refresh::Catalog;

/// Answers `/readyz` from the catalog and the client shore.
pub struct Gauge {
    /// Whose first tries count.
    pub catalog: Arc<Catalog>,
    /// Who may be draining.
    pub shore: Arc<Shore>,
}

impl Readiness for Gauge {
    fn ready(&self) -> Ready {
        let mut reasons = Vec::new();
        if self.shore.is_leaving() {
            reasons.push("the gateway is shutting down".to_owned());
        }
        if !self.catalog.is_settled() {
            reasons.push("the upstreams are being tried for the first time".to_owned());
        }
        for member in self.catalog.members().iter().filter(|member| member.upstream.required) {
            let state = member.state();
            if state.problem.is_some() || state.snapshot.is_none() {
                reasons.push(format!("the required upstream `{}` is not available", member.upstream.name));
            }
        }
        if reasons.is_empty() { Ready::Yes } else { Ready::No(reasons) }
    }
}

//! The operator's port: liveness, readiness and the metrics page.

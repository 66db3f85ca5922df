//! The operator's port: liveness, readiness and the metrics page.
//!
//! *Invariants*: needs no authentication and tells nothing but health and numbers; depends on
//! no upstream unless the configuration calls it required (R-33, OPS-08).

mod health;
mod listen;
mod routes;

pub use self::health::{Readiness, Ready};
pub use self::listen::serve;

//! Stack 2, a call, from top to bottom: what it passes on its way to the relay.
//!
//! *On drop* of a call's future: the call is counted as cancelled, and cancelled below.

use std::sync::Arc;

use tower::ServiceBuilder;
use tower::util::BoxCloneSyncService;

use crate::call::{CallService, RelayService};
use crate::gate::admit::AdmitLayer;
use crate::gate::measure::{MeasureLayer, Meters};

/// The gate in front of a relay.
#[must_use]
pub fn build(meters: Arc<Meters>, relay: RelayService) -> CallService {
    let stack = ServiceBuilder::new()
        // Sees every call and how it ended, refusals included.
        .layer(MeasureLayer::new(meters))
        // The last point at which a call can be refused for rights. Everybody who was let in may
        // do everything, until policies are configured.
        .layer(AdmitLayer)
        .service(relay);
    BoxCloneSyncService::new(stack)
}

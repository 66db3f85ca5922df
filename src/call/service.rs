//! The joints: boxed services by which the stages meet.

use tower::util::BoxCloneSyncService;

use crate::call::call::{Admitted, Call, OutCall};
use crate::call::fault::Fault;
use crate::call::reply::Reply;

/// The gate, as the client shore sees it.
pub type CallService = BoxCloneSyncService<Call, Reply, Fault>;
/// The relay, as the gate sees it.
pub type RelayService = BoxCloneSyncService<Admitted, Reply, Fault>;
/// The server shore, as the relay sees it.
pub type OutService = BoxCloneSyncService<OutCall, Reply, Fault>;

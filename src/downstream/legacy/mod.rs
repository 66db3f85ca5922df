//! What sessions of the revisions with `initialize` need beyond a single call.

pub mod asked;
pub mod event_id;
pub mod in_flight;
pub mod outbox;
pub mod session;
pub mod store;
pub mod track;

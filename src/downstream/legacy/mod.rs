//! The session revisions, as clients speak them: sessions, calls in flight, standing streams.

pub mod in_flight;
pub mod session;
pub mod stream;

//! The narrow waist: the types and traits by which the four stations meet.
//!
//! A client's request becomes a [`Call`]; the gate makes it [`Admitted`]; the relay makes an
//! [`OutCall`] of it; a [`Reply`] comes back, or a [`Fault`]. Dropping the future of a reply, or the
//! reply, cancels the call at the upstream.

mod authenticate;
#[allow(
    clippy::module_inception,
    reason = "the folder is named after the waist, the file after its main type"
)]
mod call;
mod fault;
mod principal;
mod question;
mod reply;
mod service;
mod session;
mod upstream;

pub use authenticate::{Authenticator, Credentials, Denied};
pub use call::{Admitted, Call, Course, OutCall, Params, Purpose};
pub use fault::{Fault, Outcome};
pub use principal::{Principal, Proof};
pub use question::{Asker, Heard, Hearing, Question, ask};
pub use reply::{Answer, Body, Chunks, Item, Items, Reply, Watch, gather};
pub use service::{CallService, OutService, RelayService};
pub use session::{Client, Endpoint, LogLevel, Nobody, Push, Session, SessionKey};
pub use upstream::{Attendant, Audience, Handshake, News, Observer, UpstreamId, Upstreams};

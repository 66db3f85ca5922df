//! Questions of upstreams to clients, and what has to be remembered for them.
//!
//! A question is prepared by [`question`]: checked, marked with its origin, stripped of what must not pass. Those for
//! [`roots`] are asked once for all upstreams of a session. Ids of [`pages`] that users are sent to are ours toward
//! clients, also where an error names them ([`required`]). All of it is kept by session ([`open`]).

pub mod open;
pub mod pages;
pub mod question;
pub mod required;
pub mod roots;

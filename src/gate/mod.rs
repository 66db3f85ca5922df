//! May it pass: who is calling, and with what rights.
//!
//! [`authn`] is asked by the client shore for every request; a call then goes down [`stack`].

pub mod admit;
pub mod authn;
pub mod measure;
pub mod stack;

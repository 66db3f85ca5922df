//! The bridge: choosing, fanning out, merging, and translating names, URIs and ids.
//!
//! A call enters at [`route`], which reads the method table: it goes to one upstream ([`one`]), is
//! answered from the [`catalog`] ([`lists`]), or is answered here ([`here`]). What an upstream sends for a
//! client comes [`back`] with the reply to a call, or beside all calls ([`told`]): its questions go through
//! the [`exchange`], its other [`notices`] (among them [`logs`]) are made ready for the client or dropped.

pub mod back;
pub mod catalog;
pub mod completion;
pub mod exchange;
pub mod here;
pub mod lists;
pub mod logs;
pub mod notices;
pub mod one;
pub mod pair;
pub mod route;
pub mod told;

#[cfg(test)]
mod tests;

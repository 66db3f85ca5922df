//! The bridge: choosing, fanning out, merging, and translating names, URIs and ids.
//!
//! A call enters at [`route`], which reads the method table: it goes to one upstream ([`one`]), is
//! answered from the [`catalog`] ([`lists`]), or is answered here ([`here`]).

pub mod catalog;
pub mod completion;
pub mod here;
pub mod lists;
pub mod one;
pub mod route;
pub mod told;

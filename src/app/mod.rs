//! The composition root: the only module that knows all stations and joins them.
//!
//! [`build`] makes the parts of a checked configuration and starts nothing; [`serve`] binds, starts
//! and runs until told to stop; [`stdio`] does so for one client on standard streams; [`drain`] is the order in which everything ends; [`local`] calls
//! through the same parts without a listener.

pub mod build;
pub mod drain;
pub mod keys;
pub mod local;
pub mod ready;
pub mod serve;
mod signals;
pub mod stdio;

//! The command line: what a person or a script types, and what it prints.
//!
//! Results go to standard output; logs, reports and errors to standard error. A command ends with one of
//! the codes of [`exit::Exit`]:
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | it failed while it ran |
//! | 2 | the command line or the configuration is wrong |
//! | 3 | a server cannot be reached |
//! | 4 | a credential is missing or refused |
//! | 5 | the tool is unknown, or answered with an error |
//!
//! *Invariants*: arguments of servers are masked in every output; what comes from servers cannot
//! steer a terminal.

mod answer;
mod arguments;
mod call;
mod check;
mod completions;
mod connect;
mod health;
mod holder;
mod keys;
mod output;
mod pick;
mod probe;
#[cfg(test)]
mod reference;
mod remote;
mod report;
mod run;
mod schema;
mod serve;
mod source;
mod stdio;
mod tools;
mod way;

pub mod exit;

pub use run::run;

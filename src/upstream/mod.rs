//! The server shore: child processes and HTTP servers, their sessions and their health.

pub mod stdio;

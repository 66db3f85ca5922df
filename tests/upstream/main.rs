//! The server shore against scripted servers on real sockets.

mod failures;
mod http;
mod rig;
mod stdio;
mod tls;

//! The server shore against scripted servers on real sockets.

mod http;
mod rig;
mod stdio;
mod tls;

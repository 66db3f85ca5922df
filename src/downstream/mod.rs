//! The client shore: sockets, Streamable HTTP, sessions and streams of clients.

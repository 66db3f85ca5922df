//! Ports without a server: one that refuses, one that accepts and then says nothing.

use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};
use socket2::Socket;

use super::http_server::bound;

/// A port on which connects are refused for as long as this is held.
pub struct Refusing(Socket);

impl Refusing {
    pub fn new() -> Self {
        Refusing(bound(SocketAddr::from(([127, 0, 0, 1], 0))))
    }

    pub fn entry(&self) -> Value {
        let address = self.0.local_addr().unwrap().as_socket().unwrap();
        json!({"type": "http", "url": format!("http://{address}/mcp")})
    }
}

/// A port whose connections are accepted by the system and never read.
pub struct Silent(TcpListener);

impl Silent {
    pub fn new() -> Self {
        Silent(TcpListener::bind(("127.0.0.1", 0)).unwrap())
    }

    pub fn entry(&self) -> Value {
        json!({"type": "http", "url": format!("http://{}/mcp", self.0.local_addr().unwrap())})
    }
}

//! The Unix socket for clients on this machine (R-25).

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::kit::sse_client::greeting;
use crate::kit::text::request;
use crate::kit::*;

/// One request over the socket, on a connection of its own; gives the whole answer.
async fn ask(path: &Path, headers: &str, body: &str) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: a.local.program\r\nConnection: close\r\nAccept: {BOTH}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon("an answer over the Unix socket", stream.read_to_string(&mut answer)).await.unwrap();
    answer
}

fn greet() -> String {
    request("1", "initialize", &greeting(NEWEST).to_string())
}

fn at(path: &Path) -> Value {
    json!({"socket": path})
}

/// R-25: whoever may use the file may call, as a client on this machine, and the file is the owner's alone.
#[tokio::test]
async fn r_25_clients_on_this_machine_may_call_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portcullis.sock");
    let child = stdio_server().tool("echo").start();
    let mut gateway = gateway().upstream("child", &child).with(at(&path)).start().await;
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let answer = ask(&path, "", &greet()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    let session = format!("MCP-Session-Id: {id}\r\n");
    let call = request("2", "tools/call", r#"{"name":"child__echo","arguments":{"x":1}}"#);
    let answer = ask(&path, &session, &call).await;
    assert!(answer.contains(r#""structuredContent":{"x":1}"#), "{answer}");
    // R-45: a child is told that it may ask for roots only where the client is on this machine.
    let told = child.seen("initialize").last().unwrap().params();
    assert!(told["capabilities"]["roots"].is_object(), "{told}");
    // Pages are no clients of a file, and their origins are checked all the same.
    let page = ask(&path, "Origin: http://evil.test\r\n", &greet()).await;
    assert!(page.starts_with("HTTP/1.1 403"), "{page}");
    assert_eq!(gateway.client().await.tool_names().await, ["child__echo"], "the address is served as well");
    assert_eq!(gateway.terminate().await.code(), Some(0));
    assert!(!path.exists(), "the file is gone with the gateway");
}

/// R-25: with keys, being on this machine is no credential.
#[tokio::test]
async fn r_25_a_unix_socket_asks_for_a_key_where_there_are_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portcullis.sock");
    let keys = json!({"auth": {"keys": [{"name": "k", "sha256": "0".repeat(64)}]}});
    let plan = gateway().upstream("alpha", http_server().tool("echo"));
    let _gateway = plan.with(at(&path)).with(keys).start().await;
    let answer = ask(&path, "", &greet()).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
}

/// R-25, F-098: what a killed gateway left is replaced; what another one uses, or what is no socket, is not.
#[tokio::test]
async fn r_25_a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("portcullis.sock");
    let plan = || gateway().upstream("alpha", http_server().tool("echo")).with(at(&path));
    let mut first = plan().start().await;
    first.kill().await;
    assert!(path.exists());
    let _second = plan().start().await;
    let (status, log) = plan().refused().await;
    assert_ne!(status.code(), Some(0));
    assert!(log.contains("portcullis.socket") && log.contains("another process listens"), "{log}");
    assert!(ask(&path, "", &greet()).await.starts_with("HTTP/1.1 200"));
    let file = folder.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let refused = gateway().upstream("alpha", http_server().tool("echo")).with(at(&file)).refused().await;
    assert_ne!(refused.0.code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

//! Static API keys: made by the program, sent as a bearer token, bound to what they open (F-016, R-25, R-32, AUTHS-05,
//! HTTP-30).

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::kit::{self, *};

/// `portcullis keys new NAME`: the key, and its entry for the configuration.
async fn new_key(name: &str) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.args(["keys", "new", name]).stdin(Stdio::null()).kill_on_drop(true);
    let output = soon("a new key", command.output()).await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let hexadecimal = |word: &&&str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words: Vec<&str> = printed
        .split(|c: char| !(c.is_ascii_alphanumeric() || "-_.+/=".contains(c)))
        .filter(|w| !w.is_empty())
        .collect();
    let digest = *words.iter().find(hexadecimal).unwrap_or_else(|| panic!("no digest in {printed}"));
    // 256 bits are at least 43 characters; what is neither digest nor word of the text is the key.
    let key = words.iter().find(|word| word.len() >= 43 && **word != digest);
    let key = (*key.unwrap_or_else(|| panic!("no key in {printed}"))).to_owned();
    (key, json!({"name": name, "sha256": digest}))
}

fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

/// keys differ, and what is stored is not what is sent.
#[tokio::test]
async fn r_32_a_new_key_is_random_and_stored_as_its_digest() {
    let ((one, entry), (two, _)) = (new_key("laptop").await, new_key("laptop").await);
    assert_ne!(one, two);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, one.as_bytes());
    let hex: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(entry["sha256"].as_str().unwrap().to_lowercase(), hex);
}

/// R-25 AUTHS-05, AUTHS-07: with keys, nobody is let in without one, also not on loopback.
#[tokio::test]
async fn r_25_with_keys_every_request_needs_one() {
    let alpha = http_server().tool("echo").start();
    let (key, entry) = new_key("laptop").await;
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"auth": {"keys": [entry]}})).start().await;
    let visitor = gateway.visitor();
    let greet = || visitor.post(&visitor.greeting());
    let refused = greet().send().await;
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").is_some_and(|challenge| challenge.starts_with("Bearer")));
    assert_eq!(refused.header("mcp-session-id"), None);
    let mut shorter = key.clone();
    shorter.pop();
    for wrong in [
        "Bearer",
        "Bearer ",
        "Bearer nonsense",
        &bearer(&shorter),
        &bearer(&format!("{key}x")),
        &format!("Basic {key}"),
    ] {
        assert_eq!(greet().header("authorization", wrong).send().await.status, 401, "{wrong}");
    }
    let query = format!("/mcp?access_token={key}");
    assert!([400, 401].contains(&greet().path(&query).send().await.status), "never in the query");

    let client = gateway.visitor().header("authorization", &bearer(&key)).connect().await;
    client.call("alpha__echo", json!({})).await.result();
    for seen in alpha.received() {
        assert!(!format!("{seen:?}").contains(&key), "R-34: a client's key at an upstream");
    }
    let session = client.session.clone().unwrap();
    let ping = kit::text::request("1", "ping", "{}");
    for letter in [visitor.post(&ping), visitor.get(), visitor.delete()] {
        assert_eq!(letter.header("mcp-session-id", &session).send().await.status, 401, "SEC-10");
    }
    assert!(client.request("ping", json!({})).await.is_result());
    assert!(!gateway.log().contains(&key), "the key is in the log");
    let (status, _) = gateway.operator("/metrics").await;
    assert_eq!(status, 200, "R-26: the operator's page needs no client's key");
}

/// F-016 HTTP-30, R-07: another caller's session is as unknown as any other.
#[tokio::test]
async fn f_016_a_session_belongs_to_the_key_that_made_it() {
    let alpha = http_server().tool("echo").start();
    let ((key_a, entry_a), (key_b, entry_b)) = (new_key("a").await, new_key("b").await);
    let keys = json!({"auth": {"keys": [entry_a, entry_b]}});
    let gateway = gateway().upstream("alpha", &alpha).with(keys).start().await;
    let a = gateway.visitor().header("authorization", &bearer(&key_a)).connect().await;
    let b = gateway.visitor().header("authorization", &bearer(&key_b)).connect().await;
    a.call("alpha__echo", json!({})).await.result();
    let stream = a.listen().await;
    let session = a.session.clone().unwrap();
    let list = kit::text::request("7", "tools/list", "{}");
    let mut foreign = b.post(&list).header("mcp-session-id", &session).send().await;
    let mut unknown = b.post(&list).header("mcp-session-id", "never-given").send().await;
    assert_eq!((foreign.status, unknown.status), (404, 404));
    assert_eq!(foreign.text().await, unknown.text().await);
    assert_eq!(b.get().header("mcp-session-id", &session).send().await.status, 404);
    assert_eq!(b.delete().header("mcp-session-id", &session).send().await.status, 404);
    assert!(!stream.ended());
    assert!(a.request("ping", json!({})).await.is_result());
    let used = alpha.seen("tools/call")[0].session.clone().unwrap();
    assert!(!alpha.ended().contains(&used));
}

/// PAGE-03: a cursor belongs to the caller that it was given to.
#[tokio::test]
async fn page_03_a_cursor_belongs_to_its_caller() {
    let alpha = (0..5).fold(http_server(), |server, n| server.tool(&format!("t{n}")));
    let ((key_a, entry_a), (key_b, entry_b)) = (new_key("a").await, new_key("b").await);
    let ours = json!({"auth": {"keys": [entry_a, entry_b]}, "catalog": {"pageSize": 2}});
    let gateway = gateway().upstream("alpha", alpha).with(ours).start().await;
    let a = gateway.visitor().header("authorization", &bearer(&key_a)).connect().await;
    let b = gateway.visitor().header("authorization", &bearer(&key_b)).connect().await;
    let cursor = a.request("tools/list", json!({})).await.result()["nextCursor"].clone();
    assert!(cursor.is_string());
    assert_eq!(b.request("tools/list", json!({"cursor": cursor})).await.code(), -32602);
    assert!(a.request("tools/list", json!({"cursor": cursor})).await.is_result());
}

/// keys open a public bind.
#[tokio::test]
async fn r_25_keys_allow_a_public_bind() {
    let (_, entry) = new_key("laptop").await;
    let ours = json!({"listen": "0.0.0.0:0", "auth": {"keys": [entry]}});
    let _open = gateway().upstream("alpha", http_server().tool("echo")).with(ours).start().await;
}

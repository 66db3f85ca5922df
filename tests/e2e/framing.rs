//! Bytes: framing of every transport, and what must come out as it went in (F-032..F-037, F-114, D1, RPC-08, RPC-21,
//! RPC-22).

use serde_json::{Value, json};

use crate::kit::{self, *};

/// Numbers, order, escapes and spaces that a tree would change.
const ODD_OBJECTS: [&str; 5] = [
    r#"{"a":9007199254740993,"b":{"c":[18446744073709551615,-9223372036854775808]}}"#,
    r#"{"a":12345678901234567890123,"b":[340282366920938463463374607431768211456]}"#,
    r#"{"a":1.0,"b":0.1,"c":-0,"d":1e2,"e":100000000000000000000.5,"f":1e400,"g":1E+2}"#,
    r#"{"z":1,"a":{"y":2,"b":3},"m":[{"q":1,"c":2}],"":null,"x":{},"w":[]}"#,
    r#"{ "s" : "\u0000 \ud800 \u2028 \/ \n é 漢字 \u00e9" ,	"t":"a\\u0041\"" }"#,
];

/// F-036 F-037: arguments and structured results, by one transport, both ways.
async fn keeps_every_byte(entry: impl Into<Entry>, server: &dyn Fn() -> Vec<kit::exchange::Seen>) {
    let gateway = gateway().upstream("alpha", entry).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for object in ODD_OBJECTS {
        let outcome = client.call_text("alpha__echo", object).await;
        assert_eq!(server().last().unwrap().arguments(), object, "at the server");
        assert_eq!(outcome.member(&["structuredContent"]), object, "at the client");
    }
}

#[tokio::test]
async fn f_036_f_037_values_keep_every_byte_over_json() {
    let alpha = http_server().tool("echo").start();
    keeps_every_byte(&alpha, &|| alpha.seen("tools/call")).await;
}

#[tokio::test]
async fn f_036_f_037_values_keep_every_byte_over_events() {
    let alpha = http_server().with_events().tool("echo").start();
    keeps_every_byte(&alpha, &|| alpha.seen("tools/call")).await;
}

#[tokio::test]
async fn f_036_f_037_values_keep_every_byte_over_a_pipe() {
    let alpha = stdio_server().tool("echo").start();
    keeps_every_byte(&alpha, &|| alpha.seen("tools/call")).await;
}

/// D1 RPC-21: a tool's definition differs in its name and nothing else, to the byte.
#[tokio::test]
async fn d1_a_whole_definition_is_relayed_byte_for_byte() {
    let before = r#"{"x-new":{"k":[1]},"inputSchema":{"type":"object","$comment":"c","properties":{"z":{"type":"integer","maximum":9007199254740993,"multipleOf":1.0},"a":{"$ref":"http://10.0.0.1/x"},"é\u00e9":true},"required":["z"],"$defs":{"B":{}},"additionalProperties":false},"description":"d \u2028 \/ 漢","name":""#;
    let after = r#"","outputSchema":{"properties":{"n":{"const":1e400}},"type":"object"},"_meta":{"example.com/k":{"deep":[1,null]}},"annotations":{"x-hint":1,"title":"R","readOnlyHint":true},"icons":[{"src":"data:image/png;base64,AA==","x":1}],"title":"Title"}"#;
    let own = format!("{before}rich{after}");
    let alpha = http_server().tool_text(&own).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let merged = gateway.client().await.list_texts("tools/list", "tools").await;
    assert_eq!(merged, [format!("{before}alpha__rich{after}")]);
    let single = gateway.client_of("alpha").await.list_texts("tools/list", "tools").await;
    assert_eq!(single, [own]);
}

/// RPC-12 RPC-22: errors and unknown members of results and of params, to the byte.
#[tokio::test]
async fn rpc_22_open_members_and_errors_are_relayed_byte_for_byte() {
    const RESULT: &str = r#"{"x-extra":{"q":1.0},"content":[{"depth":3,"type":"hologram"},{"type":"text","text":"\u0000","_meta":{"a/b":1e400},"annotations":{"priority":0.50}}],"isError":false,"_meta":{"example.com/x":[-0]}}"#;
    const ERROR: &str = r#"{"message":"own \u2028 words","data":{"why":[12345678901234567890123,{"deep":null}]},"code":-32050,"x":1}"#;
    let alpha = http_server()
        .call("result", async |_: Exchange| Reply::raw(RESULT))
        .call("error", async |_: Exchange| Reply::raw_error(ERROR))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let params = r#"{"x-unknown":1e400,"name":"alpha__result","_meta":{"example.com/mine":{"b":1,"a":2.0}},"arguments":{}}"#;
    let outcome = client.request_text("1", "tools/call", params).await;
    assert_eq!(outcome.result_text(), RESULT);
    let seen = &alpha.seen("tools/call")[0];
    assert_eq!(seen.member(&["params", "_meta", "example.com/mine"]), Some(r#"{"b":1,"a":2.0}"#));
    assert_eq!(seen.member(&["params", "x-unknown"]), Some("1e400"));
    let outcome = client.call("alpha__error", json!({})).await;
    assert_eq!(outcome.status, 200, "RPC-14");
    assert_eq!(kit::text::member(&outcome.text, &["error"]), Some(ERROR));
}

/// F-032: a character may be cut anywhere on its way.
#[tokio::test]
async fn f_032_characters_split_over_reads_survive() {
    const TEXT: &str = "漢字 — 👩‍🚀 é";
    let line = async |ask: Exchange| {
        let line = kit::text::response(ask.id(), &said(TEXT).to_string());
        for byte in format!("{line}\n").bytes() {
            ask.write(vec![byte]).await;
            tokio::task::yield_now().await;
        }
        Reply::Done
    };
    let pipe = stdio_server().call("uni", line);
    let events = http_server().call("uni", async |ask: Exchange| {
        let line = kit::text::response(ask.id(), &said(TEXT).to_string());
        Page::stream().trickle(kit::text::event(&line).as_bytes())
    });
    let body = http_server().call("uni", async |ask: Exchange| {
        let line = kit::text::response(ask.id(), &said(TEXT).to_string());
        Page::new(200).header("content-type", "application/json").trickle(line.as_bytes())
    });
    let gateway = gateway().upstream("pipe", pipe).upstream("events", events).upstream("body", body);
    let gateway = gateway.start().await;
    let client = gateway.client().await;
    for name in ["pipe__uni", "events__uni", "body__uni"] {
        assert_eq!(client.call(name, json!({})).await.said(), TEXT, "{name}");
    }
}

/// F-033: several messages in one write, and half of the next.
#[tokio::test]
async fn f_033_one_write_may_hold_many_messages_and_a_half() {
    let alpha = stdio_server()
        .tool("echo")
        .call("burst", async |ask: Exchange| {
            let token = ask.token().unwrap().to_owned();
            let progress = |n: u32| {
                let params = format!(r#"{{"progressToken":{token},"progress":{n}}}"#);
                kit::text::notification("notifications/progress", &params)
            };
            let answer = kit::text::response(ask.id(), &said("burst").to_string());
            let half = r#"{"jsonrpc":"2.0","method":"notifications/mess"#;
            ask.write(format!("a log line\n{}\n{}\n{answer}\n{half}", progress(1), progress(2))).await;
            ask.released().await;
            ask.write("age\",\"params\":{\"level\":\"error\",\"data\":\"late\"}}\n").await;
            Reply::Done
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let outcome = client.call_with_token("alpha__burst", json!({}), "1").await;
    assert_eq!(outcome.said(), "burst");
    let heard = outcome.heard("notifications/progress");
    let progress: Vec<&Value> = heard.iter().map(|message| &message["params"]["progress"]).collect();
    assert_eq!(progress, [1, 2], "in order, before the answer");
    alpha.release();
    client.call("alpha__echo", json!({})).await.result();
}

/// F-034 F-114 STDIO-02: noise on standard output is skipped and counted.
#[tokio::test]
async fn f_034_noise_on_stdout_is_skipped_and_counted() {
    let alpha = stdio_server()
        .banner("\u{feff}Server v1 🚀\r\n\r\n[INFO] ready\n{\"level\":\"info\"}\n[1,2]\nnull\n")
        .call("noisy", async |ask: Exchange| {
            ask.write("[DEBUG] answering\n").await;
            let line = kit::text::response(ask.id(), &said("through").to_string());
            Reply::Bytes(format!("{line}\r\n").into())
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    for _ in 0..3 {
        assert_eq!(client.call("alpha__noisy", json!({})).await.said(), "through");
    }
    assert!(alpha.received().iter().all(|seen| !seen.body.ends_with('\r')), "the child is sent LF");
    gateway
        .metrics_until("the noise is counted", |metrics| {
            metrics.sum("portcullis_upstream_noise_lines_total", &[("upstream", "alpha")]) >= 6.0
        })
        .await;
}

/// F-035: 10 MiB in one message, over every transport, both ways.
#[tokio::test]
async fn f_035_large_messages_pass_whole_on_every_path() {
    const SIZE: usize = 10 << 20;
    let big = async |_: Exchange| Reply::text("x".repeat(SIZE));
    let size = async |ask: Exchange| Reply::text(ask.seen.arguments().len().to_string());
    let pipe = stdio_server().tool("echo").call("big", big).call("size", size);
    let json_body = http_server().tool("echo").call("big", big).call("size", size);
    let events = http_server().with_events().tool("echo").call("big", big).call("size", size);
    let plan = gateway().upstream("pipe", pipe).upstream("body", json_body).upstream("events", events);
    let gateway = plan.start().await;
    let client = gateway.client().await.patience(secs(60));
    let arguments = json!({"text": "y".repeat(SIZE / 4)}).to_string();
    for name in ["pipe", "body", "events"] {
        let outcome = client.call(&format!("{name}__big"), json!({})).await;
        assert_eq!(outcome.said().len(), SIZE, "{name}");
        let outcome = client.call_text(&format!("{name}__size"), &arguments).await;
        assert_eq!(outcome.said(), arguments.len().to_string(), "{name}");
        client.call(&format!("{name}__echo"), json!({})).await.result();
    }
}

/// F-035: above the limit that one call fails and names it; the connection stays.
#[tokio::test]
async fn f_035_a_message_above_the_limit_fails_alone() {
    let big = async |_: Exchange| Reply::text("x".repeat(3 << 20));
    let pipe = stdio_server().tool("echo").call("big", big).start();
    let body = http_server().tool("echo").call("big", big).start();
    let events = http_server().with_events().tool("echo").call("big", big).start();
    let plan = gateway().upstream("pipe", &pipe).upstream("body", &body).upstream("events", &events);
    let gateway = plan.with(json!({"maxMessage": "1MiB"})).start().await;
    let client = gateway.client().await;
    for name in ["body", "events", "pipe"] {
        let outcome = client.call(&format!("{name}__big"), json!({})).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32603), "{name}: {outcome:?}");
        assert!(outcome.text.contains("maxMessage"), "{name}: the limit is named, {outcome:?}");
        client.call(&format!("{name}__echo"), json!({"after": name})).await.result();
    }
    assert_eq!(pipe.children().len(), 1, "the child was kept");
}

/// F-037 STDIO-01: no raw line end of a client's reaches a child inside a message.
#[tokio::test]
async fn f_037_a_pretty_printed_request_is_one_line_for_a_child() {
    let alpha = stdio_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let pretty = "{\n  \"text\": \"a\\nb\",\r\n  \"list\": [\n    1.0\n  ]\n}";
    let outcome = client.call_text("alpha__echo", pretty).await;
    assert_eq!(outcome.result()["structuredContent"], json!({"text": "a\nb", "list": [1.0]}));
    let seen = &alpha.seen("tools/call")[0];
    assert_eq!(kit::text::member(seen.arguments(), &["list"]).map(|list| list.contains("1.0")), Some(true));
    client.call("alpha__echo", json!({})).await.result();
}

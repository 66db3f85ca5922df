//! Pages: all of an upstream's, and ours (F-049..F-051, PAGE-01..PAGE-06, R-21).

use serde_json::{Value, json};

use crate::kit::*;

/// The `count` items of a list by pages of 50, with the cursors `a` and the empty one.
fn paged(ask: &Exchange, kind: &str, count: usize, item: fn(usize) -> Value) -> Value {
    let start = match ask.params().get("cursor").and_then(Value::as_str) {
        None => 0,
        Some("a") => 50,
        Some("") => 100,
        Some(other) => panic!("a cursor that nobody gave: {other:?}"),
    };
    let end = (start + 50).min(count);
    let items: Vec<Value> = (start..end).map(item).collect();
    let mut page = json!({kind: items});
    if end < count {
        page["nextCursor"] = json!(if start == 0 { "a" } else { "" });
    }
    page
}

/// F-049 PAGE-01, PAGE-03: every page of every list, in order; the empty string is a cursor.
#[tokio::test]
async fn f_049_all_pages_of_every_list_are_read() {
    let alpha = http_server()
        .capabilities(json!({"tools": {}, "resources": {}, "prompts": {}}))
        .on("tools/list", async |ask: Exchange| paged(&ask, "tools", 101, |n| tool(&format!("t{n}"))))
        .on("prompts/list", async |ask: Exchange| {
            paged(&ask, "prompts", 101, |n| json!({"name": format!("p{n}")}))
        })
        .on("resources/list", async |ask: Exchange| {
            paged(&ask, "resources", 101, |n| json!({"uri": format!("a://{n}"), "name": format!("r{n}")}))
        })
        .on("resources/templates/list", async |ask: Exchange| {
            paged(
                &ask,
                "resourceTemplates",
                101,
                |n| json!({"uriTemplate": format!("a://{n}/{{x}}"), "name": "t"}),
            )
        });
    let gateway =
        gateway().upstream("alpha", alpha).upstream("beta", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let mut wanted: Vec<String> = (0..101).map(|n| format!("alpha__t{n}")).collect();
    wanted.push("beta__echo".into());
    assert_eq!(client.tool_names().await, wanted);
    assert_eq!(client.list("prompts/list", "prompts").await.len(), 101);
    assert_eq!(client.list("resources/list", "resources").await.len(), 101);
    assert_eq!(client.list("resources/templates/list", "resourceTemplates").await.len(), 101);
    let page = client.request("tools/list", json!({})).await;
    assert!(page.result().get("nextCursor").is_none(), "F-051: one complete page unless told otherwise");
}

/// F-050 PAGE-03: a cursor that comes again ends the reading.
#[tokio::test]
async fn f_050_a_cursor_that_does_not_advance_is_cut() {
    let alpha = http_server()
        .on("tools/list", async |_: Exchange| {
            let tools: Vec<Value> = (0..8).map(|n| tool(&format!("t{n}"))).collect();
            json!({"tools": tools, "nextCursor": "x"})
        })
        .start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo")).start().await;
    let (names, took) = timed(gateway.client().await.tool_names()).await;
    assert_eq!(names.len(), 9);
    assert!(took < secs(3), "{took:?}");
    assert!(alpha.seen("tools/list").len() <= 3, "{} requests", alpha.seen("tools/list").len());
    gateway.logged("a warning", |line| line.contains("alpha") && line.contains("WARN")).await;
}

/// F-050 R-21: a list without end is cut at the cap, also when each cursor is new.
#[tokio::test]
async fn r_21_an_endless_list_is_cut_at_the_caps() {
    let alpha = http_server()
        .on("tools/list", async |ask: Exchange| {
            let page: u32 = ask.params()["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            json!({"tools": [tool(&format!("t{page}"))], "nextCursor": (page + 1).to_string()})
        })
        .start();
    let beta = http_server().tool("small").tool_text(
        &json!({"name": "huge", "description": "x".repeat(5000), "inputSchema": {"type": "object"}})
            .to_string(),
    );
    let caps = json!({"catalog": {"maxPages": 5, "maxItemSize": "4KiB"}});
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", beta).with(caps).start().await;
    let names = gateway.client().await.tool_names().await;
    assert_eq!(names, ["alpha__t0", "alpha__t1", "alpha__t2", "alpha__t3", "alpha__t4", "beta__small"]);
    assert_eq!(alpha.seen("tools/list").len(), 5);
    let many = http_server().tool("a").tool("b").tool("c");
    let few =
        crate::kit::gateway().upstream("alpha", many).with(json!({"catalog": {"maxItems": 2}})).start().await;
    assert_eq!(few.client().await.tool_names().await, ["alpha__a", "alpha__b"]);
}

/// PAGE-04: an empty page may have a successor; a broken later page keeps what was read.
#[tokio::test]
async fn page_04_empty_and_broken_pages_cost_only_themselves() {
    let alpha = http_server().on("tools/list", async |ask: Exchange| match ask.params()["cursor"].as_str() {
        None => json!({"tools": [], "nextCursor": "1"}),
        Some("1") => json!({"tools": [null, tool("one")], "nextCursor": "2", "_meta": null}),
        Some(_) => json!({"tools": [tool("two")], "nextCursor": null}),
    });
    let beta = http_server().on("tools/list", async |ask: Exchange| match ask.params()["cursor"].as_str() {
        None => Reply::from(json!({"tools": [tool("first")], "nextCursor": "1"})),
        Some(_) => Reply::error(-32603, "no more"),
    });
    let gamma = http_server().tool("t").on("tools/list", async |_: Exchange| Reply::error(-32603, "never"));
    let plan = gateway().upstream("alpha", alpha).upstream("beta", beta).upstream("gamma", gamma);
    let gateway = plan.start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__one", "alpha__two", "beta__first"]);
    let own = gateway.client_of("gamma").await.request("tools/list", json!({})).await;
    assert_eq!(
        (own.status, own.code()),
        (200, -32603),
        "F-063: an error where all of it failed, not an empty list"
    );
}

/// F-051 PAGE-05: our pages hold every item once, also while upstreams change.
#[tokio::test]
async fn f_051_our_pages_hold_each_surviving_item_exactly_once() {
    let alpha = (0..20).fold(http_server(), |server, n| server.tool(&format!("a{n}"))).start();
    let beta = (0..15).fold(http_server(), |server, n| server.tool(&format!("b{n}")));
    let plan = gateway().upstream("alpha", &alpha).upstream("beta", beta);
    let gateway = plan.with(json!({"catalog": {"pageSize": 10}})).start().await;
    let client = gateway.client().await;
    let stream = client.listen().await;
    alpha.wait_for_streams(1).await;
    let first = client.request("tools/list", json!({})).await;
    let mut found = names(first.result()["tools"].as_array().unwrap());
    assert_eq!(found.len(), 10);
    let mut cursor = first.result()["nextCursor"].clone();

    alpha.remove_tool("a3");
    alpha.remove_tool("a12");
    alpha.push("notifications/tools/list_changed", json!({}));
    stream.wait_for("notifications/tools/list_changed", 1).await;
    while !cursor.is_null() {
        let page = client.request("tools/list", json!({"cursor": cursor})).await;
        found.extend(names(page.result()["tools"].as_array().unwrap()));
        cursor = page.result()["nextCursor"].clone();
    }
    let mut once = found.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), found.len(), "an item twice: {found:?}");
    let surviving = (0..20).filter(|n| ![3, 12].contains(n)).map(|n| format!("alpha__a{n}"));
    for name in surviving.chain((0..15).map(|n| format!("beta__b{n}"))) {
        assert!(found.contains(&name), "{name} was skipped");
    }
}

/// F-051 PAGE-03, R-07: a cursor that is not ours, or of another list, is refused alike.
#[tokio::test]
async fn f_051_foreign_cursors_are_refused() {
    let alpha = (0..5).fold(http_server(), |server, n| {
        server.tool(&format!("t{n}")).prompt(json!({"name": format!("p{n}")}))
    });
    let gateway = gateway().upstream("alpha", alpha).with(json!({"catalog": {"pageSize": 2}})).start().await;
    let client = gateway.client().await;
    let page = client.request("tools/list", json!({})).await;
    let cursor = page.result()["nextCursor"].as_str().unwrap().to_owned();
    let mut tampered = cursor.clone().into_bytes();
    tampered[cursor.len() / 2] ^= 1;
    let tampered = String::from_utf8_lossy(&tampered).into_owned();
    let mut answers = Vec::new();
    for bad in ["garbage", "", "AAAA", &tampered, &cursor[1..]] {
        let outcome = client.request_text("1", "tools/list", &json!({"cursor": bad}).to_string()).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32602), "{bad:?}");
        answers.push(outcome.text);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "R-07: {answers:?}");
    assert_eq!(client.request("prompts/list", json!({"cursor": cursor})).await.code(), -32602);
    let own = gateway.client_of("alpha").await;
    assert_eq!(own.request("tools/list", json!({"cursor": cursor})).await.code(), -32602);
    assert!(client.request("tools/list", json!({"cursor": cursor})).await.is_result());
}

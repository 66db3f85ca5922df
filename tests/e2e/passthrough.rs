//! Lists and features as the upstreams have them: lossless, one bad item alone, nothing invented (F-045..F-048, R-21, R-23,
//! LIFE-19, LOG-02).

use serde_json::{Value, json};

use crate::kit::*;

/// F-045 RPC-22: every field of every kind of item survives, also those nobody knows.
#[tokio::test]
async fn f_045_unknown_fields_of_every_item_survive() {
    let extra = json!({"x-new": {"k": [1, null]}, "_meta": {"example.com/k": {"deep": [1]}}, "title": "T"});
    let with = |mut item: Value| {
        item.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        item
    };
    let tool_item = with(
        json!({"name": "t", "description": "d", "inputSchema": {"type": "object", "x-ui": 1},
        "outputSchema": {"type": "object", "x-out": true}, "annotations": {"readOnlyHint": true, "x-hint": 1}}),
    );
    let resource = with(
        json!({"uri": "a://1", "name": "r", "size": 5, "mimeType": "x/y", "annotations": {"priority": 0.5}}),
    );
    let template = with(json!({"uriTemplate": "a://{x}", "name": "tpl"}));
    let prompt = with(json!({"name": "p", "arguments": [{"name": "x", "x-arg": 1, "required": true}]}));
    let alpha = http_server().tool_text(&tool_item.to_string()).resource(resource.clone());
    let alpha = alpha.template(template.clone()).prompt(prompt.clone());
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    let renamed = |mut item: Value, member: &str, exposed: &str| {
        item[member] = json!(exposed);
        item
    };
    assert_eq!(client.tools().await, [renamed(tool_item, "name", "alpha__t")]);
    assert_eq!(client.list("resources/list", "resources").await, [renamed(resource, "uri", "alpha+a://1")]);
    let templates = client.list("resources/templates/list", "resourceTemplates").await;
    assert_eq!(templates, [renamed(template, "uriTemplate", "alpha+a://{x}")]);
    assert_eq!(client.list("prompts/list", "prompts").await, [renamed(prompt, "name", "alpha__p")]);
}

/// F-046 TOOL-02, RES-02: one bad item costs one item.
#[tokio::test]
async fn f_046_a_bad_item_is_dropped_alone_and_counted() {
    let fine = r##"{"name":"fine","inputSchema":{"type":"object","properties":{"a":true,"b":{"$ref":"#/$defs/B"},"c":{"anyOf":[{"type":"null"},{"const":1}]}},"$defs":{"B":{}}}}"##;
    let alpha = http_server().tool("ok");
    let bad = [
        r#"{"name":"no_schema"}"#,
        r#"{"name":"null_schema","inputSchema":null}"#,
        r#"{"name":"root","inputSchema":{"type":"string"}}"#,
        r#"{"inputSchema":{"type":"object"}}"#,
        r#"{"name":"","inputSchema":{"type":"object"}}"#,
        r#"{"name":5,"inputSchema":{"type":"object"}}"#,
        "null",
        "5",
    ];
    let alpha = bad.iter().fold(alpha, |alpha, text| alpha.tool_text(text)).tool_text(fine);
    let alpha = alpha.resource(json!({"name": "no uri"})).resource(json!({"uri": "a://1", "name": "r"}));
    let gateway =
        gateway().upstream("alpha", alpha).upstream("beta", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let tools = client.list_texts("tools/list", "tools").await;
    let names: Vec<String> =
        tools.iter().filter_map(|tool| crate::kit::text::string(tool, &["name"])).collect();
    assert_eq!(names, ["alpha__ok", "alpha__fine", "beta__echo"]);
    assert_eq!(tools[1], fine.replace("\"fine\"", "\"alpha__fine\""));
    assert_eq!(client.list("resources/list", "resources").await.len(), 1);
    let metrics = gateway.metrics().await;
    let dropped =
        metrics.sum("portcullis_catalog_items_dropped_total", &[("upstream", "alpha"), ("kind", "tool")]);
    assert!(dropped >= 8.0, "{dropped} dropped tools counted");
    gateway.logged("what was dropped", |line| line.contains("alpha") && line.contains("no_schema")).await;
}

/// F-047 TOOL-14: schemas are not ours to judge, to resolve or to fetch.
#[tokio::test]
async fn f_047_schemas_are_neither_applied_nor_fetched() {
    let trap = http_server().start();
    let schema = format!(
        r#"{{"type":"object","properties":{{"z":{{"type":"integer"}},"a":{{"$ref":"{}/schema.json"}}}},"required":["z"]}}"#,
        trap.url()
    );
    let alpha = http_server().tool_text(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let tools = client.list_texts("tools/list", "tools").await;
    assert_eq!(crate::kit::text::member(&tools[0], &["inputSchema"]), Some(schema.as_str()));
    for arguments in [r#"{"z":3.0}"#, r#"{"z":3,"a":{"any":1}}"#, r#"{"wrong":true}"#] {
        client.call_text("alpha__t", arguments).await.result();
        assert_eq!(alpha.seen("tools/call").last().unwrap().arguments(), arguments);
    }
    let bare = client.request_text("9", "tools/call", r#"{"name":"alpha__t"}"#).await;
    assert!(bare.is_result());
    assert_eq!(alpha.seen("tools/call").last().unwrap().arguments(), "", "no arguments are invented");
    assert!(trap.received().is_empty());
}

/// TOOL-07: the two channels of failure are not turned into each other.
#[tokio::test]
async fn tool_07_an_error_result_stays_a_result() {
    let alpha = http_server()
        .call(
            "failing",
            async |_: Exchange| json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
        )
        .call("refusing", async |_: Exchange| Reply::error(-32602, "bad arguments"));
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    assert_eq!(client.call("alpha__failing", json!({})).await.result()["isError"], true);
    let refused = client.call("alpha__refusing", json!({})).await;
    assert_eq!((refused.status, refused.code()), (200, -32602));
    assert_eq!(refused.error()["message"], "bad arguments");
}

/// F-048 LIFE-19: guidance of every upstream, headed and capped, or dropped by wish.
#[tokio::test]
async fn f_048_instructions_are_joined_headed_and_capped() {
    let alpha = http_server().tool("t").instructions("Alpha-guidance").start();
    let beta = http_server().tool("t").instructions(&format!("Beta-guidance {}", "b".repeat(20_000))).start();
    let gamma = http_server().tool("t").instructions("Gamma-guidance").start();
    let plan = gateway().upstream("alpha", &alpha).upstream("beta", &beta);
    let gateway = plan.upstream("gamma", gamma.with(json!({"instructions": "drop"}))).start().await;
    gateway.client().await.tools().await;
    let client = gateway.client().await;
    let text = client.hello["instructions"].as_str().unwrap();
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text:.300}"));
    assert!(place("alpha") < place("Alpha-guidance") && place("Alpha-guidance") < place("Beta-guidance"));
    assert!(!text.contains("Gamma-guidance"));
    assert!(text.len() <= 8 << 10, "{} bytes", text.len());
    assert!(text.matches('b').count() < 3 << 10, "R-21: 2 KiB of one upstream");
}

/// F-048: an upstream that claims a list and then does not know it has an empty one.
#[tokio::test]
async fn f_048_a_list_that_an_upstream_does_not_know_is_empty() {
    let alpha = http_server().tool("t").resource(json!({"uri": "a://1", "name": "r"}));
    let gamma = http_server()
        .capabilities(json!({"tools": {}, "resources": {}, "prompts": {}}))
        .tool("t")
        .on("resources/list", async |_: Exchange| Reply::error(-32601, "Method not found"))
        .on("resources/templates/list", async |_: Exchange| Reply::error(-32601, "Method not found"))
        .start();
    let gateway = gateway().upstream("alpha", alpha).upstream("gamma", &gamma).start().await;
    let client = gateway.client().await;
    let (listed, took) = timed(client.list("resources/list", "resources")).await;
    assert_eq!(listed.len(), 1);
    assert!(took < secs(4), "the list took {took:?}");
    client.list("resources/list", "resources").await;
    assert!(gamma.seen("resources/list").len() <= 2, "what it does not know is remembered");
    let own = gateway.client_of("gamma").await;
    assert_eq!(own.list("resources/list", "resources").await, Vec::<Value>::new());
    assert_eq!(own.list("prompts/list", "prompts").await, Vec::<Value>::new());
}

/// LIFE-09: an upstream is asked only for what it declared.
#[tokio::test]
async fn life_09_upstreams_are_not_asked_for_what_they_do_not_have() {
    let alpha = http_server().capabilities(json!({"tools": {}})).tool("t").start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().prompt(json!({"name": "p"})));
    let gateway = gateway.start().await;
    let client = gateway.client().await;
    client.tools().await;
    client.list("prompts/list", "prompts").await;
    client.list("resources/list", "resources").await;
    client.call("alpha__t", json!({})).await.result();
    let known = ["initialize", "notifications/initialized", "tools/list", "tools/call", "ping"];
    let asked: Vec<String> = alpha.received().iter().filter_map(|seen| seen.method.clone()).collect();
    assert!(asked.iter().all(|method| known.contains(&method.as_str())), "{asked:?}");
}

/// LIFE-14, LIFE-20: upstreams meet the gateway by its own name, and are promised nothing it cannot keep.
#[tokio::test]
async fn life_14_upstreams_are_promised_no_more_than_the_client_can_do() {
    let alpha = http_server().tool("t").start();
    let gateway = gateway().upstream("alpha", alpha.with(json!({"isolation": "shared"}))).start().await;
    let all =
        json!({"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}, "experimental": {"x": {}}});
    let client = gateway.visitor().named("the-clients-own-name").capable_of(all).connect().await;
    client.call("alpha__t", json!({})).await.result();
    for hello in alpha.seen("initialize") {
        let params = hello.params();
        assert_eq!(params["protocolVersion"], NEWEST);
        let name = params["clientInfo"]["name"].as_str().unwrap();
        assert!(!name.is_empty() && name != "the-clients-own-name", "{name}");
        let promised = params["capabilities"].as_object().unwrap();
        for feature in ["sampling", "elicitation", "roots", "tasks", "experimental"] {
            assert!(!promised.contains_key(feature), "LIFE-15: {feature} to a shared upstream");
        }
    }
}

/// R-23 SEC-21: suspicious text is reported and passed unchanged, unless told otherwise.
#[tokio::test]
async fn r_23_findings_are_reported_and_definitions_not_altered_silently() {
    let hidden = "a\u{202e}b\u{200b}c\u{e0041}";
    let definition = json!({"name": "t", "description": hidden, "inputSchema": {"type": "object"}});
    let alpha = http_server().tool_text(&definition.to_string()).tool("clean").start();
    let reporting = gateway().upstream("alpha", &alpha).start().await;
    let tools = reporting.client().await.tools().await;
    assert_eq!(tools[0]["description"], hidden);
    let metrics = reporting.metrics().await;
    for finding in ["bidi", "invisible", "tags"] {
        let count =
            metrics.sum("portcullis_catalog_findings_total", &[("upstream", "alpha"), ("finding", finding)]);
        assert!(count >= 1.0, "{finding}");
    }
    let plan = gateway().upstream("alpha", &alpha);
    let withholding = plan.with(json!({"catalog": {"onFinding": "withhold"}})).start().await;
    assert_eq!(withholding.client().await.tool_names().await, ["alpha__clean"]);
}

/// RPC-25, RPC-26: icons pass, but not with a scheme that can harm.
#[tokio::test]
async fn rpc_26_icons_with_a_forbidden_scheme_are_dropped() {
    let icons = json!([{"src": "https://example.com/i.png"}, {"src": "javascript:alert(1)"},
        {"src": "data:image/png;base64,AA==", "theme": "dark"}, {"src": "file:///etc/passwd"}]);
    let definition = json!({"name": "t", "inputSchema": {"type": "object"}, "icons": icons});
    let gateway = gateway().upstream("alpha", http_server().tool_text(&definition.to_string())).start().await;
    let tools = gateway.client().await.tools().await;
    assert_eq!(
        tools[0]["icons"],
        json!([{"src": "https://example.com/i.png"}, {"src": "data:image/png;base64,AA==", "theme": "dark"}])
    );
}

/// LOG-02, LOG-06: a level goes to those who log, now and when they connect later; it never fails for one of them.
#[tokio::test]
async fn log_02_a_level_is_fanned_out_and_replayed() {
    let logging = || http_server().capabilities(json!({"tools": {}, "logging": {}})).tool("t");
    let (alpha, beta) = (logging().start(), http_server().tool("t").start());
    let gamma = logging().on("logging/setLevel", async |_: Exchange| Reply::error(-32603, "no")).start();
    let plan = gateway().upstream("alpha", &alpha).upstream("beta", &beta).upstream("gamma", &gamma);
    let gateway = plan.start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    one.call("alpha__t", json!({})).await.result();
    one.call("gamma__t", json!({})).await.result();
    assert_eq!(one.request("logging/setLevel", json!({"level": "error"})).await.result(), &json!({}));
    let session = alpha.seen("tools/call")[0].session.clone();
    let level = &alpha.wait_for("logging/setLevel", 1).await[0];
    assert_eq!((level.params()["level"].as_str(), &level.session), (Some("error"), &session));

    two.request("logging/setLevel", json!({"level": "debug"})).await.result();
    two.call("alpha__t", json!({})).await.result();
    let replayed = &alpha.wait_for("logging/setLevel", 2).await[1];
    assert_eq!(replayed.params()["level"], "debug", "LIFE-26: told to a connection that came later");
    assert_ne!(replayed.session, session);

    alpha.forget();
    one.call("alpha__t", json!({})).await.result();
    let errors = || {
        alpha.seen("logging/setLevel").into_iter().filter(|seen| seen.params()["level"] == "error").count()
    };
    alpha.until("the level is told to the renewed session", || (errors() == 2).then_some(())).await;
    assert!(beta.seen("logging/setLevel").is_empty());
}

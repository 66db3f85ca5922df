//! Exposed names and URIs: one deterministic, reversible table (F-041..F-044, D9, TOOL-03..TOOL-05, RES-03..RES-06, R-18..R-20).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kit::*;

/// F-041: a name does not depend on what else is configured.
#[tokio::test]
async fn f_041_names_stay_when_a_second_upstream_is_added() {
    let alpha = http_server().tool("echo").tool("a.b").start();
    let alone = gateway().upstream("alpha", &alpha).start().await;
    let together =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo")).start().await;
    let first = alone.client().await.tool_names().await;
    let second = together.client().await.tool_names().await;
    assert_eq!(first[0], "alpha__echo");
    assert_eq!(
        second.iter().filter(|name| name.starts_with("alpha")).collect::<Vec<_>>(),
        first.iter().collect::<Vec<_>>()
    );
    assert!(second.contains(&"beta__echo".into()));
}

/// D9: the prefix is the namespace's; `none` leaves names alone; the upstream's own path never has one.
#[tokio::test]
async fn d9_namespaces_are_a_word_of_ones_own_or_none() {
    let alpha = http_server().tool("echo").start();
    let beta = http_server().tool("beta_tool").start();
    let plan = gateway().upstream("alpha", alpha.with(json!({"namespace": "own-word"})));
    let gateway = plan.upstream("beta", beta.with(json!({"namespace": "none"}))).start().await;
    let client = gateway.client().await;
    let names: HashSet<String> = client.tool_names().await.into_iter().collect();
    assert_eq!(names, ["own-word__echo", "beta_tool"].map(String::from).into());
    client.call("own-word__echo", json!({})).await.result();
    client.call("beta_tool", json!({})).await.result();
    assert_eq!(gateway.client_of("alpha").await.tool_names().await, ["echo"]);
}

/// F-042 R-19: a clash withholds both, says so, depends on no order, and reaches nobody.
#[tokio::test]
async fn f_042_a_clash_withholds_both_whichever_came_first() {
    let mut lists = HashSet::new();
    for alpha_first in [true, false] {
        let alpha = http_server().tool("search").tool("only_a").start();
        let beta = http_server().tool("search").tool("only_b").start();
        let (early, late) = if alpha_first { (&alpha, &beta) } else { (&beta, &alpha) };
        late.on("initialize", |ask: Exchange| async move {
            ask.released().await;
            ask.hello()
        });
        let bare = json!({"namespace": "none"});
        let plan = gateway().upstream("alpha", alpha.with(bare.clone())).upstream("beta", beta.with(bare));
        let gateway = plan.start_at_once().await;
        early.wait_for("tools/list", 1).await;
        late.release();
        let client = gateway.client().await;
        let names = client.tools_until("both are listed", |names| {
            names.contains(&"only_a".into()) && names.contains(&"only_b".into())
        });
        lists.insert(names.await);
        let outcome = client.call("search", json!({})).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32602));
        assert!(alpha.seen("tools/call").is_empty() && beta.seen("tools/call").is_empty());
        for name in ["alpha", "beta"] {
            gateway.logged("the clash", |line| line.contains("search") && line.contains(name)).await;
        }
        assert_eq!(gateway.client_of("alpha").await.tool_names().await, ["search", "only_a"], "its own path");
    }
    assert_eq!(lists.into_iter().collect::<Vec<_>>(), [["only_a", "only_b"].map(String::from).to_vec()]);
}

const ODD: [&str; 9] = ["admin.list", "a/b", "a.b", "get user", "取得", "x__y", "-lead", "UPPER", "upper"];

/// F-043 TOOL-03, TOOL-05: safe, distinct, reversible; the original is still shown.
#[tokio::test]
async fn f_043_odd_names_become_safe_ones_and_lead_back() {
    let mut alpha = http_server();
    for name in ODD {
        alpha = alpha.call(name, async |ask: Exchange| Reply::text(ask.params()["name"].as_str().unwrap()));
    }
    let alpha = alpha.start();
    let first = gateway().upstream("alpha", &alpha).start().await;
    let client = first.client().await;
    let tools = client.tools().await;
    assert_eq!(tools.len(), ODD.len());
    let mut exposed = HashSet::new();
    for (tool, original) in tools.iter().zip(ODD) {
        let name = tool["name"].as_str().unwrap();
        assert!(
            name.len() <= 46 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'),
            "{name}"
        );
        assert!(exposed.insert(name.to_owned()), "{name} twice");
        assert_eq!(client.call(name, json!({})).await.said(), original);
        let plain = name.ends_with(original);
        assert!(plain || shows(tool, original), "R-18: {original} is not to be seen in {tool}");
    }
    let again = gateway().upstream("alpha", &alpha).start().await;
    assert_eq!(again.client().await.tool_names().await, names(&tools), "TOOL-04: the same after a restart");
}

fn shows(tool: &Value, original: &str) -> bool {
    tool["title"] == *original || tool["_meta"].to_string().contains(original)
}

/// R-18: 46 characters on merged endpoints, 64 on an upstream's own, both configurable.
#[tokio::test]
async fn r_18_long_names_get_a_stable_alias_within_the_budget() {
    let long = "a_tool_name_of_exactly_sixty_characters_which_is_rather_long";
    assert_eq!(long.len(), 60);
    let sibling = format!("{}X", &long[..59]);
    let echo = async |ask: Exchange| Reply::text(ask.params()["name"].as_str().unwrap());
    let alpha = http_server().call(long, echo).call(&sibling, echo).start();
    let gateway_one = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway_one.client().await;
    let exposed = client.tool_names().await;
    assert!(exposed.iter().all(|name| name.len() <= 46 && name.starts_with("alpha__a_tool")), "{exposed:?}");
    assert_ne!(exposed[0], exposed[1]);
    assert_eq!(client.call(&exposed[0], json!({})).await.said(), long);
    assert_eq!(client.call(&exposed[1], json!({})).await.said(), sibling);
    assert_eq!(gateway_one.client_of("alpha").await.tool_names().await, [long, &sibling]);

    let wide =
        gateway().upstream("alpha", &alpha).with(json!({"catalog": {"nameBudget": 100}})).start().await;
    assert_eq!(wide.client().await.tool_names().await[0], format!("alpha__{long}"));
}

/// PROM-02: prompts have names of their own, apart from those of tools.
#[tokio::test]
async fn prom_02_prompts_are_named_and_routed_like_tools() {
    let alpha = http_server()
        .named("alpha")
        .tool("same")
        .prompt(json!({"name": "same", "arguments": [{"name": "x"}]}));
    let alpha = alpha.start();
    let beta = http_server().named("beta").prompt(json!({"name": "same"}));
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", beta).start().await;
    let client = gateway.client().await;
    let prompts = client.list("prompts/list", "prompts").await;
    assert_eq!(names(&prompts), ["alpha__same", "beta__same"]);
    assert_eq!(prompts[0]["arguments"], json!([{"name": "x"}]));
    for (name, said) in [("alpha__same", "same of alpha"), ("beta__same", "same of beta")] {
        let outcome = client.request("prompts/get", json!({"name": name, "arguments": {"x": "1"}})).await;
        assert_eq!(outcome.result()["messages"][0]["content"]["text"], said);
    }
    assert_eq!(alpha.seen("prompts/get")[0].arguments(), r#"{"x":"1"}"#);
}

/// F-044 RES-03..RES-06: one mapping everywhere, reversible to the byte.
#[tokio::test]
async fn f_044_resource_uris_are_valid_distinct_and_lead_back() {
    let same = "file:///data/A%20b.txt";
    let mine = |name: &str| {
        let server = http_server().named(name).resource(json!({"uri": same, "name": "file"}));
        let server = server.resource(json!({"uri": format!("{name}://Own/x?q=%2F"), "name": "own"}));
        server.template(json!({"uriTemplate": "file:///{+path}", "name": "files"}))
    };
    let (alpha, beta) = (mine("alpha").start(), mine("beta").start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    let listed = client.list("resources/list", "resources").await;
    let uris: Vec<&str> = listed.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris.iter().collect::<HashSet<_>>().len(), 4, "{uris:?}");
    assert_eq!(uris[0], format!("alpha+{same}"));
    for uri in &uris {
        url::Url::parse(uri).unwrap_or_else(|why| panic!("{uri}: {why}"));
        let outcome = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(outcome.result()["contents"][0]["uri"], *uri);
    }
    let asked: Vec<Value> =
        alpha.seen("resources/read").iter().map(|seen| seen.params()["uri"].clone()).collect();
    assert_eq!(asked, [same, "alpha://Own/x?q=%2F"]);

    let templates = client.list("resources/templates/list", "resourceTemplates").await;
    assert_eq!(templates[1]["uriTemplate"], "beta+file:///{+path}");
    let expanded = client.request("resources/read", json!({"uri": "beta+file:///not/Listed%2E"})).await;
    assert_eq!(expanded.result()["contents"][0]["text"], "beta reads file:///not/Listed%2E");

    let own = gateway.client_of("alpha").await;
    let listed = own.list("resources/list", "resources").await;
    assert_eq!(listed[0]["uri"], same, "its own path shows its own URIs");
    assert!(own.request("resources/read", json!({"uri": same})).await.is_result());
}

/// F-044 RES-06 TOOL-09: links and embedded resources in results can be read back.
#[tokio::test]
async fn f_044_uris_in_results_are_mapped_and_nothing_else_is() {
    let alpha = http_server()
        .template(json!({"uriTemplate": "file:///{+path}", "name": "files"}))
        .call("links", async |_: Exchange| {
            json!({
                "content": [
                    {"type": "resource_link", "uri": "file:///a%20b", "name": "l"},
                    {"type": "resource", "resource": {"uri": "file:///c", "text": "see file:///a%20b"}},
                    {"type": "text", "text": "file:///a%20b"},
                ],
                "structuredContent": {"uri": "file:///a%20b"},
            })
        })
        .on("resources/read", async |ask: Exchange| {
            let uri = ask.params()["uri"].clone();
            json!({"contents": [{"uri": uri, "text": "t"}, {"uri": "file:///a%20b/sub", "text": "s"}]})
        })
        .prompt(json!({"name": "p"}))
        .on("prompts/get", async |_: Exchange| {
            let link = json!({"type": "resource_link", "uri": "file:///p", "name": "l"});
            json!({"messages": [{"role": "user", "content": link}]})
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let result = client.call("alpha__links", json!({})).await.result().clone();
    assert_eq!(result["content"][0]["uri"], "alpha+file:///a%20b");
    assert_eq!(result["content"][1]["resource"]["uri"], "alpha+file:///c");
    assert_eq!(result["content"][1]["resource"]["text"], "see file:///a%20b");
    assert_eq!(result["content"][2]["text"], "file:///a%20b");
    assert_eq!(result["structuredContent"]["uri"], "file:///a%20b");
    let read = client.request("resources/read", json!({"uri": "alpha+file:///a%20b"})).await;
    assert_eq!(alpha.seen("resources/read")[0].params()["uri"], "file:///a%20b");
    assert_eq!(read.result()["contents"][1]["uri"], "alpha+file:///a%20b/sub", "RES-03");
    let prompt = client.request("prompts/get", json!({"name": "alpha__p"})).await;
    assert_eq!(prompt.result()["messages"][0]["content"]["uri"], "alpha+file:///p");
}

/// R-20 RES-05, RES-04: `https` stays as it is, `ui` keeps its scheme, what is no URI is made one.
#[tokio::test]
async fn r_20_special_schemes_keep_their_form() {
    let alpha = http_server().named("alpha").tool("t");
    let alpha = alpha.resource(json!({"uri": "https://example.com/a", "name": "web"}));
    let alpha = alpha.resource(json!({"uri": "ui://widget/main", "name": "ui"}));
    let alpha = alpha.resource(json!({"uri": "notes", "name": "raw"}));
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    let listed = client.list("resources/list", "resources").await;
    let uris: Vec<&str> = listed.iter().map(|resource| resource["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["https://example.com/a", "ui://alpha.widget/main", "alpha+raw:notes"]);
    for (uri, original) in uris.iter().zip(["https://example.com/a", "ui://widget/main", "notes"]) {
        let outcome = client.request("resources/read", json!({"uri": uri})).await;
        assert_eq!(outcome.result()["contents"][0]["text"], format!("alpha reads {original}"));
        assert_eq!(outcome.result()["contents"][0]["uri"], *uri);
    }
    let unknown = client.request("resources/read", json!({"uri": "https://example.com/unlisted"})).await;
    assert_eq!((unknown.status, unknown.code()), (200, -32002));
}

/// COMP-02, COMP-03: a completion goes to the owner of its reference, with the owner's own names.
#[tokio::test]
async fn comp_02_completions_are_routed_by_their_reference() {
    let complete = async |ask: Exchange| {
        let many: Vec<String> = (0..150).map(|n| format!("v{n}")).collect();
        ask.peer.note(ask.seen.member(&["params", "ref"]).unwrap());
        json!({"completion": {"values": many, "total": 150}})
    };
    let alpha = http_server()
        .capabilities(json!({"prompts": {}, "resources": {}, "completions": {}}))
        .prompt(json!({"name": "p"}))
        .template(json!({"uriTemplate": "file:///{path}", "name": "t"}))
        .on("completion/complete", complete)
        .start();
    let beta = http_server().prompt(json!({"name": "p"})).start();
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    assert_eq!(client.list("prompts/list", "prompts").await.len(), 2);
    let ask = async |reference: Value| {
        let params = json!({"ref": reference, "argument": {"name": "x", "value": "v"}});
        client.request("completion/complete", params).await
    };
    let outcome = ask(json!({"type": "ref/prompt", "name": "alpha__p"})).await;
    assert_eq!(outcome.result()["completion"]["values"].as_array().unwrap().len(), 100, "COMP-03");
    assert_eq!(outcome.result()["completion"]["hasMore"], true);
    ask(json!({"type": "ref/resource", "uri": "alpha+file:///{path}"})).await.result();
    assert_eq!(
        alpha.notes(),
        [
            r#"{"name":"p","type":"ref/prompt"}"#.to_owned(),
            r#"{"type":"ref/resource","uri":"file:///{path}"}"#.to_owned(),
        ]
    );
    assert_eq!(ask(json!({"type": "ref/prompt", "name": "nobody__p"})).await.code(), -32602);
    let without = ask(json!({"type": "ref/prompt", "name": "beta__p"})).await;
    assert_eq!(without.result()["completion"]["values"], json!([]), "COMP-05");
    assert!(beta.seen("completion/complete").is_empty());
}

//! Changes of lists: told to exactly those whose list has changed, once (F-052, F-053, TOOL-15, HTTP-19, R-22).

use serde_json::json;

use crate::kit::script::Server;
use crate::kit::*;

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// F-052: who sees the upstream learns of it, with and without an open stream; others do not.
#[tokio::test]
async fn f_052_a_change_reaches_every_session_that_shows_it() {
    let alpha = http_server().tool("one").start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo")).start().await;
    let (merged, own) = (gateway.client().await, gateway.client_of("alpha").await);
    let (silent, other) = (gateway.client().await, gateway.client_of("beta").await);
    for client in [&merged, &own, &silent, &other] {
        client.tools().await;
    }
    let streams = (merged.listen().await, own.listen().await, other.listen().await);
    alpha.wait_for_streams(1).await;
    alpha.add_tool("two");
    alpha.push(TOOLS_CHANGED, json!({}));
    streams.0.wait_for(TOOLS_CHANGED, 1).await;
    streams.1.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(merged.tool_names().await, ["alpha__one", "alpha__two", "beta__echo"]);
    assert_eq!(own.tool_names().await, ["one", "two"]);
    let late = silent.listen().await;
    late.wait_for(TOOLS_CHANGED, 1).await;
    pass(ms(700)).await;
    assert_eq!(late.messages().len(), 1, "HTTP-19: a flag, not a queue");
    assert_eq!(streams.2.messages().len(), 0, "beta's list is what it was");
    merged.call("alpha__two", json!({})).await.result();
}

/// F-052: the same over a pipe, where a change comes in the middle of other things.
#[tokio::test]
async fn f_052_a_child_announces_its_changes_too() {
    let alpha = stdio_server().call("grow", async |ask: Exchange| {
        ask.peer.add_tool("grown");
        ask.notify(TOOLS_CHANGED, json!({})).await;
        Reply::text("ok")
    });
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__grow"]);
    let stream = client.listen().await;
    let outcome = client.call("alpha__grow", json!({})).await;
    assert!(outcome.heard(TOOLS_CHANGED).is_empty(), "HTTP-19: a change is no part of a call");
    stream.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(client.tool_names().await, ["alpha__grow", "alpha__grown"]);
}

/// A server that turns tools on for the session that asks for it.
fn unfolding<T>(server: Server<T>) -> Server<T> {
    let listed = async |ask: Exchange| {
        let mut tools =
            ["unfold", "fold"].map(|name| json!({"name": name, "inputSchema": {"type": "object"}})).to_vec();
        if ask.session.as_ref().is_some_and(|session| session.count(0) > 0) {
            tools.push(json!({"name": "more", "inputSchema": {"type": "object"}}));
        }
        json!({"tools": tools})
    };
    server
        .on("tools/list", listed)
        .call("unfold", async |ask: Exchange| {
            ask.session.as_ref().unwrap().count(1);
            ask.notify(TOOLS_CHANGED, json!({})).await;
            Reply::text("ok")
        })
        .call("fold", async |ask: Exchange| {
            ask.session.as_ref().unwrap().count(-1);
            ask.notify(TOOLS_CHANGED, json!({})).await;
            Reply::text("ok")
        })
        .call("more", async |ask: Exchange| {
            let known = ask.session.as_ref().is_some_and(|session| session.count(0) > 0);
            if known { Reply::text("more") } else { Reply::error(-32602, "Unknown tool") }
        })
}

async fn shows_it_to_one_session_alone(entry: impl Into<Entry>) {
    let gateway =
        gateway().upstream("alpha", entry).upstream("beta", http_server().tool("echo")).start().await;
    // Neither is met by the connection over which the lists are read.
    let plain = async || gateway.visitor().capable_of(json!({"roots": {}})).connect().await;
    let (one, other) = (plain().await, plain().await);
    let (stream, silence) = (one.listen().await, other.listen().await);
    let before = ["alpha__unfold", "alpha__fold", "beta__echo"];
    assert_eq!(one.tool_names().await, before);
    one.call("alpha__unfold", json!({})).await.result();
    stream.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(one.tool_names().await, ["alpha__unfold", "alpha__fold", "alpha__more", "beta__echo"]);
    assert_eq!(one.call("alpha__more", json!({})).await.said(), "more");
    assert_eq!(other.tool_names().await, before, "nobody else sees it");
    assert_eq!(other.call("alpha__more", json!({})).await.code(), -32602, "nor can anybody else call it");
    // Soon after the other change, which is no reason to miss it.
    one.call("alpha__fold", json!({})).await.result();
    one.tools_until("it is folded", |names| names.len() == 3).await;
    pass(ms(700)).await;
    assert!(silence.messages().is_empty(), "{:?}", silence.messages());
    assert_eq!(one.delete().send().await.status, 204);
    assert_eq!(other.tool_names().await, before);
}

/// F-052: who has tools of its own sees a new prompt, as all do, and keeps its tools.
#[tokio::test]
async fn f_052_lists_of_ones_own_follow_those_of_all() {
    const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
    let prompts = async |ask: Exchange| {
        let names = if ask.peer.notes().is_empty() { &["old"][..] } else { &["old", "new"] };
        json!({"prompts": names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>()})
    };
    let claim = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}});
    let alpha = unfolding(http_server()).capabilities(claim).on("prompts/list", prompts).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.visitor_of("alpha").capable_of(json!({"roots": {}})).connect().await;
    let stream = client.listen().await;
    client.call("unfold", json!({})).await.result();
    stream.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(client.tool_names().await, ["unfold", "fold", "more"]);
    alpha.note("a prompt more");
    alpha.push(PROMPTS_CHANGED, json!({}));
    stream.wait_for(PROMPTS_CHANGED, 1).await;
    assert_eq!(client.list("prompts/list", "prompts").await.len(), 2);
    assert_eq!(client.tool_names().await, ["unfold", "fold", "more"]);
}

/// F-052, F-020: what a session's own connection shows is for that session, over a pipe.
#[tokio::test]
async fn f_052_a_child_unfolds_for_its_session_alone() {
    shows_it_to_one_session_alone(unfolding(stdio_server())).await;
}

/// F-052, F-020: the same over HTTP.
#[tokio::test]
async fn f_052_a_server_with_sessions_unfolds_for_one_alone() {
    shows_it_to_one_session_alone(unfolding(http_server())).await;
}

/// F-052 PROM-01, RES-11: each kind has its own announcement.
#[tokio::test]
async fn f_052_prompts_and_resources_are_announced_as_what_they_are() {
    let alpha = http_server()
        .tool("t")
        .capabilities(json!({
            "tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {"listChanged": true},
        }))
        .on("prompts/list", async |ask: Exchange| {
            let count = 1 + usize::from(!ask.peer.notes().is_empty());
            let prompts = [json!({"name": "p0"}), json!({"name": "p1"})];
            json!({"prompts": prompts[..count]})
        })
        .on("resources/list", async |ask: Exchange| {
            let count = 1 + usize::from(ask.peer.notes().len() > 1);
            let resources = [json!({"uri": "a://0", "name": "r"}), json!({"uri": "a://1", "name": "r"})];
            json!({"resources": resources[..count]})
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(client.list("prompts/list", "prompts").await.len(), 1);
    let stream = client.listen().await;
    alpha.wait_for_streams(1).await;
    for (count, kind) in [(1, "prompts"), (2, "resources")] {
        alpha.note("changed");
        let method = format!("notifications/{kind}/list_changed");
        alpha.push(&method, json!({}));
        stream.wait_for(&method, 1).await;
        assert_eq!(client.list(&format!("{kind}/list"), kind).await.len(), 2);
        assert_eq!(stream.messages().len(), count, "{:?}", stream.messages());
    }
}

/// F-053: a flood that means nothing is read seldom and told never; a change among it is told once.
#[tokio::test]
async fn f_053_a_flood_of_announcements_is_told_once() {
    let (alpha, beta) = (http_server().tool("one").start(), http_server().tool("echo").start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let stream = client.listen().await;
    alpha.wait_for_streams(1).await;
    let before = (alpha.seen("tools/list").len(), beta.seen("tools/list").len());
    for n in 0..500 {
        alpha.push(TOOLS_CHANGED, json!({}));
        if n % 100 == 0 {
            pass(ms(100)).await;
        }
    }
    alpha.until("the list is read again", || (alpha.seen("tools/list").len() > before.0).then_some(())).await;
    pass(ms(800)).await;
    assert!(stream.messages().is_empty(), "nothing has changed");
    alpha.add_tool("two");
    alpha.push(TOOLS_CHANGED, json!({}));
    stream.wait_for(TOOLS_CHANGED, 1).await;
    pass(ms(700)).await;
    assert_eq!(stream.heard(TOOLS_CHANGED).len(), 1);
    let reads = alpha.seen("tools/list").len() - before.0;
    assert!(reads <= 12, "{reads} reads of the sender's list");
    assert_eq!(beta.seen("tools/list").len(), before.1, "only the sender is asked");
}

/// R-22 TOOL-01: who does not announce changes is asked from time to time.
#[tokio::test]
async fn r_22_lists_that_are_not_announced_are_refreshed() {
    let alpha = http_server().capabilities(json!({"tools": {}})).tool("one").start();
    let gateway =
        gateway().upstream("alpha", &alpha).with(json!({"catalog": {"refresh": "1s"}})).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__one"]);
    let stream = client.listen().await;
    alpha.add_tool("two");
    stream.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(client.tool_names().await, ["alpha__one", "alpha__two"]);
}

/// R-22: an upstream that no longer knows a tool has a new list.
#[tokio::test]
async fn r_22_an_unknown_tool_error_refreshes_the_list() {
    let alpha = http_server().capabilities(json!({"tools": {}})).tool("one").tool("two").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await.len(), 2);
    let stream = client.listen().await;
    alpha.remove_tool("two");
    assert_eq!(client.call("alpha__two", json!({})).await.code(), -32602);
    stream.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(client.tool_names().await, ["alpha__one"]);
}

/// R-22 F-083: with a state directory the last lists are there from the first moment of the next start.
#[tokio::test]
async fn r_22_the_last_lists_outlive_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let alpha = http_server().tool("kept").start();
    let plan = || gateway().upstream("alpha", &alpha).with(json!({"stateDirectory": state.path()}));
    let mut first = plan().start().await;
    let listed = first.client().await.list_texts("tools/list", "tools").await;
    assert_eq!(listed.len(), 1);
    first.terminate().await;
    alpha.stop().await;
    let second = plan().start_at_once().await;
    let client = second.client().await;
    assert_eq!(client.list_texts("tools/list", "tools").await, listed);
    assert_eq!(client.call("alpha__kept", json!({})).await.reason(), "upstream_unavailable");
    alpha.start_again();
    soon("it works again", async {
        while !client.call("alpha__kept", json!({})).await.is_result() {
            pass(ms(100)).await;
        }
    })
    .await;
}

/// D8 TOOL-15: lists are served from memory, whatever the upstreams do, and cost them nothing.
#[tokio::test]
async fn d8_lists_are_served_from_memory() {
    let alpha = http_server().tool("one").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let first = client.list_texts("tools/list", "tools").await;
    let before = alpha.seen("tools/list").len();
    for _ in 0..50 {
        assert_eq!(client.list_texts("tools/list", "tools").await, first);
    }
    let mut others = Vec::new();
    for _ in 0..10 {
        others.push(gateway.client().await);
    }
    futures_util::future::join_all(others.iter().map(Client::tools)).await;
    assert_eq!(alpha.seen("tools/list").len(), before, "F-089");
    alpha.stop().await;
    assert_eq!(client.list_texts("tools/list", "tools").await, first, "F-022: the last list is kept");
}

/// LIFE-08: nothing is told before the session is ready.
#[tokio::test]
async fn life_08_a_change_waits_for_initialized() {
    let alpha = http_server().tool("one").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    gateway.client().await.tools().await;
    let mut client = gateway.visitor();
    client.initialize().await.result();
    alpha.wait_for_streams(1).await;
    let stream = client.listen().await;
    alpha.add_tool("two");
    alpha.push(TOOLS_CHANGED, json!({}));
    gateway.client().await.tools_until("the change is known", |names| names.len() == 2).await;
    pass(ms(500)).await;
    assert!(stream.messages().is_empty());
    client.notify("notifications/initialized", json!({})).await;
    stream.wait_for(TOOLS_CHANGED, 1).await;
}

/// F-024 F-052, LIFE-26, R-11: the session that had taken over the catalog's connection ends, and changes are heard all
/// the same.
#[tokio::test]
async fn f_024_changes_are_heard_after_the_first_session_has_ended() {
    let alpha = http_server().tool("one").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let first = gateway.client().await;
    first.call("alpha__one", json!({})).await.result();
    alpha.wait_for_streams(1).await;
    assert_eq!(alpha.sessions().len(), 1, "it was the catalog's");
    assert_eq!(first.delete().send().await.status / 100, 2);
    alpha.until("the end of its session", || (alpha.ended().len() == 1).then_some(())).await;
    alpha.wait_for_streams(1).await;
    let second = gateway.client().await;
    let stream = second.listen().await;
    alpha.add_tool("two");
    alpha.push(TOOLS_CHANGED, json!({}));
    stream.wait_for(TOOLS_CHANGED, 1).await;
    assert_eq!(second.tool_names().await, ["alpha__one", "alpha__two"]);
}

/// F-024, R-11: what a child lists may have changed while none was running; no child is started to find out.
#[tokio::test]
async fn f_024_the_lists_of_a_child_are_read_when_it_comes_back() {
    let alpha = stdio_server().tool("one").start();
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"children": {"idle": "1s"}})).start().await;
    let client = gateway.client().await;
    client.call("alpha__one", json!({})).await.result();
    alpha.wait_until_empty().await;
    let before = alpha.children().len();
    alpha.add_tool("two");
    client.call("alpha__one", json!({})).await.result();
    client.tools_until("its lists are read again", |names| names.len() == 2).await;
    assert_eq!(alpha.children().len(), before + 1, "one child serves the session and the catalog");
}

/// HTTP-16 TOOL-01, R-22: who would announce changes but has no stream to do so is asked from time to time.
#[tokio::test]
async fn r_22_an_announcement_that_cannot_come_is_not_waited_for() {
    let alpha = http_server().without_stream().tool("one").start();
    let gateway =
        gateway().upstream("alpha", &alpha).with(json!({"catalog": {"refresh": "1s"}})).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__one"]);
    alpha.add_tool("two");
    client.tools_until("it is read again", |names| names.len() == 2).await;
}

/// LIFE-26: after a session was begun anew, the lists are those of a server that may have been restarted.
#[tokio::test]
async fn life_26_lists_are_read_after_a_renewal() {
    let alpha = http_server().without_stream().tool("one").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__one", json!({})).await.result();
    alpha.add_tool("two");
    alpha.forget();
    client.call("alpha__one", json!({})).await.result();
    client.tools_until("its lists are read again", |names| names.len() == 2).await;
}

/// HTTP-23, F-015: a stream that cannot be resumed begins anew, in the same session, and the gap is made good.
#[tokio::test]
async fn http_23_a_stream_that_cannot_be_resumed_begins_anew() {
    let alpha = http_server().tool("one").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__one", json!({})).await.result();
    alpha.wait_for_streams(1).await;
    alpha.push_bytes("id: 7\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n");
    pass(ms(200)).await;
    alpha.guard(|seen| {
        let resumes = seen.verb == "GET" && seen.header("last-event-id").is_some();
        resumes.then(|| Page::new(400).into())
    });
    alpha.add_tool("two");
    alpha.drop_streams();
    alpha
        .until("an attempt to resume", || {
            alpha.verbs("GET").iter().any(|seen| seen.header("last-event-id").is_some()).then_some(())
        })
        .await;
    alpha.wait_for_streams(1).await;
    client.tools_until("what was missed is read", |names| names.len() == 2).await;
    assert_eq!(alpha.sessions().len(), 1, "the session is as good as before");
}

/// R-22, PROM-03: an unknown prompt leads to a reading of prompts, and of nothing else.
#[tokio::test]
async fn r_22_an_unknown_prompt_error_refreshes_the_prompts() {
    let alpha = http_server()
        .capabilities(json!({"tools": {}, "prompts": {}}))
        .tool("t")
        .on("prompts/list", async |ask: Exchange| {
            let prompts = [json!({"name": "old"}), json!({"name": "new"})];
            json!({"prompts": [prompts[usize::from(!ask.peer.notes().is_empty())]]})
        })
        .on("prompts/get", async |_: Exchange| Reply::error(-32602, "unknown prompt"))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(names(&client.list("prompts/list", "prompts").await), ["alpha__old"]);
    let stream = client.listen().await;
    let before = alpha.seen("tools/list").len();
    alpha.note("changed");
    assert_eq!(client.request("prompts/get", json!({"name": "alpha__old"})).await.code(), -32602);
    stream.wait_for("notifications/prompts/list_changed", 1).await;
    assert_eq!(names(&client.list("prompts/list", "prompts").await), ["alpha__new"]);
    assert_eq!(alpha.seen("tools/list").len(), before);
}

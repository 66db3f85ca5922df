//! Children: the gateway owns the whole process tree, both output pipes and every pending request
//! (F-025..F-031, F-085, F-113, STDIO-01..STDIO-10, R-10..R-13).

use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::kit::{self, *};

/// F-025 STDIO-03: what a child says on stderr never blocks it, and never fills the gateway.
#[tokio::test]
async fn f_025_a_flood_on_stderr_blocks_no_answer() {
    let alpha = stdio_server()
        .call("chatty", async |ask: Exchange| {
            let line = [vec![b'w'; 1023], vec![b'\n']].concat();
            ask.stderr(line.repeat(1024));
            Reply::text("ok")
        })
        .call("endless", async |ask: Exchange| {
            ask.stderr(vec![b'z'; 5 << 20]);
            Reply::text("ok")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(client.call("alpha__chatty", json!({})).await.said(), "ok");
    let before = kit::process::resident(gateway.pid());
    for _ in 0..10 {
        assert_eq!(client.call("alpha__chatty", json!({})).await.said(), "ok");
    }
    assert_eq!(client.call("alpha__endless", json!({})).await.said(), "ok");
    assert_eq!(client.call("alpha__endless", json!({})).await.said(), "ok");
    let grown = kit::process::resident(gateway.pid()).saturating_sub(before);
    assert!(grown < 8 << 20, "the gateway grew by {grown} bytes");
    assert!(gateway.log().len() < 2 << 20, "the log holds {} bytes", gateway.log().len());
}

/// STDIO-03: a line on stderr is in our log, with the upstream's name, and not at the client.
#[tokio::test]
async fn stdio_03_stderr_is_logged_by_line_and_stays_inside() {
    let alpha = stdio_server().call("say", async |ask: Exchange| {
        ask.stderr("half a line, ");
        ask.stderr("then the rest \u{1b}[31m\n");
        Reply::text("ok")
    });
    let alpha = alpha.start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let outcome = client.call("alpha__say", json!({})).await;
    assert!(outcome.before.is_empty(), "{outcome:?}");
    let line = gateway.logged("the child's line", |line| line.contains("half a line, then the rest")).await;
    assert!(line.contains("alpha") && !line.contains('\u{1b}'), "{line}");
}

/// F-026: a child that never starts is an error of its own calls, at once, and is in the log.
#[tokio::test]
async fn f_026_a_child_that_exits_at_the_start_fails_alone() {
    let broken = json!({"command": "sh", "args": ["-c", "echo boom-from-the-child >&2; exit 3"]});
    let missing = json!({"command": "no-such-program-anywhere"});
    let plan = gateway().upstream("alpha", broken).upstream("gone", missing);
    let gateway = plan.upstream("beta", stdio_server().tool("echo")).start_at_once().await;
    let (client, took) = timed(gateway.client()).await;
    assert!(took < secs(3), "initialize took {took:?}");
    client.tools_until("beta is listed", |names| names.contains(&"beta__echo".into())).await;
    client.call("beta__echo", json!({})).await.result();
    gateway.logged("the child's last words", |line| line.contains("boom-from-the-child")).await;
    for name in ["alpha", "gone"] {
        let own = gateway.client_of(name).await;
        let (outcome, took) = timed(own.request("tools/list", json!({}))).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32603), "{name}: {outcome:?}");
        assert!(took < secs(5), "{name}: the error took {took:?}");
    }
}

/// F-026 STDIO-08: death in a call answers all its callers at once; nothing is repeated; it comes back.
async fn dies_in_a_call(end: fn() -> Reply) {
    let alpha = stdio_server()
        .tool("echo")
        .call("wait", async |_: Exchange| Reply::Hang)
        .call("die", move |ask: Exchange| async move {
            ask.peer.note("died");
            end()
        })
        .start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", stdio_server().tool("echo")).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let waiting = client.call("alpha__wait", json!({}));
    let dying = async {
        alpha.wait_for("tools/call", 2).await;
        client.call("alpha__die", json!({})).await
    };
    let ((waiting, dying), took) = timed(async { tokio::join!(waiting, dying) }).await;
    assert!(took < secs(3), "the errors took {took:?}");
    for outcome in [waiting, dying] {
        assert_eq!((outcome.status, outcome.code()), (200, -32603), "{outcome:?}");
        assert_eq!(outcome.error()["data"]["upstream"], "alpha");
    }
    client.call("beta__echo", json!({})).await.result();
    soon("alpha works again", async {
        while !client.call("alpha__echo", json!({})).await.is_result() {
            pass(ms(100)).await;
        }
    })
    .await;
    assert_eq!(alpha.notes(), ["died"], "STDIO-08: a call is never sent to a second child");
}

#[tokio::test]
async fn f_026_a_child_that_exits_in_a_call_answers_at_once() {
    dies_in_a_call(|| Reply::Exit(9)).await;
}

#[tokio::test]
async fn f_026_a_child_that_is_killed_in_a_call_answers_at_once() {
    dies_in_a_call(|| Reply::Killed).await;
}

#[tokio::test]
async fn f_026_a_child_that_closes_its_output_is_as_good_as_dead() {
    dies_in_a_call(|| Reply::Cut).await;
}

/// F-026: the end of a child is its exit, not the end of a pipe that a grandchild still holds.
#[tokio::test]
async fn f_026_a_grandchild_that_holds_the_pipe_delays_no_error() {
    let alpha = stdio_server().tool("echo").call("wait", async |_: Exchange| Reply::Hang).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let pid = alpha.seen("tools/call")[0].session.clone().unwrap();
    let child = alpha.running().into_iter().find(|child| child.pid().to_string() == pid).unwrap();
    let near = alpha.grandchild(&child, Place::Near).await;
    let dying = async {
        alpha.wait_for("tools/call", 2).await;
        child.exit(1);
    };
    let ((outcome, ()), took) =
        timed(async { tokio::join!(client.call("alpha__wait", json!({})), dying) }).await;
    assert_eq!(outcome.code(), -32603);
    assert!(took < secs(3), "the error took {took:?}");
    eventually(SOON, "the grandchild ends with the group", || !kit::process::alive(near)).await;
}

/// F-027 STDIO-08: a crash loop is backed off, shared by all sessions, and felt by nobody else.
#[tokio::test]
async fn f_027_a_crash_loop_is_not_fed_by_new_sessions() {
    let alpha = stdio_server().on("initialize", async |_: Exchange| Reply::Exit(1)).start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", stdio_server().tool("echo")).start().await;
    for _ in 0..15 {
        let client = gateway.client().await;
        client.call("beta__echo", json!({})).await.result();
        assert!(!client.call("alpha__echo", json!({})).await.is_result());
    }
    let starts = alpha.children().len();
    assert!((1..=8).contains(&starts), "{starts} starts for 15 sessions");
}

/// F-028 LIFE-17: a slow first start holds nobody up, is not killed, and is announced.
#[tokio::test]
async fn f_028_a_slow_first_start_delays_nobody_and_appears_later() {
    let alpha = stdio_server()
        .tool("echo")
        .on("initialize", async |ask: Exchange| {
            ask.released().await;
            ask.hello()
        })
        .start();
    let plan = gateway().upstream("alpha", alpha.with(json!({"timeouts": {"handshake": "500ms"}})));
    let plan =
        plan.upstream("beta", stdio_server().tool("echo")).with(json!({"catalog": {"startBudget": "1s"}}));
    let gateway = plan.start_at_once().await;
    let (client, took) = timed(gateway.client()).await;
    assert!(took < secs(3), "initialize took {took:?}");
    let (names, took) = timed(client.tools_until("beta", |names| names.contains(&"beta__echo".into()))).await;
    assert_eq!(names, ["beta__echo"]);
    assert!(took < secs(4), "the list took {took:?}");
    let stream = client.listen().await;
    pass(ms(1200)).await;
    alpha.release();
    stream.wait_for("notifications/tools/list_changed", 1).await;
    assert_eq!(client.tool_names().await, ["alpha__echo", "beta__echo"]);
    assert_eq!(alpha.children().len(), 1, "the first child was waited for, not killed");
    client.call("alpha__echo", json!({})).await.result();
}

/// F-029 STDIO-07: requests to one child overtake each other.
#[tokio::test]
async fn f_029_a_slow_call_holds_up_nothing_on_the_same_child() {
    let alpha = stdio_server().tool("echo").call("slow", async |ask: Exchange| {
        ask.released().await;
        Reply::text("slept")
    });
    let alpha = alpha.start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let meanwhile = async {
        alpha.wait_for("tools/call", 2).await;
        let (_, took) = timed(async {
            client.call("alpha__echo", json!({})).await.result();
            client.request("ping", json!({})).await.result();
            client.tools().await;
        })
        .await;
        alpha.release();
        took
    };
    let (slow, took) = tokio::join!(client.call("alpha__slow", json!({})), meanwhile);
    assert_eq!(slow.said(), "slept");
    assert!(took < secs(3), "echo, ping and list took {took:?}");
}

/// F-030 R-12: an allow-list, the entry's own variables, and what it passes on.
#[tokio::test]
async fn f_030_a_child_gets_an_allow_list_and_its_entrys_own() {
    let alpha = stdio_server().tool("echo").start();
    let entry = alpha
        .with(json!({"passEnv": ["FOO"]}))
        .and(json!({"env": {"API_KEY": "abc", "LANG": "tlh", "P": "pa$HOME-s"}}));
    let plan = gateway().upstream("alpha", entry);
    let plan = plan.environment("GW_TOKEN", "t1").environment("AWS_SECRET_ACCESS_KEY", "s3");
    let plan = plan.environment("FOO", "x").environment("BAR", "y").environment("LANG", "de");
    let plan =
        plan.environment("KUBERNETES_SERVICE_HOST", "k").environment("TZ", "UTC").environment("LC_ALL", "C");
    let plan = plan.environment("HTTPS_PROXY", "http://user:PROXY-SECRET@proxy.test:3128");
    let gateway = plan.start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
    let children = alpha.children();
    let environment = children[0].environment();
    let value = |name: &str| environment.get(name).map(String::as_str);
    for (name, wanted) in [
        ("API_KEY", "abc"),
        ("LANG", "tlh"),
        ("P", "pa$HOME-s"),
        ("FOO", "x"),
        ("TZ", "UTC"),
        ("LC_ALL", "C"),
    ] {
        assert_eq!(value(name), Some(wanted), "{name}");
    }
    assert!(value("PATH").is_some() && value("HOME").is_some());
    for name in ["GW_TOKEN", "AWS_SECRET_ACCESS_KEY", "BAR", "KUBERNETES_SERVICE_HOST"] {
        assert_eq!(value(name), None, "{name}");
    }
    assert!(!format!("{environment:?}").contains("PROXY-SECRET"), "userinfo is stripped");
    let folder = gateway.file().parent().unwrap().canonicalize().unwrap();
    assert_eq!(std::path::Path::new(children[0].folder()), folder, "cwd is the file's folder");
}

/// F-086: the gateway has as many descriptors as it may; its children have the limit that it was started with.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn f_086_a_child_gets_the_limit_the_gateway_was_started_with() {
    let alpha = stdio_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).descriptors(500).start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
    let soft = |pid: u32| {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().to_owned();
        line.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!(soft(alpha.children()[0].pid()), "500");
    assert_ne!(soft(gateway.pid()), "500");
}

/// F-031: clients that vanish in a call harm neither the gateway nor other sessions.
#[tokio::test]
async fn f_031_clients_that_reset_in_a_call_harm_nobody() {
    let alpha = stdio_server().tool("echo").call("slow", async |_: Exchange| {
        pass(ms(100)).await;
        Reply::text("done")
    });
    let entry = Entry::from(alpha).with(json!({"isolation": "shared"}));
    let gateway = gateway().upstream("alpha", entry).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let leaver = gateway.client().await;
    let params = kit::text::tree(&progressing("alpha__slow", &json!({}), "1"));
    for n in 0..40 {
        let letter = leaver.post(&kit::text::request(&n.to_string(), "tools/call", &params.to_string()));
        // Leaves before, while, and after the answer is on its way.
        if let Ok(Ok(answer)) = tokio::time::timeout(ms(n * 4), letter.try_send()).await {
            answer.reset();
        }
    }
    for n in 0..5 {
        let outcome = client.call("alpha__echo", json!({"n": n})).await;
        assert_eq!(outcome.result()["structuredContent"], json!({"n": n}));
    }
    gateway.client().await.call("alpha__echo", json!({})).await.result();
}

/// F-031: an answer that comes in the instant of the question finds its waiter.
#[tokio::test]
async fn f_031_an_instant_answer_is_never_lost() {
    // A child without a test process between: it answers as fast as a shell can.
    let words = r#"while read -r line; do
        id=${line#*\"id\":}; id=${id%%[,\}]*}
        case $line in
            *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
            *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
            *'"tools/call"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}\n' "$id" ;;
            *'"ping"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{}}\n' "$id" ;;
            *'"method":"notifications'*) : ;;
            *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
        esac
    done"#;
    // In a file: `${…}` in a configuration would be a variable of the gateway's.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.sh");
    std::fs::write(&file, words).unwrap();
    let gateway = gateway().upstream("alpha", json!({"command": "sh", "args": [file]})).start().await;
    let client = gateway.client().await;
    for _ in 0..300 {
        client.call("alpha__t", json!({})).await.result();
    }
}

/// F-113 STDIO-06: program and arguments are handed on as they are, with no shell between.
#[tokio::test]
async fn f_113_odd_paths_and_arguments_reach_the_child_unchanged() {
    let alpha = stdio_server().tool("echo").start();
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("Tool Box é 漢");
    std::fs::create_dir(&place).unwrap();
    let program = place.join("the server");
    let (shell, words) = alpha.command();
    let written = place.join("arguments");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\0' \"$@\" > '{}'\nexec {shell} -c '{}' '{}' '{}'\n",
        written.display(),
        words[1],
        words[2],
        words[3]
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let odd = ["a b", "x&y\"z", "a$(echo 1)`echo 2`", "; echo hi", "", "*", "漢字", "$HOME", "~"];
    let gateway = gateway().upstream("alpha", json!({"command": program, "args": odd})).start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
    let seen = std::fs::read_to_string(&written).unwrap();
    assert_eq!(seen.split_terminator('\0').collect::<Vec<_>>(), odd);
}

/// F-085 R-10, R-11: a child for each session that calls, started once, none for those that do not.
#[tokio::test]
async fn f_085_one_child_for_each_session_that_uses_it() {
    let alpha =
        stdio_server().call("who", async |ask: Exchange| Reply::text(ask.count(1).to_string())).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(gateway.client().await);
    }
    clients[0].tools().await;
    assert_eq!(alpha.children().len(), 1, "sessions that call nothing start nothing");
    let calls = clients.iter().flat_map(|client| (0..6).map(move |_| client.call("alpha__who", json!({}))));
    for outcome in futures_util::future::join_all(calls).await {
        outcome.result();
    }
    let pids: HashSet<_> = alpha.seen("tools/call").iter().map(|seen| seen.session.clone()).collect();
    assert_eq!(pids.len(), 4, "each session has its own");
    assert!(alpha.children().len() <= 5, "{} starts", alpha.children().len());
    for client in clients {
        assert_eq!(client.delete().send().await.status, 204);
    }
    alpha.until("only the catalog's child is left", || (alpha.running().len() <= 1).then_some(())).await;
    no_zombies(&gateway).await;
}

/// Waits until every process that ended has been reaped. Says nothing where that cannot be seen.
async fn no_zombies(gateway: &Gateway) {
    let reaped = || kit::process::descendants(gateway.pid()).iter().all(|found| found.state != 'Z');
    eventually(SOON, "no zombie", reaped).await;
}

/// R-11 STDIO-10: at the cap calls queue; then the error names the key to change.
#[tokio::test]
async fn r_11_the_cap_on_children_queues_and_then_names_its_key() {
    let alpha = stdio_server().tool("echo").start();
    let caps = json!({"children": {"perUpstream": 1, "queue": "400ms"}});
    let gateway = gateway().upstream("alpha", &alpha).with(caps).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    one.call("alpha__echo", json!({})).await.result();
    let refused = two.call("alpha__echo", json!({})).await;
    // R-37: 429, unless the answer had begun as a stream while it waited.
    assert!([200, 429].contains(&refused.status) && refused.code() == -31002, "{refused:?}");
    assert!(refused.text.contains("children.perUpstream"), "{refused:?}");
    one.delete().send().await;
    soon("the slot is free again", async {
        while !two.call("alpha__echo", json!({})).await.is_result() {
            pass(ms(100)).await;
        }
    })
    .await;
    assert!(alpha.running().len() <= 1);
}

/// R-11: an idle child is stopped, and started again when it is needed.
#[tokio::test]
async fn r_11_an_idle_child_is_stopped_and_comes_back_on_demand() {
    let alpha = stdio_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"children": {"idle": "1s"}})).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    alpha.wait_until_empty().await;
    assert_eq!(client.tool_names().await, ["alpha__echo"], "its lists are still known");
    client.call("alpha__echo", json!({})).await.result();
    assert!(alpha.children().len() >= 2);
}

/// R-10 LIFE-15: a shared child serves many sessions and never mixes them up.
#[tokio::test]
async fn r_10_a_shared_child_answers_each_session_its_own() {
    let alpha = stdio_server().call("echo", async |ask: Exchange| {
        pass(ms(ask.argument("wait").as_u64().unwrap())).await;
        Reply::text(ask.argument("who").as_str().unwrap())
    });
    let alpha = alpha.start();
    let gateway = gateway().upstream("alpha", alpha.with(json!({"isolation": "shared"}))).start().await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(gateway.client().await);
    }
    let calls = clients.iter().enumerate().flat_map(|(c, client)| {
        (0..10).map(move |n| async move {
            let who = format!("{c}-{n}");
            let wait = (c * 7 + n * 3) % 11;
            let outcome = client.call("alpha__echo", json!({"who": who, "wait": wait})).await;
            assert_eq!(outcome.said(), who);
        })
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(alpha.children().len(), 1);
}

/// STDIO-04: input is closed first, and a child that ends by itself is never signalled.
#[tokio::test]
async fn stdio_04_an_orderly_stop_closes_the_input_first() {
    let alpha = stdio_server().tool("echo").start();
    let mut gateway = gateway().upstream("alpha", &alpha).start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
    let pids: Vec<u32> = alpha.children().iter().map(kit::puppet::Strings::pid).collect();
    assert_eq!(gateway.terminate().await.code(), Some(0));
    alpha.wait_until_empty().await;
    for pid in pids {
        assert!(alpha.ended_input().contains(&pid), "{pid} was not told by its input");
    }
}

/// STDIO-04 R-13: a child that will not go is killed, with its group and with what left the group.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn stdio_04_a_stubborn_tree_is_killed_to_the_last() {
    let alpha = stdio_server().stubborn().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let pid = alpha.seen("tools/call")[0].session.clone().unwrap();
    let child = alpha.running().into_iter().find(|child| child.pid().to_string() == pid).unwrap();
    let near = alpha.grandchild(&child, Place::Near).await;
    let far = alpha.grandchild(&child, Place::Far).await;
    client.delete().send().await;
    eventually(secs(20), "child and grandchildren are gone", || {
        [child.pid(), near, far].iter().all(|pid| !kit::process::alive(*pid))
    })
    .await;
    no_zombies(&gateway).await;
}

/// R-13 F-098: the death of the gateway ends every child, however stubborn.
#[tokio::test]
async fn r_13_children_do_not_outlive_a_killed_gateway() {
    let (alpha, beta) = (stdio_server().tool("echo").start(), stdio_server().stubborn().tool("echo").start());
    let mut gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    client.call("beta__echo", json!({})).await.result();
    let child = beta.running()[0].clone();
    let near = beta.grandchild(&child, Place::Near).await;
    gateway.kill().await;
    alpha.wait_until_empty().await;
    beta.wait_until_empty().await;
    eventually(SOON, "the grandchild is gone", || !kit::process::alive(near)).await;
}

/// R-12: an entry of a transport or shape that we lack fails alone.
#[tokio::test]
async fn r_12_an_entry_that_cannot_be_used_fails_alone() {
    let plan = gateway().upstream("odd", json!({"type": "carrier-pigeon", "url": "http://127.0.0.1:9/mcp"}));
    let plan =
        plan.upstream("unset", json!({"command": "sh", "args": ["-c", "${NO_SUCH_VARIABLE_ANYWHERE}"]}));
    let gateway = plan.upstream("beta", stdio_server().tool("echo")).start().await;
    gateway.client().await.call("beta__echo", json!({})).await.result();
    gateway.logged("the unset variable is named", |line| line.contains("NO_SUCH_VARIABLE_ANYWHERE")).await;
}

/// R-13: a child inherits no descriptor of the gateway's, and can gain no privileges.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn r_13_a_child_inherits_nothing_but_its_three_pipes() {
    let alpha = stdio_server().tool("echo").start();
    let (_, words) = alpha.command();
    // What the shell inherited, `ls` inherits too; the fourth is the folder that it reads.
    let look = r#"ls /proc/self/fd > descriptors; exec sh -c "$0" "$@""#;
    let entry = json!({"command": "sh", "args": ["-c", look, words[1], words[2], words[3]]});
    let gateway = gateway().upstream("alpha", entry).start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
    let seen = std::fs::read_to_string(gateway.file().with_file_name("descriptors")).unwrap();
    assert_eq!(seen.split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", alpha.running()[0].pid())).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
}

//! The kit itself: scripted stdio servers, driven over plain pipes.

use std::process::Stdio;

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::kit::stdio_server::StdioServer;
use crate::kit::*;

struct Pipes {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Pipes {
    fn to(server: &StdioServer) -> Self {
        let (command, arguments) = server.command();
        let mut command = Command::new(command);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).process_group(0).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Pipes { child, input, output }
    }

    async fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self) -> String {
        let mut line = String::new();
        soon("a line of a child", self.output.read_line(&mut line)).await.unwrap();
        line
    }

    async fn ask(&mut self, line: &str) -> serde_json::Value {
        self.say(line).await;
        serde_json::from_str(&self.hear().await).unwrap()
    }
}

#[tokio::test]
async fn a_child_answers_by_the_script_and_ends_with_its_input() {
    let alpha = stdio_server().tool("echo").start();
    let mut pipes = Pipes::to(&alpha);
    let answer = pipes.ask(
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"echo","arguments":{"a":1}}}"#,
    );
    let answer = answer.await;
    assert_eq!(answer["id"], "x");
    assert_eq!(answer["result"]["structuredContent"], json!({"a": 1}));
    let child = &alpha.wait_for_children(1).await[0];
    assert_eq!(Some(child.pid()), pipes.child.id());
    assert!(child.environment().contains_key("PATH"));

    pipes.input = None;
    let status = soon("the child ends", pipes.child.wait()).await.unwrap();
    assert_eq!(status.code(), Some(0));
    alpha.wait_until_empty().await;
    assert_eq!(alpha.ended_input(), [child.pid()]);
    assert_eq!(pipes.hear().await, "", "nothing but answers on standard output");
}

#[tokio::test]
async fn a_banner_noise_and_errors_go_where_they_are_told() {
    let alpha = stdio_server()
        .banner("hello\n")
        .call("noise", async |ask: Exchange| {
            ask.write("half").await;
            ask.write("-whole\n").await;
            Reply::text("ok")
        })
        .start();
    let mut pipes = Pipes::to(&alpha);
    assert_eq!(pipes.hear().await, "hello\n");
    pipes.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"noise"}}"#).await;
    assert_eq!(pipes.hear().await, "half-whole\n");
    assert!(pipes.hear().await.contains("\"ok\""));

    let child = &alpha.children()[0];
    child.stderr("boom\n");
    child.exit(3);
    let mut errors = String::new();
    pipes.child.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!(errors, "boom\n");
    assert_eq!(soon("the end", pipes.child.wait()).await.unwrap().code(), Some(3));
}

#[tokio::test]
async fn a_child_can_die_close_its_output_and_leave_grandchildren() {
    let alpha = stdio_server()
        .call("die", async |_: Exchange| Reply::Killed)
        .call("close", async |_: Exchange| Reply::Cut)
        .start();
    let mut first = Pipes::to(&alpha);
    first.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"die"}}"#).await;
    assert_eq!(first.hear().await, "");
    assert_eq!(soon("its death", first.child.wait()).await.unwrap().code(), None);

    let mut second = Pipes::to(&alpha);
    let child = alpha.wait_for_children(2).await[1].clone();
    let near = alpha.grandchild(&child, Place::Near).await;
    let far = alpha.grandchild(&child, Place::Far).await;
    assert!(process::alive(near) && process::alive(far));
    if cfg!(target_os = "linux") {
        let pids: Vec<u32> = process::descendants(child.pid()).iter().map(|found| found.pid).collect();
        assert!(pids.contains(&near) && pids.contains(&far));
        assert_eq!(process::stat(near).unwrap().group, child.pid());
        assert_eq!(process::stat(far).unwrap().group, far);
    }
    process::kill(near);
    second.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"close"}}"#).await;
    assert_eq!(second.hear().await, "");
    assert!(process::alive(child.pid()));
    drop(alpha);
    eventually(SOON, "child and grandchild end with the stage", || {
        !process::alive(far) && second.child.try_wait().unwrap().is_some()
    })
    .await;
}

#[tokio::test]
async fn a_stubborn_child_ignores_the_polite_ways() {
    let alpha = stdio_server().stubborn().start();
    let mut pipes = Pipes::to(&alpha);
    let child = alpha.wait_for_children(1).await[0].clone();
    pipes.input = None;
    alpha.until("it saw the end of input", || (!alpha.ended_input().is_empty()).then_some(())).await;
    process::signal(child.pid(), rustix::process::Signal::TERM);
    assert!(still_waiting(ms(200), pipes.child.wait()).await);
    process::kill(child.pid());
    soon("the end", pipes.child.wait()).await.unwrap();
}

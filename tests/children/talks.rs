//! Talking: what comes through the pipes of a real process.

use bytes::Bytes;
use portcullis::upstream::stdio::exit::Cause;
use portcullis::upstream::stdio::pipe::{Closed, Frame};

use crate::kit::{next, python, send, shell, soon, spawner, until};

/// F-025: 1 MiB to stderr before each answer.
#[tokio::test]
async fn f_025_a_megabyte_of_stderr_before_each_answer() {
    let (spawner, told) = spawner();
    let script = r#"
for line in lines:
    for _ in range(16): os.write(2, (b"w" * 1023 + b"\n") * 64)
    say({"ok": 1})
"#;
    let mut child = python(&spawner, script).await;
    for _ in 0..20 {
        send(&child, "{}").await;
        assert_eq!(next(&mut child).await["ok"], 1);
    }
    // Each of 20 × 1024 lines is counted, most are not shown.
    until("lines counted", || told.count("StderrLine") == 20 * 1024).await;
    assert!(told.count("line: Some") < 2000, "{} shown", told.count("line: Some"));
}

/// F-025: 5 MB without a newline.
#[tokio::test]
async fn f_025_five_megabytes_without_newline() {
    let (spawner, told) = spawner();
    let script = r#"
for _ in range(80): os.write(2, b"z" * 65536)
say({"ok": 1})
for line in lines: pass
"#;
    let mut child = python(&spawner, script).await;
    assert_eq!(next(&mut child).await["ok"], 1);
    let exit = soon(child.life.stop(Default::default())).await;
    assert_eq!(told.count("StderrLine"), 1);
    assert!(exit.stderr.len() == 1 && exit.stderr[0].len() < 1000);
}

/// F-026: the last words of a child that ends at once are in its exit, and told.
#[tokio::test]
async fn f_026_the_reason_is_in_the_exit() {
    let (spawner, told) = spawner();
    let mut child = shell(&spawner, "echo boom >&2; exit 3").await;
    assert_eq!(soon(child.frames.recv()).await, None);
    let exit = soon(child.life.exit()).await;
    assert_eq!(exit.to_string(), "exit code 3");
    assert_eq!(exit.stderr, ["boom"]);
    assert_eq!((told.count("boom"), told.count("Exited")), (2, 1));
}

/// F-026: what was written before the end comes before the end.
#[tokio::test]
async fn f_026_messages_before_the_end_are_not_lost() {
    let (spawner, _) = spawner();
    for _ in 0..20 {
        let mut child = shell(&spawner, "for i in 1 2 3 4 5; do echo \"{\\\"n\\\":$i}\"; done; exit 9").await;
        for n in 1..=5 {
            assert_eq!(next(&mut child).await["n"], n);
        }
        assert_eq!(soon(child.frames.recv()).await, None);
        assert_eq!(soon(child.life.exit()).await.to_string(), "exit code 9");
    }
}

/// F-032: one byte at a time, multi-byte characters included.
#[tokio::test]
async fn f_032_characters_split_over_reads() {
    let (spawner, _) = spawner();
    let script = r#"
for line in lines:
    for byte in line: os.write(1, bytes([byte]))
"#;
    let mut child = python(&spawner, script).await;
    let text = "{\"id\":3,\"text\":\"漢字 — 👩\u{200d}🚀 é\"}";
    send(&child, text).await;
    assert_eq!(soon(child.frames.recv()).await, Some(Frame::Message(Bytes::from_static(text.as_bytes()))));
}

/// F-033, F-034: a log line, a notification, an answer and half a message in one write.
#[tokio::test]
async fn f_033_several_messages_in_one_write() {
    let (spawner, _) = spawner();
    let script = r#"
os.write(1, '\ufeffbanner\r\nlog line\n{"n":1}\n{"n":2}\r\n\n{"n":'.encode())
next(lines)
os.write(1, b'3}\n')
next(lines)
"#;
    let mut child = python(&spawner, script).await;
    assert_eq!(next(&mut child).await["n"], 1);
    assert_eq!(next(&mut child).await["n"], 2);
    assert_eq!(child.noise.count(), 2);
    send(&child, "{}").await;
    assert_eq!(next(&mut child).await["n"], 3);
}

/// F-029, STDIO-07: many messages both ways at once, none lost, large ones among them.
#[tokio::test]
async fn f_029_messages_are_pipelined() {
    let (spawner, _) = spawner();
    let mut child = python(&spawner, "for line in lines: os.write(1, line)").await;
    let input = child.input.clone();
    let sender = portcullis::base::tasks::spawn("sender", async move {
        for n in 0..2000 {
            let filling = if n % 100 == 0 { "x".repeat(200_000) } else { String::new() };
            input.send(format!("{{\"n\":{n},\"x\":\"{filling}\"}}").into()).await.unwrap();
        }
    });
    for n in 0..2000 {
        assert_eq!(next(&mut child).await["n"], n);
    }
    sender.await.unwrap();
}

/// F-031: a child that closes its stdin in the middle of a line is ended, and who sends learns of it.
#[tokio::test]
async fn f_031_stdin_closed_mid_write() {
    let (spawner, _) = spawner();
    let script = r#"
os.read(0, 1000)
os.close(0)
time.sleep(600)
"#;
    let child = python(&spawner, script).await;
    let big = Bytes::from(vec![b'x'; 1 << 20]);
    soon(child.input.send(big.clone())).await.unwrap();
    while soon(child.input.send(big.clone())).await.is_ok() {}
    assert_eq!(soon(child.input.send(big)).await, Err(Closed));
    assert_eq!(soon(child.life.exit()).await.cause, Cause::InputClosed);
}

/// STDIO-04: a child that closes its stdout has ended the connection; it is not left alive.
#[tokio::test]
async fn stdio_04_stdout_closed_by_the_child() {
    let (spawner, _) = spawner();
    let mut child = python(&spawner, "os.close(1)\ntime.sleep(600)").await;
    assert_eq!(soon(child.frames.recv()).await, None);
    let exit = soon(child.life.exit()).await;
    assert_eq!((exit.cause, exit.is_likely_out_of_memory()), (Cause::OutputClosed, false));
}

/// STDIO-07: a child that does not read holds up its own senders only, and is stopped all the same.
#[tokio::test]
async fn stdio_07_a_child_that_does_not_read() {
    use std::time::Duration;

    use portcullis::base::clock;
    use portcullis::upstream::stdio::child::Grace;

    let (spawner, _) = spawner();
    let deaf = shell(&spawner, "exec sleep 600").await;
    let mut other = shell(&spawner, "exec cat").await;
    let big = Bytes::from(vec![b'x'; 1 << 20]);
    while clock::within(Duration::from_millis(100), deaf.input.send(big.clone())).await.is_ok() {}
    send(&other, "{\"n\":1}").await;
    assert_eq!(next(&mut other).await["n"], 1);
    let grace = Grace { after_input: Duration::from_millis(50), ..Grace::default() };
    assert_eq!(soon(deaf.life.stop(grace)).await.to_string(), "stopped: signal 15");
}

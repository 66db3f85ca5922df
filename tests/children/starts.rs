//! Starting: environment, folder, descriptors, signals, and what is said when it does not work.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis::base::tasks;
use portcullis::upstream::stdio::environment::ChildEnvironment;
use portcullis::upstream::stdio::exit::Ending;
use portcullis::upstream::stdio::slots::Caps;
use portcullis::upstream::stdio::spawn::{Command, SpawnError, Spawner};

use crate::kit::{command, next, python, soon, spawner, spawner_with, start, try_start};

fn write(path: &Path, text: &str, mode: u32) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

async fn refusal(spawner: &Spawner, command: Command) -> String {
    match try_start(spawner, command).await {
        Ok(_) => panic!("it was started"),
        Err(error) => error.to_string(),
    }
}

/// F-030, R-12: a child sees its own environment and nothing of ours.
#[tokio::test]
async fn f_030_a_child_has_its_own_environment_only() {
    let (spawner, _) = spawner();
    let captured = [("PATH", "/usr/bin:/bin"), ("HOME", "/root"), ("GW_TOKEN", "t1"), ("FOO", "x")];
    let entry = [(OsStr::new("API_KEY"), OsStr::new("abc"))];
    let environment = ChildEnvironment::compile(
        captured.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value))),
        ["FOO"],
        entry,
    );
    let script = r#"import json, os; print(json.dumps({"env": sorted(os.environ)}))"#;
    let python = Command { environment, ..command("python3", &["-c", script]) };
    let mut child = try_start(&spawner, python).await.unwrap();
    let mut names: Vec<String> = serde_json::from_value(next(&mut child).await["env"].clone()).unwrap();
    // Set by the interpreter itself for the locale "C".
    names.retain(|name| name != "LC_CTYPE");
    assert_eq!(names, ["API_KEY", "FOO", "HOME", "PATH", "PORTCULLIS_CHILD"]);
}

/// R-13: no inherited descriptors, no new privileges, own session and group, signals at their defaults.
#[tokio::test]
async fn r_13_a_child_inherits_nothing_it_does_not_need() {
    // A descriptor that is not closed by exec, as a careless library may leave it, and as ours were given to us.
    let leak = std::fs::File::open("/dev/null").unwrap();
    rustix::io::fcntl_setfd(&leak, rustix::io::FdFlags::empty()).unwrap();
    let (spawner, _) = spawner();
    let script = r#"
status = dict(line.rstrip("\n").split(":\t", 1) for line in open("/proc/self/status") if ":\t" in line)
say({"fds": sorted(os.listdir("/proc/self/fd"))[:3], "count": len(os.listdir("/proc/self/fd")),
     "privileges": status["NoNewPrivs"], "ignored": status["SigIgn"], "blocked": status["SigBlk"],
     "leads": [os.getpgid(0) == os.getpid(), os.getsid(0) == os.getpid()]})
"#;
    let mut child = python(&spawner, script).await;
    let seen = next(&mut child).await;
    // The fourth is that of the listing itself.
    assert_eq!((&seen["fds"], &seen["count"]), (&["0", "1", "2"].into(), &4.into()));
    assert_eq!(seen["privileges"], "1");
    assert_eq!(seen["leads"], serde_json::json!([true, true]));
    assert_eq!(seen["blocked"], "0000000000000000");
    // Real-time signals belong to the C library; the interpreter itself ignores SIGPIPE and SIGXFSZ.
    const STANDARD: u64 = (1 << 31) - 1;
    let ignored = u64::from_str_radix(seen["ignored"].as_str().unwrap(), 16).unwrap();
    assert_eq!(ignored & STANDARD & !(1 << 12 | 1 << 24), 0);
    drop(leak);
}

/// STDIO-06: arguments reach the program as they are, in the entry's folder; the program is found by the child's PATH.
#[tokio::test]
async fn stdio_06_arguments_are_no_shell_text() {
    let folder = tempfile::tempdir().unwrap();
    let tools = folder.path().join("Tool Box é");
    std::fs::create_dir(&tools).unwrap();
    let script = "#!/bin/sh\nprintf '{\"args\":\"%s|%s\",\"cwd\":\"%s\"}\\n' \"$1\" \"$2\" \"$(pwd -P)\"\n";
    write(&tools.join("srv"), script, 0o755);
    let (spawner, _) = spawner();
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let entry = [(OsStr::new("PATH"), OsStr::new(&path))];
    let srv = Command {
        environment: ChildEnvironment::compile([], [], entry),
        folder: Some(folder.path().to_owned()),
        ..command("srv", &["$(id); `id` & x", "a b"])
    };
    let mut child = try_start(&spawner, srv).await.unwrap();
    let said = next(&mut child).await;
    assert_eq!(said["args"], "$(id); `id` & x|a b");
    assert_eq!(said["cwd"], folder.path().canonicalize().unwrap().to_str().unwrap());
}

/// F-113: every way not to start says what is wrong and what to do.
#[tokio::test]
async fn f_113_failures_to_start_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    write(&file("plain.py"), "print(1)\n", 0o644);
    write(&file("orphan"), "#!/nowhere/interpreter\n", 0o755);
    let (spawner, told) = spawner();
    let run = |name: &str| command(file(name).to_str().unwrap(), &[]);

    let said = refusal(&spawner, command("no-such-program-here", &[])).await;
    assert!(said.starts_with("command `no-such-program-here` was not found (searched /"), "{said}");
    let said = refusal(&spawner, run("absent")).await;
    assert!(said.contains("absent` was not found"), "{said}");
    let said = refusal(&spawner, run("plain.py")).await;
    assert!(said.contains("plain.py` is not executable; run it with its interpreter"), "{said}");
    let said = refusal(&spawner, run("orphan")).await;
    assert!(said.contains("interpreter in its first line"), "{said}");
    let elsewhere = Command { folder: Some(file("nowhere")), ..command("true", &[]) };
    let said = refusal(&spawner, elsewhere).await;
    assert!(said.contains("nowhere` does not exist; create it or change"), "{said}");
    let long = "x".repeat(4 << 20);
    let said = refusal(&spawner, command("true", &[&long])).await;
    assert!(said.contains("cannot start") && !said.contains("xxxx"), "{said}");

    assert_eq!(spawner.slots().running(), 0, "no slot is lost");
    assert_eq!(told.count("Spawned"), 0);
}

/// F-113: a service has no PATH at all.
#[tokio::test]
async fn f_113_a_child_without_path_gets_the_usual_one() {
    let (spawner, _) = spawner();
    let bare = Command {
        arguments: vec!["-c".into(), "echo \"{\\\"path\\\":\\\"$PATH\\\"}\"".into()],
        ..Command::new("alpha".into(), "sh")
    };
    let mut child = try_start(&spawner, bare).await.unwrap();
    assert!(next(&mut child).await["path"].as_str().unwrap().contains("/usr/bin"));
}

/// R-28: what is run is shown, what it is given is not.
#[tokio::test]
async fn r_28_a_start_is_told_without_its_arguments() {
    let (spawner, told) = spawner();
    let secret = command("sh", &["-c", "exit 0", "hunter2"]);
    assert!(!format!("{secret:?}").contains("hunter2"));
    let child = try_start(&spawner, secret).await.unwrap();
    soon(child.life.exit()).await;
    assert_eq!((told.count("Spawned"), told.count("arguments: 3"), told.count("hunter2")), (1, 1, 0));
}

/// R-11: a slot is free when its process is reaped, not before; the queue has an end.
#[tokio::test]
async fn r_11_slots_follow_processes() {
    let caps = Caps { per_upstream: 1, total: 4, queue: Duration::from_millis(50) };
    let (spawner, _) = spawner_with(caps);
    let first = start(&spawner, "cat", &[]).await;
    let refused = try_start(&spawner, command("cat", &[])).await;
    assert!(matches!(refused, Err(SpawnError::Full(_))));
    spawner.slots().set_caps(Caps { queue: Duration::from_secs(20), ..caps });
    let waiting = {
        let spawner = spawner.clone();
        tasks::spawn("second", async move {
            spawner.spawn(&Arc::new(command("cat", &[])), &"tenant".into()).await
        })
    };
    let exit = first.life.exit();
    drop(first);
    let second = soon(waiting).await.unwrap().unwrap();
    assert_eq!(soon(exit).await.ending, Ending::Signal(9));
    assert_eq!(spawner.slots().running(), 1);
    drop(second);
}

/// A start that nobody waits for any more leaves nothing.
#[tokio::test]
async fn a_cancelled_start_leaves_nothing() {
    let (spawner, _) = spawner();
    for _ in 0..20 {
        let cat = Arc::new(command("cat", &[]));
        let spawner = spawner.clone();
        let task =
            tasks::spawn("start", async move { spawner.spawn(&cat, &"tenant".into()).await.map(drop) });
        tokio::task::yield_now().await;
        drop(task);
    }
    crate::kit::until("slots free", || spawner.slots().running() == 0).await;
    soon(spawner.close()).await;
}

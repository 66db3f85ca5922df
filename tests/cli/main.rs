//! The command line from outside: the program is run, and judged by what it prints and how it ends.

mod kit;

use std::net::TcpListener;

use kit::{Home, SERVER, Server};
use serde_json::{Value, json};

fn scripted() -> Value {
    json!({"command": "python3", "args": [SERVER]})
}

// === check, schema ===

#[test]
fn check_shows_every_fault_with_its_place() {
    let home = Home::new();
    let text =
        "{\n  \"mcpServers\": {},\n  \"portcullis\": {\n    \"lisen\": \"x\",\n    \"runtime\": 7\n  }\n}";
    let file = home.file("bad.json", text);
    let ran = home.run(&["check", file.to_str().unwrap()]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
    for place in [":4:5: portcullis.lisen: ", ":5:16: portcullis.runtime: "] {
        assert!(ran.err.contains(&format!("{}{place}", file.display())), "{place}: {}", ran.err);
    }
    assert!(ran.err.contains("`listen`"), "the nearest key: {}", ran.err);
}

/// R-28
#[test]
fn check_shows_what_the_file_says_and_no_secret() {
    let home = Home::new();
    let config = json!({"mcpServers": {
        "a": {"command": "run", "args": ["--token", "t0k3n"]},
        "b": {"url": "https://h/mcp", "headers": {"x": "${UNSET}"}},
        "c": {"url": "https://h/mcp?key=s3cret"},
    }});
    home.configure(&config);
    let ran = home.run(&["check"]);
    assert_eq!(ran.code, 2, "a server cannot be used: {ran:?}");
    assert!(ran.out.contains("run --token ***") && ran.out.contains("a__"), "{}", ran.out);
    assert!(ran.out.contains("anyone on this machine may call"), "{}", ran.out);
    assert!(ran.err.contains("UNSET") && ran.err.contains("looks like a secret"), "{}", ran.err);
    let all = ran.out + &ran.err;
    assert!(!all.contains("t0k3n") && !all.contains("s3cret"), "{all}");

    home.configure(&json!({"mcpServers": {"a": {"command": "run"}}}));
    let ran = home.run(&["check"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
}

#[test]
fn schema_is_a_json_schema() {
    let ran = Home::new().run(&["schema"]);
    let schema: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &schema["properties"]["portcullis"].is_object()), (0, &true));
}

#[test]
fn completions_are_a_script() {
    let ran = Home::new().run(&["completions", "bash"]);
    assert!(ran.code == 0 && ran.out.contains("portcullis"), "{}", ran.err);
}

// === keys ===

/// R-32
#[test]
fn a_new_key_has_256_bits_and_its_entry_its_digest() {
    let ran = Home::new().run(&["keys", "new", "laptop"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let [key, entry] = ran.out.lines().collect::<Vec<_>>()[..] else { panic!("two lines: {}", ran.out) };
    assert_eq!(key.len(), 43, "32 bytes in base64");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let digest: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let entry: Value = serde_json::from_str(entry).unwrap();
    assert_eq!(entry, json!({"name": "laptop", "sha256": digest}));
    assert!(!ran.err.contains(key));
}

/// R-32
#[test]
fn a_kept_seal_key_can_be_replaced() {
    let home = Home::new();
    let old = home.run(&["keys", "seal"]);
    assert_eq!((old.code, old.out.trim().len()), (0, 43));
    home.configure(&json!({"portcullis": {"stateDirectory": "state"}}));
    assert_eq!(home.run(&["keys", "rotate"]).code, 2, "nothing is kept yet");
    home.file(".config/portcullis/state/seal.key", old.out.trim());
    let ran = home.run(&["keys", "rotate"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let keys: Value = serde_json::from_str(&ran.out).unwrap();
    home.configure(&json!({"portcullis": {"sealKeys": keys}}));
    let ran = home.run(&["check"]);
    assert_eq!(ran.code, 0, "what is printed can be pasted: {}", ran.err);
}

// === tools, call, probe ===

#[test]
fn tools_shows_names_and_owners() {
    let home = Home::new();
    let bare = json!({"command": "python3", "args": [SERVER], "portcullis": {"namespace": "none"}});
    home.configure(&json!({"mcpServers": {"a": scripted(), "b": bare}}));
    let ran = home.run(&["tools", "--json"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let listed: Value = serde_json::from_str(&ran.out).unwrap();
    let tools = listed["tools"].as_array().unwrap();
    let find = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let echo = find("a__echo");
    assert_eq!(
        [&echo["upstream"], &echo["original"], &echo["alias"]],
        [&json!("a"), &json!("echo"), &json!(false)]
    );
    assert_eq!(echo["definition"]["inputSchema"]["type"], "object");
    assert_eq!(find("echo")["upstream"], "b");

    let ran = home.run(&["tools", "a"]);
    assert!(ran.out.starts_with("NAME") && ran.out.contains("Says what it was given.…"), "{}", ran.out);
    assert!(!ran.out.contains("\necho "), "only one server: {}", ran.out);
}

#[test]
fn a_call_prints_text_and_nothing_else() {
    let home = Home::new();
    home.configure(&json!({"mcpServers": {"a": scripted()}}));
    let ran = home.run(&["call", "echo", "--arg", "text=12", "--arg", "n=12", "-a", "x=[true]"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert_eq!(ran.out, "{\"n\": 12, \"text\": \"12\", \"x\": [true]}\n");
    let ran = home.run_with(&["call", "a__echo", "--json", "-"], r#"{"text":"hello"}"#);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"text\": \"hello\"}\n"), "{ran:?}");
    let ran = home.run(&["call", "a__shape"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\n  \"sides\": 3\n}\n"), "{ran:?}");
    let ran = home.run(&["call", "a__shape", "--raw"]);
    assert_eq!(ran.out, "{\"content\": [], \"structuredContent\": {\"sides\": 3}}\n");
}

#[test]
fn a_call_ends_with_5_when_the_tool_fails_or_is_unknown() {
    let home = Home::new();
    home.configure(&json!({"mcpServers": {"a": scripted()}}));
    for (arguments, said) in [
        (&["call", "a__fail"][..], "it is broken"),
        (&["call", "a__refuse"], "refused (code -32001)"),
        (&["call", "a__ecko"], "did you mean `a__echo`"),
    ] {
        let ran = home.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (5, ""), "{ran:?}");
        assert!(ran.err.contains(said), "{}", ran.err);
    }
    assert_eq!(home.run(&["call", "a__echo", "--json", "[]"]).code, 2);
    assert_eq!(home.run(&["call", "a__echo", "--arg", "text"]).code, 2);
}

#[test]
fn a_call_tells_of_its_progress() {
    let home = Home::new();
    let ran = home.run(&["call", "count", "--", "python3", SERVER]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "counted\n"), "{ran:?}");
    assert!(ran.err.contains("progress 1 of 2: step\n"), "{}", ran.err);
}

/// R-12
#[test]
fn a_command_gets_the_variables_that_are_named() {
    let home = Home::new();
    for (flags, told) in [(&[][..], "unset"), (&["-e", "TOLD"], "by the test"), (&["-e", "TOLD=x"], "x")] {
        let call = ["call", "variable", "-a", "text=TOLD"];
        let ran = home.run(&[&call, flags, &["--", "python3", SERVER]].concat());
        assert_eq!((ran.code, ran.out.trim()), (0, told), "{ran:?}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_mend() {
    let home = Home::new();
    home.configure(&json!({"mcpServers": {"a": {"command": "no-such-program-here"}, "b": scripted()}}));
    let ran = home.run(&["tools"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.out.contains("b__echo"), "the others are shown: {}", ran.out);
    assert!(ran.err.contains("it is started as: no-such-program-here"), "{}", ran.err);
    let ran = home.run(&["call", "a__x"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    let ran = home.run(&["probe", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert_eq!(ran.err.matches("is not available").count(), 1, "it is said once: {}", ran.err);
}

#[test]
fn probe_says_how_a_server_speaks() {
    let home = Home::new();
    let ran = home.run(&["probe", "mine", "--json", "--", "python3", SERVER]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    let speaks = &found[0]["speaks"];
    assert_eq!([&found[0]["name"], &speaks["revision"]], ["mine", "2025-11-25"]);
    assert_eq!([&speaks["server"]["version"], &speaks["instructions"]], ["1.2.3", "Be kind."]);
    assert_eq!(speaks["tools"], 6);
    let ran = home.run(&["probe", "http://127.0.0.1:1/mcp"]);
    assert_eq!(ran.code, 3, "{ran:?}");
    assert!(ran.err.contains("it is looked for at http://127.0.0.1:1/mcp"), "{}", ran.err);
}

// === a server over HTTP, and a gateway that runs ===

#[test]
fn a_url_takes_the_place_of_a_file() {
    let (home, server) = (Home::new(), Server::start());
    let ran = home.run(&["call", "echo", "-a", "text=hello", "--server", &server.url]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "{\"text\": \"hello\"}\n"), "{ran:?}");
    let ran = home.run(&["probe", &server.url]);
    assert!(ran.out.contains("calls itself  scripted 1.2.3"), "{ran:?}");
}

/// R-32
#[test]
fn a_running_gateway_is_asked_by_its_url() {
    let (home, server) = (Home::new(), Server::start());
    let gateway = home.serve(&[&server.url]);
    let ran = home.run(&["tools", "--url", &gateway.clients]);
    assert!(ran.code == 0 && ran.out.contains("\necho "), "{ran:?}");
    let ran = home.run(&["call", "count", "--url", &gateway.clients]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "counted\n"), "{ran:?}");
    assert!(ran.err.contains("progress 2 of 2: step\n"), "{}", ran.err);
    let ran = home.run(&["call", "fail", "--url", &gateway.clients]);
    assert_eq!(ran.code, 5, "{ran:?}");
    let ran = home.run(&["tools", "--url", &gateway.operator]);
    assert_eq!(ran.code, 1, "no endpoint: {ran:?}");
}

/// R-32
#[test]
fn a_gateway_with_keys_wants_one() {
    let (home, server) = (Home::new(), Server::start());
    let made = home.run(&["keys", "new", "a"]).out;
    let (key, entry) = made.split_once('\n').unwrap();
    let entry: Value = serde_json::from_str(entry).unwrap();
    home.configure(&json!({
        "mcpServers": {"a": {"url": server.url}},
        "portcullis": {"auth": {"keys": [entry]}},
    }));
    let gateway = home.serve(&[]);
    assert_eq!(home.run(&["tools", "--url", &gateway.clients]).code, 4);
    let file = home.file("key", key);
    let ran = home.run(&["tools", "--url", &gateway.clients, "--key-file", file.to_str().unwrap()]);
    assert!(ran.code == 0 && ran.out.contains("a__echo"), "{ran:?}");
}

/// R-32
#[test]
fn health_ends_with_0_or_1() {
    let (home, server) = (Home::new(), Server::start());
    let gateway = home.serve(&[&server.url]);
    for flags in [&[][..], &["--ready"]] {
        // Ready comes with the first answer of the server, at the latest with the end of the start budget.
        let asked = || home.run(&[&["health", "--url", &gateway.operator], flags].concat());
        let ran =
            std::iter::repeat_with(asked).find(|ran| ran.code == 0 || !ran.err.contains("503")).unwrap();
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let url = gateway.operator.clone();
    drop(gateway);
    let ran = home.run(&["health", "--url", &url]);
    assert_eq!(ran.code, 1, "{ran:?}");
    home.configure(&json!({"portcullis": {"admin": {"listen": "127.0.0.1:0"}}}));
    let ran = home.run(&["health"]);
    assert!(ran.code == 1 && ran.err.contains("--url"), "{ran:?}");
}

// === serve ===

/// R-24
#[test]
fn serve_says_who_has_the_port() {
    let (home, taken) = (Home::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = taken.local_addr().unwrap().to_string();
    let ran = home.run(&["serve", "--listen", &address, "--admin-listen", "0", "http://127.0.0.1:1/"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.err.contains(&address) && ran.err.contains("portcullis.listen"), "{}", ran.err);
    if cfg!(target_os = "linux") {
        assert!(ran.err.contains(&format!("(pid {})", std::process::id())), "{}", ran.err);
    }
}

/// R-25, R-28
#[test]
fn serve_refuses_what_makes_no_sense() {
    let home = Home::new();
    let ran = home.run(&["serve"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    let own = home.path().join(".config/portcullis/portcullis.json");
    assert!(ran.err.contains(own.to_str().unwrap()) && ran.err.contains("\"mcpServers\""), "{}", ran.err);

    let ran = home.run(&["serve", "--listen", "0.0.0.0:0", "http://127.0.0.1:1/"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("allowAnonymous"), "{}", ran.err);

    let ran = home.run(&["serve", "npx"]);
    assert!(ran.code == 2 && ran.err.contains("serve -- npx"), "{}", ran.err);
    assert_eq!(home.run(&["serve", "-c", "a.json", "--", "npx"]).code, 2);
    assert_eq!(home.run(&["nonsense"]).code, 2);
    assert_eq!(home.run(&["--version"]).code, 0);
}

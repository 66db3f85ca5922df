//! The rules of R-12, name by name.

use super::*;

fn compile(captured: &[(&str, &str)], pass: &[&str], entry: &[(&str, &str)]) -> Vec<(String, String)> {
    let captured = captured.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
    let entry = entry.iter().map(|(name, value)| (OsStr::new(*name), OsStr::new(*value)));
    ChildEnvironment::compile(captured, pass.iter().copied(), entry)
        .iter()
        .map(|(name, value)| (name.to_str().unwrap().to_owned(), value.to_str().unwrap().to_owned()))
        .collect()
}

fn passes(name: &str) -> bool {
    !compile(&[(name, "v")], &[], &[]).is_empty()
}

fn handed_on(name: &str, value: &str) -> String {
    compile(&[(name, value)], &[], &[]).remove(0).1
}

/// F-030, as written there.
#[test]
fn f_030_the_list_the_entry_and_the_named_and_nothing_else() {
    let captured = [("GW_TOKEN", "t1"), ("PATH", "/bin"), ("FOO", "x"), ("BAR", "y")];
    assert_eq!(
        compile(&captured, &["FOO"], &[("API_KEY", "abc")]),
        [("API_KEY", "abc"), ("FOO", "x"), ("PATH", "/bin")].map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
}

/// the list, name by name.
#[test]
fn r_12_the_allow_list() {
    for name in [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "TERM",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "http_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "no_proxy",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "DOCKER_HOST",
        "DOCKER_CONTEXT",
        "npm_config_cache",
        "npm_config_registry",
        "npm_config_prefix",
        "UV_CACHE_DIR",
        "UV_INDEX_URL",
    ] {
        assert!(passes(name), "{name} is on the list");
    }
    for name in [
        "GITHUB_TOKEN",
        "OPENAI_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "CLIENT_SECRET",
        "KUBERNETES_SERVICE_HOST",
        "LD_PRELOAD",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "PORTCULLIS_SEAL_KEY",
        "XDG_API_TOKEN",
        "LC_APP_key",
        "SystemRoot",
        "path",
        "HOMEPAGE",
        "npm_config__authToken",
        "SSH_AUTH_SOCK",
    ] {
        assert!(!passes(name), "{name} is not on the list");
    }
}

/// addresses lose their userinfo.
#[test]
fn r_12_userinfo_is_stripped() {
    let table = [
        ("HTTP_PROXY", "http://user:pw@proxy:3128", "http://proxy:3128"),
        ("http_proxy", "http://proxy:3128/", "http://proxy:3128/"),
        ("https_proxy", "user:pw@proxy:3128", "proxy:3128"),
        ("all_proxy", "socks5h://u:p@[::1]:1080", "socks5h://[::1]:1080"),
        ("ALL_PROXY", "http://u:p/w@proxy:3128", "http://proxy:3128"),
        ("HTTP_PROXY", "http://u@x:p@w@proxy", "http://proxy"),
        ("UV_INDEX_URL", "https://u:t@host/simple/", "https://host/simple/"),
        ("UV_INDEX_URL", "https://host/@scope/simple", "https://host/@scope/simple"),
        ("npm_config_registry", "https://u:t@host/@scope/", "https://host/@scope/"),
        ("NO_PROXY", "localhost,.example.org", "localhost,.example.org"),
    ];
    for (name, before, after) in table {
        assert_eq!(handed_on(name, before), after, "{name}={before}");
    }
}

/// what is named is handed on as it is, even if the list would have stripped it.
#[test]
fn r_12_named_variables_are_not_filtered() {
    let captured = [("HTTP_PROXY", "http://u:p@proxy"), ("KUBERNETES_PORT", "1")];
    let got = compile(&captured, &["HTTP_PROXY", "KUBERNETES_PORT", "ABSENT"], &[]);
    assert_eq!(
        got,
        [("HTTP_PROXY", "http://u:p@proxy"), ("KUBERNETES_PORT", "1")]
            .map(|(n, v)| (n.to_owned(), v.to_owned()))
    );
}

#[test]
fn the_entry_has_the_last_word() {
    let got = compile(&[("PATH", "/bin")], &["PATH"], &[("PATH", "/opt/bin")]);
    assert_eq!(got, [("PATH".to_owned(), "/opt/bin".to_owned())]);
}

#[test]
fn debug_shows_no_values() {
    let entry = [(OsStr::new("API_KEY"), OsStr::new("hunter2"))];
    let environment = ChildEnvironment::compile([], [], entry);
    let shown = format!("{environment:?}");
    assert!(shown.contains("API_KEY") && !shown.contains("hunter2"), "{shown}");
}
